"""Doubly robust scores of single decisions: laws, formulas by hand, coverage where the truth is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from polidiff.evaluation.scores.decisions import decisions_of
from polidiff.evaluation.scores.difference import (
    aipw,
    difference_scores,
    joint_alpha,
    one_step_scores,
    repeated_scores,
    score_intervals,
)
from polidiff.evaluation.scores.propensity import known_table, logging_chances
from polidiff.worlds.log_rows import LoggedRows

END = -1


def rows_of(x, actions, outcomes, probability=None):
    n = len(actions)
    gains = np.asarray(outcomes, dtype=float).reshape(n, -1)
    chance = None if probability is None else np.full(n, probability) if np.isscalar(probability) else probability
    return LoggedRows(np.asarray(x), np.asarray(actions), np.arange(n), np.full(n, END), gains, chance)


def trial(n, seed, *, confounded=False):
    """Two actions; the second adds 0.5 where the first feature is positive."""
    g = np.random.default_rng(seed)
    x = g.normal(size=(n, 3))
    chance = 1 / (1 + np.exp(-0.7 * x[:, 0])) if confounded else np.full(n, 0.5)
    actions = (g.random(n) < chance).astype(int)
    outcome = x[:, 0] + x[:, 1] ** 2 + 0.5 * actions * (x[:, 0] > 0) + g.normal(size=n)
    return x, actions, outcome, np.where(actions == 1, chance, 1 - chance)


def always(action, n, n_actions=2):
    return np.tile(np.eye(n_actions)[action], (n, 1))


@pytest.mark.parametrize("probability", [0.5, None])
def test_without_covariates_a_coin_toss_gives_the_difference_in_means(probability):
    g = np.random.default_rng(3)
    actions, outcome = g.integers(0, 2, 157), g.normal(size=157)
    decisions = decisions_of(rows_of(np.zeros((157, 0)), actions, outcome, probability), 2)
    scores = one_step_scores(decisions).difference(always(1, 157), always(0, 157))
    interval = score_intervals(scores)
    treated, control = outcome[actions == 1], outcome[actions == 0]
    assert interval.estimate[0] == pytest.approx(treated.mean() - control.mean(), abs=1e-9)
    by_hand = np.sqrt(treated.var() / len(treated) + control.var() / len(control))
    assert interval.error[0] == pytest.approx(by_hand * np.sqrt(157 / 156), rel=1e-9)  # up to the divisor


def test_an_action_taken_once_in_forty_times_is_as_unsure_as_the_mean_of_its_rows():
    g = np.random.default_rng(0)
    actions, outcome = np.arange(400) % 40, g.normal(size=400)  # weights beyond the root of 400 are cut off
    decisions = decisions_of(rows_of(np.zeros((400, 0)), actions, outcome), 40)
    found = score_intervals(one_step_scores(decisions).difference(always(7, 400, 40), np.zeros((400, 40))))
    own = outcome[actions == 7]
    assert found.estimate[0] == pytest.approx(own.mean(), abs=1e-9)
    assert found.error[0] == pytest.approx(np.sqrt(own.var() / 10 * 400 / 399), rel=1e-9)


def test_scores_without_a_regression_are_inverse_propensity_weighting():
    _, actions, outcome, chance = trial(200, 1)
    scores = aipw(np.zeros((200, 2, 1)), actions, outcome[:, None], 1 / chance)
    by_hand = np.mean([(a == 1) * y / c - (a == 0) * y / c for a, y, c in zip(actions, outcome, chance, strict=True)])
    assert (scores[:, 1] - scores[:, 0]).mean() == pytest.approx(by_hand, abs=1e-12)


def test_scores_are_the_augmented_formula():
    _, actions, outcome, chance = trial(50, 2)
    fitted = np.random.default_rng(0).normal(size=(50, 2, 1))
    scores = aipw(fitted, actions, outcome[:, None], 1 / chance)
    for i in range(50):
        for a in (0, 1):
            extra = (outcome[i] - fitted[i, a, 0]) / chance[i] if actions[i] == a else 0.0
            assert scores[i, a, 0] == pytest.approx(fitted[i, a, 0] + extra, abs=1e-12)


def test_the_order_of_rows_changes_nothing():
    x, actions, outcome, _ = trial(300, 4, confounded=True)
    shuffle = np.random.default_rng(9).permutation(300)
    one = one_step_scores(decisions_of(rows_of(x, actions, outcome), 2))
    other = one_step_scores(decisions_of(rows_of(x[shuffle], actions[shuffle], outcome[shuffle]), 2))
    np.testing.assert_array_equal(one.scores, other.scores)
    np.testing.assert_array_equal(one.decisions.order, shuffle[other.decisions.order])


def test_recorded_chances_of_two_actions_or_a_fair_draw_settle_all():
    np.testing.assert_allclose(known_table(np.array([0.2]), np.array([1]), 2), [[0.8, 0.2]])
    np.testing.assert_allclose(known_table(np.full(2, 0.25), np.array([1, 3]), 4), np.full((2, 4), 0.25))
    assert known_table(np.array([0.2, 0.3]), np.array([1, 2]), 3) is None


@pytest.mark.parametrize("confounded", [pytest.param(False, marks=pytest.mark.slow), True])
def test_intervals_cover_the_effect_of_a_policy(confounded):
    covered = []
    for seed in range(60):
        x, actions, outcome, _ = trial(400, seed, confounded=confounded)
        decisions = decisions_of(rows_of(x, actions, outcome), 2)
        where = (decisions.x[:, 0] > 0).astype(int)
        scores = one_step_scores(decisions, seed=seed).difference(np.eye(2)[where], always(0, 400))
        covered.append(score_intervals(scores).joint(0).contains(0.25))  # half of the people gain 0.5
    assert np.mean(covered) >= 0.87  # three standard errors below .95


def test_estimated_chances_are_calibrated():
    x, actions, outcome, chance = trial(4000, 5, confounded=True)
    decisions = decisions_of(rows_of(x, actions, outcome), 2)
    found = logging_chances(decisions)
    assert not found.known
    assert np.abs(found.logged - chance[decisions.order]).mean() < 0.04


def test_an_action_that_the_log_never_takes_is_a_reason_not_to_decide():
    x, actions, outcome, _ = trial(500, 6)
    actions = np.where(x[:, 0] > 1, 0, actions)
    decisions = decisions_of(rows_of(x, actions, outcome), 2)
    found = difference_scores(decisions, always(1, 500), None, logging_chances(decisions))
    assert any("never takes" in reason for reason in found.reasons())


def test_repeated_people_are_one_unit():
    """Every person twice: as units the error is that of one copy, as rows it would be smaller by the root of two."""
    g = np.random.default_rng(8)
    actions, outcome = g.integers(0, 2, 80), g.normal(size=80)
    twice = rows_of(np.zeros((160, 0)), np.tile(actions, 2), np.tile(outcome, 2))
    once = rows_of(np.zeros((80, 0)), actions, outcome)
    errors = []
    for rows, group in ((once, None), (twice, np.tile(np.arange(80), 2)), (twice, None)):
        decisions = decisions_of(replace(rows, unit=group), 2)
        count = len(rows.actions)
        scores = one_step_scores(decisions).difference(always(1, count), always(0, count))
        sizes = decisions.per_unit(np.ones((count, 1)))
        errors.append(float(score_intervals(decisions.per_unit(scores), sizes).error[0]))
    assert errors[1] == pytest.approx(errors[0], rel=1e-9)
    assert errors[2] == pytest.approx(errors[0] / np.sqrt(2) * np.sqrt((160 / 159) / (80 / 79)), rel=1e-9)


def test_independent_quantities_share_the_chance_of_error():
    parts = np.linalg.qr(np.random.default_rng(0).normal(size=(400, 5)))[0]
    assert joint_alpha(parts, 0.95) == pytest.approx(1 - 0.95 ** (1 / 5), rel=0.1)
    assert joint_alpha(np.tile(parts[:, :1], 5), 0.95) == pytest.approx(0.05, rel=0.05)  # five times the same


def test_many_actions_take_seconds():
    g = np.random.default_rng(1)
    n, many = 4000, 34
    x, actions = g.normal(size=(n, 4)), g.integers(0, many, n)
    outcome = (g.random(n) < 0.1 + 0.01 * (actions % 5)).astype(float)
    decisions = decisions_of(rows_of(x, actions, outcome, 1 / many), many)
    found = one_step_scores(decisions)
    means = found.scores[:, :, 0].mean(axis=0)
    assert means.shape == (many,)
    assert np.abs(means - [outcome[actions == a].mean() for a in range(many)]).max() < 0.05


def test_how_far_intervals_reach_together_does_not_depend_on_how_a_library_turns_its_vectors():
    g = np.random.default_rng(11)
    parts = np.linalg.qr(g.normal(size=(40, 5)))[0]  # not correlated: any basis will do
    turned = [np.linalg.qr(g.normal(size=(40, 40)))[0] @ parts for _ in range(6)]  # the same correlations
    assert np.ptp([joint_alpha(part, 0.95) for part in (parts, *turned)]) < 1e-8


def test_errors_of_several_draws_of_the_folds_are_those_of_a_draw():
    rng = np.random.default_rng(11)
    x, actions = rng.normal(size=(300, 2)), rng.integers(0, 2, 300)
    decisions = decisions_of(rows_of(x, actions, x[:, 0] + actions + rng.normal(size=300)), 2)
    new, old = always(1, 300), always(0, 300)
    draws = [one_step_scores(decisions, seed=seed).difference(new, old) for seed in range(5)]
    scores = repeated_scores(decisions)
    mean = difference_scores(decisions, new, old, scores.propensity, scores=scores)
    wanted = np.sqrt(np.mean([score_intervals(draw).error ** 2 for draw in draws]))
    assert mean.intervals().error[0] * mean.inflation == pytest.approx(wanted)
    assert mean.inflation > 1.0
    assert one_step_scores(decisions).inflation(new, old) == 1.0


def test_the_error_of_units_of_unequal_size_is_right_on_average():
    sizes = np.array([50, 9, 8, 7, 6, 5, 4, 3, 2, 1])
    unit, size = np.repeat(np.arange(10), sizes), np.repeat(sizes[:, None], 20, axis=1).astype(float)
    errors = []
    for seed in range(60):
        rows = np.random.default_rng(seed).normal(size=(len(unit), 20))  # the mean of all has variance 1 / 95
        sums = np.stack([rows[unit == u].sum(axis=0) for u in range(10)])
        errors.append(score_intervals(sums, size).error)
    assert np.mean(np.square(errors)) == pytest.approx(1 / 95, rel=0.05)


def test_many_outcomes_share_factorisations_and_draws_of_the_folds(monkeypatch):
    from polidiff.evaluation.scores import regression

    made: list[int] = []
    plain = regression._solver
    monkeypatch.setattr(regression, "_solver", lambda *parts: made.append(1) or plain(*parts))
    x, actions, outcome, _ = trial(300, 5)
    noise = np.random.default_rng(6).normal(size=(300, 39))
    wide = decisions_of(rows_of(x, actions, np.column_stack([outcome, noise])), 2)
    first, every = (one_step_scores(replace(wide, gains=wide.gains[:, :k])).scores for k in (1, 40))
    assert (first[:, :, 0] == every[:, :, 0]).all()
    assert len(made) <= 5 * 9 * 4  # folds, penalties to choose from, again for all rows; twice, with 1 and 40 outcomes
    draws = [len(repeated_scores(replace(wide, gains=wide.gains[:, :k])).draws) for k in (1, 12, 20, 40)]
    assert draws == [5, 5, 3, 0]  # the mean of one draw is that draw


@pytest.mark.parametrize("within", [0.0, 0.001])
def test_the_share_where_an_action_is_next_to_never_taken_is_told_though_the_estimate_is_smooth(within):
    g = np.random.default_rng(0)
    x = g.normal(size=(6000, 5))
    never = (x[:, 0] < 0) & (x[:, 3] > 0)
    actions = (g.random(6000) < np.where(never, within, 0.5)).astype(int)
    decisions = decisions_of(rows_of(x, actions, x[:, 1]), 2)
    untried = logging_chances(decisions).untried(decisions, 0.01)
    assert untried[:, 1].mean() == pytest.approx(never.mean(), abs=0.025)
    assert untried[:, 1][~never[decisions.order]].mean() < 0.02
    assert not untried[:, 0].any()


@pytest.mark.parametrize("rare", [20, 60])
def test_a_level_whose_rows_never_got_an_action_is_untried_in_a_short_log(rare):
    g = np.random.default_rng(5)
    level = np.r_[np.full(rare, "rare"), g.choice(["a", "b", "c", "d"], 900)].astype(object)
    x = np.column_stack([level, g.normal(size=(len(level), 2)).astype(object)])
    actions = np.where(level == "rare", 0, g.integers(0, 2, len(level)))
    decisions = decisions_of(rows_of(x, actions, g.normal(size=len(level))), 2)
    untried, never = logging_chances(decisions).untried(decisions, 0.01), (level == "rare")[decisions.order]
    assert untried[never, 1].all()
    assert untried[~never].mean() < 0.01


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_in_a_trial_of_few_kinds_of_people_no_action_is_untried(levels):
    for seed in range(20):
        g = np.random.default_rng(seed)
        actions = g.integers(0, 2, 300)
        x = g.integers(0, levels, 300).astype(float)[:, None]
        decisions = decisions_of(rows_of(x, actions, g.integers(0, 2, 300)), 2)
        assert not logging_chances(decisions).untried(decisions, 0.01).any()
