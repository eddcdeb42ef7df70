"""What sentences say of random small tables, against all episodes written out: whose effect, which share, what base."""

from __future__ import annotations

import re
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polidiff import TabularMDP, explain
from polidiff.explanation.said import say
from polidiff.explanation.text import sentence_text

SEEDS = st.integers(0, 10_000)
SLACK = 0.03  # four standard errors of a share of 5,000 episodes


def drawn(seed, *, moving=True, ways=2):
    """A table without a way back from s0 on, two policies that take one action each, and all episodes of the second.

    With `moving`, actions choose where to go, else luck alone does; each action leads `ways` at most.
    """
    rng, count = np.random.default_rng(seed), 6
    moves = np.zeros((count, 2, count))
    for s in range(count - 1):
        ahead = np.arange(s + 1, count)
        for a in range(2):
            chosen = rng.choice(ahead, size=min(ways, len(ahead)), replace=False)
            moves[s, a, chosen] = rng.dirichlet(np.ones(len(chosen)))
        if not moving:
            moves[s, 1] = moves[s, 0]
    moves[-1, :, -1] = 1
    rewards = np.where(np.arange(count)[:, None] < count - 1, rng.integers(-5, 6, (count, 2)), 0).astype(float)
    world = TabularMDP(moves, rewards, np.eye(count)[0], absorbing=[count - 1], actions=["a", "b"])
    policies = [np.append(rng.integers(0, 2, count - 1), 0) for _ in range(2)]
    return world, moves, *policies


def episodes(moves, policy, at=0, chance=1.0, seen=()):
    """All episodes of a policy: chance and states visited before the end."""
    if at == len(moves) - 1:
        yield chance, seen
        return
    for after in np.flatnonzero(moves[at, policy[at]]):
        yield from episodes(moves, policy, after, chance * moves[at, policy[at], after], (*seen, at))


def paths_of(moves, policy, told):
    """Exact chance of each path through the regions, which are single states."""
    shares = defaultdict(float)
    for chance, seen in episodes(moves, policy):
        shares[tuple(f"s{s}" for s in seen if f"s{s}" in told)] += chance
    return shares


@settings(max_examples=25)
@given(SEEDS, st.booleans())
def test_an_effect_is_that_of_all_changes_met_and_shares_say_of_what(seed, moving):
    world, moves, current, proposed = drawn(seed, moving=moving)
    told = explain(world, current, proposed)
    exact = paths_of(moves, proposed, {region.id for region in told.regions})
    for sentence in told.sentences:
        text = sentence_text(told, sentence)
        named = {*sentence.path, *(meeting.region for meeting in sentence.meetings)}
        unnamed = sum(chance for path, chance in exact.items() if not named.issuperset(path))
        if "This leads to" in text or "Together they lead to" in text:
            assert unnamed <= SLACK, text
        if "All changes together lead to" in text:
            assert unnamed > 0, text
        for share, what in re.findall(
            r"\((\d+) % of episodes (meet only this change|follow exactly this path)\)", text
        ):
            assert int(share) / 100 == pytest.approx(exact[sentence.path], abs=SLACK), what
        met = [meeting.region for meeting in sentence.meetings] or list(sentence.path)
        for share in re.findall(r"(\d+) % of episodes reach it", text):
            true = [sum(chance for path, chance in exact.items() if region in path) for region in met]
            assert min(abs(int(share) / 100 - chance) for chance in true) <= SLACK, text


@settings(max_examples=15)
@given(SEEDS, st.booleans())
def test_what_is_called_unsampled_is_exact(seed, moving):
    world, moves, current, proposed = drawn(seed, moving=moving)
    told = explain(world, current, proposed)
    exact = paths_of(moves, proposed, {region.id for region in told.regions})
    sure = next(answer.spoken for answer in say(told).answers if "Exact for this table" in answer.spoken)
    off = [abs(sentence.path_share - exact[sentence.path]) for sentence in told.sentences if sentence.path]
    if "nothing was sampled" in sure:
        assert max(off, default=0.0) < 1e-9
    else:
        assert re.search(r"come from [\d\u202f]+ played episodes", sure)
        assert len(exact) > 1, "where there is one path, nothing had to be counted"
        assert re.search(r"exact, but for shares of episodes .*\d played episodes", str(told))


@settings(max_examples=25)
@given(SEEDS)
def test_regions_of_one_swap_cover_shares_of_the_same_changes(seed):
    world, moves, current, proposed = drawn(seed, ways=1)  # some states lie where neither policy goes
    visits = np.zeros(len(moves))
    for policy in (current, proposed):
        mine = np.zeros(len(moves))
        for chance, seen in episodes(moves, policy):
            mine[list(seen)] += chance
        visits += mine / mine.sum() / 2
    told = explain(world, current, proposed)
    for swap in {(region.current, region.proposed) for region in told.regions}:
        alike = [region for region in told.regions if (region.current, region.proposed) == swap]
        mass = {region.id: visits[int(region.id[1:])] for region in alike}
        assert sum(region.recall for region in alike) == pytest.approx(1.0)
        if sum(mass.values()) > 0:
            assert [r.recall for r in alike] == pytest.approx([mass[r.id] / sum(mass.values()) for r in alike])


def test_a_change_that_gains_is_not_told_to_lose():
    """Changing s0 alone brings +1, s1 alone −2: no sentence says that the change in s0 brings −1."""
    moves = np.zeros((3, 2, 3))
    moves[0, :], moves[1:, :, 2] = [0, 0.4, 0.6], 1
    world = TabularMDP(moves, np.array([[0, 1.0], [0, -5.0], [0, 0]]), [1, 0, 0], absorbing=[2], actions=["a", "b"])
    text = str(explain(world, [0, 0, 0], [1, 1, 0]))
    assert re.search(
        r"\(\d+ % of episodes meet only this change\)\. All changes together lead to less return \(by 1\)", text
    )
    assert "This leads to" not in text
