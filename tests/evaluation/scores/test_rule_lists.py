"""Rule lists on scores: the best box against all boxes, and promises that hold."""

from __future__ import annotations

from itertools import combinations, pairwise, product

import numpy as np
import pytest

from polidiff.evaluation.scores.decisions import decisions_of
from polidiff.evaluation.scores.difference import logging_chances
from polidiff.evaluation.scores.plans import judged_plans
from polidiff.evaluation.scores.rule_lists import (
    ListOptions,
    best_lists,
    bounds_of,
    cells_of,
    covers,
    cuts_of,
    moves_of,
)
from polidiff.worlds.log_rows import LoggedRows

FREE = ListOptions(max_rules=1, min_support=0.0)


def every_box(sizes, most):
    sides = [[(j, a, b) for a in range(s) for b in range(a, s) if (a, b) != (0, s - 1)] for j, s in enumerate(sizes)]
    yield ()
    for count in (1, 2, 3):
        for columns in combinations(range(len(sizes)), count):
            yield from (box for box in product(*(sides[c] for c in columns)) if bounds_of(box, sizes) <= most)


@pytest.mark.parametrize("seed", range(12))
def test_the_first_rule_is_the_best_of_all_boxes(seed):
    g = np.random.default_rng(seed)
    sizes = np.array([3, 4, 2, 3])
    codes = np.array([g.integers(0, s, 60) for s in sizes], dtype=np.uint8)
    gains = g.normal(size=(60, 2))
    (rules,) = best_lists(codes, sizes, gains, np.ones((60, 2)), FREE)
    found = gains[covers(codes, rules[0][1]), rules[0][0]].sum()
    best = max(gains[covers(codes, box), a].sum() for box in every_box(sizes, 3) for a in (0, 1))
    assert found == pytest.approx(best, abs=1e-9)


def test_more_rules_never_lose_on_what_they_are_chosen_by():
    g = np.random.default_rng(5)
    x = g.uniform(size=(300, 4))
    cuts = cuts_of(x, most=6)
    codes, sizes = cells_of(x, cuts), np.array([len(c) + 1 for c in cuts])
    gains = g.normal(size=(300, 3)) + np.column_stack([x[:, 0] - 0.5, x[:, 1] - 0.5, 0.3 - x[:, 2]])
    lists = best_lists(codes, sizes, gains, np.ones((300, 3)), ListOptions(max_rules=4, min_support=0.0))
    worth = [np.column_stack([gains, np.zeros(300)])[np.arange(300), moves_of(codes, r, 3)].sum() for r in lists]
    assert [len(rules) for rules in lists] == [1, 2, 3, 4]
    assert all(b > a for a, b in pairwise(worth))


def test_a_rule_needs_rows_that_took_its_action():
    codes = np.array([[0, 0, 0, 1, 1, 1]], dtype=np.uint8)
    gains = np.array([[5.0], [5.0], [5.0], [1.0], [1.0], [1.0]])
    support = np.array([[0.0], [0.0], [1.0], [1.0], [1.0], [1.0]])
    (rules,) = best_lists(codes, np.array([2]), gains - 2.0, support, ListOptions(max_rules=1, min_support=2.0))
    assert rules == ((0, ()),)


def offers(n, seed, effect):
    g = np.random.default_rng(seed)
    x, actions = g.uniform(size=(n, 4)), g.integers(0, 2, n)
    outcome = x[:, 2] + effect * actions * np.where((x[:, 0] > 0.6) & (x[:, 1] < 0.5), 1.0, -0.5) + g.normal(0, 0.5, n)
    return LoggedRows(x, actions, np.arange(n), np.full(n, -1), outcome[:, None], np.full(n, 0.5))


def chooser(decisions, max_rules=2):
    cuts = cuts_of(decisions.x, most=9)
    codes, sizes = cells_of(decisions.x, cuts), np.array([len(c) + 1 for c in cuts])

    def choose(rows, gains):
        took = np.eye(2)[decisions.actions[rows]]
        lists = best_lists(codes[:, rows], sizes, gains[rows, :, 0], took, ListOptions(max_rules, price=0.05))
        plans = []
        for rules in lists:
            plan, move = np.full((len(rows), 2), 0.5), moves_of(codes, rules, 2)
            plan[move < 2] = np.eye(2)[move[move < 2]]
            plans.append(plan)
        return plans

    return choose


def test_a_planted_rule_is_found_and_its_promise_holds():
    decisions = decisions_of(offers(1500, 3, 1.0), 2)
    judged, shown = judged_plans(decisions, logging_chances(decisions), chooser(decisions))
    inside = (decisions.x[:, 0] > 0.6) & (decisions.x[:, 1] < 0.5)
    best = 0.2 * 0.5 + 0.8 * 0.25  # all where it helps instead of half, none where it harms
    interval = judged[1].intervals().joint(0)
    assert (shown[1][inside, 1] > 0.9).mean() > 0.85
    assert 0 < interval.low < best < interval.high + 0.02


def test_nothing_is_promised_where_nothing_can_be_gained():
    low = []
    for seed in range(10):
        decisions = decisions_of(offers(300, seed, 0.0), 2)
        judged, _ = judged_plans(decisions, logging_chances(decisions), chooser(decisions), seed=seed)
        low.append(max(one.intervals().joint(0).low for one in judged))
    assert sum(end > 0 for end in low) <= 2
