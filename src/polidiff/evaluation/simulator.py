"""What policies achieve in a simulator: means over played episodes, paired by common random numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from polidiff.errors import InvalidInputError
from polidiff.evaluation.comparison import Achieved, Comparison, Effects, RegionChanges, Values, check_estimator
from polidiff.evaluation.verdicts import StartOutcomes, mean_changes, mean_interval, rare_events
from polidiff.options import EvaluateOptions
from polidiff.policies import MixedPolicy, Policy, PolicyLike, changed_decisions
from polidiff.records.arrays import AnyArray, BoolArray, FloatArray, IntArray
from polidiff.records.explanation import RegionEffect, WorldSummary
from polidiff.records.numbers import counted
from polidiff.records.outcome import Evaluation
from polidiff.streams import Stream
from polidiff.worlds.protocol import policy_in, world_summary
from polidiff.worlds.rollouts import Visits, gain_of, play_from, roll_out
from polidiff.worlds.simulator import Simulator
from polidiff.worlds.steppers import ModelStepper

FEWEST_EPISODES = 100  # that judge outcomes, however few steps are allowed
FORMING = 250  # episodes that form groups of starts, at least, if so many are played
PAIRED_STEPS = 0.4  # share of `max_steps` that the episodes that judge may cost
PLAYED = 50  # states of a region from which every action is tried
EFFECT_STEPS = 0.1  # share of `max_steps` that the effects of single regions may cost
FEWEST_PAIRED, MOST_PAIRED = 30, 2_000  # episodes that such an effect is measured in; the most only in a model
STEPPED = 100  # states of a region from which both actions are tried once


def evaluate(world: Simulator, policy: PolicyLike, options: EvaluateOptions) -> Evaluation:
    """Expected outcomes with intervals from played episodes."""
    check_estimator(options.evaluation, ())
    count = options.episodes if options.episodes is not None else default_episodes(world)
    played = roll_out(
        world,
        policy_in(world, policy),
        episodes=count,
        seed=(options.seed,),
        horizon=options.horizon,
        what="episodes",
    )
    outcomes = {o.name: mean_interval(played.totals[:, m], options.level) for m, o in enumerate(world.outcomes)}
    details = {"episodes": float(count), "mean length": float(np.mean(played.lengths))}
    doubts = rare_events({o.name: played.totals[:, m] for m, o in enumerate(world.outcomes)})
    return Evaluation(outcomes, {}, counted(count, "simulated episode"), played.truncated_share, details, doubts)


def default_episodes(world: Simulator) -> int:
    """10,000 in a vectorised model, 1,000 in an environment that is stepped one by one."""
    return 10_000 if world.is_model else 1_000


def compare(world: Simulator, current: PolicyLike, proposed: PolicyLike, *, seed: int = 0) -> SimulatorComparison:
    """Two policies in a simulator; nothing is played yet."""
    old, new = (policy_in(world, policy) for policy in (current, proposed))
    return SimulatorComparison(world, old, new)


class SimulatorComparison(Comparison):
    """Two policies in a simulator. A vectorised model can also be set to any state."""

    def __init__(self, world: Simulator, current: Policy, proposed: Policy) -> None:
        self.world: Simulator = world
        self.place: Simulator = world
        self.current: Policy = current
        self.proposed: Policy = proposed

    def achieved(self, diverging: BoolArray, *, length: float, max_steps: int, level: float, seed: int) -> Achieved:
        """Paired episodes; some of them form groups and count changes, others judge.

        Changes are counted in the episodes whose paths are told, so that both speak of the same ones.
        """
        count = self._affordable(length, max_steps)
        few = min(count, max(FORMING, count // 4))
        (forming, visited), (judged, _) = (
            paired_outcomes(
                self.world, self.current, self.proposed, episodes=episodes, seed=(seed, stream), record=record
            )
            for episodes, stream, record in ((few, Stream.FORMING, True), (count, Stream.JUDGING, False))
        )
        assert visited is not None
        tables = (policy.probabilities(visited.states) for policy in (self.current, self.proposed))
        changes = mean_changes(visited.episode, changed_decisions(*tables), few, level)
        return Achieved(forming, judged, changes.estimate, changes)

    def _affordable(self, length: float, max_steps: int) -> int:
        """How many paired episodes: in environments stepped one by one, what `max_steps` pays for."""
        most, paid = default_episodes(self.world), PAIRED_STEPS * max_steps / (2 * length)
        return most if self.world.is_model else int(np.clip(paid, FEWEST_EPISODES, most))

    def find_state(self, given: npt.ArrayLike) -> tuple[AnyArray, str]:
        """An observation; a numbered one also by the name that results give it."""
        if not isinstance(given, str):
            return super().find_state(given)
        number = given.removeprefix("s")
        numbered = self.world.categorical or self.world.rows is not None
        if not (numbered and number.isdecimal()):
            raise InvalidInputError(
                f"{given!r} names no state of this simulator. Hint: give an observation, or features by name"
            )
        return np.array([int(number)]), given

    def summary(self, seen: AnyArray, facts: Mapping[str, str | float | int]) -> WorldSummary:
        """The horizon, and the ranges of features over visited states."""
        return world_summary(self.world, seen, facts)

    def action_values(self, states: AnyArray, weight: FloatArray, region: int, *, seed: int) -> Mapping[str, Values]:
        """Played from some states of the region, in a vectorised model."""
        if not self.world.is_model or not len(states):
            return {}
        world, few = self.world, states[:PLAYED]
        first = np.tile(np.arange(world.n_actions), len(few))
        begin = np.repeat(few, world.n_actions, axis=0)
        totals = play_from(world, self.proposed, begin, first, seed=(seed, Stream.REGION_VALUES, region))
        means = totals.reshape(len(few), world.n_actions, -1).mean(axis=0)
        return {
            outcome.name: {action.name: float(means[a, m]) for a, action in enumerate(world.actions)}
            for m, outcome in enumerate(world.outcomes)
        }

    def immediate_effects(
        self, states: AnyArray, current: IntArray, proposed: IntArray, diverging: BoolArray
    ) -> Values:
        """One step of both actions from some diverging states, in a vectorised model."""
        rows = np.flatnonzero(diverging)[:STEPPED]
        if not self.world.is_model or not rows.size:
            return super().immediate_effects(states, current, proposed, diverging)
        begin, everyone = states[rows], np.arange(len(rows))
        gains = []
        for taken in (current[rows], proposed[rows]):
            step = ModelStepper(self.world.env, np.array(begin), (0,)).step(taken, everyone)
            gains.append([np.mean(gain_of(outcome, begin, taken, step)) for outcome in self.world.outcomes])
        return {o.name: float(gains[1][m] - gains[0][m]) for m, o in enumerate(self.world.outcomes)}

    def mean_outcomes(self, policy: Policy, judged: StartOutcomes, *, seed: int) -> FloatArray | None:
        """Means over as many episodes as judged, with their luck."""
        played = roll_out(
            self.world, policy, episodes=len(judged.weight), seed=(seed, Stream.JUDGING), what="patched policy"
        )
        return np.asarray(played.totals.mean(axis=0))

    def region_effects(
        self, changes: RegionChanges, *, level: float, length: float, max_steps: int, seed: int
    ) -> Effects:
        """Paired episodes of the current policy and of every mix of the two, within a tenth of `max_steps`."""
        if not changes.asked:
            return {}
        world, games = self.world, 2 * len(changes.asked) + 1
        affordable = int(max_steps * EFFECT_STEPS / (games * length))
        count = min(MOST_PAIRED if world.is_model else default_episodes(world), max(FEWEST_PAIRED, affordable))
        strict = changes.strict(level, len(world.outcomes))

        def totals(policy: Policy) -> FloatArray:
            seeds = (seed, Stream.REGION_EFFECTS)
            return roll_out(world, policy, episodes=count, seed=seeds, what="effects of single changes").totals

        before, effects = totals(self.current), {}
        for k in changes.asked:
            covers = partial(self._in_region, changes, k)
            mixes = (MixedPolicy(self.proposed, self.current, covers), MixedPolicy(self.current, self.proposed, covers))
            alone, without = (
                {
                    o.name: mean_interval(gain, strict)
                    for o, gain in zip(world.outcomes, (totals(mix) - before).T, strict=True)
                }
                for mix in mixes
            )
            effects[k] = RegionEffect(alone, without)
        return effects

    def _in_region(self, changes: RegionChanges, k: int, states: AnyArray) -> BoolArray:
        return changes.covers(self.world.features_of(states), k)

    def observation(self, values: Sequence[object]) -> AnyArray | None:
        """The features themselves, where they are what policies see, or the number of the state that has them."""
        return np.array([values]) if self.world.sees_features else self.world.numbered_as(values)


def paired_outcomes(
    world: Simulator, current: Policy, proposed: Policy, *, episodes: int, seed: tuple[int, ...], record: bool = False
) -> tuple[StartOutcomes, Visits | None]:
    """Episodes with the same starts and the same luck under both policies; what the proposed visits, if asked for."""
    played = [
        roll_out(world, policy, episodes=episodes, seed=seed, what=f"paired episodes, {name}", record=recorded)
        for policy, name, recorded in ((current, "current", False), (proposed, "proposed", record))
    ]
    outcomes = StartOutcomes(
        world.features_of(played[0].starts),
        np.full(episodes, 1 / episodes),
        played[0].totals,
        played[1].totals,
        False,
        counted(episodes, "paired episode"),
        (played[0].truncated_share, played[1].truncated_share),
    )
    return outcomes, played[1].visits


def acting(world: Simulator, policy: PolicyLike, *, seed: int = 0) -> Policy:
    """A policy as one that edits can be made to."""
    return policy_in(world, policy)
