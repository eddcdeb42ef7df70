"""What scale costs: reading and studying logs beside the bare group-by, and two processes beside one.

Questions: does a log study read its files about as fast as polars groups them, in how much memory, and do two workers
halve the time of a slow simulator?
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.scale.generator import COLUMNS, write_log
from benchmarks.scale.scaling import strong_scaling
from benchmarks.scale.study import BARE, COUNTS, STUDY, measured


def run(smoke: bool) -> dict[str, Any]:
    """Logs of 1e7 and 1e8 rows (POLIDIFF_BIG_LOG names a folder that holds the larger one), and strong scaling."""
    big = os.environ.get("POLIDIFF_BIG_LOG")
    sizes = [2_000] if smoke else [10_000_000] if big is None else [10_000_000, None]
    studies = []
    for rows in sizes:
        if rows is None:
            studies.append(study(Path(str(big))))
            continue
        with tempfile.TemporaryDirectory() as folder:
            write_log(Path(folder), rows, per_file=1_000 if smoke else 5_000_000)
            studies.append(study(Path(folder)))
    return {"studies": studies, "strong scaling": strong_scaling(8 if smoke else 2048, 2 if smoke else 10)}


def study(folder: Path) -> dict[str, Any]:
    """One log: both group-bys, counts alone, and the whole study."""
    plain = {name: value for name, value in COLUMNS.items() if name != "features"}
    found = {
        "group-by": measured(BARE, folder, {}, blocks=1),
        "group-by with halves": measured(BARE, folder, {}, blocks=2),
        "counts": measured(COUNTS, folder, plain),
        "study": measured(STUDY, folder, COLUMNS),
    }
    bare = found["group-by"]["wall s"]
    ratios = {f"{name} / group-by": round(part["wall s"] / bare, 2) for name, part in found.items()}
    return {"rows": found["study"]["found"]["rows"], "ratios of wall time": ratios, **found}
