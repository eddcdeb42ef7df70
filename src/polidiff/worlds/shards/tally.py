"""A table of rows as a stretch: every check, every label and every transition in one pass over its columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from polidiff.records.arrays import AnyArray, BoolArray, FloatArray
from polidiff.worlds.log_columns import Columns
from polidiff.worlds.shards.stretch import CUT, END, Border, Entries, LabelValue, Reading, Stretch, no_entries

WIDEST = 1 << 20  # whole numbers below this are numbered by a table


@np.errstate(over="ignore", invalid="ignore")  # sums of endless rewards are endless, not a fault
def tally(frame: pl.DataFrame, reading: Reading) -> Stretch:
    """What there is to know of the rows of a table."""
    if not frame.height:
        return no_rows(reading)
    columns = reading.columns
    same = _continued(frame, columns)
    ended = _said(frame, columns.terminated) if columns.episode is not None else np.ones(frame.height, dtype=np.bool_)
    closed = ended | _said(frame, columns.truncated) if columns.episode is not None else ended
    step = _steps(frame, columns)
    moved = np.diff(step) if step is not None else None
    gains = _gains(frame, columns)
    states, state = (
        _labels(frame[columns.state[0]]) if columns.discrete else ((), np.full(frame.height, -1, dtype=np.int32))
    )
    actions, action = _labels(frame[columns.action])
    first = np.append(True, ~same)
    run = np.cumsum(first, dtype=np.int32) - np.int32(1)
    block = run & 1 if reading.blocks == 2 else run % reading.blocks
    goes_on = same if moved is None or reading.temporal else same & (moved == 1)
    begins = np.flatnonzero(first)
    return Stretch(
        rows=frame.height,
        runs=len(begins),
        ended=int(np.count_nonzero(ended)),
        gaps=0 if moved is None or reading.temporal else int(np.count_nonzero(same & (moved > 1))),
        wrong=_wrong_values(frame, columns, gains) + _wrong_order(same, moved, closed),
        missing=tuple(frame[name].null_count() for name in columns.used),
        values=tuple(_first_value(frame[name]) for name in columns.features),
        outside=_outside(reading, gains, begins, ended),
        ordered=columns.episode is None or _rising(frame[columns.episode], first),
        states=states,
        actions=actions,
        entries=_entries(block, state, action, goes_on, ended, gains) if columns.discrete else no_entries(len(gains)),
        starts=_starts(begins[1:], block, state) if columns.discrete else _starts(begins[:0], block, state),
        head=_border(frame, columns, 0, slice(0, _end(begins)), step, state, action, gains, ended, closed),
        tail=_border(
            frame, columns, -1, slice(int(begins[-1]), frame.height), step, state, action, gains, ended, closed
        ),
    )


def no_rows(reading: Reading) -> Stretch:
    """The stretch that changes nothing when it is joined."""
    none, columns = np.zeros(0, dtype=np.int64), reading.columns
    missing, values = tuple(0 for _ in columns.used), tuple((False, None) for _ in columns.features)
    entries, starts = no_entries(len(columns.gains)), (none, none, np.zeros(0))
    return Stretch(0, 0, 0, 0, 0, missing, values, False, True, (), (), entries, starts, None, None)


def _continued(frame: pl.DataFrame, columns: Columns) -> BoolArray:
    """(n - 1,) whether a row and the next belong to one episode."""
    if columns.episode is None:
        return np.zeros(frame.height - 1, dtype=np.bool_)
    episode = frame[columns.episode]
    if episode.dtype.is_integer() and not episode.null_count():
        numbers = episode.to_numpy()
        return np.asarray(numbers[1:] == numbers[:-1])
    return (episode.slice(1) == episode.slice(0, len(episode) - 1)).fill_null(False).to_numpy()


def _said(frame: pl.DataFrame, name: str | None) -> BoolArray:
    if name is None:
        return np.zeros(frame.height, dtype=np.bool_)
    return frame[name].cast(pl.Boolean).fill_null(False).to_numpy()


def _steps(frame: pl.DataFrame, columns: Columns) -> AnyArray | None:
    if columns.step is None:
        return None
    step = frame[columns.step]
    if step.dtype.is_temporal():
        step = step.to_physical()
    if step.dtype.is_unsigned_integer() or step.dtype.is_decimal():
        step = step.cast(pl.Int64 if step.dtype.is_integer() else pl.Float64)
    return step.fill_null(0).to_numpy()


def _gains(frame: pl.DataFrame, columns: Columns) -> list[FloatArray]:
    """What each row adds to each outcome; NaN where it is missing."""
    return [
        frame[gain].cast(pl.Float64).to_numpy() if isinstance(gain, str) else np.full(frame.height, float(gain))
        for gain in columns.gains
    ]


def _labels(column: pl.Series) -> tuple[tuple[LabelValue, ...], AnyArray]:
    """The labels of a column in sorted order and the place of each row's among them; a missing one counts as any."""
    if column.dtype.is_integer() or column.dtype == pl.Boolean:
        whole = column.cast(pl.UInt8 if column.dtype == pl.Boolean else column.dtype)
        if column.null_count():
            whole = whole.fill_null(strategy="zero")
        return _numbered(whole.to_numpy())
    text = column.cast(pl.String).fill_null("")
    names = text.unique().sort()
    code = text.cast(pl.Enum(names)).to_physical().to_numpy().astype(np.int32)
    return tuple(names.to_list()), code


def _numbered(values: AnyArray) -> tuple[tuple[LabelValue, ...], AnyArray]:
    low, high = int(values.min()), int(values.max())
    if low < 0 or high >= WIDEST:
        found, code = np.unique(values, return_inverse=True)
        return tuple(found.tolist()), code
    met = np.zeros(high + 1, dtype=np.bool_)
    met[values] = True
    found = np.flatnonzero(met)
    if len(found) == high + 1:
        return tuple(range(high + 1)), values.astype(np.int32)
    place = np.cumsum(met, dtype=np.int32) - np.int32(1)
    return tuple(found.tolist()), place[values]


def _wrong_values(frame: pl.DataFrame, columns: Columns, gains: list[FloatArray]) -> int:
    """Values that must be there and are not, and numbers that are none."""
    names = (columns.action, columns.episode, columns.step, columns.terminated, columns.truncated, columns.probability)
    needed = {name for name in (*names, *(columns.state if columns.discrete else ())) if name is not None}
    wrong = sum(frame[name].null_count() for name in needed)
    wrong += sum(len(gain) - int(np.count_nonzero(np.isfinite(gain))) for gain in gains)
    if columns.reward is not None and columns.reward not in columns.gains:
        reward = frame[columns.reward].cast(pl.Float64).to_numpy()
        wrong += len(reward) - int(np.count_nonzero(np.isfinite(reward)))
    if columns.probability is not None:
        chance = frame[columns.probability].cast(pl.Float64).to_numpy()
        wrong += len(chance) - int(np.count_nonzero((chance > 0) & (chance <= 1)))
    return wrong


def _wrong_order(same: BoolArray, moved: AnyArray | None, closed: BoolArray) -> int:
    """Steps that repeat or fall, and episodes that go on after their end."""
    wrong = int(np.count_nonzero(same & closed[:-1]))
    if moved is not None:
        wrong += int(np.count_nonzero(same & ~(moved > 0)))
    return wrong


def _first_value(column: pl.Series) -> tuple[bool, str | None]:
    there = column.drop_nulls() if column.null_count() else column
    if not len(there):
        return False, None
    first = there.slice(0, 1)
    return bool((there != first).any()), str(first[0])


def _rising(episode: pl.Series, first: BoolArray) -> bool:
    """Whether the names of the runs rise; other types than whole numbers and text are not compared."""
    if not (episode.dtype.is_integer() or episode.dtype == pl.String):
        return False
    names = episode.filter(pl.Series(first))
    return bool((names.slice(1) > names.slice(0, len(names) - 1)).fill_null(False).all())


def _outside(reading: Reading, gains: list[FloatArray], begins: AnyArray, ended: BoolArray) -> bool:
    """Whether an episode that lies whole inside leaves a declared range; those at the ends are left to `join`."""
    if len(begins) < 3 and reading.columns.episode is not None:
        return False
    for k, low, high in reading.ranges:
        if reading.columns.episode is None:
            totals, whole = gains[k], ended
        else:
            totals = np.add.reduceat(gains[k], begins)[1:-1]
            whole = ended[begins[2:] - 1]
        if np.any(whole & ((totals < low) | (totals > high))):
            return True
    return False


def _entries(
    block: AnyArray, state: AnyArray, action: AnyArray, goes_on: BoolArray, ended: BoolArray, gains: list[FloatArray]
) -> Entries:
    to = np.where(goes_on, state[1:], np.int32(CUT))
    to[ended[:-1]] = END
    return Entries(block[:-1], state[:-1], action[:-1], to, None, tuple(gain[:-1] for gain in gains), None)


def _starts(begins: AnyArray, block: AnyArray, state: AnyArray) -> tuple[AnyArray, AnyArray, FloatArray]:
    return block[begins], state[begins], np.ones(len(begins))


def _end(begins: AnyArray) -> int | None:
    return int(begins[1]) if len(begins) > 1 else None


def _border(
    frame: pl.DataFrame,
    columns: Columns,
    at: int,
    run: slice,
    step: AnyArray | None,
    state: AnyArray,
    action: AnyArray,
    gains: list[FloatArray],
    ended: BoolArray,
    closed: BoolArray,
) -> Border:
    return Border(
        episode=None if columns.episode is None else _name(frame[columns.episode][at]),
        step=None if step is None else step[at].item(),
        state=int(state[at]),
        action=int(action[at]),
        gains=tuple(float(gain[at]) for gain in gains),
        ended=bool(ended[at]),
        closed=bool(closed[at]),
        totals=tuple(float(gain[run].sum()) for gain in gains),
        over=bool(ended[run][-1]),
    )


def _name(episode: Any) -> LabelValue:
    return episode if isinstance(episode, int) and not isinstance(episode, bool) else str(episode)
