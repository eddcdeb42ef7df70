"""Rule plans in a simulator: searched in a table over cells, chosen and judged by playing.

Played episodes estimate a table over the cells of a grid (`played`), in which plans are searched. The table is wrong
where a cell is not a state; so it is estimated again near the best plan, a few times, every plan that was ever found is
played, and the best for each number of rules is kept. Other episodes, with the same luck as the current policy's, then
judge it: `Plan.gain` is their mean difference with its interval, `Plan.model_gap` what the table said beyond that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from polidiff.evaluation.evaluate import default_episodes
from polidiff.evaluation.monte_carlo import mean_interval
from polidiff.explanation.summary import world_summary
from polidiff.frontier.continuous import with_return_told
from polidiff.frontier.rule_plans.grid import make_grid
from polidiff.frontier.rule_plans.improve import improve_with_rules
from polidiff.frontier.rule_plans.moves import KEEP
from polidiff.frontier.rule_plans.played import Ground, cell_table, count_near
from polidiff.frontier.rule_plans.request import actions_only, frozen_rules, split_support
from polidiff.policies import PatchedPolicy, Policy, as_policy, one_hot, top_actions
from polidiff.progress import track
from polidiff.records.arrays import FloatArray, IntArray
from polidiff.records.explanation import Explanation
from polidiff.records.patch import Edit, Patch
from polidiff.records.plan import Frontier, Plan
from polidiff.records.rule import Rule
from polidiff.streams import Stream
from polidiff.worlds.rollouts import Visits, roll_out
from polidiff.worlds.simulator import Simulator

ROUNDS = 3
ENOUGH = 30  # visits of a choice in a cell below which it is not offered
EXPLORING = 0.1  # of the decisions, in the episodes that place the cuts
PASSED_ON = ("max_conditions", "max_literals", "keep", "gap", "time_limit", "search", "seed", "level")


@dataclass(frozen=True, eq=False)
class Lifted:
    """A plan of the table as a policy of the world, and what it returned when it was played to choose."""

    plan: Plan
    said: float
    patch: Patch
    policy: Policy
    mean: float


def improve_simulator_with_rules(
    world: Simulator,
    current: Any,
    *,
    max_rules: int,
    moves: Any = "actions",
    min_support: float | None = None,
    freeze: Any = (),
    level: float = 0.95,
    seed: int = 0,
    explain: Callable[[Any, Any, Any], Explanation] | None = None,
    **options: Any,
) -> Frontier:
    """Plans of at most `max_rules` rules over the features of a simulator.

    Parameters
    ----------
    moves : "actions" or list of Move.action
        What a rule may prescribe. Levels and aims need a current action per state, which a cell does not have.
    min_support : int or float, optional
        A whole number: how often a choice must have been played in a cell (30 by default). A share below 1: of the
        visits that a rule must speak about.
    level : float
        Of the interval of each plan.
    """
    share, least = split_support(min_support, ENOUGH)
    told, base = with_return_told(world), as_policy(current, actions=world.actions)
    ground = _ground(told, base, frozen_rules(freeze, world.feature_names), seed)
    wanted = {
        "max_rules": max_rules, "moves": actions_only(moves, world.actions, "a simulator"), "min_support": share,
        "level": level, "seed": seed,
        "node_limit": 0,
        **{name: value for name, value in options.items() if name in PASSED_ON},
    }  # fmt: skip
    solved, found = _found(ground, wanted, least, seed)
    judge = _Judge(ground, level, seed, explain)
    plans = [judge.plan(one) for one in track("plans played in the world", _best_of_each(found))]
    return replace(
        solved,
        plans=tuple(plans),
        baselines=(),
        outcomes=told.outcomes,
        current_return=plans[0].expected_return,
        gap=max(plan.gap for plan in plans),
        optimum=plans[-1].expected_return + solved.optimum - solved.best.expected_return,
        world=world_summary(told),
        methods=replace(solved.methods, evaluation=f"{judge.episodes} paired episodes of each plan"),
        warnings=(
            f"Plans were searched in a table over {ground.grid.size} cells: a bound is the plan's return plus what "
            "that table leaves open. Returns and gains are of episodes that neither made the table nor chose a plan.",
            *solved.warnings,
        ),
        context=ground,
    )


def _ground(world: Simulator, current: Policy, frozen: tuple[Rule, ...], seed: int) -> Ground:
    """Cells where sampled episodes of the current policy, which now and then try something else, get."""
    episodes = max(100, default_episodes(world) // 4)
    played = roll_out(
        world,
        _Exploring(current),
        episodes=episodes,
        seed=(seed, Stream.EXPLORED_STATES),
        record=True,
        what="sampled states",
    )
    visits = played.visits
    assert visits is not None
    some = np.random.default_rng((seed, Stream.SAMPLED_STATES)).permutation(len(visits.actions))[:20_000]
    states, episode = visits.states[some], visits.episode[some]
    features = np.asarray(world.features_of(states), dtype=np.float64)
    action = one_hot(top_actions(current.probabilities(states)), world.n_actions)
    togo = (played.lengths[episode] - visits.step[some])[:, None]
    signals = np.hstack([action, togo, played.totals[episode]])
    return Ground(world, current, make_grid(features, signals, world.feature_names, seed=seed), frozen)


def _found(ground: Ground, wanted: dict[str, Any], least: int, seed: int) -> tuple[Frontier, list[Lifted]]:
    """Every plan of a few rounds, each played; the table is learned again near the best so far."""
    episodes = default_episodes(ground.world)
    as_now = np.full(ground.grid.size, ground.world.n_actions)
    counts = count_near(ground, as_now, episodes=episodes, seed=(seed, Stream.CELL_GAMES, 0))
    found: dict[Patch, Lifted] = {}
    for index in range(ROUNDS):
        if index:
            best = max(found.values(), key=lambda lifted: lifted.mean)
            counts = counts + count_near(
                ground, _over_cells(ground, best), episodes=episodes, seed=(seed, Stream.CELL_GAMES, index)
            )
        table = cell_table(ground, counts, least)
        solved = improve_with_rules(table, np.append(as_now, [as_now[0]] * 2), **wanted)
        offset = float(counts.offset[_main(ground.world)]) / counts.episodes
        for one in track("plans played to choose", list(solved.plans)):
            rules = tuple(replace(told, rule=ground.grid.rule(told.rule)) for told in one.rules)
            patch = _patch(ground, rules)
            if patch not in found:
                found[patch] = _played(ground, replace(one, rules=rules), patch, offset, episodes, seed)
    return solved, list(found.values())


def _best_of_each(found: Sequence[Lifted]) -> list[Lifted]:
    """For each number of rules the plan that returned most, if that is more than with fewer."""
    kept: list[Lifted] = []
    for size in sorted({len(one.plan.rules) for one in found}):
        best = max((one for one in found if len(one.plan.rules) == size), key=lambda one: one.mean)
        if not kept or best.mean > kept[-1].mean:
            kept.append(best)
    return kept


def _played(ground: Ground, plan: Plan, patch: Patch, offset: float, episodes: int, seed: int) -> Lifted:
    policy = PatchedPolicy(ground.current, patch)
    totals = roll_out(ground.world, policy, episodes=episodes, seed=(seed, Stream.CHOOSING_PLANS), what="plan").totals
    return Lifted(plan, plan.expected_return + offset, patch, policy, float(totals[:, _main(ground.world)].mean()))


def _over_cells(ground: Ground, lifted: Lifted) -> IntArray:
    """Choices (K,) of a plan in the cells: the first rule that covers the cell."""
    names = [action.name for action in ground.world.actions]
    inside = _inside(ground)
    choice = np.full(ground.grid.size, ground.world.n_actions)
    for told in reversed(lifted.plan.rules):
        choice[told.rule.covers(inside)] = names.index(told.move) if told.move != KEEP else ground.world.n_actions
    return choice


def _inside(ground: Ground) -> FloatArray:
    """(K, d) a point of each cell: its lower cuts, or just below the first one."""
    columns = []
    for code, cuts in zip(ground.grid.codes.T, ground.grid.cuts, strict=True):
        below = cuts[0] - 1.0 if len(cuts) else 0.0
        columns.append(np.concatenate([[below], cuts])[code])
    return np.stack(columns, axis=1)


def _patch(ground: Ground, rules: Sequence[Any]) -> Patch:
    """Edits that follow the rules, first match wins: a rule also holds back later ones where it changes nothing."""
    world = ground.world
    names = [action.name for action in world.actions]
    edits = [Edit(rule, action, action) for rule in ground.frozen for action in range(world.n_actions)]
    for index, told in enumerate(rules):
        last = index == len(rules) - 1
        for action in range(world.n_actions):
            proposed = action if told.move == KEEP else names.index(told.move)
            if proposed != action or not last:
                edits.append(Edit(told.rule, action, proposed))
    return Patch(tuple(edits) if rules else (), tuple(names), world.feature_names, world.features_of)


@dataclass(frozen=True, eq=False)
class _Exploring:
    """The policy in use, with a small chance of any other action."""

    base: Policy

    @property
    def n_actions(self) -> int:
        return self.base.n_actions

    def probabilities(self, states: Any) -> FloatArray:
        return (1 - EXPLORING) * self.base.probabilities(states) + EXPLORING / self.n_actions


@dataclass(frozen=True, eq=False)
class _Judge:
    """Fresh episodes, the same luck for every plan."""

    ground: Ground
    level: float
    seed: int
    explain: Callable[[Any, Any, Any], Explanation] | None

    @property
    def episodes(self) -> int:
        """Episodes of each plan."""
        return 2 * default_episodes(self.ground.world)

    @cached_property
    def before(self) -> FloatArray:
        """Outcomes of the current policy's episodes."""
        return self.totals(self.ground.current)[0]

    def totals(self, policy: Policy) -> tuple[FloatArray, Visits]:
        """Outcomes of each episode and its decisions."""
        played = roll_out(
            self.ground.world,
            policy,
            episodes=self.episodes,
            seed=(self.seed, Stream.JUDGING_PLANS),
            record=True,
            what="plan",
        )
        assert played.visits is not None
        return played.totals, played.visits

    def plan(self, lifted: Lifted) -> Plan:
        """The plan with what fresh episodes say about it."""
        world, current, explain = self.ground.world, self.ground.current, self.explain
        totals, visits = self.totals(lifted.policy)
        before, main = self.before, _main(world)
        outcomes = {o.name: mean_interval(totals[:, m], self.level) for m, o in enumerate(world.outcomes)}
        top = top_actions(current.probabilities(visits.states))
        value = outcomes[world.return_outcome.name].estimate
        plan = lifted.plan
        return replace(
            plan,
            changes=float((top != visits.actions).sum() / len(totals)) if plan.rules else 0.0,
            expected_return=value,
            bound=value + (plan.bound - plan.expected_return),
            proven=False,
            outcomes=outcomes,
            patch=lifted.patch,
            gain=mean_interval(totals[:, main] - before[:, main], self.level) if plan.rules else None,
            model_gap=lifted.said - value,
            policy=lifted.policy,
            _explain=None if explain is None else (lambda: explain(world, current, lifted.policy)),
        )


def _main(world: Simulator) -> int:
    return [outcome.name for outcome in world.outcomes].index(world.return_outcome.name)
