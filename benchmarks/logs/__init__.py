"""Do intervals from a log hold, and what do they cost?

Coverage, width, sign errors and family-wise error on worlds whose truth is known (`coverage`), many outcomes at once
(`family`), scores of feature logs (`scores`), their paths and groups of starts (`paths`), logs that break what verdicts
rest on (`believe`), what plans of rules promise (`promises`), time and memory (`speed`), and what tests cost beside the
judge (`cost of doubt`). ``python -m benchmarks.logs PART ...`` runs some parts and keeps every row of a long
table as soon as it is done.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.logs import believe, tasks
from benchmarks.logs.coverage import Cell, measure

SEED = believe.SEED


def cells(smoke: bool) -> list[Cell]:
    """What is measured: small tasks often, large ones less often."""
    chain, lake, lake8, taxi = tasks.chain, tasks.frozen_lake, tasks.large_lake, tasks.taxi
    if smoke:
        return [Cell(chain, 100, 3), Cell(lake, 100, 3), Cell(taxi, 100, 1), Cell(tasks.icu_greedy, 100, 1)]
    icu = (tasks.icu_mixed, tasks.icu_greedy)
    return [
        *(Cell(task, 100_000, 400) for task in (chain, lake, lake8, taxi)),
        *(Cell(task, n, 100) for n in (100_000, 10_000, 1000) for task in icu),
        *(Cell(task, n, 1000) for n in (10_000, 1000, 100) for task in (lake, lake8, chain)),
        *(Cell(taxi, n, 400) for n in (10_000, 1000, 100)),
        *(Cell(tasks.random_task, n, 400) for n in (100, 1000)),
        *(Cell(task, 1000, 100, known=False) for task in (taxi, tasks.icu_mixed)),
    ]


def parts(smoke: bool) -> Mapping[str, Callable[[], Any]]:
    """Name of each part -> what runs it; imported late, because some need other packages."""
    from benchmarks.logs import family, paths, promises, scores, speed

    return {
        "coverage": lambda: [measure(cell, seed=SEED) for cell in cells(smoke)],
        "family": lambda: family.run(smoke, seed=SEED),
        "scores": lambda: scores.run(smoke),
        "believe": lambda: [*believe.rows(smoke)],
        "paths": lambda: [*paths.rows(smoke)],
        "promises": lambda: [*promises.rows(smoke)],
        "speed": lambda: speed.run(smoke),
        "cost of doubt": lambda: speed.doubt(smoke),
    }


def settings() -> dict[str, Any]:
    """What holds for every row."""
    return {"level": 0.95, "starts": "every state met in the log", "start distribution": "known", "seed": SEED}


def run(smoke: bool = False) -> dict[str, Any]:
    """Everything, with settings."""
    return {"settings": settings(), **{name: part() for name, part in parts(smoke).items()}}
