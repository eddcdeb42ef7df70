"""Which regions an episode meets, in which order (Algorithm 2 of the paper, mended)."""

from collections.abc import Sequence

from polidiff.evaluation.comparison import Comparison
from polidiff.journeys.record import Journeys, Meetings, Path
from polidiff.policies import Policy
from polidiff.records.arrays import AnyArray
from polidiff.records.rule import Rule
from polidiff.worlds.protocol import World, by_kind

__all__ = ["Journeys", "Meetings", "Path", "follow", "sample_trajectories"]


@by_kind
def follow(
    world: World, comparison: Comparison, rules: Sequence[Rule], *, seed: int, episodes: int
) -> Journeys | Meetings:
    """The regions that `rules` tell, as episodes of the proposed policy meet them, or logged ones."""
    raise NotImplementedError


@by_kind
def sample_trajectories(world: World, policy: Policy, *, seed: int) -> tuple[AnyArray, ...]:
    """Feature rows of a few episodes."""
    raise NotImplementedError
