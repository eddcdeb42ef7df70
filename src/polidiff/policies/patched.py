"""A policy with edits made to it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from polidiff.errors import InvalidPolicyError, PatchMismatchError
from polidiff.policies.adapters import as_policy
from polidiff.policies.model_io import rows_of
from polidiff.policies.protocol import Policy, PolicyLike, names_listed, top_actions
from polidiff.records.action import Shift
from polidiff.records.arrays import AnyArray, FloatArray, IntArray
from polidiff.records.patch import Edit, Patch
from polidiff.records.rule import Condition, Rule


@dataclass(frozen=True, eq=False)
class PatchedPolicy:
    """The base policy, except where an edit covers the state and finds the action it replaces."""

    base: Policy
    patch: Patch

    @property
    def n_actions(self) -> int:
        """How many actions there are."""
        return self.base.n_actions

    def probabilities(self, states: AnyArray) -> FloatArray:
        """Probabilities of the base with the edits made."""
        batch = np.asarray(states)
        table = np.array(self.base.probabilities(batch))
        top = top_actions(table)
        open_ = np.ones(len(table), dtype=np.bool_)
        features = rows_of(batch) if self.patch.features is None else np.asarray(self.patch.features(batch))
        for edit in self.patch.edits:
            listed = None if edit.states is None else np.isin(batch.reshape(len(batch)), edit.states)
            acting = open_ & (edit.rule.covers(features) if listed is None else listed)
            if edit.replaces is not None:
                acting &= top == edit.replaces
            table[acting] = _edited(table[acting], edit)
            open_ &= ~acting
        return table


def edit_rules(policy: PolicyLike) -> tuple[Rule, ...]:
    """The rules that a policy was made with, in the order they are matched; none if it was made otherwise."""
    if not isinstance(policy, PatchedPolicy) or any(edit.states is not None for edit in policy.patch.edits):
        return ()
    return tuple(dict.fromkeys(edit.rule for edit in policy.patch.edits))


def apply_patch(patch: Patch, policy: PolicyLike, *, strict: bool = False) -> Policy:
    """The policy with the edits made; edits that do not find their action are named."""
    base = as_policy(policy, n_actions=len(patch.actions) or None)
    for edit in patch.edits:
        mismatch = _first_mismatch(base, edit, patch)
        if mismatch is not None:
            if strict:
                raise PatchMismatchError(mismatch)
            warnings.warn(mismatch, stacklevel=3)
    return PatchedPolicy(base, patch)


def fitted(patch: Patch, actions: Sequence[str], features: Sequence[str]) -> Patch:
    """The patch in a world whose actions and features have these names; an error if it speaks of others."""
    unnamed = not patch.actions or not patch.feature_names
    if unnamed or (patch.actions == tuple(actions) and patch.feature_names == tuple(features)):
        return patch

    def action(number: int | None) -> int | None:
        return None if number is None else _place(patch.actions[number], actions, "action")

    def rule(given: Rule) -> Rule:
        return Rule(tuple(replace(c, column=_place(c.feature, features, "feature")) for c in given.conditions))

    edits = (replace(e, current=action(e.current), proposed=action(e.proposed), rule=rule(e.rule)) for e in patch.edits)
    return replace(patch, edits=tuple(edits), actions=tuple(actions), feature_names=tuple(features))


def _place(name: str, known: Sequence[str], what: str) -> int:
    if name not in known:
        raise InvalidPolicyError(
            f"the patch speaks of {what} {name!r}, which this world does not have; it has {names_listed(known)}. Hint: "
            "a patch goes with the world that it was made in, or with one of the same names"
        )
    return known.index(name)


def undo_patch(patch: Patch, policy: PolicyLike) -> Policy:
    """The policy with the edits taken back."""
    if isinstance(policy, PatchedPolicy) and policy.patch == patch:
        return policy.base
    return apply_patch(replace(patch, edits=tuple(_inverse(edit) for edit in reversed(patch.edits))), policy)


def difference(current: npt.ArrayLike, proposed: npt.ArrayLike, n_actions: int | None = None) -> Patch:
    """The patch that turns one table policy into another, one edit per state.

    Without `n_actions` there are as many as the two tables use.

    >>> patch = difference(np.array([0, 0]), np.array([0, 1]))
    >>> [(edit.states, edit.current, edit.proposed) for edit in patch.edits]
    [((1,), 0, 1)]
    """
    old, new = np.asarray(current), np.asarray(proposed)
    if old.shape != new.shape or old.ndim != 1:
        raise PatchMismatchError(f"both policies must be action tables of one length; got {old.shape} and {new.shape}")
    count = n_actions if n_actions is not None else int(max(old.max(initial=0), new.max(initial=0))) + 1
    edits = tuple(
        Edit(Rule((Condition("state", 0, values=(f"s{s}",)),)), int(old[s]), int(new[s]), (int(s),))
        for s in np.flatnonzero(old != new)
    )
    return Patch(edits, tuple(f"action {a}" for a in range(count)), ("state",))


def rule_patch(
    rules: Sequence[tuple[Rule, int]],
    actions: Sequence[str],
    feature_names: Sequence[str],
    features: Callable[[AnyArray], AnyArray] | None = None,
) -> Patch:
    """ "Where this holds, do that", whatever the policy does there now; the first rule that holds wins.

    >>> patch = rule_patch([(Rule((Condition("x", 0, high=0.5),)), 1)], ["stay", "go"], ["x"])
    >>> PatchedPolicy(as_policy(np.array([[0.6, 0.4], [1.0, 0.0]])), patch).probabilities(np.array([0, 1])).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    edits = tuple(Edit(rule, None, after) for rule, after in rules)
    return Patch(edits, tuple(actions), tuple(feature_names), features)


def _inverse(edit: Edit) -> Edit:
    if edit.current is None and not edit.holds_back:
        raise PatchMismatchError(
            "an edit that replaces whatever the policy did does not say what that was. Hint: undo it from the patched "
            "policy itself, which keeps the one that was patched"
        )
    shift = None if edit.shift is None else Shift(edit.shift.proposed, edit.shift.current)
    return replace(edit, current=edit.proposed, proposed=edit.current, shift=shift)


def _edited(rows: FloatArray, edit: Edit) -> FloatArray:
    if edit.holds_back:
        return rows
    if edit.shift is None:
        result = np.zeros_like(rows)
        result[:, edit.proposed] = 1.0
        return result
    rest = 1 - rows[:, edit.proposed]
    scale = np.divide(1 - edit.shift.proposed, rest, out=np.zeros_like(rest), where=rest > 0)
    result = rows * scale[:, None]
    result[:, edit.proposed] = edit.shift.proposed
    spread = np.flatnonzero(rest <= 0)
    if spread.size and rows.shape[1] > 1:
        others = np.arange(rows.shape[1]) != edit.proposed
        result[np.ix_(spread, others)] = (1 - edit.shift.proposed) / (rows.shape[1] - 1)
    return result


def _first_mismatch(base: Policy, edit: Edit, patch: Patch) -> str | None:
    if edit.states is None or edit.replaces is None:
        return None
    states: IntArray = np.asarray(edit.states, dtype=np.int64)
    top = top_actions(base.probabilities(states))
    off = np.flatnonzero(top != edit.replaces)
    if not off.size:
        return None
    names = patch.actions
    expected, taken = (names[a] if a < len(names) else str(a) for a in (edit.replaces, int(top[off[0]])))
    return (
        f"an edit replaces {expected!r} in {len(states)} states; in state {states[off[0]]} the policy takes {taken!r} "
        f"({off.size} of {len(states)} do not match and stay as they are)"
    )
