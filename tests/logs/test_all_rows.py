"""Logs of features too long to be held: all rows are counted in the cells of those that are."""

from __future__ import annotations

from collections import Counter

import joblib
import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from polidiff import Log, explain, improve
from polidiff.errors import InvalidInputError, InvalidLogError, SkippedRowsWarning
from polidiff.evaluation.logged import all_rows, cells
from polidiff.evaluation.logged.cell_map import join_slivers
from polidiff.evaluation.logged.compare import compare_log
from polidiff.evaluation.logged.counted_log import counted_log
from polidiff.evaluation.logged.counts import count_rows
from polidiff.evaluation.logged.episodes import some_episodes
from polidiff.evaluation.logged.rule_coverage import rule_coverage
from polidiff.progress import listening
from polidiff.records.codec import dumps
from polidiff.records.rule import Condition, Rule
from polidiff.worlds import log_stream
from polidiff.worlds.log_stream import unit_hashes
from polidiff.worlds.shards import shard_files
from polidiff.worlds.shards.transition_counts import CUT, END
from tests.worlds.by_hand import spoilt, written
from tests.worlds.test_log_sample import NAMES, here, there, walks

SINGLE = {name: NAMES[name] for name in ("state", "action", "reward")}
KINDS = ("whole", "cut", "steps", "named", "words", "single")


def memoryless(count, *, seed):
    """Episodes that end with chance 1/4 after every decision; acting 1 pays where x > 0.5."""
    rng = np.random.default_rng(seed)
    length = rng.geometric(0.25, count)
    x, a = rng.uniform(size=(int(length.sum()), 2)), rng.integers(0, 2, int(length.sum()))
    end = np.zeros(len(a), dtype=bool)
    end[np.cumsum(length) - 1] = True
    reward = np.where(a == 1, np.where(x[:, 0] > 0.5, 1.0, -1.0), 0.0) + rng.normal(size=len(a)) * 0.1
    names = np.repeat(np.arange(count), length)
    return pl.DataFrame({"e": names, "x": x[:, 0], "y": x[:, 1], "a": a, "r": reward, "end": end})


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


def leaning(states):
    chance = np.where([x is not None and x > 0.5 for x in states[:, 0]], 0.75, 0.25)
    return np.column_stack([1 - chance, chance])


def counted(log, policies, monkeypatch, **options):
    """The counted of all rows, and what was asked for it."""
    kept = []
    real = all_rows.count_all_rows
    with monkeypatch.context() as patch:
        patch.setattr(cells, "count_all_rows", lambda log, asked, given: kept.append(asked) or real(log, asked, given))
        return counted_log(log, policies, **options), all_rows.settle_ways(log, kept[0])


def by_hand(frame, kind, asked):
    """Counts, sums, squares, starts and policies' averages over cells, by the definition and a plain loop."""
    whole = Log(frame, **columns(kind)).rows
    assert not Log(frame, **columns(kind)).sampled
    name = None if kind == "single" else "e"
    tables = [np.asarray(policy.probabilities(whole.states)) for policy in asked.policies]
    number = asked.cells.number(whole, asked.cells.encode(whole.states), tables)
    place = {old: new for new, old in enumerate(np.unique(number).tolist())}
    cell, rows, hashed = [place[old] for old in number.tolist()], frame.rows(named=True), unit_hashes(frame, name, 0)
    entries, starts, averages = Counter(), Counter(), np.zeros((len(tables), len(place), 2))
    for i, row in enumerate(rows):
        following = i + 1 < len(rows) and name is not None and rows[i + 1]["e"] == row["e"]
        to = CUT
        if name is None or row["end"]:
            to = END
        elif following and (kind != "steps" or rows[i + 1]["t"] == row["t"] + 1):
            to = cell[i + 1]
        averages[:, cell[i]] += [table[i] for table in tables]
        if name is None or i == 0 or rows[i - 1]["e"] != row["e"]:
            starts[cell[i]] += 1
        if hashed[i] >= asked.limit:
            key = (int(hashed[i] % 2**32) % asked.blocks, cell[i], row["a"], to)
            entries[key] += np.array([1, row["r"], row["r"] ** 2])
    return entries, starts, averages / averages.sum(axis=2, keepdims=True)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    kind=st.sampled_from(KINDS),
    seed=st.integers(0, 10_000),
    cuts=st.lists(st.integers(1, 200), max_size=4),
    group=st.integers(5, 120),
    shard=st.integers(20, 200),
    batch=st.integers(8, 90),
    blocks=st.integers(1, 3),
    table=st.booleans(),
    history=st.booleans(),
)
def test_all_rows_are_counted_in_the_cells_as_by_hand_wherever_files_are_cut(
    tmp_path, monkeypatch, kind, seed, cuts, group, shard, batch, blocks, table, history
):
    for module in (shard_files, log_stream):
        monkeypatch.setattr(module, "SHARD_ROWS", shard)
    monkeypatch.setattr(shard_files, "BATCH_ROWS", group)
    monkeypatch.setattr(log_stream, "STREAM_ROWS", batch)
    monkeypatch.setattr(log_stream, "SLACK", 9.0)
    frame = patients(kind, 70, seed)
    source = frame if table else written(frame, tmp_path / "log", cuts, group)
    log = Log(source, **columns(kind), max_rows=70)
    assert log.sampled
    policies = (leaning, there if kind != "words" else leaning)
    found, asked = counted(log, policies, monkeypatch, blocks=blocks, history=history)
    entries, starts, averages = by_hand(frame, kind, asked)
    made = found.counts
    to = np.where(made.to >= made.n_states, made.n_states - 1 - made.to, made.to)
    keys = list(zip(*(part.tolist() for part in (made.block, made.state, made.action, to)), strict=True))
    values = np.column_stack([made.count, made.sums[:, 0], made.squares[:, 0]])
    assert set(keys) == set(entries)
    np.testing.assert_array_equal(values, [entries[key] for key in keys])
    assert dict(zip(found.start_state.tolist(), found.start_episodes.tolist(), strict=True)) == starts
    for policy, expected in zip(policies, averages, strict=True):
        np.testing.assert_allclose(found.table(policy), expected, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_counts_are_those_that_rows_in_memory_give_in_the_same_cells(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(log_stream, "SHARD_ROWS", 700)
    frame = patients(kind, 1_000, 7)
    log = Log(written(frame, tmp_path / "log", [900, 1_000, 2_111], 130), **columns(kind), max_rows=900)
    found, asked = counted(log, (here, leaning), monkeypatch, history=True)
    whole = Log(frame, **columns(kind)).rows
    hashed = unit_hashes(frame, None if kind == "single" else "e", 0)
    tables = [np.asarray(policy.probabilities(whole.states)) for policy in asked.policies]
    _, cell = np.unique(asked.cells.number(whole, asked.cells.encode(whole.states), tables), return_inverse=True)
    keep = hashed >= asked.limit
    judging = some_episodes(log_stream.replace(whole, hashed=hashed), keep)
    expected = count_rows(judging, cell[keep], len(found.names), 2, blocks=2)
    for name in ("block", "state", "action", "to", "count", "sums", "squares"):
        np.testing.assert_array_equal(getattr(found.counts, name), getattr(expected, name))
    np.testing.assert_array_equal(found.counts.starts, expected.starts)
    rules = (Rule((Condition("x", 0, low=0.5),)), Rule((Condition("x", 0, high=0.2),)))
    parts = [rule_coverage(some_episodes(whole, half), rules, asked.cells.encode(whole.states)[half])
             for half in (whole.episode < 300, whole.episode >= 300)]  # fmt: skip
    both, all_of_it = parts[0] + parts[1], rule_coverage(whole, rules, asked.cells.encode(whole.states))
    np.testing.assert_array_equal(both.rows, all_of_it.rows)
    np.testing.assert_array_equal(both.first, all_of_it.first)
    np.testing.assert_array_equal([both.low, both.high], [all_of_it.low, all_of_it.high])


def test_a_piece_that_was_never_seen_joins_those_of_its_part():
    pieces = join_slivers(np.repeat([1, 1, 2], 40), np.repeat([0, 1, 0], 40), 3, np.arange(2))
    assert pieces.codes.tolist() == [0, 1, 3, 4, 6]
    assert pieces.of(np.array([1, 2, 2, 9, 7]), np.array([1, 0, 1, 0, 2])).tolist() == [3, 4, 1, 0, 5]


def test_where_every_episode_drew_the_cells_all_of_them_are_counted(monkeypatch):
    monkeypatch.setattr(cells, "share_that_draws", lambda log: 1.0)
    log = Log(walks(200), **NAMES, max_rows=300)
    counts = counted_log(log, (here, there), history=True).counts
    assert (counts.count.sum(), counts.starts.sum()) == (log.check.rows, log.check.episodes)


def test_regions_shares_and_ranges_come_from_all_rows():
    frame = walks(4_000, seed=2)
    log, whole = Log(frame, **NAMES, max_rows=2_000), Log(frame, **NAMES)
    told = explain(log, here, there)
    region, (episodes, rows) = told.regions[0], (whole.check.episodes, whole.check.rows)
    inside = region.rule.covers(whole.rows.states)
    met = np.unique(whole.rows.episode[inside])
    assert (region.support.states, region.support.episodes) == (inside.sum(), len(met))
    assert region.support.share == inside.sum() / rows
    assert told.sentences[0].meetings[0].share == len(met) / episodes
    assert told.sentences[0].support.states == rows
    ranges = zip(told.world.features, explain(whole, here, there).world.features, strict=True)
    for held, everyone in ranges:  # ends that ten people reach are sought among the rows that are held
        assert everyone.low <= held.low < held.high <= everyone.high
        assert held.behind == everyone.behind == 10
    high = told.world.features[0].high
    assert len(np.unique(whole.rows.episode[whole.rows.states[:, 0] >= high])) >= 10


def test_segments_of_single_decisions_are_counted_over_all_rows(tmp_path):
    frame = walks(4_000, seed=4).select("x", "y", "a", "r")
    told = explain(Log(frame, **SINGLE, max_rows=1_500), here, there)
    whole = explain(Log(frame, **SINGLE), here, there)
    segment, rule = told.sentences[0], told.regions[0].rule
    inside = int(rule.covers(frame.select("x", "y").to_numpy()).sum())
    assert (segment.support.states, segment.share) == (inside, inside / frame.height)
    width = [one.sentences[0].verdicts[0].difference for one in (told, whole)]
    assert width[0].high - width[0].low < 1.5 * (width[1].high - width[1].low)


def intervals(log):
    return [verdict.difference for verdict in compare_log(log, here, there).verdicts[0]]


def test_rows_that_are_not_held_narrow_intervals_that_still_hold_the_truth():
    """True difference 2, declared range; at a true cover of .95, fewer than 34 of 40 have a chance of .003."""
    names, hits, whole_hits, ratios, gains = {**NAMES, "return_range": (-60, 60)}, 0, 0, [], []
    for seed in range(40):
        frame = memoryless(800, seed=100 + seed)
        few = frame.filter(pl.col("e") < 100)
        one, all_of_it = (intervals(Log(frame, **names, max_rows=most))[0] for most in (few.height, 10**6))
        hits, whole_hits = hits + one.contains(2.0), whole_hits + all_of_it.contains(2.0)
        ratios.append((one.high - one.low) / (all_of_it.high - all_of_it.low))
        if seed < 12:
            short = intervals(Log(few, **names))[0]
            gains.append((short.high - short.low) / (one.high - one.low))
    assert hits >= 34
    assert whole_hits >= 34
    assert 0.8 < np.median(ratios) < 1.25
    assert np.median(gains) > 0.7 * np.sqrt(8)


def test_text_files_tables_and_parquet_give_the_same_answer(tmp_path):
    frame = walks(800, seed=8)
    frame.write_csv(tmp_path / "log.csv")
    frame.write_parquet(tmp_path / "log.parquet")
    sources = (frame, frame.to_pandas(), tmp_path / "log.csv", tmp_path / "log.parquet")
    found = [intervals(Log(source, **NAMES, max_rows=700)) for source in sources]
    assert all(one == found[0] for one in found)


def test_two_workers_count_the_bytes_of_a_plain_loop(tmp_path, monkeypatch):
    for module in (shard_files, log_stream):
        monkeypatch.setattr(module, "SHARD_ROWS", 1_500)
    written(walks(1_500, seed=5), tmp_path, [100, 2_000, 2_001, 4_000], 400)
    log = Log(tmp_path, **NAMES, max_rows=1_000)
    assert len(log_stream.whole_parts(log.read.pieces, "e")) > 2
    alone = (dumps(explain(log, here, there)), intervals(log))
    with joblib.parallel_config(backend="loky", n_jobs=2):
        log = Log(tmp_path, **NAMES, max_rows=1_000)
        assert (dumps(explain(log, here, there)), intervals(log)) == alone


def test_progress_tells_rows_and_rows_per_second(tmp_path, monkeypatch):
    monkeypatch.setattr(log_stream, "SHARD_ROWS", 500)
    written(walks(600), tmp_path, [700], 100)
    said = []
    with listening(lambda what, share, remark: said.append((what, share, remark))):
        intervals(Log(tmp_path, **NAMES, max_rows=400))
    told = [(share, remark) for what, share, remark in said if what == "counting all rows"]
    assert [share for share, _ in told] == sorted(share for share, _ in told)
    assert told[-1][0] == 1.0
    assert "million rows, " in told[-1][1]
    assert told[-1][1].endswith("million per second)")


@pytest.fixture
def work(tmp_path, monkeypatch):
    """A log in files, a work folder, and a list of the parts that were counted."""
    for module in (shard_files, log_stream):
        monkeypatch.setattr(module, "SHARD_ROWS", 500)
    monkeypatch.setattr(shard_files, "BATCH_ROWS", 100)
    files = written(walks(600, seed=9), tmp_path / "log", [700], 100)
    counts, real = [], log_stream.count_part

    def noted(part, reader, count, asked):
        counts.append((count.__name__, part.first))
        return real(part, reader, count, asked)

    monkeypatch.setattr(log_stream, "count_part", noted)
    return files, {**NAMES, "max_rows": 600, "work_folder": tmp_path / "work"}, counts


def test_a_second_pass_takes_everything_from_the_work_folder(work):
    files, options, counts = work
    first = intervals(Log(files, **options))
    parts = len(counts)
    assert parts > 2
    assert intervals(Log(files, **options)) == first
    assert len(counts) == parts
    other = compare_log(Log(files, **options), here, leaning)
    assert len(counts) == 2 * parts
    assert [verdict.difference for verdict in other.verdicts[0]] != first
    damaged = sorted((options["work_folder"] / "cells").iterdir())[0]
    damaged.write_bytes(damaged.read_bytes()[:100])
    assert intervals(Log(files, **options)) == first
    assert intervals(Log(files, **{**options, "work_folder": None})) == first


def test_a_work_folder_that_cannot_be_used_is_named(work):
    files, options, _ = work
    log = Log(files, **options)
    (options["work_folder"] / "cells").write_text("in the way")
    with pytest.raises(InvalidInputError, match=r"cannot use the work folder .*work: File exists"):
        intervals(log)


@pytest.mark.parametrize("stop", [2, 5])
def test_a_pass_that_stopped_goes_on_with_what_is_missing(work, monkeypatch, stop):
    files, options, counts = work
    with monkeypatch.context() as patch:
        real = log_stream.count_part
        patch.setattr(log_stream, "count_part", lambda *task: real(*task) if len(counts) < stop else 1 / 0)
        with pytest.raises(ZeroDivisionError):
            intervals(Log(files, **options))
    done = list(counts)
    assert len(done) == stop
    found = intervals(Log(files, **options))
    assert set(done).isdisjoint(counts[stop:])
    assert found == intervals(Log(files, **{**options, "work_folder": None}))


def test_a_changed_file_is_counted_again(work):
    files, options, _ = work
    before = intervals(Log(files, **options))
    pl.read_parquet(files / "001.parquet").with_columns(pl.col("r") * 2).write_parquet(
        files / "001.parquet", row_group_size=100
    )
    with pytest.warns(match="has changed since this work folder was begun"):
        log = Log(files, **options)
    after = intervals(log)
    assert after != before
    assert after == intervals(Log(files, **{**options, "work_folder": None}))


def test_what_the_first_pass_left_out_is_left_out_of_the_second(tmp_path, monkeypatch):
    for module in (shard_files, log_stream):
        monkeypatch.setattr(module, "SHARD_ROWS", 300)
    monkeypatch.setattr(shard_files, "BATCH_ROWS", 100)
    files = written(walks(500, seed=1), tmp_path / "log", [600, 900], 100)
    spoilt(files / "000.parquet", 2)
    (files / "001.parquet").write_bytes(b"PAR1")
    with pytest.warns(SkippedRowsWarning):
        log = Log(files, **NAMES, max_rows=300, skip_bad=True)
    found, asked = counted(log, (here, there), monkeypatch, history=True)
    whole = all_rows.count_all(log, asked)
    assert (whole.entries.count.sum(), whole.starts.sum()) == (log.check.rows, log.check.episodes)
    to = whole.entries.sizes.parts(whole.entries.keys)[3]
    assert whole.entries.count[to == CUT].sum() == log.check.cut + log.check.gaps
    assert found.start_episodes.sum() == log.check.episodes


def test_a_file_that_breaks_after_it_was_read_is_named_in_one_line(tmp_path):
    files = written(walks(300), tmp_path / "log", [500], 100)
    log = Log(files, **NAMES, max_rows=300)
    _ = log.rows
    spoilt(files / "001.parquet", 1)
    with pytest.raises(InvalidLogError, match=r"the log cannot be read: .*001\.parquet, rows \d+ to \d+") as caught:
        intervals(log)
    assert "\n" not in str(caught.value)


def test_an_episode_too_long_to_be_carried_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(log_stream, "LONGEST", 50)
    monkeypatch.setattr(log_stream, "STREAM_ROWS", 20)
    frame = walks(300).with_columns(pl.when(pl.col("e") < 30).then(0).otherwise(pl.col("e")).alias("e"))
    log = Log(frame.with_columns(pl.col("end") & (pl.col("e") > 0)), **NAMES, max_rows=300)
    monkeypatch.setattr(log_stream, "SLACK", 9.0)
    with pytest.raises(InvalidLogError, match="episode 0 has more than 50 rows and cannot be held"):
        intervals(log)


def test_plans_are_judged_by_episodes_that_did_not_choose_them():
    frame = walks(3_000, seed=6)
    log = Log(frame, **NAMES, max_rows=2_500)
    plans, short = improve(log, here, there), improve(Log(frame.filter(pl.col("e") < 720), **NAMES), here, there)
    gain, narrow = short.plans[-1].gain, plans.plans[-1].gain
    assert narrow.contains(1.75)
    assert narrow.high - narrow.low < 0.7 * (gain.high - gain.low)
    chosen = some_episodes(log.rows, log.rows.turn % 2 == 0)
    assert (chosen.hashed % np.uint64(2) == 0).all()
    assert plans.warnings[0] == log.notes[0]
