"""What tests of worlds share."""

from __future__ import annotations

import pytest

from polidiff.worlds.shards import shard_files


@pytest.fixture
def small(monkeypatch):
    """Shards of two rows."""
    monkeypatch.setattr(shard_files, "PART_ROWS", 2)
    monkeypatch.setattr(shard_files, "RANGE_ROWS", 2)
