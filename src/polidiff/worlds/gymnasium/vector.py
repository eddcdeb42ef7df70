"""Episodes of an environment that steps many at once and cannot be taken apart.

Each slot of the vector plays one episode. What the vector does with a slot after its episode has ended (reset at once,
or with a dummy transition at the next step) is never looked at; only the last observation must be fetched from where a
vector that resets at once puts it.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from polidiff.errors import RestoreError
from polidiff.records.arrays import AnyArray, FloatArray, IntArray
from polidiff.worlds.gymnasium.columns import REWARD_PART, check_came, reward_part
from polidiff.worlds.gymnasium.source import EnvSource
from polidiff.worlds.steppers import Step


class VectorStepper:
    """The present state of n episodes, spread over as many copies of the vector as are needed.

    Luck is fixed by the seeds of the batch, not of single episodes, where the vector takes one seed only.
    """

    restore_mode = "none"

    def __init__(self, source: EnvSource, seeds: IntArray, info_keys: Sequence[str] = ()) -> None:
        self.source = source
        self.info_keys = tuple(info_keys)
        self._missing = {key for key in info_keys if not key.startswith(REWARD_PART)}
        self.n = len(seeds)
        self._width = int(source.example.num_envs)
        self._vectors = [source.take() for _ in range(0, self.n, self._width)]
        weakref.finalize(self, source.give_back, self._vectors)
        first = [self._first(vector, seeds[k * self._width :]) for k, vector in enumerate(self._vectors)]
        self._states: AnyArray = np.concatenate(first)[: self.n]

    @property
    def states(self) -> AnyArray:
        """Present observations."""
        return self._states

    def step(self, actions: IntArray, running: IntArray) -> Step:
        """Move the episodes `running` by `actions`; other slots of a vector move idly and do not count."""
        moves = np.zeros(len(self._vectors) * self._width, dtype=np.int64)
        moves[running] = actions
        used = np.unique(running // self._width)
        parts = [self._moved(int(k), moves[k * self._width : (k + 1) * self._width]) for k in used]
        slots = (running % self._width) + self._width * np.searchsorted(used, running // self._width)
        states, rewards, ended, cut = (np.concatenate(column)[slots] for column in list(zip(*parts, strict=True))[:4])
        infos = {key: np.concatenate([part[4][key] for part in parts])[slots] for key in self.info_keys}
        if self._missing and (ended | cut).any():
            check_came(self._missing, [])
        self._states[running] = states
        return Step(states, rewards if rewards.ndim == 1 else rewards.sum(axis=1), ended, cut, infos)

    def clone(self, indices: IntArray) -> VectorStepper:
        """Refused: single episodes of a vector cannot be restored."""
        raise RestoreError(
            f"single episodes of {type(self.source.example).__name__} cannot be restored. Hint: give the id or a "
            "factory of the single environment instead of the vector"
        )

    def _first(self, vector: Any, seeds: IntArray) -> AnyArray:
        padded = np.resize(seeds[: self._width], self._width)
        try:
            observations, _ = vector.reset(seed=[int(seed) for seed in padded])
        except Exception:  # a vector with one generator refuses a list of seeds, each in its own way
            observations, _ = vector.reset(seed=int(padded[0]))
        return self._rows(observations)

    def _rows(self, observations: Any) -> AnyArray:
        if self.source.observations.row is not None:
            observations = [_slot(observations, slot) for slot in range(self._width)]
        return self.source.observations.rows(observations)

    def _moved(self, which: int, moves: IntArray) -> tuple[AnyArray, FloatArray, AnyArray, AnyArray, dict[str, Any]]:
        taken = np.asarray(self.source.actions.decode(moves))
        observations, rewards, ended, cut, info = self._vectors[which].step(taken)
        states, paid = self._rows(observations), np.asarray(rewards, dtype=np.float64)
        last = info.get("final_obs", info.get("final_observation"))
        for slot in np.flatnonzero(np.asarray(ended) | np.asarray(cut)) if last is not None else ():
            if last[slot] is not None:
                states[slot] = self.source.observations.rows([last[slot]])[0]
        columns = {key: self._column(key, paid, info) for key in self.info_keys}
        return states, paid, np.asarray(ended, dtype=np.bool_), np.asarray(cut, dtype=np.bool_), columns

    def _column(self, key: str, rewards: FloatArray, info: dict[str, Any]) -> FloatArray:
        if key.startswith(REWARD_PART):
            return reward_part(key, rewards)
        final = info.get("final_info") or {}
        column = np.zeros(self._width)
        for found, present in ((info, slice(None)), (final, info.get("_final_info", slice(None)))):
            if isinstance(found, dict) and key in found:
                self._missing.discard(key)
                column[present] = np.asarray(found[key], dtype=np.float64)[present]
        return column


def _slot(observations: Any, slot: int) -> Any:
    if isinstance(observations, dict):
        return {key: _slot(part, slot) for key, part in observations.items()}
    if isinstance(observations, tuple):
        return tuple(_slot(part, slot) for part in observations)
    return observations[slot]
