r"""From an interval of a difference to a word: more, less, same or unknown (h_oc of the paper, mended).

The paper compares a point estimate of the current policy with an interval of the proposed one; here the interval is
that of the paired difference. Zero outside it decides a direction; an interval within ± margin means "same";
everything else is unknown, and stays so.

Expected outcomes from played episodes, alone or paired.

The interval of a mean is Student's, :math:`\bar g \pm t_{n-1}\, s / \sqrt n`. Where the sample is skewed it also spans
that of Hall's transformation (On the removal of skewness by transformation, 1992), which reaches further towards the
long tail. Two policies are compared on common random numbers: episode i has the same start and the same luck under
both, and the interval is that of the mean of the differences. What no episode met, no interval knows: `rare_events`
says where that matters, for every result that rests on played episodes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from polidiff.records.arrays import AnyArray, BoolArray, FloatArray, IntArray
from polidiff.records.explanation import Verdict, VerdictDirection
from polidiff.records.numbers import counted, number
from polidiff.records.outcome import Assumption, Interval, Outcome

ROUNDING = 1e-9
SKEWED = 1.0  # skewness of a sample from which its interval reaches further on one side
EXACT_FROM = 1000  # that many equal values, and none other, count as certain
FEWEST_TO_JUDGE, FEWEST_IN_GROUP = 100, 20  # episodes below which a mean is in doubt, whatever they are
EPISODES_PER_SKEW = 25  # times the square of the skewness, from which a mean is nearly normal (Cochran's rule)
MOST_DOUBTS = 3  # samples that are named; others are counted
RARE_IN_GROUPS = "rare events in groups"  # a doubt about some starts, not about all of them


def direction_of(difference: Interval, margin: float) -> VerdictDirection:
    """The word for an interval.

    >>> direction_of(Interval(0.2, 0.1, 0.3, 0.95), margin=0.0)
    'more'
    >>> direction_of(Interval(0.0, -0.1, 0.1, 0.95), margin=0.0)
    'unknown'
    >>> direction_of(Interval(0.0, -0.1, 0.1, 0.95), margin=0.1)
    'same'
    """
    scale = ROUNDING * (1 + abs(difference.estimate))
    if difference.low >= -margin - scale and difference.high <= margin + scale:
        return "same"
    if difference.low > scale:
        return "more"
    if difference.high < -scale:
        return "less"
    return "unknown"


def verdict(
    outcome: Outcome,
    difference: Interval,
    pointwise: Interval,
    *,
    current: Interval | None = None,
    proposed: Interval | None = None,
    unsupported: float | None = None,
    note: str | None = None,
) -> Verdict:
    """The verdict on one outcome; the simultaneous interval decides."""
    direction = direction_of(difference, outcome.margin)
    return Verdict(
        outcome.name,
        direction,
        difference,
        pointwise,
        outcome.valence(direction),
        current,
        proposed,
        unsupported,
        note,
    )


def as_unknown(verdict: Verdict, reason: str) -> Verdict:
    """No verdict, for a reason: intervals reach 0, so that whatever is decided by them is not decided either."""
    if verdict.direction == "unknown" and verdict.note:
        return verdict
    both = [replace(i, low=min(i.low, 0.0), high=max(i.high, 0.0)) for i in (verdict.difference, verdict.pointwise)]
    return replace(verdict, direction="unknown", valence=None, difference=both[0], pointwise=both[1], note=reason)


def not_carried(verdict: Verdict, outcome: Outcome, reason: str, current: Interval | None = None) -> Verdict:
    """No verdict, because the data cannot carry it: of the proposed policy only the declared range is known.

    `current` is what the current policy brings, where the data carry that.

    >>> told = Interval(0.2, 0.1, 0.3, 0.95)
    >>> before = verdict(Outcome("well", range=(0.0, 1.0)), told, told)
    >>> not_carried(before, Outcome("well", range=(0.0, 1.0)), "nobody has tried it").difference
    Interval(estimate=0.2, low=-1.0, high=1.0, level=0.95)
    """
    low, high = (-math.inf, math.inf) if outcome.range is None else outcome.range
    least, most = (low, high) if current is None else (current.low, current.high)

    def possible(interval: Interval, low: float, high: float) -> Interval:
        return replace(interval, low=min(low, interval.estimate), high=max(high, interval.estimate))

    both = [possible(interval, low - most, high - least) for interval in (verdict.difference, verdict.pointwise)]
    proposed = None if verdict.proposed is None else possible(verdict.proposed, low, high)
    unknown = replace(verdict, direction="unknown", valence=None, note=reason)
    return replace(unknown, difference=both[0], pointwise=both[1], proposed=proposed)


def papers_verdict(current: float, proposed: Interval) -> VerdictDirection:
    """The paper's rule: the current estimate against the interval of the proposed policy, its slip mended (M8).

    >>> papers_verdict(1.0, Interval(2.0, 1.5, 2.5, 0.95)), papers_verdict(2.2, Interval(2.0, 1.5, 2.5, 0.95))
    ('more', 'unknown')
    """
    scale = ROUNDING * (1 + abs(current))
    if current < proposed.low - scale:
        return "more"
    if current > proposed.high + scale:
        return "less"
    return "same" if proposed.width == 0 else "unknown"


def mean_interval(values: FloatArray, level: float) -> Interval:
    """Mean of a sample with its interval; unbounded from fewer than two values.

    Width 0 is claimed only when at least 1,000 values are all equal.

    >>> mean_interval(np.array([1.0, 2.0, 3.0]), 0.95).estimate
    2.0
    """
    count = len(values)
    if count == 0:
        return Interval(math.nan, -math.inf, math.inf, level)
    estimate = float(values.mean())
    if count < 2:
        return Interval(estimate, -math.inf, math.inf, level)
    spread = float(values.std(ddof=1))
    if spread <= 1e-12 * (1 + abs(estimate)):
        if count >= EXACT_FROM:
            return Interval(estimate, estimate, estimate, level)
        spread = _spread_that_could_hide(values, estimate, level)
    quantile, error = student_quantile(level, count - 1), spread / math.sqrt(count)
    low, high = estimate - quantile * error, estimate + quantile * error
    skew = skewness(values)
    if abs(skew) > SKEWED:
        low = min(low, estimate - error * _untransformed(quantile, skew / math.sqrt(count)))
        high = max(high, estimate - error * _untransformed(-quantile, skew / math.sqrt(count)))
    return Interval(estimate, low, high, level)


def mean_changes(episode: IntArray, changed: FloatArray, episodes: int, level: float) -> Interval:
    """Changed decisions per episode, of visits (n,) with the episode and the chance of another decision of each.

    >>> mean_changes(np.array([0, 0, 1]), np.array([1.0, 1.0, 0.0]), 2, 0.95).estimate
    1.0
    """
    interval = mean_interval(np.bincount(episode, changed, episodes).astype(np.float64), level)
    return replace(interval, low=max(0.0, interval.low))


def skewness(values: FloatArray) -> float:
    """Third moment over the cube of the spread; 0 for fewer than three values or equal ones."""
    spread = float(values.std(ddof=1)) if len(values) > 2 else 0.0
    return float(((values - values.mean()) ** 3).mean() / spread**3) if spread > 0 else 0.0


def rare_events(samples: Mapping[str, FloatArray], name: str = "rare events") -> tuple[Assumption, ...]:
    """That rarer, larger episodes may not have been seen, of samples by name; nothing where none is in doubt.

    >>> [doubt.status for doubt in rare_events({"return": np.zeros(10)})], rare_events({"return": np.arange(100.0)})
    (['doubtful'], ())
    """
    fewest = FEWEST_IN_GROUP if name == RARE_IN_GROUPS else FEWEST_TO_JUDGE
    doubts = [doubt for mean, values in samples.items() if (doubt := _unmet(mean, values, fewest)) is not None]
    if not doubts:
        return ()
    named = [detail for detail, _ in doubts[:MOST_DOUBTS]]
    more = [f"{len(doubts) - MOST_DOUBTS} more in doubt likewise"] if len(doubts) > MOST_DOUBTS else []
    needed = max(episodes for _, episodes in doubts)
    enough = counted(needed, "episode")
    consequence = f"Intervals know only what was seen and may be too short; at least {enough} are needed."
    return (Assumption(name, "spread of the episodes", "doubtful", "; ".join(named + more), consequence),)


def _unmet(name: str, values: FloatArray, fewest: int) -> tuple[str, int] | None:
    """Why a sample may have missed something (few episodes, all equal, a few carry the mean), and how many tell."""
    count, skew = len(values), skewness(values)
    needed = round(EPISODES_PER_SKEW * skew**2)
    episodes, rare = counted(count, "episode"), f"what happens in fewer than {min(3, count)} of {number(count)}"
    if count and not values.any():  # an event of 3 in `count` may be there, and 25 of it make a mean
        return f"{name} is 0 in all of {episodes}, and {rare} may not have been seen", max(
            EXACT_FROM, math.ceil(EPISODES_PER_SKEW * count / 3)
        )
    if 0 < count < EXACT_FROM and np.ptp(values) == 0:
        return f"{name} is the same in all of {episodes}, and {rare} may not have been seen", EXACT_FROM
    if count < fewest:
        return f"{episodes} of {name} may not show {rare}", FEWEST_TO_JUDGE
    if abs(skew) > SKEWED and count < needed:
        return f"a few of {episodes} carry the mean of {name}", needed
    return None


def _untransformed(quantile: float, skew: float) -> float:
    """Where Hall's cubic of a studentised mean is the quantile; `skew` is the sample's over the root of its size.

    >>> round(_untransformed(2.0, 1e-6), 3)
    2.0
    """
    return 3 / skew * (math.copysign(abs(inner := 1 + skew * (quantile - skew / 6)) ** (1 / 3), inner) - 1)


def student_quantile(level: float, freedom: float) -> float:
    """Student's quantile for a two-sided interval, given degrees of freedom."""
    from scipy import stats

    return float(stats.t.ppf(0.5 + level / 2, freedom))


def _spread_that_could_hide(values: FloatArray, estimate: float, level: float) -> float:
    """A few equal values do not prove that all are: another may hide in a share 1 − (1 − level)^(1/n)."""
    hidden = 1 - (1 - level) ** (1 / len(values))
    return float(math.sqrt(hidden) * max(abs(estimate), 1.0))


@dataclass(frozen=True, eq=False)
class StartOutcomes:
    """Starts with what both policies achieve from there."""

    features: AnyArray  # (n, d) of the starts
    weight: FloatArray  # (n,)
    current: FloatArray  # (n, M) outcomes
    proposed: FloatArray  # (n, M)
    exact: bool  # expected values, not single episodes
    method: str
    cut: tuple[float, float] = (0.0, 0.0)  # share of the episodes of each policy that reached the horizon

    @property
    def difference(self) -> FloatArray:
        """(n, M) proposed − current."""
        return self.proposed - self.current

    def interval(self, values: FloatArray, members: BoolArray, level: float) -> Interval:
        """Mean over some starts, with its interval."""
        if self.exact:
            weight = self.weight[members]
            return Interval.exactly(float(weight @ values[members] / weight.sum()))
        return mean_interval(values[members], level)


def judge_groups(
    judged: StartOutcomes,
    groups: Sequence[BoolArray],
    unchanged: Sequence[bool],
    outcomes: tuple[Outcome, ...],
    level: float,
    family: int,
    *,
    papers_rule: bool = False,
) -> list[tuple[Verdict, ...]]:
    """Verdicts for groups of starts, at a level that holds for the whole family at once (Bonferroni).

    A group in which the policies never part has a difference of exactly 0. With `papers_rule` the direction is the
    paper's: the current estimate against the interval of the proposed policy.
    """
    strict = 1 - (1 - level) / max(1, family)
    shown = [
        tuple(_verdict(judged, members, m, outcome, level, strict, same) for m, outcome in enumerate(outcomes))
        for members, same in zip(groups, unchanged, strict=True)
    ]
    return [tuple(map(by_papers_rule, row, outcomes)) for row in shown] if papers_rule else shown


def by_papers_rule(verdict: Verdict, outcome: Outcome) -> Verdict:
    """The verdict by h_oc: the current policy's estimate against the interval of the proposed one.

    The difference that is told is the one that this rule looks at, so that its interval and the word agree.
    """
    current, proposed = verdict.current, verdict.proposed
    assert current is not None
    assert proposed is not None
    if verdict.difference.exact and verdict.difference.estimate == 0:
        return replace(verdict, direction="same", valence=None)
    direction = papers_verdict(current.estimate, proposed)
    at = current.estimate
    seen = Interval(proposed.estimate - at, proposed.low - at, proposed.high - at, proposed.level)
    return replace(
        verdict,
        direction=direction,
        difference=seen,
        pointwise=seen,
        valence=outcome.valence(direction),
        note=verdict.note if direction == "unknown" else None,
        holds_up_to=verdict.holds_up_to if direction == verdict.direction else None,
    )


def where_papers_rule_differs(ours: Sequence[Verdict], papers: Sequence[Verdict], failed: Sequence[str]) -> str | None:
    """What the paper's rule for verdicts passes over; None where it says what ours says and nothing failed."""
    pairs = zip(ours, papers, strict=True)
    turned = [(own.outcome, other.direction) for own, other in pairs if own.direction == "unknown" != other.direction]
    if not failed and not turned:
        return None
    names = ", ".join(name for name, _ in turned)
    if not failed:
        return f"Verdicts are the paper's; by the default rule the effect on {names} is unknown."
    said = ", ".join(f"{name} {direction}" for name, direction in turned)
    stays = f", so the effect on {names} stays unknown; its rule alone would say: {said}" if turned else ""
    return f"Verdicts are the paper's, whose rule tests no assumption; here {', '.join(failed)} failed{stays}."


def _verdict(
    judged: StartOutcomes, members: BoolArray, m: int, outcome: Outcome, level: float, strict: float, same: bool
) -> Verdict:
    difference = judged.difference[:, m]
    if same and not difference[members].any():
        both = [Interval.exactly(0.0)] * 2
    else:
        both = [judged.interval(difference, members, each) for each in (strict, level)]
    return verdict(
        outcome,
        both[0],
        both[1],
        current=judged.interval(judged.current[:, m], members, level),
        proposed=judged.interval(judged.proposed[:, m], members, level),
    )
