"""Rules hidden in noise: boxes on a few of many features, also thin, rare, correlated and categorical ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Box:
    """A class and what must hold for it: bounds of a feature, or one of its categories."""

    label: int
    bounds: dict[int, tuple[float, float]]
    values: dict[int, tuple[str, ...]]


@dataclass(frozen=True)
class Kind:
    """What to plant."""

    name: str
    volumes: tuple[float, ...] = (0.03, 0.055, 0.08)  # of a box, per class
    boxes: int = 2  # per class
    correlation: float = 0.0  # between all features
    categories: int = 0  # features with five categories each
    noise: float = 0.05


def sample(rng: np.random.Generator, n: int, d: int, kind: Kind) -> np.ndarray:
    """Features: uniform margins, joined by a Gaussian copula; the last ones categorical."""
    from scipy.special import ndtr

    if kind.correlation:
        common = rng.standard_normal((n, 1))
        X = ndtr(np.sqrt(kind.correlation) * common + np.sqrt(1 - kind.correlation) * rng.standard_normal((n, d)))
    else:
        X = rng.random((n, d))
    if not kind.categories:
        return X
    mixed = X.astype(object)
    for j in range(d - kind.categories, d):
        mixed[:, j] = np.array(list("abcde"), dtype=object)[(X[:, j] * 5).astype(int)]
    return mixed


def plant(
    n: int, d: int, kind: Kind, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, tuple[Box, ...]]:
    """Training rows with noise, 50,000 clean test rows, and the boxes; rarer classes win where boxes overlap."""
    rng = np.random.default_rng([seed, d, sum(map(ord, kind.name))])
    probe = sample(rng, 20_000, d, kind)
    boxes: list[Box] = []
    for label, volume in enumerate(kind.volumes, 1):
        for _ in range(kind.boxes):
            boxes.append(_box(rng, probe, boxes, label, volume, kind))
    boxes = _rarer_first(boxes, probe)
    X = sample(rng, n, d, kind)
    y = tell(X, boxes)
    wrong = rng.random(n) < kind.noise
    classes = len(kind.volumes) + 1
    y[wrong] = (y[wrong] + rng.integers(1, classes, wrong.sum())) % classes
    test = sample(np.random.default_rng([7, d, seed]), 50_000, d, kind)
    return X, y, test, tell(test, boxes), tuple(boxes)


def tell(X: np.ndarray, boxes: list[Box] | tuple[Box, ...]) -> np.ndarray:
    """Class of each row: of the first box that holds it, else 0."""
    y = np.zeros(len(X), dtype=int)
    for box in reversed(boxes):
        y[covered(X, box)] = box.label
    return y


def covered(X: np.ndarray, box: Box) -> np.ndarray:
    """Which rows a box holds."""
    inside = np.ones(len(X), dtype=bool)
    for j, (low, high) in box.bounds.items():
        column = X[:, j].astype(float)
        inside &= (column >= low) & (column < high)
    for j, values in box.values.items():
        inside &= np.isin(X[:, j], values)
    return inside


def _rarer_first(boxes: list[Box], probe: np.ndarray) -> list[Box]:
    """The boxes of the class with the fewest rows first, as a list of rules is learned."""
    held = {
        label: np.any([covered(probe, b) for b in boxes if b.label == label], axis=0).mean()
        for label in {b.label for b in boxes}
    }
    return sorted(boxes, key=lambda box: held[box.label])


def _box(rng: np.random.Generator, probe: np.ndarray, before: list[Box], label: int, volume: float, kind: Kind) -> Box:
    """A box that holds about `volume` of the rows, and few rows of earlier boxes."""
    d = probe.shape[1]
    taken = tell(probe, before) > 0
    best: tuple[float, Box] | None = None
    for _ in range(400):
        count = int(rng.integers(2, min(d, 4) + 1))
        features = rng.choice(d, count, replace=False)
        numbers = [int(j) for j in features if j < d - kind.categories]
        values = {
            int(j): tuple(rng.choice(list("abcde"), 2, replace=False)) for j in features if j >= d - kind.categories
        }
        side = min((volume / 0.4 ** len(values)) ** (1 / max(len(numbers), 1)), 0.85) * np.exp(rng.uniform(-0.15, 0.15))
        lows = rng.uniform(0.02, max(0.03, 0.98 - side), len(numbers))
        bounds = {j: (float(low), float(min(low + side, 0.99))) for j, low in zip(numbers, lows, strict=True)}
        box = Box(label, bounds, values)
        inside = covered(probe, box)
        held = inside.mean()
        misfit = abs(np.log(max(held, 1e-6) / volume)) + 5 * (inside & taken).sum() / max(inside.sum(), 1)
        if numbers and (best is None or misfit < best[0]):
            best = misfit, box
            if misfit < 0.25:
                break
    assert best is not None
    return best[1]
