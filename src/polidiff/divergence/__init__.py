"""Diverging states: where two policies act differently and it matters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from polidiff.options import ExplainOptions
from polidiff.policies import PolicyLike, top_actions
from polidiff.records.action import Action, Shift, Swap
from polidiff.records.arrays import AnyArray, BoolArray, FloatArray, IntArray
from polidiff.records.explanation import IDLE
from polidiff.worlds.protocol import World, by_kind

__all__ = ["Divergence", "find_divergence"]


MOSTLY = 0.9  # chance from which on an action stands for what a policy does
RISES = 0.1  # rise of a chance that is worth telling


@dataclass(frozen=True, eq=False)
class Divergence:
    """Visited states, and what the two policies do there."""

    states: AnyArray  # (n, …) as the policies see them
    features: AnyArray  # (n, d) as rules see them
    label: IntArray  # (n,) 0 where they agree, else 1 + index into `swaps`
    swaps: tuple[Swap, ...]  # in order of first meeting
    current: IntArray  # (n,) most probable action of the current policy
    proposed: IntArray  # (n,) of the proposed one
    weight: FloatArray  # (n,) share of visits, sums to 1: what rules are fitted to
    judged: FloatArray  # (n,) share of visits of ½ current + ½ proposed: what quality is measured by
    episode: IntArray  # (n,) episode of the visit, −1 for states of a table
    first: FloatArray  # (n,) decisions made before it in its episode; NaN for states of a table
    chances: tuple[FloatArray, FloatArray]  # (n,) each: of `current` under its policy, of `proposed` under its own
    facts: Mapping[str, str | float | int] = field(default_factory=dict)

    @property
    def diverging(self) -> BoolArray:
        """(n,) whether the state diverges."""
        return self.label > 0

    @property
    def sampled(self) -> bool:
        """Whether visits are those of episodes, not all states of a table."""
        return bool((self.episode >= 0).all())

    @property
    def mean_length(self) -> float:
        """Decisions per episode among the visits that judge; NaN where no episode was played."""
        return float(np.count_nonzero(self.judged) / self.facts.get("episodes", np.nan))  # type: ignore[operator]


@dataclass(frozen=True, eq=False)
class Decided:
    """What two policies do in some states, and how surely."""

    current: IntArray  # (n,) most probable action of the current policy
    proposed: IntArray  # (n,)
    chances: tuple[FloatArray, FloatArray]  # (n,) each, of these actions

    def take(self, rows: IntArray) -> Decided:
        """Some of the states."""
        return Decided(self.current[rows], self.proposed[rows], (self.chances[0][rows], self.chances[1][rows]))

    def differ(self, tolerance: float) -> BoolArray:
        """(n,) whether other actions are taken, or the same ones with other chances."""
        return np.asarray((self.current != self.proposed) | (np.abs(self.chances[0] - self.chances[1]) > tolerance))


def decide(old: FloatArray, new: FloatArray, by_chance: FloatArray | float = 0.0, *, mostly: float = MOSTLY) -> Decided:
    """Top actions of chances (n, A); current ones that tie, or are no further apart than `by_chance`, follow the new.

    An action that the new policy takes only at times does not stand for all it does: it is told as taken more often.

    >>> decide(np.array([[0.49, 0.51]]), np.array([[1.0, 0.0]]), by_chance=0.1).current
    array([0])
    >>> decide(np.array([[0.0, 1.0]]), np.array([[0.6, 0.4]])).chances
    (array([0.]), array([0.6]))
    """
    rows, current = np.arange(len(old)), top_actions(old)
    proposed = top_actions(new, prefer=current)
    before, after = old[rows, proposed], new[rows, proposed]
    follows = (before >= old[rows, current] - by_chance) | ((after < mostly) & (after - before > RISES))
    current = np.where(follows, proposed, current)
    return Decided(current, proposed, (old[rows, current], after))


def labelled(
    decided: Decided, differs: BoolArray, actions: Sequence[Action], changed: FloatArray | None = None, **columns: Any
) -> Divergence:
    """Where states `differ`, with their other `columns`; swaps are numbered in order of first meeting.

    Of decisions that the proposed policy's own episodes change (n,), it is a fact how many are in no such state.

    One registry, keyed (current action, proposed action). The same action with another probability is a swap of its
    own, told by the mean probabilities before and after.
    """
    current, proposed, shifts = decided.current, decided.proposed, decided.chances
    names = [action.name for action in actions]
    key = current * len(names) + proposed
    where = np.flatnonzero(differs)
    label = np.zeros(len(current), dtype=np.int64)
    swaps: list[Swap] = []
    up = shifts[1] > shifts[0]
    for k in dict.fromkeys(key[where].tolist()):
        b, e = divmod(k, len(names))
        if b != e:
            swaps.append(Swap(names[b], names[e]))
            label[where[key[where] == k]] = len(swaps)
            continue
        for rises in (True, False):
            rows = where[(key[where] == k) & (up[where] == rises)]
            if rows.size:
                shift = Shift(float(shifts[0][rows].mean()), float(shifts[1][rows].mean()))
                swaps.append(Swap(names[b], names[b], shift=shift))
                label[rows] = len(swaps)
    if changed is not None and changed[~differs].any():
        columns["facts"] = {**columns["facts"], IDLE: float(changed[~differs].sum() / changed.sum())}
    return Divergence(label=label, swaps=tuple(swaps), current=current, proposed=proposed, chances=shifts, **columns)


@by_kind
def find_divergence(
    world: World,
    current: PolicyLike,
    proposed: PolicyLike,
    options: ExplainOptions,
    *,
    unsure: BoolArray | None = None,
) -> Divergence:
    """Where two policies part: in every state of a table, along roll-outs of a simulator, in every row of a log.

    In states of a table that are `unsure` (S,) another action counts, though nothing is seen to follow. In paper style
    most probable next states are compared, and outcomes ignored.
    """
    raise NotImplementedError
