r"""A table over the cells of a grid, estimated from played episodes.

In every cell one may do as now or take one action throughout. Each episode follows a plan over cells, except that it
draws another choice for a few of them, so that choices are seen near where the plan leads:

.. math:: \hat T(k' \mid k, c) = \frac{n(k, c, k')}{n(k, c)}, \qquad \hat R(k, c) = \frac{\sum r_{k, c}}{n(k, c)}.

An episode that is cut at the horizon H has not ended; the table is discounted by 1 − 1/H instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from polidiff.frontier.rule_plans.grid import Grid
from polidiff.policies import Policy
from polidiff.records.arrays import FloatArray, IntArray
from polidiff.records.outcome import Outcome
from polidiff.records.rule import Rule, covers_any
from polidiff.regions.playing import Assigned, CellCounts, count_assigned
from polidiff.worlds.simulator import Simulator
from polidiff.worlds.tabular import TabularMDP

AS_NOW = "as now"
RATES = (0.02, 0.1, 0.3)  # share of cells in which an episode draws another choice


@dataclass(frozen=True, eq=False)
class Ground:
    """Where plans over cells are played."""

    world: Simulator
    current: Policy
    grid: Grid
    frozen: tuple[Rule, ...] = ()

    def cells(self, states: FloatArray) -> IntArray:
        """Cell of each state, −1 where nothing may change."""
        features = self.world.features_of(states)
        cell = self.grid.of(np.asarray(features, dtype=np.float64))
        return np.where(covers_any(self.frozen, features), -1, cell) if self.frozen else cell


def count_near(ground: Ground, plan: IntArray, *, episodes: int, seed: tuple[int, ...]) -> CellCounts:
    """Play near a plan (K,) of choices (an action, or one past the last for "as now"), and count."""
    as_now = ground.world.n_actions
    game = Assigned(
        ground.world, ground.current, ground.cells, partial(_drawn, plan, as_now), len(plan), as_now + 1,
        cut_is_end=False,
    )  # fmt: skip
    return count_assigned(game, episodes=episodes, seed=seed, what="roll-outs over cells")


def _drawn(plan: IntArray, as_now: int, count: int, rng: np.random.Generator) -> IntArray:
    """(count, K) choice of each episode in each cell."""
    rate = rng.choice(np.array(RATES), size=(count, 1))
    other = rng.integers(0, as_now + 1, size=(count, len(plan)))
    return np.where(rng.random((count, len(plan))) < rate, other, plan[None, :])


def cell_table(ground: Ground, counts: CellCounts, least: int) -> TabularMDP:
    """The estimated table: cells, "elsewhere" and the end; choices seen fewer than `least` times are not offered."""
    world, cells, choices = ground.world, ground.grid.size, ground.world.n_actions + 1
    visits = counts.moves.sum(axis=2)
    seen = np.maximum(visits, 1.0)[:, :, None]
    moves = np.zeros((cells + 2, choices, cells + 2))
    moves[:cells, :, :cells] = counts.moves[:, :, :cells] / seen
    moves[:cells, :, cells + 1] = counts.moves[:, :, cells] / seen[:, :, 0]
    moves[:cells, :, cells + 1][visits == 0] = 1.0
    moves[cells, :, cells + 1] = 1.0
    gains = np.zeros((cells + 2, choices, counts.gains.shape[2]))
    gains[:cells] = counts.gains / seen
    allowed = np.zeros((cells + 2, choices), dtype=np.bool_)
    allowed[:cells] = visits >= least
    allowed[:, -1] = True
    codes = np.vstack([ground.grid.codes, ground.grid.codes[:1], ground.grid.codes[:1]])
    main = next(m for m, outcome in enumerate(world.outcomes) if outcome.name == world.return_outcome.name)
    return TabularMDP(
        moves, gains[:, :, main], np.append(counts.first, 0.0) / counts.first.sum(), absorbing=[cells + 1],
        actions=[*(action.name for action in world.actions), AS_NOW], features=codes,
        feature_names=list(ground.grid.names), allowed=allowed, discount=1 - 1 / world.horizon,
        outcomes=_told(world.outcomes, gains, main), return_name=world.return_outcome.name,
    )  # fmt: skip


def _told(outcomes: Sequence[Outcome], gains: FloatArray, main: int) -> list[Outcome]:
    return [
        Outcome(o.name, gains[:, :, m], prefer=o.prefer, margin=o.margin, more=o.more, less=o.less, unit=o.unit)
        for m, o in enumerate(outcomes)
        if m != main
    ]
