"""Many episodes side by side: one call moves them all.

A stepper holds the present state of n episodes. It can be moved, and cloned so that a second policy continues from the
same states. Randomness is common to clones and to policies: step t of a batch always draws from the same stream, so
that two policies that act alike live through the same luck.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from polidiff.errors import InvalidWorldError
from polidiff.records.arrays import AnyArray, BoolArray, FloatArray, IntArray
from polidiff.worlds.tabular import TabularMDP


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


class ModelStepper:
    """Episodes in a vectorised model. The state is a value, so a clone is a copy."""

    restore_mode = "model"

    def __init__(self, model: Model, states: AnyArray, seed: tuple[int, ...], time: int = 0) -> None:
        self.model = model
        self._states = states
        self._seed = seed
        self._time = time

    @classmethod
    def start(cls, model: Model, count: int, seed: tuple[int, ...]) -> ModelStepper:
        """`count` episodes at their start."""
        states = np.array(model.reset(count, np.random.default_rng((*seed, 0))))
        if len(states) != count:
            raise InvalidWorldError(f"reset({count}, rng) must return {count} states; it returned {len(states)}")
        return cls(model, states, seed)

    @property
    def states(self) -> AnyArray:
        """Present states."""
        return self._states

    def step(self, actions: IntArray, running: IntArray) -> Step:
        """Move; all episodes draw from the stream of this step, so that luck stays aligned between policies."""
        self._time += 1
        rng = np.random.default_rng((*self._seed, self._time))
        everyone = len(running) == len(self._states)
        moves = actions if everyone else np.zeros(len(self._states), dtype=np.int64)
        if not everyone:
            moves[running] = actions
        result = self.model.step(self._states, moves, rng)
        if not isinstance(result, tuple) or len(result) not in (3, 4):
            raise InvalidWorldError("step(states, actions, rng) must return next states, rewards and terminated flags")
        states, rewards, ended = (np.asarray(part) for part in result[:3])
        self._states = states
        infos = {key: np.asarray(column)[running] for key, column in (result[3] if len(result) == 4 else {}).items()}
        never = np.zeros(len(running), dtype=np.bool_)
        return Step(states[running], rewards[running].astype(np.float64), ended[running].astype(bool), never, infos)

    def clone(self, indices: IntArray) -> ModelStepper:
        """Continue from the states of these episodes with luck of their own."""
        seed = (*self._seed, 1_000_003 + self._time)
        return ModelStepper(self.model, np.array(self._states[indices]), seed, self._time)

    @classmethod
    def joined(cls, parts: Sequence[ModelStepper]) -> ModelStepper:
        """All episodes of the parts, from now on side by side."""
        first = parts[0]
        states = np.concatenate([part.states for part in parts])
        return cls(first.model, states, (*first._seed, len(parts)), first._time)


class JoinedStepper:
    """Episodes of several steppers, moved together."""

    def __init__(self, parts: Sequence[Stepper]) -> None:
        self._parts = list(parts)
        self.restore_mode = parts[0].restore_mode
        self._ends = np.cumsum([len(part.states) for part in parts])

    @property
    def states(self) -> AnyArray:
        """Present states."""
        return np.concatenate([part.states for part in self._parts])

    def step(self, actions: IntArray, running: IntArray) -> Step:
        """Move each part."""
        steps = [part.step(actions[mask], local) for part, mask, local in self._split(running)]
        return Step(
            np.concatenate([step.next_states for step in steps]),
            np.concatenate([step.rewards for step in steps]),
            np.concatenate([step.terminated for step in steps]),
            np.concatenate([step.truncated for step in steps]),
            {key: np.concatenate([step.infos[key] for step in steps]) for key in steps[0].infos},
        )

    def clone(self, indices: IntArray) -> JoinedStepper:
        """Continue from the states of these episodes."""
        return JoinedStepper([part.clone(local) for part, _, local in self._split(indices)])

    def _split(self, indices: IntArray) -> list[tuple[Stepper, BoolArray, IntArray]]:
        owner = np.searchsorted(self._ends, indices, side="right")
        starts = np.concatenate(([0], self._ends[:-1]))
        return [
            (part, owner == k, indices[owner == k] - starts[k])
            for k, part in enumerate(self._parts)
            if (owner == k).any()
        ]


def joined(parts: Sequence[Stepper]) -> Stepper:
    """One stepper for the episodes of all parts, in their order."""
    if len(parts) == 1:
        return parts[0]
    models = [part for part in parts if isinstance(part, ModelStepper)]
    return ModelStepper.joined(models) if len(models) == len(parts) else JoinedStepper(parts)


class TableStepper:
    """Episodes in a known table, sampled by inverting the distribution of each row."""

    restore_mode = "model"

    def __init__(self, world: TabularMDP, states: IntArray, seed: tuple[int, ...], time: int = 0) -> None:
        self.world = world
        self._states = states
        self._seed = seed
        self._time = time

    @classmethod
    def start(
        cls, world: TabularMDP, count: int, seed: tuple[int, ...], starts: IntArray | None = None
    ) -> TableStepper:
        """`count` episodes from the start distribution, or one from each of the given states."""
        if starts is None:
            rng = np.random.default_rng((*seed, 0))
            starts = rng.choice(world.n_states, size=count, p=world.initial).astype(np.int64)
        return cls(world, np.array(starts), seed)

    @property
    def states(self) -> AnyArray:
        """Present states."""
        return self._states

    def step(self, actions: IntArray, running: IntArray) -> Step:
        """Move; the luck of an episode at a step is the same for every policy."""
        self._time += 1
        luck = np.random.default_rng((*self._seed, self._time)).random(len(self._states))[running]
        world, cumulative = self.world, self.world.cumulative
        here = self._states[running]
        rows = here * world.n_actions + actions
        first, last = world.transitions.indptr[rows], world.transitions.indptr[rows + 1]
        below = np.where(first > 0, cumulative[first - 1], 0.0)
        target = below + luck * (cumulative[last - 1] - below)
        chosen = np.clip(np.searchsorted(cumulative, target, side="right"), first, last - 1)
        arrived = world.transitions.indices[chosen].astype(np.int64)
        self._states[running] = arrived
        never = np.zeros(len(running), dtype=np.bool_)
        return Step(arrived, world.rewards[here, actions], world.absorbing[arrived], never)

    def clone(self, indices: IntArray) -> TableStepper:
        """Continue from the states of these episodes with luck of their own."""
        return TableStepper(
            self.world, np.array(self._states[indices]), (*self._seed, 1_000_003 + self._time), self._time
        )
