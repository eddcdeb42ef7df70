"""A series of policies told as a changelog: each version against the one before."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polidiff import changelog, evaluate, explain
from polidiff.domains import chain, navigation
from polidiff.errors import InvalidOptionError

WORLD = chain.world()
VERSIONS = st.lists(
    st.lists(st.integers(0, 1), min_size=WORLD.n_states, max_size=WORLD.n_states).map(np.array), min_size=2, max_size=4
)


@settings(max_examples=6)
@given(versions=VERSIONS)
def test_the_differences_of_the_entries_add_up_to_that_of_the_last_and_the_first_version(versions):
    entries = changelog(WORLD, versions)
    ends = [evaluate(WORLD, versions[k]).outcomes for k in (0, -1)]
    for m, outcome in enumerate(WORLD.outcomes):
        added = sum(entry.verdicts[m].difference.estimate for entry in entries)
        assert added == pytest.approx(ends[1][outcome.name].estimate - ends[0][outcome.name].estimate, abs=1e-9)


@settings(max_examples=6)
@given(versions=VERSIONS)
def test_the_patch_of_each_entry_makes_the_next_version_of_the_one_before(versions):
    for entry, before, after in zip(changelog(WORLD, versions), versions, versions[1:], strict=False):
        patched, wanted = (evaluate(WORLD, policy).outcomes for policy in (entry.patch.apply(before), after))
        for name, interval in wanted.items():
            assert patched[name].estimate == pytest.approx(interval.estimate)


@settings(max_examples=6)
@given(version=VERSIONS.map(lambda versions: versions[0]))
def test_equal_neighbours_have_no_difference(version):
    (entry,) = changelog(WORLD, [version, version.copy()])
    assert str(entry).startswith("The two policies act the same wherever it matters.")
    assert not entry.regions
    assert not entry.patch.edits
    assert entry.changes == 0


def test_an_entry_is_the_explanation_of_its_two_versions_with_the_options_given():
    versions = [navigation.current, navigation.proposed_1, navigation.proposed_2]
    world = navigation.world()
    options = {"seed": 3, "max_rules": 2, "starts": 20, "max_splits": 1}
    entries = changelog(world, versions, **options)
    again = explain(world, navigation.proposed_1, navigation.proposed_2, **options)
    assert entries[1].to_dict() == again.to_dict()


def test_in_a_simulator_a_version_is_judged_on_the_same_episodes_in_both_entries_it_is_in():
    versions = [navigation.current, navigation.proposed_1, navigation.proposed_2]
    first, second = changelog(navigation.world(), versions, starts=20, max_splits=1)
    for before, after in zip(first.verdicts, second.verdicts, strict=True):
        assert before.proposed.estimate == after.current.estimate


@pytest.mark.parametrize("versions", [[], [chain.current()]])
def test_one_version_has_no_changelog(versions):
    with pytest.raises(InvalidOptionError, match=f"at least two policies; got {len(versions)}"):
        changelog(WORLD, versions)
