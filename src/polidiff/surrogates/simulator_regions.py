"""A simulator as a table over the regions in which candidates differ (section 5.2 of the paper).

Candidates are compared with the current policy; their regions make disjoint cells; played episodes estimate a table
over cells. A plan of the table is lifted to edits of the current policy that act in its cells and nowhere else, and is
played with the same luck as the current policy: `model_gap` is the distance between table and world.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from polidiff.divergence import find_divergence
from polidiff.options import ExplainOptions, ImproveOptions
from polidiff.policies import Policy, top_actions
from polidiff.progress import track
from polidiff.records.arrays import AnyArray, IntArray
from polidiff.records.plan import Frontier, Plan
from polidiff.records.rule import Rule
from polidiff.streams import Stream
from polidiff.surrogates.record import Note, RuleNote, told_of_world
from polidiff.surrogates.region_cells import RegionCells, parted_cells
from polidiff.surrogates.simulator_cells import (
    OTHERS,
    Assigned,
    CellCounts,
    PlayedCells,
    count_assigned,
    effort_for,
    played_table,
)
from polidiff.worlds.protocol import world_summary
from polidiff.worlds.simulator import Simulator

ENOUGH = 30  # visits of a pair below which it is not offered
MOST_PLAYED = 60
TO_COUNT, TO_JUDGE = 0.4, 0.5  # of the effort


@dataclass(frozen=True, eq=False, kw_only=True)
class PlayedRegions(PlayedCells):
    """A table over regions, and what it leaves out."""

    cells: RegionCells
    unseen: tuple[tuple[int, int], ...]  # (cell, action) offered by a candidate but hardly ever met

    def lift(self, plan: Plan) -> Plan:
        """Edits of cells as edits of states."""
        names = [action.name for action in self.world.actions]
        patch = self.cells.patch(plan.patch.choices, names, self.world.feature_names, self.world.features_of)
        return self.with_patch(plan, patch)

    def judge(self, plans: Sequence[Plan]) -> tuple[Plan, ...]:
        """Plans with what their episodes bring; of very many, the first and the best."""
        few = len(plans) <= MOST_PLAYED and not self.effort.clock.over()
        count = len(plans) if few else 2
        judging = self.episodes(TO_JUDGE / max(count, 2), Stream.JUDGING, family=max(1, count - 1))
        best = max(plans, key=lambda plan: plan.expected_return)
        return tuple(
            judging.judge(plan) if few or plan is plans[0] or plan is best else plan
            for plan in track("plans played in the world", list(plans))
        )

    def conclude(self, solved: Frontier, plans: tuple[Plan, ...]) -> Frontier:
        """The world in place of its regions."""
        count = len(self.cells.cells)
        method = f"table over {count} regions, plans played in the world with the same luck as the current policy"
        frontier = told_of_world(solved, plans, world_summary(self.world), method)
        return replace(frontier, outcomes=self.world.outcomes, context=self)

    def notes(self, plans: Sequence[Plan]) -> tuple[Note, ...]:
        """What was hardly ever met, and plans that change more than was wanted."""
        names, budget = [action.name for action in self.world.actions], self.options.budget
        unseen = [
            RuleNote(names[a], self.cells.cells[k].rule, "was hardly ever met and is not offered.")
            for k, a in self.unseen
        ]
        over = [plan.changes for plan in plans if budget is not None and plan.changes > 1.05 * budget]
        more = [
            f"Played, a plan changes {changes:.4g} decisions per episode; {budget:g} were allowed." for changes in over
        ]
        return (*unseen, *more, *self.hurried())

    def places(self) -> dict[str, Rule]:
        """Each cell's conditions."""
        return {cell.name: cell.rule for cell in self.cells.cells}


def reduce_to_regions(
    world: Simulator, current: Policy, candidates: Sequence[Policy], options: ImproveOptions
) -> PlayedRegions:
    """The table over regions of the candidates."""
    parted = [find_divergence(world, current, one, ExplainOptions(seed=options.seed)) for one in candidates]
    seen = np.concatenate([one.features for one in parted])
    cells = parted_cells(parted, world, seen, options.freeze, options.seed)
    effort = effort_for(world, current, time_limit=options.time_limit, seed=options.seed)
    counts = count_cells(world, current, cells, episodes=effort.episodes(TO_COUNT, 4.0), seed=options.seed)
    allowed, unseen = _offered(world, cells, counts)
    table = played_table(world, counts, allowed, world.actions, [cell.name for cell in cells.cells])
    base = np.array([*(cell.current for cell in cells.cells), *[world.n_actions - 1] * OTHERS])
    return PlayedRegions(
        world=world,
        table=table,
        base=base,
        offered=table.allowed,
        current=current,
        cells=cells,
        counts=counts,
        unseen=unseen,
        options=options,
        effort=effort,
    )


def count_cells(world: Simulator, current: Policy, cells: RegionCells, *, episodes: int, seed: int) -> CellCounts:
    """Play episodes with random assignments of actions to cells, and count; an episode that is cut has ended."""
    as_now = np.array([cell.current for cell in cells.cells])
    game = Assigned(
        world, current, partial(_cell_of, world, current, cells), partial(_assignments, cells), as_now,
        world.n_actions, cut_is_end=True, horizon=world.horizon,
    )  # fmt: skip
    return count_assigned(game, episodes=episodes, seed=(seed, Stream.REGION_GAMES), what="roll-outs over regions")[0]


def _cell_of(world: Simulator, current: Policy, cells: RegionCells, states: AnyArray) -> IntArray:
    return cells.of(world.features_of(states), top_actions(current.probabilities(states)))


def _assignments(cells: RegionCells, count: int, rng: np.random.Generator) -> IntArray:
    """One offered action for each cell of each episode, (count, K)."""
    return np.column_stack([rng.choice(np.array([cell.current, *cell.offered]), size=count) for cell in cells.cells])


def _offered(world: Simulator, cells: RegionCells, counts: CellCounts) -> tuple[AnyArray, tuple[tuple[int, int], ...]]:
    """(K, A) actions that were met often enough, and the pairs that were not."""
    visits = counts.moves.sum(axis=2)
    allowed = np.zeros((len(cells.cells), world.n_actions), dtype=np.bool_)
    allowed[np.arange(len(allowed)), [cell.current for cell in cells.cells]] = True
    pairs = [(k, action) for k, cell in enumerate(cells.cells) for action in cell.offered]
    for pair in pairs:
        allowed[pair] = visits[pair] >= ENOUGH
    return allowed, tuple(pair for pair in pairs if not allowed[pair])
