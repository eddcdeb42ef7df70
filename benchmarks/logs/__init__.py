"""Do intervals from a log hold, and what do they cost?

Coverage, width, sign errors and family-wise error on worlds whose truth is known (`coverage`), a state that is not
Markov and a logging policy that is not known (`harder`), and time and memory (`speed`).
"""

from __future__ import annotations

import platform
from typing import Any

import numpy as np
import polars
import scipy

from benchmarks.logs import tasks
from benchmarks.logs.coverage import Cell, measure, noise_family


def cells(smoke: bool) -> list[Cell]:
    """What is measured: small tasks often, large ones less often."""
    chain, lake, lake8, taxi = tasks.chain, tasks.frozen_lake, tasks.large_lake, tasks.taxi
    if smoke:
        return [Cell(chain, 100, 3), Cell(lake, 100, 3), Cell(taxi, 100, 1), Cell(tasks.icu_greedy, 100, 1)]
    return [
        *(Cell(chain, n, 400) for n in (100, 1000)),
        *(Cell(lake, n, 400) for n in (100, 1000)),
        *(Cell(lake8, n, 400) for n in (100, 1000)),
        *(Cell(taxi, n, 400) for n in (100, 1000)),
        *(Cell(icu, n, 100) for n in (1000, 10_000) for icu in (tasks.icu_mixed, tasks.icu_greedy)),
        *(Cell(task, 10_000, 400) for task in (chain, lake, lake8, taxi)),
        *(Cell(tasks.random_task, n, 100) for n in (100, 1000)),
        Cell(taxi, 1000, 100, known=False),
        Cell(tasks.icu_mixed, 1000, 30, known=False),
        *(Cell(task, 100_000, 100) for task in (chain, lake, taxi)),
        *(Cell(icu, 100_000, 30) for icu in (tasks.icu_mixed, tasks.icu_greedy)),
    ]


def run(smoke: bool = False) -> dict[str, Any]:
    """Everything, with settings and versions."""
    from benchmarks.logs import harder, speed

    return {
        "settings": {"level": 0.95, "starts": "every state met in the log", "start distribution": "known"},
        "versions": {"numpy": np.__version__, "scipy": scipy.__version__, "polars": polars.__version__},
        "machine": platform.machine(),
        "coverage": [measure(cell) for cell in cells(smoke)],
        "noise family": [noise_family(n, 3 if smoke else 200) for n in (200, 1000)],
        "not Markov": harder.not_markov(repetitions=3 if smoke else 200),
        "bootstrap": harder.bootstrap_coverage(repetitions=3 if smoke else 200),
        "speed": speed.run(smoke),
    }
