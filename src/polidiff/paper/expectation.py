"""A value that should come out, and the comparison with what did."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from polidiff.paper.runs import Runs

Number = float | str
EXACT = 1e-9


@dataclass(frozen=True)
class Expected:
    """A value and how far off it may be."""

    id: str
    where: str  # in the paper
    quantity: str
    value: Number
    got: Callable[..., Number]  # of the runs and the arguments
    arguments: tuple[object, ...]
    tolerance: float
    at_least: bool  # a bar to pass, not a number to meet


@dataclass(frozen=True)
class Checked:
    """A value, what came, and whether that is close enough."""

    id: str
    where: str
    quantity: str
    expected: Number
    got: Number
    tolerance: float
    at_least: bool
    ok: bool


def expect(
    id: str,
    where: str,
    quantity: str,
    value: Number,
    got: Callable[..., Number],
    *arguments: object,
    tolerance: float = EXACT,
    at_least: bool = False,
) -> Expected:
    """The value that ``got(runs, *arguments)`` should give."""
    return Expected(id, where, quantity, value, got, arguments, tolerance, at_least)


def checked(runs: Runs, expected: Iterable[Expected]) -> tuple[Checked, ...]:
    """Every value compared. What cannot be looked up (a plan, a sentence that is not there) is off, not an error."""
    return tuple(_compared(entry, _found(runs, entry)) for entry in expected)


def _found(runs: Runs, entry: Expected) -> Number:
    try:
        return entry.got(runs, *entry.arguments)
    except LookupError as missing:
        return f"missing: {missing}"


def _compared(entry: Expected, got: Number) -> Checked:
    if isinstance(got, str) or isinstance(entry.value, str):
        ok = got == entry.value
    elif entry.at_least:
        ok = got >= entry.value - entry.tolerance
    else:
        ok = abs(got - entry.value) <= entry.tolerance
    return Checked(entry.id, entry.where, entry.quantity, entry.value, got, entry.tolerance, entry.at_least, bool(ok))


def yes(holds: bool) -> str:
    """A fact as a value."""
    return "yes" if holds else "no"
