"""Whether plans of `improve(simulator, current, max_rules=2)` gain what they promise, on episodes that nobody has seen.

Twenty runs in environments with observations of every kind: numbers, tuples, several discrete values, boxes; short and
long episodes. Every plan is played again, with the luck of another seed, beside the current policy. A run holds if for
each of its plans the gain on these episodes is inside the plan's interval, up to the error of the episodes themselves.

::

    python -m benchmarks played_plans
    python -m benchmarks.played_plans CartPole-v1  # the runs of this one, each kept as soon as it is there
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import gymnasium
import numpy as np

from benchmarks.group_verdicts import Errands, Places
from benchmarks.rows import keep_row
from polidiff import Simulator, improve
from polidiff.evaluation.simulator import paired_outcomes
from polidiff.policies import as_policy
from polidiff.worlds.rollouts import roll_out

TAXI = "Taxi-v4" if "Taxi-v4" in gymnasium.registry else "Taxi-v3"
STEPS = 150_000  # decisions of each policy on episodes that nobody has seen
FEWEST, MOST = 300, 40_000  # of these episodes
LIMIT = 60.0  # seconds of a run


class Shelves(gymnasium.Env[Any, Any]):
    """Ten decisions on what to do with a shelf of 0 to 4 goods on one of four days: fill, leave, clear."""

    observation_space = gymnasium.spaces.MultiDiscrete([5, 4])
    action_space = gymnasium.spaces.Discrete(3)
    at: Any

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """A random shelf on the first day."""
        super().reset(seed=seed)
        self.at = np.array([self.np_random.integers(5), 0])
        return self.at.copy(), {}

    def step(self, action: Any) -> Any:
        """Sold goods pay 2, filling costs 1 a piece, and what lies on the last day is lost."""
        goods, day = self.at
        goods, paid = (4, goods - 4.0) if action == 0 else (0, 0.0) if action == 2 else (goods, 0.0)
        sold = min(int(goods), int(self.np_random.poisson(1.5)))
        paid += 2 * sold - 1.5 * (goods - sold) * (day == 3)
        self.at = np.array([goods - sold, (day + 1) % 4])
        return self.at.copy(), float(paid), False, False, {}


def _one(choice: int) -> Any:
    return lambda states: np.full(len(states), choice)


CASES: dict[str, tuple[Any, Any, int]] = {  # environment, current policy, runs
    "Blackjack-v1": (lambda: Simulator("Blackjack-v1"), lambda x: (np.asarray(x)[:, 0] < 20).astype(int), 3),
    "CartPole-v1": (lambda: Simulator("CartPole-v1"), lambda x: (x[:, 2] > 0).astype(int), 2),
    "Acrobot-v1": (lambda: Simulator("Acrobot-v1"), lambda x: np.where(x[:, 5] > 0, 2, 0), 1),
    "MountainCar-v0": (lambda: Simulator("MountainCar-v0"), _one(2), 1),
    TAXI: (lambda: Simulator(TAXI), _one(0), 1),
    "FrozenLake-v1": (lambda: Simulator("FrozenLake-v1"), _one(2), 2),
    "Shelves, several discrete values": (lambda: Simulator(Shelves(), horizon=10), _one(1), 4),
    "places": (lambda: Simulator(Places()), _one(0), 3),
    "errands": (lambda: Simulator(Errands()), _one(0), 3),
}


def run(smoke: bool = False) -> dict[str, Any]:
    """One row per run."""
    return {"played plans": list(_rows(["places"] if smoke else list(CASES)))}


def _rows(names: Sequence[str]) -> Iterator[dict[str, Any]]:
    warnings.filterwarnings("ignore")
    return (_row(name, *CASES[name][:2], seed) for name in names for seed in range(CASES[name][2]))


def _row(name: str, make: Any, current: Any, seed: int) -> dict[str, Any]:
    world, begin = make(), time.process_time()
    frontier = improve(world, current, max_rules=2, seed=seed, time_limit=LIMIT)
    spent = time.process_time() - begin
    old = as_policy(current, actions=world.actions)
    length = roll_out(world, old, episodes=20, seed=(seed,)).lengths.mean()
    episodes = int(np.clip(STEPS / length, FEWEST, MOST))
    inside, strictly = [], []
    for plan in frontier.plans:
        if plan.gain is None:
            continue
        played, _ = paired_outcomes(world, old, plan.policy, episodes=episodes, seed=(seed + 1_000,))
        gains = played.difference[:, 0]
        error = 2 * float(gains.std(ddof=1)) / np.sqrt(episodes)
        inside.append(bool(plan.gain.low - error <= gains.mean() <= plan.gain.high + error))
        strictly.append(bool(plan.gain.low <= gains.mean() <= plan.gain.high))
    best = frontier.best.gain
    return {
        "environment": name,
        "seed": seed,
        "plans": len(inside),
        "inside": sum(inside),
        "inside without the error of fresh episodes": sum(strictly),
        "best gain": None if best is None else [round(v, 3) for v in (best.estimate, best.low, best.high)],
        "says": next((note for note in frontier.warnings if note.startswith("The current policy stays")), ""),
        "CPU s": round(spent, 1),
    }


if __name__ == "__main__":
    for row in _rows(sys.argv[1:] or list(CASES)):
        keep_row("played_plans", "played plans", row, ("environment", "seed"))
