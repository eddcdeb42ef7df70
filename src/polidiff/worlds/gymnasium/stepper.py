"""Episodes of a Gymnasium environment in lock-step: one copy of the environment per episode."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from polidiff.records.arrays import AnyArray, FloatArray, IntArray
from polidiff.worlds.gymnasium.columns import REWARD_PART, check_came, reward_part
from polidiff.worlds.gymnasium.restore import Running
from polidiff.worlds.gymnasium.source import EnvSource, as_source
from polidiff.worlds.steppers import Step, Stepper


class GymnasiumStepper:
    """The present state of n episodes, each in its own copy of the environment.

    A vector reward counts as the sum of its parts, and each part can be asked for as the key ``"reward:0"``. A key
    that `info` does not carry at some step adds nothing there; it must have come by the end of an episode.
    """

    def __init__(self, source: EnvSource, envs: list[Any], seeds: list[int], info_keys: Sequence[str]) -> None:
        self.source = source
        self.info_keys = tuple(info_keys)
        self._missing = {key for key in info_keys if not key.startswith(REWARD_PART)}
        self.restore_mode: str = source.restore.mode  # "state", "copy", "replay", or "none" if clones cannot be made
        self._envs = envs
        self._seeds = seeds
        self._elapsed = np.zeros(len(envs), dtype=np.int64)
        self._actions: list[list[Any]] = [[] for _ in envs]
        self._states: AnyArray = np.zeros(0)
        self._owners: tuple[GymnasiumStepper, ...] = ()
        weakref.finalize(self, source.give_back, envs)

    @classmethod
    def start(cls, origin: Any, seeds: IntArray, *, info_keys: Sequence[str] = ()) -> Stepper:
        """One episode per seed, at its start."""
        source = as_source(origin)
        if source.is_vector:
            from polidiff.worlds.gymnasium.vector import VectorStepper

            return VectorStepper(source, seeds, info_keys)
        numbers = [int(seed) for seed in seeds]
        stepper = cls(source, [source.take() for _ in numbers], numbers, info_keys)
        first = [env.reset(seed=seed)[0] for env, seed in zip(stepper._envs, numbers, strict=True)]
        stepper._states = source.observations.rows(first)
        return stepper

    @property
    def n(self) -> int:
        """How many episodes there are."""
        return len(self._envs)

    @property
    def states(self) -> AnyArray:
        """Present observations, (n,) indices or (n, d) rows."""
        return self._states

    def step(self, actions: IntArray, running: IntArray) -> Step:
        """Move the episodes `running` by `actions`, both of length k."""
        envs, moves = self._envs, self.source.actions.decode(np.asarray(actions))
        indices = running.tolist()
        results = [envs[index].step(move) for index, move in zip(indices, moves, strict=True)]
        if self.source.restore.keeps_actions:
            for index, move in zip(indices, moves, strict=True):
                self._actions[index].append(move)
        observations, rewards, terminated, truncated, infos = zip(*results, strict=True) if results else ((),) * 5
        next_states = self.source.observations.rows(observations)
        self._states[running] = next_states
        self._elapsed[running] += 1
        ended = np.array(terminated, dtype=np.bool_)
        cut = np.array(truncated, dtype=np.bool_)
        if self.source.time_limit is not None:
            cut |= self._elapsed[running] >= self.source.time_limit
        paid = np.array(rewards, dtype=np.float64)
        columns = {key: self._column(key, paid, infos) for key in self.info_keys}
        if self._missing and (ended | cut).any():
            check_came(self._missing, infos)
        return Step(next_states, paid if paid.ndim == 1 else paid.sum(axis=1), ended, cut, columns)

    def clone(self, indices: IntArray) -> GymnasiumStepper:
        """A stepper of its own that goes on from the states of these episodes, with the same luck."""
        chosen = [int(index) for index in indices]
        twin = self.source.restore.twin
        envs = [twin(Running(self._envs[i], self._seeds[i], self._actions[i])) for i in chosen]
        other = GymnasiumStepper(self.source, envs, [self._seeds[i] for i in chosen], self.info_keys)
        other._states = np.array(self._states[chosen])
        other._elapsed = np.array(self._elapsed[chosen])
        other._actions = [list(self._actions[i]) for i in chosen]
        return other

    def reseed(self, draw: int) -> None:
        """Luck of another draw, the same for all clones that ask for it; environments without luck stay as they are."""
        for env in self._envs:
            inner = getattr(env, "unwrapped", env)
            if hasattr(inner, "np_random"):
                inner.np_random = np.random.default_rng(draw)

    @classmethod
    def joined(cls, parts: Sequence[GymnasiumStepper]) -> GymnasiumStepper:
        """All episodes of the parts, from now on side by side; the parts keep their environments alive."""
        whole = cls.__new__(cls)
        whole.source, whole.info_keys = parts[0].source, parts[0].info_keys
        whole._missing = set().union(*(part._missing for part in parts))
        whole.restore_mode = parts[0].restore_mode
        whole._envs = [env for part in parts for env in part._envs]
        whole._seeds = [seed for part in parts for seed in part._seeds]
        whole._elapsed = np.concatenate([part._elapsed for part in parts])
        whole._actions = [actions for part in parts for actions in part._actions]
        whole._states = np.concatenate([part._states for part in parts])
        whole._owners = tuple(parts)
        return whole

    def _column(self, key: str, rewards: FloatArray, infos: Sequence[dict[str, Any]]) -> FloatArray:
        if key.startswith(REWARD_PART):
            return reward_part(key, rewards)
        if key in self._missing and any(key in info for info in infos):
            self._missing.discard(key)
        return np.array([info.get(key, 0.0) for info in infos], dtype=np.float64)
