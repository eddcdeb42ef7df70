"""Paths over regions: counted as by a plain loop, and followed for a while only where episodes may never end."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polidiff import TabularMDP, explain
from polidiff.journeys import table
from polidiff.journeys.record import journeys_of
from polidiff.worlds.rollouts import Visits


@given(st.lists(st.lists(st.integers(-1, 2), min_size=1, max_size=8), min_size=1, max_size=8), st.integers(1, 3))
def test_paths_and_first_meetings_are_those_of_a_plain_loop(episodes, starts):
    owner = np.sort(np.arange(len(episodes)) % starts)
    count = int(owner.max()) + 1
    region = np.concatenate([np.array(part) for part in episodes])
    episode = np.repeat(np.arange(len(episodes)), [len(part) for part in episodes])
    none = np.zeros(len(region), dtype=np.int64)
    visits = Visits(episode, none, none, none)
    played = SimpleNamespace(visits=visits, lengths=np.bincount(episode), starts=np.arange(len(episodes)))
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
