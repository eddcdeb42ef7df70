"""Playing episodes: one call of the policy per step for all that still run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from polidiff.errors import InvalidOutcomeError
from polidiff.parallel import run_tasks
from polidiff.policies import Policy, choose
from polidiff.records.arrays import AnyArray, BoolArray, FloatArray, IntArray
from polidiff.records.outcome import Outcome, called_gains
from polidiff.worlds.checks import LARGEST
from polidiff.worlds.simulator import LONGEST, REWARD, Simulator
from polidiff.worlds.steppers import ModelStepper, Step, Stepper, TableStepper
from polidiff.worlds.tabular import TabularMDP

Steppable: TypeAlias = Simulator | TabularMDP
LUCK = 7_777_777  # keeps the stream of the policy's own luck apart from the world's


@dataclass(frozen=True, eq=False)
class Visits:
    """Decisions in the order of episodes and steps."""

    episode: IntArray  # (N,) which episode
    step: IntArray  # (N,) how many decisions came before
    states: AnyArray  # (N, …)
    actions: IntArray  # (N,)
    before: FloatArray  # (N, M) sums of outcomes before it


@dataclass(frozen=True, eq=False)
class Rollouts:
    """Episodes of one policy."""

    starts: AnyArray  # (n, …) first states
    totals: FloatArray  # (n, M) sums of the world's outcomes
    lengths: IntArray  # (n,) decisions
    truncated: BoolArray  # (n,) cut at the horizon or by the world
    visits: Visits | None  # every decision, if recorded

    @property
    def truncated_share(self) -> float:
        """Share of episodes cut off."""
        return float(self.truncated.mean()) if len(self.truncated) else 0.0


def roll_out(
    world: Steppable,
    policy: Policy,
    *,
    episodes: int,
    seed: tuple[int, ...],
    record: bool = False,
    horizon: int | None = None,
    starts: IntArray | None = None,
    what: str = "roll-outs",
) -> Rollouts:
    """Play episodes in lock-step, chunk by chunk; the same seed gives the same luck to every policy.

    `starts` (tables only) fixes the first state of each episode.
    """
    size = world.chunk if isinstance(world, Simulator) else 8192
    if starts is not None:
        episodes = len(starts)
    cuts = list(range(0, episodes, size)) or [0]
    parts = [None if starts is None else starts[cut : cut + size] for cut in cuts]
    tasks = [
        (world, policy, min(size, episodes - cut), (*seed, index), record, horizon, part)
        for index, (cut, part) in enumerate(zip(cuts, parts, strict=True))
    ]
    return joined_rollouts(run_tasks(play_chunk, tasks, what=what, quick=not is_stepped(world)))


def is_stepped(world: Steppable) -> bool:
    """Whether episodes are stepped one by one, which is slow, rather than side by side."""
    return isinstance(world, Simulator) and not world.is_model


def start_stepper(world: Steppable, count: int, seed: tuple[int, ...], starts: IntArray | None = None) -> Stepper:
    """`count` episodes of a world at their start."""
    if isinstance(world, TabularMDP):
        return TableStepper.start(world, count, seed, starts)
    columns = [outcome.of for outcome in world.outcomes if isinstance(outcome.of, str) and outcome.of != REWARD]
    return world.stepper(count, seed, [column.removeprefix("info:") for column in columns])


def play_chunk(
    world: Steppable,
    policy: Policy,
    count: int,
    seed: tuple[int, ...],
    record: bool,
    horizon: int | None,
    starts: IntArray | None,
) -> Rollouts:
    """Play `count` episodes side by side to their ends."""
    return _play(world, policy, start_stepper(world, count, seed, starts), seed, _limit(world, horizon), record)


def play_from(
    world: Simulator, policy: Policy, states: AnyArray, first: IntArray, *, seed: tuple[int, ...]
) -> FloatArray:
    """Outcomes (n, M) of taking the actions `first` in the given states of a model and following the policy after."""
    stepper = ModelStepper(world.env, np.array(states), seed)
    return _play(world, policy, stepper, seed, world.horizon, record=False, forced=first).totals


def _play(
    world: Steppable,
    policy: Policy,
    stepper: Stepper,
    seed: tuple[int, ...],
    limit: int,
    record: bool,
    forced: IntArray | None = None,
) -> Rollouts:
    """Episodes from where a stepper stands; the first actions may be `forced`."""
    first = np.array(stepper.states)
    count, gains = len(first), GainCounter(world, len(first))
    running = np.flatnonzero(~world.absorbing[first]) if isinstance(world, TabularMDP) else np.arange(count)
    lengths = np.zeros(count, dtype=np.int64)
    truncated = np.zeros(count, dtype=np.bool_)
    log: list[tuple[IntArray, AnyArray, IntArray, FloatArray]] = []
    states, actions = first[running], forced
    for time in range(limit if running.size else 0):
        if actions is None:
            actions = choose(policy, states, _luck(seed, time - (forced is not None), count, running))
        step = stepper.step(actions, running)
        if record:
            log.append((running, states, actions, gains.totals[running]))
        gains.add(states, actions, step, running)
        actions = None
        over = step.terminated | step.truncated
        if over.any():
            lengths[running[over]] = time + 1
            truncated[running[step.truncated & ~step.terminated]] = True
            running, states = running[~over], step.next_states[~over]
            if not running.size:
                break
        else:
            states = step.next_states
    lengths[running] = limit
    truncated[running] = True
    visits = _visits(log, lengths, first, gains.totals.shape[1]) if record else None
    gains.check_finite()
    return Rollouts(first, gains.totals, lengths, truncated, visits)


class GainCounter:
    """Sums of all outcomes of a world over running episodes."""

    def __init__(self, world: Steppable, count: int) -> None:
        self.outcomes = world.outcomes
        self.totals = np.zeros((count, len(self.outcomes)), order="F")
        self._tables = None if isinstance(world, Simulator) else [world.outcome_table(o) for o in world.outcomes]
        self._discount = 1.0 if isinstance(world, Simulator) else world.discount
        self._weight = 1.0

    def add(self, states: AnyArray, actions: IntArray, step: Step, running: IntArray) -> None:
        """Count one move of the running episodes."""
        rows = running if len(running) < len(self.totals) else slice(None)
        for column, outcome in enumerate(self.outcomes):
            if self._tables is not None:
                gain = self._weight * self._tables[column][states, actions]
            else:
                gain = gain_of(outcome, states, actions, step)
            with np.errstate(over="ignore"):  # told by `check_finite`
                self.totals[rows, column] += gain
        self._weight *= self._discount

    def check_finite(self) -> None:
        """An error that names the first outcome and episode whose sum is no number."""
        bad = np.argwhere(~(np.abs(self.totals) <= LARGEST))
        if bad.size:
            episode, column = bad[0]
            raise InvalidOutcomeError(
                f"outcome {self.outcomes[column].name!r} must be finite, within ±{LARGEST:g}; over episode {episode} "
                f"it sums to {self.totals[episode, column]}"
            )


def gain_of(outcome: Outcome, states: AnyArray, actions: IntArray, step: Step) -> AnyArray:
    """What one move adds to an outcome, (k,)."""
    of = outcome.of
    if isinstance(of, str):
        if of == REWARD:
            return step.rewards
        key = of.removeprefix("info:")
        if key not in step.infos:
            raise InvalidOutcomeError(
                f"outcome {outcome.name!r} reads {of!r}; the world offers {sorted(step.infos) or 'no such columns'}"
            )
        return step.infos[key]
    if callable(of):
        return called_gains(outcome, states, actions, step.next_states)
    table = np.asarray(of, dtype=np.float64)
    if table.ndim == 0:
        return table
    rows = table[states.ravel().astype(np.int64)]
    return rows[np.arange(len(rows)), actions] if table.ndim == 2 else rows


def _limit(world: Steppable, horizon: int | None) -> int:
    """Steps after which an episode is cut."""
    return horizon or (world.horizon if isinstance(world, Simulator) else 10 * LONGEST)


def _luck(seed: tuple[int, ...], time: int, count: int, running: IntArray) -> Callable[[], FloatArray]:
    return lambda: np.random.default_rng((*seed, LUCK, time)).random(count)[running]


def _visits(
    log: list[tuple[IntArray, AnyArray, IntArray, FloatArray]], lengths: IntArray, first: AnyArray, outcomes: int
) -> Visits:
    if not log:
        empty = np.zeros(0, dtype=np.int64)
        return Visits(empty, empty, first[:0], empty, np.zeros((0, outcomes)))
    before = np.cumsum(lengths) - lengths  # decisions of earlier episodes
    total = int(lengths.sum())
    states = np.empty((total, *first.shape[1:]), dtype=np.result_type(*{entry[1].dtype for entry in log}))
    actions, sums = np.empty(total, dtype=np.int64), np.empty((total, outcomes))
    for time, (running, here, chosen, gained) in enumerate(log):
        place = before[running] + time
        states[place] = here
        actions[place], sums[place] = chosen, gained
    episode = np.repeat(np.arange(len(lengths)), lengths)
    return Visits(episode, np.arange(total) - before[episode], states, actions, sums)


def joined_rollouts(parts: list[Rollouts]) -> Rollouts:
    """Episodes of all parts, in their order."""
    if len(parts) == 1:
        return parts[0]
    offsets = np.cumsum([0, *(len(part.lengths) for part in parts[:-1])])
    recorded = [part.visits for part in parts if part.visits is not None]
    visits = None
    if recorded:
        episode = np.concatenate([v.episode + offset for v, offset in zip(recorded, offsets, strict=True)])
        visits = Visits(episode, *_side_by_side(recorded, "step", "states", "actions", "before"))
    starts, totals, lengths, truncated = _side_by_side(parts, "starts", "totals", "lengths", "truncated")
    return Rollouts(starts, totals, lengths, truncated, visits)


def _side_by_side(parts: Sequence[object], *names: str) -> Iterator[AnyArray]:
    return (np.concatenate([getattr(part, name) for part in parts]) for name in names)
