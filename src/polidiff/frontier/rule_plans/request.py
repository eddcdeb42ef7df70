"""What is asked of rule plans, checked once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from polidiff.errors import InvalidOptionError
from polidiff.frontier.rule_plans.moves import KEEP, Fallback, Move
from polidiff.frontier.rule_plans.search import SearchOptions
from polidiff.records.action import Action
from polidiff.records.arrays import BoolArray
from polidiff.records.parse import parse_rules
from polidiff.records.rule import Rule


@dataclass(frozen=True)
class Request:
    """Limits on plans, and how hard to look for them."""

    max_rules: int
    max_conditions: int = 3
    max_literals: int | None = None
    moves: str | Sequence[Move] = "actions"
    fallback: Fallback = "keep"
    min_support: float | None = None
    keep: Any = ()
    freeze: Any = ()
    offered: BoolArray | None = None  # (S, A) actions that rules may prescribe, besides what the world allows
    cuts: int = 63
    gap: float = 1e-3
    time_limit: float | None = None
    node_limit: int | None = None
    stability: int = 0
    level: float = 0.95
    seed: int = 0
    search: SearchOptions | None = None
    explain: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        for name, least in (("max_rules", 0), ("max_conditions", 1), ("cuts", 1), ("stability", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
                raise InvalidOptionError(f"{name} must be a whole number of at least {least}; got {value!r}")
        for name in ("max_literals", "node_limit"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, (int, np.integer)) or value < 0):
                raise InvalidOptionError(f"{name} must be None or a whole number of at least 0; got {value!r}")
        if not (isinstance(self.gap, (int, float)) and 0 <= self.gap < np.inf):
            raise InvalidOptionError(f"gap must be a number of at least 0; got {self.gap!r}")
        if self.time_limit is not None and not self.time_limit > 0:
            raise InvalidOptionError(f"time_limit must be None or seconds above 0; got {self.time_limit!r}")
        check_support(self.min_support)


def check_support(value: Any) -> None:
    """A share below 1, or a count of at least 1, or nothing.

    >>> check_support(0.05), check_support(20), check_support(None)
    (None, None, None)
    """
    if value is None:
        return
    number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not (number and (0 < value < 1 or (value >= 1 and value % 1 == 0))):
        raise InvalidOptionError(
            f"min_support must be a whole number of at least 1 (a count) or a share below 1; got {value!r}"
        )


def frozen_rules(freeze: Any, names: Sequence[str]) -> tuple[Rule, ...]:
    """Where nothing may change, as rules over features.

    >>> [rule.features for rule in frozen_rules("x < 1 or y >= 2", ("x", "y"))]
    [('x',), ('y',)]
    """
    if isinstance(freeze, np.ndarray):
        raise InvalidOptionError("freeze must be conditions on features here, such as 'age < 18'; got a mask of states")
    rules: list[Rule] = []
    for entry in (freeze,) if isinstance(freeze, (str, Rule)) else freeze:
        rules += parse_rules(entry, tuple(names)) if isinstance(entry, str) else [entry]
    return tuple(rules)


def actions_only(moves: Any, actions: Sequence[Action], where: str) -> list[Move]:
    """Moves to actions; doing as now is always possible. Levels and aims need a current action, which no cell has."""
    if isinstance(moves, str) and moves == "actions":
        return [Move.action(action.name) for action in actions]
    listed = list(moves) if not isinstance(moves, str) else []
    if not listed or not all(isinstance(move, Move) and (move.action_name or move.name == KEEP) for move in listed):
        raise InvalidOptionError(
            f"rules in {where} prescribe actions; got moves={moves!r}. Hint: moves='actions', or Move.action(name)"
        )
    return listed


def split_support(value: float | None, default: int) -> tuple[float | None, int]:
    """`min_support` where it has two meanings: a share of what rules speak about, and a count of what they rest on.

    >>> split_support(0.05, 10), split_support(20, 10), split_support(None, 10)
    ((0.05, 10), (None, 20), (None, 10))
    """
    check_support(value)
    if value is not None and value < 1:
        return value, default
    return None, default if value is None else int(value)
