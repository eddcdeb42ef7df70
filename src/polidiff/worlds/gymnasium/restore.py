"""Bringing a second copy of an environment into the state of a running one.

Three ways, tried in this order and verified by stepping copy and original side by side:

``state``
    ``get_state()`` and ``set_state(state)`` of the environment, with its random generator.
``copy``
    A deep copy.
``replay``
    A fresh environment, reset with the same seed and moved by the same actions.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from polidiff.errors import RestoreError
from polidiff.records.arrays import AnyArray
from polidiff.worlds.gymnasium.source import copied
from polidiff.worlds.gymnasium.spaces import Env, EnvAction

if TYPE_CHECKING:
    from polidiff.worlds.gymnasium.source import EnvSource

MOVES_BEFORE = 3
MOVES_AFTER = 6
SEED = 20_260_101


@dataclass(frozen=True, eq=False)
class Running:
    """An environment in the middle of an episode, with what led there."""

    env: Env
    seed: int
    actions: list[EnvAction]  # as the environment took them


@dataclass(frozen=True, eq=False)
class Restore:
    """How to restore, or why it cannot be done."""

    mode: str  # "state", "copy", "replay" or "none"
    twin: Callable[[Running], Env]
    failures: dict[str, str]  # way -> what went wrong

    @property
    def keeps_actions(self) -> bool:
        """Whether the actions of every episode must be kept."""
        return self.mode == "replay"


def find_restore(source: EnvSource) -> Restore:
    """The first way that gives a copy which goes on as the original does."""
    ways: dict[str, Callable[[Running], Env]] = {
        "state": lambda running: _by_state(source, running),
        "copy": lambda running: copied(running.env),
        "replay": lambda running: _by_replay(source, running),
    }
    failures: dict[str, str] = {}
    for mode, way in ways.items():
        problem = _first_problem(source, way)
        if problem is None:
            return Restore(mode, way, failures)
        failures[mode] = problem
    return Restore("none", lambda running: _refuse(source, failures), failures)


def _refuse(source: EnvSource, failures: dict[str, str]) -> NoReturn:
    name = type(source.example.unwrapped).__name__
    tried = "; ".join(f"{mode}: {problem}" for mode, problem in failures.items())
    raise RestoreError(
        f"the state of {name} cannot be restored ({tried}). Hint: give it get_state() and set_state(state), make it "
        "deep-copyable, or let reset(seed=...) fix all its randomness (self.np_random)"
    )


def _by_state(source: EnvSource, running: Running) -> Env:
    env = running.env
    if env is not env.unwrapped:
        raise RestoreError("wrappers have state of their own")
    if not (callable(getattr(env, "get_state", None)) and callable(getattr(env, "set_state", None))):
        raise RestoreError("no get_state and set_state")
    other = source.take()
    other.reset(seed=running.seed)
    other.set_state(deepcopy(env.get_state()))
    if getattr(env, "_np_random", None) is not None:
        other.np_random = deepcopy(env.np_random)
    return other


def _by_replay(source: EnvSource, running: Running) -> Env:
    other = source.take()
    other.reset(seed=running.seed)
    for action in running.actions:
        other.step(action)
    return other


def _first_problem(source: EnvSource, way: Callable[[Running], Env]) -> str | None:
    original = source.take()
    rng = np.random.default_rng(SEED)
    try:
        original.reset(seed=SEED)
        moves = source.actions.decode(rng.integers(source.actions.count, size=MOVES_BEFORE + MOVES_AFTER))
        made: list[EnvAction] = []
        for action in moves[:MOVES_BEFORE]:
            made.append(action)
            if any(original.step(action)[2:4]):
                original.reset(seed=SEED)
                made.clear()
        twin = way(Running(original, SEED, made))
        return _first_difference(source, original, twin, moves[MOVES_BEFORE:])
    except Exception as error:
        return " ".join(str(error).split()) or type(error).__name__


def _first_difference(source: EnvSource, original: Env, twin: Env, moves: list[EnvAction]) -> str | None:
    """Moves the original to its end first, then the copy, so that shared state shows."""
    expected = _trail(source, original, moves)
    restored = _trail(source, twin, moves)
    for time, (one, other) in enumerate(zip(expected, restored, strict=False)):
        if not np.array_equal(one, other, equal_nan=True):
            return f"the restored environment differs after {time + 1} steps"
    return None if len(expected) == len(restored) else "the restored environment ends at another time"


def _trail(source: EnvSource, env: Env, moves: list[EnvAction]) -> list[AnyArray]:
    trail = []
    for action in moves:
        observation, reward, terminated, truncated, _ = env.step(action)
        row = source.observations.rows([observation]).ravel().astype(np.float64)
        trail.append(np.concatenate([row, np.ravel(reward), [float(terminated), float(truncated)]]))
        if terminated or truncated:
            break
    return trail
