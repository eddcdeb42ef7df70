"""Data with known rules: boxes in noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Planted:
    """Rows labelled by boxes, first box wins, class 0 elsewhere."""

    X: np.ndarray
    y: np.ndarray
    boxes: tuple[tuple[int, dict[int, tuple[float, float]]], ...]  # (class, feature -> bounds)

    def truth(self, X: np.ndarray) -> np.ndarray:
        """Class of each row without noise."""
        return label(X, self.boxes)


def label(X: np.ndarray, boxes: tuple[tuple[int, dict[int, tuple[float, float]]], ...]) -> np.ndarray:
    """Class of each row: the first box that holds it."""
    y = np.zeros(len(X), dtype=int)
    for told, box in reversed(boxes):
        y[np.all([(X[:, j] >= low) & (X[:, j] < high) for j, (low, high) in box.items()], axis=0)] = told
    return y


def plant(n: int, d: int, *, noise: float, seed: int, volumes: tuple[float, ...] = (0.03, 0.05, 0.08)) -> Planted:
    """One box per class, each on two to four of d uniform features."""
    rng = np.random.default_rng(seed)
    boxes = []
    for told, volume in enumerate(volumes, 1):
        count = int(rng.integers(2, min(d, 4) + 1))
        side = volume ** (1 / count)
        features = rng.choice(d, count, replace=False)
        lows = rng.uniform(0.02, 0.98 - side, count)
        boxes.append((told, {int(j): (float(low), float(low + side)) for j, low in zip(features, lows, strict=True)}))
    X = rng.random((n, d))
    y = label(X, tuple(boxes))
    flipped = rng.random(n) < noise
    y[flipped] = (y[flipped] + rng.integers(1, len(volumes) + 1, flipped.sum())) % (len(volumes) + 1)
    return Planted(X, y, tuple(boxes))
