"""What charts are drawn from: visits over two features, aggregated; some visited states."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np

from polidiff.divergence import Divergence
from polidiff.evaluation.comparison import Comparison
from polidiff.journeys import Trajectory, sample_trajectories
from polidiff.records.action import Action
from polidiff.records.arrays import AnyArray, FloatArray, IntArray
from polidiff.records.explanation import Cell, EpisodePair, Picture, SampledState
from polidiff.streams import Stream

GRID = 24
MOST_PICTURES = 3
MOST_SAMPLED = 400
MOST_PAIRS = 4
MOST_DECISIONS = 60


def episode_pairs(comparison: Comparison, seed: int) -> tuple[tuple[Trajectory, Trajectory], ...]:
    """A few episodes of both policies from the same starts, where these may be shown; those that part come first."""
    place = comparison.place
    if not comparison.shows_episodes or not place.has_features:
        return ()
    played = (sample_trajectories(place, policy, seed=seed) for policy in (comparison.current, comparison.proposed))
    shared = [pair for pair in zip(*played, strict=True) if np.array_equal(pair[0].features[:1], pair[1].features[:1])]
    shared.sort(key=lambda pair: np.array_equal(pair[0].actions, pair[1].actions))
    return tuple((one, other) for one, other in shared[:MOST_PAIRS])


def decisions_of(pairs: Sequence[tuple[Trajectory, Trajectory]], actions: Sequence[Action]) -> tuple[EpisodePair, ...]:
    """What both policies do, decision by decision, by name."""
    names = [action.name for action in actions]
    actions_of = [[tuple(names[a] for a in episode.actions[:MOST_DECISIONS]) for episode in pair] for pair in pairs]
    return tuple(EpisodePair(one, other) for one, other in actions_of)


def pictures_of(
    divergence: Divergence,
    where: IntArray,
    ids: tuple[str, ...],
    names: tuple[str, ...],
    told_features: tuple[str, ...],
    trajectories: tuple[tuple[AnyArray, AnyArray], ...],
) -> tuple[Picture, ...]:
    """Pictures over the pairs of features that the rules speak about most."""
    if divergence.features.dtype == object or len(names) < 2 or not len(ids):
        return ()
    ranked = list(dict.fromkeys([*told_features, *names]))[:3]
    pairs = [tuple(sorted(pair, key=names.index)) for pair in combinations(ranked, 2)][:MOST_PICTURES]
    drawn = (_picture(divergence, where, ids, names, (one, two), trajectories) for one, two in pairs)
    return tuple(picture for picture in drawn if picture.cells)


def _picture(
    divergence: Divergence,
    where: IntArray,
    ids: tuple[str, ...],
    names: tuple[str, ...],
    pair: tuple[str, str],
    trajectories: tuple[tuple[AnyArray, AnyArray], ...],
) -> Picture:
    columns = [names.index(name) for name in pair]
    points = divergence.features[:, columns].astype(float)
    measured = ~np.isnan(points).any(axis=1)  # a visit with a missing value lies nowhere in the picture
    points, where, weight = np.nan_to_num(points[measured]), where[measured], divergence.weight[measured]
    widths = [_cell_width(column) for column in points.T]
    step, known = np.array([width for width, _ in widths]), [values for _, values in widths]
    low = np.floor(points.min(axis=0, initial=np.inf if len(points) else 0.0) / step + 1e-9) * step
    at = ((points - low) / step + 1e-9).astype(np.int64)
    wide = int(at.max(initial=0)) + 1
    key = at[:, 0] * wide + at[:, 1]
    cells = []
    for k in np.unique(key):
        rows = key == k
        mass = np.bincount(where[rows] + 1, weights=weight[rows], minlength=len(ids) + 1)
        most = int(mass.argmax())
        x, y = low + (np.array(divmod(int(k), wide)) + 0.5) * step
        cells.append(Cell(float(x), float(y), float(mass.sum()), ids[most - 1] if most else None))
    lines = [tuple(_line(pair[policy], columns) for pair in trajectories) for policy in (0, 1)]
    return Picture(pair[0], pair[1], float(step[0]), float(step[1]), tuple(cells), lines[0], lines[1], *known)


def _cell_width(values: FloatArray) -> tuple[float, tuple[float, ...]]:
    """A cell for each value where they are few and lie on a grid of their own, else round cells over their range.

    The width of a cell, and the values, where each has its own.
    """
    met = np.unique(values)
    gaps = np.diff(met)
    if 0 < len(gaps) < GRID and np.allclose(gaps / gaps.min(), np.round(gaps / gaps.min()), atol=1e-6):
        return float(gaps.min()), tuple(met.tolist())
    return round_step(float(np.ptp(met)) if len(met) else 0.0), tuple(met[:1].tolist()) * (len(met) == 1)


def round_step(span: float) -> float:
    """A cell's width: 1, 2 or 5 times a power of ten, so that cells end at round numbers.

    >>> round_step(1.05), round_step(0.4), round_step(0.0)
    (0.05, 0.02, 1.0)
    """
    if span <= 0:
        return 1.0
    rough = span / GRID
    power = 10.0 ** math.floor(math.log10(rough))
    return float(round(next(k for k in (1, 2, 5, 10) if k * power >= rough * (1 - 1e-9)) * power, 12))


def _line(path: AnyArray, columns: list[int], most: int = 60) -> tuple[tuple[float, float], ...]:
    rows = path[np.unique(np.linspace(0, len(path) - 1, min(most, len(path))).astype(int))] if len(path) else path
    return tuple((float(row[columns[0]]), float(row[columns[1]])) for row in rows)


def sample_of(divergence: Divergence, actions: tuple[str, ...], seed: int) -> tuple[SampledState, ...]:
    """Visited states drawn by their share of visits, half of them where the policies part."""
    rng = np.random.default_rng((seed, Stream.SHOWN_STATES))
    drawn = []
    for group in (divergence.diverging, ~divergence.diverging):
        rows = np.flatnonzero(group & (divergence.judged > 0))
        mass = float(divergence.judged[rows].sum())
        if not mass:
            continue
        chance = divergence.judged[rows] / mass
        everyone = len(rows) <= MOST_SAMPLED // 2
        chosen = rows if everyone else rng.choice(rows, MOST_SAMPLED // 2, p=chance)
        shares = divergence.judged[rows] if everyone else np.full(len(chosen), mass / len(chosen))
        drawn += [
            SampledState(
                tuple(_plain(value) for value in divergence.features[row]),
                float(share),
                actions[divergence.current[row]],
                actions[divergence.proposed[row]],
            )
            for row, share in zip(chosen, shares, strict=True)
        ]
    return tuple(drawn)


def _plain(value: object) -> float | str:
    return value if isinstance(value, str) else math.nan if value is None else float(value)  # type: ignore[arg-type]
