"""From rows of decisions to transitions: what follows each row, where episodes begin, what each outcome adds.

A row is followed by the next row of its episode, by the end if the process ended there (``terminated``), and otherwise
by nothing that was recorded: the record was cut, or steps are missing. A cut is never taken for an end.

Which episodes are drawn from a long log, and to which fold people are dealt, hashes decide that any reader agrees on.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Self

import numpy as np
import polars as pl

from polidiff.errors import InvalidLogError
from polidiff.records.arrays import AnyArray, BoolArray, FloatArray, IntArray
from polidiff.records.numbers import counted
from polidiff.streams import Stream
from polidiff.worlds.checks import FARTHEST, LARGEST
from polidiff.worlds.log_columns import Columns, Labels
from polidiff.worlds.shards.shard_files import collect
from polidiff.worlds.shards.transition_counts import CUT, END, check_fits


class EpisodeRows:
    """Decisions, the episodes one after the other; arrays among the fields of a subclass have one entry per row."""

    actions: IntArray  # (n,)
    episode: IntArray  # (n,) 0, 0, …, 1, …
    follow: IntArray  # (n,) row that comes next, END or CUT
    gains: FloatArray  # (n, M) what each decision adds to each outcome

    @property
    def first(self) -> BoolArray:
        """(n,) whether an episode begins here."""
        return np.diff(self.episode, prepend=-1) > 0

    @property
    def step(self) -> IntArray:
        """(n,) decisions of the episode before each row."""
        return np.asarray(np.arange(len(self.episode)) - np.flatnonzero(self.first)[self.episode])

    @property
    def one_step(self) -> bool:
        """Whether every episode is a single decision."""
        return self.n_episodes == len(self.episode)

    @property
    def noun(self) -> str:
        """What an episode is called: "decision", where it is a single one."""
        return "decision" if self.one_step else "episode"

    @property
    def n_episodes(self) -> int:
        """How many episodes there are."""
        return int(self.episode[-1]) + 1 if len(self.episode) else 0

    @property
    def previous(self) -> IntArray:
        """(n,) the row that each row follows; −1 where an episode begins or steps are missing."""
        before, went_on = np.full(len(self.follow), -1, dtype=np.int64), np.flatnonzero(self.follow >= 0)
        before[self.follow[went_on]] = went_on
        return before

    @property
    def whole(self) -> BoolArray:
        """(n,) rows of episodes whose record runs to the end without a cut or a gap."""
        broken = np.bincount(self.episode, self.follow == CUT, self.n_episodes) > 0
        return np.asarray(~broken[self.episode])

    def some(self, keep: BoolArray) -> Self:
        """The rows (n,) of some episodes, these renumbered."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        kept = np.flatnonzero(keep)
        parts = {name: value[kept] for name, value in values.items() if isinstance(value, np.ndarray)}
        parts["episode"] = np.cumsum(np.diff(parts["episode"], prepend=-1) > 0) - 1
        parts["follow"] = np.append(np.cumsum(keep) - 1, [CUT, END])[parts["follow"]]  # CUT and END count from the end
        return replace(self, **parts)  # type: ignore[type-var]

    def to_come(self, discount: float = 1.0) -> FloatArray:
        r"""(n, M) what outcomes add from a row to the end of its record, :math:`\sum_{u \ge t} \gamma^{u-t} g_u`."""
        from scipy.signal import lfilter

        running = lfilter([1.0], [1.0, -discount], self.gains[::-1], axis=0)[::-1]  # over all that comes in the log
        end = np.append(np.flatnonzero(self.first)[1:], len(running))[self.episode]
        later = np.vstack([running, np.zeros((1, running.shape[1]))])[end]
        ahead = end - np.arange(len(end))
        powers = discount ** np.arange(ahead.max(initial=0) + 1)
        return np.asarray(running - powers[ahead, None] * later)


@dataclass(frozen=True, eq=False)
class LoggedRows(EpisodeRows):
    """Decisions in the order of the log."""

    states: AnyArray  # (n,) state numbers, or (n, d) features
    actions: IntArray
    episode: IntArray  # in order of first row
    follow: IntArray
    gains: FloatArray
    probability: FloatArray | None  # (n,) of the logged action, where the log has it
    hashed: AnyArray | None = None  # (n,) of the episode's or person's name, where these rows are of a longer log
    unit: IntArray | None = None  # (n,) number of the person; None: every episode is another's

    @property
    def turn(self) -> IntArray:
        """(n,) by which people or episodes are dealt to blocks: their number, or what any part of a log agrees on."""
        if self.hashed is None:
            return self.person
        return (self.hashed & np.uint64(0xFFFFFFFF)).astype(np.int64)

    @property
    def person(self) -> IntArray:
        """(n,) number of whoever a row belongs to: the person, or the episode where every episode is another's."""
        return self.episode if self.unit is None else self.unit

    @cached_property
    def canonical(self) -> IntArray:
        """(n,) rows in an order that does not depend on theirs: by what people, then episodes, hold."""
        unit, episode = self._content
        return np.lexsort((np.arange(len(episode)), episode, unit))

    @cached_property
    def _content(self) -> tuple[AnyArray, AnyArray]:
        """(n,) hashes of all that a row's person, and a row's episode, hold."""
        rows = mixed(hashed_rows(self.states, self.actions, self.gains) + mixed(self.step))
        episode = _summed(rows, self.episode)
        if self.unit is None:
            return episode, episode
        _, unit = np.unique(self.unit, return_inverse=True)
        return _summed(np.where(self.first, mixed(episode), np.uint64(0)), unit), episode

    def folds(self, count: int, seed: int) -> IntArray:
        """(n,) fold of each row: whole people, or episodes, dealt by chance whatever the order of the rows."""
        dealt = np.random.default_rng((seed, Stream.FOLDS)).permutation(int(self.rank.max(initial=-1)) + 1) % count
        return np.asarray(dealt[self.rank], dtype=np.int64)

    @cached_property
    def rank(self) -> IntArray:
        """(n,) number of each row's person, whatever the order of the rows: by what people hold."""
        _, first, unit = np.unique(self.person, return_index=True, return_inverse=True)
        rank = np.empty(len(first), dtype=np.int64)
        rank[np.argsort(self._content[0][first], kind="stable")] = np.arange(len(first))
        return np.asarray(rank[unit])


def _summed(values: AnyArray, group: IntArray) -> AnyArray:
    """(n,) the sum of each row's group, modulo 2**64."""
    totals = np.zeros(int(group.max(initial=-1)) + 1, dtype=np.uint64)
    np.add.at(totals, group, values)
    return np.asarray(totals[group])


def boundaries(columns: Columns) -> dict[str, pl.Expr]:
    """Per row: whether it begins an episode, the next row continues it, steps are missing there, the process ended."""
    if columns.episode is None:
        no = pl.lit(False)
        return {"first": pl.lit(True), "goes_on": no, "gap": no, "ended": pl.lit(True)}
    episode = pl.col(columns.episode)
    goes_on = (episode.shift(-1) == episode).fill_null(False)
    gap = pl.lit(False)
    if columns.step is not None and not columns.temporal:
        ahead = pl.col(columns.step).shift(-1) - pl.col(columns.step)
        goes_on, gap = goes_on & (ahead == 1).fill_null(False), goes_on & (ahead > 1).fill_null(False)
    ended = pl.lit(False) if columns.terminated is None else pl.col(columns.terminated).cast(pl.Boolean)
    if columns.ends_last:
        ended = (episode.shift(-1) != episode).fill_null(True)
    first = (episode.shift(1) != episode).fill_null(True)
    return {"first": first, "goes_on": goes_on, "gap": gap, "ended": ended.fill_null(False)}


def gain_expressions(columns: Columns) -> list[pl.Expr]:
    """What each row adds to each outcome."""
    return [
        (pl.col(gain).cast(pl.Float64) if isinstance(gain, str) else pl.lit(gain)).alias(f"gain{k}")
        for k, gain in enumerate(columns.gains)
    ]


def read_rows(lazy: pl.LazyFrame, columns: Columns, actions: Labels, states: Labels | None) -> LoggedRows:
    """All rows as arrays; for the estimators that look at whole episodes."""
    state = (
        [states.number().alias("x0")]
        if states is not None
        else [pl.col(name).alias(f"x{j}") for j, name in enumerate(columns.state)]
    )
    extra = [] if columns.probability is None else [pl.col(columns.probability).cast(pl.Float64).alias("chance")]
    if columns.group is not None:
        extra.append(pl.col(columns.group).rank("dense").cast(pl.Int64).alias("unit") - 1)
    parts = [expression.alias(name) for name, expression in boundaries(columns).items()]
    frame = collect(
        lazy.select(
            pl.int_range(pl.len()).alias("row"),
            actions.number().alias("action"),
            *state,
            *parts,
            *extra,
            *gain_expressions(columns),
        )
    )
    for j, name in enumerate(columns.state if states is None else ()):
        told = frame[f"x{j}"]
        if told.dtype.is_float() and (large := (told.is_not_nan() & (told.abs() > FARTHEST)).fill_null(False)).any():
            raise InvalidLogError(
                f"feature {name!r} must hold finite numbers or nothing; it is beyond ±{FARTHEST:g} in at least "
                f"{counted(int(large.sum()), 'row')}. Hint: leave the field empty"
            )
    row = frame["row"].to_numpy()
    ended, goes_on = frame["ended"].to_numpy(), frame["goes_on"].to_numpy()
    follow = np.where(ended, END, np.where(goes_on, row + 1, CUT))
    episode = np.cumsum(frame["first"].to_numpy()) - 1
    gains = np.column_stack([frame[f"gain{k}"].to_numpy() for k in range(len(columns.gains))])
    values = frame["x0"].to_numpy() if states is not None else feature_matrix(frame, len(columns.state))
    chance = None if columns.chance is None else np.full(frame.height, columns.chance)
    if columns.probability is not None:
        chance = frame["chance"].to_numpy()
    unit = None if columns.group is None else frame["unit"].to_numpy()
    return LoggedRows(values, frame["action"].to_numpy(), episode, follow, gains, chance, unit=unit)


def check_room(rows: int, columns: Columns, free: float | None) -> None:
    """An error if all rows as arrays would not fit into memory, told before anything is read."""
    need = 16.0 * rows * columns.values_per_row  # once as read, once as arrays
    some = max(1, int(rows * (free or 0.0) / max(need, 1.0) / 3))
    hint = f"with feature states, max_rows={some} draws whole episodes; discrete states (state='column') are counted "
    check_fits(f"{rows} rows as arrays", need, free, f"{hint}without holding the rows")


def feature_matrix(frame: pl.DataFrame, count: int) -> AnyArray:
    """(n, d) numbers with NaN where missing; objects with None where missing if any feature is text."""
    columns = [frame[f"x{j}"] for j in range(count)]
    if all(column.dtype.is_numeric() or column.dtype == pl.Boolean for column in columns):
        return np.column_stack([column.cast(pl.Float64).fill_null(float("nan")).to_numpy() for column in columns])
    table = np.empty((frame.height, count), dtype=object)
    for j, column in enumerate(columns):
        table[:, j] = column.to_list()
    return table


def row_problems(columns: Columns) -> dict[str, pl.Expr]:
    """Per kind of problem that makes rows unusable, in words, which rows have it."""
    wrong: dict[str, pl.Expr] = {}
    for name in columns.needed:
        wrong[f"column {name!r} must have a value in every row; it is missing"] = pl.col(name).is_null()
    for name in columns.outcome_columns:
        fits = pl.col(name).cast(pl.Float64).abs() <= LARGEST  # NaN is larger
        wrong[f"column {name!r} must hold finite numbers; it is missing, NaN or beyond ±{LARGEST:g}"] = ~fits.fill_null(
            False
        )
    if columns.probability is not None:
        chance = pl.col(columns.probability)
        wrong[
            f"the probability {columns.probability!r} of a logged action must be above 0 and at most 1; it is not"
        ] = (~((chance > 0) & (chance <= 1))).fill_null(False)
    if columns.episode is not None:
        wrong |= _wrong_order(columns)
    return wrong


def _wrong_order(columns: Columns) -> dict[str, pl.Expr]:
    episode = pl.col(str(columns.episode))
    wrong = {}
    if columns.step is not None:
        step = pl.col(columns.step)
        same = (episode.shift(1) == episode).fill_null(False)
        wrong[f"steps ({columns.step!r}) must increase within an episode; they repeat"] = same & (
            step == step.shift(1)
        ).fill_null(False)
        wrong[
            f"steps ({columns.step!r}) must increase within an episode (hint: sort by episode and step); they fall"
        ] = same & (step < step.shift(1)).fill_null(False)
    goes_on = (episode.shift(-1) == episode).fill_null(False)
    for name, said in ((columns.terminated, "ended"), (columns.truncated, "was cut")):
        if name is not None:
            wrong[f"an episode has one end; it {said} ({name!r}) and goes on"] = pl.col(name).cast(pl.Boolean) & goes_on
    return wrong


def mixed(numbers: IntArray | AnyArray) -> AnyArray:
    """Whole numbers scattered over 64 bits (SplitMix64).

    >>> mixed(np.array([0, 1])).tolist()
    [16294208416658607535, 10451216379200822465]
    """
    x = np.asarray(numbers)
    x = (x if x.dtype == np.uint64 else x.astype(np.int64).view(np.uint64)) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def hashed_names(names: pl.Series) -> AnyArray:
    """(n,) hashes of whole numbers or of text."""
    if names.dtype.is_integer():
        return mixed(names.to_numpy())
    digests = [hashlib.blake2b(str(name).encode(), digest_size=8).digest() for name in names]
    return np.frombuffer(b"".join(digests), dtype="<u8")


def hashes(names: pl.Series) -> AnyArray:
    """(n,) a hash of each row's name; made once for rows of one name that stand together."""
    if not names.dtype.is_integer():
        names = names.cast(pl.String)
    begins = (names != names.shift(1)).fill_null(True).to_numpy()
    return hashed_names(names.filter(pl.Series(begins)))[np.cumsum(begins) - 1]


def hashed_rows(*columns: AnyArray) -> AnyArray:
    """(n,) hashes of what rows hold in columns (n,) or (n, d) of numbers or text; equal rows have equal hashes."""
    total = np.zeros(len(columns[0]), dtype=np.uint64)
    for column in columns:
        for part in column.reshape(len(column), -1).T:
            total = mixed(total ^ _bits(part))
    return total


def _bits(values: AnyArray) -> AnyArray:
    if values.dtype != object or not any(isinstance(value, str) for value in values):  # numbers beside a column of text
        numbers = values.astype(np.float64) + 0.0  # one zero, whatever its sign
        return mixed(np.where(np.isnan(numbers), np.nan, numbers).view(np.uint64))
    distinct = {value: str(value) for value in values}
    codes = dict(zip(distinct, hashed_names(pl.Series(list(distinct.values()), dtype=pl.String)), strict=True))
    return np.array([codes[value] for value in values], dtype=np.uint64)
