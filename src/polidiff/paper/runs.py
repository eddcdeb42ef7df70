"""Everything the reproduction needs, computed once: both tasks explained, improved, evaluated, one from a log too."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import combinations

import numpy as np

from polidiff.api import evaluate, explain, improve
from polidiff.domains import chain, navigation
from polidiff.errors import UnboundedReturnError
from polidiff.evaluation.exact import policy_table
from polidiff.evaluation.log import evaluate_log
from polidiff.explanation.quality import region_stability
from polidiff.policies import PolicyLike, as_policy, top_actions
from polidiff.records.explanation import Explanation
from polidiff.records.numbers import percent
from polidiff.records.outcome import Evaluation, Outcome
from polidiff.records.patch import Patch
from polidiff.records.plan import Frontier
from polidiff.worlds.log_converters import simulated_log
from polidiff.worlds.tabular import TabularMDP

EPISODES = 1000  # of each log of figure 3
RANDOM_SHARE = 0.2  # of the decisions in an exploring log
SLIP = 0.1  # of the chain that does not always obey
RESAMPLED = 3  # explanations whose regions are compared

REWARD, STAY, STEPS = "collected reward", "stay in the desired region", "steps"
LENGTH, VISITS = "trajectory length", "visits to desired states"


@dataclass(frozen=True, eq=False)
class ChainRuns:
    """The discrete task."""

    paper: Explanation
    plain: Explanation
    frontier: Frontier  # changes summed over the starts
    without_s0: tuple[float, ...]  # costs of the frontier if s0 were no start
    current: Evaluation
    proposed: Evaluation
    worst_subset: float  # least gain in return of any part of the best plan


@dataclass(frozen=True, eq=False)
class NavigationRuns:
    """The continuous task."""

    proposed_1: Explanation
    proposed_2: Explanation
    frontier: Frontier
    exact: Mapping[str, Mapping[str, float]]  # policy or "κ = …" -> outcome -> mean, from the table of the task
    bounded: bool  # whether all actions everywhere leave the return bounded
    stability: float  # of the regions of the second proposal, over seeds
    worst_subset: float


@dataclass(frozen=True, eq=False)
class Logged:
    """True and estimated outcomes of both policies from one log of the chain."""

    log: str  # how it was written
    truth: Mapping[str, Evaluation]  # "current", "proposed"
    estimate: Mapping[str, Evaluation]
    bootstrap: Mapping[str, Evaluation]  # by the paper's model-based bootstrap


@dataclass(frozen=True, eq=False)
class Runs:
    """All of it."""

    chain: ChainRuns
    navigation: NavigationRuns
    exploring: Logged  # figure 3
    slipping: Logged  # the same where the chain does not always obey
    unexploring: Logged  # the current policy's own log
    seed: int


def all_runs(seed: int = 0) -> Runs:
    """Compute everything."""
    return Runs(
        chain=chain_runs(seed),
        navigation=navigation_runs(seed),
        exploring=logged(RANDOM_SHARE, slip=0.0, seed=seed),
        slipping=logged(RANDOM_SHARE, slip=SLIP, seed=seed),
        unexploring=logged(0.0, slip=0.0, seed=seed),
        seed=seed,
    )


def chain_runs(seed: int) -> ChainRuns:
    """The discrete task explained in both styles, improved and evaluated."""
    world, current, proposed = chain.world(), chain.current(), chain.proposed()
    frontier = improve(world, current, unit="total", seed=seed)
    fewer = improve(chain_without_s0(), current, unit="total", seed=seed)
    return ChainRuns(
        paper=explain(world, current, proposed, style="paper", seed=seed),
        plain=explain(world, current, proposed, seed=seed),
        frontier=frontier,
        without_s0=tuple(plan.changes for plan in fewer),
        current=evaluate(world, current),
        proposed=evaluate(world, proposed),
        worst_subset=worst_subset(current, frontier.best.patch, partial(exact_return, world)),
    )


def chain_without_s0() -> TabularMDP:
    """The paper's 1/10 taken at its word: the episode starts in one of s1 … s10."""
    world = chain.world()
    world.initial = np.concatenate(([0.0], np.full(10, 0.1), [0.0]))
    return world


def exact_return(world: TabularMDP, policy: PolicyLike) -> float:
    """Mean return of a policy in a table."""
    return evaluate(world, policy, outcomes=[Outcome("return", world.rewards)]).outcomes["return"].estimate


def navigation_runs(seed: int) -> NavigationRuns:
    """The continuous task explained for both proposals, improved, and evaluated in its exact table."""
    world = navigation.world()
    candidates = [navigation.proposed_1, navigation.proposed_2]
    frontier = improve(world, navigation.current, candidates, seed=seed)
    second = [explain(world, navigation.current, navigation.proposed_2, style="paper", seed=seed + i)
              for i in range(RESAMPLED)]  # fmt: skip
    policies: dict[str, PolicyLike] = {
        "current": navigation.current,
        "proposed 1": navigation.proposed_1,
        "proposed 2": navigation.proposed_2,
        **{f"κ = {plan.changes:.0f}": plan.policy for plan in frontier},
    }
    table = navigation.table()
    return NavigationRuns(
        proposed_1=explain(world, navigation.current, navigation.proposed_1, style="paper", seed=seed),
        proposed_2=second[0],
        frontier=frontier,
        exact={name: exact_outcomes(table, policy) for name, policy in policies.items()},
        bounded=has_finite_optimum(table),
        stability=_stability(second),
        worst_subset=worst_subset(
            navigation.current, frontier.best.patch, lambda policy: exact_outcomes(table, policy)[REWARD]
        ),
    )


def exact_outcomes(table: TabularMDP, policy: PolicyLike) -> dict[str, float]:
    """Reward, stay and steps of a policy over positions, in the exact table."""
    actions = top_actions(
        as_policy(policy, n_actions=table.n_actions).probabilities(table.features_of(np.arange(table.n_states)))
    )
    estimates = {name: interval.estimate for name, interval in evaluate(table, actions).outcomes.items()}
    estimates[STEPS] = evaluate(table, actions, outcomes=[Outcome(STEPS, 1.0)]).outcomes[STEPS].estimate
    return estimates


def has_finite_optimum(table: TabularMDP) -> bool:
    """Whether the best return is finite when every action is offered everywhere."""
    try:
        improve(table, navigation.current(table.features_of(np.arange(table.n_states))))
    except UnboundedReturnError:
        return False
    return True


def worst_subset(current: PolicyLike, patch: Patch, value: Callable[[PolicyLike], float]) -> float:
    """Least gain in value when only a part of a plan's changes is made."""
    return min(value(part.apply(current)) for part in parts_of(patch)) - value(current)


def parts_of(patch: Patch) -> list[Patch]:
    """A patch with every choice of its edits, one at least."""
    chosen = [part for count in range(1, len(patch.edits) + 1) for part in combinations(patch.edits, count)]
    return [Patch(part, patch.actions, patch.feature_names) for part in chosen]


def _stability(explanations: list[Explanation]) -> float:
    cells = explanations[0].pictures[0].cells
    places = np.array([(cell.x, cell.y) for cell in cells])
    return region_stability(explanations, places, np.array([cell.visits for cell in cells]))


def logged(random_share: float, *, slip: float, seed: int) -> Logged:
    """Both policies of the chain judged from a log of the current one that acts at random now and then."""
    world = chain.world(slip)
    current = policy_table(world, chain.current())
    wrote = (1 - random_share) * current + random_share / world.n_actions
    log = simulated_log(world, wrote, EPISODES, seed=seed)
    policies = {"current": chain.current(), "proposed": chain.proposed()}
    slips = f", slip {percent(slip)}" if slip else ""
    return Logged(
        log=f"{EPISODES} episodes, {log.check.rows} decisions, {percent(random_share)} of them random{slips}",
        truth={name: evaluate(world, policy) for name, policy in policies.items()},
        estimate={name: evaluate_log(log, policy, seed=seed) for name, policy in policies.items()},
        bootstrap={
            name: evaluate(log, policy, evaluation="model bootstrap", seed=seed, min_group=1)
            for name, policy in policies.items()
        },
    )
