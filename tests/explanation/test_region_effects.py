"""What each change does by itself, and sentences that state no whole effect after the path of a few."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import polidiff
from polidiff import Log, Simulator, TabularMDP, evaluate, explain
from polidiff.domains import chain
from polidiff.explanation.groups import typical_path
from polidiff.explanation.region_places import carrier, carrying_lines
from polidiff.explanation.regions import printed_order
from polidiff.explanation.text import acts_the_same, sentence_text
from polidiff.records.codec import dumps, from_dict
from polidiff.records.explanation import RegionEffect
from polidiff.records.outcome import Interval
from polidiff.records.rule import Condition, Rule, first_match


def fan(worth):
    """From s0 by luck to one of s1, s2 …; there action 1 pays what the state is worth, then the episode ends."""
    count = len(worth)
    moves = np.zeros((count + 2, 2, count + 2))
    moves[0, :, 1 : count + 1] = 1 / count
    moves[1:, :, count + 1] = 1
    rewards = np.zeros((count + 2, 2))
    rewards[1 : count + 1, 1] = worth
    return TabularMDP(moves, rewards, np.eye(count + 2)[0], absorbing=[count + 1])


def proposed(count):
    return np.array([0, *([1] * count), 0])


@pytest.fixture(scope="module")
def seven():
    return explain(fan(range(1, 8)), np.zeros(9, dtype=int), proposed(7))


def test_a_change_alone_and_all_but_it_are_the_closed_form(seven):
    for region in seven.regions:
        worth = int(region.id[1:])
        assert region.effect.alone["return"].estimate == pytest.approx(worth / 7)
        assert region.effect.without["return"].estimate == pytest.approx((28 - worth) / 7)
        assert region.effect.alone["return"].exact


def test_no_whole_effect_follows_the_path_of_a_minority(seven):
    (sentence,) = seven.sentences
    assert sentence.path == ()
    assert len(sentence.meetings) == 7
    text = str(seven)
    assert "episodes meet different changes: " in text
    assert "and 2 more regions with smaller effects. Together they lead to more return (by 4)" in text
    told = text.split("Where they differ")[0]
    assert all(f"in s{k} (" in told for k in range(3, 8))
    assert "in s1 (" not in told, "the smallest effects are counted, not told"


@pytest.mark.parametrize(("share", "told"), [(0.5, True), (0.49, False)])
def test_a_path_is_told_from_one_half_on(share, told):
    assert typical_path({(0,): share, (1,): 1 - share - 0.2}) == ((0,) if told else None)


def test_the_change_that_carries_a_difference_is_named():
    told = explain(fan([1.0, 10.0]), np.zeros(4, dtype=int), proposed(2))
    carried = "s2 carries the difference: its change alone brings return +5; all others together bring return +0.5."
    assert carried in str(told)
    even = explain(fan([5.0, 5.0]), np.zeros(4, dtype=int), proposed(2))
    assert "carries the difference" not in str(even), "both carry it alike"
    against = str(explain(fan([6.0, -9.0, 4.0, 3.0]), np.zeros(6, dtype=int), proposed(4)))
    assert "carries" not in against, "another moves it more, the other way"
    assert "carries" not in str(explain(fan([5.0]), np.zeros(3, dtype=int), proposed(1))), "there is one only"


@pytest.mark.parametrize(
    ("own", "rest", "told"),
    [
        (0.9, 0.1, "s1 carries the difference"),
        (0.6, 0.2, "s1 carries most of the difference: its change alone brings return +2.4"),
        (0.9, -0.5, "The changes work together: return +3.6"),
    ],
)
def test_parts_that_do_not_add_up_name_no_carrier(seven, own, rest, told):
    whole = seven.verdicts[0].difference.estimate
    assert whole == pytest.approx(4.0)

    def effect(alone, without):
        return RegionEffect({"return": Interval.exactly(alone)}, {"return": Interval.exactly(without)})

    first = replace(seven.regions[0], effect=effect(own * whole, rest * whole))
    regions = (first, *(replace(region, effect=effect(0.0, whole)) for region in seven.regions[1:]))
    lines = carrying_lines(replace(seven, regions=regions))
    assert len(lines) == 1
    assert lines[0].startswith(told)
    if rest < 0:
        assert lines[0].endswith("by s1 alone, −2 by all others, +4 by all.")


def test_a_group_of_which_most_and_not_all_meet_nothing_is_not_said_to_stay_the_same(seven):
    undecided = tuple(replace(verdict, direction="unknown") for verdict in seven.verdicts)
    sentence = replace(seven.sentences[0], path=(), meetings=(), path_share=0.8, verdicts=undecided)
    assert not acts_the_same(seven, sentence)
    assert ", 80 % of episodes meet no change that a rule tells. All changes together have an unknown effect" in (
        sentence_text(seven, sentence)
    )
    assert acts_the_same(seven, replace(sentence, path_share=1.0))
    played = replace(seven, world=replace(seven.world, kind="simulator"))
    assert not acts_the_same(played, replace(sentence, path_share=1.0)), "judged episodes did not end alike"
    assert ", few episodes meet a change. All changes together have" in sentence_text(
        played, replace(sentence, path_share=1.0)
    )


def test_an_effect_that_nobody_knows_is_had_and_not_led_to(seven):
    unknown = tuple(replace(verdict, direction="unknown", note=None) for verdict in seven.verdicts)
    sentence = replace(seven.sentences[0], verdicts=unknown)
    assert sentence_text(seven, sentence, figures=False).endswith("ogether they have an unknown effect on return.")
    assert sentence_text(seven, replace(sentence, verdicts=())).endswith(" No outcome is defined.")


def test_a_change_whose_interval_reaches_that_of_another_carries_nothing(seven):
    verdict = seven.verdicts[0]
    whole = verdict.difference.estimate

    def region(k, low):
        estimate, rest = (0.9 * whole, 0.1 * whole) if k == 0 else (0.1 * whole, 0.9 * whole)
        high = 9 if k == 0 else 0.15 * whole
        effect = RegionEffect({"return": Interval(estimate, low, high, 0.95)}, {"return": Interval.exactly(rest)})
        return replace(seven.regions[k], effect=effect)

    assert carrier([region(0, 0.2 * whole), region(1, 0)], verdict).id == seven.regions[0].id
    assert carrier([region(0, 0.14 * whole), region(1, 0)], verdict) is None, "its interval reaches the other's"


def test_a_change_that_brings_hardly_more_than_all_others_carries_nothing():
    """Ten rewards of 1, ½, ¼ …: the first is 1, the others together 0.998."""
    moves = np.zeros((11, 2, 11))
    moves[range(10), :, range(1, 11)] = moves[10, :, 10] = 1
    paid = np.repeat([[0.0, 1.0]], 11, axis=0)
    world = TabularMDP(moves, paid, np.eye(11)[0], absorbing=[10], discount=0.5)
    told = explain(world, [0] * 11, [1] * 11)
    assert told.regions[0].effect.alone["return"].estimate == pytest.approx(1.0)
    assert told.regions[0].effect.without["return"].estimate == pytest.approx(1 - 0.5**9)
    assert not carrying_lines(told)


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=25)
def test_brute_force_agrees_on_random_tables(seed):
    rng = np.random.default_rng(seed)
    moves = rng.dirichlet(np.ones(6), (6, 2))
    world = TabularMDP(moves, rng.normal(size=(6, 2)), np.ones(6) / 6, absorbing=[5], discount=0.9)
    old, new = rng.integers(0, 2, (2, 6))
    told = explain(world, old, new, transition_tolerance=0.0)
    means = {True: evaluate(world, old).outcomes["return"].estimate}
    for region in told.regions:
        state = int(region.id[1:])
        alone, without = old.copy(), new.copy()
        alone[state], without[state] = new[state], old[state]
        for policy, effect in ((alone, region.effect.alone), (without, region.effect.without)):
            value = evaluate(world, policy).outcomes["return"].estimate
            assert effect["return"].estimate == pytest.approx(value - means[True], abs=1e-9)


class Gates:
    """A random place at every decision, whatever was done before; action 1 pays the place less 0.4, and luck."""

    n_actions = 2

    def __init__(self, horizon):
        self.horizon = horizon

    def reset(self, count, rng):
        return rng.random((count, 1))

    def step(self, states, actions, rng):
        paid = actions * (states[:, 0] - 0.4 + rng.normal(0, 0.3, len(states)))
        return rng.random(states.shape), paid, np.zeros(len(states), dtype=bool)


@pytest.mark.parametrize(
    ("decisions", "changed"), [(1, [(0.5, 1.0)]), (1, [(0.0, 0.3), (0.6, 1.0)]), (4, [(0.0, 0.3), (0.6, 1.0)])]
)
def test_effects_of_single_changes_add_up_where_none_bears_on_another(decisions, changed):
    def act(states):
        return np.any([(states[:, 0] >= low) & (states[:, 0] < high) for low, high in changed], axis=0).astype(int)

    told = explain(Simulator(Gates(decisions)), lambda s: np.zeros(len(s), dtype=int), act, max_steps=40_000)
    worth = {low: decisions * ((high**2 - low**2) / 2 - 0.4 * (high - low)) for low, high in changed}  # integrals
    effects = {min(worth, key=lambda low: abs(low - _left(region))): region.effect for region in told.regions}
    whole, verdict = sum(worth.values()), told.verdicts[0].difference
    assert effects.keys() == worth.keys()
    for low, effect in effects.items():
        assert effect.alone["return"].contains(worth[low])
        assert effect.without["return"].contains(whole - worth[low])
    alone = [effect.alone["return"] for effect in effects.values()]
    assert sum(i.low for i in alone) <= whole <= sum(i.high for i in alone)
    assert verdict.low <= sum(i.high for i in alone)
    assert verdict.high >= sum(i.low for i in alone)
    assert verdict.contains(whole)
    assert all(interval.width < 0.5 * max(map(abs, worth.values())) + 0.1 for interval in alone), "it can fail"


def _left(region):
    """Where an interval of places begins."""
    (condition,) = region.rule.conditions
    return condition.low if condition.low is not None and np.isfinite(condition.low) else 0.0


def test_a_log_judges_single_changes_itself():
    rng = np.random.default_rng(0)
    place, action = rng.choice(["a", "b"], 4000), rng.integers(0, 2, 4000)
    paid = np.where(place == "a", action, 0.1 * action) + 0.1 * rng.normal(size=4000)
    rows = pl.DataFrame({"place": place.tolist(), "do": action.tolist(), "paid": paid.tolist()})
    told = explain(Log(rows, state="place", action="do", reward="paid", return_range=(-1, 2)), [0, 0], [1, 1])
    alone = {region.id: region.effect.alone["return"] for region in told.regions}
    without = {region.id: region.effect.without["return"] for region in told.regions}
    assert alone["a"].contains(0.5)
    assert alone["b"].contains(0.05)
    assert not alone["a"].contains(0.1)
    assert without["b"].estimate == pytest.approx(alone["a"].estimate), "all but b is a alone"


def test_effects_come_back_from_a_file_and_files_without_them_are_read(tmp_path):
    told = explain(chain.world(), chain.current(), chain.proposed())
    again = polidiff.load(told.save(tmp_path / "x.json"))
    assert [region.effect for region in again.regions] == [region.effect for region in told.regions]
    data = json.loads(dumps(told))
    for region in data["regions"]:
        del region["effect"]
    assert [region.effect for region in from_dict(data).regions] == [None, None]
    data = json.loads(dumps(told))
    data["regions"][0]["effect"]["alone"] = {"nothing": data["regions"][0]["effect"]["alone"]["trajectory length"]}
    with pytest.raises(polidiff.errors.InvalidResultError, match="'nothing' is not an outcome"):
        from_dict(data)


RULES = st.lists(
    st.tuples(st.integers(0, 5), st.integers(1, 4), st.integers(0, 1)).map(
        lambda t: Rule((Condition("xy"[t[2]], t[2], low=t[0], high=t[0] + t[1]),))
    ),
    min_size=1,
    max_size=5,
)


@given(RULES, st.randoms(use_true_random=False))
def test_the_first_printed_rule_is_the_rule_that_was_counted(rules, shuffle):
    met = list(range(len(rules)))
    shuffle.shuffle(met)
    order = printed_order([[rule] for rule in rules], met)
    grid = np.stack(np.meshgrid(np.arange(9.0), np.arange(9.0)), axis=-1).reshape(-1, 2)
    printed, counted = first_match([rules[k] for k in order], grid), first_match(rules, grid)
    assert (np.where(printed >= 0, order[printed], -1) == counted).all()
    assert sorted(order) == sorted(met)
