"""A log of feature states too long to be held: time, memory and answer of an explanation, and how often it is right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from benchmarks.logs.plans import navigation_log
from benchmarks.scale.study import measured
from polidiff import evaluate
from polidiff.domains import navigation
from polidiff.evaluation.logged.compare import judge_log
from polidiff.evaluation.logged.judge import Question

COLUMNS: dict[str, Any] = {
    "state": ["pressure", "lactate", "age", "dose"],
    "action": "action",
    "episode": "episode",
    "reward": "reward",
    "terminated": "terminated",
    "truncated": False,
}
HELD = (1.0, 0.25, 0.1, 0.03)  # shares of the rows
LENGTH = 10.0  # decisions of a typical episode
EXPLAINED = (
    "import numpy as np\nfrom polidiff.api import explain\nfrom polidiff.progress import listening\n"
    "from polidiff.worlds.log import Log",
    """
log = Log(sys.argv[1], **json.loads(sys.argv[2]))
reading = time.perf_counter() - begin
paces = {}
with listening(lambda what, share, remark: paces.update({what: remark})):
    told = explain(log, lambda rows: np.zeros(len(rows), dtype=int), lambda rows: (rows[:, 1] > 2.0).astype(int))
one = told.verdicts[0]
found = {"rows": log.check.rows, "rows held": len(log.rows.actions), "reading s": round(reading, 1),
         "passes": {what: remark for what, remark in paces.items() if "rows" in what},
         "regions": [str(region.rule) for region in told.regions], "direction": one.direction,
         "difference": [round(x, 4) for x in (one.difference.low, one.difference.estimate, one.difference.high)]}
""",
)


def write_features(folder: Path, rows: int, *, per_file: int, seed: int = 0) -> None:
    """Measurements that wander within an episode; acting pays where lactate is high and costs where it is not."""
    rng = np.random.default_rng(seed)
    begun = 0
    for number, first in enumerate(range(0, rows, per_file)):
        size = min(per_file, rows - first)
        ends = rng.random(size) < 1 / LENGTH
        ends[-1] |= first + size == rows
        episode = begun + np.cumsum(ends) - ends
        begun = int(episode[-1]) + int(ends[-1])  # an episode may go on in the next file
        x = rng.gamma(2.0, 1.0, size=(size, 4))
        action = (rng.random(size) < 0.3).astype(np.int64)
        pay = np.where(action == 1, np.where(x[:, 1] > 2.0, 0.5, -0.3), 0.0) + rng.normal(0, 0.5, size)
        frame = pl.DataFrame({
            **{name: x[:, j] for j, name in enumerate(COLUMNS["state"])},
            "action": action, "episode": episode, "reward": pay, "terminated": ends,
        })  # fmt: skip
        frame.write_parquet(folder / f"{number:04d}.parquet")


def feature_logs(folder: Path, rows: int, *, held: tuple[int | None, ...], per_file: int) -> dict[str, Any]:
    """The same log with different numbers of rows held; None: as many as by default."""
    write_features(folder, rows, per_file=per_file)
    found = {}
    for most in held:
        limits = {} if most is None else {"max_rows": most}
        name = "as many as by default" if most is None else f"max_rows = {most}"
        found[name] = measured(EXPLAINED, folder, {**COLUMNS, **limits})
    return {"rows": rows, **found}


def held_cover(episodes: int, exploring: float, repetitions: int, *, seed: int) -> dict[str, Any]:
    """Navigation: how often single 95 % intervals hold the true difference, with all rows held and with a part."""
    table, policies = navigation.table(), (navigation.current, navigation.proposed_2)
    worth = [[value.estimate for value in evaluate(table, p(table.features)).outcomes.values()] for p in policies]
    truth = np.array(worth[1]) - worth[0]
    ends: dict[float, list[list[tuple[float, float]]]] = {share: [] for share in HELD}
    for repetition in range(repetitions):
        rows = navigation_log(episodes, exploring, seed + repetition).check.rows
        for share in HELD:
            log = navigation_log(episodes, exploring, seed + repetition, max_rows=int(rows * share))
            verdicts = judge_log(log, Question(*policies)).verdicts[0]
            ends[share].append([(v.pointwise.low, v.pointwise.high) for v in verdicts])
    found: dict[str, Any] = {"episodes": episodes, "random actions": exploring, "repetitions": repetitions}
    for share, told in ends.items():
        low, high = np.moveaxis(np.array(told), 2, 0)
        for k, outcome in enumerate(("return", "stay")):
            found[f"{outcome}, share held {share:g}"] = {
                "cover": round(float(((low <= truth) & (truth <= high))[:, k].mean()), 3),
                "median width": round(float(np.median((high - low)[:, k])), 2),
            }
    return found
