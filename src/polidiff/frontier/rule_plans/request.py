"""What is asked of rule plans, checked once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from polidiff.errors import InvalidOptionError
from polidiff.frontier.rule_plans.moves import KEEP, Fallback, Move
from polidiff.frontier.rule_plans.search import SearchOptions
from polidiff.records.action import Action
from polidiff.records.arrays import BoolArray
from polidiff.rules.cell_grid import Grid
from polidiff.surrogates.record import Explain, check_limits, check_support

if TYPE_CHECKING:
    from polidiff.options import Freeze, Keep, Moves


@dataclass(frozen=True)
class Request:
    """Limits on plans, and how hard to look for them."""

    max_rules: int  # K
    max_conditions: int = 3  # most conditions (features) of a rule
    max_literals: int | None = None  # most comparisons of a plan
    moves: str | Sequence[Move] = "actions"  # or "levels": what a rule may prescribe; "keep" is always among it
    fallback: Fallback = "keep"  # where a move is impossible the rule does not act, or "nearest" offered level
    min_support: float | None = None  # least states of a box in which something can be chosen; below 1, share of visits
    keep: Keep = ()  # outcomes that a plan must keep, "mortality<=current"; bounds hold with or without them
    freeze: Freeze = ()  # conditions, rules or mask: where nothing may change
    held: Freeze | None = None  # the conditions that the user froze, where `freeze` is a mask of more than those
    offered: BoolArray | None = None  # (S, A) actions that rules may prescribe, besides what the world allows
    grid: Grid | None = None  # cells that rules speak about; by default made from the features of the states
    budget: float | None = None  # most changed decisions per episode; bounds hold with or without it
    cuts: int = 63  # cells of a many-valued feature; features of few values are cut everywhere
    gap: float = 1e-3  # share of the range at which the certificate stops
    time_limit: float | None = None  # seconds; without it limits count nodes, and the same input gives the same plans
    node_limit: int | None = None  # relaxations per number of rules; by default fewer the larger the table
    stability: int = 0  # perturbed tables to search again, for `Plan.stability`; 0 leaves it None
    level: float = 0.95
    seed: int = 0  # for trees, rules by imitation and perturbed tables
    search: SearchOptions | None = None  # how hard to look
    explain: Explain | None = None  # what `Plan.explanation` calls

    def __post_init__(self) -> None:
        for name, least in (("max_rules", 0), ("max_conditions", 1), ("cuts", 1), ("stability", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
                raise InvalidOptionError(f"{name} must be a whole number of at least {least}; got {value!r}")
        if self.node_limit is not None and (not isinstance(self.node_limit, (int, np.integer)) or self.node_limit < 0):
            raise InvalidOptionError(
                f"node_limit must be None or a whole number of at least 0; got {self.node_limit!r}"
            )
        check_limits(self.max_literals, self.time_limit)
        if not (isinstance(self.gap, (int, float)) and 0 <= self.gap < np.inf):
            raise InvalidOptionError(f"gap must be a number of at least 0; got {self.gap!r}")
        check_support(self.min_support)


def actions_only(moves: Moves, actions: Sequence[Action], where: str) -> list[Move]:
    """Moves to actions; doing as now is always possible. Levels and aims need a current action, which no cell has."""
    if isinstance(moves, str) and moves == "actions":
        return [Move.action(action.name) for action in actions]
    given = () if isinstance(moves, str) else tuple(moves)
    listed = [move for move in given if isinstance(move, Move) and (move.action_name or move.name == KEEP)]
    if not listed or len(listed) < len(given):
        raise InvalidOptionError(
            f"rules in {where} prescribe actions; got moves={moves!r}. Hint: moves='actions', or Move.action(name)"
        )
    return listed
