"""How much does an installation weigh, beside those of peers, which libraries are the weight, and what do they save?

The size of a library is that of the files that its installer recorded, without compiled bytecode, which Python makes
anew. The weight of a package is that of itself and of all that it requires without extras. ``POLIDIFF_PEERS`` names a
folder with one virtual environment per peer, called like the peer; without it only ours is measured. The heaviest
library compiles loops: a log of single decisions is explained and improved with and without it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from time import process_time
from typing import Any

OWN = "polidiff"
HEAVY = 1.0  # megabytes from which a library is listed
ROWS = 3_000  # of the log that is explained and improved
_NAME = re.compile(r"[\w.-]+")


def run(smoke: bool) -> dict[str, Any]:
    """Megabytes of every library that polidiff needs, and of every peer as a whole."""
    environments = os.environ.get("POLIDIFF_PEERS")
    folders = sorted(Path(environments).iterdir()) if environments and not smoke else []
    peers = {folder.name: weights(folder.name, _packages(folder)) for folder in folders if _packages(folder)}
    ours = peers.pop(OWN, None) or weights(OWN, sys.path)
    return {
        "ours": {name: size for name, size in ours.items() if size >= HEAVY},
        "whole": {name: round(sum(sizes.values()), 1) for name, sizes in {OWN: ours, **peers}.items()},
        "libraries": {name: len(sizes) for name, sizes in {OWN: ours, **peers}.items()},
        "seconds of computing": {name: _elsewhere(off, smoke) for name, off in (("compiled", "0"), ("plain", "1"))},
    }


def _elsewhere(off: str, smoke: bool) -> dict[str, float]:
    words = [sys.executable, "-m", "benchmarks.install_size", str(300 if smoke else ROWS)]
    done = subprocess.run(
        words, env={**os.environ, "NUMBA_DISABLE_JIT": off}, stdout=subprocess.PIPE, text=True, check=True
    )
    spent: dict[str, float] = json.loads(done.stdout)
    return spent


def answered(rows: int) -> dict[str, float]:
    """Seconds of computing for two answers from a log of single decisions; loops were compiled before the clock."""
    import numpy as np
    import polars as pl

    from polidiff import Log, explain, improve

    rng = np.random.default_rng(0)
    x, y, treated = rng.random(rows), rng.random(rows), rng.integers(0, 2, rows)
    paid = (x > 0.5) * treated + rng.normal(0, 0.2, rows)
    frame = pl.DataFrame({"x": x, "y": y, "treated": treated, "paid": paid})
    spent = {}
    for verb, ask in (
        ("explain", lambda log: explain(log, "log", _above_half)),
        ("improve", lambda log: improve(log, "log", max_rules=2)),
    ):
        for log in (Log(part, state=["x", "y"], action="treated", reward="paid") for part in (frame[:200], frame)):
            before = process_time()
            ask(log)
            spent[verb] = round(process_time() - before, 2)
    return spent


def _above_half(states: Any) -> Any:
    return (states[:, 0].astype(float) > 0.5).astype(int)


def _packages(environment: Path) -> list[str]:
    return [str(place) for place in environment.glob("lib/python*/site-packages")]


def weights(name: str, places: list[str]) -> dict[str, float]:
    """Megabytes of a package and of each library that it requires, the heaviest first."""
    known = {_plain(found.metadata["Name"]): found for found in metadata.distributions(path=places)}
    waiting, sizes = [_plain(name)], {}
    while waiting:
        one = waiting.pop()
        if one in sizes or one not in known:
            continue
        sizes[one] = round(_size(known[one]) / 1e6, 1)
        needed = (need for need in known[one].requires or () if "extra ==" not in need)
        waiting += [_plain(match[0]) for need in needed if (match := _NAME.match(need))]
    return dict(sorted(sizes.items(), key=lambda entry: -entry[1]))


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _size(found: metadata.Distribution) -> int:
    paths = (Path(str(file.locate())) for file in found.files or () if file.suffix != ".pyc")
    return sum(path.stat().st_size for path in paths if path.is_file())


if __name__ == "__main__":
    print(json.dumps(answered(int(sys.argv[1]))))
