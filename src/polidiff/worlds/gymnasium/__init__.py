"""Gymnasium environments as worlds. Nothing outside this folder knows the library.

Spaces are recognised by the name of their class and environments by what they can do, so that the library itself is
imported only to make an environment from its id.
"""

from polidiff.worlds.gymnasium.describe import describe, table_of
from polidiff.worlds.gymnasium.source import EnvSource, as_source
from polidiff.worlds.gymnasium.stepper import GymnasiumStepper

__all__ = ["EnvSource", "GymnasiumStepper", "as_source", "describe", "table_of"]
