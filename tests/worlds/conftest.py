"""What tests of worlds share."""

from __future__ import annotations

import pytest

from polidiff.worlds.shards import frames, split


@pytest.fixture
def small(monkeypatch):
    """Shards of two rows."""
    monkeypatch.setattr(split, "SHARD_ROWS", 2)
    monkeypatch.setattr(frames, "BATCH_ROWS", 2)
