"""Which learner tells the paper's differences best, and in how many words?

Each learner is given to ``explain`` on the paper's continuous domain (the current policy against both proposed ones,
and these against each other) and on the intensive-care table, whose states have many features, with three seeds each.
Measured: F1 of the regions on visits that did not make them, rules, comparisons, share of the outcome differences that
the patch recovers, and processor time. Libraries that are not installed are left out.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from statistics import mean
from typing import Any

from polidiff import explain
from polidiff.domains import icu_sepsis, navigation
from polidiff.errors import InvalidOptionError
from polidiff.options import CLASSIFIERS


def tasks() -> dict[str, Callable[[], tuple[Any, Any, Any]]]:
    """World, current and proposed policy by name."""
    return {
        "navigation, first proposed": lambda: (navigation.world(), navigation.current, navigation.proposed_1),
        "navigation, second proposed": lambda: (navigation.world(), navigation.current, navigation.proposed_2),
        "navigation, between the proposed": lambda: (navigation.world(), navigation.proposed_1, navigation.proposed_2),
        "intensive care": lambda: (icu_sepsis.world(), icu_sepsis.current(), icu_sepsis.proposed()),
    }


def run(smoke: bool) -> dict[str, Any]:
    """Learner -> task -> figures."""
    chosen = dict(list(tasks().items())[:1]) if smoke else tasks()
    seeds = range(1 if smoke else 3)
    return {name: {task: _measured(make, name, seeds) for task, make in chosen.items()} for name in CLASSIFIERS}


def _measured(make: Callable[[], tuple[Any, Any, Any]], classifier: str, seeds: range) -> dict[str, float | str]:
    found, spent = [], []
    for seed in seeds:
        world, current, proposed = make()
        before = time.process_time()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found.append(explain(world, current, proposed, classifier=classifier, seed=seed))
        except InvalidOptionError as reason:
            return {"left out": str(reason)}
        spent.append(time.process_time() - before)
    recovered = [share for e in found for share in e.quality.completeness.values() if share is not None]
    return {
        "F1": round(mean(e.quality.f1 for e in found), 3),
        "rules": round(mean(len(e.regions) for e in found), 1),
        "comparisons": round(mean(sum(r.rule.literals for r in e.regions) for e in found), 1),
        "recovered": round(mean(recovered), 3) if recovered else float("nan"),
        "seconds": round(mean(spent), 2),
    }
