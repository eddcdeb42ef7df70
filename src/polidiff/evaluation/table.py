"""What policies achieve in a known table: exactly, from every start and from any state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from polidiff.errors import InvalidInputError
from polidiff.evaluation.comparison import (
    Achieved,
    Comparison,
    Effects,
    Intervals,
    RegionChanges,
    Values,
    check_estimator,
)
from polidiff.evaluation.exact import (
    ExactEvaluator,
    exact_evaluator,
    finite_horizon_values,
    outcome_tensor,
    policy_table,
)
from polidiff.evaluation.verdicts import StartOutcomes
from polidiff.options import EvaluateOptions
from polidiff.policies import Policy, PolicyLike, TablePolicy, changed_decisions, table_policy
from polidiff.policies.protocol import FeaturesOf
from polidiff.records.arrays import AnyArray, BoolArray, FloatArray, IntArray
from polidiff.records.explanation import Arrow, WorldSummary
from polidiff.records.outcome import Evaluation, Interval
from polidiff.worlds.protocol import policy_in, world_summary
from polidiff.worlds.tabular import TabularMDP

MOST_STARTS = 10_000
ROUNDING = 1e-9  # of chances
RELATIVE = 1e-11  # by how much of itself a value may be off, however short the episodes
SMALL_TABLE = 40  # states up to which the moves are shown


def evaluate(world: TabularMDP, policy: PolicyLike, options: EvaluateOptions) -> Evaluation:
    """Exact expected outcomes, overall and from every start; over the first `horizon` decisions if given."""
    check_estimator(options.evaluation, ())
    evaluator, gains, method = exact_evaluator(world, policy), outcome_tensor(world), "exact"
    if options.horizon is None:
        evaluator.check_ends()
        values = evaluator.values(gains)
    else:
        values = finite_horizon_values(evaluator, gains, options.horizon)
        method += f", horizon {options.horizon}"
    starts = world.starts
    overall = world.initial[starts] @ values[starts]
    per_start = {
        outcome.name: {world.states[s]: Interval.exactly(values[s, m]) for s in starts[:MOST_STARTS]}
        for m, outcome in enumerate(world.outcomes)
    }
    outcomes = {outcome.name: Interval.exactly(overall[m]) for m, outcome in enumerate(world.outcomes)}
    return Evaluation(outcomes, per_start, method, truncated=0.0, details={"states": world.n_states})


def compare(world: TabularMDP, current: PolicyLike, proposed: PolicyLike, *, seed: int = 0) -> TableComparison:
    """Two policies in a table; no luck is needed."""
    old, new = (table_policy(policy_table(world, policy)) for policy in (current, proposed))
    return TableComparison(world, old, new)


class Followed(NamedTuple):
    """A model of states that know some of the past, in which a policy is followed."""

    world: TabularMDP
    proposed: TablePolicy
    begins: IntArray  # (S,) deeper state in which an episode begins that begins in a state
    shown: IntArray  # (deeper states,) state that each is shown as
    steps: int | None  # decisions of an episode, where they are known; None: the model says when it ends


class TableComparison(Comparison):
    """Two policies (S, A) in a table: everything is known."""

    def __init__(self, place: TabularMDP, current: TablePolicy, proposed: TablePolicy) -> None:
        self.world = place
        self.place: TabularMDP = place
        self.current: TablePolicy = current
        self.proposed: TablePolicy = proposed

    def achieved(self, diverging: BoolArray, *, length: float, max_steps: int, level: float, seed: int) -> Achieved:
        """Exact outcomes from every start, which form groups and judge them."""
        known = start_outcomes(self.place, self.current.table, self.proposed.table)
        changed = changed_decisions(self.current.table, self.proposed.table)
        visits = ExactEvaluator(self.place, self.proposed.table).visits()
        return Achieved(known, known, float(visits @ np.where(self.place.absorbing, 0.0, changed)))

    def summary(self, seen: AnyArray, facts: Mapping[str, str | float | int]) -> WorldSummary:
        """States, starts, and the ranges of features over all states."""
        return world_summary(self.place, seen, facts)

    def names(self, states: AnyArray) -> tuple[str, ...]:
        """Names of the states."""
        return tuple(self.place.states[s] for s in states)

    def edited_states(self, states: AnyArray, action: int) -> tuple[int, ...] | None:
        """States that allow the action."""
        return tuple(int(s) for s in states if self.place.allowed[s, action])

    @property
    def patch_features(self) -> FeaturesOf | None:
        """A patch of a table lists its states."""
        return None

    def action_values(self, states: AnyArray, weight: FloatArray, region: int, *, seed: int) -> Mapping[str, Values]:
        """Means over the states of a region, weighted by visits."""
        if not len(states):
            return {}
        share = weight / weight.sum() if weight.sum() > 0 else np.full(len(states), 1 / len(states))
        result: dict[str, dict[str, float]] = {}
        for m, outcome in enumerate(self.place.outcomes):
            here = self._action_values[states, :, m]
            mass = share @ ~np.isnan(here)
            means = np.divide(share @ np.nan_to_num(here), mass, out=np.full(len(mass), np.nan), where=mass > 0)
            actions = self.place.actions
            result[outcome.name] = {actions[a].name: float(v) for a, v in enumerate(means) if not np.isnan(v)}
        return result

    @cached_property
    def _action_values(self) -> FloatArray:
        """Expected outcomes (S, A, M) of taking an action and following the proposed policy from then on."""
        world, gains = self.place, outcome_tensor(self.place)
        values = np.nan_to_num(ExactEvaluator(world, self.proposed.table).values(gains))
        ahead = (world.transitions @ values).reshape(gains.shape)
        return np.where(world.allowed[:, :, None], gains + world.discount * ahead, np.nan)

    def immediate_effects(
        self, states: AnyArray, current: IntArray, proposed: IntArray, diverging: BoolArray
    ) -> Values:
        """What the swaps add at once, the most of it that the next state may add counted in."""
        world, gains = self.place, outcome_tensor(self.place)
        moves, arrive = world.transitions, gains.max(axis=1)
        old, new = (
            gains[states, taken] + moves[states * world.n_actions + taken] @ arrive for taken in (current, proposed)
        )
        effect = new - old
        return {outcome.name: float(effect[:, m].mean()) for m, outcome in enumerate(world.outcomes)}

    def mean_outcomes(self, policy: Policy, judged: StartOutcomes, *, seed: int) -> FloatArray | None:
        """Exact means over the starts."""
        return self._means(policy.probabilities(np.arange(self.place.n_states)))

    def _means(self, table: FloatArray) -> FloatArray | None:
        evaluator = ExactEvaluator(self.place, table)
        return evaluator.totals(outcome_tensor(self.place)) if evaluator.ends[self.place.starts].all() else None

    def region_effects(
        self, changes: RegionChanges, *, level: float, length: float, max_steps: int, seed: int
    ) -> Effects:
        """Exact means over the starts."""
        before = self._means(self.current.table)

        def differences(table: FloatArray) -> Intervals:
            after = self._means(table)
            if before is None or after is None:
                return {}
            gains = (after - before).tolist()
            return {o.name: Interval.exactly(gain) for o, gain in zip(self.place.outcomes, gains, strict=True)}

        features = self.place.features_of(np.arange(self.place.n_states))
        return changes.effects(features, self.current.table, self.proposed.table, differences)

    def moves(self) -> tuple[Arrow, ...]:
        """Moves of both policies in a small table."""
        world = self.place
        if world.n_states > SMALL_TABLE:
            return ()
        both = [sparse.coo_array(world.policy_moves(policy.table)) for policy in (self.current, self.proposed)]
        edges = [{(int(a), int(b)): float(p) for a, b, p in zip(m.row, m.col, m.data, strict=True)} for m in both]
        arrows = []
        for a, b in sorted(set(edges[0]) | set(edges[1])):
            now, then = (side.get((a, b), 0.0) for side in edges)
            source, target = world.states[a], world.states[b]
            if abs(now - then) < ROUNDING:
                arrows.append(Arrow(source, target, "both", now))
                continue
            arrows += [Arrow(source, target, "current", now)] * (now > 0)
            arrows += [Arrow(source, target, "proposed", then)] * (then > 0)
        return tuple(arrows)

    def find_state(self, given: npt.ArrayLike) -> tuple[AnyArray, str]:
        """A state by its name or its number."""
        names = self.place.states
        number = names.index(given) if isinstance(given, str) and given in names else given
        if not isinstance(number, (int, np.integer)) or not 0 <= number < len(names):
            raise InvalidInputError(
                f"there is no state {given!r}. Hint: states are {names[0]!r}, …, or numbers from 0 to {len(names) - 1}"
            )
        return np.array([number]), names[number]

    def observation(self, values: Sequence[object]) -> AnyArray | None:
        """The state with these features, if there is just one."""
        if not self.place.has_features:
            return None
        alike = np.flatnonzero(np.all(self.place.features == np.asarray(values), axis=1))
        return alike if len(alike) == 1 else None

    def expected_from(self, state: AnyArray) -> tuple[tuple[float, float], ...] | None:
        """Exact outcomes of both policies from the state on."""
        gains, place = outcome_tensor(self.place), int(state[0])
        old, new = (
            ExactEvaluator(self.place, policy.table).values(gains)[place] for policy in (self.current, self.proposed)
        )
        return tuple((float(before), float(after)) for before, after in zip(old, new, strict=True))


def start_outcomes(world: TabularMDP, current: FloatArray, proposed: FloatArray) -> StartOutcomes:
    """Exact expected outcomes from every start under both policies (S, A).

    Two values that differ by no more than the arithmetic may be off, which grows with the length of episodes, are one.
    """
    gains, starts = outcome_tensor(world), world.starts
    counted, both = np.concatenate([gains, np.ones((*gains.shape[:2], 1))], axis=2), []
    for table in (current, proposed):
        evaluator = ExactEvaluator(world, table)
        evaluator.check_ends()
        both.append(evaluator.values(counted)[starts])
    old, new = (values[:, :-1] for values in both)
    length = np.maximum(both[0][:, -1:], both[1][:, -1:])
    off = (RELATIVE + 4 * np.finfo(float).eps * length) * (np.abs(old) + np.abs(new))
    new = np.where(np.abs(new - old) <= off, old, new)
    return StartOutcomes(world.features_of(starts), world.initial[starts], old, new, True, "exact")


def acting(world: TabularMDP, policy: PolicyLike, *, seed: int = 0) -> Policy:
    """A policy as one that edits can be made to."""
    return policy_in(world, policy)
