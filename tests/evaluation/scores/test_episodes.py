"""Scores of several decisions: laws that hold to the last digit, and a world whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest

from polidiff.evaluation.scores.decisions import decisions_of
from polidiff.evaluation.scores.difference import aipw, difference_scores
from polidiff.evaluation.scores.episodes import PolicyRows, episode_scores, row_scores
from polidiff.evaluation.scores.propensity import logging_chances
from polidiff.evaluation.scores.regression import ActionRegression, RegressionRows, design_of
from polidiff.worlds.log_rows import LoggedRows

END, CUT = -1, -2


def walk(episodes, seed, steps=4):
    """A drifting number: the second action adds 1 at once where the number is positive, and moves it up by 0.3."""
    g = np.random.default_rng(seed)
    state, columns = g.normal(size=episodes), []
    for _ in range(steps):
        action = (g.random(episodes) < 0.3).astype(int)
        columns.append((state, action, action * (state > 0) + 0.2 * state + g.normal(0, 0.3, episodes)))
        state = 0.7 * state + 0.3 * action + g.normal(0, 0.5, episodes)
    states, actions, gains = (np.stack(part, axis=1).ravel() for part in zip(*columns, strict=True))
    follow = np.arange(episodes * steps) + 1
    follow[steps - 1 :: steps] = END
    episode = np.repeat(np.arange(episodes), steps)
    return LoggedRows(states[:, None], actions, episode, follow, gains[:, None], np.where(actions == 1, 0.3, 0.7))


def played(share_of_second, episodes=200_000, steps=4):
    """Mean outcome when the second action is taken with the given chance where the number is positive, else 0.3."""
    g = np.random.default_rng(77)
    state, total = g.normal(size=episodes), 0.0
    for _ in range(steps):
        action = g.random(episodes) < np.where(state > 0, share_of_second, 0.3)
        total += float((action * (state > 0) + 0.2 * state).mean())
        state = 0.7 * state + 0.3 * action + g.normal(0, 0.5, episodes)
    return total


def test_the_policy_that_wrote_the_log_changes_nothing():
    decisions = decisions_of(walk(60, 0), 2)
    chances = logging_chances(decisions)
    found = difference_scores(decisions, chances.table, None, chances)
    assert np.abs(decisions.per_unit(found.rows)).max() < 1e-9


def test_with_one_step_a_score_is_the_augmented_formula_less_the_outcome():
    g = np.random.default_rng(2)
    rows = walk(40, 1, steps=1)
    decisions = decisions_of(rows, 2)
    fitted, proposed = g.normal(size=(40, 2)), np.tile([0.2, 0.8], (40, 1))
    ratio = proposed[np.arange(40), decisions.actions] / decisions.probability
    policies = PolicyRows(proposed, proposed, ratio, np.zeros(40, dtype=bool), known=False)
    scores = row_scores(decisions, policies, [fitted], np.ones(40), 0)
    by_hand = aipw(fitted[:, :, None], decisions.actions, decisions.gains, 1 / decisions.probability)[:, :, 0]
    np.testing.assert_allclose(scores, (proposed * by_hand).sum(axis=1) - decisions.gains[:, 0], atol=1e-12)


@pytest.mark.parametrize("known", [True, False])
def test_right_values_leave_no_variance_where_nothing_is_random(known):
    """One state, three steps, action 1 pays 1: with exact values a score is 2.7 less what was observed, or 1.5."""
    never = np.zeros(30, dtype=bool)
    g = np.random.default_rng(4)
    actions = g.integers(0, 2, 30)
    follow = np.arange(30) + 1
    follow[2::3] = END
    rows = LoggedRows(np.zeros((30, 1)), actions, np.repeat(np.arange(10), 3), follow, actions[:, None] * 1.0, None)
    decisions = decisions_of(rows, 2)
    proposed = np.tile([0.1, 0.9], (30, 1))
    remaining = 0.9 * (2 - decisions.step)
    values = np.column_stack([remaining, 1 + remaining])
    policies = PolicyRows(
        proposed, np.full((30, 2), 0.5), proposed[np.arange(30), decisions.actions] / 0.5, never, known
    )
    scores = decisions.per_unit(row_scores(decisions, policies, [values], np.ones(30), 0)[:, None])[:, 0]
    expected = 2.7 - (1.5 if known else decisions.per_unit(decisions.gains)[:, 0])
    np.testing.assert_allclose(scores, expected, atol=1e-12)


def test_intervals_cover_the_simulated_truth():
    truth = played(0.9) - played(0.3)
    covered, decided = [], []
    for seed in range(12):
        decisions = decisions_of(walk(400, seed), 2)
        second = np.where(decisions.x[:, 0] > 0, 0.9, 0.3)
        chances = logging_chances(decisions)
        found = difference_scores(decisions, np.column_stack([1 - second, second]), None, chances, seed=seed)
        interval = found.intervals().joint(0)
        covered.append(interval.contains(truth))
        decided.append(interval.low > 0 and not found.reasons())
    assert np.mean(covered) >= 0.75  # three standard errors below .95 with twelve logs
    assert np.mean(decided) >= 0.9


def test_a_cut_is_not_an_end():
    """One episode in ten is cut after two of four steps: the estimate stays, and would fall if cuts were ends."""
    rows = walk(800, 5)
    keep = ~((rows.episode % 10 == 0) & (np.arange(len(rows.actions)) % 4 >= 2))
    place = np.cumsum(keep) - 1
    follow = np.where(rows.follow >= 0, place[rows.follow], rows.follow)
    follow = np.where((rows.episode % 10 == 0) & (np.arange(len(keep)) % 4 == 1), CUT, follow)[keep]
    parts = (
        rows.states[keep],
        rows.actions[keep],
        rows.episode[keep],
        follow,
        rows.gains[keep],
        rows.probability[keep],
    )
    found = []
    ended = np.where(follow == CUT, END, follow)
    for some in (rows, LoggedRows(*parts), LoggedRows(*parts[:3], ended, *parts[4:])):
        decisions = decisions_of(some, 2)
        second = np.where(decisions.x[:, 0] > 0, 0.9, 0.3)
        table = np.column_stack([1 - second, second])
        found.append(difference_scores(decisions, table, None, logging_chances(decisions)))
    whole, cut, end = (one.intervals() for one in found)
    assert found[1].cut == pytest.approx(0.1)
    assert abs(whole.estimate[0] - cut.estimate[0]) < 2 * whole.error[0]
    assert end.estimate[0] < cut.estimate[0] - 0.04


def test_a_regression_is_linear_in_what_it_fits():
    g = np.random.default_rng(6)
    x, actions = g.normal(size=(300, 3)), g.integers(0, 3, 300)
    target, other = x[:, 0] * (actions == 1) + (x[:, 1] > 0.5), g.normal(size=300)
    model = ActionRegression(RegressionRows(design_of(x, actions, 3), np.arange(200), np.arange(300) % 4 == 0), target)
    np.testing.assert_allclose(model(target + 2 * other), model(target) + 2 * model(other), atol=1e-9)


def test_trees_see_what_a_ridge_cannot():
    g = np.random.default_rng(7)
    x = g.uniform(size=(3000, 4))
    truth = 1.0 * ((x[:, 0] > 0.7) & (x[:, 1] < 0.4))
    target = truth + g.normal(0, 0.3, 3000)
    design = design_of(x, np.zeros(3000, dtype=int), 1)
    fitted = ActionRegression(RegressionRows(design, np.arange(2000), np.arange(3000) % 4 == 0), target)(target)[
        2000:, 0
    ]
    assert ((fitted - truth[2000:]) ** 2).mean() < 0.25 * truth.var()


def test_weights_average_to_one_and_scores_do_not_depend_on_the_order_of_episodes():
    rows = walk(200, 9)
    turned = np.concatenate([np.arange(4) + 4 * e for e in range(199, -1, -1)])
    follow = np.where(rows.follow[turned] == END, END, np.arange(800) + 1)
    parts = (
        rows.states[turned],
        rows.actions[turned],
        rows.episode,
        follow,
        rows.gains[turned],
        rows.probability[turned],
    )
    found = []
    ended = np.where(follow == CUT, END, follow)
    for some in (rows, LoggedRows(*parts), LoggedRows(*parts[:3], ended, *parts[4:])):
        decisions = decisions_of(some, 2)
        second = np.where(decisions.x[:, 0] > 0, 0.6, 0.3)
        table = np.column_stack([1 - second, second])
        ratio = table[np.arange(800), decisions.actions] / decisions.probability
        found.append(
            episode_scores(
                decisions, PolicyRows(table, np.tile([0.7, 0.3], (800, 1)), ratio, second == 0.3, known=True)
            )
        )
    np.testing.assert_array_equal(found[0].rows, found[1].rows)
    assert found[0].weight.mean() == pytest.approx(1.0, abs=0.03)
