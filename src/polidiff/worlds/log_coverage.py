"""How much of a log with labelled states lies in some of them: rows, and the distinct episodes that they belong to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from polidiff.records.arrays import IntArray
from polidiff.worlds.log_source import collect

if TYPE_CHECKING:
    from polidiff.worlds.log import Log


def label_coverage(log: Log, group: IntArray, count: int) -> tuple[IntArray, IntArray]:
    """(count,) rows and distinct episodes of each group of states; `group` (S,) is −1 for states of none.

    An episode counts once in every group that it visits, however often it does.
    """
    assert log.state_labels is not None
    states = pl.DataFrame({"state": np.arange(len(group)), "group": group}).filter(pl.col("group") >= 0)
    episode = pl.int_range(pl.len()) if log.columns.episode is None else pl.col(log.columns.episode)
    rows = log.frame.select(episode.alias("episode"), log.state_labels.number().alias("state"))
    counted = collect(
        rows.join(states.lazy(), on="state", maintain_order="none")
        .group_by("group")
        .agg(pl.len().alias("rows"), pl.col("episode").n_unique().alias("episodes"))
    )
    found = np.zeros((2, count), dtype=np.int64)
    at = counted["group"].to_numpy()
    found[0, at], found[1, at] = counted["rows"].to_numpy(), counted["episodes"].to_numpy()
    return found[0], found[1]
