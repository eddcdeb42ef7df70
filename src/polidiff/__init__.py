"""Diff and patch for decision policies."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from polidiff._version import __version__

if TYPE_CHECKING:
    from polidiff.api import changelog, check, compare, compare_forms, evaluate, explain, improve, load
    from polidiff.policies import Discretised, as_policy
    from polidiff.records.outcome import Outcome
    from polidiff.records.patch import Patch
    from polidiff.worlds import Log, Simulator, TabularMDP

_HOMES = {
    "polidiff.worlds": ("TabularMDP", "Simulator", "Log"),
    "polidiff.records.outcome": ("Outcome",),
    "polidiff.records.patch": ("Patch",),
    "polidiff.policies": ("as_policy", "Discretised"),
    "polidiff.api": ("explain", "improve", "evaluate", "check", "changelog", "compare", "compare_forms", "load"),
}

__all__ = [
    "TabularMDP",
    "Simulator",
    "Log",
    "Outcome",
    "Patch",
    "as_policy",
    "Discretised",
    "explain",
    "improve",
    "evaluate",
    "check",
    "changelog",
    "compare",
    "compare_forms",
    "load",
    "__version__",
]


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(home), name)
    raise AttributeError(f"module 'polidiff' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
