r"""The careful rule: what the log cannot know goes to both ends of the declared range.

Pairs and states never seen and estimated loops without exit are worth the smallest possible outcome at one end and the
largest at the other, so the interval holds whatever they are worth. Without a declared range nothing bounds them, and a
start that can reach them has no interval at all.

What the log cannot know puts a value between two ends. An interval that covers the value, wherever it lies between
them, needs less than the two-sided quantile once the ends lie apart (Imbens and Manski 2004): z solves

.. math:: \Phi\!\left(z + \frac{u - l}{\sigma}\right) - \Phi(-z) = 1 - \alpha .

Student quantiles replace normal ones, and values with a declared range move on two scales of their place p
in it that bend at its ends, :math:`\arcsin \sqrt p` and :math:`\log p / (1 - p)`; the nearer bound counts.

How far values estimated from counts may be off: one exact linear sum over states.

With :math:`M = (I - P)^{-1}` and the draws' targets :math:`T = g + V(s')`,

.. math:: \operatorname{cov}(\hat V_x, \hat V_y)(s_0) = \sum_s M_x(s_0, s)\, M_y(s_0, s) \Bigl[\sum_a k_x k_y\,
          n(s,a)\, \operatorname{cov}_{sa}(T_x, T_y)
          + \rho_x \rho_y \frac{\operatorname{cov}_{s}(\bar T_x, \bar T_y)}{n(s)}\Bigr]

The covariance within a pair is shrunk from the pair to its state to the whole log, two pseudo-draws each, so that a
pair seen once never counts as certain; at the level of the log a rule of three stands for what no repeat has shown yet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from scipy import special

from polidiff.evaluation.logged.counts import Edges
from polidiff.evaluation.logged.model import LoggedModel, SplitPolicy, Starts, build_model, same_rows
from polidiff.records.arrays import BoolArray, FloatArray

NEWTON_STEPS = 30
LEAST_FREEDOM = 2.0
Range = tuple[float, float] | None
T = TypeVar("T")
NO_MASS = 1e-9


@dataclass(frozen=True, eq=False)
class PolicyBounds:
    """One policy: its two ends for every outcome, from every start."""

    target: SplitPolicy
    model: LoggedModel
    starts: Starts
    visits: FloatArray  # (q, S)
    ranges: tuple[Range, ...]  # declared, per outcome
    low: tuple[FloatArray, ...]  # (S,) per outcome: value when the unknown is worth least
    high: tuple[FloatArray, ...]  # (S,) when it is worth most
    centre: tuple[FloatArray, ...]  # (S,) best guess: unseen pairs as good as their state's average
    _usual: dict[int, Spread] = field(default_factory=dict, repr=False)

    def usual(self, outcome: int) -> Spread:
        """How targets scatter at the best guess."""
        if outcome not in self._usual:
            self._usual[outcome] = usual_spread(self, self, outcome)
        return self._usual[outcome]

    @property
    def unsupported(self) -> FloatArray:
        """(q,) chance that an episode meets something the log cannot know."""
        return np.asarray(np.minimum(self.visits @ self.model.unknown, 1.0))

    def freedom(self, outcome: int) -> FloatArray:
        """(q,) degrees of freedom of the best guess's error.

        At the ends of the range one draw towards what is unknown makes most of the error. What it is worth there is
        set, not seen: that its scatter was seen in few draws is no reason for a wider interval.
        """
        return noise(self.model, self.model, self.usual(outcome)).freedom(self.visits)

    @property
    def asks(self) -> FloatArray:
        """(q, S) how much of that each state causes: where more data would help."""
        return self.visits * self.model.unknown


def bound_policy(
    edges: Edges, target: SplitPolicy, starts: Starts, ranges: Sequence[Range], *, discount: float = 1.0
) -> PolicyBounds:
    """The ends and the best guess of a policy under the careful rule."""
    model = build_model(edges, target, discount=discount)
    known = model.complete
    guess = model if known else build_model(edges, target, discount=discount, lend=True)
    low, high, centre = [], [], []
    for k, declared in enumerate(ranges):
        least, most = declared if declared is not None else (0.0, 0.0)
        low.append(model.values(k, least))
        high.append(low[-1] if known or least == most else model.values(k, most))
        centre.append(low[-1] if known else guess.values(k, (least + most) / 2))
    visits = model.visits(starts.weights)
    return PolicyBounds(target, model, starts, visits, tuple(ranges), tuple(low), tuple(high), tuple(centre))


Bounds = tuple[FloatArray, FloatArray, FloatArray]  # (q,) best guess, lower and upper bound


def value_bounds(judged: PolicyBounds, outcome: int, alpha: float) -> Bounds:
    """(q,) best guess, lower and upper bound of the policy's outcome."""
    return difference(judged, None, outcome).bounds(alpha)


@dataclass(frozen=True, eq=False)
class Difference:
    """new − old for one outcome, on the same draws; without an old policy, the value of the new one."""

    new: PolicyBounds
    old: PolicyBounds | None
    outcome: int
    ends: tuple[FloatArray, FloatArray]  # (q,) when the unknown is worth least, and most
    deviations: tuple[FloatArray, FloatArray]  # (q,) standard deviation of either
    freedom: FloatArray  # (q,)

    def bounds(self, alpha: float) -> Bounds:
        """(q,) best guess, lower and upper bound."""
        new, old, declared = self.new, self.old, self.new.ranges[self.outcome]
        guess, unsupported, limits = new.starts.weights @ new.centre[self.outcome], new.unsupported, declared
        if old is not None:
            guess = new.starts.weights @ (new.centre[self.outcome] - old.centre[self.outcome])
            unsupported = np.maximum(unsupported, old.unsupported)
            limits = None if declared is None else (declared[0] - declared[1], declared[1] - declared[0])
        low, high = interval_bounds(*self.ends, self.deviations, self.freedom, alpha=alpha, limits=limits,
                                    bent=old is None)  # fmt: skip
        if declared is None:  # nothing bounds what nobody has tried
            low, high = (np.where(unsupported > NO_MASS, end, part) for end, part in ((-np.inf, low), (np.inf, high)))
        if old is not None:
            alike = act_alike(new, old)
            low, high, guess = (np.where(alike, 0.0, part) for part in (low, high, guess))
        bounded = np.isfinite(low) & np.isfinite(high)
        return np.where(bounded, np.clip(guess, low, high), np.nan), low, high


def difference(new: PolicyBounds, old: PolicyBounds | None, outcome: int) -> Difference:
    """How far two policies are apart in an outcome, and how far that may be off; without a second, one's value."""
    starts, model = new.starts, new.model
    lows: tuple[FloatArray, ...] = (new.low[outcome],)
    highs: tuple[FloatArray, ...] = (new.high[outcome],)
    if old is not None:
        lows, highs = (new.low[outcome], old.high[outcome]), (new.high[outcome], old.low[outcome])
        both = usual_spread(new, old, outcome)

    def off(x: FloatArray, y: FloatArray | None = None) -> FloatArray:
        own = noise(model, model, spread_at(model, outcome, x, x, new.usual(outcome)))
        parts = new.visits**2 * own.covariance
        if old is not None and y is not None:
            other = noise(old.model, old.model, spread_at(old.model, outcome, y, y, old.usual(outcome)))
            shared = noise(model, old.model, spread_at(model, outcome, x, y, both))
            parts = parts + old.visits**2 * other.covariance
            parts -= 2 * new.visits * old.visits * shared.covariance
        variance = own.variance(parts) + starts.variance(x if y is None else x - y)
        return np.sqrt(np.maximum(variance, 0.0))

    low, high = (starts.weights @ (end[0] if old is None else end[0] - end[1]) for end in (lows, highs))
    return Difference(new, old, outcome, (low, high), _at_both_ends(off, lows, highs), new.freedom(outcome))


def _at_both_ends(find: Callable[..., T], low: tuple[FloatArray, ...], high: tuple[FloatArray, ...]) -> tuple[T, T]:
    """What is found at either end; once, if nothing is unknown and the ends are the same."""
    below = find(*low)
    same = all(one is other for one, other in zip(low, high, strict=True))
    return below, below if same else find(*high)


def act_alike(new: PolicyBounds, old: PolicyBounds) -> BoolArray:
    """(q,) whether the two policies act the same in every state that a group can meet: then nothing differs."""
    apart = ~same_rows(new.target.table, old.target.table)
    return np.asarray((new.visits[:, apart] <= 0).all(axis=1) & (old.visits[:, apart] <= 0).all(axis=1))


def critical_value(gap: FloatArray, deviation: FloatArray, alpha: float) -> FloatArray:
    """Two-sided where the ends meet, one-sided where they lie far apart.

    >>> critical_value(np.array([0.0, 100.0]), np.ones(2), 0.05).round(3)
    array([1.96 , 1.645])
    """
    least, most = special.ndtri(1 - alpha), special.ndtri(1 - alpha / 2)
    apart = np.maximum(gap, 0.0) / np.maximum(deviation, 1e-12)
    z = np.full(np.shape(gap), most)
    for _ in range(NEWTON_STEPS):
        excess = special.ndtr(z + apart) - special.ndtr(-z) - 1 + alpha
        slope = np.exp(-((z + apart) ** 2) / 2) + np.exp(-(z**2) / 2)
        z = z - np.sqrt(2 * np.pi) * excess / slope
    return np.asarray(np.clip(z, least, most))


def interval_bounds(
    low: FloatArray,
    high: FloatArray,
    deviations: tuple[FloatArray, FloatArray],
    freedom: FloatArray,
    *,
    alpha: float,
    limits: tuple[float, float] | None,
    bent: bool = False,
) -> tuple[FloatArray, FloatArray]:
    """Bounds (q,) around two ends; within `limits`, on scales that bend at them if told so."""
    z = critical_value(high - low, np.maximum(*deviations), alpha)
    z = np.asarray(special.stdtrit(np.maximum(freedom, LEAST_FREEDOM), special.ndtr(z)))
    down, up = -z * deviations[0], z * deviations[1]
    if limits is None:
        return low + down, high + up
    if bent:
        return np.maximum(*_bent(low, down, limits)), np.minimum(*_bent(high, up, limits))
    return np.clip(low + down, *limits), np.clip(high + up, *limits)


def _bent(value: FloatArray, step: FloatArray, limits: tuple[float, float]) -> tuple[FloatArray, FloatArray]:
    """Values moved by steps on the arcsine scale and on the log-odds of their place between the limits.

    Away from a limit log-odds reach too far, towards it the arcsine does. A step d away from a limit starts at least
    d / 2 from it on the one scale and d on the other: nearer to the limit the scales are so fine that a smaller value
    would be moved further. The bound falls until 4p(1 - p) = 2d(1 - 2p), or p(1 - p) = d(1 - 2p), and both lie below.
    """
    span, still = limits[1] - limits[0], step == 0.0
    place, size = np.clip((value - limits[0]) / span, 0.0, 1.0), step / span
    near, far = (_off_limits(place, size, share) for share in (0.5, 1.0))
    arcsine = np.arcsin(np.sqrt(near)) + size / (2 * np.sqrt(near * (1 - near)))
    odds = special.logit(far) + size / (far * (1 - far))
    moved = np.sin(np.clip(arcsine, 0.0, np.pi / 2)) ** 2, special.expit(odds)
    one, other = (limits[0] + span * np.where(still, place, bound) for bound in moved)
    return one, other


def _off_limits(place: FloatArray, size: FloatArray, share: float) -> FloatArray:
    """Places, at least a share of the step away from the limit that the step leaves."""
    away = np.clip(share * np.abs(size), 1e-9, 0.5)
    return np.asarray(np.clip(place, np.where(size > 0, away, 1e-9), np.where(size < 0, 1 - away, 1 - 1e-9)))


PSEUDO_DRAWS = 2.0
BUSY = 10.0  # a row counts for at most this many draws in the pooled level: busy rows must not speak for thin ones
RULE_OF_THREE = 3.0


@dataclass(frozen=True, eq=False)
class Spread:
    """Covariances of two targets."""

    pair: FloatArray  # (R,) within each pair, shrunk
    state: FloatArray  # (S,) within each state, shrunk
    between: FloatArray  # (S,) of the means of a state's actions, shrunk


@dataclass(frozen=True, eq=False)
class Noise:
    """Per state, what its draws add to a covariance."""

    covariance: FloatArray  # (S,)
    squares: FloatArray  # (S,) parts squared over their degrees of freedom (Satterthwaite)
    copies: int = 1  # states in a row that share their draws

    def variance(self, parts: FloatArray, power: int = 2) -> FloatArray:
        """(q,) sums of what states add (q, S), which are powers of errors; of shared draws the errors add up first."""
        if self.copies > 1:
            errors = np.maximum(parts, 0.0) ** (1 / power)
            parts = errors.reshape(len(parts), -1, self.copies).sum(axis=2) ** power
        return np.asarray(parts.sum(axis=1))

    def freedom(self, visits: FloatArray) -> FloatArray:
        """(q,) degrees of freedom of the variance."""
        squares = self.variance(visits**4 * self.squares, power=4)
        return np.asarray(self.variance(visits**2 * self.covariance) ** 2 / np.maximum(squares, 1e-300))


def spread(
    edges: Edges, outcome: int, x: FloatArray, y: FloatArray, discount: float, usual: FloatArray | None = None
) -> Spread:
    """Covariances of the targets of two value functions x, y (S,) for the same outcome.

    `usual` (S,): those within states that pairs are shrunk to, where they are not those of x and y.
    """
    n, pair_n, state_n = edges.count, edges.pair_visits, edges.state_visits
    rows, of_row, size = len(pair_n), edges.pair_state, edges.n_states
    dx, dy = (_step(edges, v, discount) for v in (x, y))
    gain, square = edges.sums[:, outcome], edges.squares[:, outcome]
    product = square + (dx + dy) * gain + n * dx * dy
    sum_x, sum_y = gain + n * dx, gain + n * dy
    row_x, row_y = np.bincount(edges.row, sum_x, rows), np.bincount(edges.row, sum_y, rows)
    within = np.bincount(edges.row, product, rows) - row_x * row_y / pair_n
    all_x, all_y = np.bincount(edges.state, sum_x, size), np.bincount(edges.state, sum_y, size)
    total = np.bincount(edges.state, product, size) - all_x * all_y / np.maximum(state_n, 1)
    if x is y:
        within, total = np.maximum(within, 0.0), np.maximum(total, 0.0)
    if usual is None:
        pooled = _pooled(within, pair_n) + _rule_of_three(edges, outcome, x, y, discount)
        usual = (PSEUDO_DRAWS * pooled + total) / (PSEUDO_DRAWS + np.maximum(state_n - 1, 0))
    pair = (PSEUDO_DRAWS * usual[of_row] + within) / (PSEUDO_DRAWS + pair_n - 1)
    gap = total - np.bincount(of_row, within, size)
    share = np.minimum(state_n, BUSY)
    typical = (share / np.maximum(state_n, 1) * gap).sum() / max(share.sum(), 1.0)
    between = (PSEUDO_DRAWS * typical + gap) / (PSEUDO_DRAWS + np.maximum(state_n - 1, 0))
    return Spread(pair, usual, between)


def usual_spread(one: PolicyBounds, other: PolicyBounds, outcome: int) -> Spread:
    """Covariances of the best guesses of two policies."""
    return spread(one.model.edges, outcome, one.centre[outcome], other.centre[outcome], one.model.discount)


def spread_at(model: LoggedModel, outcome: int, x: FloatArray, y: FloatArray, usual: Spread) -> Spread:
    """Covariances of targets at an end of the range; what no repeat has shown yet scatters as best guesses do.

    A pair that was seen a few times may lead elsewhere, but nothing says that it leads to what nobody has tried.
    """
    return spread(model.edges, outcome, x, y, model.discount, usual.state)


def noise(one: LoggedModel, other: LoggedModel, spreads: Spread) -> Noise:
    """What each state adds to the covariance of two policies' values, as their targets scatter."""
    edges = one.edges
    repeats = edges.pair_visits**2 / edges.pair_seen  # rows without a recorded successor lend weight, not knowledge
    part = one.weight * other.weight * repeats * spreads.pair
    on_policy = one.rho * other.rho * spreads.between / np.maximum(edges.state_visits, 1)
    squares = np.bincount(edges.pair_state, part**2 / (1 + edges.pair_seen), edges.n_states)
    covariance = np.bincount(edges.pair_state, part, edges.n_states) + on_policy
    return Noise(covariance, np.asarray(squares, dtype=np.float64), edges.copies)


def _step(edges: Edges, values: FloatArray, discount: float) -> FloatArray:
    """(m,) the part of a target that is not outcome, less the value of the state: constants per state do not matter
    to a covariance, and taking them out keeps the sums from cancelling."""
    return discount * np.append(values, 0.0)[edges.to] - values[edges.state]


def _pooled(within: FloatArray, pair_n: FloatArray) -> float:
    cap = np.minimum(pair_n - 1, BUSY) / np.maximum(pair_n - 1, 1)
    return float((cap * within).sum() / max((cap * (pair_n - 1)).sum(), 1.0))


def _rule_of_three(edges: Edges, outcome: int, x: FloatArray, y: FloatArray, discount: float) -> float:
    """A repeat of a pair may yet lead anywhere: the scatter of targets over the whole log, weighted by 3 / repeats."""
    n, gain, square = edges.count, edges.sums[:, outcome], edges.squares[:, outcome]
    after_x, after_y = (discount * np.append(v, 0.0)[edges.to] for v in (x, y))
    total = max(n.sum(), 1.0)
    product = (square + (after_x + after_y) * gain + n * after_x * after_y).sum() / total
    anywhere = product - (gain + n * after_x).sum() / total * ((gain + n * after_y).sum() / total)
    repeats = max(float((edges.pair_visits - 1).sum()), 1.0)
    return float(RULE_OF_THREE / (repeats + RULE_OF_THREE) * anywhere)
