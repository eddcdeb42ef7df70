"""What every world answers, whatever its kind, where the answer of each kind is found, and what results say of it.

A stage folder holds `table.py`, `simulator.py` and `log.py`, each with a function of the same name. The module of a
kind is imported when a world of that kind is first asked about: a table never loads a log's data frame library.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial, wraps
from importlib import import_module
from numbers import Real
from typing import TYPE_CHECKING, Concatenate, Literal, ParamSpec, Protocol, TypeVar, get_args, runtime_checkable

import numpy as np

from polidiff.errors import InvalidOptionError, InvalidWorldError
from polidiff.policies import Policy, PolicyLike, as_policy
from polidiff.records.action import Action
from polidiff.records.arrays import AnyArray
from polidiff.records.explanation import Feature, WorldSummary
from polidiff.records.outcome import Outcome, OutcomeOf, check_outcomes
from polidiff.records.parse import Known
from polidiff.records.rule import MOST_VALUES, missing_entries

if TYPE_CHECKING:
    from polidiff.worlds.simulator import Simulator
    from polidiff.worlds.tabular import TabularMDP

Kind = Literal["table", "simulator", "log"]
P = ParamSpec("P")
T = TypeVar("T")


@runtime_checkable
class World(Protocol):
    """Where decisions play out.

    How a kind of world is compared, valued, followed or planned in lies in the stage folders, in a file named after
    the kind; a world itself only holds what all of them need.
    """

    actions: tuple[Action, ...]
    outcomes: tuple[Outcome, ...]  # what is told about

    @property
    def kind(self) -> Kind:
        """What kind of world it is."""
        ...

    @property
    def return_outcome(self) -> Outcome | None:
        """What plans improve; None in a log without rewards."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """What every result must say of this world."""
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

    def features_of(self, states: AnyArray) -> AnyArray:
        """What rules speak about (n, d), of states as policies see them."""
        ...

    def known_features(self) -> AnyArray | None:
        """The same of all states or rows that there are; None where these are not known."""
        ...


def with_return(
    outcomes: Sequence[Outcome],
    return_name: str,
    include_return: bool,
    *,
    of: OutcomeOf,
    range_: tuple[float, float] | None = None,
) -> tuple[Outcome, tuple[Outcome, ...]]:
    """The return as an outcome, and all outcomes that are told (the return first, unless left out)."""
    if not isinstance(include_return, bool | np.bool_):
        raise InvalidOptionError(f"include_return must be True or False; got {include_return!r:.80}")
    total = Outcome(return_name, of, prefer="more", range=range_)
    others = check_outcomes(outcomes)
    return total, check_outcomes((total, *others)) if include_return else others


def policy_in(world: World, policy: PolicyLike) -> Policy:
    """A policy that speaks the world's actions and reads its features."""
    return as_policy(policy, actions=known_actions(world), features=world.feature_names)


def check_discount(discount: float) -> float:
    """The discount, above 0 and at most 1."""
    if not isinstance(discount, Real) or not 0 < discount <= 1:
        raise InvalidWorldError(f"discount must be above 0 and at most 1; got {discount!r}")
    return float(discount)


def aim(world: World) -> tuple[int, float]:
    """Which outcome plans improve, and its sign: the return if it is told, else the first, as it is preferred."""
    names = [outcome.name for outcome in world.outcomes]
    total = world.return_outcome
    if total is not None and total.name in names:
        return names.index(total.name), 1.0
    return 0, -1.0 if world.outcomes[0].prefer == "less" else 1.0


Question = Callable[Concatenate[World, P], T]


def by_kind(question: Question[P, T]) -> Question[P, T]:
    """The question, answered by the function of its name in the module of its folder named after the world's kind."""
    folder, name = question.__module__, question.__name__

    @wraps(question)
    def answered(world: World, /, *args: P.args, **kwargs: P.kwargs) -> T:
        assert world.kind in get_args(Kind), "what is imported by name is ours"
        answer: Question[P, T] = getattr(import_module(f"{folder}.{world.kind}"), name)
        return answer(world, *args, **kwargs)

    return answered


def world_summary(
    world: TabularMDP | Simulator, seen: AnyArray | None = None, facts: Mapping[str, str | float | int] | None = None
) -> WorldSummary:
    """Actions, features with the range that was seen (n, d), and facts, of a table or a simulator."""
    known: dict[str, str | float | int]
    if world.kind == "table":
        known = {"states": world.n_states, "starts": len(world.starts)}
        known |= {"discount": world.discount} if world.discount < 1 else {}
        seen = world.features_of(np.arange(world.n_states))
    else:
        known = {"horizon": world.horizon}
        seen = world.features_of(world.stepper(16, (0,)).states) if seen is None else seen
    return WorldSummary(world.kind, world.actions, features_seen(seen, world.feature_names), {**known, **(facts or {})})


def known_actions(world: World) -> Known:
    """The names of a world's actions; of a log only those that many took may be told to whoever mistypes one."""
    names = [action.name for action in world.actions]
    return Known.of(names, lambda: getattr(world, "common_actions", names))


def known_values(world: World) -> dict[str, tuple[str, ...]]:
    """The words that each feature may be, none for a number; only features of which all is known.

    Of a log only those that many have may be told to whoever mistypes one.

    >>> from polidiff.domains import chain
    >>> known_values(chain.world())["state"][:2]
    ('s0', 's1')
    """
    rows = world.known_features()
    if rows is None:
        return {}
    known: dict[str, tuple[str, ...]] = {}
    for column, name in zip(rows.T, world.feature_names, strict=True):
        values = set(column[~missing_entries(column)].tolist()) if column.dtype.kind in "OUS" else set()
        words = {value for value in values if isinstance(value, str)}
        if words in (values, set()):
            often = getattr(world, "common_words", lambda name, words=words: words)
            known[name] = Known.of(sorted(words), partial(often, name))
    return known


def features_seen(rows: AnyArray, names: tuple[str, ...]) -> tuple[Feature, ...]:
    """Each feature with its kind and range."""
    result = []
    for column, name in zip(rows.T, names, strict=True):
        if column.dtype == object and not all(isinstance(v, (int, float)) for v in column[:100]):
            values = sorted({str(v) for v in column})
            result.append(Feature(name, "category", values=tuple(values[:MOST_VALUES])))
        else:
            numbers = column.astype(float)
            result.append(Feature(name, "number", float(np.fmin.reduce(numbers)), float(np.fmax.reduce(numbers))))
    return tuple(result)
