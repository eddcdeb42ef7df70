"""Can verdicts from a log be believed when the log is not what it should be?

Each world of `believe_worlds` writes many logs; each is judged as `explain` judges it. Told are the cover and width of
the interval of the difference, how often a verdict has the wrong sign, how often it has it *without a doubt shown* (no
assumption speaks against it, and it is not called fragile), alarms of all tests together, and how often the truth lies
within the bounds at the world's own strength Γ of unrecorded reasons. ``python -m benchmarks.logs believe``.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from scipy import stats

from benchmarks.logs.believe_worlds import HiddenWorld, worlds
from polidiff import Log
from polidiff.evaluation.assumptions.confounding import Acting, Comparison, Moves, lower_differences
from polidiff.evaluation.logged.assessment import assess
from polidiff.evaluation.logged.compare import compare_log
from polidiff.records.explanation import Verdict
from polidiff.records.outcome import Assumption
from polidiff.worlds.log_rows import LoggedRows

SIZES = (100, 1000, 10_000)
REPETITIONS = {100: 200, 1000: 200, 10_000: 50}
DIGITS = 3


def run(smoke: bool, *, seed: int, names: Sequence[str] = ()) -> list[dict[str, Any]]:
    """One row per world and size; repeated people once more with a log that says who is who."""
    sizes, repetitions = ((100, 1000), {100: 2, 1000: 2}) if smoke else (SIZES, REPETITIONS)
    chosen = [world for world in worlds() if not names or any(name in world.name for name in names)]
    rows = [believe(world, n, repetitions[n], seed=seed) for world in chosen for n in sizes]
    known = [world for world in chosen if world.people is not None]
    return rows + [believe(world, n, repetitions[n], seed=seed, grouped=True) for world in known for n in sizes]


def as_log(world: HiddenWorld, rows: LoggedRows, *, grouped: bool = False) -> Log:
    """The log of a world, as a user would hand it in."""
    columns = {"episode": rows.episode, "state": rows.states, "action": rows.actions, "paid": rows.gains[:, 0]}
    options: dict[str, Any] = {}
    if world.stated:
        columns["chance"], options["probability"] = rows.probability, "chance"
    if grouped and world.people is not None:
        columns["person"], options["group"] = rows.episode // world.people[0], "person"
    frame = pl.DataFrame({**columns, "ended": rows.follow == -1})
    return Log(frame, state="state", action="action", episode="episode", reward="paid", terminated="ended",
               states=world.n_states, actions=world.proposed.shape[1], return_range=world.range, **options)  # fmt: skip


def believe(world: HiddenWorld, episodes: int, repetitions: int, *, seed: int, grouped: bool = False) -> dict[str, Any]:
    """All figures of one world at one size."""
    truth, told, alarms, inside, spent = world.truth, [], [], [], 0.0
    for r in range(repetitions):
        rows = world.rows(episodes, np.random.default_rng((seed, episodes, r)))
        log = as_log(world, rows, grouped=grouped)
        began = time.process_time()
        found = compare_log(log, "log", world.proposed)
        spent += time.process_time() - began
        told.append((found.verdicts[0][0], found.assumptions))
        alarms.append([a.name for a in found.assumptions if a.p_value is not None and a.alarming])
        if world.breaks == "unrecorded reasons":
            inside.append(_inside(world, log, truth))
    verdicts = [verdict for verdict, _ in told]
    cover = float(np.mean([v.pointwise.low <= truth <= v.pointwise.high for v in verdicts]))
    wrong = [_wrong(v, truth) for v in verdicts]
    blind = [bad and not _doubted(v, found) for bad, (v, found) in zip(wrong, told, strict=True)]
    strengths = [v.holds_up_to for v in verdicts if v.holds_up_to is not None]
    return {
        "world": world.name + (" with group" if grouped else ""),
        "breaks": world.breaks,
        "episodes": episodes,
        "repetitions": repetitions,
        "truth": round(truth, DIGITS),
        "cover": round(cover, DIGITS),
        "cover s.e.": round(float(np.sqrt(cover * (1 - cover) / repetitions)), DIGITS),
        "width / truth": round(float(np.median([v.pointwise.width for v in verdicts]) / abs(truth)), DIGITS),
        "decided": round(float(np.mean([v.direction != "unknown" for v in verdicts])), DIGITS),
        "wrong sign": round(float(np.mean(wrong)), DIGITS),
        "wrong sign, no doubt": round(float(np.mean(blind)), DIGITS),
        "any test alarms": round(float(np.mean([bool(names) for names in alarms])), DIGITS),
        "alarms": {name: round(sum(name in each for each in alarms) / repetitions, DIGITS)
                   for name in sorted({name for each in alarms for name in each})},
        "true strength": round(world.strength, 2) if world.breaks == "unrecorded reasons" else None,
        "truth inside at true strength": round(float(np.mean(inside)), DIGITS) if inside else None,
        "median holds up to": round(float(np.median(strengths)), 2) if strengths else None,
        "CPU s": round(spent / repetitions, DIGITS),
    }  # fmt: skip


def _wrong(verdict: Verdict, truth: float) -> bool:
    return (verdict.direction == "more" and truth < 0) or (verdict.direction == "less" and truth > 0)


def _doubted(verdict: Verdict, assumptions: Sequence[Assumption]) -> bool:
    """Whether a reader is told to doubt."""
    weak = verdict.rests_on is not None and "This is fragile" in verdict.rests_on
    return weak or any(assumption.alarming for assumption in assumptions)


def _inside(world: HiddenWorld, log: Log, truth: float) -> bool:
    """Whether the truth lies within the interval at the true strength, every decision confounded."""
    rows = assess(log).rows
    assert rows is not None
    states, actions = world.proposed.shape
    draws = Moves(rows, states, actions).draws(0)
    starts = np.bincount(rows.states[rows.first], minlength=states)[None] / rows.n_episodes
    new = Acting(world.proposed, np.zeros(states, dtype=np.bool_))
    old = Acting(draws.shares, np.ones(states, dtype=np.bool_))
    compared, z = Comparison(draws, new, old, starts, world.range), float(stats.norm.isf(0.025))
    low, below = lower_differences(compared, world.strength)
    high, above = lower_differences(compared.negated(), world.strength)
    return bool(low[0] - z * below[0] <= truth <= -high[0] + z * above[0])


def risk_and_coverage(rows: Sequence[dict[str, Any]]) -> list[dict[str, float]]:
    """Over all worlds: share of logs with a decided verdict, and share of those with the wrong sign."""
    found = []
    for n in sorted({row["episodes"] for row in rows}):
        shares = [[row[key] for key in ("decided", "wrong sign", "wrong sign, no doubt")]
                  for row in rows if row["episodes"] == n]  # fmt: skip
        decided, wrong, blind = (float(share) for share in np.mean(shares, axis=0))
        told = {"decided": decided, "wrong of decided": wrong / max(decided, 1e-9), "wrong and not doubted": blind}
        found.append({"episodes": n, **{name: round(share, DIGITS) for name, share in told.items()}})
    return found
