"""A simulator as a table over the regions in which candidates differ (section 5.2 of the paper).

Candidates are compared with the current policy; their regions make disjoint cells; played episodes estimate a table
over cells. A plan of the table is lifted to edits of the current policy that act in its cells and nowhere else, and is
played with the same luck as the current policy: `model_gap` is the distance between table and world.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from polidiff.divergence import DivergenceOptions, find_divergence
from polidiff.evaluation.verdicts import rare_events
from polidiff.options import ImproveOptions
from polidiff.policies import PatchedPolicy, Policy, top_actions
from polidiff.progress import track
from polidiff.records.arrays import AnyArray, FloatArray, IntArray
from polidiff.records.outcome import Assumption, Interval
from polidiff.records.plan import Baseline, Frontier, HullPoint, Plan
from polidiff.records.rule import Rule
from polidiff.streams import Stream
from polidiff.surrogates.record import Explain, Note, RuleNote, told_of_world
from polidiff.surrogates.region_cells import RegionCells, parted_cells
from polidiff.surrogates.simulator_cells import (
    Assigned,
    CellCounts,
    PairedEpisodes,
    PlayEffort,
    count_assigned,
    effort_for,
    played_table,
)
from polidiff.surrogates.table import Surrogate
from polidiff.worlds.protocol import aim, world_summary
from polidiff.worlds.simulator import Simulator

ENOUGH = 30  # visits of a pair below which it is not offered
MOST_PLAYED = 60
TO_COUNT, TO_JUDGE = 0.4, 0.5  # of the effort


@dataclass(frozen=True, eq=False, kw_only=True)
class PlayedRegions(Surrogate):
    """A table over regions, what it leaves out, and what comes before the first region."""

    world: Simulator
    current: Policy
    cells: RegionCells
    offset: FloatArray  # (M,) expected outcomes before the first region
    unseen: tuple[tuple[int, int], ...]  # (cell, action) offered by a candidate but hardly ever met
    options: ImproveOptions
    effort: PlayEffort
    gains: dict[str, FloatArray] = field(default_factory=dict)  # of judged plans, by episode

    def judging(self, plans: int) -> PairedEpisodes:
        """Episodes that judge so many plans."""
        seed, share = (self.options.seed, Stream.JUDGING), TO_JUDGE / max(plans, 2)
        return PairedEpisodes(
            self.world, self.current, self.effort, share, seed, self.options.level,
            family=max(1, plans - 1), gains=self.gains,
        )  # fmt: skip

    @property
    def before(self) -> float:
        """What episodes return before the first region."""
        return float(self.offset[aim(self.world)[0]])

    def lift(self, plan: Plan) -> Plan:
        """Edits of cells as edits of states, with returns of the whole episode."""
        world, before = self.world, self.before
        chosen = plan.patch.choices
        names = [action.name for action in world.actions]
        patch = self.cells.patch(chosen, names, world.feature_names, world.features_of)
        main = world.outcomes[aim(world)[0]].name
        return replace(
            plan,
            patch=patch,
            policy=PatchedPolicy(self.current, patch),
            expected_return=plan.expected_return + before,
            outcomes={k: _moved(v, before if k == main else 0.0) for k, v in plan.outcomes.items()},
            bound=plan.bound + before,
            proven=False,
            adoption=tuple(replace(p, expected_return=p.expected_return + before) for p in plan.adoption),
        )

    def judge(self, plans: Sequence[Plan], explain: Explain | None) -> tuple[Plan, ...]:
        """Plans with what their episodes bring; of very many, the first and the best."""
        few = len(plans) <= MOST_PLAYED and not self.effort.clock.over()
        judging = self.judging(len(plans) if few else 2)
        best = max(plans, key=lambda plan: plan.expected_return)
        return tuple(
            judging.judge(plan, explain) if few or plan is plans[0] or plan is best else plan
            for plan in track("plans played in the world", list(plans))
        )

    def conclude(self, solved: Frontier, plans: tuple[Plan, ...]) -> Frontier:
        """Returns of the whole episode."""
        before, ledger, count = self.before, solved.ledger, len(self.cells.cells)
        method = f"table over {count} regions, plans played in the world with the same luck as the current policy"
        return replace(
            told_of_world(solved, plans, world_summary(self.world), method),
            hull=tuple(HullPoint(point.changes, point.expected_return + before) for point in solved.hull),
            baselines=tuple(
                Baseline(b.name, tuple((c, value + before) for c, value in b.points)) for b in solved.baselines
            ),
            ledger=None
            if ledger is None
            else replace(ledger, running=tuple(v if v is None else v + before for v in ledger.running)),
            outcomes=self.world.outcomes,
            optimum=solved.optimum + before,
            context=self,
        )

    def assumptions(self) -> tuple[Assumption, ...]:
        """What the episodes that judge may not have met."""
        return rare_events(self.gains)

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
        return (*unseen, *more)

    def places(self) -> dict[str, Rule]:
        """Each cell's conditions."""
        return {cell.name: cell.rule for cell in self.cells.cells}


def reduce_to_regions(
    world: Simulator, current: Policy, candidates: Sequence[Policy], options: ImproveOptions
) -> PlayedRegions:
    """The table over regions of the candidates."""
    parted = [find_divergence(world, current, one, DivergenceOptions(), seed=options.seed) for one in candidates]
    seen = np.concatenate([one.features for one in parted])
    cells = parted_cells(parted, world, seen, options.freeze, options.seed)
    effort = effort_for(world, current, time_limit=options.time_limit, seed=options.seed)
    counts = count_cells(world, current, cells, episodes=effort.episodes(TO_COUNT, 4.0), seed=options.seed)
    allowed, unseen = _offered(world, cells, counts)
    table = played_table(world, counts, allowed, world.actions, [cell.name for cell in cells.cells])
    base = np.array([*(cell.current for cell in cells.cells), 0, 0], dtype=np.int64)
    return PlayedRegions(
        world=world,
        table=table,
        base=base,
        offered=allowed,
        current=current,
        cells=cells,
        offset=counts.offset / counts.episodes,
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
    return count_assigned(game, episodes=episodes, seed=(seed, Stream.REGION_GAMES), what="roll-outs over regions")


def _cell_of(world: Simulator, current: Policy, cells: RegionCells, states: AnyArray) -> IntArray:
    return cells.of(world.features_of(states), top_actions(current.probabilities(states)))


def _assignments(cells: RegionCells, count: int, rng: np.random.Generator) -> IntArray:
    """One offered action for each cell of each episode, (count, K)."""
    table = np.zeros((count, len(cells.cells)), dtype=np.int64)
    for k, cell in enumerate(cells.cells):
        table[:, k] = rng.choice(np.array([cell.current, *cell.offered]), size=count)
    return table


def _offered(world: Simulator, cells: RegionCells, counts: CellCounts) -> tuple[AnyArray, tuple[tuple[int, int], ...]]:
    """(K + 2, A) actions that were met often enough, and the pairs that were not."""
    kinds, visits = len(cells.cells), counts.moves.sum(axis=2)
    allowed = np.zeros((kinds + 2, world.n_actions), dtype=np.bool_)
    unseen = []
    for k, cell in enumerate(cells.cells):
        for action in (cell.current, *cell.offered):
            if visits[k, action] >= ENOUGH or action == cell.current:
                allowed[k, action] = True
            else:
                unseen.append((k, action))
    allowed[kinds, 0] = True
    return allowed, tuple(unseen)


def _moved(interval: Interval, by: float) -> Interval:
    return Interval(interval.estimate + by, interval.low + by, interval.high + by, interval.level)
