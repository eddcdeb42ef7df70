r"""A log of feature rows as edits of the regions in which candidates differ: every cell of a region changes together.

The regions of all candidates make disjoint cells, as in a simulator; finer cells under them carry the model. With
:math:`\bar\pi(c)` the current policy's average in cell c and :math:`\Delta_e(c)` what the rows of c that edit e acts on
would do otherwise, a plan E is the policy

.. math:: \pi_E(a \mid c) = \bar\pi(a \mid c) + \sum_{e \in E} \Delta_e(a, c), \qquad
          C(E) = \sum_c x_E(c) \sum_{e \in E} \lambda_e(c),

with :math:`\lambda_e(c)` the share of those rows and :math:`x_E` the plan's visits. Regions are disjoint, so effects of
edits on the policy add up, and a plan costs one small linear solve. This is no table; `solve` works out every plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from polidiff.divergence import find_divergence
from polidiff.evaluation.logged.counted_log import CountedLog, counted_log
from polidiff.evaluation.logged.model import build_model, split_policy
from polidiff.evaluation.logged.plan import MIN_GROUP, MIN_SUPPORT, choose_and_judge
from polidiff.evaluation.logged.policies import as_log_policy
from polidiff.options import ExplainOptions, ImproveOptions
from polidiff.policies import PatchedPolicy, Policy, one_hot, top_actions
from polidiff.policies.protocol import Candidates, PolicyLike
from polidiff.records.arrays import FloatArray, IntArray
from polidiff.records.numbers import percent
from polidiff.records.plan import Frontier, Plan
from polidiff.records.rule import Rule
from polidiff.surrogates.log_halves import LogHalves
from polidiff.surrogates.record import (
    GuardRoom,
    Note,
    RuleNote,
    Solver,
    guard_rooms,
    least_records,
    listed_candidates,
)
from polidiff.surrogates.region_cells import RegionCells, parted_cells
from polidiff.worlds.log import Log
from polidiff.worlds.log_check import rare_words
from polidiff.worlds.protocol import aim

MOST_UNTRIED = 0.05  # share of a region's rows in cells where nobody took an action, beyond which it is not offered


@dataclass(frozen=True, eq=False)
class RegionEdit:
    """One action in one region, in place of the current one."""

    region: int
    current: int
    proposed: int
    acts: FloatArray  # (S,) share of each cell's rows on which it acts
    shift: FloatArray  # (S, A) what it adds to the policy's averages
    tried: int  # rows of the region in which its action was taken
    episodes: int  # blocks of episodes among which these are spread: at least as many people
    untried: float  # share of its rows in cells where nobody took its action


@dataclass(frozen=True)
class RegionValue:
    """What a plan is worth in the model of the half that chooses."""

    outcomes: FloatArray  # (K,)
    changes: float


def _region_edit(
    half: CountedLog, region: int, where: IntArray, top: IntArray, chances: FloatArray, proposed: int, current: int
) -> RegionEdit:
    """The edit of rows in a region (`where` (n,) is the region of each row) whose current top action is `current`.

    `chances` (n, A) is the current policy on the logged rows, `top` its most probable actions.
    """
    cell, edges = half.row_state(), half.counts.edges
    size = np.maximum(np.bincount(cell, minlength=edges.n_states), 1)
    acting = (where == region) & (top == current)
    new = one_hot(np.full(int(acting.sum()), proposed), chances.shape[1]) - chances[acting]
    shift = np.column_stack([np.bincount(cell[acting], column, edges.n_states) for column in new.T]) / size[:, None]
    acts = np.bincount(cell[acting], minlength=edges.n_states) / size
    there = acts > 0
    weight = acts * edges.state_visits
    entries = there[half.counts.state] & (half.counts.action == proposed)
    return RegionEdit(
        region,
        current,
        proposed,
        acts,
        shift,
        tried=int(edges.visits[there, proposed].sum()),
        episodes=len(np.unique(half.counts.block[entries])),
        untried=float(weight[edges.visits[:, proposed] == 0].sum() / max(weight.sum(), 1e-300)),
    )


def _region_value(
    half: CountedLog, base: FloatArray, edits: Sequence[RegionEdit], ends: FloatArray, *, discount: float
) -> RegionValue:
    """Outcomes and changes of a plan from the logged starts; decisions nobody took count as their cell's average."""
    edges = half.counts.edges
    table = base + sum((edit.shift for edit in edits), start=np.zeros(base.shape))
    acts = sum((edit.acts for edit in edits), start=np.zeros(len(base)))
    model = build_model(edges, split_policy(np.clip(table, 0.0, 1.0), None), discount=discount, lend=True)
    starts = edges.starts / edges.starts.sum()
    outcomes = np.array([starts @ model.values(k, float(end)) for k, end in enumerate(ends)])
    return RegionValue(outcomes, float(model.visits(starts[None])[0] @ acts))


@dataclass(frozen=True, eq=False, kw_only=True)
class RegionEdits(LogHalves):
    """A model over cells, the current policy in it, the edits that plans may make, and the half that judges."""

    policy: Policy  # what it does, estimated if it wrote the log
    base: FloatArray  # (S, A) its averages in the cells of the model
    cells: RegionCells
    offered: tuple[RegionEdit, ...]
    refused: tuple[RegionEdit, ...]  # that candidates make and the log has not tried often enough
    _known: dict[tuple[int, ...], RegionValue] = field(default_factory=dict)

    def solve(self, solver: Solver) -> Frontier:
        """Sets of the offered edits."""
        return solver.edits(self)

    def value(self, plan: tuple[int, ...]) -> RegionValue:
        """Outcomes and changes of the plan that makes these edits."""
        if plan not in self._known:
            log, half = self.world, self.halves.choosing
            ends = np.array([sum(o.range) / 2 if o.range is not None else 0.0 for o in log.outcomes])
            chosen = [self.offered[i] for i in plan]
            self._known[plan] = _region_value(half, self.base, chosen, ends, discount=log.discount)
        return self._known[plan]

    def returns(self, plan: tuple[int, ...]) -> float:
        """What is improved."""
        k, sign = aim(self.world)
        return sign * float(self.value(plan).outcomes[k])

    def lift(self, plan: Plan) -> Plan:
        """Edits of cells as edits of feature rows."""
        log = self.world
        chosen = plan.patch.choices
        patch = self.cells.patch(chosen, [action.name for action in log.actions], log.feature_names)
        return replace(plan, patch=patch, policy=PatchedPolicy(self.policy, patch))

    @property
    def guards(self) -> list[GuardRoom]:
        """What plans must keep, in the model."""
        return guard_rooms(self.options.keep, self.world.outcomes, self.value(()).outcomes.tolist())

    def places(self) -> dict[str, Rule]:
        """Each region's conditions."""
        return {cell.name: cell.rule for cell in self.cells.cells}

    def notes(self, plans: Sequence[Plan]) -> tuple[Note, ...]:
        """What plans rest on, and what the log cannot know."""
        note = (
            f"Plans use only decisions seen at least {self.least} times in one half of the log; the other half judges "
            "them."
        )
        rows = self.world.rows
        refused: list[Note] = []
        small = 0
        for edit in self.refused:
            rule = self.cells.cells[edit.region].rule
            if len(np.unique(rows.person[rule.covers(rows.states)])) < self.options.min_group:
                small += 1  # a remark would point at these people
                continue
            why = f"is not offered: {self._why(edit)}. What it would do is not known."
            refused.append(RuleNote(self.world.actions[edit.proposed].name, rule, why))
        if small:
            what = "1 further change is" if small == 1 else f"{small} further changes are"
            refused.append(f"{what} not offered: fewer than {self.options.min_group} people stand behind each.")
        return (*self.world.notes, note, *refused)

    def _why(self, edit: RegionEdit) -> str:
        if edit.tried == 0:
            return "nobody has tried it in the half of the log that chooses"
        if edit.tried < self.least or edit.episodes < MIN_GROUP:
            return (
                f"the half of the log that chooses has too few such decisions; {self.least} are needed, spread over "
                f"{MIN_GROUP} groups of episodes"
            )
        return f"nobody has tried it in {percent(edit.untried)} of that region"


def reduce_to_edits(log: Log, current: PolicyLike, candidates: Candidates, options: ImproveOptions) -> RegionEdits:
    """Edits of the regions in which candidates differ."""
    least = least_records(options.min_support, MIN_SUPPORT)
    base = as_log_policy(log, current, seed=options.seed)
    listed = listed_candidates(candidates, "or leave them out: rules over the features are found without any")
    others = [as_log_policy(log, one) for one in listed]
    parted = [find_divergence(log, base, candidate, ExplainOptions(seed=options.seed)) for candidate in others]
    states, spared = np.asarray(log.rows.states), rare_words(log, options.min_group)
    cells = parted_cells(parted, log, states, options.freeze, options.seed, spared)
    rules = [cell.rule for cell in sorted(cells.cells, key=lambda cell: -cell.depth)]
    counted = counted_log(log, (current, *others), rules, seed=options.seed, blocks=4 * MIN_GROUP)
    halves = choose_and_judge(counted)
    edits = _edits(log, halves.choosing, base, cells)
    enough = [e.tried >= least and e.episodes >= MIN_GROUP and e.untried <= MOST_UNTRIED for e in edits]
    return RegionEdits(
        world=log,
        current=current,
        policy=base,
        base=halves.choosing.table(current),
        halves=halves,
        cells=cells,
        offered=tuple(edit for edit, tried in zip(edits, enough, strict=True) if tried),
        refused=tuple(edit for edit, tried in zip(edits, enough, strict=True) if not tried),
        least=least,
        options=options,
        plans_from="plans over regions",
    )


def _edits(log: Log, choosing: CountedLog, base: Policy, cells: RegionCells) -> list[RegionEdit]:
    """Every action that a candidate takes in a cell, with what the choosing half has tried of it."""
    states = log.rows.states
    chances = np.asarray(base.probabilities(states), dtype=np.float64)
    top = top_actions(chances)
    where = cells.of(np.asarray(states), top)
    return [
        _region_edit(choosing, k, where, top, chances, action, cell.current)
        for k, cell in sorted(enumerate(cells.cells), key=lambda numbered: -numbered[1].depth)
        for action in cell.offered
    ]
