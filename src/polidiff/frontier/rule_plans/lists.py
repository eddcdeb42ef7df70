r"""Rule lists over cells: first match wins, and a rule acts only where its move is possible.

*Boxes* with a large sum of weights are found for one move after the other, as clauses of a class (`rules.generate`).

.. math:: \max_{\text{box}} \sum_{s \in \text{box}} w(s) - \lambda \cdot \#\text{literals}
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np

from polidiff.frontier.rule_plans.model import ChoiceModel, Point, point_at, value_of
from polidiff.frontier.rule_plans.moves import MoveSet
from polidiff.records.arrays import BoolArray, FloatArray, IntArray
from polidiff.rules.cell_grid import Box, Grid, RuleList, covers
from polidiff.rules.generate import BeamOptions, beam
from polidiff.rules.grid import Problem as Clauses
from polidiff.rules.grid import numbered_grid

REMEMBERED = 6


@dataclass(frozen=True, eq=False)
class Support:
    """What must stand behind a box: weights of the free states that sum to at least `least` in it."""

    weight: FloatArray  # (n,)
    least: float

    @property
    def enough(self) -> float:
        """`least`, less what rounding may take."""
        return self.least * (1 - 1e-6)


@dataclass(frozen=True, eq=False)
class BoxFinder:
    """The cells of the free states."""

    codes: IntArray  # (n, d)
    sizes: IntArray  # (d,)
    clauses: Clauses
    support: Support | None = None

    @classmethod
    def of(cls, cells: Grid, states: IntArray, support: Support | None = None) -> BoxFinder:
        """A finder over some of the states."""
        codes, n = cells.codes.T[states].astype(np.int64), len(states)
        rows = np.ascontiguousarray(codes, dtype=np.uint8)
        return cls(codes, cells.sizes, Clauses(numbered_grid(cells.sizes), rows, np.ones(n), n, 0.0, 0.0), support)

    def boxes(self, masks: BoolArray) -> list[Box]:
        """Allowed cells (K, d, width) of clauses as boxes."""
        first, last = masks.argmax(axis=2), masks.shape[2] - 1 - masks[:, :, ::-1].argmax(axis=2)
        inner = (first > 0) | (last < self.sizes - 1)
        return [
            tuple((int(j), int(low[j]), int(high[j])) for j in np.flatnonzero(used))
            for low, high, used in zip(first, last, inner, strict=True)
        ]


def best_boxes(
    finder: BoxFinder,
    weights: FloatArray,
    *,
    conditions: int,
    top: int,
    literal_cost: float = 0.0,
    literals: int | None = None,
) -> list[ListedRule]:
    """The `top` boxes over all moves, for weights (moves, n): those with the largest sums, less what literals cost.

    A box has at most so many `conditions` and `literals`, and enough behind it.
    """
    most, clauses = np.maximum(weights, 0).sum(axis=1), replace(finder.clauses, literal_cost=literal_cost)
    found: dict[ListedRule, float] = {}
    for move in np.flatnonzero(most > 1e-12 * float(np.abs(weights).sum())).tolist():
        if weights[move].sum() > 0:
            found[(move, ())] = float(weights[move].sum())
        grown = beam(clauses, weights[move], BeamOptions(depth=conditions))
        useful = grown.values > 0
        if literals is not None:
            useful &= clauses.grid.literals(grown.masks).sum(axis=1) <= literals
        if finder.support is not None:
            useful &= clauses.covers(grown.masks) @ finder.support.weight >= finder.support.enough
        for box, value in zip(finder.boxes(grown.masks[useful]), grown.values[useful].tolist(), strict=True):
            found[(move, box)] = value
    ranked = sorted(found.items(), key=lambda item: (-item[1], item[0]))
    return [rule for rule, _ in ranked[:top]]


ListedRule: TypeAlias = tuple[int, Box]  # (move, box)


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
    most: FloatArray  # (m − 1,) of the changes and of each guarded outcome, ∞ without a limit
    _covers: dict[Box, BoolArray] = field(default_factory=dict, repr=False)
    _values: dict[RuleList, Scored] = field(default_factory=dict, repr=False)
    _plans: dict[bytes, FloatArray] = field(default_factory=dict, repr=False)
    _points: dict[RuleList, Point] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls,
        moves: MoveSet,
        cells: Grid,
        model: ChoiceModel,
        max_conditions: int,
        max_literals: int | None,
        limits: Sequence[float] = (),
        budget: float | None = None,
        support: Support | None = None,
    ) -> Problem:
        """The problem for given parts."""
        choice = moves.choice[:, model.states]
        at = np.broadcast_to(np.arange(model.size), choice.shape)
        row = np.where(choice >= 0, model.row_of[at, np.maximum(choice, 0)], -1)
        finder = BoxFinder.of(cells, model.states, support)
        most = np.array([np.inf if budget is None else budget, *limits], dtype=np.float64)
        return cls(moves, cells, model, finder, row, max_conditions, max_literals, most)

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
            inside = self._covers[box] = covers(self.finder.codes.T, box)
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

    def value(self, rules: RuleList) -> FloatArray:
        """(m,) exact return, changes and guarded outcomes of a list, short enough or not."""
        plan = self.plan(rules)
        key = plan.tobytes()
        if key not in self._plans:
            self._plans[key] = value_of(self.model, plan)
        return self._plans[key]

    def remember(self, plan: IntArray, sums: FloatArray) -> None:
        """Take what a plan brings as known: worked out from a neighbour's, in a process where every plan ends."""
        if not self.model.loops and np.isfinite(sums).all():
            self._plans.setdefault(plan.tobytes(), sums)

    def score(self, rules: RuleList) -> Scored:
        """The list with its exact return, remembered; -inf if it does not keep what must be kept."""
        known = self._values.get(rules)
        if known is None:
            sums = self.value(rules)
            total = float(sums[0]) if self.keeps(sums) else -np.inf
            known = Scored(rules, total, float(sums[1]), self.literals(rules))
            self._values[rules] = known
        return known

    @property
    def limited(self) -> bool:
        """Whether changes or outcomes have limits."""
        return bool(np.isfinite(self.most).any())

    def keeps(self, sums: FloatArray) -> BoolArray:
        """Whether plans that bring (…, m) keep within the limits."""
        return np.asarray((sums[..., 1:] <= self.most + 1e-9 * (1 + np.abs(self.most))).all(axis=-1))

    def point(self, rules: RuleList) -> Point:
        """The plan of a list, ready to linearise; the last few are remembered."""
        known = self._points.pop(rules, None) or point_at(self.model, self.plan(rules))
        self._points[rules] = known
        if len(self._points) > REMEMBERED:
            self._points.pop(next(iter(self._points)))
        return known
