r"""The careful rule: what the log cannot know goes to both ends of the declared range.

Pairs and states never seen and estimated loops without exit are worth the smallest possible outcome at one end and the
largest at the other, so the interval holds whatever they are worth. Without a declared range nothing bounds them, and a
start that can reach them has no interval at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from polidiff.evaluation.logged.bounds import interval_bounds
from polidiff.evaluation.logged.counts import Edges
from polidiff.evaluation.logged.model import LoggedModel, build_model
from polidiff.evaluation.logged.noise import noise
from polidiff.evaluation.logged.starts import Starts
from polidiff.evaluation.logged.target import Target, same_rows
from polidiff.records.arrays import BoolArray, FloatArray

Range = tuple[float, float] | None
NO_MASS = 1e-9


@dataclass(frozen=True, eq=False)
class Judged:
    """One policy: its two ends for every outcome, from every start."""

    target: Target
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


def judge(edges: Edges, target: Target, starts: Starts, ranges: Sequence[Range], *, discount: float = 1.0) -> Judged:
    """The ends and the best guess of a policy under the careful rule."""
    model = build_model(edges, target, discount=discount)
    guess = build_model(edges, target, discount=discount, lend=True)
    low, high, centre = [], [], []
    for k, declared in enumerate(ranges):
        least, most = declared if declared is not None else (0.0, 0.0)
        low.append(model.values(k, least))
        high.append(low[-1] if least == most else model.values(k, most))
        centre.append(guess.values(k, (least + most) / 2))
    visits = model.visits(starts.weights)
    return Judged(target, model, starts, visits, tuple(ranges), tuple(low), tuple(high), tuple(centre))


def value_bounds(judged: Judged, outcome: int, alpha: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """(q,) best guess, lower and upper bound of the policy's outcome."""
    starts, declared = judged.starts, judged.ranges[outcome]
    ends = [starts.weights @ judged.low[outcome], starts.weights @ judged.high[outcome]]
    deviations, freedoms = [], []
    for values in (judged.low[outcome], judged.high[outcome]):
        part = noise(judged.model, judged.model, outcome, values, values)
        variance = part.variance(judged.visits, judged.visits) + starts.variance(values)
        deviations.append(np.sqrt(np.maximum(variance, 0.0)))
        freedoms.append(part.freedom(judged.visits))
    low, high = interval_bounds(
        ends[0], ends[1], (deviations[0], deviations[1]), np.minimum(*freedoms), alpha=alpha, limits=declared,
        bent=True,
    )  # fmt: skip
    low, high = _unbounded(low, high, declared, judged.unsupported)
    return _inside(starts.weights @ judged.centre[outcome], low, high), low, high


def difference_bounds(
    new: Judged, old: Judged, outcome: int, alpha: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """(q,) best guess, lower and upper bound of new − old, on the same draws."""
    starts, declared = new.starts, new.ranges[outcome]
    pairs = ((new.low[outcome], old.high[outcome]), (new.high[outcome], old.low[outcome]))
    ends = [starts.weights @ (x - y) for x, y in pairs]
    deviations, freedoms = [], []
    for x, y in pairs:
        own = noise(new.model, new.model, outcome, x, x)
        variance = own.variance(new.visits, new.visits)
        variance = variance + noise(old.model, old.model, outcome, y, y).variance(old.visits, old.visits)
        variance = variance - 2 * noise(new.model, old.model, outcome, x, y).variance(new.visits, old.visits)
        deviations.append(np.sqrt(np.maximum(variance + starts.variance(x - y), 0.0)))
        freedoms.append(own.freedom(new.visits))
    limits = None if declared is None else (declared[0] - declared[1], declared[1] - declared[0])
    low, high = interval_bounds(
        ends[0], ends[1], (deviations[0], deviations[1]), np.minimum(*freedoms), alpha=alpha, limits=limits
    )
    low, high = _unbounded(low, high, declared, np.maximum(new.unsupported, old.unsupported))
    guess = starts.weights @ (new.centre[outcome] - old.centre[outcome])
    alike = act_alike(new, old)
    low, high, guess = (np.where(alike, 0.0, part) for part in (low, high, guess))
    return _inside(guess, low, high), low, high


def act_alike(new: Judged, old: Judged) -> BoolArray:
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
