"""Episodes that follow an assignment of choices to cells, counted pair by pair.

Between cells the current policy acts. What every outcome gains until the next cell belongs to the pair (cell, choice);
what happens before the first cell is an offset.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial, reduce
from operator import add
from typing import Any

import numpy as np

from polidiff.parallel import run_tasks
from polidiff.policies import Policy, choose
from polidiff.records.arrays import FloatArray, IntArray
from polidiff.worlds.rollouts import GainCounter, is_stepped, seconds_of, start_stepper
from polidiff.worlds.simulator import Simulator


@dataclass(frozen=True, eq=False)
class CellCounts:
    """What was seen of every pair; mergeable by addition."""

    moves: FloatArray  # (K, C, K + 1) next cell, the last column is the end
    gains: FloatArray  # (K, C, M) sums of outcomes until the next cell
    first: FloatArray  # (K + 1,) first cell met, the last entry is none
    offset: FloatArray  # (M,) sums before the first cell
    episodes: int

    def __add__(self, other: CellCounts) -> CellCounts:
        return CellCounts(
            self.moves + other.moves,
            self.gains + other.gains,
            self.first + other.first,
            self.offset + other.offset,
            self.episodes + other.episodes,
        )


@dataclass(frozen=True, eq=False)
class Assigned:
    """How episodes choose: in a cell by their assignment, elsewhere as the current policy does."""

    world: Simulator
    current: Policy
    cell_of: Callable[[Any], IntArray]  # cell of each state, −1 outside
    draw: Callable[[int, np.random.Generator], IntArray]  # (episodes, K) choices
    as_now: IntArray  # (K,) the choice of each cell that leaves the current policy as it is; others are actions
    n_choices: int
    cut_is_end: bool  # whether an episode that was cut counts as ended
    horizon: int  # decisions after which episodes are cut


def count_assigned(game: Assigned, *, episodes: int, seed: tuple[int, ...], what: str) -> CellCounts:
    """Play and count."""
    size = game.world.chunk
    sizes = [min(size, episodes - cut) for cut in range(0, episodes, size)]
    world, tasks = game.world, [(game, n, (*seed, k)) for k, n in enumerate(sizes)]
    promise = None if is_stepped(world) else partial(seconds_of, world, game.current, size, seed, None)
    return reduce(add, run_tasks(_count_chunk, tasks, what=what, promise=promise))


@dataclass(eq=False)
class _Tally:
    """Counts of episodes that are under way."""

    counter: GainCounter
    counts: CellCounts
    before: IntArray = field(init=False)  # (episodes,) cell of the last pair, −1 before the first
    taken: IntArray = field(init=False)  # (episodes,) its choice
    since: FloatArray = field(init=False)  # (episodes, M) totals when it began

    def __post_init__(self) -> None:
        self.before = np.full(self.counts.episodes, -1)
        self.taken = np.zeros(self.counts.episodes, dtype=np.int64)
        self.since = np.zeros_like(self.counter.totals)

    def arrive(self, episodes: IntArray, here: IntArray) -> None:
        """Close the pair that led here: a cell, or the end."""
        counts, totals = self.counts, self.counter.totals
        new = self.before[episodes] < 0
        fresh, old = episodes[new], episodes[~new]
        pair = (self.before[old], self.taken[old])
        np.add.at(counts.first, here[new], 1.0)
        counts.offset[:] += totals[fresh].sum(axis=0)
        np.add.at(counts.moves, (*pair, here[~new]), 1.0)
        np.add.at(counts.gains, pair, totals[old] - self.since[old])
        self.since[episodes] = totals[episodes]

    def end(self, episodes: IntArray) -> None:
        """Close the pairs of episodes that are over."""
        self.arrive(episodes, np.full(len(episodes), len(self.counts.moves)))

    def begin(self, episodes: IntArray, cell: IntArray, choice: IntArray) -> None:
        """Open a pair in a cell."""
        self.arrive(episodes, cell)
        self.before[episodes], self.taken[episodes] = cell, choice


def _count_chunk(game: Assigned, count: int, seed: tuple[int, ...]) -> CellCounts:
    world = game.world
    assigned = game.draw(count, np.random.default_rng((*seed, 1)))
    stepper, counter = start_stepper(world, count, seed), GainCounter(world, count)
    tally = _Tally(counter, _nothing_yet(game, count, counter.totals.shape[1]))
    running, states = np.arange(count), np.array(stepper.states)
    luck = np.random.default_rng((*seed, 2))
    for _ in range(game.horizon):
        cell = game.cell_of(states)
        actions = np.array(choose(game.current, states, lambda: luck.random(len(states))))  # noqa: B023
        inside = np.flatnonzero(cell >= 0)
        choice = assigned[running[inside], cell[inside]]
        tally.begin(running[inside], cell[inside], choice)
        actions[inside] = np.where(choice == game.as_now[cell[inside]], actions[inside], choice)
        step = stepper.step(actions, running)
        counter.add(states, actions, step, running)
        over = step.terminated | step.truncated
        tally.end(running[over if game.cut_is_end else step.terminated])
        running, states = running[~over], step.next_states[~over]
        if not running.size:
            break
    if game.cut_is_end:
        tally.end(running)
    return tally.counts


def _nothing_yet(game: Assigned, episodes: int, outcomes: int) -> CellCounts:
    n_cells = len(game.as_now)
    shape = (n_cells, game.n_choices)
    return CellCounts(
        np.zeros((*shape, n_cells + 1)),
        np.zeros((*shape, outcomes)),
        np.zeros(n_cells + 1),
        np.zeros(outcomes),
        episodes,
    )
