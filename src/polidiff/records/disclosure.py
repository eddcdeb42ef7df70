"""What follows by subtraction: parts beside a few who are withheld are told so that nobody finds the few.

Totals are told exactly. Where a few are left over (at least one, fewer than `min_group`) once the parts shown are taken
off the total, or one part off another that holds it, three things keep them hidden. The larger part is counted as if it
held them. Values of parts are rounded to what `min_group` typical people would move, bounds outwards. And where all
that changes is withheld, the overall effect is withheld too. Shares within a part that speak of a few decisions (or
starts), or leave a few, are those of a multiple of `min_group` of them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from polidiff.records.action import Shift
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
from polidiff.records.plan import Frontier, Plan
from polidiff.records.rule import Rule, overlap_any, within

AnyResult = TypeVar("AnyResult", bound=Explanation | Frontier)
_COUNT = re.compile(r"^Rests on .*?(?=;|\. |\.?$)")
_BEHIND = re.compile(  # in why it is unknown
    r"(?:counted as \d[^,]*, )?\d[\d\u202f]*(?= (?:decision|episode)s? (?:are too few|of this group))"
)


def disclosed(whole: Explanation, left: Explanation, least: int, *, unknown: bool = False) -> Explanation:
    """What is left of a result, with nothing from which the few who were left out of the whole can be computed.

    `unknown` says that regions were left out of the whole before, nobody knows how many people they held. A value of
    many that rests on the few who got a policy's action is that of the few.
    """
    units = left.world.units
    hidden = [
        sum(part.support.episodes for part in before) - sum(part.support.episodes for part in after)
        for before, after in ((whole.regions, left.regions), (whole.sentences, left.sentences))
    ]
    episodes = float(left.world.facts.get("episodes", units))
    changed = left.changes * episodes
    if not left.regions and (unknown or few(hidden[0], least) or few(changed, least)):
        left = _without_effect(left, least)
    beside = beside_few([[r.rule] for r in whole.regions], [[r.rule] for r in left.regions])
    regions = tuple(
        replace(region, recall=share(region.recall, changed, least), beside_few=region.beside_few or few_before)
        for region, few_before in zip(left.regions, beside, strict=True)
    )
    beside = beside_few([s.rules for s in whole.sentences], [s.rules for s in left.sentences])
    sentences = tuple(
        replace(sentence, beside_few=sentence.beside_few or few_before)
        for sentence, few_before in zip(left.sentences, beside, strict=True)
    )
    left = replace(left, regions=regions, sentences=sentences, changes=share(left.changes, episodes, least))
    acting = [(a, region.support.episodes) for region in whole.regions for a in region.support.actions]
    hidden += [a.people for a, people in acting if max(a.current, a.proposed) * people >= least]  # given to many
    sizes = counted(left, least)
    if not unknown and sizes == _sizes(left) and not any(few(count, least) for count in hidden):
        return left
    return with_rounding_note(_blurred(left, least, sizes, max(changed, 1.0), episodes), least)


def with_rounding_note(record: AnyResult, least: int) -> AnyResult:
    """The result with a line, once, on parts that are counted with a few who are not told apart from them."""
    few = f"fewer than {least} {record.world.counted_in}"
    line = f"Counts, shares and values beside {few} are rounded or hold these few, so that nobody can be found out."
    return record if line in record.warnings else replace(record, warnings=(*record.warnings, line))


def beside_few(whole: Sequence[Sequence[Rule]], left: Sequence[Sequence[Rule]]) -> list[bool]:
    """Whether each place that is left meets an earlier one that is not: then it lies outside what nobody is shown.

    >>> from polidiff.records.rule import Condition
    >>> x = [[Rule((Condition("x", 0, high=high),))] for high in (1.0, 2.0)]
    >>> beside_few([*x, [Rule()]], [x[1], [Rule()]]), beside_few([x[1], x[0]], [x[1]])
    ([True, True], [False])
    """
    before = [whole[: whole.index(place)] if place in whole else whole for place in left]
    return [
        any(other not in left and overlap_any(other, place) for other in others)
        for place, others in zip(left, before, strict=True)
    ]


def few(count: float, least: int) -> bool:
    """Whether so many are somebody, and too few to be told of."""
    return 0.5 <= count < least - 0.5


def shares(values: Sequence[float], people: float, least: int) -> list[float]:
    """Shares of so many people; those that speak of a few, or leave a few, are of a multiple of `least` people.

    Of 40 people 93 % are all but 3. The largest is told so, too, where a few are left beside all of them.

    >>> shares([0.93], 40, 10), shares([0.55, 0.4], 100, 10), shares([0.5], 40, 10)
    ([1.0], [0.6, 0.4], [0.5])
    """
    at_risk = [few(min(value, 1 - value) * people, least) for value in values]
    if values and few((1 - math.fsum(values)) * people, least):
        at_risk[max(range(len(values)), key=values.__getitem__)] = True
    return [
        min(round(value * people / least) * least / people, 1.0) if risk else value
        for value, risk in zip(values, at_risk, strict=True)
    ]


def share(value: float, people: float, least: int) -> float:
    """One share of so many people, as in `shares`."""
    return shares([value], people, least)[0]


def coarse_shift(region: Region, decisions: float, least: int) -> Shift | None:
    """Shares of decisions that do not tell how few have an action, or have it not; None where a few change."""
    shift = region.shift
    if shift is None:
        return None
    got = {entry.action: entry.people for entry in region.support.actions}
    rises = shift.proposed > shift.current
    changing = [people for action, people in got.items() if (action != region.proposed) == rises]
    if few(max(changing, default=0), least) or abs(shift.proposed - shift.current) * decisions < least - 0.5:
        return None
    often = [o for o in shift.also if abs(o.proposed - o.current) * decisions >= least - 0.5]
    also = tuple(
        replace(o, current=share(o.current, decisions, least), proposed=share(o.proposed, decisions, least))
        for o in often
        if not few(got.get(o.action, 0), least)
    )
    return Shift(share(shift.current, decisions, least), share(shift.proposed, decisions, least), also)


def _sizes(record: Explanation) -> list[list[int]]:
    """How many stand behind each region, each sentence, and each group that is worse off."""
    parts = [[part.support.episodes for part in parts] for parts in (record.regions, record.sentences)]
    return [*parts, [round(group.behind(record.world.units)) for group in record.worse_off]]


def counted(record: Explanation, least: int) -> list[list[int]]:
    """The same, such that nobody counts a few by subtraction.

    Neither a group nor a list leaves a few of all, and a group that is all but a few of another is counted as that one.
    """
    places: list[list[tuple[Rule | None, ...]]] = [[(region.rule,) for region in record.regions]]
    places += [[(part.start, *part.also) for part in parts] for parts in (record.sentences, record.worse_off)]
    at = [(kind, k) for kind, parts in enumerate(places) for k in range(len(parts))]
    nested = [(a, b) for a in at for b in at if a != b and _holds(places[b[0]][b[1]], places[a[0]][a[1]])]
    sizes = _sizes(record)
    before: list[list[int]] = []
    while sizes != before:
        before = [list(counts) for counts in sizes]
        sizes = [filled(counts, record.world.units, least, whole=kind < 2) for kind, counts in enumerate(sizes)]
        for (i, j), (m, n) in nested:
            if few(abs(sizes[i][j] - sizes[m][n]), least):
                sizes[i][j] = sizes[m][n] = max(sizes[i][j], sizes[m][n])
    return sizes


def _holds(large: Sequence[Rule | None], small: Sequence[Rule | None]) -> bool:
    """Whether a union of places, None for everywhere, holds another."""
    return all(any(b is None or (a is not None and within(a, b)) for b in large) for a in small)


def filled(counts: Sequence[int], units: float, least: int, *, whole: bool = True) -> list[int]:
    """Counts of parts, none of which leaves a few of all; the largest holds those left over by all parts of a whole.

    >>> filled([500, 295], 800, 10), filled([500, 200], 800, 10)
    ([505, 295], [500, 200])
    """
    parts = [int(units) if few(units - count, least) else count for count in counts]
    if whole and parts and few(units - sum(parts), least):
        parts[parts.index(max(parts))] += int(units) - sum(parts)
    return parts


def counts_of_names(world: WorldSummary, least: int) -> dict[str, dict[str, int]]:
    """How many stand behind each name, such that nobody finds how many stand behind names that are not there."""
    return {
        feature: dict(zip(names, filled(list(names.values()), world.units, least), strict=True))
        for feature, names in world.people.items()
    }


def distinct_plans(record: Frontier, least: int) -> tuple[Plan, ...]:
    """Plans without those with a rule that changes all but a few of whom a rule of another plan changes."""
    distinct: list[Plan] = []
    best, episodes = record.best, float(record.world.facts.get("episodes", record.world.units))
    for plan in sorted(record.plans, key=lambda plan: plan is not best):
        pairs = ((a, b) for a in plan.rules for other in distinct for b in other.rules if a.move == b.move)
        near = ((a.rule, b.rule) for a, b in pairs if few(abs(a.changes - b.changes) * episodes, least))
        if not any(within(one, other) or within(other, one) for one, other in near):
            distinct.append(plan)
    return tuple(plan for plan in record.plans if plan in distinct)


def coarse_bounds(record: Frontier, least: int) -> Frontier:
    """Bounds above plans, rounded up to what `least` people may move: those of plans that are not shown lie below."""
    spans = [span.width for plan in record.plans[:1] for span in plan.outcomes.values() if math.isfinite(span.width)]
    step = rounding(2 * least * max(spans, default=0.0) / 4 / math.sqrt(record.world.units))

    def up(bound: float) -> float:
        return float(f"{math.ceil(bound / step - 1e-9) * step:.12g}") if step and math.isfinite(bound) else bound

    plans = tuple(
        replace(
            plan,
            bound=plan.bound if plan.proven else up(plan.bound),
            gap=round(plan.gap, 2),
            share=plan.share and round(plan.share, 2),
        )
        for plan in record.plans
    )
    return replace(record, plans=plans, hull=(), baselines=(), gap=round(record.gap, 2), optimum=up(record.optimum))


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


def _interval(interval: Interval, step: float, within: tuple[float, float] = (-math.inf, math.inf)) -> Interval:
    """Rounded, the bounds outwards but not beyond what is possible, nor to 0 from a tenth of a step on.

    >>> rounded = _interval(Interval(0.11, 0.03, 0.93, 0.95), 0.2, (0.0, 1.0))
    >>> rounded.estimate, rounded.low, rounded.high
    (0.2, 0.02, 1.0)
    """
    if not step:
        return interval
    low, high = (_near(b + s * step / 2, step) for b, s in ((interval.low, -1 + 1e-9), (interval.high, 1 - 1e-9)))
    estimate, least = _near(interval.estimate, step), float(f"{step / 10:.12g}")
    if low <= 0 and interval.low >= least * (1 - 1e-9):
        estimate, low = max(estimate, step), least
    if high >= 0 and interval.high <= -least * (1 - 1e-9):
        estimate, high = min(estimate, -step), -least
    low, high = max(low, min(interval.low, within[0])), min(high, max(interval.high, within[1]))
    return Interval(min(max(estimate, low), high), low, high, interval.level)


class _Blur:
    """How finely a result may speak of a part."""

    def __init__(self, record: Explanation, least: int, units: float) -> None:
        self.least, self.units, self.world, self.single = least, units, record.world, len(record.regions) == 1
        self.spread = {verdict.outcome: _spread(verdict, units) for verdict in record.verdicts}
        self.ranges = {outcome.name: outcome.range for outcome in record.outcomes if outcome.range is not None}

    def step(self, outcome: str, episodes: float) -> float:
        """What twice `least` people, each a standard deviation off, would move in the mean of a part."""
        return rounding(2 * self.least * self.spread.get(outcome, 0.0) / max(episodes, 1.0))

    def share(self, share: float, of: float) -> float:
        """A share of so many units."""
        return _near(share, min(1.0, rounding(2 * self.least / max(of, 1.0))))

    def grown(self, share: float, count: int, of: str) -> float:
        """A share of all rows, or of all episodes, that so many people have: each has one at least."""
        return max(share, count / float(self.world.facts.get(of, self.units)))

    def difference(self, outcome: str, interval: Interval, episodes: float) -> Interval:
        """What a part of so many gains."""
        low, high = self.ranges.get(outcome, (-math.inf, math.inf))
        return _interval(interval, self.step(outcome, episodes), (low - high, high - low))

    def intervals(self, of: Mapping[str, Interval], episodes: float) -> dict[str, Interval]:
        return {outcome: self.difference(outcome, interval, episodes) for outcome, interval in of.items()}

    def support(self, support: Support, count: int) -> Support:
        if count == support.episodes:
            return support
        states = support.states if "state" in self.world.people else max(support.states, count)
        return replace(
            support, states=states, episodes=count, share=self.grown(support.share, count, "rows"), actions=()
        )

    @staticmethod
    def speaks(rounded: Interval, interval: Interval, step: float) -> bool:
        """Whether a rounded interval still says something: no step is as wide, and what excludes 0 still does."""
        undecided = rounded.contains(0.0) and not interval.contains(0.0)
        return not (undecided or 0 < interval.width <= step)

    def verdict(self, verdict: Verdict, count: int) -> Verdict:
        step = self.step(verdict.outcome, count)
        gains = {"difference": verdict.difference, "pointwise": verdict.pointwise}
        rounded: dict[str, Any] = {name: self.difference(verdict.outcome, gain, count) for name, gain in gains.items()}
        if not self.speaks(rounded["difference"], verdict.difference, step):
            why = f"not told, so that nobody finds out about fewer than {self.least} {self.world.counted_in}"
            return _untold(verdict, why)
        among = self.ranges.get(verdict.outcome, (-math.inf, math.inf))
        for name in ("current", "proposed"):
            span = getattr(verdict, name)
            rounded[name] = None if span is None else _interval(span, step, among)
        odds = None if verdict.holds_up_to is None else round(verdict.holds_up_to, 2)
        line = f"Rests on about {count} {self.world.counted_in}"
        rests = None if verdict.rests_on is None else _COUNT.sub(line, verdict.rests_on)
        note = None if verdict.note is None else _BEHIND.sub("the", verdict.note)
        return replace(verdict, **rounded, holds_up_to=odds, rests_on=rests, note=note)


def _spread(verdict: Verdict, units: float) -> float:
    """Standard deviation of one unit, from the widest interval of the mean over all."""
    spans = [span for span in (verdict.difference, verdict.current, verdict.proposed) if span is not None]
    return max((s.width for s in spans if math.isfinite(s.width)), default=0.0) / 4 * math.sqrt(units)


def _blurred(
    record: Explanation, least: int, sizes: Sequence[Sequence[int]], changed: float, episodes: float
) -> Explanation:
    """With parts that are counted and measured too coarsely to be taken off the totals."""
    units = record.world.units
    blur = _Blur(record, least, units)
    regions = tuple(_region(part, count, blur, changed) for part, count in zip(record.regions, sizes[0], strict=True))
    sentences = tuple(_sentence(part, count, blur) for part, count in zip(record.sentences, sizes[1], strict=True))
    losing = [_worse_off(part, count, blur) for part, count in zip(record.worse_off, sizes[2], strict=True)]
    worse = tuple(
        told
        for told, group in zip(losing, record.worse_off, strict=True)
        if blur.speaks(told.difference, group.difference, blur.step(group.outcome, group.behind(units)))
    )
    changes = blur.share(record.changes, episodes)
    return replace(record, regions=regions, sentences=sentences, worse_off=worse, changes=changes)


def _region(region: Region, count: int, blur: _Blur, changed: float) -> Region:
    effect = region.effect
    if effect is not None:  # beside a single region, what all others do is what the few do
        others = {} if blur.single else blur.intervals(effect.without, blur.units)
        effect = RegionEffect(blur.intervals(effect.alone, blur.units), others)
    values = {
        outcome: {action: _near(value, blur.step(outcome, count)) for action, value in by.items()}
        for outcome, by in region.action_values.items()
    }
    shift = region.shift
    if shift is not None:
        shift = replace(shift, current=round(shift.current, 2), proposed=round(shift.proposed, 2))
    support, recall = blur.support(region.support, count), blur.share(region.recall, changed)
    return replace(region, support=support, recall=recall, shift=shift, action_values=values, effect=effect)


def _sentence(sentence: Sentence, count: int, blur: _Blur) -> Sentence:
    """With coarse values, unless it is about everyone, as the totals are."""
    whole = sentence.start is None and not sentence.starts
    return replace(
        sentence,
        share=blur.grown(sentence.share, count, "episodes"),
        verdicts=sentence.verdicts if whole else tuple(blur.verdict(verdict, count) for verdict in sentence.verdicts),
        support=blur.support(sentence.support, count),
    )


def _worse_off(group: WorseOff, count: int, blur: _Blur) -> WorseOff:
    behind = group.behind(blur.units)
    share = group.share if count == round(behind) else blur.grown(group.share, count, "episodes")
    difference = blur.difference(group.outcome, group.difference, behind)
    return replace(group, share=share, difference=difference, people=count if group.people else None)


def _without_effect(record: Explanation, least: int) -> Explanation:
    """Without what a change does that only a few meet, all the same whether they are shown."""
    why = f"not told, because fewer than {least} {record.world.counted_in} meet a change"

    def untold(verdicts: Sequence[Verdict]) -> tuple[Verdict, ...]:
        return tuple(replace(_untold(verdict, why), current=verdict.current) for verdict in verdicts)

    sentences = tuple(replace(sentence, verdicts=untold(sentence.verdicts)) for sentence in record.sentences)
    verdicts = untold(record.verdicts)
    return replace(record, verdicts=verdicts, sentences=sentences, tails=(), worse_off=(), changes=0.0)


def _untold(verdict: Verdict, why: str) -> Verdict:
    return Verdict(verdict.outcome, "unknown", _NOTHING, _NOTHING, None, note=why)


_NOTHING = Interval(math.nan, -math.inf, math.inf, 1.0)
