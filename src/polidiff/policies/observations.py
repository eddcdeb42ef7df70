"""States as the observations that a library's model was trained on."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from polidiff.errors import InvalidPolicyError
from polidiff.records.arrays import AnyArray


def rows_of(states: Any) -> AnyArray:
    """States as (n, d) rows; indices become one column."""
    batch = np.asarray(states)
    return batch.reshape(len(batch), math.prod(batch.shape[1:]))


def check_width(rows: AnyArray, expected: int | None, what: str) -> AnyArray:
    """The rows, if they have the number of columns that a model expects."""
    if expected is not None and rows.shape[1] != expected:
        raise InvalidPolicyError(
            f"{what} expects observations of {expected} numbers; the world's have {rows.shape[1]}. Hint: it was "
            "trained on another environment or with a wrapper; give the world the same one"
        )
    return rows


def observed(space: Any, states: Any, what: str) -> Any:
    """A batch of observations for a Gymnasium space, from state indices or flattened rows."""
    kinds = {cls.__name__ for cls in type(space).__mro__}
    rows = rows_of(states)
    if "Discrete" in kinds:
        return check_width(rows, 1, what)[:, 0].astype(np.int64)
    if kinds & {"Dict", "Tuple"}:
        check_width(rows, _width(space), what)
        return _split(space, rows)
    shape = tuple(space.shape)
    if len(shape) == 3:
        raise InvalidPolicyError(
            f"{what} expects pictures of shape {shape}, whose order of axes is not known here. Hint: pass a function "
            "of observations that calls the model"
        )
    return check_width(rows, math.prod(shape), what).reshape(len(rows), *shape).astype(space.dtype)


def _parts(space: Any) -> list[tuple[Any, Any]]:
    inner = space.spaces
    return list(inner.items()) if isinstance(inner, Mapping) else list(enumerate(inner))


def _width(space: Any) -> int:
    if hasattr(space, "spaces"):
        return sum(_width(part) for _, part in _parts(space))
    return math.prod(space.shape)


def _split(space: Any, rows: AnyArray) -> Any:
    if not hasattr(space, "spaces"):
        return rows.reshape(len(rows), *space.shape).astype(space.dtype)
    pieces, first = {}, 0
    for key, part in _parts(space):
        pieces[key] = _split(part, rows[:, first : first + _width(part)])
        first += _width(part)
    return pieces if isinstance(space.spaces, Mapping) else tuple(pieces.values())


def action_count(space: Any, what: str) -> int:
    """How many actions a library's model chooses among; an error if they are real numbers."""
    kinds = {cls.__name__ for cls in type(space).__mro__}
    if "Discrete" in kinds:
        return int(space.n)
    if "MultiDiscrete" in kinds:
        return int(np.prod(space.nvec))
    if "Box" in kinds:
        raise InvalidPolicyError(
            f"actions must be discrete; {what} chooses {math.prod(space.shape)} real numbers. Hint: choose levels and "
            "wrap the policy, Discretised(policy, bins)"
        )
    raise InvalidPolicyError(f"actions must be discrete; {what} has {type(space).__name__}")
