"""Observations as rows with named columns, and action indices as what an environment takes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from polidiff.errors import InvalidWorldError
from polidiff.policies.model_io import parts_of, space_kind
from polidiff.records.arrays import AnyArray, FloatArray, IntArray
from polidiff.records.numbers import counted

MOST_COMBINATIONS = 1000

# What Gymnasium gives and takes; the library itself is not imported here.
Env: TypeAlias = Any  # an environment, of one episode or a vector
EnvLike: TypeAlias = Any  # an environment, its id, or a function that makes one
Space: TypeAlias = Any
Observation: TypeAlias = Any
EnvAction: TypeAlias = Any  # what an environment takes
Info: TypeAlias = Mapping[str, Any]  # what a step says beside its reward
Choice: TypeAlias = Callable[[AnyArray], FloatArray]  # states (n, …) -> real numbers (n, d)


@dataclass(frozen=True, eq=False)
class ObservationCodec:
    """How a batch of observations becomes an array of states."""

    index: bool  # whether an observation is the number of a state
    names: tuple[str, ...]  # of the columns; ("state",) for an index
    row: Callable[[Observation], AnyArray] | None  # one observation to one row; None if numpy stacks it as it is
    dtype: npt.DTypeLike
    width: int

    def rows(self, observations: Sequence[Observation] | AnyArray) -> AnyArray:
        """Observations, one per episode, as (n,) indices or (n, width) rows."""
        if self.row is not None:
            observations = [self.row(observation) for observation in observations]
        array = np.array(observations, dtype=self.dtype)
        if array.size != len(array) * (1 if self.index else self.width):
            raise InvalidWorldError(
                f"an observation must be as the observation space says, {counted(self.width, 'number')}; one of shape "
                f"{array.shape[1:]} came. Hint: mend observation_space, or what reset and step return"
            )
        return array if self.index else array.reshape(len(array), self.width)


@dataclass(frozen=True, eq=False)
class ActionCodec:
    """How an action index becomes what the environment takes."""

    count: int
    names: tuple[dict[str, int], ...] | None  # mappings of levels for composed actions, None for plain ones
    taken: tuple[EnvAction, ...] | None  # what the environment takes per index; None if the index itself

    def decode(self, actions: IntArray, states: AnyArray | None = None) -> list[EnvAction]:
        """Actions of the environment for action indices; `states` (n, …) matter to choices among real numbers only."""
        if self.taken is None:
            return list(actions)  # numpy integers, as vector environments pass them; spaces check those faster
        return [self.taken[action] for action in actions.tolist()]


@dataclass(frozen=True, eq=False)
class RealCodec:
    """Choices among real numbers, each a function of states (n, …) to numbers (n, width)."""

    low: FloatArray  # (width,)
    high: FloatArray
    shape: tuple[int, ...]
    dtype: npt.DTypeLike
    choices: tuple[Choice, ...] = ()
    names: None = None

    @property
    def count(self) -> int:
        """How many choices there are, at least the policy's own."""
        return max(1, len(self.choices))

    @property
    def width(self) -> int:
        """How many numbers an action has."""
        return math.prod(self.shape)

    def numbers(self, actions: IntArray, states: AnyArray) -> FloatArray:
        """(n, width) numbers of the choices, within the bounds of the environment."""
        taken = np.zeros((len(actions), self.width))
        for choice in np.unique(actions):
            rows = actions == choice
            taken[rows] = self.choices[choice](states[rows])
        return np.clip(taken, self.low, self.high)

    def decode(self, actions: IntArray, states: AnyArray | None = None) -> list[EnvAction]:
        """Numbers as the environment takes them; without states, some that it takes."""
        some = np.clip(np.zeros(self.width), self.low, self.high)
        taken = np.tile(some, (len(actions), 1)) if states is None else self.numbers(actions, states)
        return list(taken.astype(self.dtype).reshape(len(actions), *self.shape))


def observation_codec(space: Space) -> ObservationCodec:
    """The codec of an observation space."""
    kind = space_kind(space)
    if kind == "Discrete":
        return ObservationCodec(True, ("state",), None, np.int64, 1)
    if kind == "Box":
        dtype = np.float64 if np.issubdtype(space.dtype, np.floating) else space.dtype
        width = math.prod(space.shape)
        return ObservationCodec(False, tuple(f"x{j}" for j in range(width)), None, dtype, width)
    names = tuple(column_names(space, ""))
    return ObservationCodec(False, names, lambda value: flat(space, value), np.float64, len(names))


def column_names(space: Space, prefix: str) -> list[str]:
    """Names of the numbers in an observation, in the order of `flat`."""
    kind = space_kind(space)
    if kind in ("Dict", "Tuple"):
        names: list[str] = []
        for key, part in parts_of(space):
            names += column_names(part, f"{prefix}.{key}" if prefix else f"x{key}" if kind == "Tuple" else str(key))
        return names
    if kind == "Discrete":
        return [prefix]
    if kind in ("Box", "MultiDiscrete", "MultiBinary"):
        width = math.prod(space.shape)
        root = prefix or "x"
        return [root] if width == 1 and prefix else [f"{root}{'.' if prefix else ''}{j}" for j in range(width)]
    raise InvalidWorldError(
        f"observations must be made of Box, Discrete, MultiDiscrete, MultiBinary, Dict and Tuple; got {kind}"
        f"{f' at {prefix!r}' if prefix else ''}. Hint: gymnasium.wrappers.FilterObservation leaves parts of a Dict "
        "out, TransformObservation makes something else of them"
    )


def flat(space: Space, value: Observation) -> AnyArray:
    """One observation as a row of numbers."""
    if space_kind(space) in ("Dict", "Tuple"):
        return np.concatenate([flat(part, value[key]) for key, part in parts_of(space)])
    return np.asarray(value, dtype=np.float64).ravel()


def action_codec(space: Space) -> ActionCodec | RealCodec:
    """The codec of an action space; what is neither choices nor numbers is refused."""
    kind = space_kind(space)
    if kind == "Discrete":
        start = int(getattr(space, "start", 0))
        count = int(space.n)
        return ActionCodec(count, None, tuple(range(start, start + count)) if start else None)
    if kind in ("MultiDiscrete", "MultiBinary"):
        return _combinations(space, kind)
    if kind == "Box":
        low, high = (np.asarray(bound, dtype=np.float64).ravel() for bound in (space.low, space.high))
        return RealCodec(low, high, tuple(space.shape), space.dtype)
    raise InvalidWorldError(
        f"actions must be discrete (Discrete, MultiDiscrete or MultiBinary) or numbers (Box); got {kind}"
    )


def _combinations(space: Space, kind: str) -> ActionCodec:
    sizes = np.full(space.shape, 2).ravel() if kind == "MultiBinary" else np.asarray(space.nvec).ravel()
    count = int(np.prod(sizes))
    if count > MOST_COMBINATIONS:
        raise InvalidWorldError(
            f"the environment combines {len(sizes)} choices into {count} actions; at most {MOST_COMBINATIONS} can be "
            "compared. Hint: wrap the environment with TransformAction and offer the combinations that matter"
        )
    table = np.stack(np.unravel_index(np.arange(count), tuple(int(n) for n in sizes)), axis=1)
    taken = tuple(row.reshape(space.shape) for row in table.astype(space.dtype))
    names = tuple({f"choice {j}": int(level) for j, level in enumerate(row)} for row in table)
    return ActionCodec(count, names, taken)
