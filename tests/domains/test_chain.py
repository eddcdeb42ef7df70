"""The paper's chain: the values that follow from its text, and the same by walking it by hand."""

from __future__ import annotations

import numpy as np
import pytest

from polidiff import evaluate
from polidiff.domains import chain
from polidiff.evaluation.exact import best_policy, exact_evaluator, outcome_tensor
from polidiff.policies import difference

LENGTH, VISITS = "trajectory length", "visits to desired states"


def walk(actions: np.ndarray, state: int) -> tuple[int, int, float]:
    """Decisions, visits to s2 and s6, and reward of one episode, by following the picture."""
    paid = {(1, 1): 1.0, (5, 1): 3.0, (9, 0): 5.0, (10, 0): 5.0}
    length, visits, total = 0, 0, 0.0
    while state != 11:
        action = int(actions[state])
        length, visits, total = length + 1, visits + (state in (2, 6)), total + paid.get((state, action), -0.001)
        state = {(1, 1): 2, (5, 1): 6, (1, 0): 3, (5, 0): 7, (8, 1): 10, (9, 0): 11, (9, 1): 11}.get(
            (state, action), state + 1
        )
    return length, visits, total


def returns(actions: np.ndarray) -> float:
    world = chain.world()
    return float(world.initial @ exact_evaluator(world, actions).values(world.rewards))


@pytest.mark.parametrize(
    ("policy", "lengths", "visits"),
    [
        (chain.current, [8, 7, 7, 6, 5, 4], [0, 0, 1, 0, 0, 0]),
        (chain.proposed, [10, 9, 8, 7, 6, 5], [2, 2, 2, 1, 1, 1]),
    ],
)
def test_lengths_and_visits_from_the_first_six_states(policy, lengths, visits):
    told = evaluate(chain.world(), policy()).per_start
    assert [told[LENGTH][f"s{s}"].estimate for s in range(6)] == pytest.approx(lengths, abs=1e-9)
    assert [told[VISITS][f"s{s}"].estimate for s in range(6)] == pytest.approx(visits, abs=1e-9)


def test_from_s6_on_both_policies_give_the_same():
    old, new = (evaluate(chain.world(), policy()).per_start for policy in (chain.current, chain.proposed))
    for state in (f"s{s}" for s in range(6, 11)):
        assert all(old[name][state] == new[name][state] for name in (LENGTH, VISITS))


@pytest.mark.parametrize("policy", [chain.current, chain.proposed])
def test_every_start_agrees_with_a_walk_by_hand(policy):
    world, actions = chain.world(), policy()
    values = exact_evaluator(world, actions).values(np.dstack([outcome_tensor(world), world.rewards]))
    assert values[:11] == pytest.approx(np.array([walk(actions, s) for s in range(11)]), abs=1e-9)


@pytest.mark.parametrize(
    ("changed", "expected", "changes"),
    [((), 4.996636, 0), ((1,), 5.178455, 2), ((5,), 6.633, 6), ((1, 5), 6.814818, 8)],
)
def test_return_and_changed_decisions_along_the_papers_frontier(changed, expected, changes):
    actions = chain.current()
    actions[list(changed)] = 1
    assert returns(actions) == pytest.approx(expected, abs=5e-7)
    visits = exact_evaluator(chain.world(), actions).visits()
    assert 11 * visits[list(changed)].sum() == pytest.approx(changes, abs=1e-9)


def test_totals_over_the_eleven_starts_and_gains_of_each_change():
    base = 11 * returns(chain.current())
    assert base == pytest.approx(54.963, abs=1e-9)
    gains = []
    for changed in ([1], [5], [1, 5]):
        actions = chain.current()
        actions[changed] = 1
        gains.append(11 * returns(actions) - base)
    # Taking a detour also pays 0.001 for each further decision, and no longer pays it in s1 or s5.
    assert gains == pytest.approx([2 * (1 + 0.001 - 0.001), 6 * (3 + 0.001 - 0.001), 20.0], abs=1e-9)


def test_no_policy_beats_the_proposed_one():
    best = best_policy(chain.world())
    assert best.expected_return == pytest.approx(returns(chain.proposed()), abs=1e-9)
    assert best.actions[[1, 5, 9, 10]].tolist() == [1, 1, 0, 0]


def test_the_difference_of_the_policies_lies_in_s0_s1_and_s5():
    assert [edit.states for edit in difference(chain.current(), chain.proposed()).edits] == [(0,), (1,), (5,)]


def test_slipping_mixes_the_two_moves():
    world = chain.world(slip=0.25)
    rows = world.transitions.toarray().reshape(12, 2, 12)
    assert rows[1, 0, [2, 3]].tolist() == [0.25, 0.75]
    lengths = exact_evaluator(world, chain.current()).values(np.ones((12, 2)))
    # Two detours of one decision each are taken with probability 1/4.
    assert lengths[0] == pytest.approx(8 + 2 * 0.25)
