"""A whole log study in a process of its own: counts, divergence, regions, verdicts; time and memory beside a group-by.

Both processes read the same files. The group-by is handed the successor of every row as a column and makes no checks.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

MEASURED = """
import json, resource, sys, time
{imports}
begin, cpu = time.perf_counter(), time.process_time()
{work}
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({{"wall s": time.perf_counter() - begin, "cpu s": time.process_time() - cpu,
                  "peak GB": used.ru_maxrss / 1e6, "found": found}}))
"""
BARE = (
    "import polars as pl",
    """
lazy = pl.scan_parquet(sys.argv[1] + "/*.parquet")
keys = ["state", "action", "after", *([(pl.col("episode") % {blocks}).alias("block")] if {blocks} > 1 else [])]
squares = (pl.col("reward") ** 2).sum().alias("square")
found = lazy.group_by(keys).agg(pl.len(), pl.col("reward").sum(), squares).collect(engine="streaming").height
""",
)
COUNTS = (
    "from polidiff.worlds.log import Log\nfrom polidiff.evaluation.logged.counts import count_log",
    """
log = Log(sys.argv[1], **json.loads(sys.argv[2]))
found = len(count_log(log, blocks=2).count)
""",
)
STUDY = (
    "import numpy as np\nfrom polidiff.api import explain\nfrom polidiff.worlds.log import Log",
    """
log = Log(sys.argv[1], **json.loads(sys.argv[2]))
counted = time.perf_counter() - begin
severity = log.features_of(np.arange(log.n_states))[:, 0]
current = np.zeros(log.n_states, dtype=int)
told = explain(log, current, np.where(severity > 1.0, 3, current))
found = {"rows": log.check.rows, "regions": len(told.regions), "sentences": len(told.sentences), "reading s": counted,
         "verdicts": [[v.outcome, v.direction] for v in told.verdicts]}
""",
)


def measured(part: tuple[str, str], folder: Path, columns: dict[str, Any], **words: Any) -> dict[str, Any]:
    """What a part took, alone in a process."""
    work = part[1].format(**words) if words else part[1]
    code = MEASURED.format(imports=part[0], work=work)
    command = [sys.executable, "-c", code, str(folder), json.dumps(columns)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return {name: round(value, 2) if isinstance(value, float) else value for name, value in found.items()}
