"""Does the rule learner find short, true rules, how fast, and where do others do better?

Five sections, each in a process of its own: `objective` (same grid and costs as AIX360), `accuracy` (real sets, costs
chosen on training data), `boxes` (planted rules), `size` (time and memory on a million rows), `start` (first fit in a
new environment). Peers live in an environment of their own; sections that need them are left out when it is missing::

    python -m venv .peers
    .peers/bin/pip install numpy pandas scikit-learn scipy highspy cvxpy ecos wittgenstein imodels six
    .peers/bin/pip install --no-deps aix360==0.3.0
    python -m benchmarks.rules                # all sections; --smoke for the smallest sizes

`POLIDIFF_PEERS` names another interpreter, `POLIDIFF_DATA` a folder with further sets as CSV (class in `label`),
`POLIDIFF_REPEATS` another number of splits and seeds than 20, `POLIDIFF_ROWS` a folder where rows are kept as they come
and taken from when a run is repeated.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SECTIONS = ("start", "boxes", "size", "objective", "accuracy")


def run(smoke: bool) -> dict[str, Any]:
    """Results of all sections, with versions and settings."""
    return {section: run_section(section, smoke) for section in SECTIONS}


def run_section(section: str, smoke: bool) -> dict[str, Any]:
    """One section in a fresh process, with the peers if there are any."""
    peers = Path(os.environ.get("POLIDIFF_PEERS", ROOT / ".peers" / "bin" / "python"))
    interpreter = str(peers) if peers.exists() else sys.executable
    command = [interpreter, "-W", "ignore", "-m", "benchmarks.rules.sections", section, *(["--smoke"] if smoke else [])]
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": paths}
    done = subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found
