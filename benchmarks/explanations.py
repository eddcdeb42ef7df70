"""How well a reader of each form of explanation does, and what the policies of intensive care achieve in their model.

::

    python -m benchmarks explanations
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from polidiff import compare_forms, evaluate, explain, improve
from polidiff.domains import chain, frozen_lake, icu_sepsis, navigation
from polidiff.evaluation.exact import best_policy


def run(smoke: bool = False) -> dict[str, Any]:
    """Every table that the pages about explanations show."""
    tasks = {"chain": _chain} if smoke else {"chain": _chain, "navigation": _navigation, "FrozenLake 8x8": _lake}
    results: dict[str, Any] = {"forms": [row for name, task in tasks.items() for row in _forms(name, task)]}
    return results if smoke else {**results, "intensive care": _intensive_care(), "pages": [_page()]}


def _forms(name: str, task: Callable[[], tuple[Any, Any, Any]]) -> list[dict[str, Any]]:
    scores = compare_forms(*task())
    return [
        {
            "task": name,
            "form": score.form,
            "words": score.length.words,
            "rules": score.length.rules,
            "action right": round(score.action_accuracy, 4),
            "right where changed": _rounded(score.changed_accuracy),
            "direction right": _rounded(score.direction_accuracy),
            "choice right": _rounded(score.choice_accuracy),
        }
        for score in scores
    ]


def _rounded(share: float | None) -> float | None:
    return None if share is None else round(share, 4)


def _chain() -> tuple[Any, Any, Any]:
    return chain.world(), chain.current(), chain.proposed()


def _navigation() -> tuple[Any, Any, Any]:
    return navigation.world(), navigation.current, navigation.proposed_2


def _lake() -> tuple[Any, Any, Any]:
    world = frozen_lake.world(8)
    return world, frozen_lake.current(8), best_policy(world).actions


def _intensive_care() -> list[dict[str, Any]]:
    policies = {
        "`current()`: what clinicians did most often": icu_sepsis.current(),
        "`current(stochastic=True)`: all they did": icu_sepsis.current(stochastic=True),
        "`proposed()`: best among admissible actions": icu_sepsis.proposed(),
    }
    world = icu_sepsis.world()
    achieved = {name: evaluate(world, policy).outcomes for name, policy in policies.items()}
    return [
        {"policy": name, **{outcome: round(judged.estimate, 4) for outcome, judged in outcomes.items()}}
        for name, outcomes in achieved.items()
    ]


def _page() -> dict[str, Any]:
    world, current, proposed = _navigation()
    explanation = explain(world, current, proposed)
    frontier = improve(world, current, candidates=[navigation.proposed_1, proposed])
    sizes = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, result in (("explanation", explanation), ("plans", frontier)):
            begin = time.process_time()
            path = Path(folder, f"{name}.html")
            result.save(path)
            sizes[name] = {"MB": round(path.stat().st_size / 1e6, 2), "CPU s": round(time.process_time() - begin, 1)}
    return {"result": "navigation", **sizes}
