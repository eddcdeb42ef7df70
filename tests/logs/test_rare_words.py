"""A word that a few have, in whatever column, is in no output: no result, no page, no answer, no error."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from polidiff import Log, explain
from polidiff.cli.main import run

CASE = {"single": "cat = {}", "features": "s = {}", "states": "state = {}"}
RULE = {
    "single": "cat in {RAREcat, red}",
    "features": "s in {RAREplace, RAREstart, low}",
    "states": "state in {RAREplace, RAREstart, low}",
}


def rare_log(kind: str, seed: int) -> tuple[pl.DataFrame, list[str]]:
    """A log with one word of a few in every column of words, and the flags that read it."""
    rng = np.random.default_rng(seed)
    people, few = int(rng.integers(60, 120)), int(rng.integers(1, 5))
    long = 1 if kind == "single" else 2
    who, step = np.repeat(np.arange(people), long), np.tile(np.arange(long), people)
    rare = who < few

    def worded(column: np.ndarray, word: str, where: np.ndarray) -> list[str]:
        return [word if odd else str(value) for value, odd in zip(column, where, strict=True)]

    place = np.array(["low", "high"])[(rng.random(len(who)) < 0.4 + 0.2 * step).astype(int)]
    acts = rng.choice(["go", "stay"], len(who))
    frame = pl.DataFrame({
        "who": worded(np.char.add("p", who.astype(str)), "RAREgroup", who == few), "step": step,
        "cat": worded(rng.choice(["red", "blue"], len(who)), "RAREcat", rare), "x": rng.random(len(who)).round(2),
        "s": worded(np.array(worded(place, "RAREplace", rare & (step == 1))), "RAREstart", rare & (step == 0)),
        "act": worded(acts, "RAREact", rare), "end": step == long - 1, "paid": rng.integers(0, 2, len(who)),
        "out": worded(rng.choice(["well", "ill"], people)[who], "RAREtext", rare),
    })  # fmt: skip
    columns = {"single": ["cat", "x"], "features": ["s", "x"], "states": ["s"]}[kind]
    flags = ["--log", "d.csv", "--action", "act", *(word for name in columns for word in ("--state", name))]
    steps = ["--episode", "who", "--step", "step", "--terminated", "end"]
    return frame, flags if kind == "single" else [*flags, *steps]


@pytest.fixture
def said(tmp_path, monkeypatch, capsys):
    """Runs a command; all that it said and wrote, but what the user wrote."""
    monkeypatch.chdir(tmp_path)

    def told(*words: str) -> str:
        assert run(list(words)) in (0, 1, 2, 3)
        captured = capsys.readouterr()
        texts = [captured.out, captured.err]
        for path in set(Path().iterdir()) - {Path("d.csv")}:
            text = path.read_text(encoding="utf-8")
            if path.suffix == ".json":
                tree = json.loads(text)
                text = json.dumps({**tree, "methods": {**tree.get("methods", {}), "study": None}})
            texts.append(text)
        return "\n".join(texts)

    return told


@pytest.mark.parametrize("kind", ["single", "features", "states"])
def test_a_result_of_a_log_has_no_word_of_a_few(kind, said):
    frame, flags = rare_log(kind, seed=len(kind))
    frame.write_csv("d.csv")
    given, rules = [*flags, "--reward", "paid"], ["--rule", f"{RULE[kind]}: go"]
    done = [["explain", *given, "--current", "log", *rules, "-v", "-o", "a.json"],
            ["report", "a.json", "-o", "a.html"], ["report", "a.json", "-o", "a.svg"],
            ["explain", *given, "--current", "always:stay", "--proposed", "always:go", "-o", "b.json"],
            ["compare", "a.json", "b.json", "-o", "since.md"], ["ask", "a.json", "when", "AREact"],
            ["ask", "a.json", "why-not", "AREact", "--in", "S1"],
            ["ask", "a.json", "case", f"{CASE[kind].format('AREplace')}, x = 1"],
            ["patch", "show", "a.json"]]  # fmt: skip
    for words in done:
        assert "RARE" not in said(*words), words


@pytest.mark.parametrize("kind", ["single", "states"])
def test_plans_of_a_log_have_no_word_of_a_few(kind, said):
    frame, flags = rare_log(kind, seed=7)
    frame.write_csv("d.csv")
    written = ["-o", "i.json", "--report", "i.html", "--patch", "p.json"]
    asked = [
        "improve",
        *flags,
        "--reward",
        "paid",
        "--current",
        "always:stay",
        *(["--max-rules", "1"] * (kind == "single")),
    ]
    assert "RARE" not in said(*asked, *written)
    assert "RARE" not in said("patch", "show", "p.json", "--as", "sql")


@pytest.mark.parametrize("kind", ["single", "features", "states"])
def test_a_slip_is_told_without_a_word_of_a_few(kind, said):
    frame, flags = rare_log(kind, seed=3)
    frame.write_csv("d.csv")
    asked = ["explain", *flags, "--current", "log", "-q"]
    paid = [*asked, "--reward", "paid"]
    for slip in ("AREcat", "AREplace", "nowhere"):
        assert "RARE" not in said(*paid, "--rule", f"{CASE[kind].format(slip)}: go")
        assert "RARE" not in said(
            "improve", *flags, "--reward", "paid", "--current", "log", "--freeze", CASE[kind].format(slip)
        )
    for action in ("AREact", "nothing"):
        assert "RARE" not in said(*paid, "--rule", f"x > 0.5: {action}")
        assert "RARE" not in said(*paid, "--proposed", f"always:{action}")
    for odd in ("out", "out = AREtext", "out = nothing"):
        assert "RARE" not in said(*asked, "--reward", odd, "--proposed", "always:go")
    for role in ("step", "terminated", "truncated", "probability", "episode", "group"):
        assert "RARE" not in said(*paid, "--set", f"world.log.{role}=out", "--proposed", "column:out")
    for declared in ('states=["low"]', 'actions=["go", "stay"]'):
        assert "RARE" not in said(*paid, "--set", f"world.log.{declared}", "--proposed", "column:out")


@pytest.mark.parametrize("kind", ["single", "states"])
def test_what_init_says_and_writes_has_no_word_of_a_few(kind, said):
    frame, _ = rare_log(kind, seed=5)
    frame.write_csv("d.csv")
    assert "RARE" not in said("init", "d.csv", "-o", "study.toml", "--yes")
    assert "RARE" not in said("init", "d.csv", "-o", "other.toml", "--yes", "--reward", "out")
    frame.rename({"act": "did"}).write_csv("d.csv")
    assert "RARE" not in said("init", "d.csv", "-o", "third.toml", "--yes")


def test_a_log_of_few_people_is_still_made_a_study_of(said):
    pl.DataFrame({"act": ["go", "stay", "go"] * 3, "x": range(9), "paid": [0, 1, 1] * 3}).write_csv("d.csv")
    said("init", "d.csv", "-o", "study.toml", "--yes")
    assert 'proposed = "always:go"' in Path("study.toml").read_text(encoding="utf-8")


def test_an_action_that_two_people_got_in_most_decisions_is_not_named():
    rng, who = np.random.default_rng(0), np.r_[np.repeat(np.arange(60), 2), np.repeat([100, 101], 150)]
    often = np.where(who >= 100, rng.random(len(who)) < 0.7, False)
    action = np.where(often, "RARE", np.array(["A", "B"])[rng.integers(0, 2, len(who))])
    frame = pl.DataFrame(
        {"who": who, "ward": rng.integers(0, 2, len(who)), "a": action, "y": rng.normal(size=len(who))}
    )
    told = explain(Log(frame, state="ward", action="a", reward="y", group="who"), "log", "always:B")
    assert "RARE" not in json.dumps(told.to_dict())
