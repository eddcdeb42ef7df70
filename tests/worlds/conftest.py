"""What tests of worlds share."""

from __future__ import annotations

import pytest

from polidiff.worlds.shards import shard_files


@pytest.fixture
def small(monkeypatch):
    """Shards of two rows."""
    monkeypatch.setattr(shard_files, "SHARD_ROWS", 2)
    monkeypatch.setattr(shard_files, "BATCH_ROWS", 2)
