"""What both policies achieve from each start, and verdicts for groups of starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from polidiff.evaluation.monte_carlo import mean_interval
from polidiff.evaluation.verdicts import papers_verdict, verdict
from polidiff.records.arrays import AnyArray, BoolArray, FloatArray
from polidiff.records.explanation import Verdict
from polidiff.records.outcome import Interval, Outcome


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
