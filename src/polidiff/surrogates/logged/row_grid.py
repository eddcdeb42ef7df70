"""Feature rows of a log on the cells of a grid.

Numbers are cut where decisions and outcomes differ, and at every bound beyond which nothing may change. Words have a
cell each, and so have missing values: a missing number lies below all others, a missing word is one more word.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from polidiff.errors import InvalidLogError
from polidiff.evaluation.logged.rows import outcomes_to_come
from polidiff.policies import one_hot, top_actions
from polidiff.records.arrays import AnyArray, FloatArray, IntArray
from polidiff.records.rule import Rule, missing_entries
from polidiff.rules.box_algebra import Kinds
from polidiff.rules.cell_grid import MOST_CELLS, Axis, Grid, grid_of_rows, met_grid
from polidiff.streams import Stream
from polidiff.surrogates.logged.rule_cells import with_bounds
from polidiff.worlds.log import Log
from polidiff.worlds.log_rows import LoggedRows
from polidiff.worlds.protocol import aim

MOST_WORDS = 12
ROWS_PER_PAIR = 30  # of the choosing half, on average over cells and actions
FEWEST_CELLS = 12
MOST_SAMPLED = 50_000


@dataclass(frozen=True, eq=False)
class RowCells:
    """A grid over rows, the cell of each row, and where nothing may change."""

    grid: Grid
    cell: IntArray  # (n,)
    kinds: Kinds
    frozen: tuple[Rule, ...]  # over the features, with bounds that are cuts


def cells_of(log: Log, rows: LoggedRows, current: Any, frozen: tuple[Rule, ...], *, seed: int) -> RowCells:
    """Cells for rows; `current` is a policy, or None for the one that wrote the log."""
    values, kinds = _as_numbers(rows.states, log.feature_names)
    plain = tuple(part for rule in frozen for part in with_bounds(rule, values, kinds))
    given = _given_axes(values, kinds, plain, log.feature_names)
    some = np.random.default_rng((seed, Stream.SAMPLED_ROWS)).permutation(len(values))[:MOST_SAMPLED]
    begun = math.prod(axis.cells for axis in given)
    learnable = max(FEWEST_CELLS, 4 * begun, len(values) // (ROWS_PER_PAIR * log.n_actions))
    signals = _signals(log, rows, current)[some]
    grid = grid_of_rows(
        values[some], signals, log.feature_names, axes=given, most=min(MOST_CELLS, learnable), seed=seed
    )
    if len(some) < len(values):
        grid = met_grid(values, grid.axes)
    return RowCells(grid, grid.of(rows.states), kinds, plain)


def _as_numbers(states: AnyArray, names: tuple[str, ...]) -> tuple[FloatArray, Kinds]:
    """Feature rows (n, d) as finite numbers, and what these stand for."""
    columns, words, gaps = [], {}, set()
    for index, name in enumerate(names):
        column = states[:, index]
        absent = missing_entries(column)
        if absent.any() and not absent.all():
            gaps.add(index)
        if any(isinstance(value, str) for value in column):
            words[index] = _words(column[~absent], name)
            place = {word: float(k) for k, word in enumerate(words[index])}
            columns.append(np.array([place.get(value, float(len(place))) for value in column]))
        else:
            columns.append(_filled(column, absent, name))
    return np.stack(columns, axis=1), Kinds(words, frozenset(gaps))


def _words(column: AnyArray, name: str) -> tuple[str, ...]:
    found = sorted(set(column.tolist()))
    if len(found) > MOST_WORDS:
        raise InvalidLogError(
            f"rules from feature rows take columns of at most {MOST_WORDS} different words; {name!r} has {len(found)}. "
            "Hint: group them, or leave the column out of state"
        )
    return tuple(found)


def _filled(column: AnyArray, absent: Any, name: str) -> FloatArray:
    """Numbers with what is missing below all others."""
    try:
        numbers = np.where(absent, 0.0, column).astype(np.float64)
    except (TypeError, ValueError):
        odd = next(value for value in column if not isinstance(value, (int, float)) and value is not None)
        raise InvalidLogError(
            f"rules need features that are numbers or words; {name!r} holds {type(odd).__name__}. Hint: write it as a "
            "number, such as hours since the first row"
        ) from None
    endless = np.flatnonzero(~np.isfinite(numbers))
    if endless.size:
        raise InvalidLogError(f"rules need finite features; {name!r} is {numbers[endless[0]]} in row {endless[0]}")
    return numbers if absent.all() or not absent.any() else np.where(absent, numbers[~absent].min() - 1.0, numbers)


def _given_axes(values: FloatArray, kinds: Kinds, frozen: tuple[Rule, ...], names: tuple[str, ...]) -> tuple[Axis, ...]:
    """Words, and cuts that must be: below the least number where some are missing, and at frozen bounds."""
    cuts: list[list[float]] = [[] for _ in values.T]
    least = [-math.inf] * len(cuts)
    for column in kinds.gaps - kinds.words.keys():
        least[column] = float(np.unique(values[:, column])[1])
        cuts[column].append(least[column])
    for condition in (c for rule in frozen for c in rule.conditions if c.values is None):
        ends = (condition.low, condition.high)
        cuts[condition.column] += [end for end in ends if math.isfinite(end) and end > least[condition.column]]
    return tuple(
        Axis(name, k, np.unique(part) if k not in kinds.words else np.empty(0), kinds.words.get(k, ()), k in kinds.gaps)
        for k, (name, part) in enumerate(zip(names, cuts, strict=True))
    )


def _signals(log: Log, rows: LoggedRows, current: Any) -> FloatArray:
    """(n, k) what tells places apart: the action, what is to come, and what is to come after each action."""
    taken = one_hot(rows.actions, log.n_actions)
    togo = outcomes_to_come(rows, log.discount)
    aimed = togo[:, aim(log)[0]]
    share = np.maximum(taken.mean(axis=0), 1e-12)
    mean = (taken * aimed[:, None]).mean(axis=0) / share
    after = taken * (aimed[:, None] - mean) / share
    acted = [] if current is None else [one_hot(top_actions(current.probabilities(rows.states)), log.n_actions)]
    return np.hstack([taken, togo, after, *acted])
