"""What moves decisions and outcomes together in time: told, counted as a feature where that mends it, else unknown."""

import numpy as np
import polars as pl
import pytest

from polidiff import Log, explain
from polidiff.evaluation.assumptions.confounded_levels import levels_move_both
from polidiff.evaluation.logged.judge import assess

EFFECT = 0.3


def log_with(season: np.ndarray, *, seed: int, strength: float = 1.2) -> Log:
    """One decision a row; the season moves who gets the action and, the other way, what comes of it."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=len(season))
    action = (rng.random(len(season)) < 1 / (1 + np.exp(-0.5 * x - strength * season))).astype(int)
    y = x - 1.5 * season + EFFECT * action + rng.normal(size=len(season))
    return Log(pl.DataFrame({"x": x, "a": action, "y": y}), state=["x"], action="a", reward="y")


def compared(log: Log):
    told = explain(log, "always:0", "always:1")
    return told.verdicts[0], {assumption.name: assumption for assumption in told.assumptions}


@pytest.mark.parametrize("turns", [1, 12, 40])
def test_a_season_behind_decisions_and_outcomes_is_never_told_as_an_effect(turns):
    verdict, _ = compared(log_with(np.sin(2 * np.pi * turns * np.arange(800) / 800), seed=turns))
    assert verdict.direction == "unknown"
    assert verdict.difference.low <= EFFECT <= verdict.difference.high
    assert "time" in verdict.note or "when in the log" in verdict.note


def test_where_the_time_as_a_feature_says_the_same_the_verdict_stands_with_a_doubt():
    places = np.repeat(np.random.default_rng(0).normal(size=20), 75)  # as a file that was put together place by place
    log = log_with(-places / 3, seed=3, strength=1.5)
    verdict, assumptions = compared(log)
    assert verdict.direction == "more"
    assert verdict.difference.low <= EFFECT <= verdict.difference.high
    assert assumptions["drift"].status == "doubtful"
    assert "stretch of the log" in assumptions["drift"].consequence


def test_without_a_season_nothing_is_doubted():
    _, assumptions = compared(log_with(np.zeros(600), seed=5))
    assert assumptions["drift"].status == "held"


def test_where_actions_were_drawn_nothing_stands_behind_them():
    """Three offers a screen, drawn without repeats: neighbours never get the same one, by the draw alone."""
    rng = np.random.default_rng(0)
    offers = np.concatenate([rng.permutation(4)[:3] for _ in range(400)])
    liked = np.repeat(rng.random(400) < 0.5, 3)
    frame = pl.DataFrame({"offer": offers, "y": (liked & (rng.random(1200) < 0.7)).astype(float), "p": 0.25})
    log = Log(frame, state=[], action="offer", reward="y", probability="p")
    told = explain(log, "log", "always:1")
    assert "when in the log" not in str(told)
    assert np.isfinite(told.verdicts[0].difference.low)


def test_rare_actions_and_outcomes_that_meet_by_chance_are_no_alarm():
    rng, level = np.random.default_rng(2), np.arange(3000) // 5
    alarms = 0
    for _ in range(60):
        taken = np.eye(20)[rng.integers(0, 20, 3000)] - 1 / 20
        brought = (rng.random((3000, 1)) < 0.012) - 0.012
        alarms += levels_move_both(level, taken, brought)
    assert alarms == 0, "one in a thousand is expected"


@pytest.mark.parametrize(("hidden", "alarms"), [(0.0, False), (1.5, True)])
def test_an_action_drawn_once_for_each_person_is_no_alarm_but_one_that_goes_with_who_it_was_is(hidden, alarms):
    told = []
    for seed in range(8):
        rng, who = np.random.default_rng(seed), np.repeat(np.arange(300), 4)
        well, draw = rng.normal(size=300)[who], rng.random(1200)
        draw = draw if alarms else draw[who]
        action = (draw < 1 / (1 + np.exp(-hidden * well))).astype(int)
        paid = well + EFFECT * action + rng.normal(size=1200)
        frame = pl.DataFrame({"who": who, "ward": rng.integers(0, 2, 1200), "a": action, "paid": paid})
        log = Log(frame.sample(1200, shuffle=True, seed=seed), state="ward", action="a", reward="paid", group="who")
        told.append(assess(log).confounded is not None)
    assert told == 8 * [alarms]
