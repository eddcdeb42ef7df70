"""Rules from feature logs with several decisions: gains are shown and hold, and nothing is promised of noise."""

from __future__ import annotations

import numpy as np
import polars as pl

from polidiff import Log, improve

STEPS = 3


def world_step(x, action, rng, effect):
    """The second action pays where the first feature is high, at once and in what follows."""
    helps = (action == 1) & (x[:, 0] > 0.5)
    reward = effect * (helps - 0.5 * ((action == 1) & ~helps)) + 0.2 * x[:, 1] + rng.normal(0, 0.3, len(x))
    after = 0.5 * x + rng.normal(0, 0.8, x.shape)
    after[:, 0] += 0.2 * effect * helps
    return after, reward


def play(policy, episodes, seed, effect):
    rng = np.random.default_rng(seed)
    x, parts = rng.normal(size=(episodes, 3)), []
    for step in range(STEPS):
        action = (rng.random(episodes) < policy(x)).astype(int)
        after, reward = world_step(x, action, rng, effect)
        parts.append((x, action, reward, np.full(episodes, step)))
        x = after
    return [np.concatenate(part) for part in zip(*parts, strict=True)]


def usual(x):
    return np.full(len(x), 0.3)


def log_of(seed, effect, episodes=400):
    x, action, reward, step = play(usual, episodes, seed, effect)
    frame = pl.DataFrame({f"x{j}": x[:, j] for j in range(3)}).with_columns(
        action=pl.Series(action), reward=pl.Series(reward), step=pl.Series(step),
        episode=pl.Series(np.tile(np.arange(episodes), STEPS)), ended=pl.Series(step == STEPS - 1),
    )  # fmt: skip
    return Log(frame, state=["x0", "x1", "x2"], action="action", reward="reward", episode="episode", step="step",
               terminated="ended", truncated=False, actions=["a", "b"])  # fmt: skip


def true_gain(plan, effect):
    def policy(x):
        chance, left = usual(x), np.ones(len(x), dtype=bool)
        for edit in plan.patch.edits:
            inside = left & edit.rule.covers(x)
            chance[inside], left = edit.proposed, left & ~inside
        return chance

    return sum(s * play(p, 40_000, 9, effect)[2].sum() / 40_000 for s, p in ((1, policy), (-1, usual)))


def test_a_gain_that_is_there_is_shown_and_holds_the_truth():
    frontier = improve(log_of(1, 1.0), "log", max_rules=2)
    assert frontier.best.gain is not None
    assert frontier.best.gain.low > 0
    for plan in frontier.plans[1:]:
        assert plan.gain.low <= true_gain(plan, 1.0) <= plan.gain.high
        assert not plan.proven


def test_where_actions_do_nothing_the_current_policy_is_the_best_plan():
    frontier = improve(log_of(2, 0.0), "log", max_rules=2)
    assert frontier.best is frontier.plans[0]
    for plan in frontier.plans[1:]:
        assert any("not shown to improve" in text for text in plan.warnings)
