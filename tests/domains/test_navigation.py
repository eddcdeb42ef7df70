"""The paper's navigation task: exact values, the model, the table and the environment against each other."""

from __future__ import annotations

import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from polidiff import evaluate
from polidiff.domains import navigation, navigation_env
from polidiff.errors import UnboundedReturnError
from polidiff.evaluation.exact import best_policy, exact_evaluator
from polidiff.policies import as_policy
from polidiff.worlds.rollouts import roll_out

RETURN, STAY = "collected reward", "stay in the desired region"
POLICIES = {
    "current": navigation.current,
    "proposed 1": navigation.proposed_1,
    "proposed 2": navigation.proposed_2,
}
EXACT = {  # return, steps, stay: means over starts in both halves of the first tenth
    "current": (9.9895, 11.5, 9.5),
    "proposed 1": (16.9915, 11.5, 7.5),
    "proposed 2": (21.9905, 12.5, 1.0),
}
NORTH_AT_S1, EAST_AT_S3, EAST_AT_S4 = ((0, 2), navigation.NORTH), ((1, 3), navigation.EAST), ((5, 3), navigation.EAST)


def patched(*changes):
    """The current policy with another action in some boxes, each named by its tenths."""

    def act(states):
        x, y = navigation.tenths(states)
        actions = np.array(navigation.current(states))
        for (column, row), action in changes:
            actions[(x == column) & (y == row)] = action
        return actions

    return act


def exact(policy) -> tuple[float, float, float]:
    world = navigation.table()
    evaluator = exact_evaluator(world, policy(world.features))
    told = evaluate(world, policy(world.features)).outcomes
    return told[RETURN].estimate, float(evaluator.visits().sum()), told[STAY].estimate


@pytest.mark.parametrize("name", POLICIES)
def test_the_table_gives_the_exact_values(name):
    assert exact(POLICIES[name]) == pytest.approx(EXACT[name], abs=1e-9)


@pytest.mark.parametrize(
    ("changes", "expected", "stay"),
    [
        ((NORTH_AT_S1,), 14.9885, 9.5),
        ((NORTH_AT_S1, EAST_AT_S3), 21.9895, 5.5),
        ((NORTH_AT_S1, EAST_AT_S3, EAST_AT_S4), 21.9905, 1.0),
    ],
)
def test_one_two_and_three_changes_of_the_papers_figure(changes, expected, stay):
    collected, _, stayed = exact(patched(*changes))
    assert (collected, stayed) == pytest.approx((expected, stay), abs=1e-9)


def test_three_changes_are_the_second_proposed_policy_along_its_way():
    assert exact(patched(NORTH_AT_S1, EAST_AT_S3, EAST_AT_S4)) == pytest.approx(exact(navigation.proposed_2))


@pytest.mark.parametrize(
    ("name", "env", "episodes"),
    [*((name, None, 10_000) for name in POLICIES), ("proposed 2", navigation_env.ID, 1_000)],
)
def test_simulated_episodes_agree_with_the_exact_values_within_their_interval(name, env, episodes):
    told = evaluate(navigation.world(env), POLICIES[name], level=0.999)
    collected, _, stay = EXACT[name]
    assert told.details["episodes"] == episodes
    assert told.outcomes[RETURN].contains(collected)
    assert told.outcomes[STAY].contains(stay)
    assert told.truncated == 0.0


@pytest.mark.parametrize("name", POLICIES)
def test_model_table_and_environment_walk_the_same_way_from_the_same_start(name):
    policy = as_policy(POLICIES[name], n_actions=3)
    played = roll_out(navigation.world(), policy, episodes=200, seed=(5,))
    table = navigation.table()
    right = (played.starts[:, 0] > 0.05).astype(int)
    values = exact_evaluator(table, POLICIES[name](table.features)).values(table.rewards)[[0, 50]]
    assert played.totals[:, 0] == pytest.approx(values[right])
    for start, total in zip(played.starts[:20], played.totals[:20, 0], strict=True):
        assert environment_return(POLICIES[name], start) == pytest.approx(total, abs=1e-12)


def environment_return(policy, start: np.ndarray) -> float:
    env = navigation_env.NavigationEnv()
    env.reset(seed=0)
    env._position = start[None].copy()
    total, state, over = 0.0, start, False
    while not over:
        state, reward, over, _, _ = env.step(int(policy(state[None])[0]))
        total += reward
    return total


def test_the_environment_passes_gymnasiums_own_check():
    env = gymnasium.make(navigation_env.ID)
    assert env.spec.max_episode_steps == navigation.HORIZON
    check_env(env.unwrapped, skip_render_check=True)


@pytest.mark.parametrize(
    "code",
    [
        "import gymnasium; gymnasium.make('polidiff.domains.navigation_env:polidiff/Navigation-v0')",
        "import gymnasium, polidiff.domains.navigation_env; gymnasium.make('polidiff/Navigation-v0')",
        "from polidiff import Simulator; assert Simulator('polidiff/Navigation-v0').n_actions == 3",
    ],
)
def test_the_environment_is_found_by_its_id_in_a_fresh_interpreter(code):
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_with_all_actions_everywhere_a_bonus_box_pays_for_ever():
    with pytest.raises(UnboundedReturnError, match=r"the loop x1ly0 \(south\) pays for ever") as caught:
        best_policy(navigation.table())
    assert "\n" not in str(caught.value)


def test_boxes_are_half_open_and_steps_stay_whole():
    ten_steps_of_a_tenth = np.cumsum(np.full(10, 0.1))
    x, _ = navigation.tenths(np.column_stack([ten_steps_of_a_tenth, np.zeros(10)]))
    assert x.tolist() == list(range(1, 11))
    assert navigation.in_desired_region(np.array([[0.5, 0.2], [0.5, 0.3]])).tolist() == [1.0, 0.0]
