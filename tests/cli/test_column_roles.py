"""Which part every column plays, told by names and values."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from polidiff.cli.column_roles import propose
from tests.cli.tables import campaign, two_arms, ward_rows


def test_what_is_known_only_at_the_end_is_no_state():
    proposal = propose(ward_rows(ended=True), {"action": "drug", "reward": "score"})
    assert set(proposal.state) == {"pulse", "ward"}
    assert "at the end" in proposal.left_out["went_home"]


def pupils(n=400):
    """A trial of schools: two marks at the end, as they are named in public tables."""
    rng = np.random.default_rng(0)
    small = rng.integers(0, 2, n)
    return pl.DataFrame({"tmathssk": 480 + 10 * small + rng.normal(0, 30, n).round(), "classk": small,
                         "treadssk": 440 + 8 * small + rng.normal(0, 30, n).round(), "years": rng.integers(0, 20, n),
                         "schidkn": rng.integers(0, 80, n)})  # fmt: skip


def test_marks_are_the_outcome_and_those_of_the_same_day_and_schools_are_no_state():
    proposal = propose(pupils())
    assert proposal.roles == {"action": "classk", "reward": "tmathssk"}
    assert proposal.state == ("years",)


def test_a_measurement_at_twenty_weeks_comes_after_one_at_zero_but_features_that_are_counted_stay():
    rng = np.random.default_rng(1)
    measured = {name: rng.normal(size=300) for name in ("cd40", "cd420", "age")}
    frame = pl.DataFrame({"arm": rng.integers(0, 2, 300), **measured, "recovered": rng.integers(0, 2, 300)})
    assert propose(frame).state == ("cd40", "age")
    counted = {f"x{j}": rng.normal(size=300) for j in range(12)}
    frame = pl.DataFrame({"arm": rng.integers(0, 2, 300), **counted, "recovered": rng.integers(0, 2, 300)})
    assert propose(frame).state == tuple(counted)


def test_an_offer_that_was_taken_is_known_after_the_offer_was_made():
    rng = np.random.default_rng(2)
    offer, age = rng.integers(0, 2, 500), rng.integers(20, 80, 500)
    frame = pl.DataFrame({"offer": offer, "age": age, "profit": rng.normal(size=500),
                          "took_part": offer * rng.integers(0, 2, 500), "owner": rng.integers(0, 2, 500)})  # fmt: skip
    assert propose(frame).state == ("age", "owner")
    assert "tells the action in part" in propose(frame).left_out["took_part"]
    priced = frame.with_columns(earned_if_offered=pl.col("offer") * rng.gamma(2, 9, 500) * (pl.col("age") > 30))
    assert propose(priced).state == ("age", "owner"), "0 without an offer, as products of columns are"
    assert "earned_if_offered" in propose(priced.select("earned_if_offered", *frame.columns)).state


def renewals(n=1000):
    """Offers by lot, whether people renewed, and what an offer costs, which its kind alone tells."""
    rng = np.random.default_rng(1)
    arm = rng.choice(["none", "mail", "call"], n)
    cost = np.select([arm == "mail", arm == "call"], [1, 5], 0)
    columns = {"age": rng.integers(18, 80, n), "Treatment Arm": arm, "renewed?": rng.choice(["Yes", "No"], n)}
    return pl.DataFrame({**columns, "cost_after": cost})


@pytest.mark.parametrize("name", ["renewed?", "came back"])
def test_what_the_action_alone_tells_is_neither_outcome_nor_state(name):
    proposal = propose(renewals().rename({"renewed?": name}))
    assert (proposal.roles["reward"], proposal.state) == (name, ("age",))
    assert proposal.left_out == {"cost_after": "follows from the action"}


def test_constant_within_each_action_by_chance_is_no_copy():
    few = pl.DataFrame({"age": [30, 41, 52, 63], "arm": ["a", "b", "a", "b"], "cured": [1, 0, 1, 0]})
    assert propose(few).roles["reward"] == "cured", "of 4 rows in two pairs, 1 in 3 orders look like this"
    assert propose(pl.concat([few] * 10)).roles.get("reward") != "cured"


def test_of_several_outcomes_the_one_of_two_values_is_meant_and_no_other_event_is_state():
    rng = np.random.default_rng(3)
    offers = renewals().drop("cost_after").with_columns(spend=rng.gamma(2, 9, 1000), ordered=rng.integers(0, 2, 1000))
    proposal = propose(offers.select("age", "Treatment Arm", "spend", "renewed?", "ordered"))
    assert proposal.roles["reward"] == "renewed?"
    assert proposal.left_out["ordered"] == "looks as if it came after the decision"


def test_a_reward_that_the_action_tells_stands_where_episodes_go_on():
    rows = ward_rows(ended=True)
    named = propose(rows)
    assert "episode" in named.roles
    paid = propose(rows.with_columns(reward=pl.col(named.roles["action"]).rank("dense").cast(pl.Float64)))
    assert paid.roles["reward"] == "reward"


@pytest.mark.parametrize(
    ("name", "values", "part"),
    [
        ("id", range(300), "names the row"),
        ("id", [k // 2 for k in range(300)], "group"),
        ("mrn", [7_000_000 + k * k * 37 % 2_000_003 for k in range(300)], "names the row"),
        ("Kundennummer", [k * 7919 % 100_003 for k in range(300)], "names the row"),
        ("Kundennummer", [k // 3 for k in range(300)], "group"),
        ("Nº do paciente", [100_000 + k * 7919 % 800_011 for k in range(300)], "names the row"),
        ("Nº do paciente", [k // 2 for k in range(300)], "group"),
        ("patient", [101_409 + k * k * 7919 % 897_157 for k in range(300)], "names the row"),
        ("number", range(500, 800), "names the row"),
        ("income", [20_000 + k * k * 37 % 30_011 for k in range(300)], "state"),
    ],
)
def test_an_identifier_is_a_person_or_left_out_with_a_word_and_a_measurement_stays(name, values, part):
    rng = np.random.default_rng(1)
    given = {"age": rng.integers(20, 80, 300), "treatment": rng.choice(["a", "b"], 300)}
    found = propose(pl.DataFrame({name: list(values), **given, "recovered": rng.integers(0, 2, 300)}))
    said = next((role for role, column in found.roles.items() if column == name), None)
    assert (said or found.left_out.get(name) or ("state" if name in found.state else None)) == part


def test_an_end_is_a_column_without_gaps_and_an_outcome_may_be_known_at_the_end_alone():
    rng = np.random.default_rng(4)
    last = np.arange(240) % 4 == 3
    alive = [int(rng.random() < 0.7) if end else None for end in last]
    frame = pl.DataFrame({"StayID": np.arange(240) // 4, "Day": np.arange(240) % 4, "MAP": rng.integers(50, 90, 240),
                          "Vasopressor": rng.choice(["yes", "no"], 240), "Discharged alive": alive,
                          "last_day": np.where(last, "Y", "N")})  # fmt: skip
    found = propose(frame)
    assert dict(found.roles) == {"action": "Vasopressor", "terminated": "last_day", "step": "Day",
                                 "episode": "StayID", "reward": "Discharged alive"}  # fmt: skip
    assert (found.state, found.prefer) == (("MAP",), "more")


def test_weeks_after_week_zero_come_after_the_decision_though_single_digits_count_them():
    rng = np.random.default_rng(1)
    measured = {name: rng.normal(size=300) for name in ("age", "sbp_week0", "sbp_week1", "sbp_week4", "x0", "x1", "x2")}
    frame = pl.DataFrame({"arm": rng.integers(0, 2, 300), **measured, "recovered": rng.integers(0, 2, 300)})
    assert propose(frame).state == ("age", "sbp_week0", "x0", "x1", "x2")


def test_a_postcode_is_known_before_and_an_item_is_an_action():
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({
        "postcode": [f"N{k}" for k in rng.integers(0, 20, 400)], "post_score": rng.normal(size=400),
        "item": [f"i{k}" for k in rng.integers(0, 5, 400)], "clicks": rng.integers(0, 2, 400),
    })  # fmt: skip
    proposal = propose(frame)
    assert (proposal.roles["action"], proposal.state) == ("item", ("postcode",))
    assert "after the decision" in proposal.left_out["post_score"]


def test_how_things_ended_in_several_words_is_an_outcome_if_one_of_them_tells():
    ends = np.array(["alive", "dead", "lost"])[np.r_[np.zeros(120, int), np.ones(50, int), np.full(30, 2)]]
    proposal = propose(two_arms(status=ends))
    assert (proposal.outcome_column, proposal.prefer, proposal.yes_or_no) == ("status = dead", "less", True)
    assert (
        "reward"
        not in propose(two_arms(status=np.char.replace(np.char.replace(ends, "dead", "b"), "alive", "a"))).roles
    )
    assert "reward" not in propose(two_arms(ward=ends)).roles


def test_a_column_that_may_tell_people_apart_is_said_how_to_use():
    frame = campaign()
    assert (
        propose(frame, {"action": "channel"}).left_out["cust"].endswith('as those of a person do, write group = "cust"')
    )
    once = frame.with_columns(cust=pl.format("C{}", pl.int_range(pl.len())))
    assert "group" not in propose(once, {"action": "channel"}).left_out["cust"]


def test_what_was_used_is_the_action_though_a_segment_is_named():
    rows = 300
    frame = pl.DataFrame({"Customer ID": [k % 60 for k in range(rows)], "Age": [20 + k % 47 for k in range(rows)],
                          "Segment": ["abc"[k % 3] for k in range(rows)], "Script used": ["new", "old"] * (rows // 2),
                          "Bought?": [(k // 7) % 2 for k in range(rows)]})  # fmt: skip
    assert propose(frame).roles["action"] == "Script used"


def drawn(**columns):
    """400 rows of a trial, with what else is in its table behind the arm."""
    rng = np.random.default_rng(0)
    before = {"age": rng.integers(20, 90, 400), "sbp": rng.normal(140, 20, 400), "smoker": rng.integers(0, 2, 400)}
    return pl.DataFrame({**before, "arm": rng.choice(["old", "new"], 400), **columns})


CHANCE = np.random.default_rng(1)


@pytest.mark.parametrize(
    ("columns", "outcome", "said"),
    [
        ({"futime": CHANCE.gamma(2, 300, 400), "fustat": CHANCE.integers(0, 2, 400)}, "fustat",
         {"futime": "looks as if it came after the decision"}),
        ({"week": CHANCE.integers(1, 53, 400), "arrest": CHANCE.integers(0, 2, 400)}, "arrest",
         {"week": "looks as if it came after the decision"}),
        ({"EVENT": CHANCE.integers(0, 4, 400), "CENSOR": CHANCE.integers(0, 2, 400)}, "EVENT",
         {"CENSOR": "looks as if it came after the decision"}),
        ({"hospital_expire_flag": CHANCE.integers(0, 2, 400), "los_days": CHANCE.gamma(2, 3, 400)},
         "hospital_expire_flag", {"los_days": "looks as if it came after the decision"}),
        ({"Entlassart": CHANCE.choice(["Haus", "Heim"], 400), "verstorben": CHANCE.integers(0, 2, 400)}, "verstorben",
         {"Entlassart": "looks as if it came after the decision"}),
        ({"seqn": [233.0 + k * 15 for k in range(400)], "cured": CHANCE.integers(0, 2, 400)}, "cured",
         {"seqn": "names the row"}),
        ({"zip": 10_000 + CHANCE.integers(0, 200, 400), "cured": CHANCE.integers(0, 2, 400)}, "cured",
         {"zip": "numbers places, which are no measurement"}),
        ({"wage": CHANCE.gamma(3, 10, 400), "white": CHANCE.integers(0, 2, 400)}, "wage", {}),
    ],
)  # fmt: skip
def test_columns_of_public_tables_play_the_part_that_their_descriptions_say(columns, outcome, said):
    proposal = propose(drawn(**columns))
    assert proposal.roles["reward"] == outcome
    assert {name: proposal.left_out.get(name) for name in said} == said


def test_without_a_name_the_outcome_is_what_differs_between_arms_even_of_two_columns():
    rng = np.random.default_rng(2)
    dose = np.repeat([0.5, 1.0, 2.0], 20)
    teeth = pl.DataFrame({"len": 10 + 8 * dose + rng.normal(0, 3, 60), "supp": ["OJ", "VC"] * 30, "dose": dose})
    assert propose(teeth).roles["reward"] == "len"
    trial = drawn(taken=rng.integers(20, 85, 400)).with_columns(
        final=pl.col("sbp") - 20 * (pl.col("arm") == "new"),
        charges=9000 - 4000 * (pl.col("arm") == "new") + pl.col("age"),
    )
    assert propose(trial).roles["reward"] == "final"
    assert "drawn by lot" in propose(trial).left_out["charges"]


def mailing(rows=1000):
    """A mailing by lot; whether the mail was opened, and calls that it brought, stand between it and the purchase."""
    rng = np.random.default_rng(5)
    mail = rng.integers(0, 2, rows)
    return pl.DataFrame({"age": rng.integers(20, 80, rows), "lab": rng.normal(size=rows), "mail": mail,
                         "opened": mail * rng.integers(0, 2, rows), "calls": rng.poisson(1 + 2 * mail),
                         "mood": rng.normal(size=rows), "purchase": rng.integers(0, 2, rows)})  # fmt: skip


def test_what_differs_between_actions_as_nothing_before_them_does_is_doubted():
    found = propose(mailing(), {"action": "mail"})
    assert set(found.doubtful) == {"opened", "calls"}
    assert "as nothing before them does" in found.doubtful["opened"]
    assert {"opened", "calls", "mood"} <= set(found.state), "it may have been a reason all the same"
    by_age = mailing().with_columns(age=pl.col("age") + 10 * pl.col("mail"))
    assert not propose(by_age, {"action": "mail"}).doubtful, "a decision by age may be one by the others, too"
    first = mailing().select("mail", pl.exclude("mail"))
    assert not propose(first, {"action": "mail"}).doubtful, "nothing stands before it that tells how it was made"


def test_a_person_has_more_than_two_values_and_rows_that_are_counted_through_are_people():
    rng = np.random.default_rng(6)
    frame = two_arms(person=rng.integers(0, 2, 200), individual=np.arange(200) // 2, y=rng.normal(size=200))
    found = propose(frame, {"reward": "y"})
    assert (found.roles["group"], found.state) == ("individual", ("age", "person"))
    numbered = propose(frame.rename({"individual": "n_th"}), {"reward": "y"})
    assert 'write group = "n_th"' in numbered.left_out["n_th"]
    mixed = frame.rename({"individual": "n_th"}).sample(fraction=1.0, shuffle=True, seed=0)
    assert "n_th" in propose(mixed, {"reward": "y"}).state, "in any order it may be a measurement"


def test_marks_named_act_are_no_action_and_a_control_group_is_one():
    rng = np.random.default_rng(7)
    marks = pl.DataFrame({"ACT": rng.integers(13, 33, 300), "cohort": rng.choice(["Control", "RIT"], 300),
                          "age": rng.integers(20, 90, 300), "cured": rng.integers(0, 2, 300)})  # fmt: skip
    found = propose(marks)
    assert (found.roles["action"], found.state) == ("cohort", ("ACT", "age"))
    assert propose(marks.with_columns(ACT=pl.col("ACT") - 13)).roles["action"] == "ACT", "as items are numbered"


def test_of_a_change_between_two_years_the_earlier_was_known_before():
    rng = np.random.default_rng(8)
    measured = {name: rng.normal(size=200) for name in ("wt71", "wt82", "wt82_71", "tax71", "tax71_82")}
    found = propose(two_arms(**measured), {"reward": "wt82_71"})
    assert found.state == ("age", "wt71", "tax71")
