"""Worlds: where decisions play out. A table is known, a simulator can be stepped, a log only has records."""

from polidiff.worlds.simulator import Simulator
from polidiff.worlds.tabular import TabularMDP

__all__ = ["Simulator", "TabularMDP"]
