"""What follows by subtraction: parts beside a few who are withheld are told so that nobody finds the few.

Totals are told exactly. Where the people left over, once the parts shown are taken off, are at least one and fewer than
`min_group`, three things keep them hidden. The largest part is counted as if it held them. Values of parts are rounded
to what `min_group` typical people would move, bounds outwards. And where all that changes is withheld, the overall
effect is withheld too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from polidiff.records.explanation import (
    Explanation,
    Region,
    RegionEffect,
    Sentence,
    Support,
    Verdict,
    WorldSummary,
    WorseOff,
)
from polidiff.records.outcome import Interval
from polidiff.records.patch import Patch

_COUNT = re.compile(r"^Rests on .*?(?=;|\. |\.?$)")


def disclosed(whole: Explanation, left: Explanation, least: int, *, unknown: bool = False) -> Explanation:
    """What is left of a result, with nothing from which the few who were left out of the whole can be computed.

    `unknown` says that regions were left out of the whole before, nobody knows how many people they held.
    """
    units = left.world.units
    hidden = [
        sum(part.support.episodes for part in before) - sum(part.support.episodes for part in after)
        for before, after in ((whole.regions, left.regions), (whole.sentences, left.sentences))
    ]
    rows = left.world.facts.get("episodes", units)
    changed = left.changes * (rows if isinstance(rows, (int, float)) else units)
    if not left.regions and (unknown or 0 < hidden[0] < least):
        left = _without_effect(left, least)
    parts = [region.support.episodes for region in left.regions], [s.support.episodes for s in left.sentences]
    rests = [units - count for counts in parts for count in (*counts, sum(counts))]
    if not unknown and not any(0 < few < least for few in (*hidden, *rests)):
        return left
    return _blurred(left, least, units, max(changed, 1.0))


def filled(counts: Sequence[int], units: float, least: int) -> list[int]:
    """Counts of parts; the largest holds those left over where they are few.

    >>> filled([500, 295], 800, 10), filled([500, 200], 800, 10)
    ([505, 295], [500, 200])
    """
    told = [int(units) if 0 < units - count < least else count for count in counts]
    if told and 0 < units - sum(told) < least:
        told[told.index(max(told))] += int(units) - sum(told)
    return told


def counts_of_names(world: WorldSummary, least: int) -> dict[str, dict[str, int]]:
    """How many stand behind each name, such that nobody finds how many stand behind names that are not there."""
    return {
        feature: dict(zip(names, filled(list(names.values()), world.units, least), strict=True))
        for feature, names in world.people.items()
    }


def rounding(amount: float) -> float:
    """The smallest of 1, 2 or 5 times a power of ten that is at least this large.

    >>> [rounding(amount) for amount in (0.0124, 3.0, 0.0)]
    [0.02, 5.0, 0.0]
    """
    if not 0 < amount < math.inf:
        return 0.0
    power = math.floor(math.log10(amount))
    return next(s for s in (float(f"{d}e{power}") for d in (1, 2, 5, 10)) if s >= amount * (1 - 1e-9))


def _near(value: float, step: float) -> float:
    return float(f"{round(value / step) * step:.12g}") if step and math.isfinite(value) else value


def _interval(told: Interval, step: float) -> Interval:
    """Rounded, the bounds outwards."""
    if not step:
        return told
    low, high = (_near(b + s * step / 2, step) for b, s in ((told.low, -1 + 1e-9), (told.high, 1 - 1e-9)))
    return Interval(_near(told.estimate, step), low, high, told.level)


class _Blur:
    """How finely a result may speak of a part."""

    def __init__(self, record: Explanation, least: int, units: float) -> None:
        self.least, self.units, self.world, self.single = least, units, record.world, len(record.regions) == 1
        self.spread = {verdict.outcome: _spread(verdict, units) for verdict in record.verdicts}

    def step(self, outcome: str, episodes: float) -> float:
        """What twice `least` people, each a standard deviation off, would move in the mean of a part."""
        return rounding(2 * self.least * self.spread.get(outcome, 0.0) / max(episodes, 1.0))

    def share(self, share: float, of: float) -> float:
        """A share of so many units."""
        return _near(share, min(1.0, rounding(2 * self.least / max(of, 1.0))))

    def grown(self, share: float, support: Support, told: int) -> float:
        """A share, where so many are told to be behind it."""
        return 1.0 if told >= self.units else min(1.0, share * told / max(support.episodes, 1))

    def intervals(self, told: Mapping[str, Interval], episodes: float) -> dict[str, Interval]:
        return {outcome: _interval(interval, self.step(outcome, episodes)) for outcome, interval in told.items()}

    def support(self, support: Support, told: int) -> Support:
        if told == support.episodes:
            return support
        rows = self.world.facts.get("rows", told)
        named = "state" in self.world.people or not isinstance(rows, (int, float))
        states = support.states if named else round(float(rows) * told / self.units)
        return replace(
            support, states=states, episodes=told, share=self.grown(support.share, support, told), actions=()
        )

    def verdict(self, verdict: Verdict, told: int) -> Verdict:
        step = self.step(verdict.outcome, told)
        spans = {name: getattr(verdict, name) for name in ("difference", "pointwise", "current", "proposed")}
        rounded: dict[str, Any] = {
            name: span if span is None else _interval(span, step) for name, span in spans.items()
        }
        odds = None if verdict.holds_up_to is None else round(verdict.holds_up_to, 2)
        line = f"Rests on about {told} {self.world.counted_in}"
        rests = None if verdict.rests_on is None else _COUNT.sub(line, verdict.rests_on)
        return replace(verdict, **rounded, holds_up_to=odds, rests_on=rests)


def _spread(verdict: Verdict, units: float) -> float:
    """Standard deviation of one unit, from the widest interval of the mean over all."""
    spans = [span for span in (verdict.difference, verdict.current, verdict.proposed) if span is not None]
    return max((s.width for s in spans if math.isfinite(s.width)), default=0.0) / 4 * math.sqrt(units)


def _blurred(record: Explanation, least: int, units: float, changed: float) -> Explanation:
    """With parts that are counted and measured too coarsely to be taken off the totals."""
    blur = _Blur(record, least, units)
    counts = filled([region.support.episodes for region in record.regions], units, least)
    regions = tuple(_region(r, told, blur, changed) for r, told in zip(record.regions, counts, strict=True))
    counts = filled([sentence.support.episodes for sentence in record.sentences], units, least)
    sentences = tuple(_sentence(s, told, blur) for s, told in zip(record.sentences, counts, strict=True))
    worse = tuple(_worse_off(group, blur) for group in record.worse_off)
    rows = record.world.facts.get("episodes", units)
    changes = blur.share(record.changes, rows if isinstance(rows, (int, float)) else units)
    patch = _patch(record.patch)
    return replace(record, regions=regions, sentences=sentences, worse_off=worse, changes=changes, patch=patch)


def _region(region: Region, told: int, blur: _Blur, changed: float) -> Region:
    effect = region.effect
    if effect is not None:  # beside a single region, what all others do is what the few do
        others = {} if blur.single else blur.intervals(effect.without, blur.units)
        effect = RegionEffect(blur.intervals(effect.alone, blur.units), others)
    values = {
        outcome: {action: _near(value, blur.step(outcome, told)) for action, value in by.items()}
        for outcome, by in region.action_values.items()
    }
    shift = region.shift
    if shift is not None:
        shift = replace(shift, current=round(shift.current, 2), proposed=round(shift.proposed, 2))
    support, recall = blur.support(region.support, told), blur.share(region.recall, changed)
    return replace(region, support=support, recall=recall, shift=shift, action_values=values, effect=effect)


def _sentence(sentence: Sentence, told: int, blur: _Blur) -> Sentence:
    return replace(
        sentence,
        share=blur.grown(sentence.share, sentence.support, told),
        verdicts=tuple(blur.verdict(verdict, told) for verdict in sentence.verdicts),
        support=blur.support(sentence.support, told),
    )


def _worse_off(group: WorseOff, blur: _Blur) -> WorseOff:
    few = 0 < (1 - group.share) * blur.units < blur.least
    share = blur.share(group.share, blur.units) if few else group.share
    step = blur.step(group.outcome, group.share * blur.units)
    return replace(group, share=share, difference=_interval(group.difference, step))


def _patch(patch: Patch) -> Patch:
    edits = tuple(
        e
        if e.shift is None
        else replace(e, shift=replace(e.shift, current=round(e.shift.current, 2), proposed=round(e.shift.proposed, 2)))
        for e in patch.edits
    )
    return replace(patch, edits=edits)


def _without_effect(record: Explanation, least: int) -> Explanation:
    """Without what a change does that only a few meet, all the same whether they are shown."""
    why = f"not told, because fewer than {least} {record.world.counted_in} meet a change"

    def untold(verdicts: Sequence[Verdict]) -> tuple[Verdict, ...]:
        return tuple(
            Verdict(v.outcome, "unknown", _NOTHING, _NOTHING, None, v.current, None, note=why) for v in verdicts
        )

    sentences = tuple(replace(sentence, verdicts=untold(sentence.verdicts)) for sentence in record.sentences)
    verdicts = untold(record.verdicts)
    return replace(record, verdicts=verdicts, sentences=sentences, tails=(), worse_off=(), changes=0.0)


_NOTHING = Interval(math.nan, -math.inf, math.inf, 1.0)
