"""Tables: what counts, what does not, and outcomes over moves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from scipy import sparse

from polidiff import Outcome, TabularMDP, evaluate
from polidiff.errors import InvalidOutcomeError
from polidiff.worlds.checks import closed_loop, reachable_from, surely_ending
from tests.strategies import SEEDS, arrays_of_worlds, worlds_with_policies


@given(arrays_of_worlds())
def test_rows_that_decide_nothing_do_not_count(arrays):
    plain = TabularMDP(**arrays)
    moves, rewards = arrays["transitions"].copy(), arrays["rewards"].copy()
    moves[-1], rewards[-1] = 0.0, 99.0
    assert evaluate(
        TabularMDP(**{**arrays, "transitions": moves, "rewards": rewards}), np.zeros(len(moves))
    ) == evaluate(plain, np.zeros(len(moves)))


@given(worlds_with_policies())
def test_moves_under_a_policy_mix_the_rows_of_its_actions(case):
    world, table = case
    rows = world.transitions.toarray().reshape(world.n_states, world.n_actions, -1)
    assert world.policy_moves(table).toarray() == pytest.approx(np.einsum("sa,sat->st", table, rows))


@given(worlds_with_policies())
def test_an_outcome_over_moves_is_its_expectation(case):
    world, table = case
    by_move = np.random.default_rng(0).normal(size=(world.n_states, world.n_actions, world.n_states))
    told = Outcome("luck", lambda states, actions, nexts: by_move[states, actions, nexts])
    rows = world.transitions.toarray().reshape(by_move.shape)
    assert world.outcome_table(told) == pytest.approx((rows * by_move).sum(axis=2))
    written = Outcome("luck", (rows * by_move).sum(axis=2))
    one, other = (evaluate(world, table, outcomes=[o]).outcomes["luck"].estimate for o in (told, written))
    assert one == pytest.approx(other)


def small(**options) -> TabularMDP:
    moves = np.zeros((3, 2, 3))
    moves[0, :, 1] = moves[1, :, 2] = 1.0
    return TabularMDP(moves, np.ones((3, 2)), [1, 0, 0], absorbing=[2], **options)


def test_outcomes_by_state_by_decision_and_constant():
    world = small(outcomes=[Outcome("one", 1.0), Outcome("by state", [1, 2, 9]), Outcome("by pair", [[0, 5]] * 3)])
    told = evaluate(world, [1, 1, 0]).outcomes
    assert {name: interval.estimate for name, interval in told.items()} == {
        "return": 2.0,
        "one": 2.0,
        "by state": 3.0,
        "by pair": 10.0,
    }


@pytest.mark.parametrize(
    ("of", "message"),
    [
        ("info:cost", "outcome 'x' reads 'info:cost', which a table does not have"),
        (np.ones(7), r"outcome 'x' must be an array \(3, 2\) or \(3,\); got shape \(7,\)"),
        (np.full((3, 2), np.inf), "outcome 'x' must be finite, within ±1e.100; at s0, action 0 it is inf"),
        (lambda s, a, n: np.ones(77), r"outcome 'x' must return one number per decision; for 4 decisions"),
    ],
)
def test_outcomes_that_do_not_fit_the_table(of, message):
    with pytest.raises(InvalidOutcomeError, match=message):
        evaluate(small(outcomes=[Outcome("x", of)]), [0, 0, 0])


def test_features_and_names():
    world = small(features=[[1.0], [2.0], [3.0]], feature_names=["level"], states=["low", "high", "end"])
    assert world.features_of([1, 0]).tolist() == [[2.0], [1.0]]
    assert small().features_of([1]).tolist() == [["s1"]]
    assert not small().has_features


def test_arrays_of_a_world_cannot_be_written_through():
    world = small()
    for name in ("rewards", "initial", "absorbing", "allowed"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(world, name)[0] = 0


@given(SEEDS)
def test_graph_questions_agree_with_powers_of_the_matrix(seed):
    rng = np.random.default_rng(seed)
    size = int(rng.integers(2, 9))
    links = rng.random((size, size)) < 0.25
    ends = rng.random(size) < 0.3
    links[ends] = False
    moves = sparse.csr_array(links.astype(float))
    reach = np.linalg.matrix_power((links | np.eye(size, dtype=bool)).astype(float), size) > 0
    sources = rng.random(size) < 0.4
    assert (reachable_from(moves, sources) == (reach & sources[:, None]).any(axis=0)).all()
    can_end = (reach & ends[None]).any(axis=1)
    sure = surely_ending(moves, ends)
    assert (sure == ~(reach & ~can_end[None]).any(axis=1)).all()
    loop = closed_loop(moves, ~sure)
    if loop.size:
        assert not reach[np.ix_(loop, np.setdiff1d(np.arange(size), loop))].any()
        assert reach[np.ix_(loop, loop)].all()
    else:
        assert sure.all()
