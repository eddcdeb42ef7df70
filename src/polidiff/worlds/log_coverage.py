"""Who stands behind what is told about a log: rows, and the distinct episodes that they belong to."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from polidiff.records.arrays import AnyArray, FloatArray, IntArray
from polidiff.records.explanation import Feature, WorldSummary
from polidiff.worlds.log_source import collect
from polidiff.worlds.summary import features_seen

if TYPE_CHECKING:
    from polidiff.worlds.log import Log


TAIL = 10  # episodes at each end of a range that is told: the smallest and the largest value belong to somebody


def log_summary(log: Log, cells: AnyArray | None = None) -> WorldSummary:
    """What a result says about a log: its size, ranges that many reach, and how many stand behind each name.

    `cells` are the names of cells (n,) that the rows held lie in, where rows were judged in cells.
    """
    facts = {"rows": log.check.rows, "episodes": log.check.episodes}
    if log.discrete:
        states = label_people(log)
        often = np.array([*states.values()]) >= TAIL
        features = features_seen(log.features_of(np.arange(log.n_states)), log.feature_names)
        columns = log.features_of(np.flatnonzero(often)).T
        told = tuple(_met(feature, column) for feature, column in zip(features, columns, strict=True))
        return WorldSummary("log", log.actions, told, facts, {"state": states})
    rows = log.rows
    people = {} if cells is None else {"cell": row_people(cells, rows.episode)}
    told = ()
    for feature, column in zip(features_seen(rows.states, log.feature_names), rows.states.T, strict=True):
        if feature.kind == "category":
            people[feature.name] = row_people(column, rows.episode)
        else:
            feature = _trimmed(feature, column.astype(float), np.flatnonzero(rows.first))
        told += (feature,)
    return WorldSummary("log", log.actions, told, facts, people)


def _met(feature: Feature, column: AnyArray) -> Feature:
    """The feature with the range or the names of the states that many have met."""
    if feature.kind == "category":
        return replace(feature, values=tuple(sorted(set(map(str, column)))[:50]))
    numbers = column.astype(float)
    numbers = numbers[~np.isnan(numbers)]
    low, high = (float(numbers.min()), float(numbers.max())) if len(numbers) else (None, None)
    return replace(feature, low=low, high=high, behind=TAIL)


def _trimmed(feature: Feature, column: FloatArray, first: IntArray) -> Feature:
    """The feature with a range beyond each end of which at least `TAIL` episodes go, or that end themselves there."""
    ends = []
    for sign in (1.0, -1.0):
        least = np.fmin.reduceat(sign * column, first)
        ends.append(sign * np.sort(least[~np.isnan(least)])[TAIL - 1 : TAIL])
    low, high = ends
    if not len(low) or not len(high) or low[0] > high[0]:
        return replace(feature, low=None, high=None)
    return replace(feature, low=float(low[0]), high=float(high[0]), behind=TAIL)


def label_people(log: Log) -> dict[str, int]:
    """Distinct episodes that visit each state, by its name."""
    _, episodes = label_coverage(log, np.arange(log.n_states), log.n_states)
    return dict(zip(log.states, episodes.tolist(), strict=True))


def row_people(labels: AnyArray, episode: IntArray) -> dict[str, int]:
    """Distinct episodes behind each label of rows.

    >>> row_people(np.array(["a", "a", "b"], dtype=object), np.array([0, 0, 1]))
    {'a': 1, 'b': 1}
    """
    pairs = pl.DataFrame({"label": labels.astype(str), "episode": episode})
    counted = pairs.group_by("label").agg(pl.col("episode").n_unique()).sort("label")
    return dict(zip(counted["label"].to_list(), counted["episode"].to_list(), strict=True))


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
