"""Who stands behind what is told about a log: rows, and the distinct people (or episodes) that they belong to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from polidiff.records.arrays import AnyArray, FloatArray, IntArray
from polidiff.records.explanation import Feature, WorldSummary
from polidiff.worlds.log_rows import boundaries
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
    if log.check.people is not None:
        facts["people"] = log.check.people
    if log.discrete:
        states = label_people(log)
        often = np.array([*states.values()]) >= TAIL
        features = features_seen(log.features_of(np.arange(log.n_states)), log.feature_names)
        columns = log.features_of(np.flatnonzero(often)).T
        told = tuple(_met(feature, column) for feature, column in zip(features, columns, strict=True))
        return WorldSummary("log", log.actions, told, facts, {"state": states})
    rows = log.rows
    people = {} if cells is None else {"cell": row_people(cells, rows.person)}
    told = ()
    for feature, column in zip(features_seen(rows.states, log.feature_names), rows.states.T, strict=True):
        if feature.kind == "category":
            people[feature.name] = row_people(column, rows.person)
        else:
            feature = _trimmed(feature, column.astype(float), rows.person)
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


def _trimmed(feature: Feature, column: FloatArray, person: IntArray) -> Feature:
    """The feature with a range beyond each end of which at least `TAIL` people go, or that end themselves there."""
    ends = []
    for sign in (1.0, -1.0):
        least = np.full(int(person.max()) + 1, np.nan)
        np.fmin.at(least, person, sign * column)
        ends.append(sign * np.sort(least[~np.isnan(least)])[TAIL - 1 : TAIL])
    low, high = ends
    if not len(low) or not len(high) or low[0] > high[0]:
        return replace(feature, low=None, high=None)
    return replace(feature, low=float(low[0]), high=float(high[0]), behind=TAIL)


def label_people(log: Log) -> dict[str, int]:
    """Distinct people that visit each state, by its name."""
    _, episodes = label_coverage(log, np.arange(log.n_states), log.n_states)
    return dict(zip(log.states, episodes.tolist(), strict=True))


def row_people(labels: AnyArray, person: IntArray) -> dict[str, int]:
    """Distinct people behind each label of rows.

    >>> row_people(np.array(["a", "a", "b"], dtype=object), np.array([0, 0, 1]))
    {'a': 1, 'b': 1}
    """
    pairs = pl.DataFrame({"label": labels.astype(str), "person": person})
    counted = pairs.group_by("label").agg(pl.col("person").n_unique()).sort("label")
    return dict(zip(counted["label"].to_list(), counted["person"].to_list(), strict=True))


def label_coverage(log: Log, group: IntArray, count: int) -> tuple[IntArray, IntArray]:
    """(count,) rows and distinct people of each group of states; `group` (S,) is −1 for states of none.

    A person (an episode, where the log names none) counts once in every group, however often it is visited.
    """
    assert log.state_labels is not None
    states = pl.DataFrame({"state": np.arange(len(group)), "group": group}).filter(pl.col("group") >= 0)
    rows = log.frame.select(_person(log).alias("person"), log.state_labels.number().alias("state"))
    counted = collect(
        rows.join(states.lazy(), on="state", maintain_order="none")
        .group_by("group")
        .agg(pl.len().alias("rows"), pl.col("person").n_unique().alias("people"))
    )
    found = np.zeros((2, count), dtype=np.int64)
    at = counted["group"].to_numpy()
    found[0, at], found[1, at] = counted["rows"].to_numpy(), counted["people"].to_numpy()
    return found[0], found[1]


def start_people(log: Log, groups: Sequence[AnyArray] | None) -> IntArray | None:
    """(groups,) distinct people behind the starts in each; `groups` are masks over ``log.starts``, or all starts.

    None where every episode is another's, or where the log is too long to be held.
    """
    if log.columns.group is None or log.sampled:
        return None
    groups = groups if groups is not None else [np.ones(len(log.starts), dtype=np.bool_)]
    if not log.discrete:
        rows = log.rows
        person = rows.person[rows.first]
        return np.array([len(np.unique(person[np.asarray(group) > 0])) for group in groups])
    assert log.state_labels is not None
    begins = log.frame.filter(boundaries(log.columns)["first"])
    pairs = collect(begins.select(log.state_labels.number().alias("state"), _person(log).alias("person")).unique())
    place = np.full(log.n_states, -1)
    place[log.starts] = np.arange(len(log.starts))
    start, people = place[pairs["state"].to_numpy()], pairs["person"]
    return np.array([people.filter(pl.Series((np.asarray(group) > 0)[start])).n_unique() for group in groups])


def _person(log: Log) -> pl.Expr:
    return pl.int_range(pl.len()) if log.columns.unit is None else pl.col(log.columns.unit)
