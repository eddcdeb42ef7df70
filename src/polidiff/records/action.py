"""Actions by name, the levels of their components, and the swaps between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from polidiff.errors import InvalidWorldError


def repeated(names: Sequence[str]) -> str | None:
    """The first name that is used more than once.

    >>> repeated(["a", "b", "b"])
    'b'
    """
    return next((name for name, count in Counter(names).items() if count > 1), None)


def listed(what: str, given: Iterable[Any]) -> tuple[Any, ...]:
    """The entries of what should be a list."""
    try:
        return tuple(given)
    except TypeError:
        raise InvalidWorldError(f"{what} must be a list of names; got {given!r:.80}") from None


def checked_names(what: str, given: Iterable[Any], count: int) -> tuple[str, ...]:
    """So many different names, of states, actions or features.

    >>> checked_names("state", ["low", "high"], 2)
    ('low', 'high')
    """
    names = tuple(map(str, listed(f"{what}s", given)))
    if len(names) != count:
        raise InvalidWorldError(f"expected {count} {what} names; got {len(names)}")
    twice = repeated(names)
    if twice is not None:
        raise InvalidWorldError(f"{what} names must be unique; {twice!r} is used twice")
    return names


@dataclass(frozen=True)
class Action:
    """One choice, with the level of each ordered component if it has any.

    >>> Action.of({"fluid": 2, "pressor": 0}).name
    'fluid 2, pressor 0'
    """

    name: str
    levels: Mapping[str, float] = field(default_factory=dict)  # component -> level, empty for plain actions

    @classmethod
    def of(cls, spec: object) -> Action:
        """An action from a name, a mapping of levels, or an action."""
        if isinstance(spec, Action):
            return spec
        if isinstance(spec, Mapping):
            levels = {str(component): float(level) for component, level in spec.items()}
            return cls(", ".join(f"{component} {level:g}" for component, level in levels.items()), levels)
        return cls(str(spec))


ActionNames: TypeAlias = Sequence["str | int | Action | Mapping[str, float]"] | Mapping[str, Mapping[str, float]]


def as_actions(spec: ActionNames | None, count: int) -> tuple[Action, ...]:
    """`count` actions from names, mappings of levels, or nothing (then "action 0", …).

    >>> [a.name for a in as_actions(None, 2)]
    ['action 0', 'action 1']
    """
    if spec is None:
        return tuple(Action(f"action {index}") for index in range(count))
    if isinstance(spec, Mapping):
        plain = next((name for name, levels in spec.items() if not isinstance(levels, Mapping)), None)
        if plain is not None:
            raise InvalidWorldError(
                f"an action with levels reads name = {{component = level}}; {plain!r} is {spec[plain]!r:.80}"
            )
        actions = tuple(
            Action(str(name), {str(c): float(level) for c, level in levels.items()}) for name, levels in spec.items()
        )
    else:
        actions = tuple(Action.of(item) for item in listed("actions", spec))
    checked_names("action", [action.name for action in actions], count)
    components = set(actions[0].levels) if actions else set()
    odd = next((action for action in actions if set(action.levels) != components), None)
    if odd is not None:
        raise InvalidWorldError(
            f"all actions must have the same components {sorted(components)}; {odd.name!r} has {sorted(odd.levels)}"
        )
    return actions


@dataclass(frozen=True)
class Often:
    """How often an action is chosen."""

    action: str
    current: float
    proposed: float


@dataclass(frozen=True)
class Shift:
    """The same action, chosen with another probability."""

    current: float
    proposed: float
    also: tuple[Often, ...] = ()  # further actions that are chosen more often


@dataclass(frozen=True)
class Direction:
    """A component of an ordered action goes up or down."""

    component: str
    sign: int  # +1 up, -1 down
    also: tuple[str, ...] = field(default=(), compare=False)  # other components that change in some of the decisions


@dataclass(frozen=True)
class Swap:
    """What the proposed policy does instead of the current one.

    `current` and `proposed` are action names. A `shift` keeps the action and changes how often it is chosen. A
    `direction` stands for all swaps that move one component the same way; `current` and `proposed` then name the
    most frequent pair.
    """

    current: str
    proposed: str
    shift: Shift | None = None
    direction: Direction | None = None
