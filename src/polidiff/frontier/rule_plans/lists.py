"""Rule lists over cells: first match wins, and a rule acts only where its move is possible."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

import numpy as np

from polidiff.frontier.rule_plans.boxes import BoxFinder, Support
from polidiff.frontier.rule_plans.model import ChoiceModel
from polidiff.frontier.rule_plans.moves import MoveSet
from polidiff.frontier.rule_plans.values import Point, point_at, value_of
from polidiff.records.arrays import BoolArray, IntArray
from polidiff.rules.cell_grid import Box, Grid

ListedRule: TypeAlias = tuple[int, Box]  # (move, box)
RuleList: TypeAlias = tuple[ListedRule, ...]


class Feasible(Protocol):
    """Whether lists keep what must be kept."""

    def __call__(self, problem: Problem, rules: RuleList, /) -> bool:
        """Of one list."""

    def each(self, problem: Problem, plans: IntArray, /) -> BoolArray:
        """Of plans (N, n) given as rows."""


REMEMBERED = 6


@dataclass(frozen=True)
class Scored:
    """A rule list with its exact return."""

    rules: RuleList
    expected_return: float
    changes: float
    literals: int


@dataclass(frozen=True, eq=False)
class Problem:
    """Moves, cells and the process of choices: what rule lists are valued in."""

    moves: MoveSet
    cells: Grid
    model: ChoiceModel
    finder: BoxFinder
    row: IntArray  # (moves, n) row of each move in the free states, -1 where impossible
    max_conditions: int
    max_literals: int | None
    feasible: Feasible | None = None
    _covers: dict[Box, BoolArray] = field(default_factory=dict, repr=False)
    _values: dict[RuleList, Scored] = field(default_factory=dict, repr=False)
    _plans: dict[bytes, tuple[float, float]] = field(default_factory=dict, repr=False)
    _keeps: dict[bytes, bool] = field(default_factory=dict, repr=False)
    _points: dict[RuleList, Point] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls,
        moves: MoveSet,
        cells: Grid,
        model: ChoiceModel,
        max_conditions: int,
        max_literals: int | None,
        feasible: Feasible | None = None,
        support: Support | None = None,
    ) -> Problem:
        """The problem for given parts."""
        choice = moves.choice[:, model.states]
        at = np.broadcast_to(np.arange(model.size), choice.shape)
        row = np.where(choice >= 0, model.row_of[at, np.maximum(choice, 0)], -1)
        finder = BoxFinder.of(cells, model.states, support)
        return cls(moves, cells, model, finder, row, max_conditions, max_literals, feasible)

    @property
    def keep(self) -> int:
        """The move that changes nothing."""
        return len(self.row) - 1

    @property
    def evaluated(self) -> dict[RuleList, Scored]:
        """Every list that was valued exactly so far."""
        return self._values

    def covers(self, box: Box) -> BoolArray:
        """(n,) free states in a box."""
        inside = self._covers.get(box)
        if inside is None:
            inside = np.ones(self.model.size, dtype=np.bool_)
            for column, first, last in box:
                codes = self.finder.codes[:, column]
                inside &= (codes >= first) & (codes <= last)
            self._covers[box] = inside
        return inside

    def plan(self, rules: RuleList) -> IntArray:
        """Rows (n,) of the plan that follows the rules."""
        rows = np.array(self.model.keep)
        for move, box in reversed(rules):
            acts = self.covers(box) & (self.row[move] >= 0)
            rows[acts] = self.row[move][acts]
        return rows

    def literals(self, rules: RuleList) -> int:
        """Comparisons that a reader makes."""
        return sum(self.cells.literals(box) for _, box in rules)

    def supported(self, box: Box) -> bool:
        """Whether enough stands behind a box."""
        support = self.finder.support
        return support is None or float(support.weight[self.covers(box)].sum()) >= support.enough

    def admits(self, rules: RuleList) -> bool:
        """Whether the rules are short enough and speak about enough."""
        if any(len(box) > self.max_conditions or not self.supported(box) for _, box in rules):
            return False
        return self.max_literals is None or self.literals(rules) <= self.max_literals

    def value(self, rules: RuleList) -> tuple[float, float]:
        """Exact return and changes of a list, short enough or not."""
        plan = self.plan(rules)
        key = plan.tobytes()
        if key not in self._plans:
            self._plans[key] = value_of(self.model, plan)
        return self._plans[key]

    def remember(self, plan: IntArray, total: float, changes: float) -> None:
        """Take the value of a plan as known: worked out from a neighbour's, in a process where every plan ends."""
        if not self.model.loops and np.isfinite(total) and np.isfinite(changes):
            self._plans.setdefault(plan.tobytes(), (total, changes))

    def score(self, rules: RuleList) -> Scored:
        """The list with its exact return, remembered; -inf if it does not keep what must be kept."""
        known = self._values.get(rules)
        if known is None:
            total, changes = self.value(rules)
            if np.isfinite(total) and not self.keeps(rules):
                total = -np.inf
            known = Scored(rules, total, changes, self.literals(rules))
            self._values[rules] = known
        return known

    def keeps(self, rules: RuleList) -> bool:
        """Whether a list keeps what must be kept; lists with the same plan are asked about once."""
        if self.feasible is None:
            return True
        key = self.plan(rules).tobytes()
        if key not in self._keeps:
            self._keeps[key] = self.feasible(self, rules)
        return self._keeps[key]

    def point(self, rules: RuleList) -> Point:
        """The plan of a list, ready to linearise; the last few are remembered."""
        known = self._points.pop(rules, None) or point_at(self.model, self.plan(rules))
        self._points[rules] = known
        if len(self._points) > REMEMBERED:
            self._points.pop(next(iter(self._points)))
        return known
