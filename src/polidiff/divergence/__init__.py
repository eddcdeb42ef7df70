"""Diverging states: where two policies act differently and it matters."""

from polidiff.divergence.record import Divergence
from polidiff.options import DivergenceOptions
from polidiff.policies import PolicyLike
from polidiff.worlds.protocol import World, by_kind

__all__ = ["Divergence", "DivergenceOptions", "find_divergence"]


@by_kind
def find_divergence(
    world: World, current: PolicyLike, proposed: PolicyLike, options: DivergenceOptions, *, seed: int = 0
) -> Divergence:
    """Where two policies part: in every state of a table, along roll-outs of a simulator, in every row of a log."""
    raise NotImplementedError
