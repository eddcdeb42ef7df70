"""How much `improve` plays in a simulator: counted in decisions, whatever an episode lasts."""

from typing import Any

import numpy as np
import pytest

from polidiff import Simulator, improve
from polidiff.surrogates import simulator_cells


class Walk:
    """A vectorised walk; `luck` is the noise of the reward, `worth` what action 1 adds where x is above 0."""

    n_actions = 2

    def __init__(self, *, length: int, luck: float, worth: float) -> None:
        self.length, self.luck, self.worth, self.played = length, luck, worth, 0

    def reset(self, count: int, rng: np.random.Generator) -> Any:
        return np.stack([rng.uniform(-1, 1, count), np.zeros(count)], axis=1)

    def step(self, states: Any, actions: Any, rng: np.random.Generator) -> Any:
        self.played += len(states)
        paid = self.worth * actions * np.sign(states[:, 0]) + self.luck * rng.normal(size=len(states))
        after = np.stack([rng.uniform(-1, 1, len(states)), states[:, 1] + 1], axis=1)
        return after, paid, after[:, 1] >= self.length


def never(states: Any) -> Any:
    return np.zeros(len(states), dtype=np.int64)


def test_decisions_are_shared_out_before_they_are_played(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulator_cells, "MODEL_STEPS", 60_000)
    for length in (5, 400):
        model = Walk(length=length, luck=1.0, worth=0.0)
        improve(Simulator(model, feature_names=["x", "time"], horizon=length), never, max_rules=2)
        least = 15 * simulator_cells.TRIED * length  # every policy is played so often, however long that lasts
        assert model.played <= 2 * max(60_000, least)


def test_noise_is_not_told_as_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulator_cells, "MODEL_STEPS", 60_000)
    world = Simulator(Walk(length=5, luck=1.0, worth=0.0), feature_names=["x", "time"], horizon=5)
    for seed in range(3):
        frontier = improve(world, never, max_rules=1, seed=seed)
        if not any(plan.gain is not None and plan.gain.low > 0 for plan in frontier):
            assert frontier.best is frontier[0]
            assert frontier.warnings[0].startswith("The current policy stays")


def test_where_everything_is_frozen_that_is_said() -> None:
    world = Simulator(Walk(length=3, luck=0.0, worth=1.0), feature_names=["x", "time"], horizon=3)
    frontier = improve(world, never, max_rules=1, freeze="x >= -1")
    assert len(frontier) == 1
    assert "Every state that was met is frozen: nothing may change." in frontier.warnings


@pytest.mark.parametrize("length", [1, 6, 400])
def test_a_plan_is_found_in_short_and_in_long_episodes(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulator_cells, "MODEL_STEPS", 1_000_000)
    world = Simulator(Walk(length=length, luck=0.1, worth=1.0), feature_names=["x", "time"], horizon=length)
    best = improve(world, never, max_rules=1).best
    assert [rule.move for rule in best.rules] == ["action 1"]
    (cut,) = (condition.low for condition in best.rules[0].rule.conditions)
    assert best.gain is not None
    assert best.gain.contains(length * (1 - abs(cut)) / 2)  # x is even between −1 and 1


def test_a_time_limit_buys_fewer_decisions() -> None:
    model = Walk(length=200, luck=1.0, worth=1.0)
    frontier = improve(Simulator(model, feature_names=["x", "time"], horizon=200), never, max_rules=1, time_limit=0.5)
    assert frontier.best.expected_return >= frontier[0].expected_return
    assert model.played < 20_000_000
    assert any(warning.startswith("The time limit paid for ") for warning in frontier.warnings)


def test_more_time_than_is_needed_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten episodes of a model take as long as a thousand: their pace says nothing about many."""
    monkeypatch.setattr(simulator_cells, "MODEL_STEPS", 200_000)
    world = Simulator(Walk(length=1, luck=0.1, worth=1.0), feature_names=["x", "time"], horizon=1)
    plain, limited = (improve(world, never, max_rules=1, time_limit=limit) for limit in (None, 600))
    assert [plan.gain for plan in limited] == [plan.gain for plan in plain]
    assert limited.warnings == plain.warnings
