"""What is said about rules that were counted in played episodes, and what a saved result answers."""

from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from polidiff import Simulator, TabularMDP, explain, load
from polidiff.explanation.text import quality_text, recovered_text
from polidiff.records.outcome import Outcome
from polidiff.report.tables import quality_table, regions_table


class Cards(gym.Env):
    """One decision over a hand and a card; 1 pays where the hand is low."""

    observation_space = spaces.MultiDiscrete([20, 10])
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.hand = self.np_random.integers([20, 10])
        return self.hand, {}

    def step(self, action):
        return self.hand, float(action == (self.hand[0] < 10)), True, False, {}


def never(seen):
    return np.zeros(len(seen), dtype=int)


def low_hands(seen):
    return ((seen[:, 0] < 8) & ~((seen[:, 0] == 5) & (seen[:, 1] == 3))).astype(int)


@pytest.fixture(scope="module")
def told():
    return explain(Simulator(Cards, horizon=1, feature_names=["hand", "card"]), never, low_hands, starts=60)


def test_rules_counted_in_episodes_carry_intervals_in_text_page_and_json(told, tmp_path):
    region = told.regions[0]
    precision, recall = region.intervals["precision"], region.intervals["recall"]
    assert precision.estimate == pytest.approx(region.precision)
    assert recall.estimate == pytest.approx(region.recall)
    assert precision.low < 0.95, "a dozen episodes show no more"
    shown = f"[{int(100 * precision.low)}–"
    assert f"right in {round(100 * region.precision)} % {shown}" in str(told)
    assert f"F1 {told.quality.f1:.2f} [{told.quality.intervals['f1'].low:.2f}–" in quality_text(told)
    assert "counted by episodes" in quality_text(told)
    assert shown in regions_table(told).rows[0][-2]
    assert any("–" in value for name, value in quality_table(told).rows if name == "F1")
    told.save(tmp_path / "told.json")
    again = load(tmp_path / "told.json")
    assert again.regions[0].intervals == region.intervals
    assert again.quality.intervals == told.quality.intervals


def test_a_table_is_weighed_exactly_and_has_no_interval():
    moves = np.zeros((2, 2, 2))
    moves[:, :, 1] = 1
    world = TabularMDP(moves, [[0, 1], [0, 0]], [1, 0], absorbing=[1], features=[[0], [1]], feature_names=["place"])
    told = explain(world, [0, 0], [1, 0])
    assert not told.quality.intervals
    assert not any(region.intervals for region in told.regions)
    assert "[" not in quality_text(told)


def test_states_that_name_themselves_do_not_claim_to_be_judged_by_others():
    class Places(Cards):
        observation_space = spaces.Discrete(20)

        def reset(self, *, seed=None, options=None):
            return int(super().reset(seed=seed)[0][0]), {}

        def step(self, action):
            return int(self.hand[0]), *super().step(action)[1:]

    told = explain(Simulator(Places, horizon=1), np.zeros(20, dtype=int), (np.arange(20) < 8).astype(int), starts=60)
    assert "on the visits that made the rules" in quality_text(told)
    assert not told.quality.intervals
    unmet = next(name for name in (f"s{k}" for k in range(40)) if all(name not in s.values for s in told.sample))
    assert "as far as the rules tell" in replace(told, context=None).case(unmet).text


def test_a_saved_result_and_a_live_one_answer_alike_where_a_state_was_met_and_doubt_where_it_was_not(told, tmp_path):
    told.save(tmp_path / "told.json")
    saved = load(tmp_path / "told.json")
    met = {sample.values for sample in told.sample}
    wrong = 0
    for hand in range(20):
        for card in range(10):
            case = {"hand": hand, "card": card}
            live, read = told.case(case), saved.case(case)
            assert live.proposed == f"action {int(hand < 8 and (hand, card) != (5, 3))}"
            if (float(hand), float(card)) in met:
                assert (read.current, read.proposed) == (live.current, live.proposed)
                assert read.text == live.text
            elif read.region is not None:
                assert f"the rule is right in {round(100 * told.regions[0].precision)} % [" in read.text
            else:
                assert "as far as the rules tell" in read.text
            if live.region is not None and live.current == live.proposed:
                wrong += 1
                assert f"although {live.region} tells" in live.text
    assert wrong, "the rule covers a hand and card that the policy leaves out"


@pytest.mark.parametrize(
    ("added", "verb"), [(-1.25, "lose: less return (by 1.25)"), (3.0, "bring: more return (by 3)")]
)
def test_a_patch_that_goes_another_way_is_not_said_to_recover(told, added, verb):
    quality = replace(told.quality, completeness={"return": -1.25}, patched={"return": added})
    broken = replace(told, quality=quality)
    gain = told.verdicts[0].difference.estimate
    assert gain > 0
    assert recovered_text(broken)[0].startswith(
        f"these rules alone {verb}, where the proposed policy brings more return"
    )
    assert "recovers" not in quality_text(broken)
    assert "−125" not in str(broken)
    assert dict(quality_table(broken).rows)["difference recovered: return"].startswith("nothing; the rules alone: ")


@pytest.mark.parametrize(
    ("name", "less"),
    [
        ("steps", "fewer steps"),
        ("steps in balance", "fewer steps in balance"),
        ("hours on pressors", "fewer hours on pressors"),
        ("people", "fewer people"),
        ("stay in the rooms", "less stay in the rooms"),
        ("loss", "less loss"),
        ("illness", "less illness"),
        ("costs", "less costs"),
        ("return", "less return"),
    ],
)
def test_what_is_counted_is_fewer(name, less):
    assert Outcome(name, 1.0).phrase("less") == less
    assert Outcome(name, 1.0).phrase("more") == f"more {name}"
