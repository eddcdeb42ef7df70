"""The paper's continuous task: regions with the true bounds, one sentence, honest intervals."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from polidiff import explain
from polidiff.domains import navigation
from polidiff.explanation.quality import region_stability

STAY, REWARD = "stay in the desired region", "collected reward"


@pytest.fixture(scope="module")
def explanation():
    return explain(navigation.world(), navigation.current, navigation.proposed_2)


def box(region):
    bounds = {c.feature: (c.low, c.high) for c in region.rule.conditions}
    return bounds.get("x", (-math.inf, math.inf)), bounds.get("y", (-math.inf, math.inf))


def close(bound, low, high):
    return all(a == b if math.isinf(b) else abs(a - b) <= 0.01 for a, b in zip(bound, (low, high), strict=True))


def test_three_regions_with_the_true_bounds_and_open_where_nothing_is_seen(explanation):
    # x < 0 and y ≥ 0.4 are never visited, so those bounds are open
    expected = [
        ("east", "north", (-math.inf, 0.1), (0.2, 0.3)),
        ("south", "east", (0.1, 0.2), (0.3, math.inf)),
        ("south", "east", (0.5, 0.6), (0.3, math.inf)),
    ]
    assert len(explanation.regions) == 3
    for region, (current, proposed, x, y) in zip(explanation.regions, expected, strict=True):
        assert (region.current, region.proposed) == (current, proposed)
        assert close(box(region)[0], *x)
        assert close(box(region)[1], *y)


def test_one_sentence_follows_the_path_of_three_regions(explanation):
    (sentence,) = explanation.sentences
    assert sentence.start is None
    assert sentence.path == tuple(region.id for region in explanation.regions)
    assert sentence.path_share == 1.0


def test_less_stay_and_more_reward_within_the_interval(explanation):
    verdicts = {v.outcome: v for v in explanation.sentences[0].verdicts}
    assert (verdicts[STAY].direction, verdicts[STAY].valence) == ("less", "worse")
    assert (verdicts[REWARD].direction, verdicts[REWARD].valence) == ("more", "better")
    assert verdicts[STAY].difference.contains(1 - 9.5)
    assert verdicts[REWARD].difference.estimate == pytest.approx(21.9905 - 9.9895, abs=1e-3)


def test_the_other_proposal_differs_in_two_regions():
    told = explain(navigation.world(), navigation.current, navigation.proposed_1)
    assert [(r.current, r.proposed) for r in told.regions] == [("north", "east")] * 2
    assert close(box(told.regions[0])[0], -math.inf, 0.1)
    assert close(box(told.regions[0])[1], -math.inf, 0.1)
    assert close(box(told.regions[1])[0], 0.1, 0.2)
    assert close(box(told.regions[1])[1], 0.1, 0.2)


def test_quality_meets_the_bars(explanation):
    quality = explanation.quality
    assert quality.f1 >= 0.95
    assert all(share is not None and share >= 0.95 for share in quality.completeness.values())
    scores = {score.form: score for score in quality.forms}
    own = scores.pop("polidiff")
    assert all(own.action_accuracy >= other.action_accuracy for other in scores.values())
    assert all(own.direction_accuracy >= (other.direction_accuracy or 0) for other in scores.values())
    assert own.action_accuracy > scores["none"].action_accuracy


def test_regions_are_stable_over_seeds():
    told = [
        explain(navigation.world(), navigation.current, navigation.proposed_2, seed=s, starts=200) for s in range(8)
    ]
    grid = np.stack(np.meshgrid(np.linspace(0, 1, 101), np.linspace(0, 0.4, 41)), axis=-1).reshape(-1, 2)
    assert region_stability(told, grid, np.ones(len(grid))) >= 0.9


def test_the_same_seed_gives_the_same_record(explanation):
    again = explain(navigation.world(), navigation.current, navigation.proposed_2)
    assert again.to_dict() == explanation.to_dict()


def test_a_narrated_error_lowers_the_quality_figures():
    """The reader is examined on the truth, so swapping two verdicts must show."""
    from polidiff.explanation.forms import Exam, Reading, score
    from polidiff.records.explanation import Length

    world = navigation.world()
    truth = {REWARD: "more", STAY: "less"}
    exam = Exam(
        np.zeros((1, 2)),
        np.zeros(1, int),
        np.zeros(1, int),
        np.ones(1),
        np.zeros((1, 2)),
        np.ones(1),
        (truth,),
        world.outcomes,
    )
    length = Length(1, 1, 1, 1, 1)
    right = score("told", Reading(np.zeros(1, int), (truth,)), exam, length)
    swapped = score("told", Reading(np.zeros(1, int), ({REWARD: "less", STAY: "more"},)), exam, length)
    assert right.direction_accuracy == 1.0
    assert swapped.direction_accuracy == 0.0
    assert swapped.choice_accuracy < right.choice_accuracy


def test_a_wrong_region_lowers_f1(explanation):
    from polidiff.divergence import find_divergence
    from polidiff.options import ExplainOptions
    from polidiff.policies import as_policy
    from polidiff.regions import describe
    from polidiff.regions.describe import fidelity

    world = navigation.world()
    policies = [as_policy(p, n_actions=3) for p in (navigation.current, navigation.proposed_2)]
    found = find_divergence(world, *policies, ExplainOptions(starts=100))
    described = describe(found, world.actions, world.feature_names, has_features=True)
    labels = np.array([*(r.label for r in described.regions), 0])
    told = labels[described.region_of(found.features)]
    wrong = dataclasses.replace(described, regions=described.regions[1:])
    fewer = np.array([*(r.label for r in wrong.regions), 0])[wrong.region_of(found.features)]
    assert fidelity(fewer, found.label, found.judged).f1 < fidelity(told, found.label, found.judged).f1


def test_a_case_by_features_names_the_rule(explanation):
    case = explanation.case({"x": 0.05, "y": 0.25})
    assert (case.current, case.proposed) == ("east", "north")
    assert "because" in str(case)
    assert explanation.case([0.85, 0.25]).region is None


def test_the_papers_verdict_rule_gives_the_same_directions_here():
    told = explain(navigation.world(), navigation.current, navigation.proposed_2, style="paper")
    assert {v.outcome: v.direction for v in told.verdicts} == {REWARD: "more", STAY: "less"}
    assert "will lead to" in str(told)


def test_the_record_can_be_asked_about_actions_that_neither_policy_takes(explanation):
    """South in S1 goes down a step and comes back: two steps more than north, and one more in the desired region."""
    values = explanation.regions[0].action_values
    assert set(values[REWARD]) == {"east", "north", "south"}
    assert values[REWARD]["north"] - values[REWARD]["south"] == pytest.approx(0.002)
    assert values[STAY]["south"] - values[STAY]["north"] == pytest.approx(1.0)


def test_the_record_keeps_a_sample_of_states_with_their_share_of_visits(explanation):
    assert 0 < len(explanation.sample) <= 400
    assert sum(state.share for state in explanation.sample) == pytest.approx(1.0)
    for state in explanation.sample:
        point = np.array([state.values])
        assert navigation.ACTIONS[navigation.current(point)[0]] == state.current
        assert navigation.ACTIONS[navigation.proposed_2(point)[0]] == state.proposed
