"""What a policy achieves in a table or a simulator."""

from __future__ import annotations

from typing import Any

import numpy as np

from polidiff.evaluation.exact import exact_evaluator, finite_horizon_values, outcome_tensor
from polidiff.evaluation.monte_carlo import mean_interval
from polidiff.policies import as_policy
from polidiff.records.evaluation import Evaluation
from polidiff.records.interval import Interval
from polidiff.worlds.rollouts import roll_out
from polidiff.worlds.simulator import Simulator
from polidiff.worlds.tabular import TabularMDP

MOST_STARTS = 10_000


def evaluate_table(world: TabularMDP, policy: Any, *, horizon: int | None = None) -> Evaluation:
    """Exact expected outcomes, overall and from every start; over the first `horizon` decisions if given."""
    evaluator = exact_evaluator(world, policy)
    gains = outcome_tensor(world)
    if horizon is None:
        evaluator.check_ends(world.initial)
        values = evaluator.values(gains)
        method = "exact"
    else:
        values = finite_horizon_values(evaluator, gains, horizon)
        method = f"exact, horizon {horizon}"
    starts = world.starts
    overall = world.initial[starts] @ values[starts]
    per_start = {
        outcome.name: {world.states[s]: Interval.exactly(values[s, m]) for s in starts[:MOST_STARTS]}
        for m, outcome in enumerate(world.outcomes)
    }
    outcomes = {outcome.name: Interval.exactly(overall[m]) for m, outcome in enumerate(world.outcomes)}
    return Evaluation(outcomes, per_start, method, truncated=0.0, details={"states": world.n_states})


def evaluate_simulator(
    world: Simulator, policy: Any, *, horizon: int | None, level: float, seed: int, episodes: int | None
) -> Evaluation:
    """Expected outcomes with intervals from played episodes."""
    count = episodes if episodes is not None else default_episodes(world)
    played = roll_out(
        world,
        as_policy(policy, actions=world.actions),
        episodes=count,
        seed=(seed,),
        horizon=horizon,
        what="episodes",
    )
    outcomes = {o.name: mean_interval(played.totals[:, m], level) for m, o in enumerate(world.outcomes)}
    details = {"episodes": float(count), "mean length": float(np.mean(played.lengths))}
    return Evaluation(outcomes, {}, f"{count} simulated episodes", played.truncated_share, details)


def default_episodes(world: Simulator) -> int:
    """10,000 in a vectorised model, 1,000 in an environment that is stepped one by one."""
    return 10_000 if world.is_model else 1_000
