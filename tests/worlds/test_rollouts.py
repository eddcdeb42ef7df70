"""Playing episodes: common luck, recorded decisions, cuts, workers."""

from __future__ import annotations

import joblib
import numpy as np
import pytest

from polidiff import Outcome, Simulator, as_policy, evaluate, parallel
from polidiff.domains import chain, navigation
from polidiff.errors import InvalidOptionError, InvalidOutcomeError, InvalidWorldError
from polidiff.policies import table_policy
from polidiff.worlds.rollouts import roll_out


class Walk:
    """A walk on whole numbers that drifts with the action and ends beyond ± 5."""

    n_actions = 2

    def reset(self, count, rng):
        return rng.integers(-2, 3, size=(count, 1)).astype(float)

    def step(self, states, actions, rng):
        assert (np.abs(states) < 50).all(), "an episode went on after its end"
        jumps = np.where(rng.random(len(states)) < 0.5, 1.0, -1.0) + 0.5 * (2 * actions - 1)
        moved = states + jumps[:, None]
        return moved, -np.ones(len(states)), np.abs(moved[:, 0]) > 5, {"right": (jumps > 0).astype(float)}


def up(states):
    return np.ones(len(states), dtype=int)


def test_episodes_are_those_of_a_loop_by_hand():
    world = Simulator(Walk(), horizon=30, outcomes=[Outcome("right", "info:right")])
    played = roll_out(world, as_policy(up, n_actions=2), episodes=60, seed=(3,), record=True)
    model, states = Walk(), None
    states = model.reset(60, np.random.default_rng((3, 0, 0)))
    assert (played.starts == states).all()
    lengths, right, over = np.zeros(60, int), np.zeros(60), np.zeros(60, bool)
    for time in range(1, 31):
        rng = np.random.default_rng((3, 0, time))
        moved, _, ended, infos = model.step(states, up(states), rng)
        lengths[~over] += 1
        right[~over] += infos["right"][~over]
        states = np.where(over[:, None], states, moved)
        over |= ended
    assert (played.lengths == lengths).all()
    assert (played.totals == np.column_stack([-lengths, right])).all()
    assert (played.truncated == ~over).all()
    assert played.truncated_share == pytest.approx((~over).mean())


def test_recorded_decisions_come_in_order_of_episode_and_step():
    world = Simulator(Walk(), horizon=20)
    played = roll_out(world, as_policy(up, n_actions=2), episodes=50, seed=(1,), record=True)
    visits = played.visits
    assert len(visits.episode) == played.lengths.sum()
    assert (np.bincount(visits.episode, minlength=50) == played.lengths).all()
    assert (visits.states[visits.step == 0] == played.starts).all()
    order = np.lexsort((visits.step, visits.episode))
    assert (order == np.arange(len(order))).all()


def test_policies_that_act_alike_live_through_the_same_luck():
    world = Simulator(Walk(), horizon=200)
    other = as_policy(lambda X: np.where(X[:, 0] > 4, 0, 1), n_actions=2)
    one, two = (roll_out(world, p, episodes=300, seed=(7,), record=True) for p in (as_policy(up, n_actions=2), other))
    assert (one.starts == two.starts).all()
    never_differed = np.ones(300, dtype=bool)
    never_differed[two.visits.episode[two.visits.actions == 0]] = False
    assert 20 < never_differed.sum() < 300
    assert (one.totals[never_differed] == two.totals[never_differed]).all()


def test_the_same_seed_gives_the_same_bytes_on_any_number_of_workers(monkeypatch):
    monkeypatch.setattr(parallel, "SMALL_JOB", -1.0)
    world = navigation.world()
    policy = as_policy(navigation.current, n_actions=3)
    alone = roll_out(world, policy, episodes=20_000, seed=(5,), record=True)
    with joblib.parallel_config(backend="threading", n_jobs=2):
        together = roll_out(world, policy, episodes=20_000, seed=(5,), record=True)
    assert alone.totals.tobytes() == together.totals.tobytes()
    assert alone.visits.states.tobytes() == together.visits.states.tobytes()
    other = roll_out(world, policy, episodes=20_000, seed=(6,))
    assert alone.starts.tobytes() != other.starts.tobytes()


def test_chunks_do_not_repeat_each_other():
    played = roll_out(navigation.world(), as_policy(navigation.current, n_actions=3), episodes=16_384, seed=(0,))
    assert len(np.unique(played.starts, axis=0)) == 16_384


def test_given_starts_of_a_table_are_used():
    starts = np.array([5, 0, 10])
    played = roll_out(chain.world(), table_policy(chain.current()), episodes=1, seed=(0,), starts=starts)
    assert (played.starts == starts).all()
    assert played.totals[:, 0].tolist() == [4, 8, 1]


def test_a_model_that_moves_its_states_in_place_is_recorded_rightly():
    class InPlace(navigation.NavigationModel):
        def step(self, states, actions, rng):
            moved, rewards, over = super().step(states, actions, rng)
            states[:] = moved
            return states, rewards, over

    policy = as_policy(navigation.current, n_actions=3)
    one, other = (
        roll_out(Simulator(model), policy, episodes=40, seed=(2,), record=True)
        for model in (navigation.NavigationModel(), InPlace())
    )
    assert (one.starts == other.starts).all()
    assert (one.visits.states == other.visits.states).all()
    assert (one.totals == other.totals).all()


def test_the_horizon_cuts_and_the_share_is_told():
    told = evaluate(navigation.world(), navigation.current, horizon=5, episodes=2_000)
    assert told.truncated == 1.0
    assert told.details["mean length"] == 5.0
    assert told.outcomes["collected reward"].estimate == pytest.approx(-0.005)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda s: s, "must return next states, rewards and terminated flags"),
        (lambda s: (s, np.zeros(len(s))), "must return next states, rewards and terminated flags"),
        (lambda s: (s[:-1], np.zeros(len(s)), np.zeros(len(s), bool)), r"their lengths are \[9, 10, 10\]"),
        (lambda s: (s, 0.0, np.zeros(len(s), bool)), r"their lengths are \[10, 'none', 10\]"),
    ],
)
def test_models_that_return_something_else_are_refused(answer, message):
    class Odd(Walk):
        def step(self, states, actions, rng):
            return answer(states)

    with pytest.raises(InvalidWorldError, match=message):
        evaluate(Simulator(Odd()), up, episodes=10)


def test_a_reset_of_the_wrong_length_is_refused():
    class Short(Walk):
        def reset(self, count, rng):
            return np.zeros((count - 1, 1))

    with pytest.raises(InvalidWorldError, match=r"reset\(1, rng\) must return 1 state; got 0"):
        evaluate(Simulator(Short()), up, episodes=10)


def test_rewards_that_are_no_numbers_are_refused():
    class Broken(Walk):
        def step(self, states, actions, rng):
            moved, rewards, over, _ = super().step(states, actions, rng)
            return moved, np.where(np.arange(len(states)) == 3, np.nan, rewards), over

    with pytest.raises(
        InvalidOutcomeError, match=r"outcome 'return' must be finite, within ±1e\+100; over episode 3 it sums to nan"
    ):
        evaluate(Simulator(Broken()), up, episodes=10)


@pytest.mark.parametrize(
    ("of", "message"),
    [
        ("info:left", r"outcome 'x' reads 'info:left'; the world offers \['right'\]"),
        (lambda s, a, n: np.ones(77), "must return one number per decision; for 10 decisions"),
    ],
)
def test_outcomes_that_the_model_does_not_have(of, message):
    with pytest.raises(InvalidOutcomeError, match=message):
        evaluate(Simulator(Walk(), outcomes=[Outcome("x", of)]), up, episodes=10)


def test_outcomes_as_functions_tables_and_constants():
    of = {
        "function": lambda states, actions, nexts: (nexts > states)[:, 0],
        "info": "info:right",
        "constant": 1.0,
    }
    world = Simulator(Walk(), horizon=50, outcomes=[Outcome(name, what) for name, what in of.items()])
    told = evaluate(world, up, episodes=500)
    assert told.outcomes["function"] == told.outcomes["info"]
    assert told.outcomes["constant"].estimate == -told.outcomes["return"].estimate == told.details["mean length"]


def test_features_are_what_rules_speak_about():
    world = Simulator(
        Walk(), features=lambda X: np.column_stack([X[:, 0], X[:, 0] ** 2]), feature_names=["x", "square"]
    )
    assert world.features_of(np.array([[3.0]])).tolist() == [[3.0, 9.0]]
    assert world.feature_names == ("x", "square")
    assert Simulator(Walk()).feature_names == ("x0",)
    assert Simulator(Walk()).features_of(np.zeros((0, 1))).shape == (0, 1)
    with pytest.raises(InvalidWorldError, match=r"expected 1 features \['x'\]; the features have 2 columns"):
        Simulator(Walk(), features=lambda X: np.repeat(X, 2, axis=1), feature_names=["x"]).features_of(np.zeros((2, 1)))
    with pytest.raises(InvalidWorldError, match=r"must map 2 observations to \(2, d\); it gave shape \(2,\)"):
        Simulator(Walk(), features=lambda X: X[:, 0]).features_of(np.zeros((2, 1)))


@pytest.mark.parametrize("horizon", [0, -3, 2.5, True])
def test_a_horizon_is_a_whole_number_of_at_least_one(horizon):
    with pytest.raises(InvalidOptionError, match="horizon must be a whole number of at least 1"):
        Simulator(Walk(), horizon=horizon)
