"""A log of feature states too long to be held: time, memory and answer of an explanation from drawn episodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from benchmarks.scale.study import measured

COLUMNS: dict[str, Any] = {
    "state": ["pressure", "lactate", "age", "dose"],
    "action": "action",
    "episode": "episode",
    "reward": "reward",
    "terminated": "terminated",
    "truncated": False,
}
LENGTH = 10.0  # decisions of a typical episode
EXPLAINED = (
    "import numpy as np\nfrom polidiff.api import explain\nfrom polidiff.worlds.log import Log",
    """
log = Log(sys.argv[1], **json.loads(sys.argv[2]))
reading = time.perf_counter() - begin
told = explain(log, lambda rows: np.zeros(len(rows), dtype=int), lambda rows: (rows[:, 1] > 2.0).astype(int))
one = told.verdicts[0]
found = {"rows": log.check.rows, "rows held": len(log.rows.actions), "reading s": round(reading, 1),
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
