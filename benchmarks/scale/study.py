"""A whole log study in a process of its own: counts, divergence, regions, verdicts; time and memory beside a group-by.

Both processes read the same files. A group-by makes no checks. One is handed the successor of every row as a column,
which no log has; another finds it, as the study must.
Libraries are loaded and loops compiled before the clock starts, in either process; what that takes is told apart.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

MEASURED = """
import json, sys, time
loading = time.perf_counter()
{imports}
loading = time.perf_counter() - loading
begin, cpu = time.perf_counter(), time.process_time()
{work}
told = {{"wall s": time.perf_counter() - begin, "cpu s": time.process_time() - cpu, "loading s": loading}}
with open("/proc/self/status") as status:  # what `getrusage` says would include the parent's memory
    peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
print(json.dumps({{**told, "peak GB": peak / 1e6, "found": found}}))
"""
GROUP_BY = """
lazy = pl.scan_parquet(sys.argv[1]){successor}
keys = ["state", "action", "after", *([(pl.col("episode") % {blocks}).alias("block")] if {blocks} > 1 else [])]
squares = (pl.col("reward") ** 2).sum().alias("square")
found = lazy.group_by(keys).agg(pl.len(), pl.col("reward").sum(), squares).collect(engine="streaming").height
"""
SUCCESSOR = """.with_columns(
    after=pl.when("terminated").then(pl.lit(-1, dtype=pl.Int16))
    .when(pl.col("episode") == pl.col("episode").shift(-1)).then(pl.col("state").shift(-1)).otherwise(-2)
)"""
BARE = ("import polars as pl", GROUP_BY.replace("{successor}", ""))
FINDING = ("import polars as pl", GROUP_BY.replace("{successor}", SUCCESSOR))
WARM = """
import numpy as np, polars as pl
from polidiff.api import explain
from polidiff.evaluation.logged.counts import count_log
from polidiff.worlds.log import Log
given = json.loads(sys.argv[2])
row = np.arange(6_000)
few = {"episode": row // 6, "step": row % 6, "state": row % 7, "action": row % 2, "terminated": row % 6 == 5,
       "reward": row * 0.5, "severity": row % 7 * 0.5, "age": row % 7 * 1.0}
few = Log(pl.DataFrame(few), **given)
"""
COUNTS = (
    WARM + "count_log(few, blocks=2)",
    """
log = Log(sys.argv[1], **given)
found = len(count_log(log, blocks={blocks}).count)
""",
)
AGAIN = (
    WARM + "count_log(few, blocks={blocks})\nlog = Log(sys.argv[1], **given)",
    "found = len(count_log(log, blocks={blocks}).count)",
)
STUDY = (
    WARM + "explain(few, np.zeros(7, dtype=int), np.ones(7, dtype=int))",
    """
log = Log(sys.argv[1], **given)
counted = time.perf_counter() - begin
severity = log.features_of(np.arange(log.n_states))[:, 0]
current = np.zeros(log.n_states, dtype=int)
told = explain(log, current, np.where(severity > 1.0, 3, current))
found = {"rows": log.check.rows, "regions": len(told.regions), "sentences": len(told.sentences), "reading s": counted,
         "verdicts": [[v.outcome, v.direction] for v in told.verdicts]}
""",
)


def measured(part: tuple[str, str], source: Path, columns: dict[str, Any], *, blocks: int = 2) -> dict[str, Any]:
    """What a part took, alone in a process."""
    code = MEASURED.format(imports=part[0], work=part[1]).replace("{blocks}", str(blocks))
    command = [sys.executable, "-c", code, str(source), json.dumps(columns)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return {name: round(value, 4) if isinstance(value, float) else value for name, value in found.items()}


def repeated(
    parts: dict[str, tuple[tuple[str, str], int]], source: Path, columns: dict[str, Any], times: int
) -> dict[str, Any]:
    """Every part so many times, in turn: the fastest run of each, all wall times, ratios of fastest and middle runs."""
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in parts}
    for _ in range(times):
        for name, (part, blocks) in parts.items():
            runs[name].append(measured(part, source, columns, blocks=blocks))
    told: dict[str, Any] = {}
    for name, found in runs.items():
        best = min(found, key=lambda run: float(run["wall s"]))
        told[name] = {key: round(value, 2) if isinstance(value, float) else value for key, value in best.items()}
        told[name]["all wall s"] = [round(run["wall s"], 2) for run in found]
        told[name]["middle wall s"] = round(median(run["wall s"] for run in found), 2)
        told[name]["peak GB"] = round(max(run["peak GB"] for run in found), 2)
    bare = [name for name in parts if name.startswith("group-by")]
    ratios = {
        f"{name} / {base}": {
            unit: round(told[name][unit] / max(told[base][unit], 0.01), 2)
            for unit in ("wall s", "middle wall s", "cpu s")
        }
        for name in parts
        for base in bare
        if name not in bare
    }
    return {**told, "ratios": ratios}
