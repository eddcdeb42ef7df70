r"""`improve` on a table: the frontier of plans, each evaluated again, with baselines, ledger and adoption.

Which method solves a setting: by its size, its guards, and whether changed states are counted.

*Units.* A problem is solved in units of its own: gains over the current policy, the largest of them about 1.

For any function :math:`V` of states, rewards :math:`r(s,a) + \sum_{s'} P(s' \mid s,a) V(s') - V(s)` give every policy
that ends the return :math:`J - p_0^\top V`. With :math:`V` the values of the current policy they are its advantages, so
that constants and the size of the rewards no longer meet the tolerances of the search: multiplying rewards, or adding
to an outcome what every policy gets, changes no plan. Outcomes that are guarded are treated the same way. Factors are
powers of two, which round nothing.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from polidiff.errors import InvalidOptionError
from polidiff.explanation.words import listing
from polidiff.frontier.baselines import all_baselines
from polidiff.frontier.guarded import solve_guarded
from polidiff.frontier.hull import OutOfTimeError, check_time
from polidiff.frontier.large import solve_large
from polidiff.frontier.ledger import Adoption, Curve, Naming, between, make_ledger
from polidiff.frontier.problem import FrontierProblem, contracted
from polidiff.frontier.setting import (
    Evaluated,
    Setting,
    broken_limits,
    check_agreement,
    evaluate_plans,
    prepare,
)
from polidiff.frontier.solve import Effort, Solved, solve_frontier
from polidiff.frontier.states import solve_states
from polidiff.options import ImproveOptions
from polidiff.policies import TablePolicy, one_hot
from polidiff.progress import Clock
from polidiff.records.arrays import FloatArray, IntArray, read_only
from polidiff.records.explanation import Methods, WorldSummary
from polidiff.records.outcome import Interval
from polidiff.records.patch import Patch, StateEdits
from polidiff.records.plan import Baseline, Frontier, HullPoint, Ledger, Plan
from polidiff.surrogates.table import Surrogate
from polidiff.worlds.protocol import features_seen
from polidiff.worlds.tabular import TabularMDP

LARGE = 1500  # states beyond which nothing is inverted: no baselines, no ledger, and units alone are scaled
NOISE = 8 * np.finfo(np.float64).eps  # a gain below this share of what it is the difference of is rounding
LEDGER_MOST = 40  # changes a ledger speaks about
ADOPTION_MOST = 60  # plans whose adoption curve is worked out; beyond, only the best plan's
DRAWING = 0.5  # of the time left for a ledger, in which random orders are drawn
SOLVING = 0.8  # of a time limit that goes to the plans; the rest is for what is told about them


@dataclass(frozen=True, eq=False)
class Scaled:
    """A problem, the same in units of its own, and the way back."""

    problem: FrontierProblem
    offset: float  # return of the current policy
    unit: float  # return per unit of the scaled problem

    def back(self, solved: Solved) -> Solved:
        """An answer of the scaled problem in the units of the given one."""
        hull = solved.hull
        return replace(
            solved,
            returns=self.offset + self.unit * solved.returns,
            bounds=self.offset + self.unit * solved.bounds,
            span=self.unit * solved.span,
            hull=replace(hull, returns=self.offset + self.unit * hull.returns),
        )


def scaled(problem: FrontierProblem) -> Scaled:
    """The problem with gains over the current policy in place of rewards and guarded outcomes."""
    weights = np.concatenate([problem.reward[None], problem.guards])
    values = np.zeros((len(weights), problem.n_states))
    if problem.n_states <= LARGE:
        base = problem.start
        values = weights[:, base] @ problem.from_start.T
        weights = _gains(problem, weights, values, base)
    sizes = np.abs(weights).max(axis=1, initial=0.0)
    units = 2.0 ** np.floor(np.log2(np.where(sizes > 0, sizes, 1.0)))
    weights, offsets = weights / units[:, None], values @ problem.initial
    limits = (problem.limits - offsets[1:]) / units[1:]
    own = problem.weighing(weights[0], weights[1:], limits)
    return Scaled(own, float(offsets[0]), float(units[0]))


def _gains(problem: FrontierProblem, weights: FloatArray, values: FloatArray, base: IntArray) -> FloatArray:
    """(m, pairs) what a pair brings more than the current policy; what is only rounding becomes 0."""
    ahead, before = (problem.transitions @ values.T).T, values[:, problem.state]
    size = np.abs(weights) + (problem.transitions @ np.abs(values).T).T + np.abs(before)
    gains = weights + ahead - before
    gains[np.abs(gains) <= NOISE * size] = 0.0
    gains[:, base] = 0.0
    return np.asarray(gains)


def solve_setting(
    setting: Setting, effort: Effort, clock: Clock, budget: float | None, max_states: int | None
) -> Solved:
    """Plans of a setting with what is proven about each."""
    less = contracted(setting.problem) if max_states is None else None
    own = scaled(setting.problem if less is None else less.problem)
    solved = own.back(_solve(setting, own.problem, effort, clock, budget, max_states))
    if less is None:
        return solved
    hull = replace(solved.hull, choices=less.back(solved.hull.choices))
    return replace(solved, choices=less.back(solved.choices), hull=hull, visits=())


def _solve(
    setting: Setting,
    problem: FrontierProblem,
    effort: Effort,
    clock: Clock,
    budget: float | None,
    max_states: int | None,
) -> Solved:
    texts = tuple(limit.text for limit in setting.limits)
    if problem.n_states > LARGE and (texts or max_states is not None):
        raise InvalidOptionError(
            f"{'keep' if texts else 'max_states'}= works on tables of at most {LARGE:,} states that decide; this one "
            f"has {problem.n_states:,}. Hint: give a budget= instead, or merge states"
        )
    if max_states is not None:
        return solve_states(problem, max_states, effort, clock, budget, texts, setting.problem)
    if texts:
        return solve_guarded(problem, texts, effort, clock, budget, setting.problem)
    if problem.n_states > LARGE:
        return solve_large(problem, effort, clock, budget)
    try:
        return solve_frontier(problem, effort, clock, budget)
    except OutOfTimeError:  # prices by bisection stop anywhere
        return solve_large(problem, effort, clock, budget)


def improve_table(surrogate: Surrogate, options: ImproveOptions, clock: Clock | None = None) -> Frontier:
    """The plans that return most for every number of changed decisions, proven.

    Without candidates a plan may take any allowed action. The clock began with the user's call, if not here.
    """
    clock, began = clock or Clock(options.time_limit), time.monotonic()
    setting = prepare(
        surrogate.table, surrogate.base, surrogate.offered, freeze=surrogate.frozen, keep=options.keep,
        change_cost=options.change_cost if surrogate.cost is None else surrogate.cost, unit=options.unit,
    )  # fmt: skip
    within = None if options.budget is None else options.budget / setting.scale
    solving = clock.share(SOLVING)
    solved = solve_setting(setting, Effort(gap=options.gap), solving, within, options.max_states)
    clock.stopped |= solving.stopped
    again = evaluate_plans(setting, np.array([setting.actions_of(c) for c in solved.choices]), solved.visits)
    check_agreement(solved.changes, solved.returns, again)
    listed, again = _with_current(setting, solved, again)
    told, late = _told(setting, solved, again, surrogate, options, clock)
    frontier = _frontier(setting, listed, again, told, options)
    if listed is not solved:
        now = replace(frontier.plans[0], breaks=broken_limits(setting.world, setting.current, setting.limits))
        frontier = replace(frontier, plans=(now, *frontier.plans[1:]))
    seconds = time.monotonic() - began
    warnings = (*_warnings(solved, clock, options.time_limit), *late)
    return replace(frontier, warnings=warnings, stats=_stats(setting, solved, seconds, clock))


def _with_current(setting: Setting, solved: Solved, again: Evaluated) -> tuple[Solved, Evaluated]:
    """The plans behind the current policy, which a limit that it breaks, or a change that is free, leaves out.

    What a free change brings bounds the current policy too.
    """
    if (again.actions[0] == setting.base).all():
        return solved, again
    now = evaluate_plans(setting, setting.base[None])
    actions = np.concatenate([now.actions, again.actions])
    outcomes = {name: np.concatenate([now.outcomes[name], values]) for name, values in again.outcomes.items()}
    changes, returns = (np.concatenate(both) for both in ((now.changes, again.changes), (now.returns, again.returns)))
    free = solved.bounds[:1] if again.changes[0] <= now.changes[0] else now.returns
    bounds = np.concatenate([np.maximum(now.returns, free), again.returns + (solved.bounds - solved.returns)])
    choices = np.concatenate([setting.problem.base[None], solved.choices])
    listed = replace(solved, changes=changes, returns=returns, bounds=bounds, choices=choices)
    return listed, Evaluated(actions, changes, returns, outcomes)


@dataclass(frozen=True)
class Told:
    """What is told about plans as far as there is time: the first is worth most to a reader, the last least."""

    ledger: Ledger | None
    curves: Mapping[int, Curve]
    baselines: tuple[Baseline, ...]


def _told(
    setting: Setting, solved: Solved, again: Evaluated, surrogate: Surrogate, options: ImproveOptions, clock: Clock
) -> tuple[Told, tuple[str, ...]]:
    """What is told beside the plans, and a sentence about what the time limit leaves out of it."""
    small, late, ledger, curves = setting.problem.n_states <= LARGE, list[str](), None, dict[int, Curve]()
    try:
        ledger = _ledger(setting, again, surrogate, options, clock) if small else None
    except OutOfTimeError:
        late.append("what single changes are worth")
    many, curves = len(again.actions) > ADOPTION_MOST, _curves(setting, again, clock)
    if not curves or (not many and len(curves) < len(again.actions)):
        late.append(f"what {'smaller ' * bool(curves)}plans return that are followed in part")
    compared = clock.share(1.0)
    found = _baselines(setting, solved, compared) if small else ()
    if compared.stopped:
        late.append("what earlier methods find")
    said = (f"the time limit of {options.time_limit:g} s leaves out {listing(late)}",) if late else ()
    return Told(ledger, curves, found), said


def _frontier(
    setting: Setting,
    solved: Solved,
    again: Evaluated,
    told: Told,
    options: ImproveOptions,
) -> Frontier:
    """The plans with what is told about them."""
    corners = () if not solved.hull.whole else zip(solved.hull.changes, solved.hull.returns, strict=True)
    return Frontier(
        plans=tuple(_plan(setting, solved, again, i, told.curves) for i in range(len(solved.changes))),
        hull=tuple(HullPoint(float(c) * setting.scale, float(v)) for c, v in corners),
        baselines=told.baselines,
        ledger=told.ledger,
        gap=solved.gap,
        unit=options.unit,
        budget=options.budget,
        outcomes=setting.world.told_outcomes,
        current_return=setting.starting_return,
        optimum=float(solved.hull.returns[-1]),
        world=summary(setting.world),
        methods=exactly(options),
        context=setting,
    )


def _baselines(setting: Setting, solved: Solved, clock: Clock) -> tuple[Baseline, ...]:
    if clock.over():
        return ()
    own = scaled(setting.problem)
    found = all_baselines(own.problem, solved.hull, clock)
    return tuple(
        replace(one, points=tuple((c * setting.scale, own.offset + own.unit * v) for c, v in one.points))
        for one in found
    )


def _plan(
    setting: Setting,
    solved: Solved,
    again: Evaluated,
    i: int,
    curves: Mapping[int, Curve],
) -> Plan:
    world, actions = setting.world, again.actions[i]
    policy = TablePolicy(read_only(one_hot(actions, world.n_actions)))
    adoption, warnings = curves.get(i, ((), ()))
    value = float(again.returns[i])
    share = (value - float(solved.hull.returns[0])) / solved.span
    return Plan(
        changes=float(again.changes[i]) * setting.scale,
        expected_return=value,
        outcomes={name: Interval.exactly(float(values[i])) for name, values in again.outcomes.items()},
        patch=patch_of(world, setting.base, actions),
        bound=max(float(solved.bounds[i]), value),
        gap=max(0.0, float(solved.gaps[i])),
        proven=solved.proven[i],
        share=None if setting.limits else min(1.0, max(0.0, share)),  # how far limits let a plan go is not worked out
        adoption=adoption,
        warnings=warnings,
        policy=policy,
    )


def _curves(setting: Setting, again: Evaluated, clock: Clock) -> dict[int, Curve]:
    """Adoption of each plan, the last first; of the last alone where there are many, or as far as there is time."""
    if clock.left() <= 0:
        return {}
    count, adoption = len(again.actions), Adoption(setting)
    curves = {count - 1: adoption.curve(again.actions[-1])}
    for i in range(count - 1 if count <= ADOPTION_MOST else 0):
        if clock.left() <= 0:
            return {count - 1: curves[count - 1]}
        curves[i] = adoption.curve(again.actions[i])
    return curves


def patch_of(world: TabularMDP, base: IntArray, actions: IntArray) -> Patch:
    """One edit per changed state; its rule names the state."""
    states = np.flatnonzero((base != actions) & ~world.absorbing)
    edits = StateEdits(world.states, states, base[states], actions[states])
    return Patch(edits, tuple(action.name for action in world.actions), ("state",))


def _ledger(
    setting: Setting, again: Evaluated, surrogate: Surrogate, options: ImproveOptions, clock: Clock
) -> Ledger | None:
    """Worth of the changes of the largest plan that is short enough, and of all that candidates offer if those are."""
    problem, world = setting.problem, setting.world
    counts = (again.actions != setting.base).sum(axis=1)
    fitting = np.flatnonzero(counts <= LEDGER_MOST)
    best = again.actions[fitting[-1]]
    where = problem.names[problem.state]
    differs = problem.action != setting.base[where]
    own = differs & (best[where] == problem.action)
    pairs, others = np.flatnonzero(own), np.flatnonzero(differs & ~own)
    if surrogate.offered is not None and len(pairs) + len(others) <= LEDGER_MOST:
        pairs = np.sort(np.concatenate([pairs, others]))
    if not len(pairs):
        return None
    states = problem.names[problem.state[pairs]]
    naming = Naming(
        tuple(world.states[s] for s in states),
        tuple(world.actions[setting.base[s]].name for s in states),
        tuple(world.actions[a].name for a in problem.action[pairs]),
        surrogate.places(),
    )
    players = np.flatnonzero(own[pairs])
    check_time(clock)
    priced, rng = between(problem, pairs), np.random.default_rng(options.seed)

    @cache
    def worth(subset: tuple[int, ...]) -> float:
        check_time(clock)
        return priced.value(subset)

    return make_ledger(worth, players, naming, level=options.level, rng=rng, clock=clock.share(DRAWING))


def summary(world: TabularMDP) -> WorldSummary:
    """What a reader needs to know about a table."""
    facts = {
        "states": world.n_states,
        "absorbing states": int(world.absorbing.sum()),
        "starts": len(world.starts),
        "discount": world.discount,
    }
    features = features_seen(world.features, world.feature_names) if world.features is not None else ()
    return WorldSummary("table", world.actions, features, facts)


def exactly(options: ImproveOptions) -> Methods:
    """How plans of a table are made."""
    return Methods("plain", options.level, 0.0, 0.0, options.seed, 0, "exact")


def _warnings(solved: Solved, clock: Clock, limit: float | None) -> tuple[str, ...]:
    if clock.stopped:
        return (f"the time limit of {limit:g} s was met; the gap reached is {solved.gap:.3g}",)
    if solved.stopped:
        return (f"not every plan could be proven within the default effort; the gap is {solved.gap:.3g}",)
    return ()


def _stats(setting: Setting, solved: Solved, seconds: float, clock: Clock) -> dict[str, float | int | str]:
    stats: dict[str, float | int | str] = {
        "states": setting.problem.n_states,
        "pairs": setting.problem.n_pairs,
        "plans": len(solved.changes),
        "hull vertices": len(solved.hull.changes),
        "pivots": solved.hull.pivots,
        "nodes": solved.nodes,
        "method": solved.method,
    }
    if clock.seconds is not None:
        stats["seconds"] = round(seconds, 3)
    return stats
