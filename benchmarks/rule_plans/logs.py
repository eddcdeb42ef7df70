"""What does a rule plan from a log promise, and what does it truly gain?

Clinicians' logs are drawn from ICU-Sepsis, plans of up to four strict rules are learned from each with
`improve(log, "log", max_rules=4)`, and every plan is valued in the true table. Four figures for the same plan: what raw
counts of the choosing half say, what its shrunk rows say, what the judging half says (this is what is promised, with
its interval), and the truth.
"""

from __future__ import annotations

import copy
import time
from typing import Any

import numpy as np
import polars as pl

from polidiff import Log, improve
from polidiff.domains import icu_sepsis
from polidiff.domains.icu_sepsis import SURVIVAL
from polidiff.evaluation.exact import ExactEvaluator
from polidiff.records.outcome import Outcome
from polidiff.records.plan import Frontier, Plan
from polidiff.worlds.log_converters import simulated_frame
from polidiff.worlds.tabular import TabularMDP

RULES = 4


def icu_log(seed: int, episodes: int) -> Log:
    """Stays of clinicians' patients, told by survival, with the features of each cluster."""
    world = icu_sepsis.world("all")
    told = copy.copy(world)
    told.outcomes = (Outcome("survival", lambda states, actions, after: after == SURVIVAL, prefer="more"),)
    frame = simulated_frame(told, icu_sepsis.current(stochastic=True), episodes, rng=np.random.default_rng((seed, 77)))
    features = pl.DataFrame(np.asarray(world.features, dtype=float), schema=list(world.feature_names))
    features = features.with_columns(state=pl.Series(np.arange(world.n_states)))
    return Log(
        frame.join(features, on="state", how="left", maintain_order="left"),
        state="state", action="action", episode="episode", step="step", terminated="terminated",
        truncated="truncated", reward="survival", return_range=(0, 1), return_name="survival",
        states=world.n_states, actions=list(world.actions), features=list(world.feature_names),
    )  # fmt: skip


def survival(world: TabularMDP, table: np.ndarray) -> float:
    """Expected survival of a policy in the true table; a move that is not admissible there becomes one that is."""
    table = np.where(world.allowed, table, 0.0)
    table = table / table.sum(axis=1, keepdims=True)
    return float(ExactEvaluator(world, table).visits() @ (table * world.rewards).sum(axis=1))


def true_gain(world: TabularMDP, plan: Plan) -> float:
    """What following the plan changes, the clinicians doing the rest."""
    clinicians = np.asarray(icu_sepsis.current(stochastic=True))
    table = clinicians.copy()
    for edit in plan.patch.edits:
        table[list(edit.states or ())] = np.eye(table.shape[1])[edit.proposed]
    return survival(world, table) - survival(world, clinicians)


def study(seeds: range, episodes: int) -> dict[str, Any]:
    """Promised and true gains over many logs."""
    rows = [one_log(seed, episodes) for seed in seeds]
    return summary(seeds, episodes, rows)


def one_log(seed: int, episodes: int) -> list[dict[str, Any]]:
    """Plans of one log, fewest rules first."""
    began, world = time.process_time(), icu_sepsis.world("all")
    frontier = improve(icu_log(seed, episodes), "log", max_rules=RULES, moves="levels", fallback="nearest", gap=1.0)
    seconds = round(time.process_time() - began, 1)
    rows = [{**_row(world, frontier, plan), "seed": seed, "cpu_seconds": seconds} for plan in frontier.plans[1:]]
    print(f"  log {seed}: {rows[-1]}", flush=True)
    return rows


def summary(seeds: range, episodes: int, rows: list[list[dict[str, Any]]]) -> dict[str, Any]:
    """What holds over all logs."""
    return {
        "seeds": [seeds.start, seeds.stop - 1],
        "episodes": episodes,
        "by_rules": {str(k): _summary([r[min(k, len(r)) - 1] for r in rows]) for k in range(1, RULES + 1)},
        "logs": rows,
    }


def _row(world: TabularMDP, frontier: Frontier, plan: Plan) -> dict[str, Any]:
    """Figures of one plan; raw counts that hold a loop say nothing."""
    assert plan.gain is not None
    said = f"gain said by the choosing half with {len(plan.rules)} rules"
    raw = frontier.stats.get(f"{said}, raw")
    return {
        "rules": len(plan.rules),
        "raw": None if raw is None else round(float(raw), 5),
        "shrunk": round(float(frontier.stats[f"{said}, shrunk"]), 5),
        "promised": round(plan.gain.estimate, 5),
        "low": round(plan.gain.low, 5),
        "high": round(plan.gain.high, 5),
        "true": round(true_gain(world, plan), 5),
    }


def _summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Ratios of sums over logs, with the standard error of the promised one (logs resampled)."""
    sums = {name: float(np.sum([row[name] for row in rows])) for name in ("shrunk", "promised", "true")}
    raw = [(row["raw"], row["true"]) for row in rows if row["raw"] is not None]
    pairs = np.array([(row["promised"], row["true"]) for row in rows])
    rng = np.random.default_rng(0)
    drawn = [pairs[rng.integers(0, len(pairs), len(pairs))].sum(axis=0) for _ in range(2000)]
    return {
        "true_gain": round(sums["true"] / len(rows), 5),
        "raw_over_true": round(sum(said for said, _ in raw) / sum(true for _, true in raw), 3),
        **{f"{name}_over_true": round(sums[name] / sums["true"], 3) for name in ("shrunk", "promised")},
        "promised_over_true_se": round(float(np.std([a / b for a, b in drawn])), 3),
        "covered": round(float(np.mean([row["low"] <= row["true"] <= row["high"] for row in rows])), 3),
        "mean_width": round(float(np.mean([row["high"] - row["low"] for row in rows])), 4),
        "truly_better": round(float(np.mean([row["true"] > 0 for row in rows])), 3),
    }
