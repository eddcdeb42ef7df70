"""What every way of stepping many episodes must do; a new one joins by a line."""

from __future__ import annotations

import numpy as np
import pytest

from polidiff import Simulator
from polidiff.domains import chain, navigation
from polidiff.worlds.rollouts import start_stepper

WORLDS = {
    "table": lambda: chain.world(slip=0.3),
    "model": navigation.world,
    "environment": lambda: Simulator("FrozenLake-v1"),
    "environment with points": lambda: navigation.world("polidiff/Navigation-v0"),
}
EVERYONE = np.arange(12)


@pytest.fixture(params=WORLDS)
def start(request):
    world = WORLDS[request.param]()
    return lambda seed=4: start_stepper(world, len(EVERYONE), (seed,))


def moved(stepper, times: int = 2) -> np.ndarray:
    """Positions after a few moves of all; action 1 ends none of these episodes so soon."""
    for _ in range(times):
        stepper.step(np.ones(len(stepper.states), dtype=np.int64), np.arange(len(stepper.states)))
    return np.array(stepper.states)


def test_the_same_seed_gives_the_same_episodes_and_another_gives_others(start):
    assert (moved(start()) == moved(start())).all()
    assert any((moved(start(seed)) != moved(start())).any() for seed in (5, 6, 7))


def test_a_step_answers_for_those_that_moved_in_their_order(start):
    stepper = start()
    running = np.array([1, 4, 7])
    step = stepper.step(np.ones(3, dtype=np.int64), running)
    assert len(step.next_states) == len(step.rewards) == len(step.terminated) == len(step.truncated) == 3
    assert (stepper.states[running] == step.next_states).all()


def test_others_stay_where_they_are(start):
    stepper = start()
    before = np.array(stepper.states)
    stepper.step(np.ones(3, dtype=np.int64), np.array([1, 4, 7]))
    rest = np.setdiff1d(EVERYONE, [1, 4, 7])
    assert (stepper.states[rest] == before[rest]).all()


def test_the_luck_of_an_episode_does_not_depend_on_who_else_runs(start):
    together, apart = start(), start()
    one = together.step(np.ones(12, dtype=np.int64), EVERYONE)
    some = apart.step(np.ones(4, dtype=np.int64), EVERYONE[:4])
    assert (one.next_states[:4] == some.next_states).all()


def test_a_clone_goes_on_from_the_same_states_and_leaves_the_original_alone(start):
    stepper = start()
    here = moved(stepper, 1)
    twin = stepper.clone(np.array([2, 3]))
    assert (twin.states == here[[2, 3]]).all()
    moved(twin, 3)
    assert (stepper.states == here).all()
    assert twin.restore_mode == stepper.restore_mode


def test_recorded_states_are_not_changed_by_later_steps(start):
    stepper = start()
    first = stepper.step(np.ones(12, dtype=np.int64), EVERYONE)
    kept = np.array(first.next_states)
    moved(stepper, 2)
    assert (first.next_states == kept).all()
