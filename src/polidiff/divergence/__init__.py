"""Diverging states: where two policies act differently and it matters."""

from polidiff.divergence.record import Divergence
from polidiff.divergence.rollouts import divergence_in_simulator
from polidiff.divergence.table import divergence_in_table
from polidiff.options import DivergenceOptions

__all__ = ["Divergence", "DivergenceOptions", "divergence_in_simulator", "divergence_in_table"]
