"""Surrogates: a small table to plan in, the way back to policies of the world, and what these bring there."""

from polidiff.options import ImproveOptions
from polidiff.policies.protocol import Candidates, PolicyLike
from polidiff.surrogates.record import Explain, Note, Reduction, RuleNote
from polidiff.surrogates.table import Surrogate
from polidiff.worlds.protocol import World, by_kind

__all__ = ["Explain", "Note", "Reduction", "RuleNote", "Surrogate", "reduce"]


@by_kind
def reduce(world: World, current: PolicyLike, candidates: Candidates, options: ImproveOptions) -> Reduction:
    """What is planned in: the table itself, a table of cells that were played, or the half of a log that chooses."""
    raise NotImplementedError
