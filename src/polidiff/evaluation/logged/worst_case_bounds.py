r"""The careful rule: what the log cannot know goes to both ends of the declared range.

Pairs and states never seen and estimated loops without exit are worth the smallest possible outcome at one end and the
largest at the other, so the interval holds whatever they are worth. Without a declared range nothing bounds them, and a
start that can reach them has no interval at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from polidiff.evaluation.logged.counts import Edges
from polidiff.evaluation.logged.interval_bounds import interval_bounds
from polidiff.evaluation.logged.model import LoggedModel, SplitPolicy, build_model, same_rows
from polidiff.evaluation.logged.noise import noise
from polidiff.evaluation.logged.starts import Starts
from polidiff.records.arrays import BoolArray, FloatArray

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

    @property
    def unsupported(self) -> FloatArray:
        """(q,) chance that an episode meets something the log cannot know."""
        return np.asarray(np.minimum(self.visits @ self.model.unknown, 1.0))

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


def value_bounds(judged: PolicyBounds, outcome: int, alpha: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """(q,) best guess, lower and upper bound of the policy's outcome."""
    starts, declared = judged.starts, judged.ranges[outcome]
    values = judged.low[outcome], judged.high[outcome]

    def off(x: FloatArray) -> tuple[FloatArray, FloatArray]:
        part = noise(judged.model, judged.model, outcome, x, x)
        variance = part.variance(judged.visits, judged.visits) + starts.variance(x)
        return np.sqrt(np.maximum(variance, 0.0)), part.freedom(judged.visits)

    (below, one), (above, other) = _at_both_ends(off, *((x,) for x in values))
    low, high = interval_bounds(
        starts.weights @ values[0], starts.weights @ values[1], (below, above), np.minimum(one, other), alpha=alpha,
        limits=declared, bent=True,
    )  # fmt: skip
    low, high = _unbounded(low, high, declared, judged.unsupported)
    return _inside(starts.weights @ judged.centre[outcome], low, high), low, high


@dataclass(frozen=True, eq=False)
class Difference:
    """new − old for one outcome, on the same draws."""

    new: PolicyBounds
    old: PolicyBounds
    outcome: int
    ends: tuple[FloatArray, FloatArray]  # (q,) when the unknown is worth least, and most
    deviations: tuple[FloatArray, FloatArray]  # (q,) standard deviation of either
    freedom: FloatArray  # (q,)

    def bounds(self, alpha: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        """(q,) best guess, lower and upper bound."""
        new, old, outcome = self.new, self.old, self.outcome
        declared = new.ranges[outcome]
        limits = None if declared is None else (declared[0] - declared[1], declared[1] - declared[0])
        low, high = interval_bounds(*self.ends, self.deviations, self.freedom, alpha=alpha, limits=limits)
        low, high = _unbounded(low, high, declared, np.maximum(new.unsupported, old.unsupported))
        guess = new.starts.weights @ (new.centre[outcome] - old.centre[outcome])
        alike = act_alike(new, old)
        low, high, guess = (np.where(alike, 0.0, part) for part in (low, high, guess))
        return _inside(guess, low, high), low, high


def difference(new: PolicyBounds, old: PolicyBounds, outcome: int) -> Difference:
    """How far two policies are apart in an outcome, and how far that may be off."""
    starts = new.starts
    pairs = (new.low[outcome], old.high[outcome]), (new.high[outcome], old.low[outcome])

    def off(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        own = noise(new.model, new.model, outcome, x, x)
        variance = own.variance(new.visits, new.visits)
        variance = variance + noise(old.model, old.model, outcome, y, y).variance(old.visits, old.visits)
        variance = variance - 2 * noise(new.model, old.model, outcome, x, y).variance(new.visits, old.visits)
        return np.sqrt(np.maximum(variance + starts.variance(x - y), 0.0)), own.freedom(new.visits)

    (below, one), (above, other) = _at_both_ends(off, *pairs)
    ends = starts.weights @ (pairs[0][0] - pairs[0][1]), starts.weights @ (pairs[1][0] - pairs[1][1])
    return Difference(new, old, outcome, ends, (below, above), np.minimum(one, other))


def _at_both_ends(find: Callable[..., T], low: tuple[FloatArray, ...], high: tuple[FloatArray, ...]) -> tuple[T, T]:
    """What is found at either end; once, if nothing is unknown and the ends are the same."""
    found = find(*low)
    same = all(one is other for one, other in zip(low, high, strict=True))
    return found, found if same else find(*high)


def act_alike(new: PolicyBounds, old: PolicyBounds) -> BoolArray:
    """(q,) whether the two policies act the same in every state that a group can meet: then nothing differs."""
    apart = ~same_rows(new.target.table, old.target.table)
    return np.asarray((new.visits[:, apart] <= 0).all(axis=1) & (old.visits[:, apart] <= 0).all(axis=1))


def _unbounded(
    low: FloatArray, high: FloatArray, declared: Range, unsupported: FloatArray
) -> tuple[FloatArray, FloatArray]:
    if declared is not None:
        return low, high
    open_ = unsupported > NO_MASS
    return np.where(open_, -np.inf, low), np.where(open_, np.inf, high)


def _inside(guess: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """The guess, moved into the interval; absent where there is no interval."""
    return np.where(np.isfinite(low) & np.isfinite(high), np.clip(guess, low, high), np.nan)
