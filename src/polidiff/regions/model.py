r"""A decision process over cells, estimated from played episodes (section 5.2 and appendix C of the paper, mended).

Between cells the current policy acts. Each episode assigns to every cell one of its offered actions at random, so that
every pair (cell, action) is seen and an episode behaves as one deterministic plan would. The total of rewards and
outcomes until the next cell belongs to the pair,

.. math:: T'(k' \mid k, a) = \frac{n(k, a, k')}{n(k, a)}, \qquad R'(k, a) = \frac{\sum r_{k,a:k'}}{n(k, a)},

what happens before the first cell is a constant offset, and staying in a cell is a self-loop.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from polidiff.parallel import run_tasks
from polidiff.policies import Policy, choose
from polidiff.records.arrays import AnyArray, FloatArray, IntArray
from polidiff.records.outcome import Outcome
from polidiff.regions.cells import Cells
from polidiff.worlds.rollouts import GainCounter, start_stepper
from polidiff.worlds.simulator import Simulator
from polidiff.worlds.tabular import TabularMDP

ENOUGH = 30  # visits of a pair below which it is not offered


@dataclass(frozen=True, eq=False)
class CellCounts:
    """What was seen of every pair; mergeable by addition."""

    moves: FloatArray  # (K, A, K + 1) next cell, the last column is the end
    gains: FloatArray  # (K, A, M) sums of outcomes until the next cell
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
class CellModel:
    """The table over cells, what it leaves out, and what comes before the first cell."""

    table: TabularMDP
    base: IntArray  # (K + 2,) current action of each cell; 0 where there is no choice
    offset: FloatArray  # (M,) expected outcomes before the first cell
    unseen: tuple[tuple[int, int], ...]  # (cell, action) offered by a candidate but hardly ever met


def count_cells(world: Simulator, current: Policy, cells: Cells, *, episodes: int, seed: int) -> CellCounts:
    """Play episodes with random assignments of actions to cells, and count."""
    size = world.chunk
    sizes = [min(size, episodes - cut) for cut in range(0, episodes, size)]
    tasks = [(world, current, cells, count, (seed, 51, k)) for k, count in enumerate(sizes)]
    parts = run_tasks(_count_chunk, tasks, what="roll-outs over regions")
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def _count_chunk(world: Simulator, current: Policy, cells: Cells, count: int, seed: tuple[int, ...]) -> CellCounts:
    kinds, actions, ends = len(cells.cells), world.n_actions, len(cells.cells)
    assigned = _assignments(cells, count, np.random.default_rng((*seed, 1)))
    stepper = start_stepper(world, count, seed)
    counter = GainCounter(world, count)
    moves, gains = np.zeros((kinds, actions, kinds + 1)), np.zeros((kinds, actions, counter.totals.shape[1]))
    first, offset = np.zeros(kinds + 1), np.zeros(counter.totals.shape[1])
    before = np.full(count, -1)  # cell of the last pair, −1 before the first
    taken = np.zeros(count, dtype=np.int64)
    since = np.zeros_like(counter.totals)  # totals when the last pair began

    def arrive(episodes: IntArray, here: IntArray) -> None:
        """Close the pair that led here (a cell, or the end) and begin the next."""
        new = before[episodes] < 0
        fresh, old = episodes[new], episodes[~new]
        np.add.at(first, here[new], 1.0)
        offset[:] += counter.totals[fresh].sum(axis=0)
        np.add.at(moves, (before[old], taken[old], here[~new]), 1.0)
        np.add.at(gains, (before[old], taken[old]), counter.totals[old] - since[old])
        since[episodes] = counter.totals[episodes]

    running, states = np.arange(count), np.array(stepper.states)
    luck = np.random.default_rng((*seed, 2))
    for _ in range(world.horizon):
        cell = cells.of(world.features_of(states))
        chosen = np.array(choose(current, states, lambda: luck.random(len(states))))  # noqa: B023
        inside = np.flatnonzero(cell >= 0)
        if inside.size:
            arrive(running[inside], cell[inside])
            chosen[inside] = assigned[running[inside], cell[inside]]
            before[running[inside]], taken[running[inside]] = cell[inside], chosen[inside]
        step = stepper.step(chosen, running)
        counter.add(states, chosen, step, running)
        over = step.terminated | step.truncated
        if over.any():
            arrive(running[over], np.full(int(over.sum()), ends))
        running, states = running[~over], step.next_states[~over]
        if not running.size:
            break
    arrive(running, np.full(len(running), ends))
    return CellCounts(moves, gains, first, offset, count)


def _assignments(cells: Cells, count: int, rng: np.random.Generator) -> IntArray:
    """One offered action for each cell of each episode, (count, K)."""
    table = np.zeros((count, len(cells.cells)), dtype=np.int64)
    for k, cell in enumerate(cells.cells):
        table[:, k] = rng.choice(np.array([cell.current, *cell.offered]), size=count)
    return table


def cell_model(world: Simulator, cells: Cells, counts: CellCounts) -> CellModel:
    """The estimated table: cells, an end, and a place for episodes that meet no cell."""
    kinds, actions = len(cells.cells), world.n_actions
    visits = counts.moves.sum(axis=2)
    allowed = np.zeros((kinds + 2, actions), dtype=np.bool_)
    base = np.zeros(kinds + 2, dtype=np.int64)
    unseen = []
    for k, cell in enumerate(cells.cells):
        base[k] = cell.current
        for action in (cell.current, *cell.offered):
            if visits[k, action] >= ENOUGH or action == cell.current:
                allowed[k, action] = True
            else:
                unseen.append((k, action))
    allowed[kinds, 0] = True
    moves = np.zeros((kinds + 2, actions, kinds + 2))
    seen = np.where(visits > 0, visits, 1.0)
    moves[:kinds, :, :kinds] = counts.moves[:, :, :kinds] / seen[:, :, None]
    moves[:kinds, :, kinds + 1] = counts.moves[:, :, kinds] / seen
    unvisited = np.argwhere(allowed[:kinds] & (visits == 0))
    moves[unvisited[:, 0], unvisited[:, 1], kinds + 1] = 1.0
    moves[kinds, 0, kinds + 1] = 1.0
    gains = np.zeros((kinds + 2, actions, counts.gains.shape[2]))
    gains[:kinds] = counts.gains / seen[:, :, None]
    offset = counts.offset / counts.episodes
    gains[kinds, 0] = 0.0
    initial = np.concatenate((counts.first, [0.0])) / counts.first.sum()
    return CellModel(_as_table(world, cells, moves, gains, initial, allowed), base, offset, tuple(unseen))


def _as_table(
    world: Simulator, cells: Cells, moves: FloatArray, gains: FloatArray, initial: FloatArray, allowed: AnyArray
) -> TabularMDP:
    kinds = len(cells.cells)
    return_at = next((m for m, o in enumerate(world.outcomes) if o.of == world.return_outcome.of), None)
    if return_at is None:
        raise AssertionError("the return is counted first")
    outcomes = [
        Outcome(o.name, gains[:, :, m], prefer=o.prefer, margin=o.margin, more=o.more, less=o.less, unit=o.unit)
        for m, o in enumerate(world.outcomes)
        if m != return_at
    ]
    return TabularMDP(
        moves,
        gains[:, :, return_at],
        initial,
        absorbing=[kinds + 1],
        actions=world.actions,
        states=[*(cell.name for cell in cells.cells), "no region", "end"],
        allowed=allowed,
        outcomes=outcomes,
        return_name=world.return_outcome.name,
    )
