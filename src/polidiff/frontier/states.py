r"""Plans that change at most K states: a search over sets of changes with a bound from visits.

With the advantages :math:`A` of the policy :math:`\pi_0` of a node, any policy of its set returns

.. math:: J(\pi) = J(\pi_0) + \sum_{s \text{ changed}} x_\pi(s)\, A(s, \pi(s))
          \le J(\pi_0) + \text{the } r \text{ largest } \bar x(s)\,\max_a A(s,a)^+

where r more states may change and :math:`\bar x` bounds the visits. The same identity for the reward "one per visit of
s" bounds :math:`\bar x` itself: r changes move visits by no more than their r largest effects. The best completion
without a limit on states is the other bound; the smaller one counts. Neighbours are priced exactly,
so the last change of a set never has to be tried.

Where only the return counts and every policy ends, the identity says more: a set that gains has a change with a
positive advantage, and so has what is left of it after that one. Only such changes are branched on, and the last three
of a set are tried in closed form (`kernels.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from polidiff.errors import InfeasibleError
from polidiff.frontier.guarded import UNFINISHED, best_reached
from polidiff.frontier.hull import Hull
from polidiff.frontier.large import hull_in_time
from polidiff.frontier.problem import EXIT, FrontierProblem, Widened, made_to_end, widen
from polidiff.frontier.solve import Effort, Solved, span_of
from polidiff.frontier.staircase import Steps, empty_archive
from polidiff.frontier.visits import (
    Neighbours,
    fundamental,
    max_visits,
    neighbours,
    optimal_values,
    pair_values,
    points_of,
    solved_values,
)
from polidiff.progress import Clock
from polidiff.records.arrays import BoolArray, FloatArray, IntArray
from polidiff.records.numbers import counted

BEAM = 24  # sets kept per size and price by the first, heuristic pass
CLOSED = 3  # changes left at which a set is closed
WORK = 300_000_000  # states squared of all nodes by default
SEARCHING = 0.8  # of the time left that goes to the search; the rest bounds what it leaves open
REACHING = 0.3  # of that, in which the most visits of every state are worked out
PRICES = 3  # prices of the hull at which sets are bounded, beside 0


@dataclass(frozen=True, eq=False)
class _Set:
    """A set of changes, and which pairs may still join it."""

    choice: IntArray  # (S,)
    changed: BoolArray  # (S,)
    offered: BoolArray  # (pairs,)
    left: int  # how many more states may change


class StateSearch:
    """Depth-first search over sets of changed states, for every price at once."""

    def __init__(self, wide: Widened, hull: Hull, most: int, budget: float | None, clock: Clock, nodes: int) -> None:
        self.problem, self.most, self.budget, self.limit = wide.problem, most, budget, nodes
        self.clock, self.whole = clock.share(SEARCHING), clock
        self.ceiling = float(hull.returns[-1])
        self.base = wide.number[np.maximum(wide.narrower.base, 0)]
        self.base = np.where(wide.narrower.base >= 0, self.base, self.problem.first[1:] - 1)
        self.loops = wide.problem is not wide.narrower
        reach = None if self.loops else max_visits(self.problem, self.clock.share(REACHING))
        self.reach = reach if reach is not None and np.isfinite(reach).all() else None
        self.prices = _some_prices(hull, budget)
        self.archive = empty_archive(hull.changes, hull.returns, wide.number[hull.choices])
        self.nodes = 0
        self.open_bound = -np.inf
        self.closing = not self.loops and self.prices == [0.0] and not len(self.problem.limits)

    def run(self) -> None:
        """Fill the archive; `open_bound` is finite only if the search was cut short."""
        changeable = (self.problem.action != EXIT) & (np.arange(self.problem.n_pairs) != self.base[self.problem.state])
        root = _Set(self.base, np.zeros(self.problem.n_states, dtype=np.bool_), changeable, self.most)
        self._beam(root)
        stack = [root]
        while stack:
            if self.nodes >= self.limit or self.clock.over():
                self.open_bound = max(self._most(node) for node in stack)
                self.whole.stopped |= self.clock.stopped
                return
            self.nodes += 1
            stack += self._children(stack.pop())

    def _ended(self, node: _Set) -> IntArray | None:
        return made_to_end(self.problem, node.choice, node.changed)

    def _beam(self, root: _Set) -> None:
        """The best sets of each size by each price, grown one change at a time."""
        layer = [root]
        for _ in range(self.most):
            grown: dict[bytes, tuple[FloatArray, _Set]] = {}
            for node in layer:
                if node is not root and self.clock.over():
                    return
                choice = self._ended(node)
                if choice is not None:
                    self._grow(node, choice, grown)
            if not grown:
                return
            values = np.array([value for value, _ in grown.values()])
            sets = [node for _, node in grown.values()]
            best = np.unique(np.argsort(-values, axis=0)[: BEAM // len(self.prices) + 1])
            layer = [sets[i] for i in best]

    def _grow(self, node: _Set, choice: IntArray, grown: dict[bytes, tuple[FloatArray, _Set]]) -> None:
        around = neighbours(self.problem, choice[None])
        self._keep(node, choice, around)
        usable = around.valid[0] & node.offered & ~node.changed[self.problem.state]
        pairs = np.flatnonzero(usable)
        value = around.returns[0, pairs, None] - np.array(self.prices) * around.changes[0, pairs, None]
        for pair in pairs[np.unique(np.argsort(-value, axis=0)[:BEAM])]:
            child = self._with(node, int(pair), node.offered)
            row = around.returns[0, pair] - np.array(self.prices) * around.changes[0, pair]
            grown.setdefault(child.choice.tobytes(), (row, child))

    def _with(self, node: _Set, pair: int, offered: BoolArray) -> _Set:
        choice, changed = node.choice.copy(), node.changed.copy()
        choice[self.problem.state[pair]] = pair
        changed[self.problem.state[pair]] = True
        return _Set(choice, changed, offered, node.left - 1)

    def _keep(self, node: _Set, choice: IntArray, around: Neighbours) -> None:
        """Add a set and its neighbours that are plans; a set that can take no more adds itself alone."""
        changes, returns = around.changes[0], around.returns[0]
        if around.own_valid[0]:
            self.archive = self.archive.with_points(around.own_changes, around.own_returns, choice[None])
        usable = around.valid[0] & ~node.changed[self.problem.state] & (node.left > 0)
        usable &= np.arange(self.problem.n_pairs) != self.base[self.problem.state]
        pairs = np.flatnonzero(usable)
        better = pairs[self.archive.improves(changes[pairs], returns[pairs])]
        choices = np.repeat(choice[None], len(better), axis=0)
        choices[np.arange(len(better)), self.problem.state[better]] = better
        self.archive = self.archive.with_points(changes[better], returns[better], choices)

    def _children(self, node: _Set) -> list[_Set]:
        """Sets with one more change that may still beat a step, the least promising first."""
        choice = self._ended(node)
        if choice is None:
            return []
        around = neighbours(self.problem, choice[None])
        self._keep(node, choice, around)
        if node.left < (1 if self.loops else 2):
            return []
        now, bounds, weights = self._bounds(node, choice)
        steps = Steps.of(self.archive, self.budget, ends=False)
        if not self._beats(steps, bounds[:, None]).any():
            return []
        if self.closing and node.left == CLOSED:
            self._close(node)
            return []
        offered = node.offered & ~node.changed[self.problem.state]
        pairs = np.flatnonzero(offered)
        order = pairs[np.argsort(-weights[:, pairs].max(axis=0), kind="stable")]
        alive = self._beats(steps, self._suffix_bounds(node, now, bounds, weights, order))
        alive &= (weights[0, order] > 0) | (not self.closing)
        children, rest = [], node.offered.copy()
        for pair, lives in zip(order, alive, strict=True):
            if lives:
                children.append(self._with(node, int(pair), rest.copy()))
            rest[pair] = False
        return children[::-1]

    def _close(self, node: _Set) -> None:
        """Add the best set of a node, which may take three more changes."""
        from polidiff.frontier.kernels import best_three

        problem, choice = self.problem, node.choice
        inverse = fundamental(problem, choice[None])[0]
        values, visits = inverse @ problem.reward[choice], problem.initial @ inverse
        effect = problem.dense @ inverse
        effect -= effect[choice[problem.state]]
        advantage = problem.reward + problem.dense @ values - values[problem.state]
        offered = node.offered & ~node.changed[problem.state]
        order = np.flatnonzero(offered & (advantage > 0))
        order = order[np.argsort(-(visits[problem.state] * advantage)[order], kind="stable")]
        floor = max(0.0, float(self.archive.returns.max(initial=-np.inf)) - float(visits @ problem.reward[choice]))
        found = best_three(effect, advantage, visits, order, offered, problem.state, floor)[1:]
        pairs = np.array([pair for pair in found if pair >= 0], dtype=np.int64)
        if len(pairs):
            best = choice.copy()
            best[problem.state[pairs]] = pairs
            changes, returns = points_of(problem, best[None])[:2]
            self.archive = self.archive.with_points(changes, returns, best[None])

    def _bounds(self, node: _Set, choice: IntArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """(prices,) what a node's policy is worth, and its sets at most; (prices, pairs) what each pair may add."""
        problem, count = self.problem, len(self.prices)
        priced = problem.reward - np.array(self.prices)[:, None] * problem.cost
        rows = np.repeat(choice[None], count, axis=0)
        active, free = (np.repeat(flags[None], count, axis=0) for flags in (self._active(node), ~node.changed))
        most = optimal_values(problem, priced, rows, active, free) @ problem.initial
        values = solved_values(problem, rows, priced)
        weights, now = np.full((count, problem.n_pairs), np.inf), values @ problem.initial
        if self.reach is None:
            return now, most, weights
        visits = self._visits(node, choice, fundamental(problem, choice[None])[0])
        gain = np.maximum(pair_values(problem, priced, values) - values[:, problem.state], 0.0)
        weights = np.where(node.offered & ~node.changed[problem.state], visits[problem.state] * gain, 0.0)
        states = np.maximum.reduceat(weights, problem.first[:-1], axis=1)
        added = -np.sort(-states, axis=1)[:, : node.left].sum(axis=1)
        return now, np.minimum(most, now + added), weights

    def _most(self, node: _Set) -> float:
        """The most that a set of a node returns; −∞ if none of them ends. Past the time, what any policy returns."""
        if self.whole.left() <= 0:
            return self.ceiling
        choice = self._ended(node)
        return -np.inf if choice is None else float(self._bounds(node, choice)[1][0])

    def _active(self, node: _Set) -> BoolArray:
        """Pairs that completions may use: those on offer, the base and exits, and what the set has changed."""
        numbers = np.arange(self.problem.n_pairs)
        return (
            node.offered
            | (numbers == self.base[self.problem.state])
            | (numbers == node.choice[self.problem.state])
            | (self.problem.action == EXIT)
        )

    def _visits(self, node: _Set, choice: IntArray, inverse: FloatArray) -> FloatArray:
        """(S,) the most visits of each state after `left` more changes."""
        problem = self.problem
        now = problem.initial @ inverse
        effect = problem.dense @ inverse
        effect -= effect[choice[problem.state]]
        effect[~node.offered | node.changed[problem.state]] = 0.0
        largest = np.maximum(np.maximum.reduceat(effect, problem.first[:-1], axis=0), 0.0)
        visits = np.asarray(self.reach)
        for _ in range(3):
            moved = np.partition(visits[:, None] * largest, -min(node.left, len(now)), axis=0)[-node.left :].sum(axis=0)
            visits = np.minimum(visits, now + moved)
        return np.asarray(visits)

    def _suffix_bounds(
        self, node: _Set, now: FloatArray, bounds: FloatArray, weights: FloatArray, order: IntArray
    ) -> FloatArray:
        """(prices, children) bound of each child: its own pair, and the best of those not yet excluded."""
        if self.reach is None:
            return np.repeat(bounds[:, None], len(order), axis=1)
        problem, result = self.problem, []
        more = min(node.left - 1, problem.n_states)
        for base, bound, weight in zip(now, bounds, weights, strict=True):
            table = np.zeros((len(order), problem.n_states))
            table[np.arange(len(order)), problem.state[order]] = weight[order]
            suffix = np.maximum.accumulate(table[::-1], axis=0)[::-1]
            suffix[np.arange(len(order)), problem.state[order]] = 0.0
            others = np.partition(suffix, -more, axis=1)[:, -more:].sum(axis=1)
            result.append(np.minimum(base + weight[order] + others, bound))
        return np.array(result)

    def _beats(self, steps: Steps, totals: FloatArray) -> BoolArray:
        """(children,) whether the bounds (prices, children) leave a step that may be beaten."""
        prices = np.array(self.prices)[:, None, None]
        with np.errstate(invalid="ignore"):
            bound = totals[:, :, None] + np.where(prices > 0, prices * steps.right, 0.0)
        return np.asarray((bound.min(axis=0) > steps.beat + steps.more).any(axis=1))


def _some_prices(hull: Hull, budget: float | None) -> list[float]:
    """0 and a few prices of the hull; with a budget, that of the edge it lies on."""
    if len(hull.changes) < 2:
        return [0.0]
    if budget is not None:
        inside = hull.prices[hull.changes[:-1] <= budget]
        return sorted({0.0, float(inside[-1])}) if budget < hull.changes[-1] else [0.0]
    spread = np.quantile(hull.prices, np.linspace(0, 1, PRICES))
    return sorted({0.0, *(float(price) for price in spread)})


def solve_states(
    problem: FrontierProblem,
    most: int,
    effort: Effort,
    clock: Clock,
    budget: float | None,
    texts: tuple[str, ...] = (),
    given: FrontierProblem | None = None,
) -> Solved:
    """Every non-dominated plan that changes at most `most` states, or the best one within a budget.

    The plan with the most return is proven first, which is far easier than the whole frontier.
    """
    hull = hull_in_time(problem, clock)
    wide = widen(problem, hull)
    limit = effort.most(problem.n_states, WORK)
    far = float(hull.changes[-1]) * 1e3 + 1e6
    search = StateSearch(wide, hull, most, far if budget is None else budget, clock, limit)
    search.run()
    top = search.open_bound
    if budget is None:
        whole = StateSearch(wide, hull, most, None, clock, limit)
        whole.archive = search.archive
        whole.run()
        search = whole
    found = search.archive.renumbered(wide.narrow(search.archive.choices))
    found = found if budget is None else found.within(budget)
    if not len(found):
        said = f"no plan that changes at most {counted(most, 'state')} keeps {' and '.join(map(repr, texts))}"
        said += UNFINISHED * bool(np.isfinite(search.open_bound))
        best = best_reached(given or problem, texts)
        raise InfeasibleError(f"{said}; with any number of changes the best is {best}. Hint: loosen it, or change more")
    returns, ceiling = found.returns, min(search.open_bound, max(float(found.returns[-1]), top))
    last, most_changes = (found.changes[-1], far) if budget is None else (budget, budget)
    asked, beyond = np.append(found.changes[:-1], last), np.append(found.changes[1:], most_changes)
    bounds = np.maximum(returns, np.minimum(hull.bound(asked), ceiling))
    between = np.minimum(hull.bound(beyond), ceiling) - returns  # what a plan that is not shown may return more
    return Solved(
        changes=found.changes,
        returns=returns,
        choices=found.choices,
        bounds=bounds,
        gap=float(between.max(initial=0.0)) / span_of(hull),
        hull=hull,
        nodes=search.nodes,
        stopped=bool(np.isfinite(search.open_bound)),
        span=span_of(hull),
        method="search over sets of states",
    )
