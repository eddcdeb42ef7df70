r"""A log as counts: all that a model of the world needs, and small.

.. math:: n_b(s, a, s'), \qquad \sum_{i \in (b, s, a, s')} g_i, \qquad \sum_{i \in (b, s, a, s')} g_i^2

per block of episodes :math:`b`. Blocks are what the bootstrap resamples and what splits a log into a part that chooses
and a part that judges. The end of an episode is state number S; a row whose successor was not recorded leads to number
S + 1. Such a row did *not* end, and leaving it out would make ends too frequent: it counts as one of its pair's other
moves, in the shares in which these were seen. A pair whose only recorded moves are ends cannot say where the others
lead, and is taken as not seen.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from polidiff.evaluation.verdicts import ROUNDING
from polidiff.records.arrays import BoolArray, FloatArray, IntArray
from polidiff.worlds.shards.transition_counts import Entries, TransitionCounts

if TYPE_CHECKING:
    from polidiff.worlds.log import Log
    from polidiff.worlds.log_rows import LoggedRows

HALVES, BLOCKS = 2, 200  # to choose and to judge; to resample


@dataclass(frozen=True, eq=False)
class Counts:
    """One entry per distinct (block, s, a, s')."""

    n_states: int  # the end is number n_states
    n_actions: int
    n_blocks: int
    block: IntArray  # (m,)
    state: IntArray  # (m,)
    action: IntArray  # (m,)
    to: IntArray  # (m,) n_states at the end, n_states + 1 where it was not recorded
    count: FloatArray  # (m,)
    sums: FloatArray  # (m, K) of each outcome over the rows of the entry
    squares: FloatArray  # (m, K) of its square
    starts: FloatArray  # (blocks, S) episodes that begin in each state
    copies: int = 1  # states in a row that are counted from the same decisions

    def part(self, blocks: BoolArray) -> Counts:
        """The episodes of some blocks (n_blocks,) only."""
        keep = blocks[self.block]
        names = ("block", "state", "action", "to", "count", "sums", "squares")
        parts = {name: getattr(self, name)[keep] for name in names}
        return replace(self, **parts, starts=np.where(blocks[:, None], self.starts, 0.0))

    def halves(self) -> tuple[Counts, Counts]:
        """Even and odd blocks: one part to choose a plan, the other to judge it."""
        even = np.arange(self.n_blocks) % 2 == 0
        return self.part(even), self.part(~even)

    @cached_property
    def edges(self) -> Edges:
        """The same without blocks."""
        return Edges.merge(self)

    @property
    def cut(self) -> int:
        """Rows whose successor was not recorded."""
        return int(self.count[self.to == self.n_states + 1].sum())

    @property
    def n_outcomes(self) -> int:
        """How many outcomes are summed."""
        return int(self.sums.shape[1])


@dataclass(frozen=True, eq=False)
class Edges:
    """Distinct transitions (s, a, s') of a log; a row is a distinct pair (s, a)."""

    n_states: int
    state: IntArray  # (m,)
    to: IntArray  # (m,) n_states at the end
    row: IntArray  # (m,) index of the pair
    count: FloatArray  # (m,) with its part of the rows whose successor was not recorded
    sums: FloatArray  # (m, K)
    squares: FloatArray  # (m, K)
    pair_state: IntArray  # (R,)
    pair_action: IntArray  # (R,)
    pair_seen: FloatArray  # (R,) rows whose successor was recorded
    visits: FloatArray  # (S, A) times each pair was seen; 0 where it cannot say where it leads
    dropped: FloatArray  # (S,) rows of pairs that cannot say where they lead
    starts: FloatArray  # (S,)
    used: BoolArray  # (entries of the counts,) whether an entry is part of an edge
    entry: IntArray  # (used entries,) edge of each
    scale: FloatArray  # (used entries,) what it counts for
    copies: int = 1  # states in a row that are counted from the same decisions

    @property
    def drawn(self) -> bool:
        """Whether an outcome comes by chance at one transition, or never came at all."""
        spread = self.squares - self.sums**2 / np.maximum(self.count, 1.0)[:, None]
        return bool((spread > ROUNDING * (1 + self.squares)).any() or (self.squares.sum(axis=0) == 0).any())

    @classmethod
    def merge(cls, counts: Counts) -> Edges:
        """Sum over blocks."""
        size, shape = counts.n_states * counts.n_actions, (counts.n_states, counts.n_actions, counts.n_states + 2)
        pair = counts.state * counts.n_actions + counts.action
        lost, goes_on = counts.to == counts.n_states + 1, counts.to < counts.n_states
        rows, cut, moved = (np.bincount(pair, counts.count * m, size).astype(float) for m in (1.0, lost, goes_on))
        blind = (cut > 0) & (moved == 0)
        used = ~lost & ~blind[pair]
        share = 1 + cut / np.maximum(moved, 1)
        scale = np.where(goes_on, share[pair], 1.0)[used]
        key = np.ravel_multi_index((counts.state[used], counts.action[used], counts.to[used]), shape)
        unique, entry = np.unique(key, return_inverse=True)
        state, action, to = np.unravel_index(unique, shape)
        pairs, row = np.unique(state * counts.n_actions + action, return_inverse=True)
        count, sums, squares = (
            _sum_by(entry, scale[:, None] * part[used], len(unique))
            for part in (counts.count[:, None], counts.sums, counts.squares)
        )
        grid = (counts.n_states, counts.n_actions)
        return cls(
            counts.n_states,
            state,
            to,
            row,
            count[:, 0],
            sums,
            squares,
            pairs // counts.n_actions,
            pairs % counts.n_actions,
            np.asarray(rows - cut, dtype=np.float64)[pairs],
            np.where(blind, 0.0, rows).reshape(grid),
            np.where(blind, rows, 0.0).reshape(grid).sum(axis=1),
            counts.starts.sum(axis=0),
            used,
            entry,
            scale,
            counts.copies,
        )

    @property
    def pair_visits(self) -> FloatArray:
        """(R,) times each pair was seen."""
        return self.visits[self.pair_state, self.pair_action]

    @property
    def made(self) -> FloatArray:
        """(S / copies, A) times each decision was made: copies of it count once."""
        return np.asarray(self.visits.reshape(-1, self.copies, self.visits.shape[1]).max(axis=1))

    @cached_property
    def state_visits(self) -> FloatArray:
        """(S,) times each state was left."""
        return np.asarray(self.visits.sum(axis=1))

    @property
    def ends(self) -> BoolArray:
        """(m,) whether the transition ends the episode."""
        return self.to == self.n_states


def count_log(log: Log, *, blocks: int = BLOCKS) -> Counts:
    """Counts of a log with discrete states; of two blocks, they are there since the log was read."""
    read = log.summary(blocks=blocks)
    assert log.state_labels is not None
    state, action = log.state_labels.numbers_of(read.states), log.action_labels.numbers_of(read.actions)
    starts = np.zeros((blocks, log.n_states))
    block, begun, _, _ = read.starts.parts
    starts[block, state[begun]] = read.starts.count
    return as_counts(log.n_states, log.n_actions, read.entries.renumbered(state, action), starts)


def count_rows(rows: LoggedRows, state: IntArray, n_states: int, n_actions: int, *, blocks: int = BLOCKS) -> Counts:
    """Counts of rows in memory whose states (or cells) are numbered by `state` (n,)."""
    counted, starts = TransitionCounts(blocks, rows.gains.shape[1]), np.zeros((blocks, n_states))
    add_rows(counted, starts, rows, state, rows.turn % blocks)
    return as_counts(n_states, n_actions, counted.entries(), starts)


def add_rows(counted: TransitionCounts, starts: FloatArray, rows: LoggedRows, state: IntArray, block: IntArray) -> None:
    """Count the transitions and starts of rows in states (n,), whose episodes were dealt to blocks (n,)."""
    to = np.where(rows.follow >= 0, np.append(state, 0)[rows.follow], rows.follow)
    counted.add_rows(block, np.asarray(state, dtype=np.int64), rows.actions, to, np.ascontiguousarray(rows.gains.T))
    np.add.at(starts, (block[rows.first], state[rows.first]), 1.0)


def as_counts(n_states: int, n_actions: int, entries: Entries, starts: FloatArray) -> Counts:
    """Counts in the order of block, state, action and successor; the end comes after all states."""
    block, state, action, to = entries.parts
    to[to < 0] = n_states - 1 - to[to < 0]
    sums, squares = entries.sums[:, 1::2], entries.sums[:, 2::2]
    return Counts(n_states, n_actions, len(starts), block, state, action, to, entries.count, sums, squares, starts)


@dataclass(frozen=True)
class FixedLength:
    """Episodes that end after some decisions: those of a state count together, whenever they are made.

    A state is numbered state × steps + step. Decisions before the last speak for all of them; with `tail` they show as
    well what a last one brings.
    """

    steps: int
    tail: bool

    def halved(self, states: IntArray, size: int) -> IntArray:
        """(n,) numbers below `size` for states × steps + step, and from there on for last decisions."""
        state, step = np.divmod(states, self.steps)
        return np.asarray(state + size * (step == self.steps - 1))

    def copies(self, state: IntArray, to: IntArray, begun: IntArray, size: int) -> tuple[IntArray, IntArray, IntArray]:
        """Rows of halved states, each at every step at which its state can be met: rows, states, successors.

        Episodes begin in the states `begun`; a successor may be the end (2 × size), or cut (one more).
        """
        early, met, parts = state < size, np.isin(np.arange(size), begun), []
        for step in range(self.steps):
            last = step == self.steps - 1
            rows = np.flatnonzero((~early | (self.tail & (to <= 2 * size)) if last else early) & met[state % size])
            goes_on = (to[rows] < 2 * size) & (not last)
            end = np.where(last, size * self.steps, to[rows] + size * (self.steps - 2))
            ahead = np.where(goes_on, to[rows] % size * self.steps + step + 1, end)
            parts.append((rows, state[rows] % size * self.steps + step, ahead))
            met = np.isin(np.arange(size), to[rows[goes_on]] % size)
        index, here, after = (np.concatenate(part) for part in zip(*parts, strict=True))
        return index, here, after

    def counts(self, rows: LoggedRows, n_states: int, n_actions: int, blocks: int) -> Counts:
        """Counts of rows over states × steps + step."""
        size = n_states // self.steps
        halved = count_rows(rows, self.halved(rows.states, size), 2 * size, n_actions, blocks=blocks)
        index, state, to = self.copies(halved.state, halved.to, np.flatnonzero(halved.starts.any(axis=0)), size)
        same = {name: getattr(halved, name)[index] for name in ("block", "action", "count", "sums", "squares")}
        starts = np.zeros((blocks, n_states))
        starts[:, :: self.steps] = halved.starts[:, :size]
        return replace(halved, n_states=n_states, state=state, to=to, **same, starts=starts, copies=self.steps)


def _sum_by(index: IntArray, values: FloatArray, size: int) -> FloatArray:
    return np.column_stack([np.bincount(index, values[:, j], size) for j in range(values.shape[1])])
