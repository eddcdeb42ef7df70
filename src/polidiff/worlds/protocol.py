"""What every world answers, whatever its kind: the stages ask for this and nothing else."""

from __future__ import annotations

from typing import Any, Literal, Protocol, runtime_checkable

from polidiff.records.action import Action
from polidiff.records.arrays import AnyArray
from polidiff.records.outcome import Outcome

Kind = Literal["table", "simulator", "log"]


@runtime_checkable
class World(Protocol):
    """Where decisions play out.

    How a kind of world is compared, valued, followed or planned in lies in the stage folders, in a file named after
    the kind; a world itself only holds what all of them need.
    """

    kind: Any  # one of Kind
    actions: tuple[Action, ...]
    outcomes: tuple[Outcome, ...]  # what is told about

    @property
    def return_outcome(self) -> Outcome | None:
        """What plans improve; None in a log without rewards."""
        ...

    @property
    def n_actions(self) -> int:
        """How many actions there are."""
        ...

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of what rules speak about."""
        ...

    @property
    def has_features(self) -> bool:
        """Whether rules speak about features; else they name states."""
        ...

    def features_of(self, states: Any) -> AnyArray:
        """What rules speak about (n, d), of states as policies see them."""
        ...
