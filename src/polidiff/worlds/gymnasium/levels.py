"""Levels for an environment that takes real numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from polidiff.errors import InvalidWorldError, MissingExtraError
from polidiff.worlds.gymnasium.source import made
from polidiff.worlds.gymnasium.spaces import space_kind


def with_levels(env: Any, bins: npt.ArrayLike) -> Any:
    """The environment with one discrete action per row of `bins` (A, d), or per entry if it takes a single number.

    The same `bins` given to ``Discretised(policy, bins)`` make a policy of real numbers choose among them.
    """
    try:
        import gymnasium
    except ImportError:
        raise MissingExtraError("gymnasium", "gym") from None
    inner = made(env) if isinstance(env, str) else env
    space = inner.action_space
    if space_kind(space) != "Box":
        raise InvalidWorldError(f"levels are for environments that take real numbers; this one takes {space}")
    table = np.asarray(bins, dtype=space.dtype).reshape(len(np.asarray(bins)), -1)
    width = int(np.prod(space.shape))
    if table.shape[1] != width:
        raise InvalidWorldError(f"bins must have shape (levels, {width}); got {np.asarray(bins).shape}")
    levels = table.reshape(len(table), *space.shape)
    outside = [index for index, level in enumerate(levels) if not space.contains(level)]
    if outside:
        raise InvalidWorldError(
            f"levels must lie between {space.low} and {space.high}; level {outside[0]} is {levels[outside[0]]}"
        )
    return gymnasium.wrappers.TransformAction(
        inner, lambda action: levels[int(action)], gymnasium.spaces.Discrete(len(levels))
    )
