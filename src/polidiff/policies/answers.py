"""What models answer, as probabilities: logits, values, probabilities or chosen actions."""

from __future__ import annotations

from typing import Any

import numpy as np

from polidiff.errors import InvalidPolicyError
from polidiff.policies.protocol import check_probabilities, one_hot, top_actions
from polidiff.records.arrays import AnyArray, FloatArray

OUTPUTS = ("logits", "probabilities", "values", "action")
ROUNDING = 1e-3  # single and half precision
CONTINUOUS = "Hint: choose levels and wrap the policy, Discretised(policy, bins)"


def check_output(output: str | None) -> None:
    """An error unless `output` is one of the known kinds, or None."""
    if output is not None and output not in OUTPUTS:
        raise InvalidPolicyError(f"output must be one of {', '.join(OUTPUTS)}; got {output!r}")


def as_probabilities(
    answer: Any, count: int, *, output: str | None = None, n_actions: int | None = None, what: str = "the model"
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
        return _chosen(array, n_actions, what)
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
        rounded: FloatArray = table / sums
        return rounded
    return check_probabilities(table, f"each answer of {what}")


def softmax(logits: FloatArray) -> FloatArray:
    r""":math:`e^{x_a} / \sum_b e^{x_b}` of each row."""
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares: FloatArray = weights / weights.sum(axis=1, keepdims=True)
    return shares


def _read(table: FloatArray, output: str | None, what: str) -> FloatArray:
    if not np.isfinite(table).all():
        row = int(np.flatnonzero(~np.isfinite(table).all(axis=1))[0])
        raise InvalidPolicyError(f"{what} must answer with finite numbers; for state number {row} it gave {table[row]}")
    if output == "logits":
        return softmax(table)
    if output == "values":
        return one_hot(top_actions(table), table.shape[1])
    if output is None and not (table.min(initial=0) >= 0 and (np.abs(table.sum(axis=1) - 1) <= ROUNDING).all()):
        raise InvalidPolicyError(
            f"{what} gives {table.shape[1]} numbers per state that are no probabilities, and it is not said what they "
            "are. Hint: output='logits' (softmax) or output='values' (the largest is chosen)"
        )
    return normalised(table, what)


def _chosen(array: AnyArray, n_actions: int | None, what: str) -> FloatArray:
    if n_actions is None:
        raise InvalidPolicyError(f"{what} does not tell how many actions there are. Hint: as_policy(..., n_actions=)")
    actions = array.astype(np.int64)
    off = np.flatnonzero(actions != array)
    if off.size:
        raise InvalidPolicyError(
            f"{what} must choose actions 0 to {n_actions - 1}; for state number {off[0]} it gave {array[off[0]]!r}. "
            f"{CONTINUOUS}"
        )
    off = np.flatnonzero((actions < 0) | (actions >= n_actions))
    if off.size:
        raise InvalidPolicyError(
            f"{what} must choose actions 0 to {n_actions - 1}; for state number {off[0]} it chose {actions[off[0]]}"
        )
    return one_hot(actions, n_actions)
