"""Worlds with a known truth: who wrote the log, who is to be judged, and what is asked."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy import sparse

from polidiff import Outcome, TabularMDP
from polidiff.domains.icu_sepsis import ENDS, SURVIVAL, proposed, sepsis_data
from polidiff.evaluation.exact import best_policy, exact_evaluator
from polidiff.policies import one_hot
from polidiff.records.arrays import FloatArray


@dataclass(frozen=True, eq=False)
class Task:
    """A table, the policy that writes the log, the policy to be judged."""

    name: str
    world: TabularMDP
    logging: FloatArray  # (S, A)
    target: FloatArray  # (S, A)
    horizon: int = 100_000

    def truth(self, table: FloatArray) -> FloatArray:
        """(S, M) exact expected outcomes of a policy from every state."""
        gains = np.stack([self.world.outcome_table(o) for o in self.world.outcomes], axis=2)
        return exact_evaluator(self.world, table).values(gains)


def mixed(best: FloatArray, share: float) -> FloatArray:
    """A greedy table with a share of uniformly random actions."""
    return (1 - share) * best + share / best.shape[1]


@cache
def chain(slip: float = 0.1) -> Task:
    """Two detours on the way through twelve states; an action slips to staying or to the other move."""
    follow = {
        0: (1, 1),
        1: (3, 2),
        2: (3, 3),
        3: (4, 4),
        4: (5, 5),
        5: (7, 6),
        6: (7, 7),
        7: (8, 8),
        9: (11, 11),
        10: (11, 11),
    }
    moves = np.zeros((12, 2, 12))
    for state, ways in follow.items():
        for action in (0, 1):
            moves[state, action, ways[action]] += 1 - slip
            moves[state, action, state] += slip / 2
            moves[state, action, ways[1 - action]] += slip / 2
    moves[8, :, 9] = moves[8, :, 10] = 0.5
    start = np.zeros(12)
    start[0] = 1.0
    outcomes = (
        Outcome("length", 1.0, range=(0, 40)),
        Outcome("detours", lambda s, a, n: np.isin(n, (2, 6)), range=(0, 40)),
    )
    world = TabularMDP(moves, np.zeros((12, 2)), start, absorbing=[11], outcomes=outcomes, include_return=False)
    target = np.full((12, 2), 0.5)
    target[[1, 5]] = (0.1, 0.9)
    return Task("chain", world, np.full((12, 2), 0.5), target)


@cache
def frozen_lake(size: str = "4x4", logged: float = 0.5, judged: float = 0.2) -> Task:
    """Slippery ice; success is reaching the goal."""
    import gymnasium

    env = gymnasium.make("FrozenLake-v1", map_name=size, is_slippery=True)
    goal = int(np.flatnonzero(env.unwrapped.desc.ravel() == b"G")[0])
    success = Outcome("success", lambda s, a, n: (n == goal).astype(float), range=(0, 1), margin=0.01)
    world = TabularMDP.from_gymnasium(env, outcomes=(success,), include_return=False)
    best = _best(world, 0.99)
    return Task(f"FrozenLake {size}", world, mixed(best, logged), mixed(best, judged))


@cache
def taxi(logged: float = 0.3, judged: float = 0.1) -> Task:
    """Deterministic moves, 500 states: every estimated variance is 0, every error is from actions not tried."""
    import gymnasium

    name = "Taxi-v4" if "Taxi-v4" in gymnasium.registry else "Taxi-v3"
    world = TabularMDP.from_gymnasium(name)
    earned = Outcome("earned", world.rewards, range=(-200, 20), margin=2.2)
    world = TabularMDP.from_gymnasium(name, outcomes=(earned,), include_return=False)
    best = _best(world, 0.99)
    return Task("Taxi", world, mixed(best, logged), mixed(best, judged))


@cache
def icu_sepsis(greedy: float) -> Task:
    """716 states, 25 actions, written by the clinicians' policy; the target moves a share to the greedy one."""
    base = _icu_world()
    expert = np.array(sepsis_data().clinicians)
    expert[base.absorbing] = one_hot(np.zeros(int(base.absorbing.sum()), dtype=np.int64), base.n_actions)
    best = one_hot(np.asarray(proposed()), base.n_actions)
    return Task(f"ICU-Sepsis {greedy:.0%} greedy", base, expert, (1 - greedy) * expert + greedy * best)


@cache
def _icu_world() -> TabularMDP:
    data = sepsis_data()
    survived = data.transitions[:, :, SURVIVAL]
    outcomes = (
        Outcome("survival", lambda s, a, n: (n == SURVIVAL).astype(float), range=(0, 1), margin=0.01),
        Outcome("length", 1.0, range=(0, 200), margin=2.0),
        Outcome("vasopressor", (np.arange(25) // 5)[None, :], range=(0, 800), margin=8.0),
    )
    return TabularMDP(data.transitions, survived, data.initial, absorbing=list(ENDS), outcomes=outcomes,
                      include_return=False)  # fmt: skip


@cache
def random_task(seed: int = 0, n_states: int = 60, n_actions: int = 4) -> Task:
    """Sparse random moves with a greedy target: most of what it does was rarely tried."""
    rng = np.random.default_rng(seed)
    moves = np.zeros((n_states + 1, n_actions, n_states + 1))
    for state in range(n_states):
        for action in range(n_actions):
            to = rng.choice(n_states, 4, replace=False)
            moves[state, action, to] = rng.dirichlet(np.ones(4)) * 0.9
            moves[state, action, n_states] = 0.1
    good = rng.random((n_states + 1, n_actions)) < 0.5
    moves[n_states] = np.eye(n_states + 1)[n_states]
    start = np.append(np.full(n_states, 1 / n_states), 0.0)
    paid = Outcome("paid", lambda s, a, n: (n == n_states) & good[s, a], range=(0, 1), margin=0.01)
    world = TabularMDP(moves, 0.1 * good, start, absorbing=[n_states], outcomes=(paid,), include_return=False)
    logging = np.tile([0.7, 0.2, 0.08, 0.02], (n_states + 1, 1))
    return Task("random", world, logging, one_hot(best_policy(world).actions, n_actions))


def _best(world: TabularMDP, discount: float) -> FloatArray:
    stacked = world.transitions
    parts = [sparse.csr_array(stacked[a :: world.n_actions]) for a in range(world.n_actions)]
    discounted = TabularMDP(parts, world.rewards, world.initial, absorbing=world.absorbing, discount=discount)
    return one_hot(best_policy(discounted).actions, world.n_actions)


def large_lake() -> Task:
    """FrozenLake 8x8."""
    return frozen_lake("8x8")


def icu_mixed() -> Task:
    """ICU-Sepsis, 30 % greedy."""
    return icu_sepsis(0.3)


def icu_greedy() -> Task:
    """ICU-Sepsis, 100 % greedy."""
    return icu_sepsis(1.0)
