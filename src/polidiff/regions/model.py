r"""A decision process over cells, estimated from played episodes (section 5.2 and appendix C of the paper, mended).

Between cells the current policy acts. Each episode assigns to every cell one of its offered actions at random, so that
every pair (cell, action) is seen and an episode behaves as one deterministic plan would. The total of rewards and
outcomes until the next cell belongs to the pair,

.. math:: T'(k' \mid k, a) = \frac{n(k, a, k')}{n(k, a)}, \qquad R'(k, a) = \frac{\sum r_{k,a:k'}}{n(k, a)},

what happens before the first cell is a constant offset, and staying in a cell is a self-loop.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from polidiff.policies import Policy
from polidiff.records.arrays import AnyArray, FloatArray, IntArray
from polidiff.records.outcome import Outcome
from polidiff.regions.cells import Cells
from polidiff.regions.playing import Assigned, CellCounts, count_assigned
from polidiff.streams import Stream
from polidiff.worlds.simulator import Simulator
from polidiff.worlds.tabular import TabularMDP

ENOUGH = 30  # visits of a pair below which it is not offered


@dataclass(frozen=True, eq=False)
class CellModel:
    """The table over cells, what it leaves out, and what comes before the first cell."""

    table: TabularMDP
    base: IntArray  # (K + 2,) current action of each cell; 0 where there is no choice
    offset: FloatArray  # (M,) expected outcomes before the first cell
    unseen: tuple[tuple[int, int], ...]  # (cell, action) offered by a candidate but hardly ever met


def count_cells(world: Simulator, current: Policy, cells: Cells, *, episodes: int, seed: int) -> CellCounts:
    """Play episodes with random assignments of actions to cells, and count; an episode that is cut has ended."""
    game = Assigned(
        world, current, partial(_cell_of, world, cells), partial(_assignments, cells), len(cells.cells),
        world.n_actions, cut_is_end=True,
    )  # fmt: skip
    return count_assigned(game, episodes=episodes, seed=(seed, Stream.REGION_GAMES), what="roll-outs over regions")


def _cell_of(world: Simulator, cells: Cells, states: AnyArray) -> IntArray:
    return cells.of(world.features_of(states))


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
