r"""Plans that keep other outcomes within limits: nodes are bounded by a linear program over mixed policies.

.. math:: \max_x \sum x R \quad \text{s.t.} \quad \sum_a x(s,a) - \sum_{s',a} x(s',a) P(s \mid s',a) = p_0(s), \;
          \sum x C \le \kappa, \; \sum x G \le g

With the price of a change at :math:`\kappa` its value bounds every plan with fewer changes as well, by a line. A
solution mixes actions in few states, one per limit that binds. One of those is split, each of its actions alone, until
the line is nowhere above the staircase; a node with several steps below its line is first halved between them.
Undiscounted visits may also circle where no start leads: a state of such a circle is split in the same way, and a set
of pairs over which no policy ends from every state holds no plan.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import sparse

from polidiff.errors import InfeasibleError
from polidiff.frontier.branch import Node, Proof, Search, branch_and_bound
from polidiff.frontier.hull import Hull
from polidiff.frontier.large import hull_in_time
from polidiff.frontier.local_search import local_search
from polidiff.frontier.problem import GUARD_TOLERANCE, FrontierProblem
from polidiff.frontier.solve import Effort, Solved, certified, span_of, with_fewest_states
from polidiff.frontier.staircase import Archive, empty_archive
from polidiff.frontier.visits import Vertex, neighbours, points_of
from polidiff.optimize import GrowingProgram, Limits, Program, Solution, solve
from polidiff.progress import Clock
from polidiff.records.arrays import BoolArray, FloatArray, IntArray
from polidiff.worlds.checks import reached_over

PROGRAMS = 4_000_000  # pairs of all linear programs that may be solved by default, about half a minute's worth
MIXED = 1e-9  # visits from which a solution takes a pair
LOOSE = 1e-9  # relative, by which the value of a program may be too low
UNFINISHED = " (none was found before the limit; the search was not finished)"


def solve_guarded(
    problem: FrontierProblem,
    texts: tuple[str, ...],
    effort: Effort,
    clock: Clock,
    budget: float | None,
    given: FrontierProblem | None = None,
) -> Solved:
    """Every non-dominated plan that keeps the guards, or the best one within a budget.

    `given` is the problem in the units of the user, for what an error says.
    """
    hull = hull_in_time(problem, clock)
    archive = local_search(problem, _first_plans(problem, hull, clock), clock, most=effort.expansions // 100)
    search = RelaxationSearch(problem, archive, budget, clock)
    root = Node(
        choice=problem.ending_choice(problem.base),
        active=np.ones(problem.n_pairs, dtype=np.bool_),
        price=0.0,
        total=float(hull.returns[-1]),
        low=-2.0,
        high=np.inf if budget is None else budget,
    )
    most = max(200, PROGRAMS // problem.n_pairs) if effort.nodes is None else effort.nodes
    span = span_of(hull)
    proof = branch_and_bound(search, [root], clock, most=most, slack=effort.gap * span, span=span)
    solved = certified(hull, with_fewest_states(problem, proof, clock, budget), budget, ends=False)
    if not len(solved.changes):
        raise InfeasibleError(_refusal(problem, texts, budget, given or problem, proof, clock))
    return replace(solved, method="hull, local search, relaxation over mixed policies")


def _first_plans(problem: FrontierProblem, hull: Hull, clock: Clock) -> Archive:
    """Plans among the hull and its neighbours that keep the guards; around the first vertex whatever the time."""
    archive = empty_archive(hull.changes, hull.returns, hull.choices)
    for number, choice in enumerate(hull.choices):
        if number and clock.over():
            break
        around = neighbours(problem, choice[None])
        own, pairs = around.own_valid, np.flatnonzero(around.valid[0])
        archive = archive.with_points(around.own_changes[own], around.own_returns[own], choice[None][own])
        choices = np.repeat(choice[None], len(pairs), axis=0)
        choices[np.arange(len(pairs)), problem.state[pairs]] = pairs
        archive = archive.with_points(around.changes[0, pairs], around.returns[0, pairs], choices)
    return archive


class Relaxation:
    """The linear program over mixed policies that keep the guards, within some changes and over some pairs."""

    def __init__(self, problem: FrontierProblem) -> None:
        count = problem.n_pairs
        self.problem, self.active = problem, np.ones(count, dtype=np.bool_)
        self.program = GrowingProgram(maximise=True, limits=Limits(tolerance=1e-9))
        self.program.add_columns(np.append(problem.reward, 0.0), low=0.0, high=np.inf)  # the last: changes at most
        none = sparse.csr_array((problem.n_states, 1))
        self.program.add_rows(sparse.hstack([problem.flow, none]), row_low=problem.initial, row_high=problem.initial)
        self.program.add_rows(np.append(problem.cost, -1.0)[None], row_high=0.0)
        guards = np.column_stack([problem.guards, np.zeros(len(problem.limits))])
        limits = problem.limits + GUARD_TOLERANCE * (1.0 + np.abs(problem.limits))
        self.program.add_rows(guards, row_high=limits)

    def solve(self, active: BoolArray, changes: float, clock: Clock) -> Solution:
        """The best mixed policy, if there is time; its last value is the number of changes allowed."""
        moved = np.flatnonzero(active != self.active)
        self.active = active
        most = np.append(np.where(active[moved], np.inf, 0.0), changes)
        self.program.set_bounds(np.append(moved, self.problem.n_pairs), low=0.0, high=most)
        return self.program.solve(clock.limit())


class RelaxationSearch(Search):
    """Bounds and splits nodes by the relaxation."""

    def __init__(self, problem: FrontierProblem, archive: Archive, budget: float | None, clock: Clock) -> None:
        super().__init__(problem, archive, budget, ends=False)
        self.clock, self.relaxation = clock, Relaxation(problem)

    def children(self, node: Node) -> list[Node]:
        """Halves of a node with several steps below its line, else one node for every pair of a state."""
        problem = self.problem
        choice = problem.ending_choice(node.choice, node.active)
        within = node.high - (2.0 * self.tolerance.changes if self.budget is None else 0.0)
        if within < 0 or not problem.ends(choice):
            return []
        answer = self.relaxation.solve(node.active, within, self.clock)
        if answer.status == "infeasible":
            return []
        if answer.values is None or answer.duals is None or answer.objective is None:
            return self._split_anywhere(node, choice, np.ones(problem.n_states))
        visits = np.where(node.active, answer.values[:-1], 0.0)  # a bound of 0 may be passed by the solver's tolerance
        met = self._met(visits)
        choice = np.where(met, _most_taken(problem, visits), choice)
        plan = self._plan(choice)
        price = max(0.0, float(answer.duals[problem.n_states])) if np.isfinite(within) else 0.0
        loose = LOOSE * (1.0 + abs(answer.objective))
        total = answer.objective + loose - (price * within if price > 0.0 else 0.0)
        low, high, excess = self.above(price, total, node.low, node.high)
        if excess <= 0:
            return []
        inside = replace(node, choice=choice, price=price, total=total, low=low, high=high, excess=excess)
        middle = self._middle(low, high)
        if middle is not None:
            return [replace(inside, high=middle), replace(inside, low=middle)]
        visited = np.add.reduceat(visits, problem.first[:-1])
        mixed = visited - np.maximum.reduceat(visits, problem.first[:-1])
        if mixed.max() > MIXED:
            return self.split(inside, int(mixed.argmax()), choice)
        circling = (visited > MIXED) & ~met
        if plan is not None and not circling.any() and answer.objective - plan.returns <= 4.0 * loose:
            below = min(high, plan.changes) - 2.0 * self.tolerance.changes
            return [replace(inside, high=below)] if below > low else []
        return self._split_anywhere(inside, choice, visited + circling * visited.sum())

    def _met(self, visits: FloatArray) -> BoolArray:
        """(S,) the states that starts lead to along the pairs a solution takes."""
        problem = self.problem
        return reached_over(problem.links, problem.state, visits > MIXED, problem.initial > 0)

    def _plan(self, choice: IntArray) -> Vertex | None:
        """The plan that a policy is, which joins the archive; None if it breaks a guard or never ends."""
        if not self.problem.ends(choice):
            return None
        changes, returns, *guarded = (float(total) for total in points_of(self.problem, choice[None])[:, 0])
        if not self.problem.keeps_guards(np.array(guarded)):
            return None
        plan = Vertex(changes, returns, choice)
        self.add(plan)
        return plan

    def _middle(self, low: float, high: float) -> float | None:
        """Changes between two steps halfway among those from `low` to `high`; None where there is one step."""
        steps, apart = self.steps, self.tolerance.changes
        inside = np.flatnonzero((steps.right > low + apart) & (steps.left < high - apart))
        return float(steps.left[inside[len(inside) // 2]]) if len(inside) > 1 else None

    def _split_anywhere(self, node: Node, choice: IntArray, weight: FloatArray) -> list[Node]:
        """Split in the state of most weight that still has a choice; nothing is left where none has."""
        several = np.add.reduceat(node.active.astype(np.int64), self.problem.first[:-1]) > 1
        return self.split(node, int(np.where(several, weight, -1.0).argmax()), choice) if several.any() else []


def _most_taken(problem: FrontierProblem, visits: FloatArray) -> IntArray:
    """(S,) of every state the pair that is visited most."""
    best = [int(part.argmax()) for part in np.split(visits, problem.first[1:-1])]
    return problem.first[:-1] + np.array(best, dtype=np.int64)


def _refusal(
    problem: FrontierProblem,
    texts: tuple[str, ...],
    budget: float | None,
    given: FrontierProblem,
    proof: Proof,
    clock: Clock,
) -> str:
    """Why there is no plan: a guard that nobody keeps, the budget, or all of them together."""
    relaxation, every = Relaxation(problem), np.ones(problem.n_pairs, dtype=np.bool_)
    if relaxation.solve(every, np.inf, clock).status == "infeasible":
        return _binding(given, texts)
    if budget is not None and relaxation.solve(every, budget, clock).status == "infeasible":
        return f"{_joint_message(texts)} within {budget:g} expected changes"
    return _joint_message(texts) + UNFINISHED * bool(proof.open)


def _binding(problem: FrontierProblem, texts: tuple[str, ...]) -> str:
    """Names the first guard that no policy keeps, with the best value there is; all of them if only jointly."""
    for text, least, limit in zip(texts, _least(problem), problem.limits, strict=True):
        if least is not None and least > limit + GUARD_TOLERANCE * (1.0 + abs(limit)):
            best = _own(least, text)
            return f"no plan keeps {text!r}: the best that any allowed policy reaches is {best}. Hint: loosen it"
    return _joint_message(texts)


def best_reached(problem: FrontierProblem, texts: tuple[str, ...]) -> str:
    """The best value that any allowed policy reaches of what each guard limits, in words."""
    told = zip(texts, _least(problem), strict=True)
    return " and ".join(f"{_own(least, text)} for {text!r}" for text, least in told if least is not None)


def _least(problem: FrontierProblem) -> list[float | None]:
    """The least that any policy reaches of what each guard limits; None where the program has no answer."""
    flow, initial = problem.flow, problem.initial
    answers = [solve(Program.of(gains, flow, row_low=initial, row_high=initial)) for gains in problem.guards]
    return [answer.objective if answer.status == "optimal" else None for answer in answers]


def _own(least: float, text: str) -> str:
    """A value in the guard's own sign."""
    return f"{-least if '>' in text else least:.6g}"


def _joint_message(texts: tuple[str, ...]) -> str:
    if len(texts) == 1:
        return f"no plan keeps {texts[0]!r}. Hint: loosen it, or allow more actions"
    return f"no plan keeps {' and '.join(map(repr, texts))} together. Hint: loosen one, or allow more actions"
