"""Environments that take real numbers: told by what is done more or less, planned by levels."""

import numpy as np
import polars as pl
import pytest

from polidiff import Log, Simulator, evaluate, explain, improve
from polidiff.errors import InvalidOptionError, InvalidPolicyError, InvalidWorldError
from polidiff.surrogates import simulator_cells
from polidiff.worlds.real_actions import SignedBins

gymnasium = pytest.importorskip("gymnasium")


class Dosing(gymnasium.Env):
    """The level falls by the dose and rises by luck; it should stay at 5. Two substances do not touch each other."""

    observation_space = gymnasium.spaces.Box(0, 10, (2,))
    action_space = gymnasium.spaces.Box(0, 5, (2,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.level, self.time = self.np_random.uniform(0, 10, 2), 0
        return self.level.astype(np.float32), {}

    def step(self, action):
        assert self.action_space.contains(action)
        self.level = np.clip(self.level - 0.5 * action + self.np_random.normal(1, 0.3, 2), 0, 10)
        self.time += 1
        return self.level.astype(np.float32), -float(np.abs(self.level - 5).sum()), False, self.time >= 10, {}


def steady(states):
    return np.full((len(states), 2), 2.0)


def careful(states):
    return np.stack([np.clip(states[:, 0] - 3, 0, 9), np.full(len(states), 2.0)], axis=1)  # above 5 it is cut


WORLD = Simulator(Dosing, actions=["insulin", "salt"])


@pytest.fixture(autouse=True)
def few_decisions(monkeypatch):
    """As many as these plans need, which are a tenth of what is played for a user."""
    monkeypatch.setattr(simulator_cells, "STEPS", 80_000)


def test_a_policy_is_played_as_it_is():
    env, totals = Dosing(), []
    for seed in np.random.SeedSequence((3, 0)).generate_state(40):
        state, total, over = env.reset(seed=int(seed))[0], 0.0, False
        while not over:
            state, paid, _, over, _ = env.step(np.clip(careful(state[None])[0], 0, 5).astype(np.float32))
            total += paid
        totals.append(total)
    told = evaluate(WORLD, careful, episodes=40, seed=3).outcomes["return"]
    assert told.estimate == pytest.approx(np.mean(totals))


def test_the_difference_is_told_by_component_direction_and_size():
    told = explain(WORLD, steady, careful, max_steps=4_000)
    assert {region.current for region in told.regions} == {"as now"}
    assert all("salt" not in region.proposed for region in told.regions)
    (more,) = (region for region in told.regions if region.proposed.startswith("more insulin by "))
    assert more.rule.covers(np.array([[8.0, 3.0], [3.0, 3.0]])).tolist() == [True, False]
    assert told.quality.f1 > 0.95
    assert "count as none" in told.warnings[-1]


def test_nothing_is_said_of_small_differences_where_there_are_none():
    assert not any("count as none" in warning for warning in explain(WORLD, steady, steady, max_steps=1_000).warnings)


def test_levels_that_a_user_chooses():
    world = Simulator(Dosing, actions=[[0, 2], [2, 2], [4, 2]])
    told = explain(world, steady, careful, max_steps=4_000)
    assert {region.current for region in told.regions} == {"action 0 2, action 1 2"}
    assert "nearest of 3 levels" in told.warnings[-1]


def test_plans_choose_levels_or_a_candidate_and_gain_what_they_say():
    best = improve(WORLD, steady, [careful]).best
    exact = evaluate(WORLD, careful, episodes=500, seed=5).outcomes["return"]
    assert best.outcomes["return"].low <= exact.high
    assert best.outcomes["return"].high >= exact.low


@pytest.mark.parametrize("candidates", [None, [careful]])
def test_the_policy_of_a_plan_is_one_of_the_world(candidates):
    short = Simulator(Dosing, actions=["insulin", "salt"], horizon=3)
    frontier = improve(short, steady, candidates, max_rules=None if candidates else 1)
    states = np.random.default_rng(0).uniform(0, 10, (50, 2))
    assert np.array_equal(frontier[0].policy(states), steady(states)), "nothing is changed"
    best = frontier.best
    played = evaluate(short, best.policy, episodes=2_000, seed=7).outcomes["return"]
    judged = best.outcomes["return"]
    assert max(played.low, judged.low) <= min(played.high, judged.high)
    told = explain(short, steady, best.policy, max_steps=2_000)
    assert {region.current for region in told.regions} == {"as now"}
    with pytest.raises(InvalidOptionError, match="act like the current policy"):
        improve(short, best.policy, [best.policy])


def test_the_patch_of_a_plan_among_choices_is_refused_where_numbers_are_taken_with_the_policy_to_use():
    plan = improve(WORLD, steady, [careful]).plans[-1]
    for play in (
        lambda: evaluate(WORLD, plan.patch.apply(steady), episodes=2),
        lambda: explain(WORLD, steady, plan.patch),
    ):
        with pytest.raises(InvalidPolicyError, match=r"a patch acts among choices; plan\.policy.* gives the numbers"):
            play()
    assert evaluate(WORLD, plan.policy, episodes=2).outcomes


def test_plans_and_verdicts_take_policies_at_the_same_levels():
    world = Simulator(Dosing, actions=[[0, 2], [2, 2], [4, 2]], horizon=3)
    frontier = improve(world, careful, max_rules=1)
    value = evaluate(world, careful, episodes=2_000, seed=7).outcomes["return"]
    now = frontier[0].outcomes["return"]
    assert max(value.low, now.low) <= min(value.high, now.high)
    assert evaluate(world, frontier.best.policy, episodes=3).outcomes["return"].low < 0
    assert "nearest of 3 levels" in " ".join(frontier.warnings)


def test_sizes_are_cut_at_the_median_of_each_direction():
    rows = np.array([-4.0, -1.0, 0.0, 0.01, 2.0, 3.0, 4.0])[:, None]
    bins = SignedBins.of(rows, ["dose"])
    assert bins.names[0].startswith("less dose by ")
    assert bins.of_rows(np.zeros((2, 1))).tolist() == [0, 0]
    chosen = bins.of_rows(np.array([[3.5], [-1.2], [2.5]]))
    low, high = np.array(list(bins.bounds()))[chosen - 1, :, 0].T
    assert (low <= [3.5, -1.2, 2.5]).all()
    assert (high >= [3.5, -1.2, 2.5]).all()


def test_what_cannot_be_is_refused():
    with pytest.raises(InvalidWorldError, match="level 1 is"):
        Simulator(Dosing, actions=[[0, 0], [0, 9]])
    with pytest.raises(InvalidWorldError, match="1 names are given"):
        Simulator(Dosing, actions=["insulin"])
    with pytest.raises(InvalidPolicyError, match="takes 2 real numbers"):
        evaluate(WORLD, lambda states: np.zeros(len(states)), episodes=3)


def dosed(count=3000, seed=0):
    """Doses of 0 to 1 at random; each unit of it brings 2, and luck."""
    rng = np.random.default_rng(seed)
    x, dose = rng.normal(size=count), rng.random(count)
    paid = 2 * dose + rng.normal(0, 0.2, count)
    return pl.DataFrame({"x": x, "dose": dose, "paid": paid})


def one_step(rows, **options):
    return Log(rows, state=["x"], action="dose", reward="paid", **options)


def low(states):
    return np.full(len(states), 0.12)


def high_above_0(states):
    return np.where(states[:, 0] > 0, 0.88, 0.12)


def test_doses_of_a_log_are_its_nearest_levels():
    rows = dosed()
    log = one_step(rows, actions=[1.0, 0.0, 0.25])
    gaps = np.abs(rows["dose"].to_numpy()[:, None] - np.array([0.0, 0.25, 1.0]))
    assert [action.name for action in log.actions] == ["dose 0", "dose 0.25", "dose 1"]
    assert (log.rows.actions == gaps.argmin(axis=1)).all()
    fifths = one_step(rows).levels.ravel()
    assert fifths == pytest.approx([0.1, 0.3, 0.5, 0.7, 0.9], abs=0.03), "medians of fifths of even doses"


def test_policies_of_a_log_of_doses_give_doses():
    rows = dosed().with_columns(advised=pl.when(pl.col("x") > 0).then(0.88).otherwise(0.12))
    log, share = one_step(rows), float((rows["x"] > 0).mean())
    told = explain(log, low, high_above_0)
    assert told.verdicts[0].difference.contains(2 * 0.8 * share), "0.8 more for this share, 2 for each unit"
    assert told.verdicts[0].direction == "more"
    assert log.actions[-1].name in str(told)
    assert "taken at the nearest of 5 levels" in told.warnings[-1]
    advised = explain(log, low, "column:advised").verdicts[0].difference
    assert advised.estimate == pytest.approx(told.verdicts[0].difference.estimate), "a column of doses says the same"
    assert evaluate(log, low).outcomes["return"].contains(0.2)
    assert evaluate(log, "log").outcomes["return"].contains(1.0)


def test_plans_of_a_log_of_doses_prescribe_levels():
    for seed in range(3):
        rows = dosed(seed=seed)
        log, doses = one_step(rows), rows["dose"].to_numpy()
        best = improve(log, low, max_rules=1).best
        assert [rule.move for rule in best.rules] == [log.actions[-1].name]
        level = np.abs(doses[:, None] - log.levels.ravel()).argmin(axis=1)
        assert best.gain.contains(2 * (doses[level == 4].mean() - doses[level == 0].mean())), "2 for each unit of dose"
