"""Episodes of Gymnasium environments in step: one environment each, or a vector that cannot be taken apart.

Each slot of a vector plays one episode. What the vector does with a slot after its episode has ended (reset at once, or
with a dummy transition at the next step) is never looked at; only the last observation must be fetched from where a
vector that resets at once puts it.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from copy import copy
from dataclasses import replace

import numpy as np

from polidiff.errors import InvalidOutcomeError, InvalidWorldError, RestoreError
from polidiff.records.arrays import AnyArray, FloatArray, IntArray
from polidiff.worlds.gymnasium.source import EnvSource, Running, as_source
from polidiff.worlds.gymnasium.spaces import Env, EnvLike, Info, Observation
from polidiff.worlds.steppers import Step, Stepper

REWARD_PART = "reward:"


def reward_part(key: str, rewards: FloatArray) -> FloatArray:
    """One part of vector rewards (k, m), by its number.

    >>> import numpy as np
    >>> reward_part("reward:1", np.array([[1.0, 5.0], [2.0, 6.0]]))
    array([5., 6.])
    """
    number = key.removeprefix(REWARD_PART)
    parts = rewards.shape[1] if rewards.ndim == 2 else 1
    if not number.isdecimal() or int(number) >= parts:
        raise InvalidOutcomeError(
            f"{key!r} must name a part of the reward, 'reward:0' to 'reward:{parts - 1}'; this environment pays "
            f"{parts} number{'s' * (parts > 1)} per step"
        )
    return rewards[:, int(number)] if rewards.ndim == 2 else rewards


class _EnvStepper:
    """Episodes of an environment, and the keys that its `info` must have carried by the end of each."""

    def __init__(self, source: EnvSource, info_keys: Sequence[str]) -> None:
        self.source = source
        self.info_keys = tuple(info_keys)
        self._missing = {key for key in info_keys if not key.startswith(REWARD_PART)}
        self._states: AnyArray = np.zeros(0)

    @property
    def states(self) -> AnyArray:
        """Present observations, (n,) indices or (n, d) rows."""
        return self._states

    def _arrive(self, running: IntArray, step: Step, offered: Sequence[Info]) -> Step:
        """The step, with a vector reward summed; an error if some key has not come by the end of an episode."""
        if self._missing and (step.terminated | step.truncated).any():
            keys = sorted({str(key) for info in offered for key in info})
            raise InvalidOutcomeError(
                f"info must carry {sorted(self._missing)[0]!r}; by the end of an episode it came with "
                f"{keys or 'no keys'}. Hint: put the key into every info, with 0 where nothing happened"
            )
        self._states[running] = step.next_states
        return step if step.rewards.ndim == 1 else replace(step, rewards=step.rewards.sum(axis=1))


def _check_returned(results: Sequence[object], count: int, method: str, source: EnvSource) -> None:
    """An error that names what an environment returned, if it is not as Gymnasium has it."""
    if results and not (isinstance(results[0], tuple) and len(results[0]) == count):
        values = f"{len(results[0])} values" if isinstance(results[0], tuple) else type(results[0]).__name__
        raise InvalidWorldError(
            f"{method} must return {count} values, as in Gymnasium; {type(source.example.unwrapped).__name__} returned "
            f"{values}. Hint: shimmy's GymV21CompatibilityV0 takes environments of the older gym"
        )


class VectorStepper(_EnvStepper):
    """The present state of n episodes, spread over as many copies of the vector as are needed.

    Luck is fixed by the seeds of the batch, not of single episodes, where the vector takes one seed only.
    """

    restore_mode = "none"

    def __init__(self, source: EnvSource, seeds: IntArray, info_keys: Sequence[str] = ()) -> None:
        super().__init__(source, info_keys)
        self.n = len(seeds)
        self._width = int(source.example.num_envs)
        self._vectors = [source.take() for _ in range(0, self.n, self._width)]
        weakref.finalize(self, source.give_back, self._vectors)
        first = [self._first(vector, seeds[k * self._width :]) for k, vector in enumerate(self._vectors)]
        self._states = np.concatenate(first)[: self.n]

    def step(self, actions: IntArray, running: IntArray) -> Step:
        """Move the episodes `running` by `actions`; other slots of a vector move idly and do not count."""
        moves = np.zeros(len(self._vectors) * self._width, dtype=np.int64)
        moves[running] = actions
        used = np.unique(running // self._width)
        parts = [self._moved(int(k), moves[k * self._width : (k + 1) * self._width]) for k in used]
        slots = (running % self._width) + self._width * np.searchsorted(used, running // self._width)
        states, rewards, ended, cut = (np.concatenate(column)[slots] for column in list(zip(*parts, strict=True))[:4])
        infos = {key: np.concatenate([part[4][key] for part in parts])[slots] for key in self.info_keys}
        return self._arrive(running, Step(states, rewards, ended, cut, infos), [])

    def clone(self, indices: IntArray) -> VectorStepper:
        """Refused: single episodes of a vector cannot be restored."""
        raise RestoreError(
            f"single episodes of {type(self.source.example).__name__} cannot be restored. Hint: give the id or a "
            "factory of the single environment instead of the vector"
        )

    def _first(self, vector: Env, seeds: IntArray) -> AnyArray:
        padded = np.resize(seeds[: self._width], self._width)
        try:
            observations, _ = vector.reset(seed=[int(seed) for seed in padded])
        except Exception:  # a vector with one generator refuses a list of seeds, each in its own way
            observations, _ = vector.reset(seed=int(padded[0]))
        return self._rows(observations)

    def _rows(self, observations: Observation) -> AnyArray:
        if self.source.observations.row is not None:
            observations = [_slot(observations, slot) for slot in range(self._width)]
        return self.source.observations.rows(observations)

    def _moved(self, which: int, moves: IntArray) -> tuple[AnyArray, FloatArray, AnyArray, AnyArray, Info]:
        here = np.resize(
            self._states[which * self._width : (which + 1) * self._width], (self._width, *self._states.shape[1:])
        )
        taken = np.asarray(self.source.actions.decode(moves, here))
        observations, rewards, ended, cut, info = self._vectors[which].step(taken)
        states, paid = self._rows(observations), np.asarray(rewards, dtype=np.float64)
        last = info.get("final_obs", info.get("final_observation"))
        for slot in np.flatnonzero(np.asarray(ended) | np.asarray(cut)) if last is not None else ():
            if last[slot] is not None:
                states[slot] = self.source.observations.rows([last[slot]])[0]
        columns = {key: self._column(key, paid, info) for key in self.info_keys}
        return states, paid, np.asarray(ended, dtype=np.bool_), np.asarray(cut, dtype=np.bool_), columns

    def _column(self, key: str, rewards: FloatArray, info: Info) -> FloatArray:
        if key.startswith(REWARD_PART):
            return reward_part(key, rewards)
        final = info.get("final_info") or {}
        column = np.zeros(self._width)
        for values, present in ((info, slice(None)), (final, info.get("_final_info", slice(None)))):
            if isinstance(values, dict) and key in values:
                self._missing.discard(key)
                column[present] = np.asarray(values[key], dtype=np.float64)[present]
        return column


def _slot(observations: Observation, slot: int) -> Observation:
    if isinstance(observations, dict):
        return {key: _slot(part, slot) for key, part in observations.items()}
    if isinstance(observations, tuple):
        return tuple(_slot(part, slot) for part in observations)
    return observations[slot]


class GymnasiumStepper(_EnvStepper):
    """The present state of n episodes, each in its own copy of the environment.

    A vector reward counts as the sum of its parts, and each part can be asked for as the key ``"reward:0"``. A key
    that `info` does not carry at some step adds nothing there; it must have come by the end of an episode.
    """

    def __init__(self, source: EnvSource, episodes: list[Running], states: AnyArray, info_keys: Sequence[str]) -> None:
        super().__init__(source, info_keys)
        self.restore_mode: str = source.restore.mode  # "state", "copy", "replay", or "none" if clones cannot be made
        self._episodes, self._states = episodes, states
        self._owners: tuple[GymnasiumStepper, ...] = ()
        weakref.finalize(self, source.give_back, [episode.env for episode in episodes])

    @classmethod
    def start(cls, origin: EnvLike, seeds: IntArray, *, info_keys: Sequence[str] = ()) -> Stepper:
        """One episode per seed, at its start."""
        source = as_source(origin)
        if source.is_vector:
            return VectorStepper(source, seeds, info_keys)
        episodes = [Running(source.take(), int(seed)) for seed in seeds]
        begun = [episode.env.reset(seed=episode.seed) for episode in episodes]
        _check_returned(begun, 2, "reset", source)
        return cls(source, episodes, source.observations.rows([first for first, _ in begun]), info_keys)

    @property
    def n(self) -> int:
        """How many episodes there are."""
        return len(self._episodes)

    def step(self, actions: IntArray, running: IntArray) -> Step:
        """Move the episodes `running` by `actions`, both of length k."""
        moves = self.source.actions.decode(np.asarray(actions), self._states[running])
        episodes = [self._episodes[index] for index in running.tolist()]
        results = [episode.env.step(move) for episode, move in zip(episodes, moves, strict=True)]
        _check_returned(results, 5, "step", self.source)
        for episode, move in zip(episodes, moves, strict=True):
            episode.moved(move, kept=self.restore_mode == "replay")
        observations, rewards, terminated, truncated, infos = zip(*results, strict=True) if results else ((),) * 5
        next_states = self.source.observations.rows(observations)
        ended, cut = np.array(terminated, dtype=np.bool_), np.array(truncated, dtype=np.bool_)
        if self.source.time_limit is not None:
            cut |= np.array([episode.steps >= self.source.time_limit for episode in episodes], dtype=np.bool_)
        paid = np.array(rewards, dtype=np.float64)
        columns = {key: self._column(key, paid, infos) for key in self.info_keys}
        return self._arrive(running, Step(next_states, paid, ended, cut, columns), infos)

    def clone(self, indices: IntArray) -> GymnasiumStepper:
        """A stepper of its own that goes on from the states of these episodes, with the same luck."""
        chosen = [self._episodes[index] for index in indices.tolist()]
        twins = [episode.twin(self.source.restore.twin(episode)) for episode in chosen]
        return GymnasiumStepper(self.source, twins, np.array(self._states[indices]), self.info_keys)

    def reseed(self, draw: int) -> None:
        """Luck of another draw, the same for all clones that ask for it; environments without luck stay as they are."""
        for episode in self._episodes:
            inner: Env = getattr(episode.env, "unwrapped", episode.env)
            if hasattr(inner, "np_random"):
                inner.np_random = np.random.default_rng(draw)

    @classmethod
    def joined(cls, parts: Sequence[GymnasiumStepper]) -> GymnasiumStepper:
        """All episodes of the parts, from now on side by side; the parts keep their environments alive."""
        whole = copy(parts[0])
        whole._missing = set().union(*(part._missing for part in parts))
        whole._episodes = [episode for part in parts for episode in part._episodes]
        whole._states = np.concatenate([part._states for part in parts])
        whole._owners = tuple(parts)
        return whole

    def _column(self, key: str, rewards: FloatArray, infos: Sequence[Info]) -> FloatArray:
        if key.startswith(REWARD_PART):
            return reward_part(key, rewards)
        if key in self._missing and any(key in info for info in infos):
            self._missing.discard(key)
        return np.array([info.get(key, 0.0) for info in infos], dtype=np.float64)
