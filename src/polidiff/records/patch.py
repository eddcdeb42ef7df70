"""A set of edits to a policy, as data: reviewed, saved, applied, undone."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, overload

from polidiff.errors import InvalidResultError
from polidiff.records.action import Shift
from polidiff.records.arrays import AnyArray, IntArray
from polidiff.records.codec import Document, Json, from_dict, renderer, save_json, schema
from polidiff.records.rule import Condition, Rule

AS_NOW = "as now"  # what the policy does, where that is not one action


@dataclass(frozen=True)
class Edit:
    """Where the rule holds and the policy would take `current`, take `proposed`.

    `states` lists the states of a table that the edit touches; None when the rule alone decides. A `shift` sets how
    often the proposed action is chosen, whichever the policy takes most often.
    """

    rule: Rule
    current: int | None  # index of the action it replaces; None: whatever the policy does
    proposed: int | None  # index of the action it puts there; None: what the policy does stays
    states: tuple[int, ...] | None = None
    shift: Shift | None = None

    @property
    def holds_back(self) -> bool:
        """Whether it changes nothing, and only keeps later edits away from where it holds."""
        return self.current == self.proposed and self.shift is None

    @property
    def replaces(self) -> int | None:
        """The action that it must find; None where it acts whatever the policy does, as a shift of chances does."""
        return self.current if self.shift is None else None


class StateEdits(Sequence[Edit]):
    """One edit per changed state of a table, each made when it is asked for: a frontier may hold millions of them."""

    def __init__(self, names: Sequence[str], states: IntArray, current: IntArray, proposed: IntArray) -> None:
        self._names = names  # of all states
        self._states, self._current, self._proposed = states, current, proposed  # (n,) each

    def __len__(self) -> int:
        return len(self._states)

    @overload
    def __getitem__(self, index: int) -> Edit: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Edit, ...]: ...
    def __getitem__(self, index: int | slice) -> Edit | tuple[Edit, ...]:
        if isinstance(index, slice):
            return tuple(self[i] for i in range(*index.indices(len(self))))
        state = int(self._states[index])
        rule = Rule((Condition("state", 0, values=(self._names[state],)),))
        return Edit(rule, int(self._current[index]), int(self._proposed[index]), (state,))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (tuple, StateEdits)) and len(self) == len(other) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))


@schema("patch", 1)
@dataclass(frozen=True)
class Patch(Document):
    """Edits in order; the first that covers a state and finds its `current` action there acts.

    Examples
    --------
    >>> from polidiff.domains import chain
    >>> from polidiff import explain
    >>> patch = explain(chain.world(), chain.current(), chain.proposed()).patch
    >>> patched = patch.apply(chain.current())
    >>> [int(action) for action in patched.probabilities(range(6)).argmax(axis=1)]
    [0, 1, 0, 0, 0, 1]
    """

    edits: tuple[Edit, ...] | StateEdits = ()
    actions: tuple[str, ...] = ()  # names of all actions, by index
    feature_names: tuple[str, ...] = ()
    features: Callable[[AnyArray], AnyArray] | None = field(
        default=None, compare=False, repr=False, metadata={"json": False}
    )
    columns: Mapping[str, str] = field(default_factory=dict, compare=False)  # what a log calls "action" and "state"
    chosen_on: str = field(default="", compare=False)  # fingerprint of the log whose rows chose the edits
    judged: str = field(default="", compare=False)  # what they do on rows that did not choose them, in words

    def __len__(self) -> int:
        return len(self.edits)

    def __str__(self) -> str:
        return "\n".join(renderer("patch_lines")(self))

    def swap(self, edit: Edit) -> tuple[str, str]:
        """Names of what an edit replaces and of what it puts there."""
        current, proposed = (AS_NOW if a is None else self.actions[a] for a in (edit.current, edit.proposed))
        return current, proposed

    @property
    def choices(self) -> dict[int, int]:
        """State → action, of edits that list their states."""
        return {s: e.proposed for e in self.changing if e.proposed is not None for s in e.states or ()}

    @property
    def changing(self) -> tuple[Edit, ...]:
        """The edits that change something; the others are exceptions to those after them."""
        return tuple(edit for edit in self.edits if not edit.holds_back)

    @property
    def joined(self) -> list[tuple[Edit, ...]]:
        """Edits in order; neighbours that do the same in the same place, instead of several actions, are one rule."""

        def what(edit: Edit) -> tuple[Any, ...]:
            return edit.rule, None if edit.holds_back else edit.proposed, edit.shift, edit.replaces is None

        return [tuple(edits) for _, edits in groupby(self.edits, key=what)]

    def apply(self, policy: Any, *, strict: bool = False) -> Any:
        """The policy with the edits made. A mismatch is named in a warning; with `strict`, in an error."""
        return renderer("apply_patch")(self, policy, strict=strict)

    def undo(self, policy: Any) -> Any:
        """The policy with the edits taken back."""
        return renderer("undo_patch")(self, policy)

    @classmethod
    def from_dict(cls, data: Mapping[str, Json]) -> Patch:
        """The patch whose JSON form is `data`."""
        patch = from_dict(data)
        if not isinstance(patch, cls):
            raise InvalidResultError(f"expected the JSON form of a patch; got that of {type(patch).__name__!r}")
        return patch

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the patch as JSON."""
        return save_json(self, path)
