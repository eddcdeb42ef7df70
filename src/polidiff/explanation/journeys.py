"""Which regions an episode of the proposed policy meets, in which order (Algorithm 2 of the paper, mended).

A path is the sequence of regions met, consecutive repeats merged. A start of a table has a modal path with its share;
an episode of a simulator has one path.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from polidiff.policies import Policy
from polidiff.records.arrays import AnyArray, FloatArray, IntArray
from polidiff.regions.describe import Described
from polidiff.streams import Stream
from polidiff.worlds.graph import surely_ending
from polidiff.worlds.rollouts import Rollouts, Steppable, Visits, roll_out
from polidiff.worlds.simulator import Simulator
from polidiff.worlds.tabular import TabularMDP

Path: TypeAlias = tuple[int, ...]  # region indices
ROLLOUTS = 20_000
SHOWN = 12
ENDLESS = 100, 1_000  # fewest and most steps of an episode that may never end
ENDLESS_STEPS = 2_000_000  # of all such episodes


@dataclass(frozen=True, eq=False)
class Journeys:
    """Starts, and the paths that begin there."""

    features: AnyArray  # (n, d) of the starts
    weight: FloatArray  # (n,) share of the start distribution
    paths: tuple[Counter[Path], ...]  # (n,) how often each path followed
    first_met: FloatArray  # (n, R) mean decisions before a region is first met, NaN if never
    meets: FloatArray  # (n, R) share of episodes that meet the region
    starts: AnyArray  # (n, …) raw states
    names: tuple[str, ...]  # of the starts, if the world names states
    trajectories: tuple[AnyArray, ...]  # feature rows of the first few episodes

    def modal(self, k: int) -> Path:
        """The most frequent path of one start; among equals the shortest."""
        counts = self.paths[k]
        return min(counts, key=lambda path: (-counts[path], len(path), path))

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


def follow(world: Steppable, proposed: Policy, described: Described, *, seed: int, episodes: int) -> Journeys:
    """Play the proposed policy and note the regions met."""
    if isinstance(world, TabularMDP):
        return _from_every_start(world, proposed, described, seed)
    played = roll_out(world, proposed, episodes=episodes, seed=(seed, Stream.FORMING), record=True, what="paths")
    return _journeys(world, played, np.arange(episodes), np.full(episodes, 1 / episodes), described, ())


def sample_trajectories(world: Steppable, policy: Policy, *, seed: int) -> tuple[AnyArray, ...]:
    """Feature rows of a few episodes."""
    horizon = _horizon(world, policy, SHOWN)
    played = roll_out(
        world,
        policy,
        episodes=SHOWN,
        seed=(seed, Stream.SHOWN_EPISODES),
        record=True,
        horizon=horizon,
        what="trajectories",
    )
    assert played.visits is not None
    cuts = np.searchsorted(played.visits.episode, np.arange(1, SHOWN))
    return tuple(world.features_of(part) for part in np.split(played.visits.states, cuts))


def _from_every_start(world: TabularMDP, proposed: Policy, described: Described, seed: int) -> Journeys:
    starts = world.starts
    repeats = 1 if _is_deterministic(world, proposed) else int(np.clip(ROLLOUTS // len(starts), 20, 5000))
    begin, horizon = np.repeat(starts, repeats), _horizon(world, proposed, repeats * len(starts))
    played = roll_out(
        world,
        proposed,
        episodes=0,
        seed=(seed, Stream.TABLE_PATHS),
        record=True,
        horizon=horizon,
        starts=begin,
        what="paths",
    )
    owner = np.repeat(np.arange(len(starts)), repeats)
    names = tuple(world.states[s] for s in starts)
    return _journeys(world, played, owner, world.initial[starts], described, names)


def _horizon(world: Steppable, policy: Policy, episodes: int) -> int | None:
    """Steps after which episodes of a table are left if some may never end; None: all end by themselves."""
    if not isinstance(world, TabularMDP):
        return None
    moves = world.policy_moves(policy.probabilities(np.arange(world.n_states)))
    if surely_ending(moves, world.absorbing)[world.starts].all():
        return None
    return int(np.clip(ENDLESS_STEPS // episodes, *ENDLESS))


def _is_deterministic(world: TabularMDP, policy: Policy) -> bool:
    table = policy.probabilities(np.arange(world.n_states))
    return bool((world.transitions.data == 1).all() and (table.max(axis=1) == 1).all())


def _journeys(
    world: Steppable,
    played: Rollouts,
    owner: IntArray,
    weight: FloatArray,
    described: Described,
    names: tuple[str, ...],
) -> Journeys:
    assert played.visits is not None
    region = region_of_visits(world, played.visits, described)
    count, regions = len(weight), len(described.regions)
    paths: tuple[Counter[Path], ...] = tuple(Counter() for _ in range(count))
    episodes = len(played.lengths)
    bounds = np.searchsorted(played.visits.episode, np.arange(episodes + 1))
    met = np.flatnonzero(region >= 0)
    episode, sequence = played.visits.episode[met], region[met]
    entered = np.ones(len(met), dtype=np.bool_)
    entered[1:] = (episode[1:] != episode[:-1]) | (sequence[1:] != sequence[:-1])
    ends = np.searchsorted(episode[entered], np.arange(episodes + 1)).tolist()
    passed = sequence[entered].tolist()
    for e, start in enumerate(owner.tolist()):
        paths[start][tuple(passed[ends[e] : ends[e + 1]])] += 1
    first = np.full((episodes, regions), np.nan)
    meeting, at = np.unique(episode * regions + sequence, return_index=True)
    first.flat[meeting] = met[at] - bounds[episode[at]]
    first_met, meets = np.full((count, regions), np.nan), np.zeros((count, regions))
    for k in range(regions):
        came = ~np.isnan(first[:, k])
        hits = np.bincount(owner[came], minlength=count)
        sums = np.bincount(owner[came], weights=first[came, k], minlength=count)
        first_met[:, k] = np.divide(sums, hits, out=np.full(count, np.nan), where=hits > 0)
        meets[:, k] = hits / np.maximum(1, np.bincount(owner, minlength=count))
    at = np.searchsorted(owner, np.arange(count))
    starts = played.starts[at]
    shown = tuple(
        world.features_of(played.visits.states[bounds[e] : bounds[e + 1]]) for e in range(min(episodes, SHOWN))
    )
    return Journeys(world.features_of(starts), weight, paths, first_met, meets, starts, names, shown)


def region_of_visits(world: Steppable, visits: Visits, described: Described) -> IntArray:
    """Region index of every visit, −1 outside; each state of a table is looked up once."""
    if isinstance(world, Simulator) or world.n_states > len(visits.states):
        return described.region_of(world.features_of(visits.states))
    return described.region_of(world.features_of(np.arange(world.n_states)))[visits.states]
