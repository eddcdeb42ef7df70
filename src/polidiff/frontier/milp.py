r"""The mixed-integer program of Dolgov and Durfee over visits, with a bound on visits per state.

.. math:: \max_{x, \Delta} \sum x R \quad \text{s.t.} \quad \sum_a x(s,a) - \sum_{s',a} x(s',a) P(s \mid s',a) = p_0(s),
          \; x(s,a) \le M_s \Delta(s,a), \; \sum_a \Delta(s,a) = 1, \; \sum x C \le \kappa

A solver accepts small mixtures of two actions within its tolerance, and undiscounted visits may circle where no start
leads. So :math:`M_s` is the most visits that any policy makes, the program is used only where every policy ends, and
what comes back is rounded to a policy and evaluated: a policy that breaks a limit is refused.

**Cuts** from the most visits that a pair can get in any plan worth having, and the program that is left after them.

Let :math:`v` be the return of a plan that is known and :math:`\kappa` the budget. A better plan visits, where it takes
action a in state s, that pair at most

.. math:: M(s, a) = \max \{\, x(s, a) : x \text{ flows from } p_0,\; \textstyle\sum x C \le \kappa,\;
          \sum x R \ge v,\; x(s, b) = 0 \;\forall b \ne a \,\}

times. A pair whose program is infeasible is in no better plan. Which are is asked first, with the return as objective:
then each program starts near the optimum of the one before and takes few pivots. Then :math:`M` of the pairs that are
left in states with a choice. A plan takes one action in a state, so :math:`\sum_a x(s, a) / M(s, a) \le 1` cuts
mixtures off, and with these cuts the programs are solved again. On slippery grids, where visits are shared among many
ways and prices alone bound badly, few states keep a choice; a mixed-integer program decides those.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from polidiff.frontier.completion import keeps_guards
from polidiff.frontier.problem import FrontierProblem
from polidiff.frontier.visits import fundamental, max_visits, points_of
from polidiff.optimize import Clock, GrowingProgram, Limits, Program, Solution, solve
from polidiff.records.arrays import FloatArray, IntArray

GAP = 1e-10  # relative, at which the mixed-integer program may stop
NODES = (200, 1_000, 20_000)  # of the mixed-integer program, from one turn to the next
ROUNDS = 4  # over all pairs
PAYS = 0.02  # of the gap that a round must close, or the mixed-integer program takes over
LOOSE = 1e-6  # relative, by which bounds on visits are widened against the tolerances of the solver
NOTHING = 1e-9  # visits below which a pair is in no better plan
FEWEST = 1e-3  # visits below which a cut is not made steeper: coefficients far apart upset the solver
MOST_PAIRS = 6_000


@dataclass(frozen=True, eq=False)
class Rounded:
    """The policy that a solution rounds to, evaluated."""

    choice: IntArray | None  # (S,) None if the solver has none, or rounding broke a limit
    changes: float
    returns: float
    bound: float  # no policy within the limits returns more, if the solver is to be believed
    status: str
    nodes: int


def mixed_program(problem: FrontierProblem, most_visits: FloatArray, *, budget: float) -> Program:
    """The program; variables are the visits of all pairs, then their indicators. A pair of no visits is not offered."""
    count, states = problem.n_pairs, problem.n_states
    pick = sparse.csr_array((np.ones(count), (problem.state, np.arange(count))), shape=(states, count))
    limited = np.vstack([problem.cost, problem.guards])
    large, open_ = np.maximum(most_visits, 1e-9), (most_visits > 0).astype(np.float64)
    rows = sparse.vstack(
        [
            sparse.hstack([problem.flow, sparse.csr_array((states, count))]),
            sparse.hstack([sparse.csr_array((states, count)), pick]),
            sparse.hstack([sparse.diags_array(1.0 / large), -sparse.eye_array(count)]),
            sparse.hstack([sparse.csr_array(limited), sparse.csr_array(limited.shape)]),
        ]
    )
    free = np.full(count + len(limited), -np.inf)
    return Program.of(
        np.concatenate([problem.reward, np.zeros(count)]),
        rows,
        row_low=np.concatenate([problem.initial, np.ones(states), free]),
        row_high=np.concatenate([problem.initial, np.ones(states), np.zeros(count), [budget], problem.limits]),
        high=np.concatenate([np.where(open_ > 0, np.inf, 0.0), open_]),
        integer=np.concatenate([np.zeros(count), np.ones(count)]).astype(bool),
        maximise=True,
    )


def best_by_program(
    problem: FrontierProblem,
    *,
    budget: float = np.inf,
    most: FloatArray | None = None,
    start: IntArray | None = None,
    limits: Limits | None = None,
) -> Rounded:
    """The best policy within the limits by the mixed-integer program, from `start` if one is known.

    `most` (pairs,) bounds visits; by default the most that any policy makes, which must then end whatever it does.
    """
    visits = 1.001 * max_visits(problem)[problem.state] if most is None else most
    program = mixed_program(problem, visits, budget=budget)
    answer = solve(program, start=None if start is None else warm_start(problem, start), limits=limits)
    return rounded(problem, answer, budget)


def warm_start(problem: FrontierProblem, choice: IntArray) -> FloatArray:
    """Visits and indicators of a policy."""
    visits = problem.initial @ fundamental(problem, choice[None])[0]
    chosen = (choice[problem.state] == np.arange(problem.n_pairs)).astype(np.float64)
    return np.concatenate([chosen * visits[problem.state], chosen])


def rounded(problem: FrontierProblem, answer: Solution, budget: float) -> Rounded:
    """The policy of the indicators, evaluated; refused if it breaks a limit that the solver let pass."""
    bound = np.inf if answer.bound is None else answer.bound
    none = Rounded(None, np.nan, np.nan, bound, answer.status, answer.nodes)
    if answer.values is None:
        return none
    visits, picked = np.split(answer.values, 2)
    visited = np.add.reduceat(visits, problem.first[:-1]) > 1e-9
    best = problem.first[:-1] + [int(part.argmax()) for part in np.split(picked, problem.first[1:-1])]
    choice = np.where(visited, best, problem.ending_choice(problem.base))
    if not problem.ends(choice):
        return none
    changes, returns, *guarded = (float(total) for total in points_of(problem, choice[None])[:, 0])
    if changes > budget + 1e-7 * (1 + budget) or not keeps_guards(problem, np.array(guarded)):
        return none
    return Rounded(choice, changes, returns, bound, answer.status, answer.nodes)


@dataclass(frozen=True, eq=False)
class VisitBounds:
    """What no plan that is better than a known one and within a budget exceeds."""

    most: FloatArray  # (pairs,) visits; 0 for pairs that are in no such plan, ∞ where a state has no other
    bound: float  # return
    solved: int  # linear programs

    @property
    def closed(self) -> bool:
        """Whether no such plan exists."""
        return self.bound == -np.inf


class _Relaxation:
    """The linear program over mixed policies, with a row for the cut of each state."""

    def __init__(self, problem: FrontierProblem, budget: float, floor: float, most: FloatArray) -> None:
        self.problem, self.most, self.solved = problem, most.copy(), 0
        self.program = GrowingProgram(maximise=True)
        self.program.add_columns(np.zeros(problem.n_pairs), low=0.0, high=np.where(most > 0, np.inf, 0.0))
        self.program.add_rows(problem.flow, row_low=problem.initial, row_high=problem.initial)
        limits = sparse.csr_array(np.vstack([problem.cost, -problem.reward, problem.guards]))
        self.program.add_rows(limits, row_high=np.concatenate([[budget, -floor], problem.limits]))
        self.first_cut = problem.n_states + limits.shape[0]
        count = np.arange(problem.n_pairs)
        self.program.add_rows(sparse.csr_array((self._shares(), (problem.state, count))), row_high=self._tops())

    def _shares(self) -> FloatArray:
        some = np.isfinite(self.most) & (self.most > 0)
        return np.where(some, 1.0 / np.where(some, np.maximum(self.most, FEWEST), 1.0), 0.0)

    def _tops(self) -> FloatArray:
        whole = np.logical_and.reduceat(np.isfinite(self.most), self.problem.first[:-1])
        return np.where(whole, 1.0, np.inf)

    def value(self, weights: FloatArray) -> float:
        """The largest sum of weights; −∞ where nothing is feasible, ∞ where nothing bounds it."""
        self.program.set_objective(np.arange(self.problem.n_pairs), weights)
        self.solved += 1
        return self.program.value()

    def alive(self, state: int) -> IntArray:
        """The pairs of a state that a plan worth having may take."""
        pairs = np.arange(self.problem.first[state], self.problem.first[state + 1])
        return pairs[self.most[pairs] > 0]

    def probe(self, state: int) -> None:
        """Drop the pairs that no plan worth having takes; the objective stays the return."""
        alive = self.alive(state)
        for pair in alive if len(alive) > 1 else ():
            self.program.set_bounds(alive, low=0.0, high=np.where(alive == pair, np.inf, 0.0))
            self.solved += 1
            if self.program.value() == -np.inf:
                self.most[pair] = 0.0
        self.program.set_bounds(alive, low=0.0, high=np.where(self.most[alive] > 0, np.inf, 0.0))

    def tighten(self, state: int) -> None:
        """The most visits of each pair of a state when it takes no other, and the cut that follows."""
        pairs, alive = np.arange(self.problem.first[state], self.problem.first[state + 1]), self.alive(state)
        self.program.set_objective(np.arange(self.problem.n_pairs), 0.0)
        for pair in alive:
            own = np.array([pair])
            self.program.set_bounds(alive, low=0.0, high=np.where(alive == pair, np.inf, 0.0))
            self.program.set_objective(own, 1.0)
            self.solved += 1
            visits = self.program.value()
            if visits == np.inf and self.most[pair] == np.inf:  # the solver does not know: mixtures bound it too
                self.program.set_bounds(alive, low=0.0, high=np.inf)
                visits = self.program.value()
            self.program.set_objective(own, 0.0)
            most = visits * (1 + LOOSE) + NOTHING if visits > NOTHING else 0.0
            self.most[pair] = min(self.most[pair], most)
        self.program.set_bounds(alive, low=0.0, high=np.where(self.most[alive] > 0, np.inf, 0.0))
        shares, row = self._shares()[pairs], self.first_cut + state
        for pair, share in zip(pairs, shares, strict=True):
            self.program.set_coefficient(row, int(pair), float(share))
        self.program.set_row_bounds(row, -np.inf, 1.0 if np.isfinite(self.most[pairs]).all() else np.inf)


def visit_bounds(
    problem: FrontierProblem, budget: float, floor: float, clock: Clock, most: FloatArray | None = None
) -> VisitBounds:
    """Bounds on visits, and on the return, of plans within a budget that return at least `floor`.

    `most` are bounds that hold already, from a larger budget and a lower floor.
    """
    known = np.full(problem.n_pairs, np.inf) if most is None else most
    relaxed = _Relaxation(problem, budget, floor, known)
    bound = relaxed.value(problem.reward)
    for state in range(problem.n_states):
        if not clock.over():
            relaxed.probe(state)
    bound = root = min(bound, relaxed.value(problem.reward))
    for _ in range(ROUNDS):
        for state in range(problem.n_states):
            if clock.over():
                return VisitBounds(relaxed.most, min(bound, relaxed.value(problem.reward)), relaxed.solved)
            if len(relaxed.alive(state)) > 1:
                relaxed.tighten(state)
        before, bound = bound, min(bound, relaxed.value(problem.reward))
        if bound == -np.inf or before - bound <= PAYS * max(root - floor, 0.0):
            break
    return VisitBounds(relaxed.most, bound, relaxed.solved)


def can_cut(problem: FrontierProblem) -> bool:
    """Whether cuts are worth their linear programs, and visits have a bound: every change has a cost."""
    free = (problem.cost == 0) & (np.arange(problem.n_pairs) != problem.base[problem.state])
    return problem.n_pairs <= MOST_PAIRS and (problem.always_ends or not free.any())


def best_within(problem: FrontierProblem, budget: float, start: IntArray, floor: float, clock: Clock) -> Rounded:
    """The best policy within a budget, from a known one that returns `floor`, and a bound on the return.

    Cuts and the mixed-integer program take turns while the program finds better plans: a higher floor cuts more.
    """
    known, nodes = Rounded(start, np.nan, floor, np.inf, "feasible", 0), 0
    most: FloatArray | None = None
    for most_nodes in NODES:
        bounds = visit_bounds(problem, budget, known.returns, clock, most)
        most, nodes = bounds.most, nodes + bounds.solved
        top = max(known.returns, min(known.bound, bounds.bound))
        known = replace(known, bound=top, nodes=nodes)
        only = np.add.reduceat(most > 0, problem.first[:-1])[problem.state] == 1
        if bounds.bound <= known.returns or not (only | np.isfinite(most)).all() or clock.over():
            break
        large = np.where(most > 0, np.maximum(most, FEWEST), 0.0)
        limits = Limits(time=clock.limit(), nodes=most_nodes, gap=GAP, tolerance=1e-9)
        found = best_by_program(problem, budget=budget, most=large, start=known.choice, limits=limits)
        nodes += found.nodes
        within = found.changes <= budget + 1e-9 * (1.0 + budget)  # the solver's tolerance is wider
        better = found.choice is not None and within and found.returns > known.returns
        known = replace(found if better else known, bound=min(top, found.bound), nodes=nodes)
        if found.status == "optimal" or (not better and most_nodes == NODES[-1]):
            break
    return known
