"""Which regions an episode meets, in which order (Algorithm 2 of the paper, mended)."""

from collections.abc import Sequence

from polidiff.evaluation.comparison import Comparison
from polidiff.journeys.record import Journeys, Meetings, Path, Trajectory
from polidiff.policies import Policy
from polidiff.records.rule import Rule
from polidiff.worlds.protocol import World, by_kind

__all__ = ["Journeys", "Meetings", "Path", "Trajectory", "follow", "sample_trajectories"]


@by_kind
def follow(
    world: World, comparison: Comparison, rules: Sequence[Rule], *, seed: int, episodes: int
) -> Journeys | Meetings:
    """The regions that `rules` tell, as episodes of the proposed policy meet them, or logged ones."""
    raise NotImplementedError


@by_kind
def sample_trajectories(world: World, policy: Policy, *, seed: int) -> tuple[Trajectory, ...]:
    """A few episodes; with the same seed, two policies set out from the same starts."""
    raise NotImplementedError
