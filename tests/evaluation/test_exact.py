"""Laws of exact values, and their oracles: iteration, simulation, enumeration."""

from __future__ import annotations

import itertools
import time
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from scipy import sparse

from polidiff import TabularMDP, evaluate
from polidiff.domains import chain
from polidiff.errors import ImproperPolicyError, UnboundedReturnError
from polidiff.evaluation import exact as linear
from polidiff.evaluation.exact import ExactEvaluator, best_policy, exact_evaluator
from polidiff.evaluation.verdicts import mean_interval
from polidiff.policies import table_policy
from polidiff.worlds.rollouts import roll_out
from tests.strategies import arrays_of_worlds, as_sparse, worlds_with_policies


def iterated(world: TabularMDP, table: np.ndarray, gains: np.ndarray) -> np.ndarray:
    """V ← g + γ P V until nothing moves: slow, and nothing in common with a linear solve."""
    moves = np.einsum("sa,sat->st", table, world.transitions.toarray().reshape(*table.shape, -1))
    values = np.zeros(world.n_states)
    for _ in range(20_000):
        new = (table * gains).sum(axis=1) + world.discount * moves @ values
        if np.abs(new - values).max() < 1e-14:
            break
        values = new
    return values


@given(worlds_with_policies())
def test_values_solve_the_same_equation_as_plain_iteration(case):
    world, table = case
    values = ExactEvaluator(world, table).values(world.rewards)
    assert values == pytest.approx(iterated(world, table, world.rewards), abs=1e-10)


@given(worlds_with_policies())
def test_occupancy_sums_to_the_expected_length(case):
    world, table = case
    evaluator = ExactEvaluator(world, table)
    lengths = evaluator.values(np.ones((world.n_states, world.n_actions)) * ~world.absorbing[:, None])
    assert (evaluator.visits()[:, None] * table).sum() == pytest.approx(world.initial @ lengths)


@given(worlds_with_policies())
def test_occupancy_times_reward_is_the_value_over_starts(case):
    world, table = case
    evaluator = ExactEvaluator(world, table)
    expected = world.initial @ evaluator.values(world.rewards)
    assert ((evaluator.visits()[:, None] * table) * world.rewards).sum() == pytest.approx(expected)
    assert evaluate(world, table).outcomes["return"].estimate == pytest.approx(expected)


@given(worlds_with_policies())
@settings(max_examples=12)
def test_values_agree_with_long_simulation(case):
    world, table = case
    played = roll_out(world, table_policy(table), episodes=2_000, seed=(11,))
    assert not played.truncated.any()
    expected = evaluate(world, table).outcomes["return"].estimate
    assert mean_interval(played.totals[:, 0], 0.999999).contains(expected)


@given(arrays_of_worlds())
def test_dense_and_sparse_tables_agree(arrays):
    dense = TabularMDP(**arrays)
    thin = TabularMDP(**{**arrays, "transitions": as_sparse(arrays["transitions"])})
    assert (dense.transitions != thin.transitions).nnz == 0
    policy = np.zeros(dense.n_states, dtype=int)
    assert evaluate(dense, policy) == evaluate(thin, policy)


@given(arrays_of_worlds())
def test_renaming_states_changes_nothing(arrays):
    world = TabularMDP(**arrays)
    order = np.random.default_rng(0).permutation(world.n_states)
    moved = TabularMDP(
        arrays["transitions"][order][:, :, order],
        arrays["rewards"][order],
        arrays["initial"][order],
        absorbing=arrays["absorbing"][order],
    )
    actions = np.random.default_rng(1).integers(world.n_actions, size=world.n_states)
    before = exact_evaluator(world, actions).values(world.rewards)
    after = exact_evaluator(moved, actions[order]).values(moved.rewards)
    assert after == pytest.approx(before[order])
    assert best_policy(moved).expected_return == pytest.approx(best_policy(world).expected_return)


@given(arrays_of_worlds())
def test_a_discount_is_a_chance_to_end_at_every_step(arrays):
    killed = arrays["transitions"] * 0.9
    killed[:, :, -1] += 0.1
    policy = np.zeros(len(killed), dtype=int)
    discounted, ending = TabularMDP(**arrays, discount=0.9), TabularMDP(**{**arrays, "transitions": killed})
    assert exact_evaluator(discounted, policy).values(discounted.rewards) == pytest.approx(
        exact_evaluator(ending, policy).values(ending.rewards)
    )


@given(worlds_with_policies())
@settings(max_examples=20)
def test_a_long_horizon_is_no_horizon_and_a_horizon_of_one_is_the_first_reward(case):
    world, table = case
    whole = evaluate(world, table).outcomes["return"].estimate
    assert evaluate(world, table, horizon=2_000).outcomes["return"].estimate == pytest.approx(whole, abs=1e-9)
    first = float(world.initial @ (table * world.rewards).sum(axis=1))
    assert evaluate(world, table, horizon=1).outcomes["return"].estimate == pytest.approx(first)


@given(arrays_of_worlds())
@settings(max_examples=25)
def test_the_best_policy_is_the_best_of_all(arrays):
    world = TabularMDP(**shrunk(arrays))
    every = itertools.product(range(world.n_actions), repeat=world.n_states - 1)
    returns = [evaluate(world, [*actions, 0]).outcomes["return"].estimate for actions in every]
    assert best_policy(world).expected_return == pytest.approx(max(returns))


def shrunk(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """At most four deciding states, so that all policies can be tried; the last one ends."""
    keep = [*range(min(4, len(arrays["rewards"]) - 1)), len(arrays["rewards"]) - 1]
    moves = arrays["transitions"][keep][:, :, keep]
    moves[:, :, -1] += 1 - moves.sum(axis=2)
    initial = arrays["initial"][keep]
    return {
        "transitions": moves,
        "rewards": arrays["rewards"][keep],
        "initial": initial / initial.sum(),
        "absorbing": arrays["absorbing"][keep],
    }


@pytest.mark.parametrize("way", ["dense", "iterative", "factorised", "reordered", "incomplete", "last"])
def test_every_way_of_solving_gives_the_same(way, monkeypatch):
    rng = np.random.default_rng(3)
    moves = sparse.csr_array(sparse.random_array((60, 60), density=0.08, rng=rng))
    moves = sparse.csr_array(moves * (0.95 / np.maximum(moves.sum(axis=1), 1e-9))[:, None])
    gains = rng.normal(size=(60, 2))
    oracle = np.linalg.inv(np.eye(60) - moves.toarray())
    if way != "dense":
        monkeypatch.setattr(linear, "DENSE_UP_TO", 1)
        monkeypatch.setattr(linear, "NARROW", {"factorised": 60, "reordered": 30}.get(way, 0))
        monkeypatch.setattr(linear, "FLAT", 0.0)
    steps = linear._steps
    if way in ("reordered", "incomplete", "last"):  # steps that do not suffice, with or without fill-in before them
        enough = way == "incomplete"
        monkeypatch.setattr(linear, "_steps", lambda m, g, x, k, inverse=None: steps(m, g, x, k, inverse)
                            if enough and inverse is not None else (g, np.inf))  # fmt: skip
    solve = linear.solver(moves, 1.0)
    assert solve(gains, False) == pytest.approx(oracle @ gains, abs=1e-9)
    assert solve(gains[:, 0], True) == pytest.approx(oracle.T @ gains[:, 0], abs=1e-9)
    assert solve(np.zeros(60), False) == pytest.approx(np.zeros(60))


def lattice(side: int, dimensions: int, end: float) -> sparse.csr_array:
    """A walk to any neighbour in a grid; at a border, and everywhere with a small chance, it ends."""
    step = sparse.diags_array([np.ones(side - 1), np.ones(side - 1)], offsets=[-1, 1])
    total = sparse.csr_array((side**dimensions, side**dimensions))
    for axis in range(dimensions):
        whole = sparse.kron(
            sparse.eye_array(side**axis), sparse.kron(step, sparse.eye_array(side ** (dimensions - 1 - axis)))
        )
        total = total + sparse.csr_array(whole)
    return sparse.csr_array(total * (1 - end) / (2 * dimensions))


@pytest.mark.parametrize(("side", "dimensions", "direct"), [(70, 2, True), (17, 3, False)])
def test_a_plane_grid_is_factorised_and_a_cube_is_iterated(side, dimensions, direct):
    moves = lattice(side, dimensions, 1e-4)
    gains = np.random.default_rng(0).normal(size=(moves.shape[0], 2))
    solve = linear.solver(moves, 1.0)
    for transposed in (False, True):
        found = solve(gains, transposed)
        assert np.abs(found - (moves.T if transposed else moves) @ found - gains).max() < 1e-9
    assert (solve.direct is not None) == direct


def corridor(**options) -> TabularMDP:
    """Rooms 0 to 3 and an exit; action 0 goes on, action 1 goes back and forth between rooms 1 and 2."""
    moves = np.zeros((5, 2, 5))
    for room in range(4):
        moves[room, 0, room + 1] = 1.0
    for room, target in ((0, 1), (1, 2), (2, 1), (3, 4)):
        moves[room, 1, target] = 1.0
    rewards = np.full((5, 2), -1.0)
    rewards[1, 1] = options.pop("pays", -1.0)
    names = ["hall", "red", "blue", "porch", "exit"]
    return TabularMDP(moves, rewards, [1, 0, 0, 0, 0], absorbing=[4], states=names, **options)


def test_a_policy_that_never_ends_is_an_error_that_names_start_and_loop():
    with pytest.raises(ImproperPolicyError) as caught:
        evaluate(corridor(), [0, 1, 1, 0, 0])
    assert str(caught.value) == (
        "the policy must end from every start; from 'hall' it may stay for ever in {red, blue} (1 of 1 starts). "
        "Hint: give a discount below 1, a horizon, or another policy"
    )


def test_a_horizon_or_a_discount_makes_an_endless_policy_finite():
    assert evaluate(corridor(), [0, 1, 1, 0, 0], horizon=7).outcomes["return"].estimate == -7
    assert evaluate(corridor(discount=0.5), [0, 1, 1, 0, 0]).outcomes["return"].estimate == pytest.approx(-2)


def test_a_loop_that_no_start_reaches_does_not_disturb():
    moves = np.zeros((3, 1, 3))
    moves[0, 0, 2] = moves[1, 0, 1] = 1.0
    world = TabularMDP(moves, np.ones((3, 1)), [1, 0, 0], absorbing=[2])
    assert evaluate(world, [0, 0, 0]).outcomes["return"].estimate == 1
    assert np.isnan(exact_evaluator(world, [0, 0, 0]).values(world.rewards)[1])


def test_a_small_chance_to_be_caught_in_a_loop_is_enough():
    moves = np.zeros((3, 1, 3))
    moves[0, 0] = [0.0, 1e-9, 1 - 1e-9]
    moves[1, 0, 1] = 1.0
    with pytest.raises(ImproperPolicyError, match=r"from 's0' it may stay for ever in \{s1\}"):
        evaluate(TabularMDP(moves, np.ones((3, 1)), [1, 0, 0], absorbing=[2]), [0, 0, 0])


def test_a_stored_zero_in_a_sparse_table_is_no_move():
    matrix = sparse.csr_array((np.array([1.0, 0.0]), ([0, 0], [0, 1])), shape=(2, 2))
    world = TabularMDP([matrix], np.ones((2, 1)), [1, 0], absorbing=[1])
    with pytest.raises(ImproperPolicyError):
        evaluate(world, [0, 0])


def test_a_loop_that_pays_for_ever_is_an_error_that_names_it():
    with pytest.raises(UnboundedReturnError) as caught:
        best_policy(corridor(pays=3.0))
    assert str(caught.value) == (
        "the return is unbounded: the loop red (action 1), blue (action 1) pays for ever. Hint: give a horizon or a "
        "discount below 1, or forbid the loop with allowed="
    )


def test_a_loop_that_pays_nothing_is_left_alone_and_a_forbidden_one_is_not_seen():
    assert best_policy(corridor(pays=1.0)).expected_return == -1 + 1 - 1 - 1  # once through red, no second round
    allowed = np.ones((5, 2), dtype=bool)
    allowed[2, 1] = False
    assert best_policy(corridor(pays=3.0, allowed=allowed)).expected_return == -1 + 3 - 1 - 1
    assert best_policy(corridor(pays=3.0, discount=0.9)).expected_return > 0


def test_a_start_from_which_nothing_ends_is_named():
    moves = np.zeros((2, 1, 2))
    moves[:, 0, 0] = 1.0
    with pytest.raises(ImproperPolicyError, match="an absorbing state must be reachable from every start; from 's0'"):
        best_policy(TabularMDP(moves, np.zeros((2, 1)), [1, 0], absorbing=[1]))


def test_starting_at_the_end_is_worth_nothing():
    world = TabularMDP(np.ones((2, 1, 2)) / 2, np.ones((2, 1)), [0.5, 0.5], absorbing=[1])
    assert evaluate(world, [0, 0]).outcomes["return"].estimate == pytest.approx(0.5 * 2)
    played = roll_out(world, table_policy(np.array([0, 0])), episodes=500, seed=(0,))
    assert (played.totals[played.starts == 1] == 0).all()
    assert (played.lengths[played.starts == 1] == 0).all()


def test_a_hundred_thousand_states_are_evaluated_without_filling_a_matrix():
    size, successors = 100_000, 5
    rng = np.random.default_rng(0)
    rows = np.repeat(np.arange(size), successors)
    matrices = []
    for _ in range(2):
        columns = rng.integers(size, size=size * successors)
        columns[::successors] = size - 1  # each decision ends the episode with its first share
        shares = rng.dirichlet(np.ones(successors), size=size).ravel()
        matrices.append(sparse.csr_array((shares, (rows, columns)), shape=(size, size)))
    initial = np.zeros(size)
    initial[:1000] = 1e-3
    rewards = rng.normal(size=(size, 2))
    tracemalloc.start()
    begin = time.process_time()
    world = TabularMDP(matrices, rewards, initial, absorbing=[size - 1])
    told = evaluate(world, np.full((size, 2), 0.5))
    seconds, peak = time.process_time() - begin, tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(told.per_start["return"]) == 1000
    assert peak < 400e6, "a dense row of states for every state would take 80 GB"
    assert seconds < 60
    played = roll_out(world, table_policy(np.full((size, 2), 0.5)), episodes=5_000, seed=(1,))
    assert mean_interval(played.totals[:, 0], 0.9999).contains(told.outcomes["return"].estimate)


def test_evaluations_of_the_chain_are_exact_and_say_so():
    told = evaluate(chain.world(), chain.current())
    assert told.method == "exact"
    assert all(interval.exact for interval in told.outcomes.values())
