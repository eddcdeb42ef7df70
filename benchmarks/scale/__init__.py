"""What scale costs: reading and studying logs beside the bare group-by, and two processes beside one.

Questions: does a log study read its files about as fast as polars groups them, in how much memory; is a log of features
that does not fit explained from a part of it; and do two workers halve the time of a slow simulator?
``POLIDIFF_SCALE="strong scaling"`` runs one section and keeps what was recorded of the others.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.scale.features import feature_logs
from benchmarks.scale.generator import COLUMNS, write_log
from benchmarks.scale.scaling import strong_scaling
from benchmarks.scale.study import BARE, COUNTS, STUDY, measured


def run(smoke: bool) -> dict[str, Any]:
    """All sections, or those that POLIDIFF_SCALE names (studies, features, strong scaling); the others are kept."""
    asked = os.environ.get("POLIDIFF_SCALE")
    names = [name.strip() for name in asked.split(",")] if asked else list(SECTIONS)
    kept = _recorded() if asked and not smoke else {}
    return kept | {name: SECTIONS[name](smoke) for name in names}


def _recorded() -> dict[str, Any]:
    """What was found before."""
    place = Path(__file__).resolve().parent.parent / "results" / "scale.json"
    found: dict[str, Any] = json.loads(place.read_text(encoding="utf-8")) if place.exists() else {}
    return {name: found[name] for name in SECTIONS if name in found}


def studies(smoke: bool) -> list[dict[str, Any]]:
    """Logs of 1e7 and 1e8 rows (POLIDIFF_BIG_LOG names a folder that holds the larger one)."""
    big = os.environ.get("POLIDIFF_BIG_LOG")
    sizes = [2_000] if smoke else [10_000_000] if big is None else [10_000_000, None]
    found = []
    for rows in sizes:
        if rows is None:
            found.append(study(Path(str(big))))
            continue
        with tempfile.TemporaryDirectory() as folder:
            write_log(Path(folder), rows, per_file=1_000 if smoke else 5_000_000)
            found.append(study(Path(folder)))
    return found


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


def scaling(smoke: bool) -> dict[str, Any]:
    """Two processes beside one."""
    return strong_scaling(8, 2, 4) if smoke else strong_scaling(2048, 8, 100)


SECTIONS = {"studies": studies, "features": features, "strong scaling": scaling}


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
