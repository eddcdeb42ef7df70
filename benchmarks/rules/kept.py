"""Rows of a long run, written as they come, so that a run that was cut can go on where it stopped."""

from __future__ import annotations

import json
from collections.abc import Callable
from os import environ
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def each(section: str, keys: list[Row], work: Callable[[Row], Row]) -> list[Row]:
    """`key | work(key)` for every key; with `POLIDIFF_ROWS` (a folder) rows found there are not computed again."""
    folder = environ.get("POLIDIFF_ROWS")
    if folder is None:
        return [key | work(key) for key in keys]
    file = Path(folder) / f"{section}.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    known = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    rows = []
    for key in keys:
        row = next((row for row in known if key.items() <= row.items()), None)
        if row is None:
            row = key | work(key)
            with file.open("a") as kept:
                kept.write(json.dumps(row) + "\n")
        rows.append(row)
    return rows
