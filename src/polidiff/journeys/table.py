"""Paths from every start of a table, played often enough to know the typical one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from polidiff.evaluation.table import Followed, TableComparison
from polidiff.journeys import SHOWN, Journeys, Trajectory, journeys_of, trajectories_of
from polidiff.policies import Policy
from polidiff.records.arrays import IntArray
from polidiff.records.rule import Rule, first_match
from polidiff.streams import Stream
from polidiff.worlds.checks import surely_ending
from polidiff.worlds.rollouts import Visits, roll_out
from polidiff.worlds.tabular import TabularMDP

ROLLOUTS = 20_000
FEWEST, MOST = 20, 5_000  # episodes from one start
LONG_STEPS = 5_000_000  # of all episodes together, where they take long to end: about 300 MB
LONGEST = 10_000  # steps after which an episode is left, though it would end
ENDLESS = 100, 1_000  # fewest and most steps of an episode that may never end, or that is shown
ENDLESS_STEPS = 2_000_000  # of all such episodes


def follow(
    world: TabularMDP,
    comparison: TableComparison,
    rules: Sequence[Rule],
    *,
    seed: int,
    episodes: int,
    followed: Followed | None = None,
) -> Journeys:
    """Play the proposed policy from every start and note the regions met, in the world or in a deeper model of it."""
    starts, seeds = world.starts, (seed, Stream.TABLE_PATHS)
    model, proposed, begins, _, steps = followed or (world, comparison.proposed, np.arange(world.n_states), None, None)
    repeats = 1 if _is_deterministic(model, proposed) else _repeats(model, proposed, seeds)
    begin, most = np.repeat(begins[starts], repeats), steps or _horizon(model, proposed, repeats * len(starts))
    played = roll_out(model, proposed, episodes=0, seed=seeds, record=True, horizon=most, starts=begin, what="paths")
    assert played.visits is not None
    if followed is not None:
        visits = replace(played.visits, states=followed.shown[played.visits.states])
        played = replace(played, starts=followed.shown[played.starts], visits=visits)
    assert played.visits is not None
    region = _region_of_visits(world, played.visits, rules)
    owner, names = np.repeat(np.arange(len(starts)), repeats), tuple(world.states[s] for s in starts)
    return journeys_of(world, played, region, owner, world.initial[starts], regions=len(rules), names=names)


def sample_trajectories(world: TabularMDP, policy: Policy, *, seed: int) -> tuple[Trajectory, ...]:
    """A few episodes; with the same seed, two policies set out from the same starts: named ones in order."""
    seeds, starts = (seed, Stream.SHOWN_EPISODES), None if world.has_features else world.starts[:SHOWN]
    played = roll_out(
        world, policy, episodes=SHOWN, seed=seeds, record=True, horizon=ENDLESS[1], starts=starts, what="trajectories"
    )
    return trajectories_of(world, played)


def _repeats(world: TabularMDP, policy: Policy, seeds: tuple[int, ...]) -> int:
    """Episodes to play from every start; fewer where the first of them turn out to be long."""
    starts = world.starts
    few = np.repeat(starts, -(-FEWEST // len(starts)))
    steps = roll_out(
        world, policy, episodes=0, seed=seeds, horizon=_horizon(world, policy, ROLLOUTS), starts=few
    ).lengths
    episodes = min(ROLLOUTS, int(LONG_STEPS / max(1.0, steps.mean())))
    return int(np.clip(episodes // len(starts), FEWEST, MOST))


def _horizon(world: TabularMDP, policy: Policy, episodes: int) -> int:
    """Steps after which episodes are left, because some never end, or take too long."""
    moves = world.policy_moves(policy.probabilities(np.arange(world.n_states)))
    if surely_ending(moves, world.absorbing)[world.starts].all():
        return LONGEST
    return int(np.clip(ENDLESS_STEPS // episodes, *ENDLESS))


def _is_deterministic(world: TabularMDP, policy: Policy) -> bool:
    table = policy.probabilities(np.arange(world.n_states))
    return bool((world.transitions.data == 1).all() and (table.max(axis=1) == 1).all())


def _region_of_visits(world: TabularMDP, visits: Visits, rules: Sequence[Rule]) -> IntArray:
    """Region index of every visit, −1 outside; each state is looked up once."""
    if world.n_states > len(visits.states):
        return first_match(list(rules), world.features_of(visits.states))
    region: IntArray = first_match(list(rules), world.features_of(np.arange(world.n_states)))[visits.states]
    return region
