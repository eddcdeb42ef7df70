r"""What each change is worth, alone and together with the others.

With the changes :math:`K` of a plan, :math:`x` the visits and :math:`N` the expected visits under the current policy,
:math:`D` the change of the rows of :math:`P` and :math:`\delta` the advantages, the return with a subset T of them is

.. math:: J(T) = J(\emptyset) + x_T^\top\,(I - D_T N_{\cdot T})^{-1}\, \delta_T

so one factorisation of the current policy prices every subset by a small system, whatever the number of states. A
subset with which episodes may never end is told from the graph (`absorption.py`), and has no worth.

A plan that is followed only in part makes each change with probability θ:

.. math:: P_\theta = (1 - \theta)\, P_{\text{current}} + \theta\, P_{\text{plan}}

Return need not rise with θ: a change that pays only together with another one can cost while the other is not made.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from polidiff.evaluation.exact import DENSE_UP_TO, ExactEvaluator
from polidiff.explanation.words import rule_text
from polidiff.frontier.problem import FrontierProblem
from polidiff.frontier.setting import Setting, told_outcomes
from polidiff.frontier.visits import fundamental, switched_visits
from polidiff.optimize import Clock
from polidiff.policies import one_hot
from polidiff.records.arrays import FloatArray, IntArray
from polidiff.records.numbers import number
from polidiff.records.outcome import Interval
from polidiff.records.plan import AdoptionPoint, Ledger, LedgerEntry
from polidiff.records.rule import Condition, Rule, change_key
from polidiff.worlds.checks import all_end, leads_to

EXACT_UP_TO = 12
ORDERS = 400  # random orders behind a sampled Shapley value
FEWEST_ORDERS = 20  # where time is up
SHARES = (0.25, 0.5, 0.75, 1.0)
ROUNDING = 1e-3  # of what a change is worth: four digits of it are told


Curve: TypeAlias = tuple[tuple[AdoptionPoint, ...], tuple[str, ...]]  # points and warnings


@dataclass(eq=False)
class Worth:
    """Return of the current policy with any subset of some changes."""

    visits: FloatArray  # (k,)
    again: FloatArray  # (k, k) expected later visits of each changed state, as the change alters them
    gains: FloatArray  # (k,)
    start: float  # return without changes
    meetings: Meetings | None = None  # which subsets end; None where all do
    _known: dict[tuple[int, ...], float] = field(default_factory=dict)

    def of(self, subset: tuple[int, ...]) -> float:
        """Return with a subset; −∞ if it may never end."""
        if subset not in self._known:
            index = list(subset) if self.meetings is None else self.meetings.reached(subset)
            self._known[subset] = -math.inf if index is None else self._return(index)
        return self._known[subset]

    def _return(self, index: list[int]) -> float:
        system = np.eye(len(index)) - self.again[np.ix_(index, index)]
        return self.start + float(self.visits[index] @ np.linalg.solve(system, self.gains[index]))


@dataclass(frozen=True, eq=False)
class Meetings:
    """Which changed states follow on which, with nothing but unchanged states between them; sets are bits."""

    first: int  # met from the starts
    place: tuple[tuple[int, int], ...]  # of each change: its state, and which of the state's decisions it is
    after: tuple[tuple[int, ...], ...]  # of each state: met next, after its current decision (the first) and each other
    ends: tuple[tuple[bool, ...], ...]  # whether the episode may end before another of these states is met

    def reached(self, subset: tuple[int, ...]) -> list[int] | None:
        """Those of a subset that are met at all, None if episodes may never end."""
        made = dict(self.place[i] for i in subset)
        met, new = 0, self.first
        while new:
            met |= new
            new = functools.reduce(operator.or_, (self.after[s][made.get(s, 0)] for s in _members(new)), 0) & ~met
        ending, more = -1, 0
        while more != ending:
            ending, more = more, 0
            for s in _members(met):
                more |= (self.ends[s][made.get(s, 0)] or self.after[s][made.get(s, 0)] & ending != 0) << s
        return [i for i in subset if met >> self.place[i][0] & 1] if ending == met else None


def _members(bits: int) -> list[int]:
    return [s for s in range(bits.bit_length()) if bits >> s & 1]


def meetings_of(problem: FrontierProblem, base: IntArray, pairs: IntArray) -> Meetings:
    """What is met after what under the current policy, which ends from everywhere, with some changes to it."""
    states, number = np.unique(problem.state[pairs], return_inverse=True)
    changed = np.isin(np.arange(problem.n_states), states)
    own = np.eye(problem.n_states, dtype=np.bool_)[:, states]
    moves, leaks = problem.links[base], problem.leaks[base]
    met, ends = own, leaks & ~changed
    for _ in range(problem.n_states):
        met = np.where(changed[:, None], own, leads_to(moves, met))
        ends = ~changed & (leaks | leads_to(moves, ends))
    rows = [[int(base[s]), *(int(p) for p in pairs[problem.state[pairs] == s])] for s in states]
    return Meetings(
        _bits(problem.initial @ met),
        tuple((int(s), rows[s].index(int(pair))) for s, pair in zip(number, pairs, strict=True)),
        tuple(tuple(_bits(problem.links[row] @ met.astype(np.float64)) for row in own_rows) for own_rows in rows),
        tuple(tuple(bool(problem.leaks[row] | leads_to(problem.links[row], ends)[0]) for row in r) for r in rows),
    )


def _bits(weights: FloatArray) -> int:
    return sum(1 << int(i) for i in np.flatnonzero(np.ravel(weights) > 0))


def worth_of(problem: FrontierProblem, pairs: IntArray) -> Worth:
    """Prices subsets of changes, each given by its pair, one per state."""
    base = problem.ending_choice(problem.base)
    inverse = fundamental(problem, base[None])[0]
    states = problem.state[pairs]
    values = inverse @ problem.reward[base]
    step = problem.dense[pairs] - problem.dense[base[states]]
    return Worth(
        visits=problem.initial @ inverse[:, states],
        again=step @ inverse[:, states],
        gains=problem.reward[pairs] - problem.reward[base[states]] + step @ values,
        start=float(problem.initial @ values),
        meetings=None if _all_end(problem, base, pairs) else meetings_of(problem, base, pairs),
    )


def _all_end(problem: FrontierProblem, base: IntArray, pairs: IntArray) -> bool:
    """Whether the current policy ends with any of the changes made."""
    rows = np.concatenate([base, pairs])
    return problem.always_ends or all_end(problem.links[rows], problem.state[rows], problem.leaks[rows], len(base))


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
    entries = [_entry(worth, own, i, naming, shares.get(i)) for i in range(len(naming.states))]
    order = _best_order(worth, own) if exact else _greedy_order(worth, own)
    running = tuple(_finite(worth.of(tuple(sorted(order[: n + 1])))) for n in range(len(order)))
    return Ledger(tuple(entries), tuple(naming.change(i) for i in order), running, exact)


def _entry(worth: Worth, own: tuple[int, ...], i: int, naming: Naming, share: Interval | None) -> LedgerEntry:
    nothing = worth.start
    tiny = 1e-9 * (1.0 + abs(nothing))
    alone = worth.of((i,)) - nothing
    without = tuple(j for j in own if naming.states[j] != naming.states[i])
    with_it = tuple(sorted((*without, i)))
    needs, conflicts = [], []
    for j in range(len(naming.states)):
        if j == i or naming.states[j] == naming.states[i]:
            continue
        pair, other = worth.of(tuple(sorted((i, j)))), worth.of((j,))
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
        removed=_finite(worth.of(with_it) - worth.of(without)),
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
                more = worth.of(tuple(sorted((*subset, i))))
                total += weight * (max(more, floor) - max(worth.of(subset), floor))
        shares[i] = Interval.exactly(total)
    return shares


def _floor(worth: Worth, own: tuple[int, ...]) -> float:
    """The worst return of a subset that ends: what one that never ends counts for."""
    returns = [worth.of(subset) for size in range(len(own) + 1) for subset in itertools.combinations(own, size)]
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
        before = worth.start
        for i in rng.permutation(own):
            taken.append(int(i))
            after = max(worth.of(tuple(sorted(taken))), min(before, worth.start))
            row[place[int(i)]] = after - before
            before = after
        rows.append(row)
    marginal = np.array(rows)
    mean = marginal.mean(axis=0)
    half = norm.ppf(0.5 + level / 2) * marginal.std(axis=0, ddof=1) / math.sqrt(len(rows))
    return {i: Interval(float(m), float(m - h), float(m + h), level) for i, m, h in zip(own, mean, half, strict=True)}


def _best_order(worth: Worth, own: tuple[int, ...]) -> list[int]:
    """The order with the largest sum of returns on the way, over all orders (Held and Karp).

    Orders in which episodes never end for a while come last; of orders that are equal but for rounding, the one that
    takes the first changes first.
    """
    tiny = 1e-9 * (1.0 + abs(worth.start))
    best: dict[tuple[int, ...], tuple[int, float, tuple[int, ...]]] = {(): (0, 0.0, ())}
    for _ in own:
        longer: dict[tuple[int, ...], tuple[int, float, tuple[int, ...]]] = {}
        for subset, (sound, total, order) in best.items():
            for i in own:
                if i in subset:
                    continue
                bigger = tuple(sorted((*subset, i)))
                value = worth.of(bigger)
                ends = math.isfinite(value)
                made = (sound + ends, total + (value if ends else 0.0), (*order, i))
                known = longer.setdefault(bigger, made)
                tied = made[0] == known[0] and abs(made[1] - known[1]) <= tiny
                if made[2] < known[2] if tied else made > known:
                    longer[bigger] = made
        best = longer
    return list(best[tuple(sorted(own))][2]) if own else []


def _greedy_order(worth: Worth, own: tuple[int, ...]) -> list[int]:
    """At every step the change that returns most with those made before, the first of those that return as much."""
    order, tiny = list[int](), 1e-9 * (1.0 + abs(worth.start))
    while len(order) < len(own):
        rest = [i for i in own if i not in order]
        returns = [worth.of(tuple(sorted((*order, i)))) for i in rest]
        order.append(next(i for i, value in zip(rest, returns, strict=True) if value >= max(returns) - tiny))
    return order


class Adoption:
    """What plans return when they are followed only in part; one inverse of the current policy serves all."""

    def __init__(self, setting: Setting) -> None:
        problem, world = setting.problem, setting.world
        self.setting, self.problem = setting, problem
        self.base = problem.ending_choice(problem.base)
        self.names = [outcome.name for outcome in told_outcomes(setting)]
        tables = [world.rewards, *(world.outcome_table(outcome) for outcome in told_outcomes(setting))]
        self.tables = np.stack(tables)
        self.weights = self.tables[:, problem.names[problem.state], problem.action]
        if problem.n_states <= DENSE_UP_TO:
            self.inverse = fundamental(problem, self.base[None])[0]
            self.values = self.weights[:, self.base] @ self.inverse.T

    def curve(self, actions: IntArray) -> Curve:
        """Return and outcomes of a plan (S,) at each share, and warnings where less than all is worse than nothing."""
        problem, points, warnings = self.problem, [], []
        made = problem.action == actions[problem.names[problem.state]]
        pairs = np.flatnonzero(made & (np.arange(problem.n_pairs) != self.base[problem.state]))
        for share in (0.0, *SHARES):
            if 0 < share < 1 and (problem.base[problem.state[pairs]] < 0).any():
                warnings.append(f"followed with probability {share:g}, the plan may never end")
            else:
                now, *others = (float(total) for total in self._totals(pairs, share))
                points.append(AdoptionPoint(share, now, dict(zip(self.names, others, strict=True))))
        return tuple(points), (*warnings, *_loss_on_the_way(points))

    def _totals(self, pairs: IntArray, share: float) -> FloatArray:
        """(m,) return and outcomes when each pair is taken with a probability where its state is met."""
        problem, states = self.problem, self.problem.state[pairs]
        if problem.n_states > DENSE_UP_TO:
            return self._solved_totals(pairs, share)
        old = self.base[states]
        step = share * (problem.dense[pairs] - problem.dense[old])
        there, _ = switched_visits(self.inverse, problem.initial @ self.inverse, states, step)
        gains = share * (self.weights[:, pairs] - self.weights[:, old]) + self.values @ step.T
        return np.asarray(self.values @ problem.initial + gains @ there)

    def _solved_totals(self, pairs: IntArray, share: float) -> FloatArray:
        """As `_totals`, on tables too large to invert."""
        world, where = self.setting.world, self.problem.names[self.problem.state[pairs]]
        table = one_hot(self.setting.base, world.n_actions)
        table[where] *= 1.0 - share
        table[where, self.problem.action[pairs]] += share
        taken = ExactEvaluator(world, table).visits()[:, None] * table
        return np.asarray((self.tables * taken).sum(axis=(1, 2)))


def _loss_on_the_way(points: list[AdoptionPoint]) -> list[str]:
    now = points[0].expected_return
    worse = [p for p in points[1:] if p.expected_return < now - 1e-9 * (1.0 + abs(now))]
    if not worse:
        return []
    low = min(worse, key=lambda p: p.expected_return)
    return [
        f"partial adoption is worse than today: followed with probability {low.share:g} the plan returns "
        f"{number(low.expected_return, 6)}, the current policy {number(now, 6)}"
    ]
