"""From a suppressed result nobody computes a count or a mean of fewer than `min_group` people by subtraction."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polidiff import Log, check, evaluate, explain
from polidiff.records.disclosure import filled
from polidiff.records.explanation import ActionSupport, Explanation, RegionEffect, Support, Verdict
from polidiff.records.outcome import Interval, Outcome
from polidiff.records.patch import Patch
from polidiff.records.rule import Condition, Rule
from polidiff.records.suppression import suppressed
from tests.results import ACTIONS, Draw, explanation

LEAST = 10


def interval(values: np.ndarray) -> Interval:
    half = 2 * float(values.std()) / math.sqrt(len(values))
    return Interval(float(values.mean()), float(values.mean()) - half, float(values.mean()) + half, 0.95)


def verdict(before: np.ndarray, after: np.ndarray) -> Verdict:
    gain = interval(after - before)
    return Verdict(
        "return",
        "more",
        gain,
        gain,
        None,
        interval(before),
        interval(after),
        rests_on=f"Rests on {len(before)} episodes.",
    )


def test_people_who_are_told_have_a_decision_each():
    rng = np.random.default_rng(9)
    person = np.sort(np.r_[np.arange(23), rng.integers(0, 23, 9)])  # 23 people, 32 decisions
    word, taken = np.where(rng.random(32) < 0.5, "u", "v"), np.where(rng.random(32) < 0.5, "A", "B")
    rows = pl.DataFrame({"who": person, "word": word, "x": rng.normal(size=32), "taken": taken, "paid": rng.random(32)})
    log = Log(rows, state=["word", "x"], action="taken", reward="paid", group="who")
    told = suppressed(explain(log, "log", lambda states: np.where(states[:, 0] == "u", "B", "A")))
    met = {value: len({who for who, w in zip(person, word, strict=True) if w == value}) for value in "uv"}
    assert any(23 - LEAST < people < 23 for people in met.values())  # so that those who are not there are a few
    parts = [(r.support.episodes, 32 * r.support.share) for r in told.regions]
    parts += [(s.support.episodes, 32 * s.share) for s in told.sentences]
    assert parts
    assert all(people <= decisions + 1e-9 for people, decisions in parts)


def partitioned(seed: int, sizes: list[int], changed: int) -> Explanation:
    """A result of a one-step log that falls into parts of these sizes; the first ones change."""
    rng, draw = np.random.default_rng(seed), Draw(seed, "log", named=False)
    n, ends = sum(sizes), np.cumsum(sizes)
    before = (rng.random(n) < rng.random(len(sizes)).repeat(sizes)).astype(float)
    after = np.where(np.arange(n) < ends[changed - 1], before + (rng.random(n) < 0.5), before)
    parts = [slice(end - size, end) for size, end in zip(sizes, ends, strict=True)]
    rules = [Rule((Condition("age", 0, low=float(k), high=k + 1.0),)) for k in range(len(sizes))]
    regions, sentences = [], []
    for k, (part, rule, size) in enumerate(zip(parts, rules, sizes, strict=True)):
        support = Support(size, size, size / n, None, (ActionSupport("wait", size, 1.0, 0.0),))
        outside = np.where((np.arange(n) < part.start) | (np.arange(n) >= part.stop), after - before, 0.0)
        effect = RegionEffect({"return": interval((after - before) - outside)}, {"return": interval(outside)})
        region = replace(draw.region(k), rule=rule, support=support, recall=size / ends[changed - 1], effect=effect)
        values = {"return": {"wait": float(before[part].mean()), "treat": float(after[part].mean())}}
        regions += [replace(region, action_values=values, swaps=(), key=str(k))] * (k < changed)
        told = verdict(before[part], after[part])
        path = (region.id,) if k < changed else ()
        sentence = draw.sentence([])
        sentences.append(
            replace(sentence, start=rule, also=(), share=size / n, path=path, verdicts=(told,), support=support)
        )
    record = replace(explanation(seed), regions=tuple(regions), sentences=tuple(sentences), worse_off=(), pictures=())
    world = replace(record.world, facts={"rows": n, "episodes": n})
    whole = (verdict(before, after),)
    return replace(
        record, world=world, verdicts=whole, outcomes=(Outcome("return"),), patch=Patch((), ACTIONS),
        changes=float(ends[changed - 1]) / n,
    )  # fmt: skip


SIZES = st.lists(st.sampled_from([1, 2, 4, 5, 9, 30, 47, 200, 333]), min_size=1, max_size=5).filter(
    lambda s: max(s) > 9
)


def attacked(told: Explanation) -> list[tuple[float, float]]:
    """Every count that follows from the total less a part or less all parts, with the share that it is of."""
    n = told.world.units
    found = []
    for parts in (told.regions, told.sentences):
        counts = [[part.support.episodes for part in parts], [round(part.support.share * n, 6) for part in parts]]
        counts.append([sum(a.people for a in part.support.actions) or n for part in parts])
        counts.append([part.support.states for part in parts])
        found += [(n - told, n) for row in counts for told in (*row, sum(row))]
    found += [(n - round(s.share * n, 6), n) for s in told.sentences]
    return found


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), SIZES, st.data())
def test_no_count_of_a_few_follows_from_the_totals(seed, sizes, data):
    told = suppressed(partitioned(seed, sizes, data.draw(st.integers(1, len(sizes)))), LEAST)
    assert not [left for left, _ in attacked(told) if 0.5 < left < LEAST - 0.5]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), SIZES, st.data())
def test_no_sum_over_a_few_follows_from_the_totals(seed, sizes, data):
    record = partitioned(seed, sizes, data.draw(st.integers(1, len(sizes))))
    told, n = suppressed(record, LEAST), sum(sizes)
    few = n - sum(size for size in sizes if size >= LEAST)
    changed = [region.support.episodes for region in record.regions]
    few_changed = sum(size for size in changed if size < LEAST)
    for name in ("current", "proposed", "difference"):
        hidden = few_changed if name == "difference" else few
        overall = getattr(told.verdicts[0], name)
        if not 0 < hidden < LEAST or overall is None or not math.isfinite(overall.width) or not told.sentences:
            continue
        for k, sentence in enumerate(told.sentences):
            exact = next(s for s in record.sentences if s.start == sentence.start)
            true, said = (getattr(s.verdicts[0], name) for s in (exact, sentence))
            if said is None or math.isnan(said.estimate):  # not told at all
                assert (sentence.verdicts[0].note or "").startswith("not told")
                continue
            spans = (told.verdicts[0].current, told.verdicts[0].proposed, told.verdicts[0].difference)
            spread = max(s.width for s in spans if s is not None and math.isfinite(s.width)) / 4 * math.sqrt(n)
            grid = 2 * LEAST * spread / sentence.support.episodes  # what may hide behind the number told
            assert grid == 0 or abs(said.estimate / grid) < 1e-9 or _steps(said.estimate, grid), (k, name, true, said)
            assert said.low <= true.low + 1e-9
            assert true.high <= said.high + 1e-9


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1), SIZES)
def test_what_is_rounded_still_says_what_it_is_told_to_say(seed, sizes):
    record = partitioned(seed, sizes, 1)
    record = replace(record, outcomes=(Outcome("return", range=(0.0, 2.0)),))
    for sentence in suppressed(record, LEAST).sentences:
        whole = next(s for s in record.sentences if s.start == sentence.start).verdicts[0]
        exact = whole.difference
        for told in (v for v in sentence.verdicts if not math.isnan(v.difference.estimate)):
            low, estimate, high = told.difference.low, told.difference.estimate, told.difference.high
            assert -2.0 <= low <= estimate <= high <= 2.0
            assert exact.contains(0.0) or not told.difference.contains(0.0)
            assert told.current.low >= min(0.0, whole.current.low)
            assert told.current.high <= 2.0
    shares = [s.share for s in suppressed(record, LEAST).sentences]
    assert sum(shares) <= 1 + 1e-9


NOTES = (
    "it has what is needed, but 12\u202f395 decisions are too few to tell",
    "too few from 395 episodes of this group",
    "counted as 395 people, 800 episodes are too few to tell",
)


@pytest.mark.parametrize("note", NOTES)
@pytest.mark.parametrize("few", [0, 5])
def test_why_a_verdict_is_unknown_counts_no_group_that_is_rounded(note, few):
    record = partitioned(3, [395, 400, *[few] * bool(few)], 2)
    told = tuple(replace(s, verdicts=tuple(replace(v, note=note) for v in s.verdicts)) for s in record.sentences)
    for sentence in suppressed(replace(record, sentences=told), LEAST).sentences:
        assert ("395" in (sentence.verdicts[0].note or "")) == (few == 0)


def test_everyone_is_told_as_the_totals_are():
    record = partitioned(3, [400, 5], 2)
    everyone = replace(record.sentences[0], start=None, verdicts=record.verdicts)
    (told,) = suppressed(replace(record, sentences=(everyone,)), LEAST).sentences
    assert told.verdicts[0].difference == record.verdicts[0].difference


def test_shares_of_starts_of_people_who_come_back_stay_as_they_are():
    record = partitioned(3, [45, 30], 1)  # 50 people, of whom many begin in both parts
    world = replace(record.world, facts={"rows": 200, "episodes": 200, "people": 50})
    sentences = tuple(replace(s, share=p) for s, p in zip(record.sentences, (0.7, 0.3), strict=True))
    told = suppressed(replace(record, world=world, sentences=sentences), LEAST)
    assert [s.share for s in told.sentences] == [0.7, 0.3]


def _steps(value: float, least: float) -> bool:
    """Whether a number is a multiple of a round step that is at least so large."""
    steps = [d * 10.0**p for p in range(-6, 4) for d in (1, 2, 5)]
    step = next(s for s in steps if s >= least * (1 - 1e-6))
    return abs(value / step - round(value / step)) < 1e-6


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), SIZES, st.data())
def test_an_effect_on_a_few_alone_is_not_told(seed, sizes, data):
    record = partitioned(seed, sizes, data.draw(st.integers(1, len(sizes))))
    told = suppressed(record, LEAST)
    behind = sum(region.support.episodes for region in record.regions)
    assert (told.verdicts[0].note or "").startswith("not told") == (behind < LEAST)
    if behind < LEAST:
        assert told.changes == 0
        assert not math.isfinite(told.verdicts[0].difference.width)
        assert told.verdicts[0].proposed is None
        assert not check(record).passed
    if 0 < sum(r.support.episodes for r in record.regions if r.support.episodes < LEAST) < LEAST and told.regions:
        assert all(not region.effect.without for region in told.regions) or len(told.regions) > 1


@given(st.lists(st.integers(1, 500), min_size=1, max_size=6), st.integers(0, 30), st.integers(2, 20))
def test_counts_add_up_to_all_or_leave_many(counts, rest, least):
    told, n = filled(counts, sum(counts) + rest, least), sum(counts) + rest
    assert not any(0 < n - part < least for part in (*told, sum(told)))
    assert all(0 <= after - before < least for before, after in zip(counts, told, strict=True))


def tiny(site_of_few: str = "Tiny") -> Log:
    """Four people with five rows each beside 300 with one, all of the four with the best outcome."""
    rng = np.random.default_rng(3)
    person = np.r_[np.arange(300), np.repeat([900, 901, 902, 903], 5)]
    site = np.r_[np.repeat("main", 200), np.repeat("second", 100), np.repeat(site_of_few, 20)]
    act = rng.choice(["a", "b"], 320)
    y = (rng.random(320) < 0.4 + 0.2 * (act == "b")).astype(int)
    y[300:] = 1
    frame = pl.DataFrame({"person": person, "site": site, "act": act, "y": y})
    return Log(frame, state="site", action="act", reward="y", return_range=(0, 1), group="person")


def test_evaluate_tells_no_start_of_a_few_nor_lets_it_be_computed():
    log = tiny()
    some = evaluate(log, "log")
    assert set(some.per_start["return"]) == {"main"}  # "second" goes too, or the total would tell
    assert "Tiny" not in str(some)
    assert set(evaluate(log, "log", min_group=1).per_start["return"]) == {"main", "second", "Tiny"}
    named = evaluate(log, "log", evaluation="importance sampling")
    assert set(named.per_start["return"]) == {"main"}


def test_people_are_called_people():
    text = str(explain(tiny(), "always:a", "always:b"))
    assert "fewer than 10 people" in text
    assert "fewer than 10 episodes" not in text


@pytest.mark.parametrize("few", [1, 4, 9])
def test_the_reason_is_that_groups_are_small(few):
    record = partitioned(1, [few, 400], 1)
    text = str(record)
    assert "policy_tolerance" not in text
    assert "too small to be shown" in text
    assert "fewer than 10 decisions" in text
