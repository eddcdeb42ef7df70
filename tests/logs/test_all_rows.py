"""Logs of features too long to be held: regions are counted in all rows, verdicts come from the episodes held."""

from __future__ import annotations

import joblib
import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from polidiff import Log, explain, improve
from polidiff.errors import InvalidLogError, SkippedRowsWarning
from polidiff.evaluation.logged.counted_log import cover_all_rows
from polidiff.progress import listening
from polidiff.records.codec import dumps
from polidiff.records.numbers import number
from polidiff.records.rule import Condition, Rule
from polidiff.worlds import log_source
from polidiff.worlds.shards import shard_files
from tests.worlds.by_hand import spoilt, written
from tests.worlds.test_log_sample import NAMES, here, there, walks

SINGLE = {name: NAMES[name] for name in ("state", "action", "reward")}
KINDS = ("whole", "cut", "steps", "named", "words", "single")
RULES = (Rule((Condition("x", 0, low=0.5),)), Rule((Condition("x", 0, high=0.2),)))


def patients(kind, count, seed):
    """A log of one kind: some values missing, rewards that are sums of powers of two, so that sums are exact."""
    rng = np.random.default_rng(seed)
    frame = walks(count, seed=seed, text=kind == "named").with_columns((pl.col("r") * 4).round() / 4)
    gone = pl.Series(rng.random(frame.height) < 0.1)
    frame = frame.with_columns(pl.when(gone).then(None).otherwise(pl.col("y")).alias("y"))
    if kind == "words":
        ward = pl.Series("y", np.array(["icu", "ward", None], dtype=object)[rng.integers(0, 3, frame.height)].tolist())
        frame = frame.with_columns(ward)
    if kind == "cut":
        frame = frame.with_columns(pl.col("end") & pl.Series(rng.random(frame.height) < 0.6))
    if kind == "steps":
        jump = pl.Series(rng.choice([1, 1, 1, 3], frame.height))
        frame = frame.with_columns(jump.cum_sum().alias("t"))
    return frame.select("x", "y", "a", "r") if kind == "single" else frame


def columns(kind):
    if kind == "single":
        return {**SINGLE, "actions": 2}
    return {**NAMES, "actions": 2, **({"step": "t"} if kind == "steps" else {})}


def by_hand(frame, kind):
    """Rows, episodes and first meetings of both rules, by a plain loop."""
    rows, first, before = [0, 0], [{}, {}], {}
    for i, row in enumerate(frame.rows(named=True)):
        episode = i if kind == "single" else row["e"]
        at, before[episode] = before.get(episode, 0), before.get(episode, 0) + 1
        rule = 0 if row["x"] >= 0.5 else 1 if row["x"] < 0.2 else None
        if rule is not None:
            rows[rule] += 1
            first[rule].setdefault(episode, at)
    return rows, [sorted(met.values()) for met in first]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    kind=st.sampled_from(KINDS),
    seed=st.integers(0, 10_000),
    cuts=st.lists(st.integers(1, 200), max_size=4),
    group=st.integers(5, 120),
    shard=st.integers(20, 200),
    batch=st.integers(8, 90),
    table=st.booleans(),
)
def test_rules_are_counted_in_all_rows_as_by_hand_wherever_files_are_cut(
    tmp_path, monkeypatch, kind, seed, cuts, group, shard, batch, table
):
    monkeypatch.setattr(shard_files, "PART_ROWS", shard)
    monkeypatch.setattr(shard_files, "RANGE_ROWS", group)
    monkeypatch.setattr(log_source, "STREAM_ROWS", batch)
    monkeypatch.setattr(log_source, "SLACK", 9.0)
    frame = patients(kind, 70, seed)
    source = frame if table else written(frame, tmp_path / "log", cuts, group)
    log = Log(source, **columns(kind), max_rows=70)
    assert log.sampled
    coverage, (rows, first) = cover_all_rows(log, RULES), by_hand(frame, kind)
    assert coverage.rows.tolist() == rows
    assert [np.repeat(np.arange(len(met)), met).tolist() for met in coverage.first] == first
    assert coverage.people.tolist() == coverage.episodes.tolist() == [len(met) for met in first]
    assert [coverage.typical_first(k) for k in (0, 1)] == [np.median(met) if met else np.inf for met in first]


def test_regions_shares_and_ranges_come_from_all_rows():
    frame = walks(4_000, seed=2)
    log, whole = Log(frame, **NAMES, max_rows=2_000), Log(frame, **NAMES)
    told = explain(log, here, there)
    region, (episodes, rows) = told.regions[0], (whole.check.episodes, whole.check.rows)
    inside = region.rule.covers(whole.rows.states)
    met = np.unique(whole.rows.episode[inside])
    assert (region.support.states, region.support.episodes) == (inside.sum(), len(met))
    assert region.support.share == inside.sum() / rows
    everything = explain(whole, here, there)
    assert told.sentences[0].path == everything.sentences[0].path == (region.id,)
    assert told.sentences[0].path_share == pytest.approx(everything.sentences[0].path_share, abs=0.08), "of those held"
    assert told.sentences[0].support.episodes == episodes
    ranges = zip(told.world.features, everything.world.features, strict=True)
    for held, everyone in ranges:  # ends that ten people reach are sought among the rows that are held
        assert everyone.low <= held.low < held.high <= everyone.high
        assert held.behind == everyone.behind == 10
    high = told.world.features[0].high
    assert len(np.unique(whole.rows.episode[whole.rows.states[:, 0] >= high])) >= 10


def test_segments_of_single_decisions_are_counted_over_all_rows_and_judged_on_those_held():
    frame = walks(4_000, seed=4).select("x", "y", "a", "r")
    told = explain(Log(frame, **SINGLE, max_rows=1_500), here, there)
    segment, rule = told.sentences[0], told.regions[0].rule
    inside = int(rule.covers(frame.select("x", "y").to_numpy()).sum())
    assert (segment.support.states, segment.share) == (inside, inside / frame.height)
    held = Log(frame, **SINGLE, max_rows=1_500).rows.n_episodes
    assert f"scores of {number(held)} of {number(frame.height)} logged decisions" in told.methods.evaluation


def test_text_files_tables_and_parquet_give_the_same_answer(tmp_path):
    frame = walks(800, seed=8)
    frame.write_csv(tmp_path / "log.csv")
    frame.write_parquet(tmp_path / "log.parquet")
    sources = (frame, frame.to_pandas(), tmp_path / "log.csv", tmp_path / "log.parquet")
    found = [dumps(explain(Log(source, **NAMES, max_rows=700), here, there)) for source in sources]
    assert all(one == found[0] for one in found)


def test_two_workers_count_the_bytes_of_a_plain_loop(tmp_path, monkeypatch):
    monkeypatch.setattr(shard_files, "PART_ROWS", 1_500)
    written(walks(1_500, seed=5), tmp_path, [100, 2_000, 2_001, 4_000], 400)
    log = Log(tmp_path, **NAMES, max_rows=1_000)
    assert len(log.source.parts(log.columns)) > 2
    alone = dumps(explain(log, here, there))
    with joblib.parallel_config(backend="loky", n_jobs=2):
        log = Log(tmp_path, **NAMES, max_rows=1_000)
        assert dumps(explain(log, here, there)) == alone


def test_progress_tells_rows_and_rows_per_second(tmp_path, monkeypatch):
    monkeypatch.setattr(shard_files, "PART_ROWS", 500)
    written(walks(600), tmp_path, [700], 100)
    said = []
    with listening(lambda what, share, remark: said.append((what, share, remark))):
        cover_all_rows(Log(tmp_path, **NAMES, max_rows=400), RULES)
    told = [(share, remark) for what, share, remark in said if what == "counting all rows"]
    assert [share for share, _ in told] == sorted(share for share, _ in told)
    assert told[-1][0] == 1.0
    assert "million rows, " in told[-1][1]
    assert told[-1][1].endswith("million per second)")


def test_what_the_first_pass_left_out_is_left_out_of_the_second(tmp_path, monkeypatch):
    monkeypatch.setattr(shard_files, "PART_ROWS", 300)
    monkeypatch.setattr(shard_files, "RANGE_ROWS", 100)
    files = written(walks(500, seed=1), tmp_path / "log", [600, 900], 100)
    spoilt(files / "000.parquet", 2)
    (files / "001.parquet").write_bytes(b"PAR1")
    with pytest.warns(SkippedRowsWarning):
        log = Log(files, **NAMES, max_rows=300, skip_bad=True)
    everywhere = Rule((Condition("x", 0, low=-np.inf),))
    coverage = cover_all_rows(log, (everywhere,))
    assert (coverage.rows[0], coverage.episodes[0]) == (log.check.rows, log.check.episodes)


def test_a_file_that_breaks_after_it_was_read_is_named_in_one_line(tmp_path):
    files = written(walks(300), tmp_path / "log", [500], 100)
    log = Log(files, **NAMES, max_rows=300)
    _ = log.rows
    spoilt(files / "001.parquet", 1)
    with pytest.raises(InvalidLogError, match=r"the log cannot be read: .*001\.parquet, rows \d+ to \d+") as caught:
        cover_all_rows(log, RULES)
    assert "\n" not in str(caught.value)


def test_an_episode_too_long_to_be_carried_is_named(monkeypatch):
    monkeypatch.setattr(log_source, "STREAM_ROWS", 20)
    frame = walks(300).with_columns(pl.when(pl.col("e") < 30).then(0).otherwise(pl.col("e")).alias("e"))
    log = Log(frame.with_columns(pl.col("end") & (pl.col("e") > 0)), **NAMES, max_rows=300)
    monkeypatch.setattr(log_source, "SLACK", 9.0)
    monkeypatch.setattr(shard_files, "free_memory", lambda: 2 * 50 * 40.0)  # rows of some 40 bytes
    with pytest.raises(InvalidLogError, match=r"an episode has more than \d+ rows and cannot be held"):
        cover_all_rows(log, RULES)


def test_plans_are_judged_by_episodes_that_did_not_choose_them():
    frame = walks(3_000, seed=6)
    log = Log(frame, **NAMES, max_rows=2_500)
    plans = improve(log, here, there)
    assert plans.plans[-1].gain.contains(1.75)
    chosen = log.rows.some(log.rows.turn % 2 == 0)
    assert (chosen.hashed % np.uint64(2) == 0).all()
    assert plans.warnings[0] == log.notes[0]


@pytest.mark.parametrize("group", [None, "who"])
def test_of_more_single_decisions_than_are_scored_those_of_some_people_are_told(group, monkeypatch):
    monkeypatch.setattr("polidiff.evaluation.logged.policies.MOST_SINGLE", 150)
    rng = np.random.default_rng(0)
    x, act = rng.random(500), rng.integers(0, 2, 500)
    paid = (rng.random(500) < 0.2 + 0.6 * act * (x > 0.5)).astype(int)
    frame = pl.DataFrame({"x": x, "act": act, "paid": paid, "who": rng.integers(0, 300, 500)})
    log = Log(frame, state=["x"], action="act", reward="paid", return_range=(0, 1), group=group)
    told = explain(log, "log", lambda states: (states[:, 0].astype(float) > 0.5).astype(int))
    assert [verdict.direction for verdict in told.verdicts] == ["more"]
