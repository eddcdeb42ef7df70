"""What a page says first about plans: the five answers, by the plan to look at first."""

from __future__ import annotations

import math
from dataclasses import replace

from polidiff.explanation.advice import weigh_up
from polidiff.explanation.plan_text import gained, objective, plan_verdicts, say_plans
from polidiff.explanation.said import Answer, Block, Said, blocks_of, judged_effect, undone_by
from polidiff.explanation.text import people_text
from polidiff.explanation.words import amount_text, few, in_order, interval_text, place_text
from polidiff.records.numbers import counted, number, percent
from polidiff.records.outcome import Interval
from polidiff.records.plan import Frontier, Plan
from polidiff.report.charts.frontier import UNITS
from polidiff.report.names import Numbering
from polidiff.report.plans import LOSES, change_texts, edit_texts

MOST_TOLD = 3  # changes on the first screen


def say_first_plan(frontier: Frontier, numbering: Numbering) -> Said:
    """What is said about plans, with the changes of the plan to look at first."""
    if not frontier.plans:
        return say_plans(frontier)
    said = say_plans(frontier, plan_answers(frontier))
    changes = Block("groups", "What the plan to look at first changes", change_texts(frontier.knee, numbering))
    return replace(said, blocks=blocks_of(changes, *said.blocks))


def plan_answers(frontier: Frontier) -> tuple[Answer, ...]:
    """The same questions about plans, answered by the plan to look at first."""
    plan = frontier.knee
    if plan is frontier.plans[0]:
        return (
            Answer("What now?", "No change is worth it on this evidence."),
            Answer("What changes?", "Nothing: the current policy stays."),
            Answer("Is it better?", _no_gain(frontier)),
            Answer("For whom worse?", "For nobody, as nothing changes."),
            _proof(frontier, plan),
        )
    verdicts = plan_verdicts(frontier, plan)
    advice = weigh_up(frontier, verdicts, None, f"plan {frontier.plans.index(plan) + 1}")
    worse = [verdict.outcome for verdict in verdicts if verdict.valence == "worse"]
    unknown = [verdict.outcome for verdict in verdicts if verdict.direction == "unknown"]
    losing = (
        f"On average over all {frontier.world.starts} it is worse on {few(worse)}."
        if worse
        else "No outcome gets worse on average."
    )
    told: tuple[str, ...] = ()
    groups = [line.removeprefix(LOSES) for line in plan.sentences if line.startswith(LOSES)]
    if groups:
        more = f" Further groups that lose: {len(groups) - 1}, named below." if groups[1:] else ""
        losing += f" Yet some {frontier.world.starts} lose: {groups[0]}{more}"
        told = (f"Some {frontier.world.starts} lose by it: keep the current policy for them.",)
    if unknown:
        losing += f" What it does to {few(unknown)} is not known."
    return (
        Answer("What now?", advice.sentence, (knee_text(frontier), *told, *advice.reasons)),
        Answer("What changes?", _plan_changes(plan)),
        Answer("Is it better?", judged_effect(frontier, verdicts)),
        Answer("For whom worse?", losing),
        _proof(frontier, plan),
    )


def _no_gain(frontier: Frontier) -> str:
    """What the plan that promises most would gain, where none is shown to gain."""
    judged = [plan.gain for plan in frontier.plans[1:] if plan.gain is not None and math.isfinite(plan.gain.estimate)]
    if not judged:
        return "No plan is better than the current policy."
    most = max(judged, key=lambda gain: gain.estimate)
    told = interval_text(gained(most, frontier), outcome=objective(frontier))
    plans = counted(len(frontier.plans) - 1, "plan")
    return f"Not known: of {plans}, the one that promises most changes {frontier.aim} by {told}."


def _plan_changes(plan: Plan) -> str:
    """The first few changes of a plan, each as what is done where."""
    moves = [f"{entry.deed} {place_text(entry.rule)}" for entry in plan.rules]
    texts = in_order([entry.rule for entry in plan.rules], moves) or edit_texts(plan)
    more = len(texts) - MOST_TOLD
    told = "; ".join(texts[:MOST_TOLD])
    return f"{told[0].upper()}{told[1:]}" + (f"; {counted(more, 'further change')} below." if more > 0 else ".")


def knee_text(frontier: Frontier) -> str:
    """Why the page opens on the plan that it opens on."""
    knee, best = frontier.knee, frontier.best
    if best is frontier.plans[0]:
        return "No plan is shown to gain over the current policy."
    if frontier.plans[0].breaks and not frontier.gain_of(best).low > 0:
        most = "is the surest" if frontier.judged else "returns most"
        return f"The current policy breaks what is to be kept; of the plans that keep it, this one {most}."
    if knee is best:
        if not frontier.judged:
            return "It gains most."
        guarded = best.kept and not all(plan.kept for plan in frontier)
        return f"It is the surest to gain{' that is shown to keep the guards' if guarded else ''}."
    now = frontier.plans[0].expected_return
    up_to, more = (
        amount_text(Interval.exactly(abs(gain)), objective(frontier))
        for gain in (knee.expected_return - now, best.expected_return - knee.expected_return)
    )
    cost, most = number(frontier.cost(knee)), number(frontier.cost(best))
    unit = UNITS[frontier.unit].replace("decisions", "decision") if most == "1" else UNITS[frontier.unit]
    verb, to = ("add", "to") if frontier.sign > 0 else ("take", "from")
    return (
        f"Further changes pay less: the first {cost} of {most} {unit} {verb}{'s' * (cost == '1')} {up_to} {to} "
        f"{frontier.aim}, the rest {more}."
    )


def _proof(frontier: Frontier, plan: Plan) -> Answer:
    if frontier.judged:
        level, world = percent(frontier.methods.level), frontier.world
        sure = f"In {level} of such studies the gain lies in its interval; it was measured on data that did not choose "
        sure += f"the plan, from the records of {people_text(world)}." if world.recorded else "the plan."
    elif plan.proven:
        sure = "Exact, and proven the best for its number of changes."
    else:
        sure = f"Its return may be up to {percent(plan.gap)} of the range from the best for its number of changes."
    alarms = [f"{a.name} ({a.status})" for a in frontier.assumptions if a.alarming]
    if plan.holds_up_to is not None and plan is not frontier.plans[0]:
        sure = f"{sure} {undone_by(plan.holds_up_to)}"
    return Answer("How sure is that?", sure + (f" In doubt: {few(alarms)}." if alarms else ""))
