"""Worlds: where decisions play out. A table is known, a simulator can be stepped, a log only has records."""

from typing import TYPE_CHECKING

from polidiff.worlds.simulator import Simulator
from polidiff.worlds.tabular import TabularMDP

if TYPE_CHECKING:
    from polidiff.worlds.log import Log

__all__ = ["Log", "Simulator", "TabularMDP"]


def __getattr__(name: str) -> type:
    if name == "Log":  # brings in the data frame library, so only when asked for
        from polidiff.worlds.log import Log

        return Log
    raise AttributeError(f"module 'polidiff.worlds' has no attribute {name!r}")
