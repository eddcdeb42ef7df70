"""A small log as people have it."""

from __future__ import annotations

import numpy as np
import polars as pl

NAMES = {"state": ["größe", "puls"], "action": "arm", "episode": "fall", "step": "tag", "reward": "wohl"}


def stays(count=12, seed=0):
    """Episodes of one to four decisions, of whole numbers, halves and words."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 5, count)
    rows, last = lengths.sum(), np.cumsum(lengths) - 1
    return pl.DataFrame({
        "fall": np.repeat(np.arange(count) + 100, lengths),
        "tag": np.concatenate([np.arange(length) for length in lengths]),
        "größe": rng.integers(300, 400, rows) / 2, "puls": rng.integers(40, 120, rows),
        "arm": np.array(["Säule", "ohne"])[rng.integers(0, 2, rows)], "wohl": rng.integers(0, 9, rows) / 4,
        "ende": np.isin(np.arange(rows), last) & (rng.random(rows) < 0.7),
    })  # fmt: skip


def same(one, other):
    """Whether two logs hold the same rows."""
    a, b = one.rows, other.rows
    parts = ((getattr(a, name), getattr(b, name)) for name in ("states", "actions", "episode", "follow", "gains"))
    return one.actions == other.actions and all(np.array_equal(x, y, equal_nan=x.dtype != object) for x, y in parts)
