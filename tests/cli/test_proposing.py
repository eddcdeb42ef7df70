"""The proposed policy as a change to the current one: rules on the command line, a saved patch."""

from __future__ import annotations

import json

import numpy as np
import pytest

from polidiff.cli.study import read_study

SAID = ("regions", "sentences", "verdicts", "patch")  # the chain's policies also part where it does not matter
DETOURS = ("--rule", "state in {s1, s5}: take the detour")


def told(ran):
    """What a result says about the difference."""
    assert ran.code == 0, ran.err
    document = json.loads(ran.out)
    return {key: document[key] for key in SAID}


def test_rules_say_the_same_as_the_policy_they_make(polidiff, study):
    whole = polidiff("explain", study, "--json")
    assert told(polidiff("explain", study, *DETOURS, "--json")) == told(whole)


def test_rules_may_stand_in_the_study(polidiff, study):
    text = study.read_text().replace('proposed = "proposed.npy"', 'rules = ["state in {s1, s5}: take the detour"]')
    study.write_text(text)
    assert "s1" in polidiff("explain", study).out


def test_the_first_rule_that_holds_wins(polidiff, study):
    first = ("--rule", "state = s1: stay on the way")
    text = polidiff("explain", study, *first, *DETOURS).out
    assert "in s5" in text
    assert "in s1" not in text


def test_an_action_without_a_name_may_be_given_by_its_number(polidiff, tmp_path):
    rows = [f"{row % 3},{row % 2},{row % 5}.0,{row % 3 * 1.5}" for row in range(60)]
    (tmp_path / "log.csv").write_text("\n".join(["s,a,r,x", *rows]))
    columns = 'path = "log.csv"\nstate = "s"\naction = "a"\nreward = "r"\nfeatures = ["x"]'
    study = tmp_path / "study.toml"
    study.write_text(f'[world.log]\n{columns}\n[policies]\ncurrent = "log"\n')
    short, long = (polidiff("explain", study, "--rule", f"x > 1: {action}", "--json") for action in ("1", "action 1"))
    assert told(short) == told(long)
    assert "action 1" in short.out


def test_chance_in_who_got_what_is_no_policy(polidiff, tmp_path):
    rng = np.random.default_rng(8)
    age, spent, bought = rng.integers(18, 80, 900), rng.gamma(2, 50, 900), rng.random(900)
    sent = rng.integers(0, 2, 900)
    rows = [f"{age[i]},{spent[i]:.2f},{('email', 'coupon')[sent[i]]},{bought[i]:.3f}" for i in range(900)]
    (tmp_path / "offers.csv").write_text("\n".join(["age,spent,offer,bought", *rows]))
    study = tmp_path / "study.toml"
    columns = 'path = "offers.csv"\nstate = ["age", "spent"]\naction = "offer"\nreward = "bought"'
    study.write_text(f'[world.log]\n{columns}\n[policies]\ncurrent = "log"\n')
    (region,) = told(polidiff("explain", study, "--rule", "age < 35: coupon", "--json"))["regions"]
    (condition,) = region["rule"]["conditions"]
    assert (condition["feature"], condition["high"]) == ("age", 35)
    assert region["shift"] == {"current": pytest.approx(sent[age < 35].mean()), "proposed": 1.0, "also": []}


def test_a_saved_patch_is_a_proposed_policy(polidiff, study, tmp_path):
    polidiff("explain", study, "-o", tmp_path / "whole.json")
    document = json.loads((tmp_path / "whole.json").read_text())
    patch = {"schema": "polidiff/patch", "version": 1, **document["patch"]}
    (tmp_path / "patch.json").write_text(json.dumps(patch))
    ran = polidiff("explain", study, "--proposed", tmp_path / "patch.json", "--json")
    assert told(ran) == {key: document[key] for key in SAID}


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("state = s1", 'a rule reads "condition: action"'),
        ("state = s1: take a detour", "did you mean take the detour?"),
        ("stat = s1: take the detour", "stat"),
        ("state = s1o: take the detour", "'s1o' is not the name of a value of 'state'; did you mean 's1'?"),
    ],
)
def test_a_slip_in_a_rule_is_one_line(polidiff, study, rule, said):
    ran = polidiff("explain", study, "--rule", rule)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
    assert len(ran.err.strip().splitlines()) == 1


def test_a_study_names_a_policy_or_rules_not_both(polidiff, study):
    study.write_text(study.read_text().replace("[policies]", '[policies]\nrules = ["state = s1: take the detour"]'))
    ran = polidiff("explain", study)
    assert ran.code == 2
    assert "give one of them" in ran.err


def test_a_flag_replaces_what_the_study_proposes(study):
    read = read_study(study, {"policies": {"rules": ["state = s1: take the detour"]}})
    assert "proposed" not in read.section("policies")
