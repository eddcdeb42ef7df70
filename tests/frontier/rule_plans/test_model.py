"""The process of choices, with states eliminated, returns what the world does."""

from __future__ import annotations

import numpy as np
import pytest

from polidiff.domains import frozen_lake
from polidiff.evaluation.exact import ExactEvaluator, best_policy, policy_table
from polidiff.frontier.rule_plans.model import best_choices, choice_model, point_at, screen, value_of
from polidiff.frontier.rule_plans.moves import Move, resolve_moves

from .conftest import random_grid, some_policy


def changed_table(moves, model, rows):
    table = np.array(moves.current)
    for local, row in enumerate(rows):
        if model.choice_of[row] < model.n_choices - 1:
            table[model.states[local]] = 0.0
            table[model.states[local], model.choice_of[row]] = 1.0
    return table


@pytest.mark.parametrize("discount", [1.0, 0.9])
@pytest.mark.parametrize("seed", range(4))
def test_any_plan_returns_the_same_in_the_smaller_process(seed, discount, mixed):
    world = random_grid(seed, discount=discount, allow=0.4)
    moves = resolve_moves(world, policy_table(world, some_policy(world, seed, mixed=mixed)), "actions")
    model = choice_model(world, moves)
    assert model.size < world.n_states - 1, "some states have no choice and are eliminated"
    rng = np.random.default_rng(seed)
    for _ in range(5):
        rows = np.array([rng.choice(options[options >= 0]) for options in model.row_of])
        total, changes = value_of(model, rows)
        table = changed_table(moves, model, rows)
        visits = ExactEvaluator(world, table).visits()
        assert total == pytest.approx(visits @ (table * world.rewards).sum(axis=1), abs=1e-10)
        differs = 0.5 * np.abs(table - moves.current).sum(axis=1)
        assert changes == pytest.approx(visits @ differs, abs=1e-10)


@pytest.mark.parametrize("seed", range(4))
def test_the_best_choices_are_the_optimum_when_every_action_is_a_move(seed):
    world = random_grid(seed, allow=0.6)
    moves = resolve_moves(world, policy_table(world, some_policy(world, seed)), "actions")
    model = choice_model(world, moves)
    total, rows = best_choices(model, np.ones(len(model.state_of), dtype=bool), model.keep)
    assert total == pytest.approx(best_policy(world).expected_return)
    assert value_of(model, rows)[0] == pytest.approx(total)


@pytest.mark.parametrize("side", [4, 10])  # solved in full, and by the formula for neighbours
def test_screening_gives_the_exact_return_of_what_it_does_not_rule_out(side):
    world = random_grid(3, side=side)
    moves = resolve_moves(world, policy_table(world, some_policy(world, 3)), "actions")
    model = choice_model(world, moves)
    rng = np.random.default_rng(0)
    plans = np.tile(model.keep, (20, 1))
    for plan in plans:
        at = rng.choice(model.size, size=model.size // 3, replace=False)
        plan[at] = [rng.choice(model.row_of[s][model.row_of[s] >= 0]) for s in at]
    worth, changes = screen(model, point_at(model, model.keep), plans, exact=8).T
    exact, changed = np.array([value_of(model, plan) for plan in plans]).T
    known = np.isfinite(worth)
    assert known.sum() >= 8
    np.testing.assert_allclose(worth[known], exact[known], atol=1e-9)
    np.testing.assert_allclose(changes[known], changed[known], atol=1e-9)


def test_a_plan_that_never_ends_is_worth_nothing_and_is_not_chosen():
    world = frozen_lake.world(4, slippery=False)
    moves = resolve_moves(
        world, policy_table(world, frozen_lake.current(4)), [Move.action("left"), Move.action("down")]
    )
    model = choice_model(world, moves)
    assert model.loops
    left = np.where(model.row_of[:, 0] >= 0, model.row_of[:, 0], model.keep)
    assert value_of(model, left)[0] == -np.inf, "left from the first column stays there for ever"
    total, rows = best_choices(model, np.ones(len(model.state_of), dtype=bool), model.keep)
    assert value_of(model, rows)[0] == pytest.approx(total) == 1.0
