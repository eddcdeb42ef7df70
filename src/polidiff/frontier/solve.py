r"""The frontier of a problem with its certificate: hull, local search, branch and bound.

With a staircase :math:`v_i` at :math:`c_i` changes and open nodes with bounds :math:`U_\lambda`, a plan that was
missed between :math:`c_i` and :math:`c_{i+1}` returns at most :math:`\max U_\lambda(c_{i+1})`. The *gap* is the largest
such value less :math:`v_i`, as a share of the range from the first plan to the optimum; it is 0 when no node is open.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from polidiff.frontier.branch import Proof, branch_and_bound
from polidiff.frontier.completion import Nodes, Widened, join, widen
from polidiff.frontier.edges import edge_search
from polidiff.frontier.hull import Hull, parametric_hull
from polidiff.frontier.local_search import fewest_states, local_search
from polidiff.frontier.problem import FrontierProblem
from polidiff.frontier.staircase import Archive, Steps, new_archive
from polidiff.optimize import Clock
from polidiff.parallel import run_tasks
from polidiff.records.arrays import FloatArray, IntArray

HULL = 0.5  # of the time that the hull may take
PARTS = 8  # groups of hull edges, whatever the number of workers, so that the answer is the same
FEW = 60  # states up to which branch and bound is worth trying first, whatever the table
BEFORE_EDGES = 128  # nodes of branch and bound on one budget before edges of hulls are searched
PROVEN = 1e-9  # gap, as a share of the range, below which a plan counts as proven


@dataclass(frozen=True)
class Effort:
    """How much work may be done; counts, so that the same input gives the same answer."""

    nodes: int | None = None  # of branch and bound; by default about half a minute's worth
    expansions: int = 4_000  # plans whose neighbours local search looks at
    gap: float = 0.0  # share of the range to certify first, before the search for every plan

    def most(self, n_states: int) -> int:
        """Nodes allowed on a problem of this size; a node costs about the square of the number of states."""
        return self.nodes if self.nodes is not None else max(500, 300_000_000 // max(n_states, 1) ** 2)


@dataclass(frozen=True, eq=False)
class Solved:
    """Plans with what is proven about each."""

    changes: FloatArray  # (n,)
    returns: FloatArray  # (n,)
    choices: IntArray  # (n, S)
    bounds: FloatArray  # (n,) no plan with at most as many changes returns more
    gap: float  # of the whole staircase, as a share of the range
    hull: Hull
    nodes: int
    stopped: bool  # a limit was met with work left
    span: float  # return of the optimum less that of the first plan, at least a rounding error
    method: str = "hull, local search, branch and bound"

    @cached_property
    def gaps(self) -> FloatArray:
        """(n,) share of the range by which a better plan with as few changes is not ruled out."""
        return np.asarray((self.bounds - self.returns) / self.span)

    @cached_property
    def proven(self) -> list[bool]:
        """Per plan: nothing better with as few changes exists."""
        return [bool(gap < PROVEN) for gap in self.gaps]


def span_of(hull: Hull) -> float:
    """Return of the optimum less that of the first plan, at least a rounding error."""
    return max(float(hull.returns[-1] - hull.returns[0]), 1e-9 * max(1.0, abs(float(hull.returns[-1]))))


def solve_frontier(problem: FrontierProblem, effort: Effort, clock: Clock, budget: float | None = None) -> Solved:
    """Every non-dominated plan, or with a `budget` the first and the best plan within it."""
    if budget is not None:
        return solve_budgets(problem, [budget], effort, clock)[0]
    hull = parametric_hull(problem, clock.share(HULL))
    archive = new_archive(hull.changes, hull.returns, hull.choices)
    most = min(effort.expansions, 40_000_000_000 // problem.n_states**3)
    archive = local_search(problem, archive, clock.share(0.5), most=most)
    archive, left, nodes = _prove(problem, hull, archive, effort, clock, None)
    return certified(hull, archive if clock.left() <= 0 else fewest_states(problem, archive), left, None, nodes)


def solve_budgets(problem: FrontierProblem, budgets: Sequence[float], effort: Effort, clock: Clock) -> list[Solved]:
    """The first and the best plan within each of some budgets; all share the hull and the plans found on the way."""
    hull = parametric_hull(problem, clock.share(HULL))
    archive, answers = new_archive(hull.changes, hull.returns, hull.choices), list[Solved]()
    expansions = max(8, min(effort.expansions // 20, 20_000_000_000 // problem.n_states**3))
    for budget in budgets:
        edge = int((hull.changes <= budget + archive.tolerance.changes).sum()) - 1
        if edge == len(hull.changes) - 1:
            answers.append(certified(hull, archive, None, budget, 0))
            continue
        low = float(hull.changes[max(0, edge - 1)])
        archive = local_search(problem, archive, clock, low=low, high=budget, most=expansions)
        archive, left, nodes = _prove(problem, hull, archive, effort, clock, budget)
        shown = fewest_states(problem, archive.within(budget))
        answers.append(certified(hull, shown, left, budget, nodes))
    return answers


def bounded(solved: Solved, bound: float) -> Solved:
    """An answer for a budget with another bound on its last plan."""
    if not bound < solved.bounds[-1]:
        return solved
    bounds = solved.bounds.copy()
    bounds[-1] = max(float(solved.returns[-1]), bound)
    gap = float(bounds[-1] - solved.returns[-1]) / solved.span
    gap = 0.0 if gap < PROVEN else gap
    return replace(
        solved, bounds=bounds, gap=gap, stopped=gap > 0, method=f"{solved.method}, relaxation over mixed policies"
    )


def _prove(
    problem: FrontierProblem, hull: Hull, archive: Archive, effort: Effort, clock: Clock, budget: float | None
) -> tuple[Archive, Nodes | None, int]:
    """Branch and bound by prices where they bound well; along the edges of hulls elsewhere, and for what is left.

    By prices the problem has exits where some policies never end.
    """
    if len(hull.changes) < 2:
        return archive, None, 0
    most, nodes = effort.most(problem.n_states), 0
    if prices_bound_well(problem):
        wide = widen(problem, hull)
        search = _Part(branch_and_bound, wide.problem, effort.gap, span_of(hull), budget)
        wider = archive.renumbered(wide.number[archive.choices])
        first = most if budget is None else min(most, BEFORE_EDGES)
        proof = _search(search, wider, _roots(wide, hull, budget), clock, first)
        archive, nodes = proof.archive.renumbered(wide.narrow(proof.archive.choices)), proof.nodes
        if proof.open is None or budget is None or nodes >= most or clock.over():
            return archive, proof.open, nodes
    same = Widened(problem, problem, np.arange(problem.n_pairs))
    search = _Part(edge_search, problem, effort.gap, span_of(hull), budget)
    proof = _search(search, archive, _roots(same, hull, budget), clock, most - nodes)
    return proof.archive, proof.open, nodes + proof.nodes


def prices_bound_well(problem: FrontierProblem) -> bool:
    """Whether branch and bound by prices comes first: they bound badly where policies can circle among many states."""
    return problem.always_ends or problem.n_states <= FEW


@dataclass(frozen=True, eq=False)
class _Part:
    """A search from some roots: first to the gap asked for, then from what that left open to the end."""

    search: Callable[..., Proof]  # `branch_and_bound` or `edge_search`
    problem: FrontierProblem
    gap: float
    span: float
    budget: float | None

    def __call__(self, archive: Archive, roots: Nodes, clock: Clock, most: int) -> Proof:
        slack = self.gap * self.span
        rough = self.search(
            self.problem, archive, roots, clock, most=most, budget=self.budget, slack=slack, span=self.span
        )
        if rough.open is None or slack == 0.0 or rough.nodes >= most or clock.over():
            return rough
        rest = most - rough.nodes
        fine = self.search(self.problem, rough.archive, rough.open, clock, most=rest, budget=self.budget)
        return Proof(fine.archive, fine.open, rough.nodes + fine.nodes)


def _search(part: _Part, archive: Archive, roots: Nodes, clock: Clock, most: int) -> Proof:
    """The edges of the hull in a few groups, which may run side by side, and what they find together.

    Without a time limit the groups are the same for any number of workers, and so is the answer. Under one there is a
    group per worker, each with every so many-th edge, so that all start at once and end in time.
    """
    from joblib import effective_n_jobs

    groups = PARTS if part.problem.n_states >= 60 else 1
    groups = min(len(roots), groups if clock.seconds is None else int(effective_n_jobs()))
    if groups == 1:
        return part(archive, roots, clock, most)
    every = np.arange(len(roots))
    rows = np.array_split(every, groups) if clock.seconds is None else [every[i::groups] for i in range(groups)]
    found = run_tasks(part, [(archive, roots.take(row), clock, most // groups) for row in rows], what="proof")
    for proof in found:
        archive = archive.with_points(proof.archive.changes, proof.archive.returns, proof.archive.choices)
    left = [proof.open for proof in found if proof.open is not None]
    clock.stopped |= bool(left) and clock.seconds is not None
    return Proof(archive, join(left) if left else None, sum(proof.nodes for proof in found))


def _roots(wide: Widened, hull: Hull, budget: float | None) -> Nodes:
    """One node per edge of the hull; with a budget, the one whose edge it lies on, for all plans below it."""
    edges = np.arange(len(hull.prices))
    low, high = hull.changes[:-1], hull.changes[1:]
    if budget is not None:
        edges = edges[(low <= budget)][-1:]
        low, high = np.full_like(low, -2.0), np.full_like(high, budget + 1.0)
    return Nodes(
        choice=wide.number[hull.choices[edges]],
        price=hull.prices[edges],
        tilt=np.zeros((len(edges), 0)),
        total=hull.returns[edges] - hull.prices[edges] * hull.changes[edges],
        fixed=np.zeros((len(edges), wide.problem.n_states), dtype=np.bool_),
        active=np.ones((len(edges), wide.problem.n_pairs), dtype=np.bool_),
        low=low[edges],
        high=high[edges],
        visits=np.repeat(wide.problem.initial[None], len(edges), axis=0),
    )


def certified(
    hull: Hull, archive: Archive, left: Nodes | None, budget: float | None, nodes: int, *, ends: bool = True
) -> Solved:
    """The plans of an archive with what the open nodes leave possible; with a budget the first and the best within."""
    steps = Steps.of(archive, budget, ends=ends)
    archive = archive if budget is None else archive.within(budget)
    bounds, gap = archive.returns.copy(), 0.0
    if left is not None and len(archive):
        reach = archive.changes.copy()
        if budget is not None:
            reach[-1] = budget
        bounds = np.maximum(bounds, open_bounds(left, reach))
        bounds = np.minimum(bounds, np.maximum(hull.bound(reach), archive.returns))
        windows = steps.windows(left.low, left.high)
        excess = windows.excess(left.total, left.price)
        shown = windows.index >= len(steps.right) - len(archive)
        gap = float(np.where(shown, excess, 0.0).max(initial=0.0)) / span_of(hull)
    return Solved(
        changes=archive.changes,
        returns=archive.returns,
        choices=archive.choices,
        bounds=bounds,
        gap=gap,
        hull=hull,
        nodes=nodes,
        stopped=left is not None,
        span=span_of(hull),
    )


def open_bounds(left: Nodes, changes: FloatArray) -> FloatArray:
    """The most that a plan in an open node returns with at most `changes` changes; −∞ where none can be."""
    reach = np.minimum(changes[None, :], left.high[:, None])
    bounds = left.total[:, None] + left.price[:, None] * reach
    return np.asarray(np.where(left.low[:, None] < changes[None, :], bounds, -np.inf).max(axis=0))
