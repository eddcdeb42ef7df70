"""Who is shown to lose, and in which words: groups of starts, of which the first told that covers a start counts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from polidiff.explanation.region_places import outside
from polidiff.explanation.words import MOST_LISTED, MOSTLY, names_states, names_text, rule_text
from polidiff.records.explanation import Explanation, Region, Sentence, WorseOff
from polidiff.records.numbers import percent
from polidiff.records.rule import overlap_any


def after_another(explanation: Explanation, sentence: Sentence) -> bool:
    """Whether an earlier sentence tells of starts that this one's rules cover: a start belongs to the first of them."""
    before = takewhile(lambda other: other is not sentence, explanation.sentences)
    return any(overlap_any(other.rules, sentence.rules) for other in before)


def losers(explanation: Explanation) -> tuple[WorseOff, ...]:
    """Everyone who is shown to lose: the groups that were looked for, and whoever a verdict calls worse off.

    That all starts lose is for the verdict to say, whose interval is the one that is told elsewhere; so it is where the
    groups that were looked for are nearly everyone.
    """
    shares: dict[str, float] = {}
    for entry in explanation.worse_off:
        shares[entry.outcome] = shares.get(entry.outcome, 0.0) + entry.share
    whole = {v.outcome for v in explanation.verdicts if v.valence == "worse" and shares.get(v.outcome, 0.0) > MOSTLY}
    looked_for = [entry for entry in explanation.worse_off if entry.start is not None and entry.outcome not in whole]
    with_groups = {entry.outcome for entry in looked_for}
    everyone = [
        WorseOff(verdict.outcome, None, 1.0, verdict.difference)
        for verdict in explanation.verdicts
        if verdict.valence == "worse" and verdict.outcome not in with_groups
    ]
    with_groups |= {entry.outcome for entry in everyone}
    groups = [
        WorseOff(
            verdict.outcome,
            sentence.start,
            sentence.share,
            verdict.difference,
            sentence.starts,
            also=sentence.also,
            other=after_another(explanation, sentence),
        )
        for sentence in explanation.sentences
        for verdict in sentence.verdicts
        if verdict.valence == "worse" and verdict.outcome not in with_groups
    ]
    return (*everyone, *looked_for, *groups)


def group_words(explanation: Explanation, entry: WorseOff, *, share: bool = False, numbered: bool = True) -> str:
    """The starts of a group that loses, with their share if asked for; a record lists at most fifty of them by name.

    That all starts lose is said of their mean: some of them may not. Where every episode is one decision, groups are
    the regions, of which the first that fits counts; which come before is told by their numbers if the reader has them.
    """
    starts = explanation.world.starts
    if entry.start is None or (not entry.start.conditions and percent(entry.share) == percent(1.0)):
        return f"all {starts} together"
    if share:
        return f"{group_words(explanation, entry, numbered=numbered)} ({percent(entry.share)} of {starts})"
    if not entry.start.conditions:  # the last of groups of which the first that fits counts
        return f"the other {starts}"
    if names_states(entry.start):
        names = entry.starts or [str(value) for value in entry.start.conditions[0].values or ()]
        return f"{starts} in {names_text(names, 'and', more=len(entry.starts) >= MOST_LISTED)}"
    same = [region.id for region in explanation.regions if explanation.world.one_step and region.rule == entry.start]
    apart = beside(explanation.regions, same[0], numbered=numbered) if same else ""
    where = " or ".join(map(rule_text, (entry.start, *entry.also)))
    return f"{'other ' * (entry.other and not apart)}{starts} where {where}{apart}"


def beside(regions: Sequence[Region], region: str, *, numbered: bool) -> str:
    """That a region lies outside earlier ones, by their numbers if the reader has them."""
    others = outside(regions)[region]
    return others if numbered or not others else ", outside other regions"
