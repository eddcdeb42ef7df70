r"""What each change is worth, alone and together with the others.

Between the states that may be changed episodes follow the current policy. With :math:`f` the chances that each of them
is met first, :math:`A_T` those that it is met next after the decisions of a subset T of the changes, and :math:`g_T`
what is gained until then,

.. math:: J(T) = g_0 + f^\top (I - A_T)^{-1} g_T

so one factorisation prices every subset by a small system, whatever the number of states. A subset with which episodes
may never end is told from the graph, and has no worth.

A plan that is followed only in part makes each change with probability θ:

.. math:: P_\theta = (1 - \theta)\, P_{\text{current}} + \theta\, P_{\text{plan}}

Return need not rise with θ: a change that pays only together with another one can cost while the other is not made.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np

from polidiff.errors import ImproperPolicyError
from polidiff.evaluation.exact import DENSE_UP_TO, ExactEvaluator
from polidiff.explanation.words import rule_text
from polidiff.frontier.problem import FrontierProblem
from polidiff.frontier.setting import Setting
from polidiff.frontier.visits import fundamental, switched_visits
from polidiff.policies import one_hot
from polidiff.progress import Clock
from polidiff.records.arrays import BoolArray, FloatArray, IntArray
from polidiff.records.numbers import number
from polidiff.records.outcome import Interval
from polidiff.records.plan import AdoptionPoint, Ledger, LedgerEntry
from polidiff.records.rule import Condition, Rule, change_key
from polidiff.worlds.checks import all_end, leads_to, reachable_from

EXACT_UP_TO = 12
ORDERS = 400  # random orders behind a sampled Shapley value
FEWEST_ORDERS = 20  # where time is up
SHARES = (0.25, 0.5, 0.75, 1.0)
ROUNDING = 1e-3  # of what a change is worth: four digits of it are told
ALIKE, NOISE = 1e-9, 1e-12  # share of the largest gain, and of the return, that is rounding


Worth: TypeAlias = Callable[[tuple[int, ...]], float]  # return with a subset of changes; −∞ if it may never end
Curve: TypeAlias = tuple[tuple[AdoptionPoint, ...], tuple[str, ...]]  # points and warnings


@dataclass(frozen=True, eq=False)
class Between:
    """What an episode under the current policy meets next of some changed states, by the row of each decision."""

    current: IntArray  # (k,) the row of each state's current decision
    changed: tuple[tuple[int, int], ...]  # of each change: its state among the k, and its row
    first: FloatArray  # (k,) chance that a state is met first
    start: float  # return until then
    after: FloatArray  # (rows, k) chance that a state is met next
    gains: FloatArray  # (rows,) return until then
    links: BoolArray  # (rows, k) whether a state may be met next
    ends: BoolArray  # (rows,) whether the episode may end before that
    stays: BoolArray  # (rows,) whether it may go on for ever before that

    @cached_property
    def all_end(self) -> bool:
        """Whether episodes end with any of the changes made."""
        state = np.array([*range(len(self.current)), *(state for state, _ in self.changed)])
        return not self.stays.any() and all_end(self.links, state, self.ends, len(self.current))

    def value(self, subset: tuple[int, ...]) -> float:
        """Return with a subset of the changes; −∞ if it may never end."""
        rows = self.current.copy()
        for i in subset:
            state, row = self.changed[i]
            rows[state] = row
        met = np.ones(len(rows), dtype=np.bool_)
        if not self.all_end:
            links = self.links[rows]
            met = reachable_from(links, self.first > 0)
            if self.stays[rows[met]].any() or not reachable_from(links.T, self.ends[rows])[met].all():
                return -math.inf
        system = np.eye(int(met.sum())) - self.after[rows[met]][:, met]
        return self.start + float(self.first[met] @ np.linalg.solve(system, self.gains[rows[met]]))


def between(problem: FrontierProblem, pairs: IntArray) -> Between:
    """The current policy between the states that some pairs, at most one of each taken at a time, change."""
    states, number = np.unique(problem.state[pairs], return_inverse=True)
    passed = problem.base >= 0
    passed[states] = False
    moves, rewards = np.where(passed[:, None], problem.dense[problem.base], 0.0), problem.reward[problem.base]
    own = np.eye(problem.n_states, dtype=np.bool_)[states]
    met = np.column_stack([reachable_from(moves.T, state) for state in own])
    ends = reachable_from(moves.T, passed & problem.leaks[problem.base])
    never = ~(ends | met.any(axis=1))
    stays, inner = reachable_from(moves.T, never), np.flatnonzero(passed & ~never)
    next_met = np.column_stack([own.T, np.zeros(problem.n_states)])
    sides = np.column_stack([moves[inner][:, states], rewards[inner]])
    next_met[inner] = np.linalg.solve(np.eye(len(inner)) - moves[np.ix_(inner, inner)], sides)
    current = problem.base[states]
    rows = np.concatenate([current, pairs])
    after, links = problem.dense[rows] @ next_met, problem.links[rows]
    return Between(
        current=np.arange(len(states)),
        changed=tuple(zip(number.tolist(), range(len(states), len(rows)), strict=True)),
        first=problem.initial @ next_met[:, :-1],
        start=float(problem.initial @ next_met[:, -1]),
        after=after[:, :-1],
        gains=problem.reward[rows] + after[:, -1],
        links=np.asarray(links @ met.astype(np.float64) > 0),
        ends=problem.leaks[rows] | leads_to(links, ends),
        stays=(rows < 0) | leads_to(links, stays),
    )


@dataclass(frozen=True)
class Naming:
    """How changes are called."""

    states: tuple[str, ...]
    current: tuple[str, ...]
    proposed: tuple[str, ...]
    places: Mapping[str, Rule]  # rules that say better where a state is

    def change(self, i: int) -> str:
        """The name of one change."""
        swap = f"{self.current[i]} → {self.proposed[i]}"
        return f"{swap} where {self.place(i)}" if self.states[i] in self.places else f"{self.states[i]}: {swap}"

    def place(self, i: int) -> str:
        """Where a change is made."""
        return rule_text(self.places[self.states[i]]) if self.states[i] in self.places else self.states[i]

    def rule(self, i: int) -> Rule:
        """The place as conditions."""
        return self.places.get(self.states[i], Rule((Condition("state", 0, values=(self.states[i],)),)))

    def key(self, i: int) -> str:
        """What tells a change from others wherever it is named."""
        return change_key(self.rule(i), self.current[i], self.proposed[i])


def make_ledger(
    worth: Worth,
    players: IntArray,
    naming: Naming,
    *,
    level: float,
    rng: np.random.Generator,
    clock: Clock | None = None,
) -> Ledger:
    """The ledger of all changes behind `worth`; Shapley values and the order are over `players`, the plan's own."""
    own = tuple(int(i) for i in players)
    exact = len(own) <= EXACT_UP_TO
    shares = _shapley_exact(worth, own) if exact else _shapley_sampled(worth, own, level, rng, clock or Clock())
    tiny = rounding([worth(some) for some in ((), *((i,) for i in range(len(naming.states))), own)])
    entries = [_entry(worth, own, i, naming, shares.get(i), tiny) for i in range(len(naming.states))]
    order = _best_order(worth, own, tiny) if exact else _greedy_order(worth, own, tiny)
    running = tuple(_finite(worth(tuple(sorted(order[: n + 1])))) for n in range(len(order)))
    return Ledger(tuple(entries), tuple(naming.change(i) for i in order), running, exact)


def rounding(returns: Sequence[float]) -> float:
    """Differences below this are rounding, beside the largest one between the first of some returns and the others.

    >>> rounding([1e-9, 3e-9, -math.inf]) < 1e-17
    True
    """
    gains = [abs(value - returns[0]) for value in returns if math.isfinite(value)]
    return ALIKE * max(gains) + NOISE * abs(returns[0])


def _entry(
    worth: Worth, own: tuple[int, ...], i: int, naming: Naming, share: Interval | None, tiny: float
) -> LedgerEntry:
    nothing = worth(())
    alone = worth((i,)) - nothing
    without = tuple(j for j in own if naming.states[j] != naming.states[i])
    with_it = tuple(sorted((*without, i)))
    needs, conflicts = [], []
    for j in range(len(naming.states)):
        if j == i or naming.states[j] == naming.states[i]:
            continue
        pair, other = worth(tuple(sorted((i, j)))), worth((j,))
        if alone <= tiny and pair - other > tiny:
            needs.append(naming.change(j))
        if pair < max(alone + nothing, other) - tiny and _lessened(alone, other - nothing, pair - nothing, tiny):
            conflicts.append(naming.change(j))
    return LedgerEntry(
        change=naming.change(i),
        state=naming.place(i),
        current=naming.current[i],
        proposed=naming.proposed[i],
        alone=_finite(alone),
        removed=_finite(worth(with_it) - worth(without)),
        shapley=share if share is not None else Interval.exactly(0.0),
        needs=tuple(needs),
        conflicts=tuple(conflicts),
        key=naming.key(i),
        rule=naming.rule(i),
    )


def _lessened(one: float, other: float, both: float, tiny: float) -> bool:
    """Whether each of two changes is worth less beside the other, by more than the digits that are told hide."""
    if not (math.isfinite(one) and math.isfinite(other)):
        return False
    return one + other - both > max(tiny, ROUNDING * max(abs(one), abs(other)))


def _finite(worth: float) -> float | None:
    """The worth of what ends, None for what never does."""
    return worth if math.isfinite(worth) else None


def _shapley_exact(worth: Worth, own: tuple[int, ...]) -> dict[int, Interval]:
    r"""Mean marginal worth over all orders, :math:`\sum_T \frac{|T|!(n-|T|-1)!}{n!} [J(T \cup i) - J(T)]`."""
    count = len(own)
    floor = _floor(worth, own)
    shares = {}
    for i in own:
        rest = [j for j in own if j != i]
        total = 0.0
        for size in range(count):
            weight = math.factorial(size) * math.factorial(count - size - 1) / math.factorial(count)
            for subset in itertools.combinations(rest, size):
                more = worth(tuple(sorted((*subset, i))))
                total += weight * (max(more, floor) - max(worth(subset), floor))
        shares[i] = Interval.exactly(total)
    return shares


def _floor(worth: Worth, own: tuple[int, ...]) -> float:
    """The worst return of a subset that ends: what one that never ends counts for."""
    returns = [worth(subset) for size in range(len(own) + 1) for subset in itertools.combinations(own, size)]
    return min((value for value in returns if math.isfinite(value)), default=0.0)


def _shapley_sampled(
    worth: Worth, own: tuple[int, ...], level: float, rng: np.random.Generator, clock: Clock
) -> dict[int, Interval]:
    """Mean marginal worth over random orders with an interval; fewer orders where time is up."""
    from scipy.stats import norm

    rows = list[FloatArray]()
    place = {i: position for position, i in enumerate(own)}
    while len(rows) < FEWEST_ORDERS or (len(rows) < ORDERS and clock.left() > 0):
        row = np.zeros(len(own))
        taken: list[int] = []
        before = worth(())
        for i in rng.permutation(own):
            taken.append(int(i))
            after = max(worth(tuple(sorted(taken))), min(before, worth(())))
            row[place[int(i)]] = after - before
            before = after
        rows.append(row)
    marginal = np.array(rows)
    mean = marginal.mean(axis=0)
    half = norm.ppf(0.5 + level / 2) * marginal.std(axis=0, ddof=1) / math.sqrt(len(rows))
    return {i: Interval(float(m), float(m - h), float(m + h), level) for i, m, h in zip(own, mean, half, strict=True)}


def _best_order(worth: Worth, own: tuple[int, ...], tiny: float) -> list[int]:
    """The order with the largest sum of returns on the way, over all orders (Held and Karp).

    Orders in which episodes never end for a while come last; of orders that are equal but for rounding, the one that
    takes the first changes first.
    """
    best: dict[tuple[int, ...], tuple[int, float, tuple[int, ...]]] = {(): (0, 0.0, ())}
    for _ in own:
        longer: dict[tuple[int, ...], tuple[int, float, tuple[int, ...]]] = {}
        for subset, (sound, total, order) in best.items():
            for i in own:
                if i in subset:
                    continue
                bigger = tuple(sorted((*subset, i)))
                value = worth(bigger)
                ends = math.isfinite(value)
                made = (sound + ends, total + (value if ends else 0.0), (*order, i))
                known = longer.setdefault(bigger, made)
                tied = made[0] == known[0] and abs(made[1] - known[1]) <= tiny
                if made[2] < known[2] if tied else made > known:
                    longer[bigger] = made
        best = longer
    return list(best[tuple(sorted(own))][2]) if own else []


def _greedy_order(worth: Worth, own: tuple[int, ...], tiny: float) -> list[int]:
    """At every step the change that returns most with those made before, the first of those that return as much."""
    order = list[int]()
    while len(order) < len(own):
        rest = [i for i in own if i not in order]
        returns = [worth(tuple(sorted((*order, i)))) for i in rest]
        order.append(next(i for i, value in zip(rest, returns, strict=True) if value >= max(returns) - tiny))
    return order


class Adoption:
    """What plans return when they are followed only in part.

    Where the current policy ends from every state one inverse of it serves all shares, which then end as well; else,
    and on tables too large to invert, every share is solved for itself.
    """

    def __init__(self, setting: Setting) -> None:
        problem, world = setting.problem, setting.world
        self.setting, self.problem = setting, problem
        self.names = [outcome.name for outcome in world.told_outcomes]
        tables = [world.rewards, *(world.outcome_table(outcome) for outcome in world.told_outcomes)]
        self.tables = np.stack(tables, axis=2)
        self.dense = problem.n_states <= DENSE_UP_TO and bool((problem.base >= 0).all()) and problem.ends(problem.base)
        if self.dense:
            self.weights = self.tables[problem.names[problem.state], problem.action].T
            self.inverse = fundamental(problem, problem.base[None])[0]
            self.values = self.weights[:, problem.base] @ self.inverse.T

    def curve(self, actions: IntArray) -> Curve:
        """Return and outcomes of a plan (S,) at each share, and warnings where less than all is worse than nothing."""
        problem, points, warnings = self.problem, [], []
        changed = (actions != self.setting.base)[problem.names[problem.state]]
        made = np.flatnonzero(changed & (problem.action == actions[problem.names[problem.state]]))
        for share in (0.0, *SHARES):
            pairs = made if share else made[:0]
            totals = self._totals(pairs, share) if self.dense else self._solved_totals(pairs, share)
            if totals is None:
                warnings.append(f"followed with probability {share:g}, the plan may never end")
            else:
                now, *others = (float(total) for total in totals)
                points.append(AdoptionPoint(share, now, dict(zip(self.names, others, strict=True))))
        return tuple(points), (*warnings, *_loss_on_the_way(points))

    def _totals(self, pairs: IntArray, share: float) -> FloatArray:
        """(m,) return and outcomes when each pair is taken with a probability where its state is met."""
        problem, states = self.problem, self.problem.state[pairs]
        old = problem.base[states]
        step = share * (problem.dense[pairs] - problem.dense[old])
        there, _ = switched_visits(self.inverse, problem.initial @ self.inverse, states, step)
        gains = share * (self.weights[:, pairs] - self.weights[:, old]) + self.values @ step.T
        return np.asarray(self.values @ problem.initial + gains @ there)

    def _solved_totals(self, pairs: IntArray, share: float) -> FloatArray | None:
        """As `_totals`, by a full solve; None where episodes may never end."""
        world, where = self.setting.world, self.problem.names[self.problem.state[pairs]]
        table = one_hot(self.setting.base, world.n_actions)
        table[where] *= 1.0 - share
        table[where, self.problem.action[pairs]] += share
        try:
            return ExactEvaluator(world, table).totals(self.tables)
        except ImproperPolicyError:
            return None


def _loss_on_the_way(points: list[AdoptionPoint]) -> list[str]:
    now = points[0].expected_return
    tiny = rounding([point.expected_return for point in points])
    worse = [p for p in points[1:] if p.expected_return < now - tiny]
    if not worse:
        return []
    low = min(worse, key=lambda p: p.expected_return)
    return [
        f"partial adoption is worse than today: followed with probability {low.share:g} the plan returns "
        f"{number(low.expected_return, 6)}, the current policy {number(now, 6)}"
    ]
