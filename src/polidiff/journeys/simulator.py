"""Paths of a simulator: one per episode of the proposed policy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from polidiff.evaluation.simulator import SimulatorComparison
from polidiff.journeys import SHOWN, Journeys, Trajectory, journeys_of, trajectories_of
from polidiff.policies import Policy
from polidiff.records.rule import Rule, first_match
from polidiff.streams import Stream
from polidiff.worlds.rollouts import roll_out
from polidiff.worlds.simulator import Simulator


def follow(
    world: Simulator, comparison: SimulatorComparison, rules: Sequence[Rule], *, seed: int, episodes: int
) -> Journeys:
    """Play the proposed policy and note the regions met."""
    seeds = (seed, Stream.FORMING)
    played = roll_out(world, comparison.proposed, episodes=episodes, seed=seeds, record=True, what="paths")
    assert played.visits is not None
    region = first_match(list(rules), world.features_of(played.visits.states))
    weight = np.full(episodes, 1 / episodes)
    return journeys_of(world, played, region, np.arange(episodes), weight, regions=len(rules))


def sample_trajectories(world: Simulator, policy: Policy, *, seed: int) -> tuple[Trajectory, ...]:
    """A few episodes; with the same seed, two policies set out from the same starts."""
    seeds = (seed, Stream.SHOWN_EPISODES)
    return trajectories_of(world, roll_out(world, policy, episodes=SHOWN, seed=seeds, record=True, what="trajectories"))
