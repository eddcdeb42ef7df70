"""Nothing that leaves the program names a handful of people: every command, every format, on logs with rare ones."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from polidiff import Log, api, explain, improve
from polidiff.cli.main import run
from polidiff.records.codec import dumps
from polidiff.records.suppression import suppressed

RARE = ("RAREname", "RAREtown", "103.5")
FORMATS = ("html", "md", "json", "svg")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Single decisions with four very old people and one from a rare town; episodes over states, one met by one."""
    place = tmp_path_factory.mktemp("small")
    rng = np.random.default_rng(0)
    size = 200
    age = rng.integers(20, 80, size).astype(float)
    age[:4] = [90, 93, 95, 103.5]
    town = rng.choice(["a", "b"], size).astype(object)
    town[5] = "RAREtown"
    act = rng.integers(0, 2, size)
    paid = rng.normal(size=size) + act * (age > 50)
    single = {"age": age, "town": town, "act": np.array(["x", "y"])[act], "paid": paid}
    pl.DataFrame(single, strict=False).with_columns(pl.col("town").cast(pl.String)).write_csv(place / "single.csv")
    rows = []
    for who in range(120):
        for step in range(4):
            rare = (who, step) == (3, 2)
            state = "RAREname" if rare else ["start", "middle", "late"][min(step, 2)]
            rows.append((who, step, state, 0 if rare else int(rng.integers(0, 2)), float(rng.normal()), step == 3))
    names = ["who", "step", "state", "act", "paid", "end"]
    pl.DataFrame(rows, schema=names, orient="row").write_csv(place / "several.csv")
    return place


SINGLE = ["--log", "single.csv", "--state", "age", "--state", "town", "--action", "act", "--reward", "paid"]
SEVERAL = ["--log", "several.csv", "--state", "state", "--action", "act", "--reward", "paid", "--episode", "who",
           "--step", "step", "--terminated", "end"]  # fmt: skip
CASES = {
    "explain single": ["explain", *SINGLE, "--current", "log", "--rule", "age > 85: y", "--rule", "town = RAREtown: y",
                       "--rule", "age < 30: x"],
    "explain several": ["explain", *SEVERAL, "--current", "log", "--rule", 'state in {RAREname, late}: 1'],
    "improve single": ["improve", *SINGLE, "--current", "log", "--max-rules", "2"],
    "improve several": ["improve", *SEVERAL, "--current", "log"],
}  # fmt: skip


def once(function):
    """The function, whose first answer is given to all who ask."""
    answer = []

    def asked(*arguments, **options):
        answer[:] = answer or [function(*arguments, **options)]
        return answer[0]

    return asked


@pytest.mark.parametrize("case", CASES)
def test_no_output_of_a_log_names_a_handful_of_people(case, folder, tmp_path, monkeypatch, capsys):
    verb, kind = case.split()
    monkeypatch.chdir(folder)
    monkeypatch.setattr(api, verb, once(getattr(api, verb)))
    for ending in FORMATS:
        target = tmp_path / f"out.{ending}"
        assert run([*CASES[case], "-q", "-o", str(target)]) == 0
        text = target.read_text(encoding="utf-8")
        if ending == "json":
            study = json.loads(text)["methods"].pop("study")  # what the user wrote stands there as it was written
            text = text.replace(json.dumps(study, ensure_ascii=False)[1:-1], "")
            text = json.dumps({**json.loads(text), "methods": None}, ensure_ascii=False)
        assert not [name for name in RARE if name in text], ending
    if verb == "explain":
        action = "y" if kind == "single" else "action 1"
        assert run(["ask", str(tmp_path / "out.json"), "when", action]) in (0, 2)
    captured = capsys.readouterr()
    assert not [name for name in RARE if name in captured.out + captured.err]


def test_the_explicit_way_out_names_everybody(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(folder)
    target = tmp_path / "out.json"
    assert run([*CASES["explain several"], "-q", "--min-group", "1", "-o", str(target)]) == 0
    regions = json.loads(target.read_text(encoding="utf-8"))["regions"]
    assert any("RAREname" in str(region["rule"]) for region in regions)


@pytest.mark.parametrize("few", [0, 6, 40])
def test_a_count_is_that_of_a_plain_loop_or_is_said_to_be_rounded(few):
    rng = np.random.default_rng(7)
    age, site = rng.integers(30, 90, 600), rng.choice(["North", "South"], 600).astype(object)
    age[:few], site[:few] = 20, "Tiny"
    new = rng.random(600) < 0.5
    frame = pl.DataFrame({"age": age, "site": site.astype(str), "drug": np.where(new, "new", "old"),
                          "well": rng.normal(size=600) + new})  # fmt: skip
    note, wanted = "are rounded or hold these few", {s: int((site == s).sum()) for s in ("North", "South")}
    for state in (["age"], "site"):
        log = Log(frame, state=state, action="drug", reward="well", return_range=(-9, 9), probability=0.5)
        proposed = "always:new" if state == "site" else lambda s: "new" if s[0] >= 25 else "old"
        told = suppressed(explain(log, "always:old", proposed))
        if state == "site":
            counts = [(told.world.people["state"][name], count) for name, count in wanted.items()]
            assert told.quality.completeness == {} or few != 6  # what the patch without Tiny recovers was not measured
        else:
            counts = [(told.regions[0].support.episodes, 600 - few)]
        exact = all(said == count for said, count in counts)
        assert exact == (few != 6)
        assert exact != any(note in warning for warning in told.warnings)
        again = suppressed(told)
        assert sum(note in warning for warning in again.warnings) == (few == 6)


def with_a_few(people: int = 600, few: int = 8) -> pl.DataFrame:
    """Decisions in two wards, of which one gains by another action, and a few in a third."""
    rng = np.random.default_rng(1)
    ward = np.where(np.arange(people) < few, "burns", rng.choice(["icu", "general"], people))
    dose = rng.choice(["low", "high"], people)
    gain = np.where(dose == "high", np.where(ward == "general", -0.4, 0.4), 0.0)
    well = (rng.random(people) < 0.5 + gain).astype(int)
    return pl.DataFrame({"ward": ward, "age": rng.integers(20, 80, people), "dose": dose, "well": well})


@pytest.mark.parametrize("options", [{"max_rules": 1}, {"max_rules": 1, "freeze": "ward = 'general'"}, {}])
def test_a_plan_spares_a_few_whom_it_would_have_to_name(options):
    log = Log(with_a_few(), state=["ward", "age"], action="dose", reward="well", return_range=(0, 1))
    candidates = None if options else [lambda rows: np.where(rows[:, 0] == "general", 1, 0)]
    plans = improve(log, "always:low", candidates, **options)
    assert "ward is icu" in str(plans)
    assert "burns" not in dumps(plans)
    assert "Left out" not in str(plans)
    assert plans.best.gain.low > 0


def test_changes_of_plans_that_are_withheld_are_not_valued():
    log = Log(with_a_few(), state=["ward", "age"], action="dose", reward="well", return_range=(0, 1))
    candidates = [lambda rows: np.where(rows[:, 0] == "general", 1, 0)]
    every = improve(log, "always:low", candidates, min_group=1)
    assert "burns" in dumps(every)
    assert every.ledger.entries
    later = suppressed(every, 10)
    assert "burns" not in dumps(later)
    assert not later.ledger.entries
    assert "a name in them" in str(later)


@pytest.mark.parametrize("labels", [True, False])
def test_people_of_many_decisions_are_counted_as_people(labels):
    rng = np.random.default_rng(1)
    who, x, act = np.repeat(np.arange(12), 30), rng.integers(0, 4, 360), rng.choice(["a", "b"], 360)
    columns = {"who": who, "x": [f"s{v}" for v in x] if labels else x, "act": act, "new": np.where(x >= 2, "b", "a")}
    frame = pl.DataFrame({**columns, "y": (act == "b") * (x == 2) + rng.random(360)})
    log = Log(frame, state="x" if labels else ["x"], action="act", reward="y", group="who", return_range=(0, 2))
    told = explain(log, "log", "column:new")
    shown = suppressed(told)
    assert [region.key for region in shown.regions] == [region.key for region in told.regions]
    assert len(shown.sentences) == len(told.sentences)
    assert len(shown.worse_off) == len(told.worse_off)
    assert "fewer than 10 people" not in str(told)
    for region in shown.regions:
        inside = region.rule.covers(np.array([[v] for v in frame["x"]], dtype=object if labels else float))
        assert region.support.episodes == 12
        assert region.shift.current == pytest.approx((act[inside] == region.proposed).mean())


def test_a_place_is_said_to_lie_outside_a_few_who_are_not_shown(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    person = np.repeat(np.arange(40), 8)
    frame = pl.DataFrame({"person": person, "x": rng.random(320).round(2), "size": person / 40,
                          "act": rng.choice(["a", "b"], 320), "paid": rng.random(320)})  # fmt: skip
    frame.write_csv("d.csv")
    given = ["--log", "d.csv", "--state", "x", "--state", "size", "--action", "act", "--reward", "paid"]
    rules = ["--rule", "x >= 0.7 and size >= 0.8: b", "--rule", "x >= 0: a"]
    assert run(["explain", *given, "--set", "world.log.group=person", "--current", "log", *rules, "-o", "d.json"]) == 0
    assert "• Where x ≥ 0, outside places that are not shown (" in capsys.readouterr().out
    assert [region["beside_few"] for region in json.loads(Path("d.json").read_text("utf-8"))["regions"]] == [True]
    assert run(["ask", "d.json", "case", "x=0.8, size=0.9"]) == 0
    assert "because x ≥ 0, except for fewer than 10 people" in capsys.readouterr().out
