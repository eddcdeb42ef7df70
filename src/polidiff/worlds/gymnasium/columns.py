"""Further columns of a step: keys of `info`, and the parts of a vector reward."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from polidiff.errors import InvalidOutcomeError
from polidiff.records.arrays import FloatArray

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


def check_came(missing: set[str], offered: Sequence[Mapping[str, Any]]) -> None:
    """An error if some key has not come by the end of an episode."""
    if missing:
        keys = sorted({str(key) for info in offered for key in info})
        raise InvalidOutcomeError(
            f"info must carry {sorted(missing)[0]!r}; by the end of an episode it came with {keys or 'no keys'}. Hint: "
            "put the key into every info, with 0 where nothing happened"
        )
