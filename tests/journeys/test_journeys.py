"""Paths over regions: counted as by a plain loop, and followed for a while only where episodes may never end."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polidiff import Log, TabularMDP, explain
from polidiff.evaluation import compare
from polidiff.journeys import follow, journeys_of, table
from polidiff.journeys import log as journey_log
from polidiff.records.rule import Condition, GroupRules, Rule
from polidiff.worlds.rollouts import Visits


@given(st.lists(st.lists(st.integers(-1, 2), min_size=1, max_size=8), min_size=1, max_size=8), st.integers(1, 3))
def test_paths_and_first_meetings_are_those_of_a_plain_loop(episodes, starts):
    owner = np.sort(np.arange(len(episodes)) % starts)
    count = int(owner.max()) + 1
    region = np.concatenate([np.array(part) for part in episodes])
    episode = np.repeat(np.arange(len(episodes)), [len(part) for part in episodes])
    none = np.zeros(len(region), dtype=np.int64)
    visits = Visits(episode, none, none, none, none[:, None])
    starting = np.arange(len(episodes))
    played = SimpleNamespace(visits=visits, lengths=np.bincount(episode), starts=starting, truncated_share=0.0)
    world = SimpleNamespace(features_of=lambda states: np.asarray(states)[:, None])
    found = journeys_of(world, played, region, owner, np.full(count, 1 / count), regions=3)
    for k in range(count):
        mine = [part for part, start in zip(episodes, owner, strict=True) if start == k]
        paths = Counter(tuple(r for i, r in enumerate(met) if i == 0 or met[i - 1] != r)
                        for met in ([r for r in part if r >= 0] for part in mine))  # fmt: skip
        assert found.paths[k] == paths
        for r in range(3):
            firsts = [part.index(r) for part in mine if r in part]
            assert found.meets[k, r] == pytest.approx(len(firsts) / len(mine))
            assert found.first_met[k, r] == pytest.approx(np.mean(firsts) if firsts else np.nan, nan_ok=True)


def test_episodes_that_never_end_are_followed_for_a_while(monkeypatch):
    around = np.roll(np.eye(3), 1, axis=1)
    moves = np.stack([around, (around + np.eye(3)) / 2], axis=1)
    world = TabularMDP(
        moves, np.array([[0.0, 1.0], [1.0, 0.0], [0.0, 0.5]]), np.ones(3) / 3, absorbing=[], discount=0.9
    )
    steps, roll_out = [], table.roll_out

    def watched(*args, **options):
        played = roll_out(*args, **options)
        steps.append(int(played.lengths.sum()))
        return played

    monkeypatch.setattr(table, "roll_out", watched)
    told = explain(world, [0, 0, 0], [1, 0, 0])
    assert steps, "paths were played"
    assert max(steps) <= table.ENDLESS_STEPS
    assert {sentence.path for sentence in told.sentences} == {("s0",)}, "the region that is the state s0"
    assert told.verdicts[0].direction == "more"


def test_long_episodes_are_played_less_often():
    """From both starts an episode takes 4,000 decisions on average: 2,000 until a chance of 1 in 2,000 comes, twice."""
    stay = 1 - 1 / 2000
    moves = np.zeros((3, 2, 3))
    moves[0, :, 0], moves[0, :, 1], moves[1, :, 1], moves[1, :, 2], moves[2, :, 2] = stay, 1 - stay, stay, 1 - stay, 1
    world = TabularMDP(moves, np.array([[0.0, 1.0], [0.0, 0.0], [0.0, 0.0]]), [1.0, 0, 0], absorbing=[2])
    met = follow(world, compare(world, [0, 0, 0], [1, 0, 0]), [], seed=0, episodes=0)
    episodes = sum(counts.total() for counts in met.paths)
    assert 0.5 < episodes * 4_000 / table.LONG_STEPS < 2, "20 episodes tell the mean within a half"


def clinic_log(episodes, seed=0):
    """Two decisions: the first moves the level by the action, the second is met with what is left of it."""
    rng = np.random.default_rng(seed)
    level = rng.random(episodes)
    first = (rng.random(episodes) < 0.3).astype(int)
    after = np.clip(level - 0.4 * first + rng.normal(0, 0.03, episodes), 0, 1)
    second = (rng.random(episodes) < 0.3).astype(int)
    paid = np.stack([first * (level > 0.5) - level, second * (after > 0.5) - after], axis=1)
    return Log(
        pl.DataFrame({
            "episode": np.repeat(np.arange(episodes), 2), "level": np.stack([level, after], axis=1).ravel(),
            "treated": np.stack([first, second], axis=1).ravel(), "paid": paid.ravel(),
            "ended": np.tile([False, True], episodes),
        }),
        state=["level"], action="treated", episode="episode", reward="paid", terminated="ended", actions=2,
    )  # fmt: skip


def treat_above_half(x):
    high = (np.asarray(x, dtype=float)[:, 0] > 0.5).astype(float)
    return np.column_stack([1 - high, high])


def test_paths_of_a_feature_log_are_those_of_the_proposed_policy():
    log = clinic_log(600)
    comparison = compare(log, "log", treat_above_half, seed=0)
    rule = Rule((Condition("level", 0, low=0.5, high=np.inf),))
    comparison.coverage([rule])
    met = follow(log, comparison, [rule], seed=0, episodes=0)
    assert met.halves is not None
    again = [path for half in met.halves for counts in half.paths for path in counts.elements()]
    truly = met_truly(np.repeat(log.rows.states[log.rows.first][:, 0], 30))
    assert met.shares[0] == pytest.approx(truly[0], abs=0.04)
    episode, at, far = journey_log.follow_moves(comparison, np.ones(1200, dtype=bool), np.random.default_rng(1))
    level = log.rows.states[comparison.scored.decisions.order][at][:, 0]
    twice = np.bincount(episode, level >= 0.5) == 2
    assert twice.mean() == pytest.approx(truly[1], abs=0.04), "treated first, few are above again"
    assert np.mean(np.bincount(np.arange(1200) // 2, log.rows.states[:, 0] >= 0.5) == 2) > truly[1] + 0.15
    assert far < 0.1
    assert set(again) <= {(), (0,)}


def met_truly(level):
    """Shares of episodes of the proposed policy from these starts above a half at all, and at both decisions."""
    noise = np.random.default_rng(9).normal(0, 0.03, len(level))
    after = np.clip(level - 0.4 * (level > 0.5) + noise, 0, 1)
    return np.mean((level >= 0.5) | (after >= 0.5)), np.mean((level >= 0.5) & (after >= 0.5))


def test_few_episodes_say_no_paths():
    told = explain(clinic_log(60), "log", treat_above_half)
    assert any("Not enough episodes to say which paths" in text for text in told.warnings)
    assert [sentence.path for sentence in told.sentences] == [()]


def test_groups_of_starts_of_a_feature_log_are_judged_by_episodes_that_did_not_form_them():
    log = clinic_log(800)
    comparison = compare(log, "log", treat_above_half, seed=0)
    groups = [GroupRules(), GroupRules((Rule((Condition("level", 0, low=0.5, high=np.inf),)),))]
    judged = comparison.judge(groups, level=0.95, seed=0)
    starts = log.rows.states[log.rows.first][:, 0]
    assert judged.episodes.tolist() == [800, np.sum((starts >= 0.5) & comparison.judging)]
    assert 0.45 < comparison.judging.mean() < 0.55
    assert judged.family == 2
    assert judged.verdicts[1][0].direction == "more"


def test_starts_of_a_feature_log_that_gain_and_that_lose_are_told_apart():
    """Treatment where the level is high pays for the young and costs the old; two sentences say so."""
    rng = np.random.default_rng(0)
    level, old = rng.random(900), rng.integers(0, 2, 900)
    treated = rng.integers(0, 2, (900, 2))
    after = np.clip(level - 0.3 * treated[:, 0] + 0.2 * (1 - treated[:, 0]), 0, 1)
    levels = np.column_stack([level, after])
    paid = treated * np.where(levels >= 0.5, np.where(old[:, None] == 1, -1.0, 1.0), 0.0)
    columns = {"episode": np.repeat(np.arange(900), 2), "level": levels.ravel(), "old": np.repeat(old, 2),
               "treated": treated.ravel(), "paid": paid.ravel(), "ended": np.tile([False, True], 900)}  # fmt: skip
    log = Log(pl.DataFrame(columns), state=["level", "old"], action="treated", episode="episode", reward="paid",
              terminated="ended", actions=2, probability=0.5, return_range=(-2, 2))  # fmt: skip
    told = explain(log, "always:0", lambda x: (np.asarray(x, dtype=float)[:, 0] >= 0.5).astype(int))
    high = {
        (sentence.path, sentence.verdicts[0].direction)
        for sentence in told.sentences
        if sentence.start.covers(np.array([[0.8, 0.0]]))[0] or sentence.start.covers(np.array([[0.8, 1.0]]))[0]
    }
    assert high == {(("S1",), "more"), (("S1",), "less")}


def test_episodes_of_three_visits_are_followed_for_three_visits():
    """Each visit is on either of two wards by lot: 3 in 4 episodes see the other ward at one of two later visits."""
    rng = np.random.default_rng(3)
    ward, treated = rng.integers(0, 2, (2, 4_000, 3))
    columns = {"episode": np.repeat(np.arange(4_000), 3), "ward": ward.ravel(), "treated": treated.ravel(),
               "paid": rng.integers(0, 2, 12_000), "ended": np.tile([False, False, True], 4_000)}  # fmt: skip
    log = Log(pl.DataFrame(columns), state="ward", action="treated", episode="episode", reward="paid",
              terminated="ended", actions=2, return_range=(0, 3))  # fmt: skip
    rules = [region.rule for region in explain(log, "log", "always:1").regions]
    met = follow(log, compare(log, "log", "always:1", seed=0), rules, seed=0, episodes=2).meets
    assert np.sort(met, axis=1) == pytest.approx(np.array([[0.75, 1.0]] * 2), abs=0.03)


def test_paths_of_a_log_in_which_the_past_matters_are_followed_with_the_past():
    rng = np.random.default_rng(0)
    first, second, third = rng.integers(0, 2, (3, 300))
    where = np.where(first == 1, "ward", "home")  # what was done at first decides, two decisions later
    states = np.column_stack([np.full(300, "begin"), np.full(300, "middle"), where]).ravel()
    actions = np.column_stack([first, second, third]).ravel()
    table = pl.DataFrame({"episode": np.arange(900) // 3, "state": states, "action": actions, "paid": 1.0 * actions,
                          "ended": np.arange(900) % 3 == 2})  # fmt: skip
    log = Log(table, state="state", action="action", episode="episode", reward="paid", terminated="ended")
    told = explain(log, "log", "always:1").sentences[0]
    assert (len(told.path), told.path_share) == (3, 1.0)  # begin, middle, ward; half of them go home without the past
