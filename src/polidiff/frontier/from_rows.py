"""`improve` from a log of feature rows: plans over the regions in which candidates differ, judged on the other half.

The regions of all candidates make disjoint cells, as in a simulator; finer cells under them carry the model (`tied`).
A plan gives each region the current action or one that a candidate takes there and that the log has tried often enough.
Few regions make few plans, so all of them are worked out: `proven` means that no other plan over these regions returns
more in the model of the half that chooses. The other half of the log judges.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from polidiff.errors import InvalidOptionError
from polidiff.evaluation.logged.behaviour import estimate_behaviour
from polidiff.evaluation.logged.candidates import learn_candidates
from polidiff.evaluation.logged.counted_log import LOG, CountedLog, as_log_policy, counted_log
from polidiff.evaluation.logged.plan import MIN_GROUP, MIN_SUPPORT, choose_and_judge
from polidiff.evaluation.logged.tied import TiedEdit, enough, tied_edit
from polidiff.explanation.from_rows import divergence_in_rows
from polidiff.explanation.summary import features_seen, methods_record
from polidiff.explanation.words import rule_text
from polidiff.frontier.judging import Explain, judge_plans
from polidiff.frontier.regional import RegionPlans, RegionProblem, solve_regions
from polidiff.options import ExplainOptions
from polidiff.policies import PatchedPolicy, Policy, top_actions
from polidiff.records.explanation import WorldSummary
from polidiff.records.parse import parse_rules
from polidiff.records.patch import Edit, Patch
from polidiff.records.plan import Frontier, HullPoint, Plan
from polidiff.records.rule import Rule, first_match
from polidiff.regions.cells import Cell, make_cells
from polidiff.regions.describe import describe
from polidiff.worlds.log import Log

PROVEN = 1e-9
MOST_UNTRIED = 0.05  # share of a region's rows in cells where nobody took an action, beyond which it is not offered


@dataclass(frozen=True)
class RowOptions:
    """Limits on plans, and the seed."""

    budget: float | None = None
    max_regions: int | None = None
    keep: tuple[Any, ...] = ()
    freeze: tuple[Any, ...] = ()
    min_support: int = MIN_SUPPORT
    gap: float = 1e-3
    level: float = 0.95
    seed: int = 0


def improve_rows(
    log: Log, current: Any, candidates: Any, options: RowOptions, explain: Explain | None = None
) -> Frontier:
    """Plans for a log whose states are features; without candidates, one is learned from the half that chooses."""
    base = estimate_behaviour(log, seed=options.seed).policy if _is_log(current) else as_log_policy(log, current)
    others = _candidates(log, candidates, options)
    regions = _regions(log, base, others, options)
    rules = [region.rule for region in regions]
    ground = counted_log(log, (current, *others), rules, seed=options.seed, blocks=4 * MIN_GROUP)
    halves = choose_and_judge(log, counted=ground)
    found = _edits(log, halves.choosing, base, regions)
    offered = [
        e for e in found if enough(e, rows=options.min_support, episodes=MIN_GROUP, untried=MOST_UNTRIED)
    ]  # fmt: skip
    problem = RegionProblem(log, halves.choosing, halves.choosing.table(current), tuple(offered))
    names = _named(log, regions, offered)
    solved = solve_regions(problem, names, options.budget, options.max_regions, options.keep, options.gap)
    plans = [_plan(log, regions, solved, number) for number in range(len(solved.chosen))]
    policies = [current if not plan.patch.edits else PatchedPolicy(base, plan.patch) for plan in plans]
    judged = judge_plans(log, halves.judging, plans, policies, current, options.level, explain)
    return _frontier(log, solved, judged, options, _refused(log, regions, found, offered, options))


def _is_log(policy: Any) -> bool:
    return isinstance(policy, str) and policy == LOG


def _candidates(log: Log, candidates: Any, options: RowOptions) -> list[Policy]:
    if candidates is None:
        return learn_candidates(log, min_support=options.min_support, seed=options.seed)
    listed = [candidates] if callable(candidates) else list(candidates)
    if not listed:
        raise InvalidOptionError("candidates must hold at least one policy, or be left out: then one is learned")
    return [as_log_policy(log, candidate) for candidate in listed]


def _regions(log: Log, base: Policy, candidates: Sequence[Policy], options: RowOptions) -> list[Cell]:
    """Disjoint regions in which a candidate differs, in the order in which edits are matched."""
    explained = ExplainOptions(level=options.level, seed=options.seed)
    found = [divergence_in_rows(log, base, candidate, explained) for candidate in candidates]
    described = [
        describe(divergence, log.actions, log.feature_names, has_features=True, seed=options.seed)
        for divergence in found
    ]
    frozen: list[Rule] = []
    for entry in options.freeze:
        frozen += parse_rules(entry, log.feature_names) if isinstance(entry, str) else [entry]
    cells = make_cells(described, np.asarray(log.rows.states), tuple(a.name for a in log.actions), frozen).cells
    if not cells:
        raise InvalidOptionError(
            "the candidates act like the current policy in every logged row. Hint: give candidates that differ from it"
        )
    return sorted(cells, key=lambda cell: -sum(k >= 0 for k in cell.signature[:-1]))


def _edits(log: Log, choosing: CountedLog, base: Policy, regions: Sequence[Cell]) -> list[TiedEdit]:
    """Every action that a candidate takes in a region, with what the choosing half has tried of it."""
    states = log.rows.states
    chances = np.asarray(base.probabilities(states), dtype=np.float64)
    top, where = top_actions(chances), first_match([region.rule for region in regions], states)
    return [
        tied_edit(choosing, number, where, top, chances, action, region.current)
        for number, region in enumerate(regions)
        for action in region.offered
    ]


def _named(log: Log, regions: Sequence[Cell], edits: Sequence[TiedEdit]) -> list[tuple[str, str, str]]:
    return [
        (rule_text(regions[e.region].rule), log.actions[e.current].name, log.actions[e.proposed].name) for e in edits
    ]


def _plan(log: Log, regions: Sequence[Cell], solved: RegionPlans, number: int) -> Plan:
    chosen = solved.chosen[number]
    edits = tuple(Edit(regions[e.region].rule, e.current, e.proposed) for e in chosen)
    value, bound = solved.returns[number], solved.bounds[number]
    span = max(solved.returns[-1] - solved.returns[0], 1e-300)
    gap = max(0.0, bound - value) / span
    return Plan(
        changes=solved.values[number].changes,
        expected_return=value,
        outcomes={},
        patch=Patch(edits, tuple(action.name for action in log.actions), log.feature_names),
        bound=bound,
        gap=gap,
        proven=gap < PROVEN,
        share=(value - solved.returns[0]) / span,
    )


def _refused(
    log: Log, regions: Sequence[Cell], found: Sequence[TiedEdit], offered: Sequence[TiedEdit], options: RowOptions
) -> tuple[str, ...]:
    """What the log cannot know: changes that candidates make and that were not tried often enough."""
    said = []
    for edit in found:
        if edit in offered:
            continue
        place, action = rule_text(regions[edit.region].rule), log.actions[edit.proposed].name
        if edit.tried == 0:
            why = "nobody has tried it in the half of the log that chooses"
        elif edit.tried < options.min_support or edit.episodes < MIN_GROUP:
            why = (
                f"the half of the log that chooses has {edit.tried} such decisions, spread over {edit.episodes} groups "
                f"of episodes; {options.min_support} and {MIN_GROUP} are needed"
            )
        else:
            why = f"nobody has tried it in {edit.untried:.0%} of that region"
        said.append(f"{action} where {place} is not offered: {why}. What it would do is not known.")
    return tuple(said)


def _frontier(
    log: Log, solved: RegionPlans, plans: tuple[Plan, ...], options: RowOptions, refused: tuple[str, ...]
) -> Frontier:
    told = ExplainOptions(level=options.level, seed=options.seed)
    method = f"plans over regions from one half of {log.check.episodes} logged episodes, judged by the other half"
    note = f"Plans use only decisions seen at least {options.min_support} times in one half of the log; the other half "
    return Frontier(
        plans=plans,
        hull=tuple(HullPoint(*point) for point in solved.hull),
        baselines=(),
        ledger=solved.ledger,
        gap=max(plan.gap for plan in plans),
        unit="expected",
        outcomes=log.outcomes,
        current_return=plans[0].expected_return,
        optimum=max(solved.returns),
        world=WorldSummary(
            "log",
            log.actions,
            features_seen(np.asarray(log.rows.states), log.feature_names),
            {"rows": log.check.rows, "episodes": log.check.episodes},
        ),
        methods=methods_record(told, method, max(1, len(plans) - 1) * len(log.outcomes)),
        warnings=(*log.notes, note + "judges them.", *refused, *solved.messages),
        stats={"plans": solved.count, "method": "every plan over the regions"},
    )
