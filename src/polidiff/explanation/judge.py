"""What the proposed policy does to outcomes, for groups of starts: exact in a table, paired episodes in a simulator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from polidiff.evaluation.exact import ExactEvaluator, outcome_tensor
from polidiff.evaluation.monte_carlo import mean_interval
from polidiff.evaluation.verdicts import papers_verdict, verdict
from polidiff.policies import Policy
from polidiff.records.arrays import AnyArray, BoolArray, FloatArray
from polidiff.records.explanation import Verdict
from polidiff.records.interval import Interval
from polidiff.records.outcome import Outcome
from polidiff.worlds.rollouts import roll_out
from polidiff.worlds.simulator import Simulator
from polidiff.worlds.tabular import TabularMDP


@dataclass(frozen=True, eq=False)
class Judged:
    """Starts with what both policies achieve from there."""

    features: AnyArray  # (n, d) of the starts
    weight: FloatArray  # (n,)
    current: FloatArray  # (n, M) outcomes
    proposed: FloatArray  # (n, M)
    exact: bool  # expected values, not single episodes
    method: str
    truncated: float = 0.0

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


def judge_table(world: TabularMDP, current: FloatArray, proposed: FloatArray) -> Judged:
    """Exact expected outcomes from every start under both policies (S, A)."""
    gains, starts = outcome_tensor(world), world.starts
    values = []
    for table in (current, proposed):
        evaluator = ExactEvaluator(world, table)
        evaluator.check_ends(world.initial)
        values.append(evaluator.values(gains)[starts])
    return Judged(world.features_of(starts), world.initial[starts], values[0], values[1], True, "exact")


def judge_simulator(
    world: Simulator, current: Policy, proposed: Policy, *, episodes: int, seed: tuple[int, ...]
) -> Judged:
    """Paired episodes: the same starts and the same luck under both policies."""
    played = [
        roll_out(world, policy, episodes=episodes, seed=seed, what=f"paired episodes, {name}")
        for policy, name in ((current, "current"), (proposed, "proposed"))
    ]
    return Judged(
        world.features_of(played[0].starts),
        np.full(episodes, 1 / episodes),
        played[0].totals,
        played[1].totals,
        False,
        f"{episodes} paired episodes",
        max(part.truncated_share for part in played),
    )


def judge_groups(
    judged: Judged,
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
    told = [
        tuple(_verdict(judged, members, m, outcome, level, strict, same) for m, outcome in enumerate(outcomes))
        for members, same in zip(groups, unchanged, strict=True)
    ]
    return [tuple(map(_by_papers_rule, row, outcomes)) for row in told] if papers_rule else told


def _by_papers_rule(verdict: Verdict, outcome: Outcome) -> Verdict:
    assert verdict.current is not None
    assert verdict.proposed is not None
    direction = papers_verdict(verdict.current.estimate, verdict.proposed)
    if verdict.difference.exact and verdict.difference.estimate == 0:
        direction = "same"
    return replace(verdict, direction=direction, valence=outcome.valence(direction))


def _verdict(
    judged: Judged, members: BoolArray, m: int, outcome: Outcome, level: float, strict: float, same: bool
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
