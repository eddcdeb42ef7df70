"""Actions by name: policies that answer with names, and the one that always takes the same action."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from polidiff.errors import InvalidPolicyError
from polidiff.records.action import Action
from polidiff.records.arrays import AnyArray, FloatArray, IntArray

ALWAYS = "always:"  # before the name of an action


def names_of(actions: Sequence[Action | str] | None) -> tuple[str, ...] | None:
    """The names of a world's actions; None if there are none."""
    return None if actions is None else tuple(a.name if isinstance(a, Action) else str(a) for a in actions)


def is_text(answers: AnyArray) -> bool:
    """Whether answers are names: text, or objects that are all text."""
    return answers.dtype.kind in "US" or (
        answers.dtype.kind == "O" and answers.size > 0 and all(isinstance(answer, str) for answer in answers.ravel())
    )


def action_number(name: str, names: Sequence[str] | None, what: str) -> int:
    """The number of an action by its name, or by the number itself.

    >>> action_number("stay", ("go", "stay"), "a policy"), action_number("1", ("action 0", "action 1"), "a policy")
    (1, 1)
    """
    text = name.strip()
    if names is None:
        if text.isdecimal():
            return int(text)
        raise InvalidPolicyError(
            f"{what} names action {text!r}; the names of actions are not known here. Hint: numbers"
        )
    for known in (text, f"action {text}"):
        if known in names:
            return names.index(known)
    if text.isdecimal() and int(text) < len(names) and not any(known.isdecimal() for known in names):
        return int(text)
    near = difflib.get_close_matches(text, names, n=1)
    listed = ", ".join(map(repr, names[:8])) + (", …" if len(names) > 8 else "")
    hint = f". Hint: did you mean {near[0]!r}?" if near else ""
    raise InvalidPolicyError(f"{what} names action {text!r}; the {len(names)} actions are {listed}{hint}")


def action_numbers(answers: AnyArray, names: Sequence[str] | None, what: str) -> IntArray:
    """Numbers of actions from an array of their names."""
    distinct, place = np.unique(answers.astype(str), return_inverse=True)
    numbers = np.array([action_number(str(name), names, what) for name in distinct], dtype=np.int64)
    return np.asarray(numbers[place.reshape(answers.shape)], dtype=np.int64)


@dataclass(frozen=True)
class ConstantPolicy:
    """The same action in every state."""

    action: int
    n_actions: int

    def probabilities(self, states: AnyArray) -> FloatArray:
        """Probability 1 for the action."""
        table = np.zeros((len(np.asarray(states)), self.n_actions))
        table[:, self.action] = 1.0
        return table


def always(text: str, names: Sequence[str] | None, n_actions: int | None) -> ConstantPolicy:
    """The policy that a text such as "always:placebo" stands for."""
    number = action_number(text.removeprefix(ALWAYS), names, f"the policy {text!r}")
    count = len(names) if names is not None else n_actions
    if count is None or number >= count:
        known = "it is not known how many actions there are" if count is None else f"there are {count} actions (from 0)"
        raise InvalidPolicyError(f"the policy {text!r} takes action {number}; {known}")
    return ConstantPolicy(number, count)
