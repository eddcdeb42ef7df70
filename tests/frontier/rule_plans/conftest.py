"""Small random worlds on a grid, with row and column as features."""

from __future__ import annotations

import numpy as np
import pytest

from polidiff.frontier.rule_plans import improve_with_rules
from polidiff.options import ImproveOptions
from polidiff.records.plan import Frontier
from polidiff.surrogates import Surrogate
from polidiff.worlds.tabular import TabularMDP


def planned_with_rules(world: TabularMDP, current: object, *, node_limit=None, grid=None, **options) -> Frontier:
    """Rule plans of a table, with a limit on the proof."""
    given = ImproveOptions(**options)
    surrogate = Surrogate(
        world=world, table=world, base=current, frozen=given.freeze, node_limit=node_limit, grid=grid,
        min_support=given.min_support,
    )  # fmt: skip
    return improve_with_rules(surrogate, given)


def random_grid(
    seed: int, side: int = 4, n_actions: int = 3, *, discount: float = 1.0, allow: float = 1.0
) -> TabularMDP:
    rng = np.random.default_rng(seed)
    n = side * side
    transitions = np.zeros((n + 1, n_actions, n + 1))
    for state in range(n):
        for action in range(n_actions):
            to = rng.choice(n + 1, size=4, replace=False)
            transitions[state, action, to] = 0.9 * rng.dirichlet(np.ones(4))
            transitions[state, action, n] += 0.1
    transitions[n, :, n] = 1.0
    allowed = rng.random((n + 1, n_actions)) < allow
    allowed[:, 0] = True
    rows, columns = np.divmod(np.arange(n), side)
    features = np.vstack([np.stack([rows, columns], axis=1), [[0, 0]]])
    initial = np.append(rng.dirichlet(np.ones(n)), 0.0)
    return TabularMDP(
        transitions,
        rng.normal(size=(n + 1, n_actions)),
        initial,
        absorbing=[n],
        features=features,
        feature_names=["row", "column"],
        allowed=allowed,
        discount=discount,
    )


def some_policy(world: TabularMDP, seed: int, *, mixed: bool = False) -> np.ndarray:
    rng = np.random.default_rng(seed)
    table = np.where(world.allowed, rng.random(world.allowed.shape) + 1e-3, 0.0)
    return table / table.sum(axis=1, keepdims=True) if mixed else table.argmax(axis=1)


@pytest.fixture(params=["certain", "mixed"])
def mixed(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "mixed")
