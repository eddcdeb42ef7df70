"""The continuous task of Yao et al. 2022 (arXiv 2207.06269), appendix A.2.

An agent starts in the lower left tenth of a square, moves a tenth east, north or south, and has arrived when
x > 0.95. Reward is paid on arrival: 4, 3, 5 and 7 in four boxes, 10 at the goal, −0.001 elsewhere. Boxes are
half-open. Inside, positions are counted in tenths, so that whole steps stay whole.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from polidiff.records.arrays import AnyArray, BoolArray, FloatArray, IntArray
from polidiff.records.outcome import Outcome
from polidiff.worlds.gymnasium.spaces import EnvLike
from polidiff.worlds.simulator import Simulator
from polidiff.worlds.tabular import TabularMDP

EAST, NORTH, SOUTH = 0, 1, 2
ACTIONS = ("east", "north", "south")
BONUS = {(1, 0): 4.0, (2, 1): 3.0, (0, 3): 5.0, (5, 3): 7.0}  # tenth of x, tenth of y -> reward
GOAL_X, GOAL_REWARD, STEP_REWARD = 0.95, 10.0, -0.001
HORIZON = 200


def tenths(states: npt.ArrayLike) -> tuple[IntArray, IntArray]:
    """Which tenth of x and of y each position lies in; positions within 1e-9 of a border count as on it."""
    cells = np.floor(np.asarray(states) * 10 + 1e-9).astype(np.int64)
    return cells[..., 0], cells[..., 1]


def in_desired_region(
    states: npt.ArrayLike, actions: IntArray | None = None, next_states: AnyArray | None = None
) -> FloatArray:
    """1 for each decision made in 0.2 ≤ y < 0.3."""
    return (tenths(states)[1] == 2).astype(np.float64)


def rewards_on_arrival(states: npt.ArrayLike) -> FloatArray:
    """What arriving at each position pays."""
    x, y = tenths(states)
    pay = np.full(len(x), STEP_REWARD)
    for (column, row), bonus in BONUS.items():
        pay[(x == column) & (y == row)] = bonus
    pay[arrived(states)] = GOAL_REWARD
    return pay


def arrived(states: npt.ArrayLike) -> BoolArray:
    """Whether a position is past the goal line."""
    return np.asarray(np.asarray(states)[..., 0] > GOAL_X)


class NavigationModel:
    """Many walkers at once."""

    n_actions = 3
    actions = ACTIONS
    feature_names = ("x", "y")
    horizon = HORIZON

    def reset(self, count: int, rng: np.random.Generator) -> AnyArray:
        """Uniform over the lower left tenth."""
        return rng.uniform(0.0, 0.1, size=(count, 2))

    def step(
        self, states: AnyArray, actions: IntArray, rng: np.random.Generator
    ) -> tuple[AnyArray, FloatArray, BoolArray]:
        """A tenth east, north or south."""
        moved = np.array(states)
        moved[:, 0] += 0.1 * (actions == EAST)
        moved[:, 1] += 0.1 * ((actions == NORTH).astype(float) - (actions == SOUTH))
        return moved, rewards_on_arrival(moved), arrived(moved)


def outcomes() -> tuple[Outcome, ...]:
    """Stay in the desired region; the reward comes with the world."""
    return (
        Outcome(
            "stay in the desired region",
            in_desired_region,
            prefer="more",
            more="a longer stay in the desired region",
            less="a shorter stay in the desired region",
            unit="steps",
        ),
    )


def world(env: EnvLike = None) -> Simulator:
    """The task as a simulator: the vectorised model, or `env` (an id such as ``"polidiff/Navigation-v0"``)."""
    return Simulator(
        NavigationModel() if env is None else env,
        actions=ACTIONS,
        feature_names=("x", "y"),
        outcomes=outcomes(),
        return_name="collected reward",
    )


def current(states: npt.ArrayLike) -> IntArray:
    """North up to y = 0.2, then east; down again where x is in the second or sixth tenth above y = 0.3."""
    x, y = tenths(states)
    back = np.isin(x, (1, 5)) & (y >= 3)
    return np.where(back, SOUTH, np.where(y < 2, NORTH, EAST))


def proposed_1(states: npt.ArrayLike) -> IntArray:
    """East at once from the start, and again in the second tenths: the way through two bonus boxes."""
    x, y = tenths(states)
    early = ((x == 0) & (y == 0)) | ((x == 1) & (y == 1))
    return np.where(early, EAST, current(states))


def proposed_2(states: npt.ArrayLike) -> IntArray:
    """North to y = 0.3 in the first tenth of x, then straight east: the optimum."""
    x, y = tenths(states)
    return np.where(((x == 0) & (y == 2)) | (y < 2), NORTH, EAST)


def table(rows: int = 5) -> TabularMDP:
    """The same task, exactly, as a table over tenths and the half of a tenth that decides when the goal is reached.

    A start in the right half of its tenth needs nine moves east, one in the left half ten. Features are the middle of
    each cell. North of the top row and south of the bottom row the walker stays.
    """
    columns = 10
    count = 2 * columns * rows
    goal = count
    moves = np.zeros((count + 1, 3, count + 1))
    rewards = np.zeros((count + 1, 3))
    features = np.zeros((count + 1, 2))
    names = []
    for half in (0, 1):
        for x in range(columns):
            for y in range(rows):
                state = (half * columns + x) * rows + y
                features[state] = (x + 0.25 + 0.5 * half) / 10, (y + 0.5) / 10
                names.append(f"x{x}{'lr'[half]}y{y}")
                for action, (dx, dy) in enumerate(((1, 0), (0, 1), (0, -1))):
                    to_x, to_y = x + dx, min(max(y + dy, 0), rows - 1)
                    ends = to_x == columns or (to_x == columns - 1 and half == 1)
                    target = goal if ends else (half * columns + to_x) * rows + to_y
                    moves[state, action, target] = 1.0
                    rewards[state, action] = GOAL_REWARD if ends else BONUS.get((to_x, to_y), STEP_REWARD)
    initial = np.zeros(count + 1)
    initial[[0, columns * rows]] = 0.5
    features[goal] = 1.0, 0.25
    return TabularMDP(
        moves,
        rewards,
        initial,
        absorbing=[goal],
        actions=ACTIONS,
        states=[*names, "goal"],
        features=features,
        feature_names=("x", "y"),
        outcomes=[replace(outcome, of=in_desired_region(features)) for outcome in outcomes()],
        return_name="collected reward",
    )
