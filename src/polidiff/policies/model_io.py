"""What goes into a model and what comes out: states as its observations, its answers as probabilities."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from polidiff.errors import InvalidPolicyError
from polidiff.policies.protocol import (
    ForeignModel,
    check_actions,
    check_probabilities,
    is_text,
    one_hot,
    told_count,
    top_actions,
)
from polidiff.records.arrays import AnyArray, FloatArray


def rows_of(states: AnyArray) -> AnyArray:
    """States as (n, d) rows; indices become one column."""
    batch = np.asarray(states)
    return batch.reshape(len(batch), math.prod(batch.shape[1:]))


def check_width(rows: AnyArray, expected: int | None, what: str) -> AnyArray:
    """The rows, if they have the number of columns that a model expects."""
    if expected is not None and rows.shape[1] != expected:
        hint = "it was trained on another environment or with a wrapper; give the world the same one"
        frames, rest = divmod(expected, max(1, rows.shape[1]))
        if frames > 1 and not rest:
            hint = (
                f"if it was trained on {frames} frames, Simulator(lambda: FrameStackObservation(gymnasium.make(ID), "
                f"{frames}, padding_type='zero'))"
            )
        raise InvalidPolicyError(
            f"{what} expects observations of {expected} numbers; the world's have {rows.shape[1]}. Hint: {hint}"
        )
    return rows


Batch: TypeAlias = AnyArray | Mapping[str | int, "Batch"] | tuple["Batch", ...]  # observations as a space has them


def observed(space: ForeignModel, states: AnyArray, what: str) -> Batch:
    """A batch of observations for a Gymnasium space, from state indices or flattened rows."""
    kind, rows = space_kind(space), rows_of(states)
    if kind == "Discrete":
        return check_width(rows, 1, what)[:, 0].astype(np.int64)
    if kind in ("Dict", "Tuple"):
        check_width(rows, _width(space), what)
        return _split(space, rows)
    shape = tuple(space.shape)
    if len(shape) == 3:
        raise InvalidPolicyError(
            f"{what} expects pictures of shape {shape}, whose order of axes is not known here. Hint: pass a function "
            "of observations that calls the model"
        )
    return check_width(rows, math.prod(shape), what).reshape(len(rows), *shape).astype(space.dtype)


def space_kind(space: ForeignModel) -> str:
    """The name of the space's class, looking through subclasses."""
    known = {"Box", "Discrete", "MultiDiscrete", "MultiBinary", "Dict", "Tuple"}
    return next((cls.__name__ for cls in type(space).__mro__ if cls.__name__ in known), type(space).__name__)


def parts_of(space: ForeignModel) -> list[tuple[str | int, ForeignModel]]:
    """Keys and spaces of a Dict or Tuple space."""
    inner = space.spaces
    return list(inner.items()) if isinstance(inner, Mapping) else list(enumerate(inner))


def _width(space: ForeignModel) -> int:
    if hasattr(space, "spaces"):
        return sum(_width(part) for _, part in parts_of(space))
    return math.prod(space.shape)


def _split(space: ForeignModel, rows: AnyArray) -> Batch:
    if not hasattr(space, "spaces"):
        return rows.reshape(len(rows), *space.shape).astype(space.dtype)
    pieces, first = {}, 0
    for key, part in parts_of(space):
        pieces[key] = _split(part, rows[:, first : first + _width(part)])
        first += _width(part)
    return pieces if isinstance(space.spaces, Mapping) else tuple(pieces.values())


def action_count(space: ForeignModel, what: str) -> int:
    """How many actions a library's model chooses among; an error if they are real numbers."""
    kind = space_kind(space)
    if kind == "Discrete":
        return int(space.n)
    if kind == "MultiDiscrete":
        return int(np.prod(space.nvec))
    if kind == "Box":
        raise InvalidPolicyError(
            f"actions must be discrete; {what} chooses {math.prod(space.shape)} real numbers. Hint: choose levels and "
            "wrap the policy, Discretised(policy, bins)"
        )
    raise InvalidPolicyError(f"actions must be discrete; {what} has {type(space).__name__}")


PROBE = 3  # states that a function is tried on
OUTPUTS = ("logits", "probabilities", "values", "action")
ROUNDING = 1e-3  # single and half precision
CONTINUOUS = "Hint: choose levels and wrap the policy, Discretised(policy, bins)"


def check_output(output: str | None) -> None:
    """An error unless `output` is one of the known kinds, or None."""
    if output is not None and output not in OUTPUTS:
        raise InvalidPolicyError(f"output must be one of {', '.join(OUTPUTS)}; got {output!r}")


def as_probabilities(
    answer: npt.ArrayLike,
    count: int,
    *,
    output: str | None = None,
    n_actions: int | None = None,
    what: str = "the model",
) -> FloatArray:
    """Probabilities (n, A) from a model's answer for `count` states.

    Parameters
    ----------
    answer : array (n,) or (n, A)
        One chosen action, or one number per action, for each state.
    output : {"logits", "probabilities", "values", "action"} or None
        How to read it: logits go through a softmax, values are followed greedily. None reads whole numbers as actions
        and rows that sum to 1 as probabilities; other rows are ambiguous.

    Examples
    --------
    >>> as_probabilities([[0.0, 0.0]], 1, output="logits")
    array([[0.5, 0.5]])
    >>> as_probabilities([[1.0, 3.0]], 1, output="values")
    array([[0., 1.]])
    >>> as_probabilities([1, 0], 2, n_actions=2)
    array([[0., 1.],
           [1., 0.]])
    """
    array = np.asarray(answer)
    if array.ndim == 2 and array.shape[1] == 1 and (output == "action" or np.issubdtype(array.dtype, np.integer)):
        array = array[:, 0]
    if array.ndim not in (1, 2) or len(array) != count:
        raise InvalidPolicyError(
            f"{what} must answer {count} states with ({count},) actions or ({count}, actions) numbers; it answered "
            f"with shape {array.shape}"
        )
    if array.ndim == 1:
        if output not in (None, "action"):
            raise InvalidPolicyError(f"{what} was to give {output} of shape ({count}, actions); it gave {array.shape}")
        return one_hot(check_actions(array, count := told_count(n_actions, what), what, f". {CONTINUOUS}"), count)
    if output == "action":
        raise InvalidPolicyError(f"{what} chooses {array.shape[1]} numbers per state, not one action. {CONTINUOUS}")
    if n_actions is not None and array.shape[1] != n_actions:
        raise InvalidPolicyError(
            f"{what} must give {n_actions} numbers per state, one per action; got {array.shape[1]}"
        )
    return _read(array.astype(np.float64), output, what)


def normalised(table: FloatArray, what: str) -> FloatArray:
    """Probabilities with the rounding of single precision taken out."""
    sums = table.sum(axis=1, keepdims=True)
    if table.min(initial=0.0) >= 0 and np.abs(sums - 1).max(initial=0.0) <= ROUNDING:  # false for NaN
        return table / sums
    return check_probabilities(table, f"each answer of {what}")


def _read(table: FloatArray, output: str | None, what: str) -> FloatArray:
    if not np.isfinite(table).all():
        row = int(np.flatnonzero(~np.isfinite(table).all(axis=1))[0])
        raise InvalidPolicyError(f"{what} must answer with finite numbers; for state number {row} it gave {table[row]}")
    if output == "logits":
        from scipy.special import softmax

        return np.asarray(softmax(table, axis=1))
    if output == "values":
        return one_hot(top_actions(table), table.shape[1])
    if output is None and not (table.min(initial=0) >= 0 and (np.abs(table.sum(axis=1) - 1) <= ROUNDING).all()):
        raise InvalidPolicyError(
            f"{what} gives {table.shape[1]} numbers per state that are no probabilities, and it is not said what they "
            "are. Hint: output='logits' (softmax) or output='values' (the largest is chosen)"
        )
    return normalised(table, what)


def takes_batches(function: Callable[..., object], batch: AnyArray) -> bool:
    """Whether a function takes many states at once: it answers each, and as it answers them one by one.

    Where it answers neither, what it says to many is the error.
    """
    probe = batch[np.linspace(0, len(batch) - 1, PROBE).astype(np.int64)]
    try:
        together = np.asarray(function(probe))
    except Exception as of_many:
        try:
            function(probe[0])
        except Exception:
            raise of_many from None
        return False
    if together.ndim not in (1, 2) or len(together) != PROBE:
        return False
    try:
        apart = np.asarray([np.asarray(function(state)) for state in probe])
    except Exception:
        return True
    if apart.shape != together.shape:
        return True
    if is_text(together) or together.dtype.kind == "O":
        return bool((apart == together).all())
    return bool(np.allclose(apart.astype(float), together.astype(float)))
