"""Who loses is told with all starts of the group, in the record, in its file and in words."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from polidiff import Log, Outcome, explain, load
from polidiff.explanation.region_places import losing_groups
from polidiff.explanation.said import answers, say
from polidiff.explanation.words import rule_text
from polidiff.records.rule import covers_any
from tests.results import explanation


def two_steps() -> Log:
    """A log of features in which an action costs where x < 0.3, or x < 0.6 and y < 0.4, and spares elsewhere."""
    rng, rows = np.random.default_rng(1), []
    for episode in range(600):
        x, y = rng.random(2).round(2)
        act = rng.integers(0, 2)
        for step in range(2):
            cost = act * (10.0 if x < 0.3 or (x < 0.6 and y < 0.4) else -3.0) + rng.normal()
            rows.append((episode, step, x, y, "yes" if act else "no", cost, step == 1))
            act = rng.integers(0, 2)
    names = ["episode", "step", "x", "y", "act", "cost", "end"]
    return Log(pl.DataFrame(rows, schema=names, orient="row"), episode="episode", step="step", state=["x", "y"],
               action="act", terminated="end", truncated=False, include_return=False,
               outcomes=[Outcome("cost", "cost", prefer="less", range=(-20, 40))])  # fmt: skip


def test_a_group_of_several_boxes_loses_with_all_of_them(tmp_path):
    found = explain(two_steps(), "log", "always:yes")
    group = next(sentence for sentence in found.sentences if sentence.verdicts[0].valence == "worse")
    (entry,) = found.worse_off
    assert len(group.also) > 0
    assert entry.rules == group.rules
    corners = np.array([[0.1, 0.9], [0.5, 0.1], [0.9, 0.9], [0.5, 0.9]])
    assert covers_any(entry.rules, corners).tolist() == [True, True, False, False]
    where = " or ".join(map(rule_text, group.rules))
    for told in (str(found), answers(found)[3].text):
        assert f"tarts where {where} (" in told
    found.save(tmp_path / "found.json")
    assert load(tmp_path / "found.json").worse_off == found.worse_off


@given(st.integers(0, 10_000))
def test_who_loses_by_the_verdicts_of_sentences_is_their_groups(seed):
    record = explanation(seed, "log")
    losing = losing_groups(record.sentences)
    worse = [(s, v) for s in record.sentences for v in s.verdicts if v.valence == "worse"]
    assert [(e.rules, e.outcome, e.share, e.difference) for e in losing] == [
        (s.rules, v.outcome, s.share, v.difference) for s, v in worse
    ]
    assert not any(entry.other for entry in losing_groups(record.sentences[:1]))


@given(st.integers(0, 10_000), st.sampled_from(["table", "simulator", "log"]))
def test_the_opening_has_three_lines_at_most_and_a_terminal_shows_few_of_many(seed, kind):
    record = explanation(seed, kind)
    many = replace(record, worse_off=record.worse_off * 30, warnings=tuple(f"remark {k}" for k in range(40)))
    said = say(many)
    assert len(said.opening) <= 3
    shown = [line for line in said.text().splitlines() if line.startswith("• remark")]
    assert len(shown) == 12
    assert "• and 28 more, in the JSON file" in said.text()
