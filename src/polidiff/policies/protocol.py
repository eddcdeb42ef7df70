"""What every stage asks of a policy: probabilities of actions for a batch of states, also where it answers by name."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from polidiff.errors import InvalidPolicyError
from polidiff.records.arrays import AnyArray, FloatArray, IntArray, as_numbers
from polidiff.records.parse import name_like, offered

TIE = 1e-9
FEW = 8  # actions
ForeignModel: TypeAlias = Any  # an object of a library that is never imported here; recognised by what it can do
ALWAYS = "always:"  # before the name of an action


@runtime_checkable
class Policy(Protocol):
    """Maps states to distributions over actions.

    States are indices (n,) for a table and observations (n, …) for a simulator or log.
    """

    @property
    def n_actions(self) -> int:
        """How many actions there are."""
        ...

    def probabilities(self, states: AnyArray) -> FloatArray:
        """Probability of each action, shape (n, n_actions)."""
        ...


class Model(Protocol):
    """A model of a library: Stable-Baselines3, scikit-learn, d3rlpy and others have this in common."""

    predict: Callable[..., object]


class WrittenLog(Protocol):
    """A log of past decisions, standing for the policy that wrote it; taken where the world is a log too."""

    @property
    def kind(self) -> str:
        """The kind of world that it is."""
        ...


PolicyLike: TypeAlias = (
    Policy | Model | WrittenLog | npt.ArrayLike | str | os.PathLike[str] | Callable[..., object]
)  # see `as_policy`
FeaturesOf: TypeAlias = Callable[[AnyArray], AnyArray]  # states (n, …) as policies see them -> features (n, d)
PolicyPair: TypeAlias = tuple[PolicyLike, PolicyLike]
Candidates: TypeAlias = Sequence[PolicyLike] | None  # policies whose actions plans may take; None: all actions


def top_actions(probabilities: FloatArray, prefer: IntArray | None = None) -> IntArray:
    r"""Most probable action of each row.

    .. math:: a(s) = \arg\max_a \pi(a \mid s)

    Ties within 1e-9 go to `prefer` (the current policy's action) where it is among the best, else to the lowest index.

    >>> top_actions(np.array([[0.5, 0.5], [0.2, 0.8]]))
    array([0, 1])
    >>> top_actions(np.array([[0.5, 0.5], [0.2, 0.8]]), prefer=np.array([1, 0]))
    array([1, 1])
    """
    few = probabilities.shape[1] <= FEW  # numpy is slow along a short last axis
    best = reduce(np.maximum, probabilities.T) if few else probabilities.max(axis=1)
    top = (probabilities >= best[:, None] - TIE).argmax(axis=1).astype(np.int64)
    if prefer is not None:
        rows = np.arange(len(probabilities))
        tied = probabilities[rows, prefer] >= best - TIE
        top = np.asarray(np.where(tied, prefer, top), dtype=np.int64)
    return top


def changed_decisions(current: FloatArray, proposed: FloatArray) -> FloatArray:
    r"""(n,) chance that a decision comes out differently, of policies as (n, A) chances: their total variation.

    .. math:: c(s) = \tfrac12 \sum_a |\pi_b(a \mid s) - \pi_e(a \mid s)|, \qquad \text{changes} = \sum_s d(s)\, c(s)

    Summed over the visits d of an episode it is the expected number of changed decisions: between policies that name
    one action each, the visits to states where they differ. A mixed decision that stays as it is counts 0.

    >>> changed_decisions(np.array([[0.6, 0.4], [0.6, 0.4]]), np.array([[0.6, 0.4], [0.0, 1.0]]))
    array([0. , 0.6])
    """
    return np.asarray(np.abs(current - proposed).sum(axis=1) / 2)


def choose(policy: Policy, states: AnyArray, luck: Callable[[], FloatArray]) -> IntArray:
    """One action per state, drawn from the policy by inverting its distribution at `luck()` (n,) in [0, 1).

    The policy is called once; `luck` only if the policy is not certain. A policy may have ``answers(states)``, which
    gives actions (n,) where it names them and probabilities (n, A) where it does not.
    """
    answers = getattr(policy, "answers", None)
    probabilities = policy.probabilities(states) if answers is None else answers(states)
    if probabilities.ndim == 1:
        return np.asarray(probabilities, dtype=np.int64)
    return drawn_from(probabilities, luck)


def drawn_from(probabilities: FloatArray, luck: Callable[[], FloatArray]) -> IntArray:
    """One action per row of probabilities (n, A), by inverting its distribution at `luck()` (n,) in [0, 1)."""
    if (probabilities.max(axis=1) == 1.0).all():
        return np.asarray(probabilities.argmax(axis=1), dtype=np.int64)
    cumulative = np.cumsum(probabilities, axis=1)
    drawn = (cumulative > (luck() * cumulative[:, -1])[:, None]).argmax(axis=1)
    return np.asarray(drawn, dtype=np.int64)


def one_hot(actions: IntArray, n_actions: int) -> FloatArray:
    """Probability 1 for each given action.

    >>> one_hot(np.array([1, 0]), 2)
    array([[0., 1.],
           [1., 0.]])
    """
    table = np.zeros((len(actions), n_actions))
    table[np.arange(len(actions)), actions] = 1.0
    return table


def check_probabilities(table: AnyArray, what: str = "each row of the policy") -> FloatArray:
    """The table as floats, rows that sum to 1 and are not negative."""
    probabilities = as_numbers(table)
    if probabilities is None:
        raise InvalidPolicyError(f"{what} must hold probabilities; it begins with {np.ravel(table)[:1].tolist()!r:.80}")
    bad = np.flatnonzero(~np.isfinite(probabilities).all(axis=1))
    if bad.size:
        raise InvalidPolicyError(f"{what} must hold finite probabilities; row {bad[0]} has {probabilities[bad[0]]}")
    bad = np.flatnonzero((probabilities < -TIE).any(axis=1))
    if bad.size:
        raise InvalidPolicyError(
            f"{what} must hold probabilities ≥ 0; row {bad[0]} has {probabilities[bad[0]].min():.4g} "
            f"({bad.size} of {len(probabilities)} rows are off)"
        )
    with np.errstate(over="ignore"):
        sums = probabilities.sum(axis=1)
    bad = np.flatnonzero(np.abs(sums - 1) > 1e-6)
    if bad.size:
        raise InvalidPolicyError(
            f"{what} must sum to 1; row {bad[0]} sums to {sums[bad[0]]:.4g} ({bad.size} of {len(probabilities)} rows "
            "are off). Hint: rows hold probabilities; normalise preferences or counts first."
        )
    return probabilities


def told_count(count: int | None, what: str) -> int:
    """How many actions there are; an error that says how to tell, where it is not known."""
    if count is None:
        raise InvalidPolicyError(f"{what} does not tell how many actions there are. Hint: as_policy(..., n_actions=)")
    return count


def check_actions(answer: AnyArray, n_actions: int, what: str, hint: str = "") -> IntArray:
    """Actions (n,) as whole numbers; an error that names the first one that the world does not have."""
    if answer.dtype.kind not in "biuf":
        raise InvalidPolicyError(f"{what} must return actions 0 to {n_actions - 1}; it returned {answer.flat[0]!r:.80}")
    with np.errstate(invalid="ignore"):
        actions = answer.astype(np.int64, copy=False)
    if actions is answer and answer.size and answer.min() >= 0 and answer.max() < n_actions:
        return actions
    off = np.flatnonzero((actions < 0) | (actions >= n_actions) | (actions != answer))
    if off.size:
        whole = actions[off[0]] == answer[off[0]]
        raise InvalidPolicyError(
            f"{what} must return actions 0 to {n_actions - 1}; for state number {off[0]} it returned "
            f"{answer[off[0]].item()!r}{'' if whole else hint}"
        )
    return actions


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
    near = name_like(text, offered(names))
    hint = f". Hint: did you mean {near!r}?" if near else ""
    raise InvalidPolicyError(f"{what} names action {text!r}; the {len(names)} actions are {names_listed(names)}{hint}")


def names_listed(names: Sequence[str]) -> str:
    """Up to eight names of actions that may be told.

    >>> names_listed(("go", "stay"))
    "'go', 'stay'"
    """
    some = offered(names)[:8]
    return ", ".join(map(repr, some)) + ", …" * (len(names) > len(some))


def action_numbers(answers: AnyArray, names: Sequence[str] | None, what: str) -> IntArray:
    """Numbers of actions from an array of their names."""
    distinct, place = np.unique(answers.astype(str), return_inverse=True)
    numbers = np.array([action_number(str(name), names, what) for name in distinct], dtype=np.int64)
    return np.asarray(numbers[place.reshape(answers.shape)], dtype=np.int64)
