"""Many episodes side by side: one call moves them all.

A stepper holds the present state of n episodes. It can be moved, and cloned so that a second policy continues from the
same states. Randomness is common to clones and to policies: step t of a batch always draws from the same stream, so
that two policies that act alike live through the same luck.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np

from polidiff.errors import InvalidWorldError
from polidiff.records.arrays import AnyArray, BoolArray, FloatArray, IntArray
from polidiff.records.numbers import counted
from polidiff.worlds.tabular import TabularMDP

W = TypeVar("W")


@dataclass(frozen=True, eq=False)
class Step:
    """What one move brings to the k episodes that moved."""

    next_states: AnyArray  # (k, …)
    rewards: FloatArray  # (k,)
    terminated: BoolArray  # (k,) the world ended the episode
    truncated: BoolArray  # (k,) the world cut it off
    infos: dict[str, AnyArray] = field(default_factory=dict)  # key -> (k,)


class Stepper(Protocol):
    """The present state of n episodes."""

    restore_mode: str

    @property
    def states(self) -> AnyArray:
        """(n, …) present states or observations."""
        ...

    def step(self, actions: IntArray, running: IntArray) -> Step:
        """Move the episodes `running` by `actions`, both of length k."""
        ...

    def clone(self, indices: IntArray) -> Stepper:
        """A stepper of its own that continues from the states of these episodes."""
        ...


class Model(Protocol):
    """A vectorised simulator, written by the user."""

    n_actions: int

    def reset(self, count: int, rng: np.random.Generator) -> AnyArray:
        """States (count, …) in which episodes begin."""
        ...

    def step(self, states: AnyArray, actions: IntArray, rng: np.random.Generator) -> tuple[Any, ...]:
        """Next states, rewards and terminated flags; a dictionary of further columns may follow."""
        ...


class _SideBySide(Generic[W]):
    """Episodes whose state is a value, so that a clone is a copy."""

    restore_mode = "model"

    def __init__(self, world: W, states: AnyArray, seed: tuple[int, ...], time: int = 0) -> None:
        self.world, self._states, self._seed, self._time = world, states, seed, time

    @property
    def states(self) -> AnyArray:
        """Present states."""
        return self._states

    def clone(self, indices: IntArray) -> Self:
        """Continue from the states of these episodes with luck of their own."""
        seed = (*self._seed, 1_000_003 + self._time)
        return type(self)(self.world, np.array(self._states[indices]), seed, self._time)


class ModelStepper(_SideBySide[Model]):
    """Episodes in a vectorised model."""

    @classmethod
    def start(cls, model: Model, count: int, seed: tuple[int, ...]) -> ModelStepper:
        """`count` episodes at their start."""
        states = np.array(model.reset(count, np.random.default_rng((*seed, 0))))
        if len(states) != count:
            raise InvalidWorldError(f"reset({count}, rng) must return {counted(count, 'state')}; got {len(states)}")
        return cls(model, states, seed)

    def step(self, actions: IntArray, running: IntArray) -> Step:
        """Move; all episodes draw from the stream of this step, so that luck stays aligned between policies."""
        self._time += 1
        rng = np.random.default_rng((*self._seed, self._time))
        everyone = len(running) == len(self._states)
        moves = actions if everyone else np.zeros(len(self._states), dtype=np.int64)
        if not everyone:
            moves[running] = actions
        result = self.world.step(self._states, moves, rng)
        if not isinstance(result, tuple) or len(result) not in (3, 4):
            raise InvalidWorldError("step(states, actions, rng) must return next states, rewards and terminated flags")
        states, rewards, ended = (np.asarray(part) for part in result[:3])
        self._check_lengths(states, rewards, ended)
        self._states = states if everyone else _with_others_kept(states, self._states, running)
        infos = {key: np.asarray(column) for key, column in (result[3] if len(result) == 4 else {}).items()}
        never = np.zeros(len(running), dtype=np.bool_)
        pay, over = rewards.astype(np.float64, copy=False), ended.astype(np.bool_, copy=False)
        if everyone:
            return Step(np.array(states), pay, over, never, infos)
        moved = {key: column[running] for key, column in infos.items()}
        return Step(states[running], pay[running], over[running], never, moved)

    def _check_lengths(self, *parts: AnyArray) -> None:
        came = [part.shape[:1] for part in parts]
        count = len(self._states)
        if came != [(count,)] * len(parts):
            raise InvalidWorldError(
                f"step(states, actions, rng) must return {count} next states, rewards and terminated flags for {count} "
                f"states; their lengths are {[shape[0] if shape else 'none' for shape in came]}"
            )

    def reseed(self, draw: int) -> None:
        """Luck of another draw, the same for all clones that ask for it."""
        self._seed = (*self._seed, draw)

    @classmethod
    def joined(cls, parts: Sequence[ModelStepper]) -> ModelStepper:
        """All episodes of the parts, from now on side by side."""
        first = parts[0]
        states = np.concatenate([part.states for part in parts])
        return cls(first.world, states, (*first._seed, len(parts)), first._time)


def _with_others_kept(moved: AnyArray, before: AnyArray, running: IntArray) -> AnyArray:
    """Episodes that are over stay where they ended: nothing that happens after the end may overflow or run off."""
    over = np.ones(len(moved), dtype=np.bool_)
    over[running] = False
    states = np.array(moved)
    states[over] = before[over]
    return states


def joined(parts: Sequence[Any]) -> Stepper:
    """One stepper for the episodes of all parts, which are of one kind, in their order."""
    return parts[0] if len(parts) == 1 else type(parts[0]).joined(parts)


class TableStepper(_SideBySide[TabularMDP]):
    """Episodes in a known table, sampled by inverting the distribution of each row."""

    @classmethod
    def start(
        cls, world: TabularMDP, count: int, seed: tuple[int, ...], starts: IntArray | None = None
    ) -> TableStepper:
        """`count` episodes from the start distribution, or one from each of the given states."""
        if starts is None:
            rng = np.random.default_rng((*seed, 0))
            starts = rng.choice(world.n_states, size=count, p=world.initial).astype(np.int64)
        return cls(world, np.array(starts), seed)

    def step(self, actions: IntArray, running: IntArray) -> Step:
        """Move; the luck of an episode at a step is the same for every policy."""
        self._time += 1
        luck = np.random.default_rng((*self._seed, self._time)).random(len(self._states))[running]
        here, world = self._states[running], self.world
        arrived = next_states(world, here, actions, luck)
        self._states[running] = arrived
        never = np.zeros(len(running), dtype=np.bool_)
        return Step(arrived, world.rewards[here, actions], world.absorbing[arrived], never)


def next_states(world: TabularMDP, states: IntArray, actions: IntArray, luck: FloatArray) -> IntArray:
    """Where decisions lead, by inverting the distribution of each row of the table at luck (n,) in [0, 1)."""
    cumulative, rows = world.cumulative, states * world.n_actions + actions
    first, last = world.transitions.indptr[rows], world.transitions.indptr[rows + 1]
    below = np.where(first > 0, cumulative[first - 1], 0.0)
    target = below + luck * (cumulative[last - 1] - below)
    chosen = np.clip(np.searchsorted(cumulative, target, side="right"), first, last - 1)
    return world.transitions.indices[chosen].astype(np.int64)
