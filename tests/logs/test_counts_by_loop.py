"""Every count of people and decisions in a result of a log is a plain loop's, and no output names a small group.

Random logs of labelled states, of features and of single decisions, with people of one episode or of several; one value
that only two or three people have is called RARE in every log.
"""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

from polidiff import Log, Outcome, explain
from polidiff.records.codec import dumps
from polidiff.records.rule import first_match
from polidiff.records.suppression import suppressed
from polidiff.report.markdown import save_markdown

KINDS = ("labels", "labelled features", "features", "single")
STATES = 7
RARE = STATES - 1


def rows_of(seed, kind):
    """(episode, person, state, action, pays, ends) of every decision, in order."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(40, 120))
    owner = rng.integers(0, count // 2, count)
    few = set(rng.choice(count // 2, 2, replace=False).tolist())
    rows = []
    for episode in range(count):
        length = 1 if kind == "single" else 1 + int(rng.geometric(0.4))
        for step in range(length):
            state = RARE if owner[episode] in few and step == 0 else int(rng.integers(RARE))
            action = int(rng.integers(2))
            rows.append((episode, int(owner[episode]), state, action, float(action + rng.random()), step == length - 1))
    return rows


def log_of(rows, kind, grouped):
    """The log, with states as labels or as one or two measurements."""
    names = ["episode", "person", "state", "action", "paid", "end"]
    frame = pl.DataFrame(rows, schema=names, orient="row").with_columns(
        size=pl.col("state").cast(pl.Float64),
        word=pl.when(pl.col("state") == RARE).then(pl.lit("RARE")).otherwise(pl.lit("w")),
    )
    given = {"action": "action", "actions": 2, "outcomes": [Outcome("paid", "paid", prefer="more", range=(0, 60))]}
    given |= {"group": "person"} if grouped else {}
    given |= {} if kind == "single" else {"episode": "episode", "terminated": "end"}
    if kind == "labels":
        labels = pl.when(pl.col("state") == RARE).then(pl.lit("RARE")).otherwise(pl.format("s{}", "state"))
        return Log(frame.with_columns(state=labels), state="state", **given)
    if kind == "labelled features":
        return Log(frame, state="state", features=["size"], states=STATES, **given)
    return Log(frame, state=["size", "word"], **given)


def policies_of(seed, kind, log):
    tables = np.random.default_rng((seed, 1)).integers(0, 2, (2, STATES))
    tables[:, RARE] = 0, 1
    if kind == "labels":
        order = [RARE if name == "RARE" else int(name[1:]) for name in log.states]
        return tables[:, order]
    if kind == "labelled features":
        return tables
    return [lambda x, table=table: table[np.asarray(x)[:, 0].astype(int)] for table in tables]


def numbers_of(log, kind):
    """What rules see of state 0, 1, …"""
    if kind == "labels":
        place = {name: number for number, name in enumerate(log.states)}
        names = [f"s{state}" if state != RARE else "RARE" for state in range(STATES)]
        known = log.features_of(np.arange(log.n_states))
        return [known[place[name]] if name in place else np.array(["nowhere"], dtype=object) for name in names]
    if kind == "labelled features":
        return [np.array([float(state)]) for state in range(STATES)]
    return [np.array([float(s), "RARE" if s == RARE else "w"], dtype=object) for s in range(STATES)]


def check(seed, kind, grouped, folder):
    rows = rows_of(seed, kind)
    log = log_of(rows, kind, grouped)
    told = explain(log, *policies_of(seed, kind, log), seed=seed, max_rules=None if seed % 2 else 3)
    where = first_match([region.rule for region in told.regions], np.array(numbers_of(log, kind), dtype=object))
    who = 1 if grouped else 0
    everyone = {row[who] for row in rows}
    for k, region in enumerate(told.regions):
        inside = [row for row in rows if where[row[2]] == k]
        assert region.support.episodes == len({row[who] for row in inside})
        assert region.support.share == pytest.approx(len(inside) / len(rows))
        for entry in region.support.actions:
            taken = {row[who] for row in inside if log.actions[row[3]].name == entry.action}
            assert entry.people in (0, len(taken)), "0: nobody was counted by action"
        for sentence in told.sentences if kind == "single" else ():
            if sentence.start == region.rule:
                assert sentence.support.episodes == region.support.episodes
                assert sentence.share == pytest.approx(region.support.share)
    for sentence in told.sentences:
        assert sentence.support.episodes <= len(everyone)
        if sentence.start is None:
            assert sentence.support.episodes == len(everyone)
    facts = told.world.facts
    assert facts["rows"] == len(rows)
    assert facts["episodes"] == len({row[0] for row in rows})
    assert facts.get("people", len(everyone)) == len(everyone)
    assert " people" in str(told) or not grouped
    check_what_is_left(told, suppressed(told), where, numbers_of(log, kind))
    rare = {row[who] for row in rows if row[2] == RARE}
    shown = json.loads(dumps(suppressed(told)))
    outputs = (
        json.dumps(shown, ensure_ascii=False),
        str(told),
        save_markdown(told, folder / "x.md").read_text("utf-8"),
    )
    if len(rare) < 10:
        assert not any("RARE" in output for output in outputs)
    assert all(region["support"]["episodes"] >= 10 for region in shown["regions"])


def check_what_is_left(told, left, where, numbers):
    """A state of a region that is not shown is met by no other rule, unless that region is said to lie outside it."""
    kept = {region.id for region in left.regions}
    seen = first_match([region.rule for region in left.regions], np.array(numbers, dtype=object))
    for state in np.flatnonzero((where >= 0) & (seen >= 0)):
        if told.regions[where[state]].id not in kept:
            assert left.regions[seen[state]].beside_few
    if not any("rounded" in line for line in left.warnings):
        whole = {region.id: region.support.episodes for region in told.regions}
        assert all(region.support.episodes == whole[region.id] for region in left.regions)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("grouped", [False, True])
def test_counts_are_those_of_a_plain_loop_and_nobody_rare_is_named(kind, grouped, tmp_path):
    for seed in range(3):
        check(seed, kind, grouped, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("grouped", [False, True])
def test_counts_of_two_hundred_logs_are_those_of_a_plain_loop(kind, grouped, tmp_path):
    for seed in range(3, 28):
        check(seed, kind, grouped, tmp_path)
