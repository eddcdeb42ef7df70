"""The first screen: five questions of whoever has to decide, each answered in a sentence."""

from __future__ import annotations

from polidiff.explanation.advice import advise
from polidiff.explanation.plan_verdicts import plan_verdicts
from polidiff.explanation.text import carrying_lines, changes_text, parts_unseen, plan_words, worse_off_text
from polidiff.explanation.words import (
    counted,
    few,
    listing,
    losers,
    number,
    percent,
    place_text,
    swap_text,
    verdicts_text,
)
from polidiff.records.explanation import Explanation
from polidiff.records.plan import Frontier, Plan
from polidiff.report.charts.frontier import UNITS
from polidiff.report.view import Answer

MOST_NAMED = 3


def answers(explanation: Explanation) -> tuple[Answer, ...]:
    """What changes, is it better, for whom worse, how sure, what now."""
    advice = advise(explanation)
    return (
        Answer("What now?", advice.sentence, advice.reasons),
        Answer("What changes?", _changes(explanation)),
        Answer("Is it better?", _effect(explanation), tuple(carrying_lines(explanation)[:1])),
        Answer("For whom worse?", _losers(explanation)),
        Answer("How sure is that?", _footing(explanation)),
    )


def _changes(explanation: Explanation) -> str:
    regions = explanation.regions
    if parts_unseen(explanation) and not explanation.withheld:
        return "No region was found in which the two policies part, yet outcomes differ."
    if not regions and not explanation.withheld:
        return "Nothing: the two policies act the same wherever it matters."
    share = f"{changes_text(explanation)} change"
    if not explanation.changes and regions:
        share = "What is done most often stays; how often it is done changes"
    if not regions:
        return f"{share}, all in groups too small to be shown."
    largest = sorted(regions, key=lambda region: -region.support.share)[:MOST_NAMED]
    others = len(regions) - len(largest)
    more = f"; {counted(others, 'further rule')} below" if others else ""
    return f"{share}: {'; '.join(f'{swap_text(r)} {place_text(r.rule)}' for r in largest)}{more}."


def _effect(explanation: Explanation) -> str:
    effect = verdicts_text(explanation.verdicts, explanation.outcomes)
    if not effect:
        return "No outcome is defined."
    unpreferred = [outcome.name for outcome in explanation.outcomes if outcome.prefer is None]
    asked = f" Whether more or less {listing(unpreferred[:MOST_NAMED])} is better was not said." if unpreferred else ""
    return f"{effect[0].upper()}{effect[1:]}.{asked}"


def _losers(explanation: Explanation) -> str:
    losing = losers(explanation)
    if losing:
        groups = [worse_off_text(explanation, entry) for entry in losing[:MOST_NAMED]]
        more = len(losing) - len(groups)
        first = "; ".join(groups)
        return first[0].upper() + first[1:] + (f"; and {counted(more, 'further group')}" if more else "") + "."
    if all(outcome.prefer is None for outcome in explanation.outcomes):
        return "Nobody can say before it is said which outcomes should rise or fall."
    unknown = [verdict for verdict in explanation.verdicts if verdict.direction == "unknown"]
    return "No group is shown to lose" + ("; that is not the same as nobody losing." if unknown else ".")


def _footing(explanation: Explanation) -> str:
    if all(verdict.difference.exact for verdict in explanation.verdicts):
        return "Exact: every state and move is known, and nothing was sampled."
    level = percent(explanation.methods.level)
    base = f"All intervals hold together in {level} of such studies; they come from {explanation.methods.evaluation}."
    alarms = [f"{a.name} ({a.status})" for a in explanation.assumptions if a.alarming]
    if alarms:
        return f"{base} In doubt: {few(alarms)}."
    lasting = [v.holds_up_to for v in explanation.verdicts if v.holds_up_to is not None and v.direction != "unknown"]
    if lasting:
        base += f" Unrecorded reasons that change the odds of a decision {min(lasting):.2g} times would undo it."
    return base


def plan_answers(frontier: Frontier) -> tuple[Answer, ...]:
    """The same questions about plans, answered by the plan to look at first."""
    plan = frontier.knee
    if plan is frontier.plans[0]:
        now = Answer("What now?", "No change is worth it on this evidence.")
        return (now, Answer("What changes?", "Nothing: the current policy stays."), _proof(frontier, plan))
    verdicts = plan_verdicts(frontier, plan)
    effect = verdicts_text(verdicts, frontier.outcomes)
    worse = [verdict.outcome for verdict in verdicts if verdict.valence == "worse"]
    unknown = [verdict.outcome for verdict in verdicts if verdict.direction == "unknown"]
    losing = (
        f"On average over all starts it is worse on {few(worse)}." if worse else "No outcome gets worse on average."
    )
    if unknown:
        losing += f" What it does to {few(unknown)} is not known."
    return (
        Answer("What now?", f"Look at plan {frontier.plans.index(plan) + 1} first.", (knee_text(frontier),)),
        Answer("What changes?", f"{plan_words(plan, MOST_NAMED)}."),
        Answer("Is it better?", f"{effect[0].upper()}{effect[1:]}."),
        Answer("For whom worse?", losing),
        _proof(frontier, plan),
    )


def knee_text(frontier: Frontier) -> str:
    """Why the page opens on the plan that it opens on."""
    knee, best = frontier.knee, frontier.best
    if best is frontier.plans[0]:
        return "No plan is shown to gain over the current policy."
    if knee is best:
        return "It gains most." if not frontier.judged else "It is the surest to gain."
    more = number(best.expected_return - knee.expected_return, 2)
    cost, most = number(frontier.cost(knee)), number(frontier.cost(best))
    return (
        f"Further changes pay less: going from {cost} to {most} {UNITS[frontier.unit]} adds {more} to {frontier.aim}."
    )


def _proof(frontier: Frontier, plan: Plan) -> Answer:
    if frontier.judged:
        sure = f"Gains are judged on data that did not choose the plans, at {percent(frontier.methods.level)}."
    elif plan.proven:
        sure = "Exact, and proven the best for its number of changes."
    else:
        sure = f"Its return may be up to {percent(plan.gap)} of the range from the best for its number of changes."
    alarms = [f"{a.name} ({a.status})" for a in frontier.assumptions if a.alarming]
    return Answer("How sure is that?", sure + (f" In doubt: {few(alarms)}." if alarms else ""))
