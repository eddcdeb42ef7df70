"""Whoever has every number of a result, and the rules beside them, cannot compute a few people by subtraction.

The attacker reads the JSON form, which holds all that text, Markdown and page are made from, each number in full. A
count is found where a number, what it leaves of the people it is a share of, or its difference from the number of a
group that holds it lies between one and `min_group`. A multiple of `min_group` stands for all counts that round to it,
so nothing is found with one; shares of starts that were judged on half of a log are no counts. A mean is found where a
number, or a total less the parts, is the mean of a few.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings

from polidiff import Log, explain, improve
from polidiff.records.codec import Json, encode
from polidiff.records.disclosure import few, shares
from polidiff.records.explanation import Explanation
from polidiff.records.plan import Frontier
from polidiff.records.rule import within
from polidiff.records.suppression import suppressed
from polidiff.report.markdown import markdown
from polidiff.report.page import page_html
from tests.results import results

LEAST = 10


def told_shares(told: Explanation) -> Iterator[tuple[str, float, float]]:
    """Every share of people that a result tells, with how many it is a share of."""
    n = told.world.units
    for region in told.regions:
        people, shift = region.support.episodes, region.shift
        decisions = max(people, region.support.share * told.world.facts["rows"])  # several may be one person's
        yield from (("an action", entry.people / people, people) for entry in region.support.actions)
        yield from (("a chance", c, decisions) for e in region.support.actions for c in (e.current, e.proposed))
        yield from (("a swap", swap.share, decisions) for swap in region.swaps)
        yield from (("a shift", c, decisions) for c in ([shift.current, shift.proposed] if shift else []))
        yield "precision", region.precision, decisions
        yield "recall", region.recall, told.changes * n
        yield "beyond the log", region.support.unsupported or 0.0, decisions
    for sentence in told.sentences:
        people, paths = sentence.support.episodes, [sentence.path_share, *(p.share for p in sentence.others)]
        yield from (("a path", path, people) for path in (*paths, sum(paths)))
        yield from (("a meeting", meeting.share, people) for meeting in sentence.meetings)
        yield "fidelity", 1.0 if sentence.path_fidelity is None else sentence.path_fidelity, people
        decisions = max(people, sentence.support.share * told.world.facts["rows"])
        yield "precision", 1.0 if sentence.precision is None else sentence.precision, decisions
        yield from (("beyond the log", v.unsupported or 0.0, decisions) for v in sentence.verdicts)
    yield from (("beyond the log", v.unsupported or 0.0, told.world.facts["rows"]) for v in told.verdicts)
    yield from (("those worse off", tail.share_worse, n) for tail in told.tails)
    yield "a change", told.changes, told.world.facts["episodes"]


def found_counts(told: Explanation | Frontier) -> list[tuple[str, float]]:
    """Counts of a few that follow from what is told."""
    n = told.world.units
    found = [("a name", left) for by in told.world.people.values() for left in (*by.values(), n - sum(by.values()))]
    if isinstance(told, Frontier):
        rules = [(r.rule, r.move, r.changes * n) for plan in told.plans for r in plan.rules]
        found += [("a plan", plan.changes * n) for plan in told.plans] + [("a rule", size) for _, _, size in rules]
        pairs = [(a, b) for a in rules for b in rules if a[1] == b[1] and within(a[0], b[0])]
        found += [("a rule in another", abs(a[2] - b[2])) for a, b in pairs]
    else:
        for what, share, people in told_shares(told):
            if abs(share * people / LEAST - round(share * people / LEAST)) > 1e-6:
                found += [(what, share * people), (f"all but {what}", (1 - share) * people)]
        groups = [(r.rule, r.support.episodes) for r in told.regions]
        groups += [(s.start, s.support.episodes) for s in told.sentences if not s.also]
        groups += [(s.start, s.share * n) for s in told.sentences if abs(s.share * n - s.support.episodes) < 0.5]
        groups += [(w.start, w.share * n) for w in told.worse_off]
        found += [("a group", left) for _, size in groups for left in (size, n - size)]
        nested = [(a, b) for a in groups for b in groups if a[0] and b[0] and within(a[0], b[0])]
        found += [("a group in another", abs(a[1] - b[1])) for a, b in nested]
        for parts in (told.regions, told.sentences):
            found.append(("a list", n - sum(part.support.episodes for part in parts)))
    return [(what, count) for what, count in found if few(count, LEAST) and abs(count - LEAST) > 0.5]


def numbers(tree: Json) -> Iterator[float]:
    if isinstance(tree, (int, float)):
        yield float(tree)
    for part in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
        yield from numbers(part)


def found_means(told: Explanation | Frontier, means: dict[str, tuple[int, float]]) -> list[str]:
    """Names of the few whose mean is told, or follows from a total less some of its parts."""
    n, values = told.world.units, set(numbers(encode(told)))
    if isinstance(told, Explanation):
        for of in ("current", "proposed", "difference"):
            total = getattr(told.verdicts[0], of)
            parts = [(s.share * n, getattr(s.verdicts[0], of)) for s in told.sentences if s.verdicts]
            parts = [(size, span.estimate) for size, span in parts if span is not None]
            for taken in (t for k in range(1, len(parts) + 1) for t in combinations(parts, k) if total is not None):
                left = n - sum(size for size, _ in taken)
                rest = n * total.estimate - sum(size * mean for size, mean in taken)
                values |= {rest / left} if left > 0.5 else set()
                values |= {rest / k for k in range(1, LEAST)}
    else:
        returns = [plan.expected_return for plan in told.plans] + [told.optimum, told.current_return]
        values |= {(a - b) * n / k for a in returns for b in returns for k in range(1, LEAST)}
    return [name for name, (_, mean) in means.items() if any(math.isclose(mean, x, rel_tol=1e-7) for x in values)]


def drawn(seed: int, *, features: bool, steps: int) -> tuple[Log, dict[str, tuple[int, float]]]:
    """A log with a few in a place and a few with an action, and how many they are with the mean of what they had."""
    rng = np.random.default_rng([seed, features, steps])
    people = int(rng.integers(100, 220))
    who, at = np.repeat(np.arange(people), steps), np.tile(np.arange(steps), people)
    age = rng.integers(20, 80, people).astype(float)
    age[: rng.integers(1, 9)] = 91.0
    home = rng.choice(["main", "second", "third"], people, p=[0.6, 0.3, 0.1])
    home[-int(rng.integers(1, 9)) :] = "tiny"
    site, age = home[who], age[who] + at
    act = rng.choice(["a", "b", "c"], len(who), p=[0.5, 0.46, 0.04])
    changed = {"old": age > rng.integers(30, 90), "sites": np.isin(site, rng.choice(site, 2))}[
        "old" if features else "sites"
    ]
    frame = pl.DataFrame({"who": who, "at": at, "age": age, "site": site, "act": act, "end": at == steps - 1})
    frame = frame.with_columns(y=rng.random(len(who)), new=np.where(changed, "b", "a"))
    roles = {"episode": "who", "step": "at", "terminated": "end"} if steps > 1 else {}
    log = Log(
        frame, state=["age", "site"] if features else "site", action="act", reward="y", return_range=(0, steps), **roles
    )
    means = {}
    for by in (["site"], ["site", "act"], ["act"], ["site", "new"]):
        for key, rows in frame.group_by(by):
            if 0 < rows["who"].n_unique() < LEAST:
                means[" ".join(map(str, key))] = rows["who"].n_unique(), rows["y"].mean()
    return log, means


@pytest.mark.parametrize(("features", "steps", "seeds"), [(False, 1, 6), (False, 3, 4), (True, 1, 1), (True, 3, 1)])
def test_nobody_finds_a_few_in_what_a_log_is_told_with(features, steps, seeds):
    for seed in range(seeds):
        log, means = drawn(seed, features=features, steps=steps)
        assert means
        told = [suppressed(explain(log, "log" if seed % 2 else "always:a", "column:new"))]
        told.append(suppressed(improve(log, "log" if seed % 2 else "always:a", max_rules=2 if features else None)))
        for record in told:
            assert not found_counts(record)
            assert not found_means(record, means)


@pytest.mark.parametrize(
    ("current", "proposed"),
    [("log", "always:a"), ("log", "always:b"), ("always:a", "column:new"), ("always:b", "column:new")],
)
def test_nobody_counts_the_few_who_got_the_other_of_two_actions(current, proposed):
    rng = np.random.default_rng(0)
    few_rows, y = np.arange(400) < 4, rng.random(400)
    act = rng.choice(["a", "b"], 400) if proposed == "column:new" else np.where(few_rows, "b", "a")
    columns = {"age": rng.random(400), "act": act, "y": y, "new": np.where(few_rows, "a", "b")}
    log = Log(pl.DataFrame(columns), state=["age"], action="act", reward="y")
    told = suppressed(explain(log, current, proposed))
    assert not found_counts(told)
    assert not found_means(told, {"the few": (4, y[:4].mean()), "their part": (4, 1.01 * y[:4].mean() - y.mean())})


@settings(max_examples=150, deadline=None)
@given(results(kinds=("log",)))
def test_nobody_counts_a_few_in_any_result(record):
    assert not found_counts(suppressed(record))


@settings(max_examples=5, deadline=None)
@given(results(kinds=("log",)))
def test_text_markdown_and_page_are_made_from_what_may_be_told(record):
    told = suppressed(record)
    assert (str(record), markdown(record)) == (str(told), markdown(told))
    assert page_html(record) == page_html(told)


def test_the_attacker_finds_what_is_not_hidden():
    log, means = drawn(1, features=False, steps=1)
    everything = suppressed(explain(log, "log", "column:new"), 1)
    assert found_counts(everything)
    assert found_means(everything, means)


@pytest.mark.parametrize("people", [11, 15, 20, 37, 78, 400])
def test_several_counts_are_told_as_one_where_they_speak_of_a_few(people):
    told = [shares([count / people], people, LEAST)[0] for count in range(people + 1)]
    for count in range(people + 1):
        if few(count, LEAST) or few(people - count, LEAST):
            assert told.count(told[count]) > 1
            assert abs(told[count] * people - count) <= LEAST / 2
        else:
            assert told[count] == count / people
