r"""All that is kept of a part of a log: facts for the check, and counts for the model.

.. math:: n_b(s, a, s'), \qquad \sum g, \qquad \sum g^2 \qquad \text{per block of episodes } b

Parts hold whole episodes. Labels are numbered as they come, and blocks are turned by the number of episodes before
them, so that what was counted of parts is added up as if they had been read in one go.

What was counted of parts of a log, in a work folder, so that reading that was stopped goes on where it stopped.

A summary is kept under a hash of everything it depends on: its ranges of rows, their files (size, time of change, first
and last 64 KB) and what was asked. Another file under the same name, or other options, have another hash and are read
again. Files hold a hash of what follows, then arrays and a JSON text, never code, and are written whole or not at all.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import polars as pl

from polidiff._version import __version__
from polidiff.errors import ChangedInputWarning, InvalidInputError
from polidiff.files import write_whole
from polidiff.parallel import stream_tasks
from polidiff.progress import report
from polidiff.records.arrays import BoolArray, FloatArray, IntArray
from polidiff.records.codec import Json
from polidiff.worlds.log_columns import RANKED, Columns
from polidiff.worlds.log_rows import boundaries, gain_expressions, hashes, row_problems
from polidiff.worlds.shards.shard_files import Part, filesystem, is_remote, open_file, whole_batches
from polidiff.worlds.shards.transition_counts import CUT, END, Entries, Sizes, TransitionCounts

BATCH_ROWS = 1 << 18  # whose columns are small enough to take the place of those before in memory
WIDEST = 1 << 20  # whole numbers below this are looked up in a table
LabelValue: TypeAlias = int | str
ONE_ACTION = np.zeros(1, dtype=np.int64)  # of starts
FORM = 12  # of the files
HASH = 64  # bytes of a hash before the arrays
SAMPLE = 1 << 16
AT_ONCE = 2  # parts: while one is put together, the next is read


@dataclass(frozen=True)
class Reading:
    """What is wanted of every part."""

    columns: Columns
    blocks: int
    ranges: tuple[tuple[int, float, float], ...]  # outcome, low, high that every whole episode must keep
    schema: pl.Schema  # of the columns that are read


@dataclass(frozen=True)
class Facts:
    """What the check of a log needs to know of its rows."""

    missing: tuple[int, ...]  # rows without a value, per column that is read
    rows: int = 0
    runs: int = 0  # episodes
    ended: int = 0
    gaps: int = 0
    wrong: int = 0  # problems; what they are is looked up only if there are any
    outside: bool = False  # whether a whole episode left a declared range
    ordered: bool = True  # whether the names of episodes rise from run to run, so that none can come back
    first: LabelValue | None = None  # name of the first episode
    last: LabelValue | None = None

    def __add__(self, other: Facts) -> Facts:
        """The facts of rows and of those that follow them."""
        if not self.rows or not other.rows:
            return self if other.rows == 0 else other
        return Facts(
            missing=tuple(a + b for a, b in zip(self.missing, other.missing, strict=True)),
            **{name: getattr(self, name) + getattr(other, name) for name in ("rows", "runs", "ended", "gaps", "wrong")},
            outside=self.outside or other.outside,
            ordered=self.ordered and other.ordered and _rises(self.last, other.first),
            first=self.first,
            last=other.last,
        )


@dataclass(frozen=True, eq=False)
class ShardSummary:
    """What is known of rows that stand together in a log."""

    facts: Facts
    states: tuple[LabelValue, ...]
    actions: tuple[LabelValue, ...]
    entries: Entries  # of discrete states
    starts: Entries  # episodes by block and state, as if each did action 0 and ended


class SummaryCounter:
    """Counts rows as they come, and adds what was counted of others."""

    def __init__(self, reading: Reading) -> None:
        self.reading, columns = reading, reading.columns
        self.states, self.actions = LabelCodes(), LabelCodes()
        self.counted = TransitionCounts(reading.blocks, len(columns.gains))
        self.begun = TransitionCounts(reading.blocks, 0)
        self.facts = Facts(tuple(0 for _ in columns.used))

    @np.errstate(over="ignore", invalid="ignore")  # sums of endless rewards are endless, not a fault
    def add_rows(self, frame: pl.DataFrame) -> None:
        """Whole episodes that follow on those before."""
        columns = self.reading.columns
        rows = frame.select(
            pl.int_range(pl.len()),
            **boundaries(columns),
            **{f"gain{k}": gain for k, gain in enumerate(gain_expressions(columns))},
        )
        first, ended = rows["first"].to_numpy(), rows["ended"].to_numpy()
        gains = np.array([rows[f"gain{k}"].to_numpy() for k in range(len(columns.gains))]).reshape(-1, len(rows))
        action = self.actions.of(frame[columns.action])
        if columns.discrete:
            state = self.states.of(frame[columns.state[0]])
            to = np.where(rows["goes_on"].to_numpy(), np.append(state[1:], CUT), CUT)
            block = self._person(frame, first) % self.reading.blocks
            self.counted.add_rows(block, state, action, np.where(ended, END, to), gains)
            none = np.zeros(int(first.sum()), dtype=np.int64)
            self.begun.add_rows(block[first], state[first], none, none + END, np.zeros((0, len(none))))
        self.facts += self._facts(frame, rows, _leaves(gains, first, ended, self.reading.ranges))

    def _facts(self, frame: pl.DataFrame, rows: pl.DataFrame, outside: bool) -> Facts:
        """What is missing, what is wrong, and the names of episodes."""
        columns = self.reading.columns
        wrong = frame.select(rule.sum().alias(str(k)) for k, rule in enumerate(row_problems(columns).values()))
        names = None if columns.episode is None else frame[columns.episode].filter(rows["first"])
        return Facts(
            missing=tuple(frame[name].null_count() for name in columns.used),
            rows=frame.height,
            runs=int(rows["first"].sum()),
            ended=int(rows["ended"].sum()),
            gaps=int(rows["gap"].sum()),
            wrong=int(sum(wrong.row(0))),
            outside=outside,
            ordered=names is None or bool((names.slice(1) > names.slice(0, len(names) - 1)).fill_null(False).all()),
            first=None if names is None else _name(names[0]),
            last=None if names is None else _name(names[-1]),
        )

    def add(self, part: ShardSummary) -> None:
        """What was counted of a part that follows."""
        state, action = self.states.numbered(part.states), self.actions.numbered(part.actions)
        before = self.facts.runs if self.reading.columns.group is None else 0
        self.counted.add(part.entries.renumbered(state, action, before=before))
        self.begun.add(part.starts.renumbered(state, ONE_ACTION, before=before))
        self.facts += part.facts

    def result(self) -> ShardSummary:
        """What there is to know of the rows: labels sorted, entries in the order of block, state, action, to."""
        (states, state), (actions, action) = self.states.sorted(), self.actions.sorted()
        entries, begun = self.counted.entries(), self.begun.entries()
        starts = begun.renumbered(state, ONE_ACTION)
        return ShardSummary(self.facts, states, actions, entries.renumbered(state, action), starts)

    def _person(self, frame: pl.DataFrame, first: BoolArray) -> IntArray:
        """Numbers by which episodes are dealt to blocks: of people, or in turn."""
        if self.reading.columns.group is None:
            return self.facts.runs + np.cumsum(first) - 1
        people = frame[self.reading.columns.group]
        if people.dtype == RANKED:
            return people.fill_null(0).cast(pl.Int64).to_numpy()
        people = people.fill_null(strategy="zero") if people.dtype.is_integer() else people
        return (hashes(people) >> np.uint64(2)).astype(np.int64)


def _leaves(gains: FloatArray, first: BoolArray, ended: BoolArray, ranges: Sequence[tuple[int, float, float]]) -> bool:
    """Whether a whole episode ended outside a declared range."""
    begins = np.flatnonzero(first)
    over = ended[np.append(begins[1:], len(first)) - 1]
    totals = ((np.add.reduceat(gains[k], begins)[over], low, high) for k, low, high in ranges)
    return any(bool(((total < low) | (total > high)).any()) for total, low, high in totals)


def _name(episode: object) -> LabelValue | None:
    return episode if isinstance(episode, (int, str)) and not isinstance(episode, bool) else None


def _rises(one: LabelValue | None, other: LabelValue | None) -> bool:
    return one is not None and type(one) is type(other) and one < other  # type: ignore[operator]


class LabelCodes:
    """Numbers for labels in the order in which they come."""

    def __init__(self) -> None:
        self._code: dict[LabelValue, int] = {}

    def numbered(self, labels: Sequence[LabelValue]) -> IntArray:
        """The number of each label."""
        code = self._code
        return np.array([code.setdefault(label, len(code)) for label in labels], dtype=np.int64)

    def of(self, column: pl.Series) -> IntArray:
        """The number of each row's label; a missing one counts as any."""
        whole = column.cast(pl.UInt8) if column.dtype == pl.Boolean else column
        filled = whole.fill_null(0) if whole.dtype.is_integer() else whole.cast(pl.String).fill_null("")
        labels = filled.unique()
        codes = self.numbered(labels.to_list())
        if filled.dtype.is_integer() and filled.min() >= 0 and filled.max() < WIDEST:  # type: ignore[operator]
            table = np.zeros(int(filled.max()) + 1, dtype=np.int64)  # type: ignore[arg-type]
            table[labels.to_numpy()] = codes
            return table[filled.to_numpy()]
        return filled.replace_strict(labels, pl.Series(codes), return_dtype=pl.Int64).to_numpy()

    def sorted(self) -> tuple[tuple[LabelValue, ...], IntArray]:
        """The labels in sorted order, and the place of each number among them."""
        labels = sorted(self._code)
        place = np.empty(len(self._code), dtype=np.int64)
        place[[self._code[label] for label in labels]] = np.arange(len(labels))
        return tuple(labels), place


def summary_of(part: Part, reading: Reading) -> ShardSummary:
    """One part as a summary."""
    counter = SummaryCounter(reading)
    for frame in whole_batches(part, reading.schema, reading.columns.episode, BATCH_ROWS):
        counter.add_rows(frame)
    return counter.result()


class Pace:
    """Tells how far reading has come, in rows and rows per second."""

    def __init__(self, rows: int, what: str) -> None:
        self.rows, self.what, self.done, self.began = rows, what, 0, time.monotonic()

    def tell(self, rows: int) -> None:
        """So many more rows were read."""
        self.done += rows
        speed = self.done / max(time.monotonic() - self.began, 1e-9)
        share = min(self.done / self.rows, 1.0) if self.rows else 1.0
        report(self.what, share, f"({self.done / 1e6:.1f} million rows, {speed / 1e6:.1f} million per second)")


def summaries(
    parts: Sequence[Part], reading: Reading, work_folder: str | os.PathLike[str] | None
) -> Iterator[ShardSummary]:
    """The summary of every part, in order, on the workers that the user chose; from the work folder if it is there."""
    cache = None if work_folder is None else SummaryCache(work_folder, reading)
    held = [cache is not None and cache.path(part).exists() for part in parts]
    missing = [(part, reading) for part, known in zip(parts, held, strict=True) if not known]
    fresh = iter(stream_tasks(summary_of, missing, threads=AT_ONCE))
    for part, known in zip(parts, held, strict=True):
        summary = cache.load(part) if cache is not None and known else None
        if summary is None:
            summary = summary_of(part, reading) if known else next(fresh)
            if cache is not None:
                cache.save(part, summary)
        yield summary


class SummaryCache:
    """The finished summaries of one pass over a log."""

    def __init__(self, work_folder: str | os.PathLike[str], reading: Reading) -> None:
        self.folder = Path(work_folder) / "shards"
        question = {**asdict(reading), "schema": [(name, str(kind)) for name, kind in reading.schema.items()]}
        self._question = json.dumps(question, sort_keys=True, default=str)
        self._prints: dict[str, str] = {}
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidInputError(f"cannot use the work folder {work_folder}: {error.strerror or error}") from error

    def path(self, part: Part) -> Path:
        """Where the summary of a part is kept; warns if a file of it has changed since."""
        prints = [[self._print(file), first, rows] for file, first, rows in part.ranges]
        return self.folder / f"{_hash(json.dumps([FORM, __version__, self._question, prints]).encode())[:40]}.npz"

    def load(self, part: Part) -> ShardSummary | None:
        """The summary of a part; None if its file is damaged, which its hash tells."""
        try:
            content = self.path(part).read_bytes()
        except OSError:
            return None
        return _unpacked(content[HASH:]) if _hash(content[HASH:]).encode() == content[:HASH] else None

    def save(self, part: Part, summary: ShardSummary) -> None:
        """Keep the summary of a part."""
        content = _packed(summary)
        write_whole(self.path(part), _hash(content).encode() + content)

    def _print(self, file: str) -> str:
        """What a file looks like; says so if it looked otherwise when this work folder was begun."""
        if file not in self._prints:
            now = self._prints[file] = fingerprint(file)
            note = self.folder.parent / f"{_hash(file.encode())[:40]}.input"
            before = note.read_text(encoding="ascii", errors="replace") if note.exists() else None
            if before not in (None, now):
                text = f"{file} has changed since this work folder was begun; it is read again"
                warnings.warn(text, ChangedInputWarning, 2)
            if before != now:
                write_whole(note, now)
        return self._prints[file]


def fingerprint(file: str) -> str:
    """A hash of a file's size, time of change, and both ends."""
    with open_file(file) as stream:
        size = stream.seek(0, 2)
        stream.seek(0)
        first = stream.read(SAMPLE)
        stream.seek(max(size - SAMPLE, 0))
        last = stream.read(SAMPLE)
    return _hash(b"|".join([repr((size, _changed(file))).encode(), first, last]))


def _changed(file: str) -> str:
    if not is_remote(file):
        return str(os.stat(file).st_mtime_ns)
    system, path = filesystem().url_to_fs(file)
    info = system.info(path)
    return str([info.get(key) for key in ("ETag", "etag", "mtime", "LastModified", "created")])


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _packed(summary: ShardSummary) -> bytes:
    plain = {name: getattr(summary, name) for name in ("states", "actions")}
    plain |= {"facts": asdict(summary.facts), "entries": summary.entries.sizes, "starts": summary.starts.sizes}
    arrays = {"keys": summary.entries.keys, "sums": summary.entries.sums}
    arrays |= {"start_keys": summary.starts.keys, "start_sums": summary.starts.sums}
    text = np.frombuffer(json.dumps(plain).encode(), dtype=np.uint8)
    stream = io.BytesIO()
    np.savez(stream, allow_pickle=False, plain=text, **arrays)
    return stream.getvalue()


def _unpacked(content: bytes) -> ShardSummary:
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        plain = _tuples(json.loads(arrays["plain"].tobytes()))
        entries = Entries(arrays["keys"], Sizes(*plain["entries"]), arrays["sums"])
        starts = Entries(arrays["start_keys"], Sizes(*plain["starts"]), arrays["start_sums"])
    return ShardSummary(Facts(**plain["facts"]), plain["states"], plain["actions"], entries, starts)


def _tuples(value: Json) -> Json:
    if isinstance(value, dict):
        return {name: _tuples(item) for name, item in value.items()}
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value
