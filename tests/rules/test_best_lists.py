"""Rule lists on scores: the best box against all boxes, and promises that hold."""

from __future__ import annotations

from itertools import combinations, pairwise, product
from types import SimpleNamespace

import numpy as np
import pytest

from polidiff.evaluation.scores.decisions import decisions_of
from polidiff.evaluation.scores.difference import joint_intervals, one_step_scores
from polidiff.evaluation.scores.plans import PlanScores
from polidiff.evaluation.scores.scored_log import ScoredLog
from polidiff.rules.best_lists import ListOptions, grown_lists, merged, moves_of, proven_lists, refined
from polidiff.rules.cell_grid import bounds_of, covers
from polidiff.worlds.log_rows import LoggedRows

FREE = ListOptions(max_rules=1, min_support=0.0)


def best_lists(*cells):
    return grown_lists(merged(*cells))


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


def cells(x, most):
    """Cells of equal size for numbers (n, d)."""
    cuts = np.quantile(x, np.arange(1, most + 1) / (most + 1), axis=0)
    codes = np.array([np.searchsorted(c, column) for c, column in zip(cuts.T, x.T, strict=True)], dtype=np.uint8)
    return codes, np.full(x.shape[1], most + 1)


def summed(gains, codes, rules):
    keep = gains.shape[1]
    return np.column_stack([gains, np.zeros(len(gains))])[np.arange(len(gains)), moves_of(codes, rules, keep)].sum()


def test_more_rules_never_lose_on_what_they_are_chosen_by():
    g = np.random.default_rng(5)
    x = g.uniform(size=(300, 4))
    codes, sizes = cells(x, 6)
    gains = g.normal(size=(300, 3)) + np.column_stack([x[:, 0] - 0.5, x[:, 1] - 0.5, 0.3 - x[:, 2]])
    lists = best_lists(codes, sizes, gains, np.ones((300, 3)), ListOptions(max_rules=4, min_support=0.0))
    worth = [summed(gains, codes, rules) for rules in lists]
    assert [len(rules) for rules in lists] == [1, 2, 3, 4]
    assert all(b > a for a, b in pairwise(worth))


@pytest.mark.parametrize("seed", range(6))
def test_two_rules_over_few_cells_are_the_best_of_all_pairs(seed):
    g = np.random.default_rng(seed)
    sizes = np.array([2, 3, 2])
    codes = np.array([g.integers(0, s, 40) for s in sizes], dtype=np.uint8)
    gains = g.normal(size=(40, 2))
    table = merged(codes, sizes, gains, np.ones((40, 2)), ListOptions(max_rules=2, min_support=0.0))
    proven = proven_lists(table, [(), ()], nodes=10**6)[1]
    rules = [(move, box) for box in every_box(sizes, 3) for move in (0, 1, 2)]
    best = max(summed(gains, codes, pair) for pair in product(rules, rules))
    assert summed(gains, codes, proven.rules) == pytest.approx(best, abs=1e-5)
    assert proven.bound == pytest.approx(proven.worth)
    short = proven_lists(table, [(), ()], nodes=3)[1]
    assert short.bound >= best - 1e-5


def test_bounds_move_to_where_they_gain_most():
    g = np.random.default_rng(8)
    codes, sizes = g.integers(0, 50, (2, 400)).astype(np.uint8), np.array([50, 50])
    gains = np.column_stack([np.where((codes[0] >= 17) & (codes[1] < 31), 1.0, -1.0), np.zeros(400)])
    assert refined(codes, sizes, gains, ((0, ((0, 20, 49), (1, 0, 24))),)) == ((0, ((0, 17, 49), (1, 0, 30))),)


def test_some_columns_are_only_named():
    codes = np.array([[0, 0, 0, 1]], dtype=np.uint8)
    gains = np.array([[1.0], [1.0], [1.0], [-9.0]])
    for named, best in ((False, ((0, ((0, 0, 0),)),)), (True, ())):
        assert best_lists(codes, np.array([2]), gains, np.ones((4, 1)), FREE, np.array([named])) == [best]


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


def plan_scores(decisions, seed=0):
    single = one_step_scores(decisions, seed=seed)
    log = SimpleNamespace(discount=1.0, rows=SimpleNamespace(states=decisions.x))
    return PlanScores(ScoredLog(log, decisions, single.propensity, single, seed), None)


def chooser(scores, max_rules=2):
    decisions = scores.scored.decisions
    codes, sizes = cells(decisions.x, 9)

    def choose(rows):
        gains, took = scores.gains(rows), np.eye(2)[decisions.actions[rows]]
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
    scores = plan_scores(decisions)
    everyone = np.ones(1500, dtype=bool)
    shown = chooser(scores)(everyone)
    interval = joint_intervals([one.scores for one in scores.judged(chooser(scores))], level=0.95).joint(1)
    inside = (decisions.x[:, 0] > 0.6) & (decisions.x[:, 1] < 0.5)
    best = 0.2 * 0.5 + 0.8 * 0.25  # all where it helps instead of half, none where it harms
    assert (shown[1][inside, 1] > 0.9).mean() > 0.85
    assert 0 < interval.low < best < interval.high + 0.02


def test_nothing_is_promised_where_nothing_can_be_gained():
    low = []
    for seed in range(10):
        decisions = decisions_of(offers(300, seed, 0.0), 2)
        scores = plan_scores(decisions, seed)
        joint = joint_intervals([one.scores for one in scores.judged(chooser(scores))], level=0.95)
        low.append(max(joint.joint(k).low for k in range(2)))
    assert sum(end > 0 for end in low) <= 2


def test_the_best_of_many_plans_that_gain_nothing_is_seldom_promised_a_gain():
    # 20 plans, each with a block of rows of its own: if luck makes one of them stand out, all turns choose it
    n, block, promised = 400, np.repeat(np.eye(20, dtype=bool), 20, axis=0), 0
    for seed in range(200):
        g = np.random.default_rng(seed)
        rows = LoggedRows(np.zeros((n, 1)), g.integers(0, 2, n), np.arange(n), np.full(n, -1), g.normal(size=(n, 1)),
                          np.full(n, 0.5))  # fmt: skip
        scores = plan_scores(decisions_of(rows, 2), seed)

        def choose(some, scores=scores):
            best = block[:, (scores.gains(some)[:, 1, 0] @ block).argmax()]
            return [np.where(best[:, None], [0.0, 1.0], 0.5)]

        promised += joint_intervals([scores.judged(choose)[0].scores]).joint(0).low > 0
    assert promised <= 0.025 * 200 + 2 * np.sqrt(200 * 0.025 * 0.975)
