"""Which regions an episode meets, in which order (Algorithm 2 of the paper, mended)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np

from polidiff.evaluation.comparison import Comparison
from polidiff.evaluation.verdicts import StartOutcomes
from polidiff.policies import Policy
from polidiff.records.arrays import AnyArray, FloatArray, IntArray
from polidiff.records.rule import Rule
from polidiff.worlds.protocol import World, by_kind
from polidiff.worlds.rollouts import Rollouts

Path: TypeAlias = tuple[int, ...]  # region indices
SHOWN = 12  # episodes that are played to show them
__all__ = ["Journeys", "Meetings", "Path", "Trajectory", "follow", "sample_trajectories"]


class Trajectory(NamedTuple):
    """One episode."""

    features: AnyArray  # (steps, d)
    actions: IntArray  # (steps,)


@dataclass(frozen=True, eq=False)
class Journeys:
    """Starts, and the paths that begin there."""

    features: AnyArray  # (n, d) of the starts
    weight: FloatArray  # (n,) share of the start distribution
    paths: tuple[Counter[Path], ...]  # (n,) how often each path followed
    first_met: FloatArray  # (n, R) mean decisions before a region is first met, NaN if never
    meets: FloatArray  # (n, R) share of episodes that meet the region
    names: tuple[str, ...]  # of the starts, if the world names states
    cut: float = 0.0  # share of the episodes that were left before their end

    def modal(self, k: int) -> Path:
        """The most frequent path of one start; among equals the shortest."""
        return modal_path(self.paths[k])

    def shares(self, members: Sequence[int] | IntArray) -> dict[Path, float]:
        """Share of each path among some starts, weighted."""
        total: dict[Path, float] = {}
        for k in members:
            counts = self.paths[k]
            each = self.weight[k] / counts.total()
            for path, count in counts.items():
                total[path] = total.get(path, 0.0) + each * count
        mass = sum(total.values()) or 1.0
        return {path: share / mass for path, share in sorted(total.items(), key=lambda item: (-item[1], item[0]))}

    @property
    def by_chance(self) -> int:
        """Episodes that were played to count paths; 0 where each start has one path, so that shares are exact."""
        return sum(counts.total() for counts in self.paths) if any(len(counts) > 1 for counts in self.paths) else 0

    @cached_property
    def order(self) -> IntArray:
        """Regions in order of typical first meeting; those never met last."""
        with np.errstate(all="ignore"):
            met = self.weight[:, None] * self.meets
            mean = np.nansum(met * np.nan_to_num(self.first_met), axis=0) / met.sum(axis=0)
        return np.argsort(np.where(np.isnan(mean), np.inf, mean), kind="stable")


def modal_path(counts: Counter[Path]) -> Path:
    """The most frequent path; among equals the shortest.

    >>> modal_path(Counter({(0, 1): 2, (0,): 2, (): 1}))
    (0,)
    """
    return min(counts, key=lambda path: (-counts[path], len(path), path))


@dataclass(frozen=True, eq=False)
class Meetings:
    """How many episodes meet each region, and when, where only logged episodes are known."""

    shares: FloatArray  # (R,) of all episodes
    first: FloatArray  # (R,) typical decisions before the first meeting, endless if there is none
    one_step: bool  # every episode is one decision, so that nothing is met in order
    halves: tuple[Journeys, Journeys] | None = None  # of the proposed policy: from starts that form groups, and from
    # the others, which judge them; None where too few episodes are alike
    outcomes: tuple[StartOutcomes, StartOutcomes] | None = None  # of the same episodes, as scores
    notes: tuple[str, ...] = ()  # whose episodes these are

    @cached_property
    def order(self) -> IntArray:
        """Regions in order of first meeting; those that are met at the same time follow each other by size."""
        return np.lexsort((-self.shares, self.first))


def journeys_of(
    world: World,
    played: Rollouts,
    region: IntArray,
    owner: IntArray,
    weight: FloatArray,
    *,
    regions: int,
    names: tuple[str, ...] = (),
) -> Journeys:
    """The paths of played episodes; visits lie in `region` (N,), episodes belong to the starts `owner` (episodes,)."""
    assert played.visits is not None
    paths, first_met, meets = met_regions(played.visits.episode, region, owner, regions)
    starts = played.starts[np.searchsorted(owner, np.arange(len(weight)))]
    return Journeys(world.features_of(starts), weight, paths, first_met, meets, names, played.truncated_share)


def met_regions(
    episode: IntArray, region: IntArray, owner: IntArray, regions: int
) -> tuple[tuple[Counter[Path], ...], FloatArray, FloatArray]:
    """Paths, first meetings and shares that meet a region, as `Journeys` holds them, from visits (N,) in order.

    Parameters
    ----------
    region : array (N,), −1 outside
    owner : array (episodes,)
        Start that an episode belongs to, rising from 0 on.
    """
    episodes, count = len(owner), int(owner.max(initial=-1)) + 1
    begin = np.searchsorted(episode, np.arange(episodes))
    met = np.flatnonzero(region >= 0)
    first = np.full((episodes, regions), np.nan)
    meeting, at = np.unique(episode[met] * regions + region[met], return_index=True)
    first.flat[meeting] = met[at] - begin[episode[met[at]]]
    first_met, meets = np.full((count, regions), np.nan), np.zeros((count, regions))
    for k in range(regions):
        came = ~np.isnan(first[:, k])
        hits = np.bincount(owner[came], minlength=count)
        sums = np.bincount(owner[came], weights=first[came, k], minlength=count)
        first_met[:, k] = np.divide(sums, hits, out=np.full(count, np.nan), where=hits > 0)
        meets[:, k] = hits / np.maximum(1, np.bincount(owner, minlength=count))
    return _paths(episode[met], region[met], owner, count), first_met, meets


def _paths(episode: IntArray, sequence: IntArray, owner: IntArray, count: int) -> tuple[Counter[Path], ...]:
    """How often each path followed from each start: meetings in order, repeats merged."""
    paths: tuple[Counter[Path], ...] = tuple(Counter() for _ in range(count))
    entered = np.ones(len(episode), dtype=np.bool_)
    entered[1:] = (episode[1:] != episode[:-1]) | (sequence[1:] != sequence[:-1])
    ends = np.searchsorted(episode[entered], np.arange(len(owner) + 1)).tolist()
    passed = sequence[entered].tolist()
    for e, start in enumerate(owner.tolist()):
        paths[start][tuple(passed[ends[e] : ends[e + 1]])] += 1
    return paths


def trajectories_of(world: World, played: Rollouts) -> tuple[Trajectory, ...]:
    """Features and decisions of played episodes, one by one."""
    visits = played.visits
    assert visits is not None
    cuts = np.searchsorted(visits.episode, np.arange(1, len(played.lengths)))
    parts = zip(np.split(visits.states, cuts), np.split(visits.actions, cuts), strict=True)
    return tuple(Trajectory(world.features_of(states), actions) for states, actions in parts)


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
