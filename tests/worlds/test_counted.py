"""Transitions as numbers and sums per number, against plain loops and dictionaries."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from polidiff.errors import InvalidLogError
from polidiff.worlds.shards import transition_counts
from polidiff.worlds.shards.transition_counts import CUT, END, Entries, Sizes, TransitionCounts, in_order

BLOCKS = 3
either_reader = pytest.mark.parametrize("few", [0, 5_000], ids=["machine code", "interpreter"])
many = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@either_reader
@many
@given(numbers=st.lists(st.integers(0, 2**62 - 1) | st.integers(0, 5) | st.integers(2**50, 2**50 + 5), max_size=60))
def test_numbers_are_sorted_and_equal_ones_stay_in_order(monkeypatch, few, numbers):
    monkeypatch.setattr(transition_counts, "FEW_ROWS", few)
    keys, order = in_order(np.array(numbers, dtype=np.int64))
    expected = sorted(range(len(numbers)), key=lambda i: (numbers[i], i))
    assert order.tolist() == expected
    assert keys.tolist() == [numbers[i] for i in expected]


transitions = st.lists(
    st.tuples(st.integers(0, BLOCKS - 1), st.integers(0, 9), st.integers(0, 4), st.integers(CUT, 9)),
    min_size=1,
    max_size=40,
)

wider = st.lists(
    st.tuples(st.integers(0, BLOCKS - 1), st.integers(0, 70), st.integers(0, 40), st.integers(CUT, 70)),
    min_size=1,
    max_size=40,
)


@many
@given(rows=transitions)
def test_keys_hold_their_parts_and_sort_as_they_do_with_the_end_after_all_states(rows):
    sizes = Sizes(BLOCKS, 10, 5)
    parts = tuple(np.array(column) for column in zip(*rows, strict=True))
    keys = sizes.keys(*parts)
    assert [tuple(row) for row in np.array(sizes.parts(keys)).T.tolist()] == rows
    place = {END: 100, CUT: 101}
    by_parts = sorted(rows, key=lambda row: (*row[:3], place.get(row[3], row[3])))
    assert [rows[i] for i in np.argsort(keys, kind="stable")] == by_parts


@many
@given(rows=transitions, data=st.data())
def test_renumbered_entries_hold_the_renumbered_parts_in_the_order_of_keys(rows, data):
    state, action = (np.array(data.draw(st.permutations(range(n)))) + data.draw(st.integers(0, 30)) for n in (10, 5))
    before = data.draw(st.integers(0, 7))
    sizes, sums = Sizes(BLOCKS, 10, 5), np.arange(len(rows), dtype=float)[:, None]
    keys = sizes.keys(*(np.array(column) for column in zip(*rows, strict=True)))
    turned = Entries(keys, sizes, sums).renumbered(state, action, before=before)
    expected = [((b + before) % BLOCKS, state[s], action[a], state[t] if t >= 0 else t) for b, s, a, t in rows]
    assert [tuple(row) for row in np.array(turned.parts).T.tolist()] == [expected[int(n)] for n in turned.count]
    assert np.all(turned.keys[1:] >= turned.keys[:-1])
    assert sorted(turned.count) == list(range(len(rows)))


@either_reader
@many
@given(
    batches=st.lists(transitions | wider, min_size=1, max_size=6),
    elsewhere=st.lists(st.booleans(), min_size=6, max_size=6),
    most=st.integers(1, 200),
    outcomes=st.integers(0, 2),
    seed=st.integers(0, 9),
)
def test_sums_are_those_of_a_dictionary_however_rows_come(monkeypatch, few, batches, elsewhere, most, outcomes, seed):
    monkeypatch.setattr(transition_counts, "FEW_ROWS", few)
    monkeypatch.setattr(transition_counts, "MOST_NUMBERS", most)
    rng, expected = np.random.default_rng(seed), defaultdict(lambda: np.zeros(1 + 2 * outcomes))
    counted = TransitionCounts(BLOCKS, outcomes)
    for rows, apart in zip(batches, elsewhere, strict=False):
        gains = rng.integers(-4, 5, (outcomes, len(rows))) / 2
        parts = [np.array(column) for column in zip(*rows, strict=True)]
        if apart:
            other = TransitionCounts(BLOCKS, outcomes)
            other.add_rows(*parts, gains)
            found = other.entries()
            turned = np.roll(np.arange(len(found.keys)), rng.integers(0, len(found.keys)))
            counted.add(Entries(found.keys[turned], found.sizes, found.sums[turned]))
        else:
            counted.add_rows(*parts, gains)
        for i, row in enumerate(rows):
            expected[row] += [1.0, *(part for gain in gains[:, i] for part in (gain, gain * gain))]
    entries = counted.entries()
    told = [tuple(row) for row in np.array(entries.parts).T.tolist()]
    assert sorted(told) == sorted(expected), "every key once"
    assert np.all(entries.keys[1:] > entries.keys[:-1])
    assert np.array_equal(entries.sums, [expected[row] for row in told])
    again = counted.entries()
    assert np.array_equal(again.sums, entries.sums)


def test_nothing_may_be_added():
    counted = TransitionCounts(BLOCKS, 1)
    for _ in range(2):
        counted.add(TransitionCounts(BLOCKS, 1).entries())
        counted.add_rows(*np.zeros((4, 0), dtype=np.int64), np.zeros((1, 0)))
    assert counted.entries().keys.shape == (0,)
    assert counted.entries().sums.shape == (0, 3)


def test_more_combinations_than_a_number_can_hold_are_refused():
    with pytest.raises(InvalidLogError, match=r"about 1e18 combinations .* 2\^30 states and 2\^10 actions"):
        TransitionCounts(200, 1).add_rows(*np.array([[0], [2**30 - 1], [2**10 - 1], [END]]), np.zeros((1, 1)))


def test_more_transitions_than_memory_holds_are_refused_before_they_are_put_together(monkeypatch):
    counted = TransitionCounts(BLOCKS, 1)
    none = np.zeros(10, dtype=np.int64)
    for _ in range(3):
        counted.add_rows(none, np.arange(10), none, none + END, np.ones((1, 10)))
    monkeypatch.setattr(transition_counts, "free_memory", lambda: 30 * 4 * 8.0 - 1)
    with pytest.raises(InvalidLogError, match=r"up to 30 distinct .* need about 9.6e-07 GB; 9.59e-07 GB are free"):
        counted.entries()
    monkeypatch.setattr(transition_counts, "free_memory", lambda: 30 * 4 * 8.0)
    assert counted.entries().count.tolist() == [3.0] * 10
