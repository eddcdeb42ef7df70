"""The demo of the sepsis model: what is said can be read aloud, and every number in it is exact."""

from __future__ import annotations

import re

import numpy as np
import pytest

from polidiff import evaluate
from polidiff.cli.studies import results, spoken
from polidiff.domains import icu_sepsis
from polidiff.domains.icu_sepsis import SURVIVAL, sepsis_data
from polidiff.domains.icu_sepsis_words import briefing, direction_shares, gain_if_off, rule_words, share_given
from polidiff.explanation.text import sentence_text
from polidiff.policies import top_actions


@pytest.fixture(scope="module")
def demo():
    return results("icu-sepsis", 0)


def survival_by_hand(actions):
    """Chance to reach survival, by a dense solve over the package's own arrays."""
    data = sepsis_data()
    rows = np.arange(SURVIVAL - 1)
    moves = data.transitions[rows, actions[rows]]
    chances = np.linalg.solve(np.eye(len(rows)) - moves[:, : len(rows)], moves[:, SURVIVAL])
    return float(data.initial[: len(rows)] @ chances)


def actions_of(plan):
    return top_actions(plan.policy.probabilities(np.arange(716)))


def test_there_are_at_most_six_sentences_that_can_be_read_aloud(demo):
    sentences = briefing(*demo)
    assert len(sentences) <= 6
    for sentence in sentences:
        assert sentence.endswith(".")
        assert len(sentence.split()) <= 60
        assert not re.search(r"\d\.\d{3}|≤|≥|S\d", sentence)


def test_sentences_on_the_page_call_long_regions_by_their_names(demo):
    explanation, _ = demo
    (sentence,) = explanation.sentences
    *met, together = sentence_text(explanation, sentence, figures=False).split("; ")
    assert not re.search("[<>≤≥]", " ".join(met))
    assert all(re.search(r" in S\d+(?:, told below)? \(\d+ % of episodes reach it\)$", change) for change in met)
    assert max(len(change.split()) for change in met) <= 20
    assert len(together.split()) <= 40


def test_the_sentences_say_what_the_model_says(demo):
    sentences = briefing(*demo)
    now, best = (survival_by_hand(np.asarray(policy())) for policy in (icu_sepsis.current, icu_sepsis.proposed))
    assert f"{100 * now:.1f} of 100 patients" in sentences[0]
    assert f"{100 * best:.1f} under the best" in sentences[0]
    survive = [100 * survival_by_hand(actions_of(plan)) for plan in demo[1] if plan.rules]
    assert f"With one rule {survive[0]:.1f} survive: " in sentences[2]
    assert f" {survive[-1]:.1f} survive: " in sentences[3]


def test_every_plan_is_worth_what_it_says_when_evaluated_again(demo):
    for plan in demo[1]:
        again = evaluate(icu_sepsis.world(), plan.policy).outcomes
        assert plan.expected_return == pytest.approx(survival_by_hand(actions_of(plan)), abs=1e-9)
        for name, interval in plan.outcomes.items():
            assert interval.estimate == pytest.approx(again[name].estimate, abs=1e-9)


def test_a_plan_is_its_few_rules_and_nothing_else(demo):
    world, data = icu_sepsis.world(), sepsis_data()
    for plan in demo[1]:
        assert len(plan.rules) <= 2
        assert all(len(listed.rule.conditions) <= 2 for listed in plan.rules)
        expected = np.array(icu_sepsis.current())
        open_states = ~world.absorbing
        for listed in plan.rules:
            component, _, level = listed.move.partition(" to ")
            fluid, pressor = np.divmod(icu_sepsis.current(), 5)
            target = 5 * int(level) + pressor if component == "fluid" else 5 * fluid + int(level)
            possible = data.admissible[np.arange(716), target]
            acts = listed.rule.covers(world.features) & possible & open_states
            expected[acts] = target[acts]
            open_states &= ~acts
        assert np.array_equal(actions_of(plan)[~world.absorbing], expected[~world.absorbing])


def test_swaps_are_told_as_directions_with_the_curve_of_rules_against_f1_beside(demo):
    explanation, _ = demo
    assert explanation.regions
    assert all(region.direction is not None for region in explanation.regions)
    scores = {point.rules: point.f1 for point in explanation.tradeoff}
    assert list(scores.values()) == sorted(scores.values())
    assert scores[6] > 0.64  # of five rules with 30 conditions, before a rule had at most four
    assert all(len(region.rule.conditions) <= 4 for region in explanation.regions)
    assert sum(point.chosen for point in explanation.tradeoff) == 1
    text = spoken("icu-sepsis", *demo)
    assert f"{explanation.tradeoff[-1].f1:.2f}" in text


def test_shares_of_directions_are_counted_over_changed_decisions():
    shares = direction_shares()
    assert sum(shares.values()) == pytest.approx(1.0)
    assert set(shares) == {"more fluid", "less fluid", "more vasopressor", "less vasopressor"}
    assert list(shares.values()) == sorted(shares.values(), reverse=True)


def test_fragility_is_a_share_of_what_was_given_and_a_range_around_the_gain(demo):
    _, frontier = demo
    plan = frontier.best
    low, high = gain_if_off(plan)
    assert low < plan.expected_return - frontier[0].expected_return < high
    changed = np.flatnonzero(actions_of(plan) != icu_sepsis.current())
    given = sepsis_data().clinicians[changed, actions_of(plan)[changed]]
    assert given.min() <= share_given(plan) <= given.max()


def test_caveats_licence_and_source_are_in_the_text_and_on_the_page(demo):
    text = spoken("icu-sepsis", *demo)
    for line in (*icu_sepsis.CAVEATS, icu_sepsis.SOURCE):
        assert line in text
        assert line in demo[0].warnings
    assert "MIT licence" in icu_sepsis.SOURCE
    assert "MIMIC-III" in icu_sepsis.SOURCE


def test_rules_are_read_with_their_units():
    from polidiff.records.rule import Condition, Rule

    rule = Rule((Condition("mechanically ventilated", 0, low=0.4), Condition("mean BP", 1, high=-0.3)))
    assert rule_words(rule) == "the share mechanically ventilated is at least 40 % and mean BP is below −0.3 SD"
