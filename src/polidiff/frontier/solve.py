r"""The frontier of a problem with its certificate: hull, local search, branch and bound.

With a staircase :math:`v_i` at :math:`c_i` changes and open nodes with bounds :math:`U`, a plan that was missed
between :math:`c_i` and :math:`c_{i+1}` returns at most :math:`\max U(c_{i+1})`. The *gap* is the largest
such value less :math:`v_i`, as a share of the range from the first plan to the optimum; it is 0 when no node is open.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from polidiff.frontier.branch import EdgeSearch, Node, Proof, branch_and_bound, open_bounds
from polidiff.frontier.hull import Hull, parametric_hull
from polidiff.frontier.local_search import fewest_states, local_search
from polidiff.frontier.problem import FrontierProblem
from polidiff.frontier.staircase import Archive, Steps, new_archive
from polidiff.parallel import run_tasks
from polidiff.progress import Clock
from polidiff.records.arrays import FloatArray, IntArray

HULL = 0.5  # of the time that the hull may take
LOCAL = 40_000_000_000  # plans times states cubed that local search looks at
PARTS = 8  # groups of hull edges, whatever the number of workers, so that the answer is the same
ONE_PART = 60  # states below which there is one group
PROVEN = 1e-9  # gap, as a share of the range, below which a plan counts as proven


@dataclass(frozen=True)
class Effort:
    """How much work may be done; counts, so that the same input gives the same answer."""

    nodes: int | None = None  # of branch and bound; by default about half a minute's worth
    expansions: int = 100_000  # plans whose neighbours local search looks at, fewer on large tables
    gap: float = 0.0  # share of the range to certify first, before the search for every plan

    def most(self, n_states: int, work: int = 2_000_000_000) -> int:
        """Nodes allowed on a problem of this size; a node costs about the square of the number of states."""
        return self.nodes if self.nodes is not None else max(500, work // max(n_states, 1) ** 2)


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
    visits: tuple[FloatArray | None, ...] = ()  # (S,) of each plan, where the search worked them out

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
    archive = _along_edges(problem, hull, effort, clock.share(0.5))
    proof = _prove(problem, hull, archive, effort, clock, None)
    return certified(hull, with_fewest_states(problem, proof, clock), None)


def _along_edges(problem: FrontierProblem, hull: Hull, effort: Effort, clock: Clock) -> Archive:
    """What local search finds under each edge of the hull, from its ends; what one edge leaves goes to the others.

    The proof is several times shorter where hardly a plan is missing before it begins.
    """
    archive = new_archive(hull.changes, hull.returns, hull.choices)
    left, edges = min(effort.expansions, LOCAL // problem.n_states**3), len(hull.changes) - 1
    for i in range(edges):
        (low, high), most = hull.changes[i : i + 2], left // (edges - i)
        part = clock.share(1 / (edges - i))
        own = local_search(problem, archive.between(low, high), part, low=low, high=high, most=most)
        left -= min(len(own), most)
        archive = archive.with_points(own.changes, own.returns, own.choices)
    return archive


def with_fewest_states(problem: FrontierProblem, proof: Proof, clock: Clock, budget: float | None = None) -> Proof:
    """A proof whose plans, within a budget the last, change as few states as plans that equal them."""
    archive = proof.archive if budget is None else proof.archive.within(budget)
    return replace(proof, archive=fewest_states(problem, archive, clock))


def solve_budgets(problem: FrontierProblem, budgets: Sequence[float], effort: Effort, clock: Clock) -> list[Solved]:
    """The first and the best plan within each of some budgets; all share the hull and the plans found on the way."""
    hull = parametric_hull(problem, clock.share(HULL))
    archive, answers = new_archive(hull.changes, hull.returns, hull.choices), list[Solved]()
    expansions = max(8, min(effort.expansions // 500, 20_000_000_000 // problem.n_states**3))
    for budget in budgets:
        edge = int((hull.changes <= budget + archive.tolerance.changes).sum()) - 1
        if edge == len(hull.changes) - 1:
            answers.append(certified(hull, Proof(archive, [], 0), budget))
            continue
        low = float(hull.changes[max(0, edge - 1)])
        archive = local_search(problem, archive, clock, low=low, high=budget, most=expansions)
        proof = _prove(problem, hull, archive, effort, clock, budget)
        archive = proof.archive
        answers.append(certified(hull, with_fewest_states(problem, proof, clock, budget), budget))
    return answers


def _prove(
    problem: FrontierProblem, hull: Hull, archive: Archive, effort: Effort, clock: Clock, budget: float | None
) -> Proof:
    """Branch and bound along the edges of the hull, in a few groups, which may run side by side.

    Without a time limit the groups are the same for any number of workers, and so is the answer. Under one there is a
    group per worker, each with every so many-th edge, so that all start at once and end in time.
    """
    from joblib import effective_n_jobs

    roots, most = _roots(problem, hull, budget), effort.most(problem.n_states)
    groups = PARTS if problem.n_states >= ONE_PART else 1
    groups = min(len(roots), groups if clock.seconds is None else int(effective_n_jobs(None)))
    span = span_of(hull)
    prove = partial(branch_and_bound, most=most // max(groups, 1), slack=effort.gap * span, span=span)
    if groups <= 1:
        return prove(EdgeSearch(problem, archive, budget), roots, clock)
    size = -(-len(roots) // groups)
    parts = [roots[i * size : (i + 1) * size] if clock.seconds is None else roots[i::groups] for i in range(groups)]
    proofs = run_tasks(prove, [(EdgeSearch(problem, archive, budget), part, clock) for part in parts], what="proof")
    for proof in proofs:
        archive = archive.with_points(proof.archive.changes, proof.archive.returns, proof.archive.choices)
    left = [node for proof in proofs for node in proof.open]
    clock.stopped |= bool(left) and clock.seconds is not None
    return Proof(archive, left, sum(proof.nodes for proof in proofs))


def _roots(problem: FrontierProblem, hull: Hull, budget: float | None) -> list[Node]:
    """One node per edge of the hull; with a budget, the one whose edge it lies on, for all plans below it."""
    low, high, every = hull.changes[:-1], hull.changes[1:], np.ones(problem.n_pairs, dtype=np.bool_)
    totals, edges = hull.returns[:-1] - hull.prices * low, range(len(low))
    if budget is not None:
        edges = range(int((low <= budget).sum()))[-1:]
        low, high = np.full_like(low, -2.0), np.full_like(high, budget + 1.0)
    return [Node(hull.choices[i], every, hull.prices[i], totals[i], low[i], high[i]) for i in edges]


def certified(hull: Hull, proof: Proof, budget: float | None, *, ends: bool = True) -> Solved:
    """The plans of a proof with what its open nodes leave possible; with a budget the first and the best within."""
    steps, tolerance = Steps.of(proof.archive, budget, ends=ends), proof.archive.tolerance
    archive = proof.archive if budget is None else proof.archive.within(budget)
    bounds, gap = archive.returns.copy(), 0.0
    if proof.open and len(archive):
        reach = archive.changes.copy()
        if budget is not None:
            reach[-1] = budget
        bounds = np.maximum(bounds, open_bounds(proof.open, reach))
        bounds = np.minimum(bounds, np.maximum(hull.bound(reach), archive.returns))
        shown = steps.last(len(archive))
        above = (shown.above(node.price, node.total, node.low, node.high, tolerance.changes) for node in proof.open)
        gap = max(excess for _, _, excess in above) / span_of(hull)
    return Solved(
        changes=archive.changes,
        returns=archive.returns,
        choices=archive.choices,
        bounds=bounds,
        gap=gap,
        hull=hull,
        nodes=proof.nodes,
        stopped=bool(proof.open),
        span=span_of(hull),
    )
