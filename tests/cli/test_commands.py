"""Every command, run: what it prints, what it writes, how it leaves."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from polidiff import load
from polidiff.domains import chain
from polidiff.explanation.said import render
from tests.cli.tables import two_arms
from tests.report import samples


def test_explain_prints_the_text_of_the_result(polidiff, study, tmp_path):
    ran = polidiff("explain", study, "-o", tmp_path / "diff.json")
    assert ran.code == 0, ran.err
    record = load(tmp_path / "diff.json")
    assert ran.out == render(record) + "\n"
    assert "From s0 or s1, in s1 do take the detour instead of stay on the way" in ran.out
    assert f"wrote {tmp_path / 'diff.json'}" in ran.err


def test_json_on_stdout_is_the_document_of_the_file(polidiff, study, tmp_path):
    ran = polidiff("explain", study, "--json", "-o", tmp_path / "diff.json", "--quiet")
    assert ran.err == ""
    assert ran.out == (tmp_path / "diff.json").read_text()
    assert json.loads(ran.out)["schema"] == "polidiff/explanation"


def test_a_result_records_its_study_its_seed_and_the_hashes_of_its_inputs(polidiff, study, tmp_path):
    import hashlib

    record = json.loads(polidiff("explain", study, "--json").out)["methods"]
    assert record["study"]["title"] == "Detours on the chain"
    assert record["seed"] == 3
    content = (tmp_path / "chain.npz").read_bytes()
    assert record["inputs"]["chain.npz"] == f"sha256:{hashlib.sha256(content).hexdigest()}"
    assert set(record["inputs"]) == {"chain.npz", "current.npy", "proposed.npy"}


def test_a_flag_wins_over_the_study(polidiff, study, tmp_path):
    np.save(tmp_path / "other.npy", chain.current())
    ran = polidiff("explain", study, "--proposed", "other.npy", "--seed", 5, "--json")
    document = json.loads(ran.out)
    assert document["methods"]["seed"] == 5
    assert document["regions"] == []


def test_flags_alone_are_a_study(polidiff, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", chain.current())
    np.save("b.npy", chain.proposed())
    ran = polidiff("explain", "--world", "polidiff.domains.chain:world", "--current", "a.npy", "--proposed", "b.npy")
    assert ran.code == 0, ran.err
    assert "more visits to desired states" in ran.out


def test_policies_may_be_named_as_functions(polidiff):
    own = "polidiff.domains.chain:"
    ran = polidiff(
        "explain", "--world", f"{own}world", "--current", f"{own}current", "--proposed", f"{own}proposed", "--json"
    )
    assert len(json.loads(ran.out)["regions"]) == 2


def test_the_report_opens_with_the_title_of_the_study(polidiff, study, tmp_path):
    ran = polidiff("explain", study, "--report", tmp_path / "diff.html")
    assert ran.code == 0
    assert "<title>Detours on the chain</title>" in (tmp_path / "diff.html").read_text()


def test_the_same_study_gives_the_same_bytes(polidiff, study, tmp_path):
    for name in ("one", "two"):
        polidiff("explain", study, "-o", tmp_path / f"{name}.json", "--report", tmp_path / f"{name}.html")
    for ending in (".json", ".html"):
        assert (tmp_path / f"one{ending}").read_bytes() == (tmp_path / f"two{ending}").read_bytes()


def test_improve_prints_the_plans_and_writes_the_best_as_a_patch(polidiff, study, tmp_path):
    ran = polidiff("improve", study, "--unit", "total", "--json", "--patch", tmp_path / "best.json")
    assert ran.code == 0, ran.err
    document = json.loads(ran.out)
    assert [plan["changes"] for plan in document["plans"]] == pytest.approx([0, 2, 6, 8])  # the paper's figure 4
    assert [round(11 * plan["expected_return"], 3) for plan in document["plans"]] == [54.963, 56.963, 72.963, 74.963]
    assert len(load(tmp_path / "best.json")) == 2
    assert ran.err.endswith(f"wrote {tmp_path / 'best.json'}: 2 changes\n")


def test_a_patch_without_changes_says_why(polidiff, study, tmp_path):
    ran = polidiff("improve", study, "--budget", 0, "--patch", tmp_path / "none.json")
    assert ran.err.endswith(f"wrote {tmp_path / 'none.json'}: no changes, because no plan is shown to gain\n")
    assert len(load(tmp_path / "none.json")) == 0


def test_a_guard_that_nothing_satisfies_leaves_with_three(polidiff, study):
    ran = polidiff("improve", study, "--keep", "desired visits>=100")
    assert (ran.code, ran.out) == (3, "")
    assert ran.err.startswith("polidiff: ")
    assert ran.err.count("\n") == 1


def test_a_patch_is_shown_applied_and_undone(polidiff, study, tmp_path):
    polidiff("improve", study, "--patch", tmp_path / "best.json")
    shown = polidiff("patch", "show", tmp_path / "best.json").out
    assert "1. take the detour instead of stay on the way in s1" in shown
    assert "\"state\" IN ('s1')" in polidiff("patch", "show", tmp_path / "best.json", "--as", "sql").out
    ran = polidiff("patch", "apply", tmp_path / "best.json", tmp_path / "current.npy", "-o", tmp_path / "new.json")
    assert ran.code == 0, ran.err
    changed = np.array(json.loads((tmp_path / "new.json").read_text())["table"]).argmax(axis=1)
    assert np.flatnonzero(changed).tolist() == [1, 5]
    polidiff("patch", "undo", tmp_path / "best.json", tmp_path / "new.json", "-o", tmp_path / "old.json")
    back = np.array(json.loads((tmp_path / "old.json").read_text())["table"]).argmax(axis=1)
    assert back.tolist() == chain.current().tolist()


def test_check_leaves_with_one_and_names_the_reason(polidiff, study, tmp_path):
    ran = polidiff("check", study, "--junit", tmp_path / "check.xml")
    assert ran.code == 1
    assert ran.out.startswith("FAILED\n• trajectory length gets worse")
    suite = ElementTree.parse(tmp_path / "check.xml").getroot()
    assert suite.get("failures") == "1"
    assert "trajectory length" in suite.find("testcase/failure").get("message")


def test_check_passes_what_is_allowed(polidiff, study, tmp_path):
    guard = "trajectory length<=current+1"
    ran = polidiff("check", study, "--keep", guard, "--max-changes", 1, "--junit", tmp_path / "c.xml")
    assert ran.code == 0, ran.err
    assert ran.out.startswith("PASSED\n")
    assert ElementTree.parse(tmp_path / "c.xml").getroot().find("testcase/failure") is None
    polidiff("explain", study, "-o", tmp_path / "diff.json")
    again = polidiff("check", tmp_path / "diff.json", "--keep", guard, "--json")
    assert json.loads(again.out)["passed"] is True


@pytest.mark.parametrize("aimless", [["trajectory length"], ["trajectory length", "desired visits"]])
def test_check_names_what_it_cannot_judge(polidiff, study, tmp_path, aimless):
    text = study.read_text().replace('prefer = "less"\n', "")
    study.write_text(text if len(aimless) == 1 else text.replace('prefer = "more"\n', ""))
    ran = polidiff("check", study, "--junit", tmp_path / "c.xml")
    checked, unjudged = ran.out.split("Not judged")
    assert "no outcome gets worse" not in checked
    assert ("none of desired visits gets worse" in checked) == (len(aimless) == 1)
    assert [line[2:] for line in unjudged.splitlines() if line.startswith("•")] == aimless
    assert "Not judged" in ElementTree.parse(tmp_path / "c.xml").getroot().find("testcase/system-out").text
    assert json.loads(polidiff("check", study, "--json").out)["unjudged"] == aimless
    assert "Not judged" not in polidiff("check", study, "--keep", "trajectory length<=current+1").out


def test_guards_of_the_study_hold_unless_a_flag_replaces_them(polidiff, study):
    study.write_text(study.read_text() + '\n[check]\nkeep = "trajectory length<=current"\n')
    assert polidiff("check", study).code == 1
    assert polidiff("check", study, "--keep", "trajectory length<=current+1").code == 0


@pytest.mark.parametrize("ending", [".html", ".md", ".png", ".svg"])
def test_report_writes_every_form(polidiff, tmp_path, ending):
    samples.plain().save(tmp_path / "diff.json")
    ran = polidiff("report", tmp_path / "diff.json", "-o", tmp_path / f"out{ending}")
    assert ran.code == 0, ran.err
    assert (tmp_path / f"out{ending}").stat().st_size > 1000


def test_two_results_share_a_page(polidiff, tmp_path):
    samples.plain().save(tmp_path / "diff.json")
    samples.frontier().save(tmp_path / "plans.json")
    polidiff("report", tmp_path / "diff.json", tmp_path / "plans.json", "-o", tmp_path / "both.html")
    page = (tmp_path / "both.html").read_text()
    assert 'id="sentences"' in page
    assert 'id="slider"' in page


def test_report_of_a_log_hides_groups_below_the_given_size(polidiff, tmp_path):
    samples.from_log(episodes=15).save(tmp_path / "log.json")
    for size, hidden in ((10, False), (20, True)):
        polidiff("report", tmp_path / "log.json", "-o", tmp_path / "log.html", "--min-group", size)
        assert ("Left out because" in (tmp_path / "log.html").read_text()) == hidden


def test_ask_answers_from_the_file(polidiff, tmp_path):
    samples.plain().save(tmp_path / "diff.json")
    ask = lambda *words: polidiff("ask", tmp_path / "diff.json", *words).out  # noqa: E731
    assert ask("why-not", "S", "--in", "S_1") == (
        "In S_1 (0 ≤ x < 0.1 and 0.2 ≤ y < 0.3), one decision for S instead of E, then the proposed policy:\n"
        "• return: 1; N (current) 5; E (proposed) 12\n"
        "• length: 14 steps; N (current) 11 steps; E (proposed) 12 steps\n"
        "• these are estimates that were not judged: they have no interval\n"
    )
    assert ask("when", "E").splitlines()[:2] == [
        "E:",
        "• newly in S_1, E instead of N: 0 ≤ x < 0.1 and 0.2 ≤ y < 0.3 (8 % of decisions)",
    ]
    inside = ask("what-if", "x<0.2 and y<0.35")
    assert "• S_1, all of it: E instead of N" in inside
    assert "• S_3, part of it: S instead of N" in inside
    assert "S_4" not in inside
    assert ask("case", "x=0.05, y=0.25").startswith("For x = 0.05, y = 0.25: E instead of N")


def test_ask_finds_the_share_of_visits_by_counting_cells(polidiff, tmp_path):
    record = samples.plain()
    record.save(tmp_path / "diff.json")
    cells = record.pictures[0].cells
    here = [c for c in cells if c.x < 0.5]
    share = sum(c.visits for c in here) / sum(c.visits for c in cells)
    changed = sum(c.visits for c in here if c.region) / sum(c.visits for c in here)
    told = re.search(
        r"(\d+) % of visits fall there, (\d+) %", polidiff("ask", tmp_path / "diff.json", "what-if", "x<0.5").out
    )
    assert [int(told[1]), int(told[2])] == [round(100 * share), round(100 * changed)]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["why-not", "EE", "--in", "S_1"], "'EE' is not an action of this result; did you mean 'E'?"),
        (["why-not", "E", "--in", "S_9"], "'S_9' is not a region of this result; did you mean"),
        (["what-if", "z<1"], "'z' is not the name of a feature"),
        (["case", "x=0.05"], "'y' is needed and was not given"),
        (["case", "ward 3"], "tells cases by features, not by names of states; got 'ward 3'. Hint: 'x=…, y=…'"),
    ],
)
def test_ask_names_what_it_does_not_know(polidiff, tmp_path, words, message):
    samples.plain().save(tmp_path / "diff.json")
    ran = polidiff("ask", tmp_path / "diff.json", *words)
    assert ran.code == 2
    assert message in ran.err


@pytest.mark.parametrize("case", ["s1o", "state=s1o"])
def test_a_case_in_a_state_that_does_not_exist_is_refused(polidiff, study, tmp_path, case):
    polidiff("explain", study, "-o", tmp_path / "diff.json")
    ran = polidiff("ask", tmp_path / "diff.json", "case", case)
    assert (ran.code, ran.out) == (2, "")
    assert "did you mean 's1'?" in ran.err


def test_the_demo_reads_as_written(polidiff):
    golden = Path(__file__).parent / "golden" / "demo-chain.txt"
    assert polidiff("demo", "chain").out == golden.read_text(encoding="utf-8")


def test_demo_writes_a_report_with_the_explanation_and_the_plans(polidiff, tmp_path):
    ran = polidiff("demo", "chain", "--report", tmp_path / "chain.html")
    assert ran.code == 0, ran.err
    assert "From s6 … s10, the two policies act the same wherever it matters." in ran.out
    page = (tmp_path / "chain.html").read_text()
    assert 'id="slider"' in page
    assert "Who would be worse off" in page


@pytest.mark.parametrize(
    ("command", "schema"), [("explain", "explanation"), ("improve", "frontier"), ("check", "check")]
)
def test_json_validates_against_the_published_schema(polidiff, study, command, schema):
    import jsonschema

    published = Path(__file__).parents[2] / "docs" / "schema" / f"{schema}-1.json"
    jsonschema.validate(json.loads(polidiff(command, study, "--json").out), json.loads(published.read_text()))


def test_the_text_of_explain_is_the_golden_one(polidiff, study):
    golden = Path(__file__).parent / "golden" / "explain.txt"
    assert polidiff("explain", study).out == golden.read_text()


def test_compare_says_what_is_new_and_its_gate_exits_1_when_something_got_worse(polidiff, study, tmp_path):
    np.save(tmp_path / "other.npy", chain.current())
    polidiff("explain", study, "-o", tmp_path / "old.json")
    polidiff("explain", study, "--proposed", "other.npy", "-o", tmp_path / "new.json")
    files = (tmp_path / "old.json", tmp_path / "new.json")
    ran = polidiff("compare", *files, "--report", tmp_path / "since.html")
    assert ran.code == 0, ran.err
    assert ran.out.startswith("Regions in which they differ: 2 gone; 2 of 2 verdicts turned.")
    assert "<script" not in (tmp_path / "since.html").read_text()
    assert polidiff("compare", *files, "--gate").code == 1
    assert polidiff("compare", *reversed(files), "--gate").code == 1
    assert polidiff("compare", files[0], files[0], "--gate").code == 0
    assert json.loads(polidiff("compare", *files, "--json").out)["schema"] == "polidiff/comparison"


def test_compare_refuses_what_cannot_be_compared(polidiff, tmp_path):
    samples.plain().save(tmp_path / "one.json")
    samples.frontier().save(tmp_path / "plans.json")
    ran = polidiff("compare", tmp_path / "one.json", tmp_path / "plans.json")
    assert (ran.code, ran.out) == (2, "")
    assert "got one of each" in ran.err


def test_a_state_of_several_columns_is_given_by_a_flag_for_each(polidiff, tmp_path):
    two_arms(pulse=np.arange(200) % 40, well=np.arange(200) % 2).write_csv(tmp_path / "arms.csv")
    ran = polidiff("explain", "--log", tmp_path / "arms.csv", "--state", "age", "--state", "pulse", "--action", "arm",
                   "--reward", "well", "--current", "log", "--proposed", "always:new", "--json")  # fmt: skip
    assert ran.code == 0, ran.err
    assert [feature["name"] for feature in json.loads(ran.out)["world"]["features"]] == ["age", "pulse"]
