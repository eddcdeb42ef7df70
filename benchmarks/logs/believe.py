"""Can verdicts from a log be believed when the log is not what it should be?

Each world of `believe_worlds`, and three of `feature_worlds`, writes many logs; each is judged as `explain` judges it.
Told are the cover and width of the interval of the difference, how often a verdict has the wrong sign, how often it has
it *without a doubt shown* (no assumption speaks against it, and its sentence has no condition), alarms of all tests
together, how often the truth lies within the bounds at the world's own strength Γ of unrecorded reasons, and for
several strictnesses how many verdicts are told and how many of them are wrong. Importance sampling (PDIS, WIS) and the
doubly robust form (DR), written by hand, judge the same logs. ``python -m benchmarks.logs believe``.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from scipy import stats

from benchmarks.logs import feature_worlds
from benchmarks.logs.believe_worlds import HiddenWorld, worlds
from benchmarks.logs.scores import by_hand, regressed
from polidiff import Log
from polidiff.evaluation.assumptions.confounding import Comparison, Draws, Moves, lower_differences
from polidiff.evaluation.logged.bounds import PolicyBounds, bound_policy
from polidiff.evaluation.logged.compare import judge_log
from polidiff.evaluation.logged.counts import count_rows
from polidiff.evaluation.logged.judge import Question, assess
from polidiff.evaluation.logged.model import Starts, split_policy
from polidiff.evaluation.scores.decisions import decisions_of
from polidiff.evaluation.scores.difference import ScoreIntervals
from polidiff.evaluation.scores.propensity import logging_chances
from polidiff.records.arrays import FloatArray
from polidiff.records.explanation import Verdict
from polidiff.records.outcome import Assumption, Interval
from polidiff.worlds.log_rows import LoggedRows

SEED = 2026  # other seeds chose the rule
REPETITIONS = {100: 100, 1000: 100, 10_000: 20}
CLEAN_REPETITIONS = 200  # of worlds that break nothing: a cover of .95 is then known to ± .03
FEATURES = ("dosing", "offers", "glucose")
FEATURE_REPETITIONS = {100: 40, 200: 40, 1000: 20}
STRENGTHS = (1.0, 1.02, 1.05, 1.1, 1.2, 1.5, 2.0)  # that a verdict must withstand to be told
SPREADS = (1.0, 1.64, 1.96, 2.58, 3.29, 4.0)  # standard errors from 0 at which a peer tells one
DIGITS = 3


@dataclass(frozen=True)
class Judged:
    """One log and what was said of it."""

    log: Log
    verdict: Verdict
    assumptions: tuple[Assumption, ...]
    peers: dict[str, tuple[ScoreIntervals, float]]  # with CPU seconds
    spent: float  # CPU seconds

    @property
    def alarms(self) -> list[str]:
        """Tests that speak against their assumption."""
        return [a.name for a in self.assumptions if a.p_value is not None and a.alarming]

    @property
    def doubted(self) -> bool:
        """Whether a reader is told to doubt: an assumption speaks against the verdict, or its own sentence does."""
        return self.verdict.note is not None or any(assumption.alarming for assumption in self.assumptions)


def rows(smoke: bool, names: Sequence[str] = ()) -> Iterator[dict[str, Any]]:
    """One row per world and size, as soon as it is there; repeated people once more with `group`."""
    for n, repetitions in ({100: 1} if smoke else FEATURE_REPETITIONS).items():
        for name in FEATURES[: 1 if smoke else None]:
            if not names or name in names:
                yield believe_features(feature_worlds.WORLDS[name], n, repetitions, seed=SEED)
    chosen = [(world, False) for world in worlds()] + [(world, True) for world in worlds() if world.people is not None]
    for n, repetitions in ({100: 2} if smoke else REPETITIONS).items():
        for world, grouped in chosen:
            if not names or any(name in world.name for name in names):
                logs = repetitions if smoke or world.breaks else CLEAN_REPETITIONS
                yield believe(world, n, logs, seed=SEED, grouped=grouped)


def believe(world: HiddenWorld, episodes: int, repetitions: int, *, seed: int, grouped: bool = False) -> dict[str, Any]:
    """All figures of one world with labelled states at one size."""
    judged, inside = [], []
    for r in range(repetitions):
        rows = world.rows(episodes, np.random.default_rng((seed, episodes, r)))
        judged.append(_judged(as_log(world, rows, grouped=grouped), world.proposed, _peers(world, rows)))
        if world.breaks == "unrecorded reasons":
            inside.append(_inside(world, judged[-1].log, world.truth))
    hidden = world.breaks == "unrecorded reasons"
    return {
        **_figures(world.name + (" with group" if grouped else ""), world.breaks, episodes, world.truth, judged),
        "true strength": round(world.strength, 2) if hidden else None,
        "truth inside at true strength": round(float(np.mean(inside)), DIGITS) if inside else None,
    }


def believe_features(world: feature_worlds.World, episodes: int, repetitions: int, *, seed: int) -> dict[str, Any]:
    """All figures of one world with measured states at one size; chances of actions are estimated."""
    judged = []
    for r in range(repetitions):
        rows = feature_worlds.play(world, world.current, episodes, np.random.default_rng((seed, episodes, r)))
        log = feature_worlds.as_log(world, rows)

        def proposed(x: FloatArray) -> FloatArray:
            return feature_worlds.chances(world.proposed(np.asarray(x, dtype=float)), world.n_actions)

        judged.append(_judged(log, proposed, _feature_peers(world, rows)))
    row = _figures(f"features: {world.name}", "", episodes, feature_worlds.truth(world), judged)
    return {**row, "true strength": None, "truth inside at true strength": None}


def _judged(log: Log, proposed: Any, peers: dict[str, tuple[ScoreIntervals, float]]) -> Judged:
    began = time.process_time()
    found = judge_log(log, Question("log", proposed))
    return Judged(log, found.verdicts[0][0], found.assumptions, peers, time.process_time() - began)


def _figures(name: str, breaks: str, episodes: int, truth: float, judged: Sequence[Judged]) -> dict[str, Any]:
    verdicts, n = [each.verdict for each in judged], len(judged)
    cover = float(np.mean([v.pointwise.contains(truth) for v in verdicts]))
    wrong = [_wrong(v, truth) for v in verdicts]
    strengths = [v.holds_up_to for v in verdicts if v.holds_up_to is not None]
    alarms = [each.alarms for each in judged]
    return {
        "world": name,
        "breaks": breaks,
        "episodes": episodes,
        "repetitions": n,
        "truth": round(truth, DIGITS),
        "cover": round(cover, DIGITS),
        "cover s.e.": round(float(np.sqrt(cover * (1 - cover) / n)), DIGITS),
        "width / truth": round(float(np.median([v.pointwise.width for v in verdicts]) / abs(truth)), DIGITS),
        "decided": _share(v.direction != "unknown" for v in verdicts),
        "wrong sign": _share(wrong),
        "wrong sign, no doubt": _share(bad and not each.doubted for bad, each in zip(wrong, judged, strict=True)),
        "any test alarms": _share(bool(names) for names in alarms),
        "alarms": {
            name: _share(name in each for each in alarms) for name in sorted({a for each in alarms for a in each})
        },
        "median holds up to": round(float(np.median(strengths)), 2) if strengths else None,
        "decided where a peer is right": _decided_where_a_peer_is_right(judged, truth),
        "curve": [[gamma, *_told(verdicts, truth, gamma)] for gamma in STRENGTHS],
        "CPU s": round(float(np.mean([each.spent for each in judged])), DIGITS),
        "peers": {name: _peer([each.peers[name] for each in judged], truth) for name in judged[0].peers},
    }


def _decided_where_a_peer_is_right(judged: Sequence[Judged], truth: float) -> float | None:
    """Share of logs with our right verdict among those in which the better of PDIS and DR decides rightly."""
    ways = [[_right(each.peers[name][0].alone(0), truth) for each in judged] for name in ("PDIS", "DR")]
    ours = [each.verdict.direction == ("more" if truth > 0 else "less") for each in judged]
    asked = [own for own, peer in zip(ours, max(ways, key=sum), strict=True) if peer]
    return _share(asked) if asked else None


def _right(interval: Interval, truth: float) -> bool:
    return interval.low > 0 if truth > 0 else interval.high < 0


def _told(verdicts: Sequence[Verdict], truth: float, gamma: float) -> tuple[float, float]:
    """Shares of the logs with a verdict that withstands Γ, and with one that does and is wrong."""
    told = [v.direction in ("more", "less") and (v.holds_up_to is None or v.holds_up_to >= gamma) for v in verdicts]
    return _share(told), _share(here and _wrong(v, truth) for here, v in zip(told, verdicts, strict=True))


def _peer(found: Sequence[tuple[ScoreIntervals, float]], truth: float) -> dict[str, Any]:
    ends = [interval.alone(0) for interval, _ in found]
    ratio = np.array([part.estimate[0] / max(float(part.error[0]), 1e-300) for part, _ in found])
    return {
        "cover": _share(end.contains(truth) for end in ends),
        "width / truth": round(float(np.median([end.width for end in ends]) / abs(truth)), DIGITS),
        "right": _share(_right(end, truth) for end in ends),
        "wrong": _share(_right(end, -truth) for end in ends),
        "curve": [[z, _share(np.abs(ratio) > z), _share(ratio * np.sign(truth) < -z)] for z in SPREADS],
        "CPU s": round(float(np.mean([spent for _, spent in found])), DIGITS),
    }


def _share(values: Any) -> float:
    return round(float(np.mean([bool(value) for value in values])), DIGITS)


def _peers(world: HiddenWorld, rows: LoggedRows) -> dict[str, tuple[ScoreIntervals, float]]:
    """PDIS, WIS and DR with shares of actions in each state, and values of a table that is solved."""
    began = time.process_time()
    draws = _draws(rows, world)
    worth = np.append(_bounds(rows, world, world.proposed).centre[0], 0.0)
    values = np.bincount(draws.pair, draws.chance * (draws.gain + worth[draws.to]), draws.visits.size)
    decisions = decisions_of(
        replace(rows, states=rows.states[:, None].astype(float), probability=None), draws.n_actions
    )
    state, table = rows.states[decisions.order], world.proposed[rows.states[decisions.order]]
    ratio = (world.proposed / np.maximum(draws.shares, 1e-12))[state, decisions.actions]
    found = by_hand(decisions, ratio, values.reshape(draws.visits.shape)[state], table)
    spent = time.process_time() - began
    return {name: (interval, spent / len(found)) for name, interval in found.items()}


def _feature_peers(world: feature_worlds.World, rows: LoggedRows) -> dict[str, tuple[ScoreIntervals, float]]:
    """PDIS, WIS and DR with regressed values, and the chances of the logged actions estimated as ours are."""
    began = time.process_time()
    decisions = decisions_of(rows, world.n_actions)
    new = feature_worlds.chances(world.proposed(decisions.x), world.n_actions)
    logged = logging_chances(replace(decisions, probability=None)).logged
    ratio = new[np.arange(len(new)), decisions.actions] / logged
    found = by_hand(decisions, ratio, regressed(decisions, new), new)
    spent = time.process_time() - began
    return {name: (interval, spent / len(found)) for name, interval in found.items()}


def _draws(rows: LoggedRows, world: HiddenWorld) -> Draws:
    states, actions = world.proposed.shape
    return Moves(count_rows(rows, rows.states, states, actions).edges, rows, actions).draws(0)


def _bounds(rows: LoggedRows, world: HiddenWorld, table: FloatArray, *, by_log: bool = False) -> PolicyBounds:
    """A policy (S, A) in the log's own model, from its starts."""
    starts = np.bincount(rows.states[rows.first], minlength=len(table))[None] / rows.n_episodes
    target = split_policy(table, None, same=np.full(len(table), by_log))
    edges = count_rows(rows, rows.states, *table.shape, blocks=1).edges
    return bound_policy(edges, target, Starts(starts, np.array([float(rows.n_episodes)])), [world.range])


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


def _wrong(verdict: Verdict, truth: float) -> bool:
    return (verdict.direction == "more" and truth < 0) or (verdict.direction == "less" and truth > 0)


def _inside(world: HiddenWorld, log: Log, truth: float) -> bool:
    """Whether the truth lies within the interval at the true strength, every decision confounded."""
    rows = assess(log).rows
    assert rows is not None
    draws, z = _draws(rows, world), float(stats.norm.isf(0.025))
    new, old = _bounds(rows, world, world.proposed), _bounds(rows, world, draws.shares, by_log=True)
    compared = Comparison(draws, new, old, 0, [0])
    low, below = lower_differences(compared, world.strength)
    high, above = lower_differences(compared.negated(), world.strength)
    return bool(low[0] - z * below[0] <= truth <= -high[0] + z * above[0])
