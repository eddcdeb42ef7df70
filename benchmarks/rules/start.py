"""What the first fit costs a new user: the package installed in a new environment, one process, two fits.

Compiled loops are kept in a folder that is empty when the first process starts.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from os import environ
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PROCESSES = 5
FITS = """
import json, time
times = []
for _ in range(2):
    wall, used = time.perf_counter(), time.process_time()
    import numpy as np
    from polidiff.rules import RuleClassifier
    fit = time.perf_counter(), time.process_time()
    X = np.random.default_rng(0).random((2000, 6))
    RuleClassifier().fit(X, (X[:, 0] < 0.3) & (X[:, 1] > 0.5))
    end = time.perf_counter(), time.process_time()
    times.append({"wall": end[0] - wall, "cpu": end[1] - used, "fit wall": end[0] - fit[0], "fit cpu": end[1] - fit[1]})
print(json.dumps(times))
"""


def measure(smoke: bool) -> dict[str, Any]:
    """Seconds by which the first fit of a process exceeds the second, with imports and without."""
    if smoke:
        with tempfile.TemporaryDirectory() as cache:
            return {"first process": _extra(sys.executable, cache)}
    if ready := environ.get("POLIDIFF_FRESH"):  # interpreter of an environment that was made just before
        return _in_environment(ready)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        python = str(Path(folder) / "bin" / "python")
        subprocess.run([python, "-m", "pip", "install", "-q", str(ROOT)], check=True, stdout=subprocess.DEVNULL)
        return _in_environment(python)


def _in_environment(python: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as cache:  # empty: the first process compiles, later ones read
        found = [_extra(python, cache) for _ in range(PROCESSES)]
    return {"first process": found[0], "later processes": found[1:], "unit": "seconds, on the wall and of the CPU"}


def _extra(python: str, cache: str) -> dict[str, float]:
    installed = {name: value for name, value in environ.items() if name != "PYTHONPATH"}
    installed["NUMBA_CACHE_DIR"] = cache
    done = subprocess.run(
        [python, "-c", FITS], check=True, stdout=subprocess.PIPE, text=True, cwd=tempfile.gettempdir(), env=installed
    )
    first, second = json.loads(done.stdout)
    return {name: first[name] - second[name] for name in first}
