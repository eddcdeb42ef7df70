"""Small random tables and their frontiers by enumeration of every deterministic policy."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from scipy import sparse

from polidiff.frontier.problem import FrontierProblem, build_problem


@dataclass(frozen=True)
class Table:
    """Arrays over transient states; what a row lacks to 1 ends the episode."""

    moves: np.ndarray  # (S, A, S)
    rewards: np.ndarray
    cost: np.ndarray
    initial: np.ndarray
    allowed: np.ndarray
    base: np.ndarray

    def problem(self) -> FrontierProblem:
        n_states, n_actions = self.rewards.shape
        flat = sparse.csr_matrix(self.moves.reshape(n_states * n_actions, n_states))
        return build_problem(flat, self.rewards, self.cost, self.initial, self.allowed, self.base)


@dataclass(frozen=True)
class Enumeration:
    """Every deterministic policy that ends from the starts."""

    policies: np.ndarray  # (m, S) actions; unreached states keep the current one
    changes: np.ndarray
    returns: np.ndarray
    visits: np.ndarray  # (m, S)
    unbounded: bool

    def frontier(self, keep: np.ndarray | None = None) -> list[tuple[float, float]]:
        """Non-dominated points, fewest changes first."""
        chosen = np.ones(len(self.changes), dtype=bool) if keep is None else keep
        points: list[tuple[float, float]] = []
        for c, v in sorted(zip(self.changes[chosen], self.returns[chosen], strict=True), key=lambda p: (p[0], -p[1])):
            if not points or v > points[-1][1] + 1e-8:
                if points and abs(c - points[-1][0]) < 1e-8:
                    points.pop()
                points.append((float(c), float(v)))
        return points


def draw_table(seed: int) -> Table:
    """A table of 4–8 states and 2–3 actions with loops, ties, zero rewards, own costs or frozen states."""
    rng = np.random.default_rng(seed)
    n_actions = int(rng.integers(2, 4))
    n_states = int(rng.integers(4, 9 if n_actions == 2 else 8))
    moves = np.zeros((n_states, n_actions, n_states))
    deterministic = rng.random() < 0.4
    for s, a in itertools.product(range(n_states), range(n_actions)):
        if deterministic:
            target = int(rng.integers(0, n_states + 2))
            if target < n_states:
                moves[s, a, target] = 1.0
        else:
            targets = rng.choice(n_states, size=int(rng.integers(1, 4)), replace=False)
            leak = 0.0 if rng.random() < 0.5 else rng.uniform(0.1, 0.6)
            moves[s, a, targets] = rng.dirichlet(np.ones(len(targets))) * (1 - leak)
    rewards = rng.integers(-3, 2, size=(n_states, n_actions)).astype(float)
    if rng.random() < 0.5:
        rewards = np.where(rng.random(rewards.shape) < 0.3, 0.0, rng.normal(-0.5, 1.0, size=rewards.shape))
    base = rng.integers(0, n_actions, size=n_states)
    cost = (np.arange(n_actions)[None, :] != base[:, None]).astype(float)
    if rng.random() < 0.4:
        cost *= rng.choice([0.5, 1.0, 2.0], size=cost.shape)
    allowed = rng.random((n_states, n_actions)) < 0.9
    if rng.random() < 0.4:
        allowed &= rng.random(n_states)[:, None] > 0.2
    allowed[np.arange(n_states), base] = True
    starts = rng.random(n_states) < 0.5
    starts[int(rng.integers(n_states))] = True
    initial = np.where(starts, rng.random(n_states) + 0.1, 0.0)
    return Table(moves, rewards, cost, initial / initial.sum(), allowed, base)


def enumerate_policies(table: Table) -> Enumeration | None:
    """None if the current policy does not end from every start."""
    n_states = len(table.base)
    options = [np.flatnonzero(row) for row in table.allowed]
    policies = np.array(list(itertools.product(*options)))
    rows = np.arange(n_states)
    moves = table.moves[rows, policies]
    ends = closure(moves > 0, 1.0 - moves.sum(axis=2) > 1e-9)
    reached = forward(moves > 0, np.broadcast_to(table.initial > 0, policies.shape))
    surely = ~closure(moves > 0, ~ends)
    proper = ~(reached & ~ends).any(axis=1)
    if not proper[(policies == table.base).all(axis=1)].all():
        return None
    inside = moves[proper] * reached[proper][:, :, None]
    visits = np.linalg.solve(
        np.eye(n_states) - inside.transpose(0, 2, 1),
        np.broadcast_to(table.initial[:, None], (len(inside), n_states, 1)),
    )
    visits = visits[:, :, 0]
    chosen = policies[proper]
    changes = (visits * table.cost[rows, chosen]).sum(axis=1)
    returns = (visits * table.rewards[rows, chosen]).sum(axis=1)
    final = np.where(reached[proper], chosen, table.base)
    unbounded = pays_for_ever(table, policies, moves, ends, surely.any(axis=0))
    return Enumeration(final, changes, returns, visits, unbounded)


def closure(links: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """(m, S) states of each policy that can reach its targets."""
    reach = targets.copy()
    for _ in range(links.shape[1]):
        reach = reach | (links & reach[:, None, :]).any(axis=2)
    return reach


def forward(links: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """(m, S) states of each policy that its starts can reach."""
    return closure(links.transpose(0, 2, 1), starts)


def pays_for_ever(table: Table, policies: np.ndarray, moves: np.ndarray, ends: np.ndarray, can_end: np.ndarray) -> bool:
    """Whether some policy has a loop of positive gain, among states that can be reached and can still end."""
    usable = table.allowed & ~((table.moves > 0) & ~can_end).any(axis=2) & can_end[:, None]
    graph = ((table.moves > 0) & usable[:, :, None]).any(axis=1)
    there = forward(graph[None], (table.initial > 0)[None])[0] & can_end
    looping = np.flatnonzero(((~ends) & there).any(axis=1))
    for m in looping:
        stuck = ~ends[m]
        links = moves[m] > 0
        for s in np.flatnonzero(stuck & there):
            mine = forward(links[None], (np.arange(len(stuck)) == s)[None])[0]
            if not mine[stuck].any() or not there[mine].all():
                continue
            back = closure(links[None], (np.arange(len(stuck)) == s)[None])[0]
            if not back[mine].all():
                continue
            chain = moves[m][np.ix_(mine, mine)]
            size = len(chain)
            system = np.vstack([chain.T - np.eye(size), np.ones(size)])
            share = np.linalg.lstsq(system, np.append(np.zeros(size), 1.0), rcond=None)[0]
            if share @ table.rewards[mine, policies[m][mine]] > 1e-9:
                return True
    return False


def drawn_tables(first: int) -> Iterator[tuple[Table, Enumeration]]:
    """Tables whose current policy ends, from a seed on, with their enumerations."""
    for seed in itertools.count(first):
        table = draw_table(seed)
        policies = enumerate_policies(table)
        if policies is not None:
            yield table, policies


@pytest.fixture(scope="session")
def tables() -> list[tuple[Table, Enumeration]]:
    """500 bounded tables."""
    return list(itertools.islice((pair for pair in drawn_tables(0) if not pair[1].unbounded), 500))


@pytest.fixture(scope="session")
def unbounded_tables() -> list[Table]:
    """Tables with a loop that pays for ever."""
    return list(itertools.islice((table for table, policies in drawn_tables(0) if policies.unbounded), 40))


def navigation_cells():
    """The navigation task over tenths, exactly, with the current policy and both candidates.

    Starts in the right half of a tenth need nine moves east and those in the left half ten: from column 8 the goal is
    reached with probability one half.
    """
    from polidiff.domains import navigation
    from polidiff.worlds.tabular import TabularMDP

    columns, rows = 10, 5
    goal = columns * rows
    moves, rewards = np.zeros((goal + 1, 3, goal + 1)), np.zeros((goal + 1, 3))
    centres = np.array([((x + 0.25) / 10, (y + 0.5) / 10) for x in range(columns) for y in range(rows)] + [(1.0, 0.2)])
    steps = ((1, 0), (0, 1), (0, -1))
    for x, y, action in itertools.product(range(columns), range(rows), range(3)):
        to_x, to_y = x + steps[action][0], min(max(y + steps[action][1], 0), rows - 1)
        state, target = x * rows + y, min(to_x, columns - 1) * rows + to_y
        ends = {columns: 1.0, columns - 1: 0.5}.get(to_x, 0.0) if action == 0 else 0.0
        pay = navigation.BONUS.get((to_x, to_y), navigation.STEP_REWARD)
        moves[state, action, target] += 1.0 - ends
        moves[state, action, goal] += ends
        rewards[state, action] = ends * navigation.GOAL_REWARD + (1.0 - ends) * pay
    world = TabularMDP(
        moves,
        rewards,
        np.eye(goal + 1)[0],
        absorbing=[goal],
        actions=navigation.ACTIONS,
        states=[f"({x},{y})" for x in range(columns) for y in range(rows)] + ["goal"],
        features=centres,
        feature_names=("x", "y"),
        outcomes=[navigation.Outcome("stay", navigation.in_desired_region(centres), prefer="more")],
    )
    return world, *(policy(centres) for policy in (navigation.current, navigation.proposed_1, navigation.proposed_2))


@pytest.fixture(scope="session")
def navigation_table():
    """World, current policy, both candidates."""
    return navigation_cells()
