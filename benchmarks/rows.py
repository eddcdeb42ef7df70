"""Rows of a table of results, kept one by one: a study of hours that is cut short leaves what it has measured."""

from __future__ import annotations

import json
from typing import Any

from benchmarks.__main__ import HERE, circumstances
from polidiff.files import write_whole


def keep_row(benchmark: str, table: str, row: dict[str, Any], key: tuple[str, ...]) -> None:
    """Put a row into the results of a benchmark, in place of the one with the same values of `key`."""
    target = HERE / "results" / f"{benchmark}.json"
    known = json.loads(target.read_text(encoding="utf-8")) if target.exists() else {}
    rows = {tuple(old[name] for name in key): old for old in known.get(table, [])}
    rows[tuple(row[name] for name in key)] = row
    text = json.dumps({**known, **circumstances(), table: list(rows.values())}, indent=1, ensure_ascii=False) + "\n"
    write_whole(target, text)
