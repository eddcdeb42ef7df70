"""Counts of people in results of logs with labelled states: distinct episodes, as a plain loop counts them."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polidiff import Log, Outcome, explain
from polidiff.records.explanation import Feature
from polidiff.report.markdown import save_markdown
from polidiff.worlds.log_check import _trimmed, label_coverage

PAID = Outcome("paid", "paid", prefer="more", range=(0, 20))


def log_of(episodes, *, states):
    """A log of episodes, each a list of (state, action); every decision pays its action."""
    table = {
        "who": [f"p{e}" for e, steps in enumerate(episodes) for _ in steps],
        "state": [state for steps in episodes for state, _ in steps],
        "action": [action for steps in episodes for _, action in steps],
        "paid": [float(action) for steps in episodes for _, action in steps],
        "end": [k == len(steps) - 1 for steps in episodes for k in range(len(steps))],
    }
    return Log(
        pl.DataFrame(table),
        state="state",
        action="action",
        episode="who",
        terminated="end",
        outcomes=[PAID],
        states=states,
        actions=2,
    )


@given(
    st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=6), min_size=1, max_size=6),
    st.lists(st.integers(-1, 2), min_size=5, max_size=5),
)
def test_episodes_are_counted_once_in_every_group_they_visit(visits, group):
    log = log_of([[(state, 0) for state in steps] for steps in visits], states=5)
    rows, episodes = label_coverage(log, np.array(group), 3)
    for k in range(3):
        inside = [[group[state] == k for state in steps] for steps in visits]
        assert rows[k] == sum(map(sum, inside))
        assert episodes[k] == sum(map(any, inside))


def test_single_decisions_are_people_of_their_own():
    frame = pl.DataFrame({"ward": ["a", "b", "c", "a"], "act": [0, 1, 0, 1], "paid": [0.0, 1.0, 0.0, 1.0]})
    log = Log(frame, state="ward", action="act", outcomes=[PAID], actions=2)
    rows, episodes = label_coverage(log, np.array([0, 1, -1]), 2)
    assert rows.tolist() == episodes.tolist() == [2, 1]


def test_a_page_of_three_wards_says_that_every_decision_changes(tmp_path):
    rng = np.random.default_rng(0)
    act = rng.integers(0, 2, 3000)
    frame = pl.DataFrame({"ward": rng.choice(["a", "b", "c"], 3000), "act": act, "paid": 0.1 * act})
    log = Log(frame, state="ward", action="act", outcomes=[PAID], actions=2)
    told = explain(log, np.zeros(3, dtype=int), np.ones(3, dtype=int))
    assert sum(region.support.episodes for region in told.regions) == 3000
    page = save_markdown(told, tmp_path / "x.md").read_text(encoding="utf-8")
    assert "They differ in 3 regions, in 100 % of decisions." in page
    assert "act the same" not in page


def crowd_and_one(alone):
    """Forty people in state 0, and one who also walks through other states; the proposed policy changes all of them."""
    crowd = [[(0, k % 2), (0, (k + 1) % 2)] for k in range(40)]
    return log_of([*crowd, [(0, 0), *((state, state % 2) for state in alone)]], states=17)


def test_one_person_alone_in_many_states_is_one_person_and_is_not_shown(tmp_path):
    log = crowd_and_one(range(1, 17))
    told = explain(log, np.zeros(17, dtype=int), np.ones(17, dtype=int))
    alone = [region for region in told.regions if region.id != "0"]
    assert alone
    assert {region.support.episodes for region in alone} == {1}
    page = save_markdown(told, tmp_path / "x.md").read_text(encoding="utf-8")
    assert "16 episodes" not in page
    assert "16 regions" in page


@pytest.mark.parametrize("name", ["x.html", "x.md"])
def test_a_page_leaves_out_a_small_region_beside_a_merged_one(tmp_path, name):
    """Most people meet no change, twenty meet two states that change the same way, two meet a third, 15."""
    crowd = [[(2, 0)]] * 100 + [[(2, 0), (0, k % 2), (1, k // 2 % 2)] for k in range(20)]
    few = [[(2, 0), (15, k)] for k in range(2)]
    current = np.zeros(17, dtype=int)
    current[15] = 1
    proposed = np.where(np.arange(17) == 2, current, 1 - current)
    told = explain(log_of([*crowd, *few], states=17), current, proposed, max_rules=2)
    assert [(region.merged, region.support.episodes) for region in told.regions] == [(True, 20), (False, 2)]
    assert "15" in {meeting.region for sentence in told.sentences for meeting in sentence.meetings}
    page = told.save(tmp_path / name).read_text(encoding="utf-8")
    assert "act the same" not in page
    assert "1 region" in page


def test_a_page_on_which_every_region_is_too_small_does_not_call_the_policies_equal(tmp_path):
    told = explain(log_of([[(0, 0)], [(0, 1)], [(1, 0)], [(1, 1)]], states=2), [0, 0], [1, 1])
    page = save_markdown(told, tmp_path / "x.md").read_text(encoding="utf-8")
    assert "Fewer than 10 decisions change, which are not shown." in page
    assert "act the same" not in page


@given(st.lists(st.tuples(st.integers(0, 14), st.sampled_from([1.0, 2.0, 3.0, 5.0, float("nan")])), min_size=1))
def test_ten_people_reach_each_end_of_a_range_that_is_told(rows):
    person, column = (np.array(part) for part in zip(*rows, strict=True))
    told = _trimmed(Feature("x", "number", 1.0, 5.0), column, person)
    values = [{v for who, v in rows if who == one and v == v} for one in set(person.tolist())]
    known = [own for own in values if own]
    low = sorted(min(own) for own in known)[9:10]
    high = sorted((max(own) for own in known), reverse=True)[9:10]
    shown = bool(low) and low[0] <= high[0]
    assert (told.low, told.high, told.behind) == ((low[0], high[0], 10) if shown else (None, None, None))
