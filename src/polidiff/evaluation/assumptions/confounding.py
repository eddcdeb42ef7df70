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

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
from scipy import sparse

from polidiff.evaluation.exact import Solve, solver
from polidiff.evaluation.logged.bounds import PolicyBounds
from polidiff.evaluation.logged.counts import Edges
from polidiff.records.arrays import FloatArray, IntArray
from polidiff.worlds.log_rows import LoggedRows

Kind = Literal["every", "one"]
Step = Callable[[FloatArray], tuple[FloatArray, FloatArray]]
Moments = Callable[[float], tuple[FloatArray, FloatArray]]  # Γ -> bounds and their standard errors
GRID = (1.0, 1.02, 1.05, 1.1, 1.2, 1.35, 1.6, 2.0, 2.7, 4.0, 6.0, 10.0)
FIRST = 2  # places of the grid ahead that are asked first: strong reasons take longest to weigh
SAME = 1e-9  # share of a mean square that scatter within a move may have by rounding
PIECES = 8  # parts of equal size in which the outcomes of one move are kept
STEPS = 100
SETTLED = 1e-6  # of values, where nothing else is asked for
SLOWLY = 0.6  # share of an error that a step leaves, above which the step itself is worked out anew
NEARLY = 0.1  # share of the distance from 0 that is left where a line between places a few apart tells the rest
ENOUGH = 5e-2  # share of the distance from 0 within which an end must be known to tell where it meets 0


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

    @cached_property
    def begin(self) -> IntArray:
        """(pairs,) where the draws of each begin."""
        return np.flatnonzero(np.diff(self.pair, prepend=-1))

    @property
    def shares(self) -> FloatArray:
        """(S, A) logged share of each action."""
        return np.asarray(self.visits / np.maximum(self.visits.sum(axis=1, keepdims=True), 1.0))


class Moves:
    """What followed the decisions of a log, as it was counted; gains that vary within a move are those of its rows."""

    def __init__(
        self, edges: Edges, rows: LoggedRows, n_actions: int, copies: tuple[IntArray, IntArray, IntArray] | None = None
    ) -> None:
        """`copies`: rows, each as often as it counts, with their states and successors (`following`) instead."""
        self.edges, self.rows, self.n_actions, self.copies = edges, rows, n_actions, copies
        self.pair = (edges.pair_state * n_actions + edges.pair_action)[edges.row]  # (m,) of each edge

    def draws(self, outcome: int, discount: float = 1.0) -> Draws:
        """What followed, with the gains of one outcome."""
        edges, n, pair, to = self.edges, self.edges.count, self.pair, self.edges.to
        sums, squares = edges.sums[:, outcome], edges.squares[:, outcome]
        varied = n * squares - sums**2 > SAME * n * squares
        gain = sums / n
        if varied.any():
            edge, drawn, share = self._pieces(np.flatnonzero(varied), outcome)
            pieces = zip((pair, to, gain, n), (pair[edge], to[edge], drawn, n[edge] * share), strict=True)
            parts = [np.append(part[~varied], piece) for part, piece in pieces]
            order = np.argsort(parts[0], kind="stable")
            pair, to, gain, n = (part[order] for part in parts)
        return Draws(edges.n_states, self.n_actions, pair, to, gain, n / edges.visits.ravel()[pair], edges.visits,
                     discount)  # fmt: skip

    def _pieces(self, edges: IntArray, outcome: int) -> tuple[IntArray, FloatArray, FloatArray]:
        """(p,) each, of the rows of some edges: edge of a piece, its mean gain, and its share of the edge's rows."""
        rows, n_states = self.rows, self.edges.n_states
        every = np.arange(len(rows.actions)), rows.states, following(rows, rows.states, n_states)
        index, state, to = every if self.copies is None else self.copies
        pair, wide = state * self.n_actions + rows.actions[index], n_states + 2
        moves = self.pair[edges] * wide + self.edges.to[edges]
        some, ends = np.zeros(n_states * self.n_actions, dtype=np.bool_), np.zeros(wide, dtype=np.bool_)
        some[self.pair[edges]] = ends[self.edges.to[edges]] = True
        near = np.flatnonzero(some[pair] & ends[to])
        own = pair[near] * wide + to[near]
        place = np.minimum(np.searchsorted(moves, own), len(moves) - 1)
        met = moves[place] == own
        move, gain = place[met], rows.gains[index[near[met]], outcome]
        order = np.lexsort((gain, move))
        move, gain = move[order], gain[order]
        piece = _pieces(move, gain)
        first, count = np.flatnonzero(np.diff(piece, prepend=-1)), np.bincount(piece)
        share = count / np.bincount(move)[move[first]]
        return edges[move[first]], np.bincount(piece, gain) / count, share


def following(rows: LoggedRows, state: IntArray, n_states: int) -> IntArray:
    """(n,) the state that follows each row; after all states come the end and what was cut."""
    return np.where(rows.follow >= 0, np.append(state, 0)[rows.follow], n_states - 1 - rows.follow)


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
    """The least a policy can be worth from every state; what nobody has tried is worth `end`.

    Values are found by steps of a solution that is near, that of the log's own model, until steps are short; where they
    do not shorten fast, of the worst model that they have come to. If that happens in every step, it is policy
    iteration by whoever makes things worst, which ends.
    """

    def __init__(
        self, draws: Draws, policy: PolicyBounds, outcome: int, sign: float = 1.0, within: float = SETTLED
    ) -> None:
        """With `sign` −1, the least that the outcome turned round can be worth."""
        model, target, (least, most) = policy.model, policy.target, policy.ranges[outcome] or (0.0, 0.0)
        self.end, self.plain = (least, policy.low[outcome]) if sign > 0 else (-most, -policy.high[outcome])
        visits, rows = draws.visits, np.maximum(model.edges.state_visits + model.edges.dropped, 1)
        self.kept = (target.rho >= 1.0) | (visits.sum(axis=1) == 0)  # (S,) decisions left to whoever wrote the log
        logged = target.rho[:, None] * visits / rows[:, None]  # what is read off the log falls on actions as logged
        self.table = np.where(model.loops[:, None], 0.0, logged + target.rest)
        self.unknown, self.solve, self.within = model.unknown, model.solve, within
        self.used = self.table.ravel()[draws.pair] > 0  # (m,) draws of actions that the policy takes
        parts = {name: getattr(draws, name)[self.used] for name in ("pair", "to", "gain", "chance")}
        self.draws = draws = replace(draws, **{**parts, "gain": sign * parts["gain"]})
        self.pairs, self._begin = draws.pair[draws.begin], np.append(draws.begin, len(draws.pair))
        self._state, self._order = self.pairs // draws.n_actions, np.arange(len(draws.pair))
        self._shares, self._worth = draws.shares.ravel()[self.pairs], np.empty(len(draws.pair))
        self.mass = self.table.ravel()[self.pairs]  # (pairs,) chance of each action that was tried
        self._last, self._strength, self._lost, self._size = self.plain, 1.0, np.zeros_like(self.plain), 0.0

    def worth(self, values: FloatArray) -> FloatArray:
        """(m,) of each draw."""
        return np.asarray(self.draws.gain + self.draws.discount * np.append(values, 0.0)[self.draws.to])

    def every(self, gamma: float) -> tuple[FloatArray, FloatArray]:
        """(S,) values if every decision is confounded, and (m,) what one more draw adds to its pair's worth."""
        if gamma == 1.0 or self.kept.all() or not len(self.pairs):
            return self.plain, self.influence
        strength = float(np.log(gamma))  # with which values fall about evenly
        begin = self.plain + (self._last - self.plain) * strength / self._strength
        self._last, self._strength = self._settled(lambda values: self._worst(values, gamma), begin), strength
        size = np.diff(self._begin)
        y, edge, alpha = self.worth(self._last), np.repeat(self._quantile, size), np.repeat(self._alpha(gamma), size)
        return self._last, self._all(alpha * y + (1 - alpha) * (edge + np.minimum(y - edge, 0.0) * (1 + gamma)))

    def once(self, gamma: float) -> FloatArray:
        """(S,) values if one decision of an episode is confounded, the worst."""
        if gamma == 1.0 or self.kept.all():
            return self.plain
        from polidiff.evaluation.kernels import largest_loss

        draws, chance = self.draws, self.draws.discount * self.draws.chance
        loss = self._plain_means - self._worst(self.plain, gamma)[0]
        size = float(self.mass @ loss)
        self._lost *= size / self._size if self._size > 0 else 0.0  # losses grow about alike in all states
        self._size = size
        largest_loss(self._begin, self._state, self.mass, draws.to, chance, loss, self.within / 2, self._lost)
        return self.plain - self._lost

    @cached_property
    def influence(self) -> FloatArray:
        """(m,) what one more draw adds to its pair's worth if no reason touches it."""
        return self._all(self.worth(self.plain))

    @cached_property
    def _plain_means(self) -> FloatArray:
        """(pairs,) worth of each pair if no reason touches it."""
        return np.add.reduceat(self.draws.chance * self.worth(self.plain), self._begin[:-1])

    def _all(self, part: FloatArray) -> FloatArray:
        """(m,) numbers of the draws that are used, 0 for the others."""
        every = np.zeros(len(self.used))
        every[self.used] = part
        return every

    def _alpha(self, gamma: float) -> FloatArray:
        """(pairs,) share of the plain mean in the worst case."""
        return np.where(self.kept[self._state], 1.0, self._shares + (1 - self._shares) / gamma)

    def _worst(self, values: FloatArray, gamma: float) -> tuple[FloatArray, FloatArray]:
        """(pairs,) worth in the worst case, and (m,) chances of draws there: they rise below a quantile."""
        from polidiff.evaluation.kernels import worst_step

        draws, chance, self._quantile = self.draws, np.empty(len(self._order)), np.empty(len(self.pairs))
        worst, alpha, ahead = np.empty(len(self.pairs)), self._alpha(gamma), draws.discount * np.append(values, 0.0)
        worst_step(
            self._begin, draws.gain, draws.to, draws.chance, ahead, alpha, 1 / (1 + gamma), self._order, self._worth,
            chance, self._quantile, worst,
        )  # fmt: skip
        return worst, chance

    def _settled(self, step: Step, values: FloatArray) -> FloatArray:
        """(S,) values that a step (worth of pairs, chances of draws) leaves as they are."""
        before = np.inf
        for _ in range(STEPS):
            worth, chance = step(values)
            paid = np.bincount(self._state, self.mass * worth, len(values))
            left = self.unknown * self.end + paid - values
            moved = self.solve(left, False)
            if np.abs(moved).max() > SLOWLY * before:
                self.solve = self._solver(chance)
                moved = self.solve(left, False)
            values, before = values + moved, float(np.abs(moved).max())
            if before <= self.within:
                break
        return values

    def _solver(self, chance: FloatArray) -> Solve:
        size, inside = self.draws.n_states, self.draws.to < self.draws.n_states
        ends = self.draws.pair[inside] // self.draws.n_actions, self.draws.to[inside]
        mass = (np.repeat(self.mass, np.diff(self._begin)) * chance)[inside]
        return solver(sparse.csr_array((mass, ends), shape=(size, size)), self.draws.discount)


@dataclass(frozen=True, eq=False)
class Comparison:
    """What a lower bound of proposed − current in one outcome is made of."""

    draws: Draws
    new: PolicyBounds
    old: PolicyBounds
    outcome: int
    groups: Sequence[int]  # (q,) of the starts
    within: float = SETTLED  # of bounds
    sign: float = 1.0  # −1: the outcome turned round

    def negated(self) -> Comparison:
        """The same for the upper bound."""
        return replace(self, sign=-self.sign)

    @property
    def starts(self) -> FloatArray:
        """(q, S) where episodes begin."""
        return self.new.starts.weights[self.groups]

    @cached_property
    def sides(self) -> tuple[LowerBounds, LowerBounds]:
        """The least of the proposed policy, and the least of minus the current one."""
        both = ((self.new, self.sign), (self.old, -self.sign))
        new, old = (LowerBounds(self.draws, policy, self.outcome, sign, self.within) for policy, sign in both)
        return new, old

    @cached_property
    def coefficients(self) -> tuple[FloatArray, FloatArray]:
        """(q, m) per side: how often an episode makes the decision that a draw belongs to, in the log's own model."""
        visits = (policy.visits[self.groups][:, :, None] for policy in (self.new, self.old))
        both = [(often * side.table).reshape(len(often), -1) for often, side in zip(visits, self.sides, strict=True)]
        return both[0][:, self.draws.pair], both[1][:, self.draws.pair]

    @cached_property
    def plain_errors(self) -> FloatArray:
        """(q,) standard errors if no reason touches a decision; if one decision of an episode, they are the same."""
        new, old = (often * side.influence for often, side in zip(self.coefficients, self.sides, strict=True))
        return _errors(self.draws, new + old)


def lower_differences(compared: Comparison, gamma: float, kind: Kind = "every") -> tuple[FloatArray, FloatArray]:
    """(q,) least difference from each group of starts, and its standard error.

    The value of whoever wrote the log is seen, not inferred: no hidden reason changes it.
    """
    sides = compared.sides
    if kind == "one" or gamma == 1.0:
        return np.asarray(sum(compared.starts @ side.once(gamma) for side in sides)), compared.plain_errors
    (new, one), (old, other) = (side.every(gamma) for side in sides)
    often = compared.coefficients
    return compared.starts @ (new + old), _errors(compared.draws, often[0] * one + often[1] * other)


def _errors(draws: Draws, influence: FloatArray) -> FloatArray:
    """(q,) standard error of sums over pairs of the means of influences (q, m)."""
    visits, weighted = draws.visits.ravel()[draws.pair[draws.begin]], draws.chance * influence
    mean, square = (np.add.reduceat(part, draws.begin, axis=1) for part in (weighted, weighted * influence))
    return np.asarray(np.sqrt((np.maximum(square - mean**2, 0.0) / visits).sum(axis=1)))


def holds_up_to(compared: Comparison, edge: FloatArray, quantile: float) -> list[tuple[float, float]]:
    """Per group, Γ at which intervals with lower ends `edge` (q,) meet 0: for every decision, and for one per episode.

    Endless beyond the largest tried. The interval is the judge's own: only by how much its end moves as Γ grows,
    sampling error included, is found here, as exactly as it hardly shows where the interval meets 0.
    """
    near = replace(compared, within=ENOUGH * float(edge[edge > 0].min(initial=np.inf)))
    every = meets_zero(lambda gamma: lower_differences(near, gamma, "every"), edge, quantile)
    one = meets_zero(lambda gamma: lower_differences(near, gamma, "one"), edge, quantile, every)
    return list(zip(every.tolist(), one.tolist(), strict=True))


def meets_zero(moments: Moments, edge: FloatArray, quantile: float, least: FloatArray | None = None) -> FloatArray:
    """(q,) Γ at which intervals with lower ends `edge` meet 0, as bounds and standard errors (q,) move with Γ."""
    base, error = moments(1.0)

    def distance(gamma: float) -> FloatArray:
        bound, off = moments(gamma)
        return np.asarray(edge + (bound - base) - quantile * np.maximum(off - error, 0.0))

    return crossing(distance, edge, least)


def crossing(distance: Callable[[float], FloatArray], edge: FloatArray, least: FloatArray | None = None) -> FloatArray:
    """(q,) where distances that fall from `edge` at Γ = 1 meet 0: a search in a grid, each step where a line aims at.

    Nothing is asked below `least` (q,), where they are known not to have met it.

    >>> crossing(lambda gamma: np.array([1.5 - gamma]), np.array([0.5])).round(1)
    array([1.5])
    """
    known = {0: edge}

    def at(place: int) -> FloatArray:
        if place not in known:
            known[place] = distance(GRID[place])
        return known[place]

    gammas, steps = np.ones(len(edge)), np.log(GRID)
    for q in np.flatnonzero(edge > 0):
        low, high = 0 if least is None else int(np.searchsorted(GRID, least[q], side="right")) - 1, len(GRID)
        place = min(low + FIRST, high - 1)
        while high - low > 1:
            low, high = (place, high) if at(place)[q] > 0 else (low, place)
            if high < len(GRID) and high - low <= 3 and abs(at(place)[q]) <= NEARLY * edge[q] and low in known:
                break
            near = sorted(known, key=lambda p: (p != high, abs(p - low)))[:2]
            aim = _meets(*(part for p in near for part in (steps[p], known[p][q])))
            place = int(np.clip(np.searchsorted(steps, aim), low + 1, high - 1))
        ends = (part for p in (low, high) for part in (steps[p], at(p)[q]))
        gammas[q] = np.inf if high == len(GRID) else np.exp(_meets(*ends))
    return gammas


def _meets(x: float, y: float, x2: float, y2: float) -> float:
    """Where the line through two points meets 0; endless if it does not fall."""
    return x + y * (x2 - x) / (y - y2) if (y - y2) * (x2 - x) > 0 else np.inf
