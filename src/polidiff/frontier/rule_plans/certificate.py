r"""Bounds on what any list of K rules can return.

*Any states.* K rules use at most K moves. If those could be made in any states at all, the best return is that of a
decision process with these moves; the largest over all sets of K moves bounds every list.

*Boxes.* A node of the branch and bound fixes the move of each rule and a range for every bound of every box. States
surely inside or outside are decided, the others choose freely among the moves still possible there; the optimum of this
relaxed process bounds every list of the node. It is about boxes on the cuts; where a feature has more values than
cells it is told apart (`Bound.on_cuts`).

*Every plan* that a list of few rules can make, where these are few: a proof without a bound, guards included
(`every_list`).
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, count, product

import numpy as np

from polidiff.frontier.rule_plans.every_list import best_lists
from polidiff.frontier.rule_plans.lists import Problem, Scored
from polidiff.frontier.rule_plans.model import best_choices, point_at
from polidiff.frontier.rule_plans.search import Landmarks
from polidiff.progress import Clock, report
from polidiff.records.arrays import BoolArray, FloatArray, IntArray
from polidiff.rules.cell_grid import RuleList

BRANCHED_COLUMNS = 8  # with more features a box has too many bounds to branch on
TOLERANCE = 1e-10  # of the range: a node whose bound is within this of the best list is closed
GUARDED_SHARE = 0.05  # of the nodes, where limits hold that the bounds know nothing of


@dataclass(frozen=True)
class Bound:
    """No list of so many rules returns more than `value`."""

    value: float
    best: Scored  # the best list known, perhaps found on the way
    nodes: int
    how: str  # "no rules", "optimum", "any states", "boxes", "every list"
    on_cuts: float | None = None  # a smaller bound that holds only for rules on the cuts of many-valued features


def certify(
    problem: Problem,
    marks: Landmarks,
    best: Sequence[Scored],
    *,
    gap: float,
    nodes: int | None,
    clock: Clock,
) -> tuple[Bound, ...]:
    """A bound for every number of rules, with the best lists known afterwards."""
    limit = node_budget(problem.model.size, clock) if nodes is None else nodes
    guarded = limit > 0 and problem.limited and problem.cells.complete  # bounds do not know of guards
    every = best_lists(problem, len(best) - 1, clock) if guarded else None
    if every is not None:
        return tuple(_exact(known, found) for known, found in zip(best, every, strict=True))
    if problem.limited and clock.seconds is None:
        limit = int(GUARDED_SHARE * limit)
    proofs = [Bound(marks.current.expected_return, best[0], 0, "no rules")]
    for rules in range(1, len(best)):
        known = max(best[rules], proofs[-1].best, key=lambda s: (s.expected_return, -s.changes))
        bound = _bound(problem, marks, known, rules, gap=gap, nodes=limit, clock=clock)
        proofs.append(bound)
    return tuple(proofs)


def _exact(known: Scored, found: Scored) -> Bound:
    """The best of all lists, or the one known where that returns as much."""
    close = known.expected_return >= found.expected_return - 1e-9 * max(1e-3, abs(found.expected_return))
    value = max(known.expected_return, found.expected_return)
    return Bound(value, known if close else found, 0, "every list")


def node_budget(size: int, clock: Clock) -> int:
    """Relaxations for a model of so many states, none for large ones: seconds of work, or what fits into memory."""
    most = 1e7 / max(size, 1) ** 2 if clock.seconds is None else 3e7 / max(size, 1)
    return int(min(20_000 if clock.seconds is None else 100_000, most)) if size <= 600 else 0


def _set_budget(problem: Problem) -> int:
    """Sets of moves to solve the process for: a few seconds of factorisations."""
    size = problem.model.size
    return int(min(2000, 6e10 / size**3 if problem.model.dense else 30))


def _bound(
    problem: Problem, marks: Landmarks, known: Scored, rules: int, *, gap: float, nodes: int, clock: Clock
) -> Bound:
    def near(value: float) -> bool:
        return value <= known.expected_return + max(gap * marks.span, marks.tolerance)

    if near(marks.ceiling):
        return Bound(marks.ceiling, known, 0, "optimum")
    free, solved = any_states(problem, marks, rules, most=_set_budget(problem), clock=clock)
    bounds = {"optimum": marks.ceiling, "any states": free}
    how = min(bounds, key=lambda name: bounds[name])
    general = Bound(bounds[how], known, solved, how)
    if near(general.value):
        return general
    on_cuts = _on_cuts(problem, marks, general, rules, gap=gap, nodes=nodes, clock=clock)
    if problem.cells.complete:
        return on_cuts
    return replace(general, best=on_cuts.best, nodes=on_cuts.nodes, on_cuts=on_cuts.value)


def _on_cuts(
    problem: Problem, marks: Landmarks, general: Bound, rules: int, *, gap: float, nodes: int, clock: Clock
) -> Bound:
    """A bound over rules whose bounds lie on the cuts of the features."""
    roots = (problem.keep + 1) ** rules
    if roots > nodes or len(problem.cells.sizes) > BRANCHED_COLUMNS or clock.over():
        return general
    boxes = branch_and_bound(problem, marks, general.best, rules, gap=gap, nodes=nodes, clock=clock)
    boxes = replace(boxes, nodes=boxes.nodes + general.nodes)
    if boxes.value < general.value:
        return boxes
    return replace(boxes, value=max(general.value, boxes.best.expected_return), how=general.how)


def any_states(problem: Problem, marks: Landmarks, rules: int, *, most: int, clock: Clock) -> tuple[float, int]:
    """Largest return of a process with at most `rules` moves besides "keep", and processes solved; inf if too many."""
    useful = [m for m in range(problem.keep) if (problem.row[m] != problem.model.keep)[problem.row[m] >= 0].any()]
    if rules >= len(useful):
        return marks.ceiling, 0
    sets = list(combinations(useful, rules))
    if len(sets) > most:
        return np.inf, 0
    best = -np.inf
    for chosen in sets:
        if clock.over():
            return np.inf, 0
        choices = best_choices(problem.model, _rows_of(problem, chosen), marks.star.rows)
        best = max(best, -np.inf if choices is None else choices[0])
    return best, len(sets)


def branch_and_bound(
    problem: Problem, marks: Landmarks, best: Scored, rules: int, *, gap: float, nodes: int, clock: Clock
) -> Bound:
    """Bound over all lists of `rules` boxes; stops at `gap` (a share of the range) or after `nodes` relaxations."""
    tree = _Tree(problem, marks, best, np.asarray(problem.finder.codes))
    slack = max(gap, TOLERANCE) * marks.span
    for moves in product(range(len(problem.row)), repeat=rules):
        if clock.over():
            return Bound(marks.ceiling, tree.best, tree.nodes, "boxes")
        if moves[-1] != problem.keep and not (rules > 1 and moves[0] == moves[1] == problem.keep):
            tree.push(moves, _whole(problem, rules), marks.star.rows)
    while tree.heap and -tree.heap[0][0] > tree.best.expected_return + slack:
        if tree.nodes >= nodes or clock.over():
            break
        _, _, node = heapq.heappop(tree.heap)
        tree.split(node)
        _tell(tree, rules, nodes, slack)
    report(_proving(rules), 1.0, f"{tree.nodes} nodes")
    rest = -tree.heap[0][0] if tree.heap else -np.inf
    return Bound(max(tree.best.expected_return, tree.closed, rest), tree.best, tree.nodes, "boxes")


def _proving(rules: int) -> str:
    return f"proof for {rules} {'rule' if rules == 1 else 'rules'}"


def _tell(tree: _Tree, rules: int, nodes: int, slack: float) -> None:
    """How many of the nodes are used; it may be done before, when what is still open is within the slack."""
    open_ = -tree.heap[0][0] - tree.best.expected_return if tree.heap else 0.0
    remark = f"{tree.nodes} nodes, {100 * open_ / max(tree.marks.span, 1e-300):.2g} % open"
    report(_proving(rules), min(1.0, tree.nodes / nodes) if open_ > slack else 1.0, remark)


def _rows_of(problem: Problem, moves: tuple[int, ...]) -> BoolArray:
    allowed = np.zeros(len(problem.model.state_of), dtype=np.bool_)
    allowed[problem.model.keep] = True
    for move in moves:
        rows = problem.row[move]
        allowed[rows[rows >= 0]] = True
    return allowed


def _whole(problem: Problem, rules: int) -> IntArray:
    """(rules, 4, d) ranges: least and largest first cell, least and largest last cell."""
    top = problem.cells.sizes - 1
    return np.tile(np.stack([0 * top, top, 0 * top, top]), (rules, 1, 1))


@dataclass(frozen=True, eq=False)
class _Node:
    moves: tuple[int, ...]
    ranges: IntArray  # (rules, 4, d)
    rows: IntArray  # (n,) best relaxed plan


@dataclass(eq=False)
class _Tree:
    problem: Problem
    marks: Landmarks
    best: Scored
    codes: IntArray  # (n, d)
    heap: list[tuple[float, int, _Node]] = field(default_factory=list)
    nodes: int = 0
    closed: float = -np.inf  # largest bound of a node that was closed within the tolerance
    ticket: count[int] = field(default_factory=count)
    solved: dict[bytes, tuple[float, IntArray] | None] = field(default_factory=dict)

    def push(self, moves: tuple[int, ...], ranges: IntArray, warm: IntArray) -> None:
        """Bound a node and keep it if it may hold something better."""
        if not self.shorten(ranges):
            return
        self.try_middle(moves, ranges)
        allowed = self.allowed(moves, ranges)
        key = allowed.tobytes()
        if key not in self.solved:
            self.nodes += 1
            self.solved[key] = best_choices(self.problem.model, allowed, warm)
        relaxed = self.solved[key]
        if relaxed is None:
            return
        bound, rows = relaxed
        if bound > self.best.expected_return + TOLERANCE * self.marks.span:
            heapq.heappush(self.heap, (-bound, next(self.ticket), _Node(moves, ranges, rows)))
        else:
            self.closed = max(self.closed, bound)

    def shorten(self, ranges: IntArray) -> bool:
        """Whether some list of the node is short enough; where no comparison is left, the ranges of all others close.

        A box has a comparison for every bound that cannot lie at the edge of its column.
        """
        most, top = self.problem.max_literals, self.problem.cells.sizes - 1
        above, below = ranges[:, 0] > 0, ranges[:, 3] < top
        if ((above | below).sum(axis=1) > self.problem.max_conditions).any():
            return False
        used = int(above.sum() + below.sum())
        if most is not None and used >= most:
            ranges[:, 1][~above] = 0
            ranges[:, 2][~below] = np.broadcast_to(top, below.shape)[~below]
        return most is None or used <= most

    def allowed(self, moves: tuple[int, ...], ranges: IntArray) -> BoolArray:
        """Rows that some list of the node may take."""
        problem, codes = self.problem, self.codes
        open_ = np.ones(problem.model.size, dtype=np.bool_)
        allowed = np.zeros(len(problem.model.state_of), dtype=np.bool_)
        for move, (first_low, first_high, last_low, last_high) in zip(moves, ranges, strict=True):
            possible = problem.row[move] >= 0
            maybe = ((codes >= first_low) & (codes <= last_high)).all(axis=1) & possible
            allowed[problem.row[move][open_ & maybe]] = True
            open_ &= ~(((codes >= first_high) & (codes <= last_low)).all(axis=1) & possible)
        allowed[problem.model.keep[open_]] = True
        return allowed

    def try_middle(self, moves: tuple[int, ...], ranges: IntArray) -> None:
        """Value the list in the middle of the node, if it is short enough."""
        top = self.problem.cells.sizes - 1
        rules: list[tuple[int, tuple[tuple[int, int, int], ...]]] = []
        for move, (a, b, c, d) in zip(moves, ranges, strict=True):
            first, last = (a + b + 1) // 2, (c + d) // 2
            last = np.maximum(last, first)
            used = np.flatnonzero((first > 0) | (last < top))
            rules.append((move, tuple((int(j), int(first[j]), int(last[j])) for j in used)))
        listed: RuleList = tuple(rules)
        if self.problem.admits(listed):
            scored = self.problem.score(listed)
            if scored.expected_return > self.best.expected_return + self.marks.tolerance:
                self.best = scored

    def split(self, node: _Node) -> None:
        """Halve the range that leaves most visits undecided."""
        weight = self.undecided(node)
        if weight.max() <= 0:
            return
        rule, side, column = (int(i) for i in np.unravel_index(weight.argmax(), weight.shape))
        low, high = node.ranges[rule, 2 * side, column], node.ranges[rule, 2 * side + 1, column]
        middle = (low + high) // 2
        for upper in (False, True):
            ranges = node.ranges.copy()
            ranges[rule, 2 * side + (0 if upper else 1), column] = middle + 1 if upper else middle
            part = ranges[rule]
            part[2] = np.maximum(part[2], part[0])  # last cell ≥ first cell
            part[1] = np.minimum(part[1], part[3])
            self.push(node.moves, ranges, node.rows)

    def undecided(self, node: _Node) -> FloatArray:
        """(rules, 2, d) how much hangs on each range: its width, and the visits to states it leaves open."""
        ranges, codes, visits = node.ranges, self.codes, point_at(self.problem.model, node.rows).visits
        width = np.stack([ranges[:, 1] - ranges[:, 0], ranges[:, 3] - ranges[:, 2]], axis=1)
        weight = np.zeros(width.shape)
        for rule, (a, b, c, d) in enumerate(ranges):
            maybe = ((codes >= a) & (codes <= d)).all(axis=1)
            maybe &= ~((codes >= b) & (codes <= c)).all(axis=1)
            mass = np.where(maybe, visits + 1e-9, 0.0)[:, None]
            weight[rule, 0] = (mass * ((codes >= a) & (codes < b))).sum(axis=0)
            weight[rule, 1] = (mass * ((codes > c) & (codes <= d))).sum(axis=0)
        return np.where(width > 0, weight + 1e-12 * width, 0.0)
