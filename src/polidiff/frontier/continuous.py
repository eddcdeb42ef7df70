"""`improve` in a simulator: plans over regions, judged in the true world (section 5.2 of the paper).

Candidates are compared with the current policy; their regions make disjoint cells; played episodes estimate a table
over cells; the frontier of that table is exact. Each plan is then lifted back to a policy over raw states and played in
the true world with the same luck as the current policy: `proven` speaks of the table, `model_gap` of the distance
between table and world.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from polidiff.divergence import DivergenceOptions, divergence_in_simulator
from polidiff.errors import InvalidOptionError
from polidiff.evaluation.evaluate import default_episodes
from polidiff.evaluation.monte_carlo import mean_interval
from polidiff.explanation.summary import versions, world_summary
from polidiff.explanation.words import rule_text
from polidiff.frontier.table import improve_table
from polidiff.policies import PatchedPolicy, Policy, as_policy
from polidiff.progress import track
from polidiff.records.arrays import AnyArray, FloatArray, IntArray
from polidiff.records.explanation import Explanation
from polidiff.records.interval import Interval
from polidiff.records.parse import parse_rules
from polidiff.records.patch import Edit, Patch
from polidiff.records.plan import Baseline, Frontier, HullPoint, Ledger, Plan
from polidiff.records.rule import Rule
from polidiff.regions.cells import Cells, make_cells
from polidiff.regions.describe import Described, describe
from polidiff.regions.model import CellModel, cell_model, count_cells
from polidiff.streams import Stream
from polidiff.worlds.rollouts import roll_out
from polidiff.worlds.simulator import Simulator

MOST_PLAYED = 60


@dataclass(frozen=True)
class CellOptions:
    """Limits on plans, and the seed."""

    budget: float | None = None
    max_cells: int | None = None
    keep: tuple[Any, ...] = ()
    freeze: tuple[Any, ...] = ()
    gap: float = 1e-3
    time_limit: float | None = None
    level: float = 0.95
    seed: int = 0


def improve_simulator(
    world: Simulator,
    current: Any,
    candidates: Sequence[Any] | None,
    options: CellOptions,
    explain: Callable[[Any, Any, Any], Explanation] | None = None,
) -> Frontier:
    """Plans over the regions in which candidates differ from the current policy."""
    told = with_return_told(world)
    base = as_policy(current, actions=world.actions)
    others = _candidates(world, candidates)
    cells = find_cells(world, base, others, options)
    if not cells.cells:
        raise InvalidOptionError(
            "the candidates act like the current policy wherever they get. Hint: give candidates that differ from it"
        )
    episodes = 4 * default_episodes(world)
    model = cell_model(told, cells, count_cells(told, base, cells, episodes=episodes, seed=options.seed))
    solved = improve_table(
        model.table,
        model.base,
        _over_cells(cells, model, tuple(action.name for action in world.actions)),
        budget=options.budget,
        max_states=options.max_cells,
        keep=options.keep,
        gap=options.gap,
        time_limit=options.time_limit,
        level=options.level,
        seed=options.seed,
    )
    return _lifted(told, base, cells, model, solved, options, explain)


def with_return_told(world: Simulator) -> Simulator:
    """The world, telling its return first."""
    told = copy.copy(world)
    names = [outcome.name for outcome in world.outcomes]
    if world.return_outcome.name not in names:
        told.outcomes = (world.return_outcome, *world.outcomes)
    return told


def _candidates(world: Simulator, candidates: Sequence[Any] | None) -> list[Policy]:
    if candidates is None or (not callable(candidates) and len(candidates) == 0):
        raise InvalidOptionError(
            "improve in a simulator needs candidates: policies whose changes may be taken. Hint: "
            "improve(world, current, [proposed_1, proposed_2])"
        )
    listed = [candidates] if callable(candidates) else list(candidates)
    return [as_policy(candidate, actions=world.actions) for candidate in listed]


def find_cells(world: Simulator, current: Policy, candidates: Sequence[Policy], options: CellOptions) -> Cells:
    """Disjoint cells from the regions of all candidates."""
    described: list[Described] = []
    features: list[AnyArray] = []
    for candidate in candidates:
        found = divergence_in_simulator(world, current, candidate, DivergenceOptions(), seed=options.seed)
        described.append(
            describe(found, world.actions, world.feature_names, has_features=world.has_features, seed=options.seed)
        )
        features.append(found.features)
    names = tuple(action.name for action in world.actions)
    return make_cells(described, np.concatenate(features), names, _frozen(world, options.freeze))


def _over_cells(cells: Cells, model: CellModel, names: tuple[str, ...]) -> list[IntArray]:
    """Each candidate as a policy over cells."""
    tables = [np.array(model.base) for _ in cells.described]
    for k, cell in enumerate(cells.cells):
        for table, described, region in zip(tables, cells.described, cell.signature[:-1], strict=True):
            action = names.index(described.regions[region].swap.proposed) if region >= 0 else cell.current
            if model.table.allowed[k, action]:
                table[k] = action
    return tables


def _frozen(world: Simulator, freeze: tuple[Any, ...]) -> tuple[Rule, ...]:
    rules: list[Rule] = []
    for entry in freeze:
        rules += parse_rules(entry, world.feature_names) if isinstance(entry, str) else [entry]
    return tuple(rules)


def _lifted(
    world: Simulator,
    current: Policy,
    cells: Cells,
    model: CellModel,
    solved: Frontier,
    options: CellOptions,
    explain: Callable[[Any, Any, Any], Explanation] | None,
) -> Frontier:
    names = [outcome.name for outcome in world.outcomes]
    offset = float(model.offset[names.index(world.return_outcome.name)])
    plans = []
    for plan in track("plans played in the world", list(solved.plans)):
        patch = lift_patch(world, cells, plan.patch)
        policy = PatchedPolicy(current, patch)
        totals = None
        if len(solved) <= MOST_PLAYED or plan in (solved[0], solved.best):
            totals = roll_out(
                world, policy, episodes=default_episodes(world), seed=(options.seed, Stream.JUDGING), what="plan"
            ).totals
        plans.append(_judged(world, plan, patch, policy, totals, offset, options.level, current, explain))
    unseen = tuple(
        f"{cells.cells[k].name} with {world.actions[a].name} was hardly ever met and is not offered."
        for k, a in model.unseen
    )
    return replace(
        solved,
        plans=tuple(plans),
        hull=tuple(HullPoint(point.changes, point.expected_return + offset) for point in solved.hull),
        baselines=tuple(
            Baseline(b.name, tuple((c, value + offset) for c, value in b.points)) for b in solved.baselines
        ),
        ledger=_told_ledger(solved.ledger, cells, offset),
        outcomes=world.outcomes,
        current_return=plans[0].expected_return,
        optimum=solved.optimum + offset,
        world=world_summary(world),
        methods=replace(
            solved.methods,
            evaluation=f"table over {len(cells.cells)} regions, plans played in the world "
            f"({default_episodes(world)} episodes)",
            versions=versions(),
        ),
        warnings=(*unseen, *solved.warnings),
        context=(world, current, cells, model),
    )


def lift_patch(world: Simulator, cells: Cells, patch: Patch) -> Patch:
    """Edits of cells as edits of raw states; cells that several regions share are matched first."""
    by_name = {cell.name: cell for cell in cells.cells}
    edits = []
    for edit in patch.edits:
        values = edit.rule.conditions[0].values or ()
        cell = by_name[str(values[0])]
        shared = sum(k >= 0 for k in cell.signature[:-1])
        edits.append((shared, Edit(cell.rule, edit.current, edit.proposed)))
    ordered = tuple(edit for _, edit in sorted(edits, key=lambda pair: -pair[0]))
    return Patch(ordered, tuple(a.name for a in world.actions), world.feature_names, world.features_of)


def _judged(
    world: Simulator,
    plan: Plan,
    patch: Patch,
    policy: Policy,
    totals: FloatArray | None,
    offset: float,
    level: float,
    current: Policy,
    explain: Callable[[Any, Any, Any], Explanation] | None,
) -> Plan:
    said = plan.expected_return + offset
    main = world.return_outcome.name
    if totals is None:
        outcomes = {name: _moved(interval, offset if name == main else 0.0) for name, interval in plan.outcomes.items()}
        value, model_gap = said, None
    else:
        outcomes = {o.name: mean_interval(totals[:, m], level) for m, o in enumerate(world.outcomes)}
        value = outcomes[main].estimate
        model_gap = said - value
    return replace(
        plan,
        expected_return=value,
        outcomes=outcomes,
        patch=patch,
        bound=plan.bound + offset,
        model_gap=model_gap,
        adoption=tuple(replace(p, expected_return=p.expected_return + offset) for p in plan.adoption),
        policy=policy,
        _explain=None if explain is None else (lambda: explain(world, current, policy)),
    )


def _moved(interval: Interval, offset: float) -> Interval:
    return Interval(interval.estimate + offset, interval.low + offset, interval.high + offset, interval.level)


def _told_ledger(ledger: Ledger | None, cells: Cells, offset: float) -> Ledger | None:
    """The ledger with each cell's conditions in words, and returns of the whole episode."""
    if ledger is None:
        return None
    words = {cell.name: rule_text(cell.rule) for cell in cells.cells}
    entries = tuple(replace(entry, state=words[entry.state]) for entry in ledger.entries)
    return replace(ledger, entries=entries, running=tuple(value + offset for value in ledger.running))
