"""Rule plans from feature rows: known best segments are found, promises hold, what is frozen never changes."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from polidiff import Log, Outcome, evaluate, improve
from polidiff.domains import navigation
from polidiff.errors import InfeasibleError, InvalidLogError, InvalidOptionError
from polidiff.frontier.rule_plans import Move
from polidiff.policies import as_policy
from polidiff.progress import listening
from polidiff.records.numbers import counted, number
from polidiff.records.parse import parse_rules
from polidiff.records.rule import Condition, Rule, covers_any
from polidiff.rules.lists import Kinds, without, without_any

from ...logs.test_explain_and_improve import navigation_log

OFFERS = ["none", "coupon", "premium"]
STATE = ["age", "spend", "visits", "region"]


def people(count, rng):
    """Feature rows; nothing but age and spend matters."""
    table = np.empty((count, 4), dtype=object)
    table[:, 0] = rng.integers(18, 80, count).astype(float)
    table[:, 1] = np.round(rng.gamma(2, 40, count), 2)
    table[:, 2] = rng.poisson(3, count).astype(float)
    table[:, 3] = rng.choice(["north", "south", "west"], count)
    return table


def conversion(table):
    """(n, 3) the true chance that each offer converts."""
    young, rich = table[:, 0] < 40, table[:, 1] >= 100
    chance = np.full((len(table), 3), 0.3)
    chance[:, 1] += np.where(young, 0.25, -0.06)
    chance[:, 2] += np.where(rich, 0.25, -0.06)
    return chance


def offers_frame(count, seed, policy=None):
    rng = np.random.default_rng(seed)
    table = people(count, rng)
    action = rng.integers(0, 3, count)
    if policy is not None:
        action = np.where(rng.random(count) < 0.5, policy(table), action)
    converted = rng.random(count) < conversion(table)[np.arange(count), action]
    frame = pl.DataFrame({name: table[:, j].tolist() for j, name in enumerate(STATE)})
    return frame.with_columns(
        offer=pl.Series(np.array(OFFERS)[action]),
        converted=pl.Series(converted.astype(int)),
        cost=pl.Series(action * 5),
    )


def offers_log(frame, state=STATE, **options):
    cost = Outcome("cost", "cost", prefer="less", range=(0, 10))
    return Log(
        frame, state=state, action="offer", reward="converted", return_range=(0, 1), actions=OFFERS, outcomes=[cost],
        **options,
    )  # fmt: skip


POPULATION = people(200_000, np.random.default_rng(99))


def at_random(rows):
    return np.full((len(rows), 3), 1 / 3)


def true_gain(plan):
    """Against offers drawn at random; where no edit speaks, a plan does that too."""
    chance = conversion(POPULATION)
    proposed = np.full(len(POPULATION), -1)
    for edit in plan.patch.edits:
        proposed[(proposed < 0) & edit.rule.covers(POPULATION)] = edit.proposed
    taken = chance[np.arange(len(chance)), np.maximum(proposed, 0)]
    return float(np.where(proposed < 0, 0.0, taken - chance.mean(axis=1)).mean())


@pytest.fixture(scope="module")
def frontier():
    return improve(offers_log(offers_frame(12_000, 0)), "log", max_rules=2)


def test_the_best_segments_are_found_and_the_promise_holds_the_truth(frontier):
    one, two = frontier.plans[1:]
    (rule,) = one.rules
    assert rule.move == "coupon"
    assert rule.rule.features == ("age",)
    assert rule.rule.conditions[0].high == pytest.approx(40, abs=1)
    assert {told.move for told in two.rules} == {"coupon", "premium"}
    best = {1: 0.36 * (0.71 * 0.187 + 0.29 * 0.083), 2: 0.36 * (0.71 * 0.187 + 0.29 * 0.083) + 0.64 * 0.29 * 0.187}
    for plan in (one, two):
        assert plan.gain.low <= true_gain(plan) <= plan.gain.high
        assert true_gain(plan) >= 0.9 * best[len(plan.rules)]


def test_what_is_told_is_over_the_users_features(frontier):
    assert frontier.unit == "rules"
    assert frontier.world.kind == "log"
    assert frontier[0].gain is None
    assert f"scores of {number(12_000)} decisions" in frontier.warnings[0]
    for plan in frontier.plans[1:]:
        assert all(edit.states is None for edit in plan.patch.edits)
        assert plan.patch.feature_names == tuple(STATE)
        assert not plan.proven
        assert plan.holds_up_to > 1
        assert plan.rests_on.startswith(f"Rests on {counted(12_000, 'decision')}; tested and held: ")
        assert "would no longer hold if" in plan.rests_on
        assert plan.gain.estimate == pytest.approx(plan.expected_return - frontier.current_return, abs=0.005)
        taken = plan.policy.probabilities(POPULATION[:2000])
        inside = np.any([told.rule.covers(POPULATION[:2000]) for told in plan.rules], axis=0)
        assert (taken[inside].max(axis=1) == 1).all()
        assert (taken[~inside].max(axis=1) < 1).all()


@pytest.mark.slow
def test_promises_hold_on_fresh_logs():
    held = []
    for seed in range(20, 26):
        for plan in improve(offers_log(offers_frame(2500, seed)), "log", max_rules=2).plans[1:]:
            held.append(plan.gain.low <= true_gain(plan) <= plan.gain.high)
            assert true_gain(plan) > 0
    assert np.mean(held) >= 0.9


@pytest.mark.parametrize(
    ("freeze", "mixed"),
    [
        ("age<35", False),
        ("spend>=100 and region=south or visits=2", False),
        (["age>=60", "30<=age<33"], False),
        ("spend>=100 and region=south or visits=2", True),
    ],
)
def test_frozen_rows_never_change(freeze, mixed):
    usual = lambda rows: np.where(np.asarray(rows)[:, 1].astype(float) > 60, 2, 0)  # noqa: E731
    log = offers_log(offers_frame(2000, 3, policy=usual))
    frozen = [r for text in ([freeze] if isinstance(freeze, str) else freeze) for r in parse_rules(text, STATE)]
    rows = np.asarray(log.rows.states)
    kept = covers_any(frozen, rows)
    for plan in improve(log, "log" if mixed else usual, max_rules=2, freeze=freeze).plans[1:]:
        after, before = plan.policy.probabilities(rows), plan.policy.base.probabilities(rows)
        np.testing.assert_array_equal(after[kept], before[kept])
        assert (after[~kept] != before[~kept]).any()


def test_a_missing_value_is_a_place_of_its_own():
    rng = np.random.default_rng(5)
    size = 4000
    lactate = np.where(rng.random(size) < 0.3, np.nan, rng.gamma(2, 1, size))
    act = rng.integers(0, 2, size)
    frame = pl.DataFrame(
        {
            "lactate": pl.Series(lactate, nan_to_null=True),
            "age": rng.integers(20, 90, size),
            "offer": act,
            "converted": (rng.random(size) < 0.4 + (2 * act - 1) * np.where(np.isnan(lactate), 0.3, -0.2)).astype(int),
        }
    )
    log = Log(frame, state=["lactate", "age"], action="offer", reward="converted", return_range=(0, 1))
    plan = improve(log, "log", max_rules=1, moves=[Move.action("action 1")]).best
    (told,) = plan.rules
    rows = np.column_stack([lactate, frame["age"].to_numpy()])
    np.testing.assert_array_equal(told.rule.covers(rows), np.isnan(lactate))
    assert told.move == "action 1"
    assert plan.gain.contains(0.3 * 0.3)
    kept = improve(log, "log", max_rules=1, freeze="lactate is missing")
    for plan in kept.plans[1:]:
        assert not covers_any([edit.rule for edit in plan.patch.edits], rows)[np.isnan(lactate)].any()


def test_a_plan_keeps_guard_and_budget_or_says_that_it_is_not_shown():
    log = offers_log(offers_frame(3000, 7))
    free, guarded, small = (
        improve(log, at_random, max_rules=1, **limits).plans[1]
        for limits in ({}, {"keep": "cost<=current-0.5"}, {"budget": 0.05})
    )
    assert free.changes > 0.2
    assert small.changes <= 0.05
    assert guarded.outcomes["cost"].estimate < 4.8 < free.outcomes["cost"].estimate
    frame = offers_frame(3000, 7).with_columns(complaint=pl.Series(np.random.default_rng(4).integers(0, 2, 3000)))
    noise = Outcome("complaint", "complaint", prefer="less", range=(0, 1))
    log = Log(frame, state=STATE, action="offer", reward="converted", return_range=(0, 1), outcomes=[noise])
    plan = improve(log, "log", max_rules=1, keep="complaint<=current+0.02").plans[1]
    assert any("not shown to keep complaint<=current+0.02:" in text for text in plan.warnings)
    strict = improve(log, "log", max_rules=1, keep="complaint<=current")
    assert plan.outcomes["complaint"].estimate > strict.plans[0].outcomes["complaint"].estimate
    assert len(strict) == 1
    assert any(text.startswith("1 of 1 plans break what is to be kept") for text in strict.warnings)


def test_a_plan_that_breaks_a_guard_as_it_is_judged_is_left_out_or_refused():
    log = offers_log(offers_frame(400, 3))
    now, judged = (plan.outcomes["return"].estimate for plan in improve(log, at_random, max_rules=1).plans)
    assert now < 0.345 < judged < now + 0.05  # those that choose promise more than is judged
    kept = improve(log, at_random, max_rules=1, keep="return>=0.345")
    assert kept.plans[1].outcomes["return"].estimate >= 0.345
    assert any("current policy itself breaks what is to be kept" in text for text in kept.warnings)
    with pytest.raises(InfeasibleError, match=rf"on data that did not choose it; the best found is {judged:.6g} for"):
        improve(log, at_random, max_rules=1, keep="return>=current+0.05")


def test_a_column_of_many_words_is_grouped_and_what_is_lost_is_said():
    rng = np.random.default_rng(2)
    count = 3000
    city = np.where(rng.random(count) < 0.3, "big", [f"town {k}" for k in rng.integers(0, 200, count)])
    act = rng.integers(0, 2, count)
    worth = np.where(city == "big", 0.3, -0.3) * act
    frame = pl.DataFrame({"city": city, "age": rng.integers(18, 80, count), "offer": act, "converted": worth + 0.5})
    log = Log(frame, state=["city", "age"], action="offer", reward="converted")
    frontier = improve(log, "log", max_rules=1, moves=[Move.action("action 1")])
    assert [c.values for c in frontier.best.rules[0].rule.conditions] == [("big",)]
    assert any("'city' has 201 levels: rules name only the 12 commonest" in text for text in frontier.warnings)


def test_no_plan_is_shown_to_gain_where_nothing_can_be_gained():
    rng = np.random.default_rng(4)
    frame = offers_frame(1500, 0).with_columns(converted=pl.Series(rng.integers(0, 2, 1500)))
    frontier = improve(offers_log(frame), "log", max_rules=2)
    assert frontier.best is frontier[0]
    assert all("not shown to improve" in plan.warnings[0] for plan in frontier.plans[1:])


@pytest.mark.slow
def test_a_plan_from_a_navigation_log_promises_what_the_world_gives():
    plans = improve(navigation_log(1000, 0.3), navigation.current, max_rules=1, moves=[Move.action("east")])
    world = navigation.table()

    def value(policy):
        table = as_policy(policy, n_actions=3).probabilities(world.features)
        return evaluate(world, table).outcomes["collected reward"].estimate

    assert len(plans) > 1
    for plan in plans.plans[1:]:
        gain = value(plan.policy) - value(navigation.current)
        assert plan.gain.low <= gain <= plan.gain.high


def test_bad_input_is_told_in_one_line():
    frame = offers_frame(400, 0)
    log = offers_log(frame)
    dated = frame.with_columns(day=pl.date_range(pl.date(2024, 1, 1), pl.date(2025, 2, 3), eager=True))
    cases = [
        (log, {"moves": "levels"}, InvalidOptionError, "prescribe actions"),
        (log, {"moves": [Move.keep(), Move.level("dose", 1)]}, InvalidOptionError, "prescribe actions"),
        (log, {"pessimism": 1.0}, InvalidOptionError, "pessimism does not go with max_rules"),
        (log, {"freeze": np.ones(4, dtype=bool)}, InvalidOptionError, "freeze must be conditions on features"),
        (log, {"min_support": 2.5}, InvalidOptionError, "min_support must be"),
        (offers_log(frame[:30]), {}, InvalidOptionError, "at least 40 decisions"),
        (log, {"time_limit": 0.0}, InvalidOptionError, "time_limit must be None or seconds"),
        (log, {"max_literals": -1}, InvalidOptionError, "max_literals must be a whole number of at least 0"),
        (log, {"keep": "cost<=-1"}, InfeasibleError, r"keeps cost<=-1; the best found is -?[\d.e-]+ for 'cost'"),
        (offers_log(dated, ["age", "day"]), {}, InvalidLogError, "'day' holds date"),
    ]
    for given, options, error, message in cases:
        with pytest.raises(error, match=message) as caught:
            improve(given, "log", max_rules=1, **options)
        assert "\n" not in str(caught.value)


def test_rules_have_no_more_comparisons_than_asked_for():
    log = offers_log(offers_frame(400, 0))
    shown = [improve(log, "log", max_rules=2, max_literals=most).plans[-1] for most in (None, 1, 20)]
    assert shown[1].literals == 1 < shown[0].literals <= 20
    assert [(r.rule, r.move) for r in shown[2].rules] == [(r.rule, r.move) for r in shown[0].rules]


def test_a_time_limit_ends_the_search_and_is_told():
    plans = improve(offers_log(offers_frame(400, 0)), "log", max_rules=3, time_limit=1e-6)
    assert any("time limit" in warning for warning in plans.warnings)
    assert max(len(plan.rules) for plan in plans) <= 1


def test_pessimism_with_rules_is_refused_for_discrete_states_too():
    frame = offers_frame(400, 0).with_columns(cell=pl.col("age") // 10).cast({"cell": pl.Int64})
    log = offers_log(frame.with_columns(decade=pl.col("cell")), "cell", features=["decade"])
    with pytest.raises(InvalidOptionError, match="pessimism does not go with max_rules"):
        improve(log, "log", max_rules=1, pessimism=1.0)


def test_the_search_and_the_proof_say_how_far_they_are():
    told = []
    with listening(lambda what, share, remark: told.append((what, share))):
        improve(offers_log(offers_frame(2000, 1)), at_random, max_rules=2)
    for what in ("rules chosen without the episodes that judge them",):
        shares = [share for name, share in told if name == what]
        assert shares == sorted(shares)
        assert shares[-1] == 1.0


@pytest.mark.parametrize("seed", range(30))
def test_a_rule_without_others_covers_exactly_what_is_left(seed):
    rng = np.random.default_rng(seed)
    rows = np.empty((400, 3), dtype=object)
    rows[:, 0] = [None if rng.random() < 0.2 else float(v) for v in rng.integers(0, 10, 400)]
    rows[:, 1] = rng.integers(0, 10, 400).astype(float)
    rows[:, 2] = [[*"abc", None][k] for k in rng.integers(0, 4, 400)]
    kinds = Kinds({2: ("a", "b", "c")}, frozenset({0, 2}))
    rule, *others = (some_rule(rng) for _ in range(4))
    pieces = without_any(rule, others, kinds)
    times = np.sum([piece.covers(rows) for piece in pieces], axis=0) if pieces else np.zeros(400)
    np.testing.assert_array_equal(times, (rule.covers(rows) & ~covers_any(others, rows)).astype(int))
    apart = Rule((Condition("y", 1, high=2.0),)), Rule((Condition("y", 1, low=5.0),))
    assert without(*apart, kinds) == [apart[0]]


def some_rule(rng):
    conditions = []
    for column, name in enumerate("xy"):
        if rng.random() < 0.7:
            low, high = np.sort(rng.choice(11, 2, replace=False))
            ends = [(float(low), float(high)), (-np.inf, float(high)), (float(low), np.inf)][rng.integers(0, 3)]
            conditions.append(Condition(name, column, *ends, missing=bool(column == 0 and rng.random() < 0.5)))
    if rng.random() < 0.2:
        conditions = [Condition("x", 0, values=(), missing=True)]
    if rng.random() < 0.5:
        values = tuple(w for w in "abc" if rng.random() < 0.5)
        conditions.append(Condition("z", 2, values=values, missing=bool(rng.random() < 0.5 or not values)))
    return Rule(tuple(conditions))


def test_a_plan_from_a_log_that_drifts_promises_no_more_than_either_half_says():
    rng, count = np.random.default_rng(3), 1200
    x, coupon = rng.uniform(size=count), rng.integers(0, 2, count)
    helps = np.where(np.arange(count) < count // 2, 0.6, -0.2)  # early coupons help, late ones harm
    spent = x + coupon * helps + rng.normal(0, 0.3, count)
    frame = pl.DataFrame({"x": x, "offer": np.where(coupon == 1, "coupon", "none"), "spent": spent})
    log = Log(frame, state=["x"], action="offer", reward="spent", probability=0.5)
    plan = improve(log, "log", max_rules=1).plans[1]
    assert plan.gain.low < -0.1 < 0.3 < plan.gain.high  # half of the decisions change: −0.1 late, +0.3 early
    assert any("of the log do not say the same" in warning for warning in plan.warnings)
    assert improve(log, "log", max_rules=1).best.patch.edits == ()
