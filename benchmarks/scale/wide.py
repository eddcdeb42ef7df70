"""Many outcomes, and many columns: what an explanation costs where a result is wide rather than long."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from benchmarks.scale.study import measured

WARM = "import numpy as np\nimport polars as pl\nfrom polidiff import Log, Outcome, TabularMDP, explain"
COSTS = """
asked = json.loads(sys.argv[2])
rng, count, size = np.random.default_rng(0), asked["outcomes"], asked["size"]
names = [f"o{k}" for k in range(count)]
"""
TABLE = (
    COSTS
    + """
moves = rng.dirichlet(np.full(size, 0.2), (size, 2)) * 0.9
moves[:, :, -1] += 0.1
moves[-1] = np.eye(size)[-1]
outcomes = [Outcome(name, rng.normal(size=(size, 2)), prefer="more") for name in names]
world = TabularMDP(moves, rng.normal(size=(size, 2)), np.full(size, 1 / size), absorbing=np.arange(size) == size - 1,
                   outcomes=outcomes)
told = explain(world, np.zeros(size, int), (np.arange(size) % 3 == 0).astype(int))
found = {"verdicts": len(told.verdicts), "regions": len(told.regions)}
"""
)
LOG = (
    COSTS
    + """
x, a = rng.random((size, 2)), rng.integers(0, 2, size)
paid = {name: rng.normal(size=size) + 0.1 * a * (x[:, 0] > 0.5) for name in names}
frame = pl.DataFrame({"x": x[:, 0], "y": x[:, 1], "a": a, **paid})
outcomes = [Outcome(name, name, prefer="more", range=(-6, 6)) for name in names]
log = Log(frame, state=["x", "y"], action="a", outcomes=outcomes)
told = explain(log, "log", lambda rows: (rows[:, 0] > 0.5).astype(int))
found = {"verdicts": len(told.verdicts), "regions": len(told.regions)}
"""
)
COLUMNS = """
log = Log(sys.argv[1], **json.loads(sys.argv[2]))
told = explain(log, "log", lambda rows: (rows[:, 0] > 0.5).astype(int))
found = {"verdicts": len(told.verdicts), "regions": len(told.regions), "rows": log.check.rows}
"""


def wide(smoke: bool) -> dict[str, dict[str, Any]]:
    """Seconds and memory of `explain`, each in a process of its own."""
    count, told = (3 if smoke else 300), {}
    for name, work, size in (("table of 200 states", TABLE, 200), ("log of 2,000 decisions", LOG, 2_000)):
        asked = {"outcomes": count, "size": 60 if smoke else size}
        told[f"{name}, {count} outcomes"] = measured((WARM, work), Path("."), asked)
    rows, features = (500, 4) if smoke else (1_000_000, 60)
    with tempfile.TemporaryDirectory() as folder:
        path, rng = Path(folder) / "wide.parquet", np.random.default_rng(0)
        names = [f"x{k}" for k in range(features)]
        action = rng.integers(0, 2, rows)
        frame = pl.DataFrame({name: rng.random(rows) for name in names})
        gain = 0.2 * action * (frame["x0"].to_numpy() > 0.5)
        paid = {"action": action, "paid": (rng.random(rows) < 0.3 + gain).astype(int)}
        frame.with_columns(**{name: pl.Series(values) for name, values in paid.items()}).write_parquet(path)
        asked = {"state": names, "action": "action", "reward": "paid", "return_range": (0, 1)}
        told[f"log of {rows:,} decisions, {features} features"] = measured(
            (WARM, COLUMNS), path, json.loads(json.dumps(asked))
        )
    return told
