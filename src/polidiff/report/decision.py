"""The first screen: five questions of whoever has to decide, each answered in a sentence."""

from __future__ import annotations

from polidiff.explanation.advice import advise
from polidiff.explanation.text import changes_text, parts_unseen, worse_off_text
from polidiff.explanation.words import counted, listing, losers, percent, place_text, swap_text, verdicts_text
from polidiff.records.explanation import Explanation
from polidiff.report.view import Answer

MOST_NAMED = 3


def answers(explanation: Explanation) -> tuple[Answer, ...]:
    """What changes, is it better, for whom worse, how sure, what now."""
    advice = advise(explanation)
    return (
        Answer("What now?", advice.sentence, advice.reasons),
        Answer("What changes?", _changes(explanation)),
        Answer("Is it better?", _effect(explanation)),
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
        return f"{base} In doubt: {listing(alarms)}."
    lasting = [v.holds_up_to for v in explanation.verdicts if v.holds_up_to is not None and v.direction != "unknown"]
    if lasting:
        base += f" Unrecorded reasons that change the odds of a decision {min(lasting):.2g} times would undo it."
    return base
