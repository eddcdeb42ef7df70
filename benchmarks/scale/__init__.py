"""What scale costs: reading and studying logs beside the bare group-by, and two processes beside one.

Questions: does a log study read its files about as fast as polars groups them, in how much memory; do all rows of a log
of features that cannot be held narrow its intervals, and do these still hold the truth; do two workers halve the time
of a slow simulator; what do tasks cost beside their own work; and what do many outcomes and columns cost?
``POLIDIFF_SCALE="strong scaling"`` runs one section and keeps what was recorded of the others.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.scale.features import feature_logs, held_cover
from benchmarks.scale.generator import COLUMNS, write_log
from benchmarks.scale.overhead import overheads
from benchmarks.scale.scaling import strong_scaling
from benchmarks.scale.study import BARE, COUNTS, FINDING, STUDY, repeated
from benchmarks.scale.wide import wide

ROWS, REPEATS = 105_000_000, 7
SUCCESSORS = (8, 160)  # of a state and action; about 150,000 and 2.5 million distinct transitions
PARTS = {
    "group-by": (BARE, 1),
    "group-by that finds successors": (FINDING, 1),
    "group-by with halves": (BARE, 2),
    "counts": (COUNTS, 2),
    "study": (STUDY, 2),
}


def run(smoke: bool) -> dict[str, Any]:
    """All sections, or those that POLIDIFF_SCALE names (see `SECTIONS`); the others are kept."""
    asked = os.environ.get("POLIDIFF_SCALE")
    names = [name.strip() for name in asked.split(",")] if asked else list(SECTIONS)
    kept = _recorded() if asked and not smoke else {}
    return kept | {name: SECTIONS[name](smoke) for name in names}


def _recorded() -> dict[str, Any]:
    """What was found before."""
    place = Path(__file__).resolve().parent.parent / "results" / "scale.json"
    found: dict[str, Any] = json.loads(place.read_text(encoding="utf-8")) if place.exists() else {}
    return {name: found[name] for name in SECTIONS if name in found}


def studies(smoke: bool) -> dict[str, Any]:
    """Logs of 1e8 rows with few and with many distinct transitions.

    They are written for the purpose; or into the folder that POLIDIFF_BIG_LOG names, where they stay for the next time.
    """
    kept = os.environ.get("POLIDIFF_BIG_LOG")
    with tempfile.TemporaryDirectory() as made:
        folder = Path(kept if kept is not None and not smoke else made)
        return {
            f"{followers} successors": _study(folder / str(followers), followers, smoke) for followers in SUCCESSORS
        }


def _study(folder: Path, followers: int, smoke: bool) -> dict[str, Any]:
    if not folder.exists():
        folder.mkdir(parents=True)
        rows, per_file = (2_000, 1_000) if smoke else (ROWS, 5_000_000)
        write_log(folder, rows, per_file=per_file, followers=followers)
    return repeated(PARTS, folder, COLUMNS, 1 if smoke else REPEATS)


def features(smoke: bool) -> list[dict[str, Any]]:
    """A log of features of which few rows are held; and one that can also be held whole, to compare the answers."""
    sizes: list[tuple[int, tuple[int | None, ...]]] = (
        [(2_000, (500, None))] if smoke else [(1_000_000, (200_000, None)), (20_000_000, (1_000_000,))]
    )
    found = []
    for rows, held in sizes:
        with tempfile.TemporaryDirectory() as folder:
            found.append(feature_logs(Path(folder), rows, held=held, per_file=500 if smoke else 2_500_000))
    return found


def cover(smoke: bool) -> list[dict[str, Any]]:
    """Intervals from all rows, over cells that fewer and fewer rows have drawn."""
    sizes = ((100, 0.5),) if smoke else ((2_000, 0.5), (6_000, 0.3))
    return [held_cover(episodes, exploring, 1 if smoke else 40, seed=7_000) for episodes, exploring in sizes]


def scaling(smoke: bool) -> dict[str, Any]:
    """Two processes beside one."""
    return strong_scaling(8, 2, 4) if smoke else strong_scaling(2048, 8, 100)


SECTIONS = {
    "studies": studies,
    "features": features,
    "features cover": cover,
    "strong scaling": scaling,
    "overhead": overheads,
    "wide": wide,
}
