"""Logs: CSV with every kind of entry where it does not belong, Parquet of every type, both with damaged bytes."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
from hypothesis import strategies as st

from polidiff import Log
from tests.fuzz import seeds
from tests.fuzz.judge import written
from tests.fuzz.mutate import mostly_whole, names

NUMBERS = ("", "0", "1", "-1", "1.5", "nan", "inf", "-inf", "1e308", "1e999", "9" * 20, "9" * 60, " 1", "1 ")
OTHERS = ("true", "TRUE", "x", "2020-01-01", "2020-01-01T00:00:00", "12:00", "é", "💊", "NULL", "'", "\x00", "\u202e")
QUOTED = ('"a,b"', '"a""b"', '"a\nb"', '"', '"x')
ROLES = (
    {"state": "s", "action": "a", "reward": "r", "episode": "e", "step": "t", "terminated": "end"},
    {"state": ["x", "s"], "action": "a", "reward": "r", "episode": "e", "terminated": "end"},
    {"state": ["x"], "action": "a", "reward": "r"},
    {"state": "s", "action": "a", "reward": "r", "features": ["cost"], "episode": "e", "truncated": "end"},
)
_entries = st.sampled_from((*NUMBERS, *OTHERS, *QUOTED))
_names = names.map(lambda name: name.replace("\ud800", "?"))


@st.composite
def _columns(draw: st.DrawFn) -> str:
    columns = [(name, list(entries)) for name, entries in seeds.LOG.items()]
    for _ in range(draw(st.integers(0, 4))):
        place = draw(st.integers(0, len(columns) - 1))
        name, held = columns[place]
        how = draw(st.sampled_from(("entry", "entry", "entry", "all", "cut", "twice", "name", "drop", "order")))
        if how == "entry" and held:
            held[draw(st.integers(0, len(held) - 1))] = draw(_entries)
        elif how == "all":
            columns[place] = (name, [draw(_entries)] * len(held))
        elif how == "cut":
            columns[place] = (name, held[: draw(st.integers(0, len(held)))])
        elif how == "twice":
            columns.append(columns[place])
        elif how == "name":
            columns[place] = (draw(_names), held)
        elif how == "drop" and len(columns) > 1:
            del columns[place]
        elif how == "order":
            held.reverse()
    return seeds.csv_of(columns)


_unusual = st.fixed_dictionaries(
    {
        "state": st.sampled_from(("s", ["x"], ["x", "s"], ["cost"], "x", "end", ["s", "s"], [], "none")),
        "action": st.sampled_from(("a", "a", "a", "s", "x", "end")),
    },
    optional={
        "episode": st.just("e"),
        "step": st.just("t"),
        "terminated": st.just("end"),
        "reward": st.just("r"),
        "probability": st.sampled_from(("x", "cost")),
        "features": st.sampled_from((["x"], ["cost"], ["x", "cost"])),
        "discount": st.sampled_from((1.0, 0.9)),
        "truncated": st.sampled_from(("end", False)),
        "actions": st.sampled_from((2, 2, ["a", "b"], 1, 10**9)),
        "states": st.sampled_from((3, 3, ["p", "q", "r"], 1, 10**9)),
    },
)
_roles = st.one_of(st.sampled_from(ROLES), st.sampled_from(ROLES), _unusual)
csv_bytes = mostly_whole(_columns().map(lambda text: text.encode("utf-8", "replace")))
csv_logs = st.tuples(csv_bytes, _roles)

FRAME = {
    "e": [1, 1, 1, 2, 2, 3, 3, 4],
    "t": [0, 1, 2, 0, 1, 0, 1, 0],
    "s": [0, 1, 2, 0, 1, 1, 2, 2],
    "x": [0.5, 1.5, 2.5, 0.25, None, 1.25, 2.0, 3.5],
    "a": [0, 1, 0, 1, 0, 1, 1, 0],
    "r": [0.0, 0.0, 1.0, 0.0, 1.0, 0.5, 1.0, 2.0],
    "cost": [1.0] * 8,
    "end": [False, False, True, False, True, False, True, True],
}
_TYPES: tuple[Callable[[pl.Series], pl.Series], ...] = (
    *(lambda s, t=t: s.cast(t, strict=False) for t in (pl.Int8, pl.UInt64, pl.Float32, pl.Float64, pl.String)),
    *(lambda s, t=t: s.cast(t, strict=False) for t in (pl.Boolean, pl.Decimal(20, 3), pl.Int128)),
    *(lambda s, t=t: s.cast(pl.String).cast(t, strict=False) for t in (pl.Categorical, pl.Binary, pl.Enum(["0", "1"]))),
    *(lambda s, t=t: s.cast(pl.Int64).cast(t) for t in (pl.Datetime, pl.Datetime("ns", "UTC"), pl.Duration, pl.Time)),
    lambda s: s.cast(pl.Int32).cast(pl.Date),
    lambda s: pl.Series([None] * len(s)),
    lambda s: pl.Series([[1]] * len(s)),
    lambda s: pl.Series([[1.0, 2.0]] * len(s), dtype=pl.Array(pl.Float64, 2)),
    lambda s: pl.Series([{"a": 1}] * len(s)),
    *(
        lambda s, v=v: pl.Series([v] * len(s), dtype=pl.Float64)
        for v in (float("nan"), float("inf"), 1e308, -1e308, 2.0**63, None)
    ),
)


@st.composite
def _frames(draw: st.DrawFn) -> bytes:
    frame = pl.DataFrame(FRAME)
    for _ in range(draw(st.integers(0, 3))):
        column, change = draw(st.sampled_from(frame.columns)), draw(st.sampled_from(_TYPES))
        try:
            frame = frame.with_columns(change(frame[column]).alias(column))
        except pl.exceptions.PolarsError:
            continue  # not everything can be made of everything
    if draw(st.integers(0, 5)) == 0:
        frame = frame.head(draw(st.integers(0, 2)))
    if draw(st.integers(0, 9)) == 0:
        old, new = draw(st.sampled_from(frame.columns)), draw(_names)
        frame = frame if new in frame.columns else frame.rename({old: new})
    stream = io.BytesIO()
    frame.write_parquet(stream, compression="uncompressed", row_group_size=draw(st.sampled_from((None, 3))))
    return stream.getvalue()


parquet_logs = st.tuples(mostly_whole(_frames()), _roles)


def enter_log(ending: str) -> Callable[[tuple[bytes, dict[str, Any]], Path], None]:
    """Read and checked, all rows as arrays, starts with their features."""

    def enter(case: tuple[bytes, dict[str, Any]], folder: Path) -> None:
        content, roles = case
        log = Log(str(written(folder, f"log{ending}", content)), **roles)
        str(log.check)
        assert len(log.rows.actions) == log.check.rows
        log.features_of(log.starts)

    return enter
