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
    "TabularMDP": "polidiff.worlds",
    "Simulator": "polidiff.worlds",
    "Log": "polidiff.worlds",
    "Outcome": "polidiff.records.outcome",
    "Patch": "polidiff.records.patch",
    "as_policy": "polidiff.policies",
    "Discretised": "polidiff.policies",
    "explain": "polidiff.api",
    "improve": "polidiff.api",
    "evaluate": "polidiff.api",
    "check": "polidiff.api",
    "changelog": "polidiff.api",
    "compare": "polidiff.api",
    "compare_forms": "polidiff.api",
    "load": "polidiff.api",
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
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'polidiff' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
