"""How a result was made."""

from __future__ import annotations

import platform
from importlib import metadata

from polidiff._version import __version__
from polidiff.options import ExplainOptions
from polidiff.records.explanation import Methods
from polidiff.rules.learners import as_learner


def methods_record(options: ExplainOptions, method: str, family: int, *, learns: bool) -> Methods:
    """How the result was made; `learns`: whether regions are learned from features."""
    return Methods(
        style=options.style,
        level=options.level,
        policy_tolerance=options.divergence.policy_tolerance,
        transition_tolerance=options.divergence.transition_tolerance,
        seed=options.seed,
        family=family,
        evaluation=method,
        versions=versions(),
        min_group=options.min_group,
        classifier=as_learner(options.classifier).name if learns else "",
    )


def versions() -> dict[str, str]:
    """Versions of what computed the result."""
    libraries = ("numpy", "scipy", "highspy", "scikit-learn", "polars", "numba")
    return {
        "polidiff": __version__,
        "python": platform.python_version(),
        **{name: metadata.version(name) for name in libraries},
    }
