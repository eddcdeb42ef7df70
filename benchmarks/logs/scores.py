"""How well do intervals from scores hold, how wide are they, and what do they cost?

One decision per row: against doubly robust scores with the true nuisances. Several decisions: beside per-decision
importance sampling (PDIS), its self-normalised form (WIS) and the doubly robust form with products of weights (DR), all
on the same logs, as differences to the observed outcome.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.logs.feature_worlds import WORLDS, World, chances, play, truth
from polidiff.evaluation.scores.decisions import Decisions, decisions_of
from polidiff.evaluation.scores.difference import (
    ScoreIntervals,
    against_log,
    aipw,
    difference_scores,
    repeated_scores,
    score_intervals,
)
from polidiff.evaluation.scores.episodes import FittedRows, running_products
from polidiff.evaluation.scores.propensity import Propensity
from polidiff.records.arrays import FloatArray
from polidiff.worlds.log_rows import LoggedRows

SEED = 4711  # constants were chosen on other seeds
ONE_STEP = ("randomised", "observational", "thin overlap")


def one_step_world(kind: str, n: int, g: np.random.Generator) -> dict[str, FloatArray]:
    """Five features, two actions; the chance of the second depends on features unless the kind is randomised."""
    x = g.normal(size=(n, 5))
    base = x[:, 0] + 0.5 * x[:, 1] ** 2 + np.sin(2 * x[:, 2])
    effect = 0.3 + 0.8 * (x[:, 0] > 0.3) * (x[:, 3] < 0.5) - 0.4 * x[:, 1]
    tilt = {"randomised": 0.0 * x[:, 0], "observational": 0.6 * x[:, 0] + 0.5 * (x[:, 3] > 0) - 0.25}
    chance = 1 / (1 + np.exp(-tilt.get(kind, 1.6 * x[:, 0] + 1.2 * x[:, 3])))
    action = (g.random(n) < chance).astype(np.int64)
    new, old = (x[:, 0] + x[:, 3] / 2 > 0).astype(np.int64), (x[:, 1] > 0).astype(np.int64)
    outcome = base + action * effect + g.normal(size=n)
    return {"x": x, "action": action, "outcome": outcome, "chance": np.where(action == 1, chance, 1 - chance),
            "new": new, "old": old, "base": base, "effect": effect}  # fmt: skip


def one_step(kind: str, n: int, logs: int) -> dict[str, float | str | int]:
    """Cover and width of the interval of a policy's effect, chances estimated."""
    large = one_step_world(kind, 2_000_000, np.random.default_rng(999))
    exact = float(((large["new"] - large["old"]) * large["effect"]).mean())
    covered, ratio, began = [], [], time.process_time()
    for number in range(logs):
        w = one_step_world(kind, n, np.random.default_rng([SEED, number]))
        rows = LoggedRows(w["x"], w["action"].astype(int), np.arange(n), np.full(n, -1), w["outcome"][:, None], None)
        decisions = decisions_of(rows, 2)
        new, old = (np.eye(2)[w[name].astype(int)][decisions.order] for name in ("new", "old"))
        scores = repeated_scores(decisions, seed=number)
        found = difference_scores(decisions, new, old, scores.propensity, scores=scores).intervals()
        fitted = np.column_stack([w["base"], w["base"] + w["effect"]])[decisions.order][:, :, None]
        best = aipw(fitted, decisions.actions, decisions.gains, 1 / w["chance"][decisions.order])[:, :, 0]
        oracle = score_intervals(((new - old) * best).sum(axis=1)[:, None])
        covered.append(found.alone(0).contains(exact))
        ratio.append(found.half_alone[0] / oracle.half_alone[0])
    cpu = (time.process_time() - began) / logs
    return {"world": kind, "rows": n, "logs": logs, "cover": float(np.mean(covered)),
            "width to oracle": float(np.median(ratio)), "cpu": cpu}  # fmt: skip


def by_hand(
    decisions: Decisions, ratio: FloatArray, values: FloatArray, table: FloatArray
) -> dict[str, ScoreIntervals]:
    """PDIS, WIS and DR of the proposed policy less the observed outcome, as textbooks have them."""
    weight = running_products(ratio, decisions.first)
    total = decisions.per_unit(decisions.gains)[:, 0]
    last = np.append(decisions.first[1:], True)
    whole = weight[last]
    before = np.where(decisions.first, 1.0, np.concatenate([[1.0], weight[:-1]]))
    here = values[np.arange(len(table)), decisions.actions]
    state = (table * values).sum(axis=1)
    robust = decisions.per_unit((before * state + weight * (decisions.gains[:, 0] - here))[:, None])
    pdis = decisions.per_unit(weight[:, None] * decisions.gains)
    wis = len(whole) * whole / whole.sum() * (total - (whole @ total) / whole.sum()) + (whole @ total) / whole.sum()
    return {name: score_intervals(part - total[:, None])
            for name, part in (("PDIS", pdis), ("WIS", wis[:, None]), ("DR", robust))}  # fmt: skip


def regressed(decisions: Decisions, policy: FloatArray) -> FloatArray:
    """(n, A) values of a policy, from half of the episodes."""
    decisions = replace(decisions, x=np.column_stack([decisions.x, decisions.step]))
    return FittedRows.of(decisions, decisions.unit % 2 == 0, discount=1.0, seed=0).under(policy, 0, decisions.x)


def features(world: World, episodes: int, logs: int, seed: int) -> dict[str, dict[str, float] | float | str | int]:
    """Cover, width, right and wrong signs, for scores and for what is written by hand."""
    exact = truth(world)
    results: dict[str, list[tuple[bool, float, bool, bool]]] = {}
    began = time.process_time()
    for number in range(logs):
        decisions = decisions_of(
            play(world, world.current, episodes, np.random.default_rng([seed, number])), world.n_actions
        )
        new, old = (chances(policy(decisions.x), world.n_actions) for policy in (world.proposed, world.current))
        logged = old[np.arange(len(old)), decisions.actions]
        known = Propensity(old, logged, True)
        found = difference_scores(decisions, new, None, known, seed=number)
        intervals = {"scores": found.intervals()}
        silent = bool(found.reasons(float(intervals["scores"].largest_share[0])))
        intervals |= by_hand(decisions, against_log(decisions, new, known).ratio, regressed(decisions, new), new)
        for name, interval in intervals.items():
            end = interval.joint(0)
            decided = (end.low > 0) - (end.high < 0) if not (silent and name == "scores") else 0
            results.setdefault(name, []).append(
                (end.contains(exact), end.width / max(abs(exact), 1e-9), decided * exact > 0, decided * exact < 0)
            )
    row: dict[str, dict[str, float] | float | str | int] = {
        "world": world.name, "episodes": episodes, "logs": logs, "effect": exact,
        "cpu": (time.process_time() - began) / logs,
    }  # fmt: skip
    for name, parts in results.items():
        cover, _, right, wrong = (float(np.mean(column)) for column in zip(*parts, strict=True))
        width = float(np.median([part[1] for part in parts]))
        row[name] = {"cover": cover, "width to effect": width, "right": right, "wrong": wrong}
    return row


LOGS = {500: 200, 5_000: 200, 50_000: 200}  # of one decision per row


def rows(smoke: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    """All cells, each with the table it belongs to; a smoke run has one small log of each kind."""
    for n, logs in {300: 1}.items() if smoke else LOGS.items():
        yield from (("one step", one_step(kind, n, logs)) for kind in ONE_STEP)
    for name in ["offers"] if smoke else [*WORLDS]:
        yield "features", features(WORLDS[name], 100 if smoke else 1000, 1 if smoke else 40, SEED)


def run(smoke: bool) -> dict[str, list[Any]]:
    """All cells."""
    tables: dict[str, list[Any]] = {"features": [], "one step": []}
    for table, row in rows(smoke):
        tables[table].append(row)
    return tables
