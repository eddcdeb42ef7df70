"""Run some parts of the benchmark of logs and keep each result as soon as it is there.

::

    python -m benchmarks.logs coverage          # rows of the coverage table, kept one by one
    python -m benchmarks.logs family speed
"""

from __future__ import annotations

import os
import sys

os.environ.setdefault("OMP_NUM_THREADS", "1")

import fcntl
import json
from pathlib import Path
from typing import Any

from benchmarks.__main__ import circumstances
from benchmarks.logs import SEED, believe, cells, measure, parts, paths, promises, scores, settings
from polidiff.files import write_whole

ROW_BY_ROW = {"believe": believe.rows, "paths": paths.rows, "promises": promises.rows}
RESULTS = Path(__file__).resolve().parent.parent / "results" / "logs.json"


def keep(part: str, result: Any) -> None:
    """Put one part into the results; a row of a long table replaces the row of the same cell."""
    folder = os.open(RESULTS.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)  # two parts may run at once
        known = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
        if part == "coverage":
            others = [row for row in known.get(part, []) if _cell(row) != _cell(result)]
            result = sorted([*others, result], key=_cell)
        if part in ROW_BY_ROW:
            rows = {_world(row): row for row in known.get(part, [])}  # a row keeps its place
            result = list({**rows, _world(result): result}.values())
        if part == "scores":
            table, row = result
            tables = known.get(part, {})
            others = [old for old in tables.get(table, []) if _world(old) != _world(row)]
            result = {**tables, table: sorted([*others, row], key=_world)}
        found = {**known, **circumstances(), "settings": settings(), part: result}
        write_whole(RESULTS, json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    finally:
        os.close(folder)


def _cell(row: dict[str, Any]) -> tuple[str, int, bool]:
    return row["task"], row["episodes"], not row["logging policy known"]


def _world(row: dict[str, Any]) -> tuple[int, str]:
    return row.get("rows", row.get("episodes", 0)), row["world"]


def main(names: list[str]) -> None:
    """Run the parts that are named, or all."""
    for name, part in parts(smoke=False).items():
        if names and name not in names:
            continue
        if name == "coverage":
            for cell in cells(smoke=False):
                keep(name, measure(cell, seed=SEED))
        elif name in ROW_BY_ROW:
            for row in ROW_BY_ROW[name](smoke=False):
                keep(name, row)
        elif name == "scores":
            for cell in scores.rows(smoke=False):
                keep(name, cell)
        else:
            keep(name, part())


if __name__ == "__main__":
    main(sys.argv[1:])
