import numpy as np
import pytest
from scipy import stats

from polidiff.evaluation.assumptions import log_checks
from polidiff.evaluation.assumptions.history import REJECTED, Deepened, Strata, transitions_of
from polidiff.evaluation.assumptions.log_checks import (
    correlation_within,
    cut_check,
    drift_check,
    history_check,
    independence_check,
    overlap_check,
    people_drift_check,
    propensity_check,
    rare_event_check,
    status_of,
)
from polidiff.records.codec import decode, encode
from polidiff.records.outcome import Assumption
from polidiff.worlds.log_rows import LoggedRows


def bandit(n=400, seed=0, *, late=0.0, people=None, stated=0.5, taken=0.5):
    rng = np.random.default_rng(seed)
    state, action = rng.integers(0, 3, n), (rng.random(n) < taken).astype(int)
    gains = rng.normal(size=n) + late * action * (np.arange(n) >= n // 2)
    if people is not None:
        gains += rng.normal(0, 1.0, n // people + 1)[np.arange(n) // people]
    return LoggedRows(state, action, np.arange(n), np.full(n, -1), gains[:, None],
                      np.where(action == 1, stated, 1 - stated))  # fmt: skip


def drift(rows):
    return drift_check(transitions_of(rows))


def independence(rows):
    return independence_check(rows, transitions=transitions_of(rows))


def alarms(check, **options):
    return np.mean([check(bandit(seed=seed, **options)).alarming for seed in range(60)])


@pytest.mark.parametrize("check", [drift, independence, propensity_check, cut_check])
def test_clean_logs_alarm_in_at_most_one_of_sixty(check):
    assert alarms(check) <= 1 / 60


def test_what_is_broken_is_seen():
    assert alarms(drift, late=1.5) > 0.95
    assert alarms(independence, people=20) > 0.95
    assert alarms(propensity_check, taken=0.7) > 0.95


def test_long_stays_in_a_state_are_no_sign_of_drift_or_of_people():
    rng = np.random.default_rng(8)
    alarms = []
    for _ in range(60):  # each episode stays in one of forty states until it leaves
        stays = rng.geometric(0.25, 200)
        last = np.cumsum(stays) - 1
        follow = np.arange(stays.sum()) + 1
        follow[last] = -1
        state, n = np.repeat(rng.integers(0, 40, 200), stays), len(follow)
        rows = LoggedRows(state, np.zeros(n, dtype=int), np.repeat(np.arange(200), stays), follow,
                          np.where(follow < 0, 1.0, 0.0)[:, None], None)  # fmt: skip
        alarms.append(drift(rows).alarming or independence(rows).alarming)
    assert np.mean(alarms) <= 1 / 60


def test_probabilities_that_vary_within_a_state_are_held_against_what_was_done():
    rng = np.random.default_rng(3)
    chance = rng.choice([0.1, 0.5, 0.9], 3000)
    action = (rng.random(3000) < chance).astype(int)
    taken = np.where(action == 1, chance, 1 - chance)
    rows = LoggedRows(np.zeros(3000, dtype=int), action, np.arange(3000), np.full(3000, -1), np.zeros((3000, 1)), taken)
    assert propensity_check(rows).status == "held"
    wrong = LoggedRows(rows.states, action, rows.episode, rows.follow, rows.gains, np.full(3000, 0.4))
    assert propensity_check(wrong).status == "failed"


def test_recorded_probabilities_are_checked_in_thirds_of_features():
    rng = np.random.default_rng(4)
    x = rng.normal(size=(2000, 2))
    chance = np.where(x[:, 0] > 0, 0.7, 0.3)
    action = (rng.random(2000) < chance).astype(int)
    right = np.where(action == 1, chance, 1 - chance)
    follow, gains = np.full(2000, -1), np.zeros((2000, 1))
    assert propensity_check(LoggedRows(x, action, np.arange(2000), follow, gains, right)).status == "held"
    assert propensity_check(LoggedRows(x, action, np.arange(2000), follow, gains, right * 0 + 0.5)).status == "failed"


def test_units_have_a_correlation_of_their_own():
    rng = np.random.default_rng(5)
    unit = np.repeat(np.arange(200), 10)
    values = rng.normal(size=200)[unit] + rng.normal(size=2000)  # half of the variance lies between units
    assert correlation_within(unit, values) == pytest.approx(0.5, abs=0.08)
    assert correlation_within(np.arange(50), rng.normal(size=50)) == 0.0
    found = independence_check(bandit(people=20), np.arange(400) // 20)
    assert "20 units with 20 decisions each" in found.detail
    assert (found.status, found.p_value) == ("held", None)  # people who are alike in themselves are no fault


def test_people_who_differ_are_no_drift_but_late_people_who_differ_are():
    people = np.arange(400) // 10
    assert people_drift_check(bandit(people=10), people).status == "held"
    late = people_drift_check(bandit(late=4.0), people)
    assert (late.status, late.tested) == (
        "failed",
        "outcomes of people who come early and late in the log (Welch's test)",
    )
    few = people_drift_check(bandit(late=4.0), np.arange(400) // 100)
    assert (few.status, few.detail) == ("not testable", "only 4 people")


def test_cut_episodes_are_counted_and_placed():
    state = np.tile([0, 1], 200)
    follow = np.where(np.arange(400) % 2 == 0, np.arange(400) + 1, -1)
    follow[np.flatnonzero(state == 1)[:60]] = -2
    rows = LoggedRows(state, np.zeros(400, dtype=int), np.arange(400) // 2, follow, np.zeros((400, 1)), None)
    found = cut_check(rows, ("well", "ill"))
    assert found.status == "doubtful"
    assert found.detail == "30 % of the episodes are cut, most in 'ill': after 30 % of its decisions, elsewhere 0 %"


def test_a_test_that_would_miss_a_strong_dependence_has_not_held():
    assert drift(bandit(400)).status == "held"
    assert "would miss even a strong dependence in" in (short := drift(bandit(42))).detail
    assert short.status == "not testable"
    strong = np.random.default_rng(0)  # what is called strong is seen about as often as said
    seen, said = [], []
    for _ in range(200):
        half = strong.integers(0, 2, 60)
        other = np.where(strong.random(60) < 0.75, half, 1 - half)
        test = Strata.of(np.zeros(60, dtype=int), other).tests(half)[0]
        seen.append(test.p_value < REJECTED)
        said.append(test.power)
    assert np.mean(seen) == pytest.approx(np.mean(said), abs=0.1)


def test_a_rejected_history_says_what_was_done_about_it():
    rows = bandit()
    assert history_check(Deepened(rows, np.arange(3), (0.3,))).status == "held"
    mended = history_check(Deepened(rows, np.arange(3), (1e-6, 0.3)))
    assert (mended.status, mended.p_value) == ("failed", 1e-6)
    assert "the decision before as part of the state" in mended.consequence
    assert "verdicts are unknown" in history_check(Deepened(rows, np.arange(3), (1e-6,) * 4)).consequence


def test_a_loss_too_rare_to_be_seen_is_named():
    found = rare_event_check(0.1, 1 / 600, 450, (-100.0, 0.0))  # 3 in 450 of 0.75 decisions in an episode
    assert found.status == "doubtful"
    assert "fewer than 3 in 450 times" in found.detail
    assert found.detail.endswith("if that costs more than 20, the verdict turns")  # and nothing of any one person
    assert rare_event_check(0.1, 1 / 6000, 4500, (-100.0, 0.0)).status == "held"
    assert rare_event_check(0.1, 1 / 600, 450, None).status == "not testable"


def test_no_unseen_event_moves_a_mean_past_an_end_of_the_range():
    asked = {"edge": 0.012, "heaviest": 1 / 240, "taken": 221, "declared": (0.0, 1.0)}  # a loss of 0.96
    for usual, status in ((0.3, "held"), (0.7, "held"), (0.0, "doubtful"), (1.0, "doubtful"), (None, "doubtful")):
        found = rare_event_check(**asked, usual=usual)
        assert found.status == status  # 3 in 221 with an outcome of 1 where 0.3 is usual: 0.7 each, not 0.96
    assert rare_event_check(**asked, usual=0.3).consequence.endswith("none can cost more than 0.7.")


def test_overlap_has_three_words_and_tells_the_share_of_everyone():
    found = [overlap_check(np.array([share]), np.array([100.0])) for share in (0.0, 0.2, 0.8)]
    assert [check.status for check in found] == ["held", "doubtful", "failed"]
    groups = overlap_check(np.array([0.71, 1.0, 0.42]), np.array([600.0, 300.0, 300.0]))
    assert groups.detail.startswith("71 % of the proposed policy's episodes meet a decision that none of 600 shows")
    assert groups.detail.endswith("; in one group of starts 100 %")


def test_the_record_comes_back_from_json():
    found = drift(bandit())
    assert decode(Assumption, encode(found), where="assumption") == found
    assert [status_of(p) for p in (0.0005, 0.002, 0.5)] == ["failed", "doubtful", "held"]


def test_early_and_late_means_are_compared_as_scipy_does_also_where_one_side_is_constant():
    rng = np.random.default_rng(3)
    one, other = rng.normal(size=9), rng.normal(1.0, 3.0, size=14)
    expected = stats.ttest_ind(one, other, equal_var=False).pvalue
    assert log_checks._means_differ(one, other) == pytest.approx(expected, rel=1e-12)
    alike = 213_000.0 + rng.normal(size=6) * 1e-10  # scipy warns of lost digits here
    assert log_checks._means_differ(alike, 213_000.0 + other) == pytest.approx(
        stats.ttest_1samp(other, 0.0).pvalue, rel=1e-6
    )
