r"""What each change is worth, alone and together with the others.

With the changes :math:`K` of a plan, :math:`x` the visits and :math:`N` the expected visits under the current policy,
:math:`D` the change of the rows of :math:`P` and :math:`\delta` the advantages, the return with a subset T of them is

.. math:: J(T) = J(\emptyset) + x_T^\top\,(I - D_T N_{\cdot T})^{-1}\, \delta_T

so one factorisation of the current policy prices every subset by a small system, whatever the number of states.

A plan that is followed only in part makes each change with probability θ:

.. math:: P_\theta = (1 - \theta)\, P_{\text{current}} + \theta\, P_{\text{plan}}

Return need not rise with θ: a change that pays only together with another one can cost while the other is not made.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field

import numpy as np

from polidiff.errors import ImproperPolicyError
from polidiff.evaluation.exact import ExactEvaluator
from polidiff.frontier.plans import told_outcomes
from polidiff.frontier.problem import FrontierProblem
from polidiff.frontier.setting import Setting
from polidiff.frontier.visits import fundamental
from polidiff.policies import one_hot
from polidiff.records.arrays import FloatArray, IntArray
from polidiff.records.interval import Interval
from polidiff.records.plan import AdoptionPoint, Ledger, LedgerEntry

EXACT_UP_TO = 12
ORDERS = 400  # random orders behind a sampled Shapley value
SHARES = (0.25, 0.5, 0.75, 1.0)


@dataclass(eq=False)
class Worth:
    """Return of the current policy with any subset of some changes."""

    visits: FloatArray  # (k,)
    again: FloatArray  # (k, k) expected later visits of each changed state, as the change alters them
    gains: FloatArray  # (k,)
    start: float  # return without changes
    _known: dict[tuple[int, ...], float] = field(default_factory=dict)

    def of(self, subset: tuple[int, ...]) -> float:
        """Return with a subset; −∞ if it never ends."""
        if subset not in self._known:
            index = list(subset)
            system = np.eye(len(index)) - self.again[np.ix_(index, index)]
            ends = not index or abs(np.linalg.det(system)) > 1e-12
            gain = float(self.visits[index] @ np.linalg.solve(system, self.gains[index])) if ends else -math.inf
            self._known[subset] = self.start + gain
        return self._known[subset]


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
    )


@dataclass(frozen=True)
class Naming:
    """How changes are called."""

    states: tuple[str, ...]
    current: tuple[str, ...]
    proposed: tuple[str, ...]

    def change(self, i: int) -> str:
        """The name of one change."""
        return f"{self.states[i]}: {self.current[i]} → {self.proposed[i]}"


def make_ledger(worth: Worth, players: IntArray, naming: Naming, *, level: float, rng: np.random.Generator) -> Ledger:
    """The ledger of all changes behind `worth`; Shapley values and the order are over `players`, the plan's own."""
    own = tuple(int(i) for i in players)
    exact = len(own) <= EXACT_UP_TO
    shares = _shapley_exact(worth, own) if exact else _shapley_sampled(worth, own, level, rng)
    entries = [_entry(worth, own, i, naming, shares.get(i)) for i in range(len(naming.states))]
    order = _best_order(worth, own) if exact else _greedy_order(worth, own)
    running = tuple(worth.of(tuple(sorted(order[: n + 1]))) for n in range(len(order)))
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
        if pair < max(alone + nothing, other) - tiny:
            conflicts.append(naming.change(j))
    return LedgerEntry(
        change=naming.change(i),
        state=naming.states[i],
        current=naming.current[i],
        proposed=naming.proposed[i],
        alone=alone,
        removed=worth.of(with_it) - worth.of(without),
        shapley=share if share is not None else Interval.exactly(0.0),
        needs=tuple(needs),
        conflicts=tuple(conflicts),
    )


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


def _shapley_sampled(worth: Worth, own: tuple[int, ...], level: float, rng: np.random.Generator) -> dict[int, Interval]:
    from scipy.stats import norm

    marginal = np.zeros((ORDERS, len(own)))
    place = {i: position for position, i in enumerate(own)}
    for row in marginal:
        taken: list[int] = []
        before = worth.start
        for i in rng.permutation(own):
            taken.append(int(i))
            after = max(worth.of(tuple(sorted(taken))), min(before, worth.start))
            row[place[int(i)]] = after - before
            before = after
    mean = marginal.mean(axis=0)
    half = norm.ppf(0.5 + level / 2) * marginal.std(axis=0, ddof=1) / math.sqrt(ORDERS)
    return {i: Interval(float(m), float(m - h), float(m + h), level) for i, m, h in zip(own, mean, half, strict=True)}


def _best_order(worth: Worth, own: tuple[int, ...]) -> list[int]:
    """The order with the largest sum of returns on the way, over all orders (Held and Karp)."""
    best: dict[tuple[int, ...], tuple[float, tuple[int, ...]]] = {(): (0.0, ())}
    for _ in own:
        longer: dict[tuple[int, ...], tuple[float, tuple[int, ...]]] = {}
        for subset, (total, order) in best.items():
            for i in own:
                if i in subset:
                    continue
                bigger = tuple(sorted((*subset, i)))
                reached = total + worth.of(bigger)
                if bigger not in longer or reached > longer[bigger][0]:
                    longer[bigger] = (reached, (*order, i))
        best = longer
    return list(best[tuple(sorted(own))][1]) if own else []


def _greedy_order(worth: Worth, own: tuple[int, ...]) -> list[int]:
    """At every step the change that returns most with those made before."""
    order: list[int] = []
    while len(order) < len(own):
        rest = [i for i in own if i not in order]
        order.append(max(rest, key=lambda i: worth.of(tuple(sorted((*order, i))))))
    return order


def adoption_curve(setting: Setting, actions: IntArray) -> tuple[tuple[AdoptionPoint, ...], tuple[str, ...]]:
    """Return and outcomes at each share, and warnings where less than all is worse than nothing."""
    world = setting.world
    gains = {outcome.name: world.outcome_table(outcome) for outcome in told_outcomes(setting)}
    today = one_hot(setting.base, world.n_actions)
    plan = one_hot(actions, world.n_actions)
    points, warnings = [], []
    for share in (0.0, *SHARES):
        table = (1.0 - share) * today + share * plan
        try:
            taken = ExactEvaluator(world, table).visits()[:, None] * table
        except ImproperPolicyError:
            warnings.append(f"followed with probability {share:g}, the plan may never end")
            continue
        points.append(
            AdoptionPoint(
                share,
                float((taken * world.rewards).sum()),
                {name: float((taken * gain).sum()) for name, gain in gains.items()},
            )
        )
    now = points[0].expected_return
    worse = [p for p in points[1:] if p.expected_return < now - 1e-9 * (1.0 + abs(now))]
    if worse:
        low = min(worse, key=lambda p: p.expected_return)
        warnings.append(
            f"partial adoption is worse than today: followed with probability {low.share:g} the plan returns "
            f"{low.expected_return:.6g}, the current policy {now:.6g}"
        )
    return tuple(points), tuple(warnings)
