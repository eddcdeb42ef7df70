r"""Reasons that were never recorded: up to which strength a verdict holds.

Marginal sensitivity model (Tan 2006): among cases alike in the record, unrecorded reasons change the odds of the logged
action by at most Γ. With :math:`e` the logged share of an action in a state, :math:`\tau = 1/(1+\Gamma)` and
:math:`Y = g + V(s')`, the least that the action can be worth there is (Dorn and Guo 2023; in each state of an episode,
the robust Bellman step of Kallus and Zhou 2020)

.. math:: \alpha\, E[Y \mid s, a] + (1 - \alpha)\, \mathrm{CVaR}_\tau[Y \mid s, a], \qquad \alpha = e + (1 - e)/\Gamma,

where CVaR is the mean of the worst share :math:`\tau`. "Every decision" may be confounded, or "one decision" of an
episode, the worst (Namkoong et al. 2020). Where a policy leaves the decision to whoever wrote the log nothing is lost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
from scipy import sparse

from polidiff.evaluation.linear import solver
from polidiff.records.arrays import BoolArray, FloatArray, IntArray
from polidiff.worlds.checks import reachable_from
from polidiff.worlds.log_rows import LoggedRows
from polidiff.worlds.shards.transition_counts import CUT

Kind = Literal["every", "one"]
GRID = (1.0, 1.02, 1.05, 1.1, 1.2, 1.35, 1.6, 2.0, 2.7, 4.0, 6.0, 10.0)
PIECES = 8  # parts of equal size in which the outcomes of one move are kept
ROUNDS = 20
STEPS = 60  # by which the plain model's solution leads to the worst one's; beyond, that is solved by itself
SETTLED = 1e-6


@dataclass(frozen=True, eq=False)
class Draws:
    """What followed the decisions of a log, for one outcome; a pair is state × actions + action."""

    n_states: int
    n_actions: int
    pair: IntArray  # (m,) rising
    to: IntArray  # (m,) n_states at the end
    gain: FloatArray  # (m,)
    chance: FloatArray  # (m,) within the pair
    visits: FloatArray  # (S, A)
    discount: float = 1.0

    @property
    def shares(self) -> FloatArray:
        """(S, A) logged share of each action."""
        return np.asarray(self.visits / np.maximum(self.visits.sum(axis=1, keepdims=True), 1.0))

    def negated(self) -> Draws:
        """With the outcome turned round: an upper bound is the lower one of this."""
        return replace(self, gain=-self.gain)


@dataclass(frozen=True, eq=False)
class Acting:
    """A policy over the states of a log."""

    table: FloatArray  # (S, A)
    kept: BoolArray  # (S,) where the decision is left to whoever wrote the log

    @property
    def is_log(self) -> bool:
        """Whether it is whoever wrote the log, everywhere."""
        return bool(self.kept.all())


def draws_of(rows: LoggedRows, n_states: int, n_actions: int, outcome: int, discount: float = 1.0) -> Draws:
    """The draws of a log with numbered states; a row whose successor is unknown counts as one that went on."""
    pair = rows.states.astype(np.int64) * n_actions + rows.actions
    size = n_states * n_actions
    to = np.where(rows.follow >= 0, np.append(rows.states, 0)[rows.follow], n_states)
    cut = rows.follow == CUT
    lost, went_on = (np.bincount(pair, part, size) for part in (cut, rows.follow >= 0))
    weight = np.where(rows.follow >= 0, 1 + (lost / np.maximum(went_on, 1))[pair], 1.0)[~cut]
    pair, to, gain = pair[~cut], to[~cut].astype(np.int64), rows.gains[~cut, outcome]
    order = np.lexsort((gain, to, pair))
    pair, to, gain, weight = pair[order], to[order], gain[order], weight[order]
    piece = _pieces(pair * (n_states + 1) + to, gain)
    last = np.flatnonzero(np.append(np.diff(piece) > 0, True)) if len(piece) else piece
    mass = np.bincount(piece, weight)
    visits = np.bincount(pair, weight, size).astype(np.float64)
    chance = mass / visits[pair[last]]
    mean = np.bincount(piece, weight * gain) / mass
    return Draws(n_states, n_actions, pair[last], to[last], mean, chance, visits.reshape(n_states, -1), discount)


def _pieces(move: IntArray, gain: FloatArray) -> IntArray:
    """(n,) number of the piece of each row, rows sorted by move and gain; few gains of a move are kept as they are."""
    index = np.arange(len(move))
    opens = np.append(True, move[1:] != move[:-1])[: len(move)]
    runs = opens | np.append(True, gain[1:] != gain[:-1])[: len(move)]
    number = np.cumsum(opens) - 1
    begin = np.flatnonzero(opens)[number]
    size = np.bincount(number)[number]
    many = np.bincount(number, runs)[number] > PIECES
    part = PIECES * (np.maximum.accumulate(np.where(runs, index, 0)) - begin) // size
    changed = np.append(True, part[1:] != part[:-1])[: len(move)]
    return np.asarray(np.cumsum(opens | np.where(many, changed, runs)) - 1)


class LowerBounds:
    """The least a policy can be worth from every state; what nobody has tried is worth `end`."""

    def __init__(self, draws: Draws, acting: Acting, end: float) -> None:
        self.draws, self.acting, self.end = draws, acting, end
        self.table = np.where(acting.kept[:, None], draws.shares, acting.table)
        met = draws.visits.sum(axis=1) > 0
        self.unknown = np.where(met, (self.table * (draws.visits == 0)).sum(axis=1), 1.0)
        self._state, self._inside = draws.pair // draws.n_actions, draws.to < draws.n_states
        if draws.discount == 1.0:
            self._leave_out_loops()
        self.mass = self.table.ravel()[draws.pair]  # (m,) chance of the action that each draw belongs to
        self.solve = solver(self._moves(self.mass * draws.chance), draws.discount)
        self.plain = self.solve(self._gains(self.mass * draws.chance), False)

    def _leave_out_loops(self) -> None:
        """States that lead neither to an end nor to something unknown are unknown themselves."""
        exits = self.unknown > 0
        mass = self.table.ravel()[self.draws.pair] * self.draws.chance
        exits[self._state[~self._inside & (mass > 0)]] = True
        lost = ~reachable_from(sparse.csr_array(self._moves(mass).T), exits)
        self.table = np.where(lost[:, None], 0.0, self.table)
        self.unknown = np.where(lost, 1.0, self.unknown)

    def worth(self, values: FloatArray) -> FloatArray:
        """(m,) of each draw."""
        return np.asarray(self.draws.gain + self.draws.discount * np.append(values, 0.0)[self.draws.to])

    def every(self, gamma: float) -> tuple[FloatArray, FloatArray]:
        """(S,) values if every decision is confounded, and (m,) what one more draw adds to its pair's worth."""
        values, influence = self.plain, self.worth(self.plain)
        for _ in range(ROUNDS if gamma > 1.0 and not self.acting.is_log else 0):
            weights, influence = _worst(self.draws, self.acting, gamma, self.worth(values))
            new = self._settled(self.mass * weights, values)
            change, values = float(np.abs(new - values).max(initial=0.0)), new
            if change <= SETTLED * (1 + float(np.abs(values).max(initial=0.0))):
                break
        return values, influence

    def once(self, gamma: float) -> FloatArray:
        """(S,) values if one decision of an episode is confounded, the worst."""
        if gamma == 1.0 or self.acting.is_log:
            return self.plain
        draws, size = self.draws, self.draws.visits.size
        worth = self.worth(self.plain)
        here = np.bincount(draws.pair, _worst(draws, self.acting, gamma, worth)[0] * worth, size).astype(np.float64)
        values = (self.table * np.minimum(here, self._later(self.plain)).reshape(self.table.shape)).sum(axis=1)
        stops = here < self._later(values)
        for _ in range(ROUNDS):
            at_once = (self.table * np.where(stops, here, 0.0).reshape(self.table.shape)).sum(axis=1)
            mass = np.where(stops[draws.pair], 0.0, self.mass * draws.chance)
            values = solver(self._moves(mass), draws.discount)(self._gains(mass) + at_once, False)
            now = here < self._later(values) - SETTLED * (1 + np.abs(here))
            if (now == stops).all():
                break
            stops = now
        return values

    def _later(self, values: FloatArray) -> FloatArray:
        """(S * A,) worth of each pair if no reason touches it."""
        mean = np.bincount(self.draws.pair, self.draws.chance * self.worth(values), self.draws.visits.size)
        return np.asarray(mean, dtype=np.float64)

    def _settled(self, mass: FloatArray, values: FloatArray) -> FloatArray:
        """(S,) values when draws come with these chances: steps of the plain model's solution, or one of its own."""
        gains = self.unknown * self.end
        scale = 1 + float(np.abs(values).max(initial=0.0))
        for _ in range(STEPS):
            left = gains + np.bincount(self._state, mass * self.worth(values), len(gains)) - values
            if float(np.abs(left).max(initial=0.0)) <= SETTLED * scale:
                return values
            values = values + self.solve(left, False)
        return solver(self._moves(mass), self.draws.discount)(self._gains(mass), False)

    def _gains(self, mass: FloatArray) -> FloatArray:
        paid = np.bincount(self._state, mass * self.draws.gain, self.draws.n_states)
        return np.asarray(self.unknown * self.end + paid, dtype=np.float64)

    def _moves(self, mass: FloatArray) -> sparse.csr_array:
        size, inside = self.draws.n_states, self._inside
        moves = sparse.csr_array((mass[inside], (self._state[inside], self.draws.to[inside])), shape=(size, size))
        moves.sum_duplicates()
        moves.eliminate_zeros()
        return moves


def _worst(draws: Draws, acting: Acting, gamma: float, worth: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(m,) chances of the draws in the worst case, and the influence of each draw on its pair's worst mean."""
    if gamma == 1.0:
        return draws.chance, worth
    tau = 1 / (1 + gamma)
    order = np.lexsort((worth, draws.pair))
    pair, chance, y = draws.pair[order], draws.chance[order], worth[order]
    running = np.cumsum(chance)
    opens = np.append(True, pair[1:] != pair[:-1])[: len(pair)]
    number = np.cumsum(opens) - 1
    before = running - chance
    before = before - before[opens][number]
    taken = np.clip(tau - before, 0.0, chance) / tau
    edge = np.zeros(int(opens.sum()))
    inside = before < tau * (1 - 1e-12)
    edge[number[inside]] = y[inside]  # the last that is taken: the quantile
    plain = (draws.shares + (1 - draws.shares) / gamma).ravel()
    alpha = np.where(acting.kept[pair // draws.n_actions], 1.0, plain[pair])
    quantile = edge[number]
    weights, influence = np.empty_like(worth), np.empty_like(worth)
    weights[order] = alpha * chance + (1 - alpha) * taken
    influence[order] = alpha * y + (1 - alpha) * (quantile + np.minimum(y - quantile, 0.0) / tau)
    return weights, influence


@dataclass(frozen=True, eq=False)
class Comparison:
    """What a lower bound of proposed − current is made of; `ends` are those of the declared range."""

    draws: Draws
    new: Acting
    old: Acting
    starts: FloatArray  # (q, S)
    ends: tuple[float, float] = (0.0, 0.0)

    def negated(self) -> Comparison:
        """The same for the upper bound."""
        return replace(self, draws=self.draws.negated(), ends=(-self.ends[1], -self.ends[0]))

    @cached_property
    def sides(self) -> tuple[LowerBounds, LowerBounds]:
        """The least of the proposed policy, and the least of minus the current one."""
        least, most = self.ends
        return LowerBounds(self.draws, self.new, least), LowerBounds(self.draws.negated(), self.old, -most)

    @cached_property
    def coefficients(self) -> tuple[FloatArray, FloatArray]:
        """(q, m) per side: how often an episode makes the decision that a draw belongs to, in the log's own model."""
        found = []
        for side in self.sides:
            visits = side.solve(np.ascontiguousarray(self.starts.T), True).T
            found.append((visits[:, :, None] * side.table).reshape(len(visits), -1)[:, self.draws.pair])
        return found[0], found[1]


def lower_differences(compared: Comparison, gamma: float, kind: Kind = "every") -> tuple[FloatArray, FloatArray]:
    """(q,) least difference from each group of starts, and its standard error.

    The value of whoever wrote the log is seen, not inferred: no hidden reason changes it.
    """
    total, influence = np.zeros(len(compared.starts)), np.zeros((len(compared.starts), len(compared.draws.gain)))
    for side, often in zip(compared.sides, compared.coefficients, strict=True):
        values, part = side.every(gamma) if kind == "every" else (side.once(gamma), side.worth(side.plain))
        total += compared.starts @ values
        influence += often * part
    return total, _errors(compared.draws, influence)


def _errors(draws: Draws, influence: FloatArray) -> FloatArray:
    """(q,) standard error of sums over pairs of the means of influences (q, m)."""
    size, visits = draws.visits.size, np.maximum(draws.visits.ravel(), 1.0)
    found = []
    for part in influence:
        mean = np.bincount(draws.pair, draws.chance * part, size)
        spread = np.bincount(draws.pair, draws.chance * (part - mean[draws.pair]) ** 2, size)
        found.append(float(np.sqrt((spread / visits).sum())))
    return np.array(found)


def holds_up_to(compared: Comparison, edge: FloatArray, quantile: float, kind: Kind = "every") -> FloatArray:
    """(q,) the strength Γ at which intervals whose lower ends are `edge` (q,) meet 0; endless beyond the largest tried.

    The interval is the judge's own: only by how much its end moves as Γ grows, sampling error included, is found here.
    """
    base, error = lower_differences(compared, 1.0, kind)

    def distance(gamma: float) -> FloatArray:
        bound, off = lower_differences(compared, gamma, kind)
        return np.asarray(edge + (bound - base) - quantile * np.maximum(off - error, 0.0))

    return crossing(distance, edge)


def crossing(distance: Callable[[float], FloatArray], edge: FloatArray) -> FloatArray:
    """(q,) where distances that fall from `edge` at Γ = 1 meet 0: a search in a grid, then by interpolation.

    >>> crossing(lambda gamma: np.array([1.5 - gamma]), np.array([0.5])).round(1)
    array([1.5])
    """
    known = {0: edge}

    def at(place: int) -> FloatArray:
        if place not in known:
            known[place] = distance(GRID[place])
        return known[place]

    found = np.ones(len(edge))
    for q in np.flatnonzero(edge > 0):
        low, high = 0, len(GRID) - 1
        if at(high)[q] > 0:
            found[q] = np.inf
            continue
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if at(middle)[q] > 0 else (low, middle)
        share = at(low)[q] / (at(low)[q] - at(high)[q])
        found[q] = GRID[low] * (GRID[high] / GRID[low]) ** share
    return found
