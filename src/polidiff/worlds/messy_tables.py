"""Tables as people have them, made into logs: flags and times in words, codes of empty values, rows in any order.

What is not clear is asked about in one line, never guessed. Nothing is done to a log that can be read as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import polars as pl

from polidiff.errors import InvalidLogError
from polidiff.worlds.checks import LARGEST
from polidiff.worlds.log_columns import RANKED, ROW, TAIL, Columns, row_name
from polidiff.worlds.log_rows import boundaries
from polidiff.worlds.shards.shard_files import collect
from polidiff.worlds.text_tables import LEVELS, NO, YES, plain_words, refuse_unclear_numbers

CODES = (-9, -99, -999, -9999)  # of an empty value, where nothing else is below 0
FEWEST_CODED = 5  # rows with such a code
HOLDS = " = "  # between a column and one of its values, in the name of an outcome
MANY = 30  # values from which on a column is no flag
SLASHED = r"^\s*\d{1,2}/\d{1,2}/\d{4}"  # day/month or month/day
ZONED = r":\d\d.*(Z|[+-]\d\d:?\d\d)$"  # a time with its zone
TIMES = ("%H:%M", "%H:%M:%S")
MONTH_FIRST = ("%m/%d/%Y", "%m/%d/%Y %H:%M", "%m/%d/%Y %H:%M:%S")


@dataclass(frozen=True, eq=False)
class Repaired:
    """A table that can be read, and what was done to it."""

    table: pl.LazyFrame
    dropped: int = 0  # rows without an action or outcome, and those after them in their episodes
    sorted: bool = False  # whether rows were put in order


def with_events(lazy: pl.LazyFrame, schema: pl.Schema, names: Iterable[str], whose: str | None) -> pl.LazyFrame | None:
    """The table with a column for each name such as "status = died": whether the column holds the value; or None.

    What the column holds is told as far as ten people have it; `whose` is the column that tells them apart.
    """
    events = []
    for name in names:
        column, _, value = name.partition(HOLDS)
        if name in schema or column not in schema:
            continue
        said = pl.col(column).cast(pl.String).str.strip_chars()
        person = pl.int_range(pl.len()) if whose is None or whose not in schema else pl.col(whose)
        rows = lazy.select(said.alias("value"), person.alias("person")).drop_nulls("value").group_by("value")
        known = collect(rows.agg(pl.col("person").n_unique()).sort("value").head(MANY))
        if value not in known["value"] and len(known) < MANY:
            often = known.filter(pl.col("person") >= TAIL)["value"].to_list()
            held = f"; it holds {', '.join(often)}" + " and rarer words" * (len(often) < len(known)) if often else ""
            raise InvalidLogError(f"column {column!r} never holds {value!r}{held}")
        events.append((said == value).alias(name))
    return lazy.with_columns(events) if events else None


def with_types(
    table: Callable[[], pl.LazyFrame],
    schema: pl.Schema,
    columns: Columns,
    *,
    text: bool,
    few: bool,
    codes: Mapping[str, int],
) -> pl.LazyFrame | None:
    """The table with the types that its columns need; None if it has them.

    `text` says that it comes from a text file, `few` that it is no log in shards: its people are then numbered. `codes`
    stand for empty values.
    """
    if text:
        named = (*(() if columns.discrete else columns.state), *columns.outcome_columns, columns.step)
        refuse_unclear_numbers(table(), filter(None, (*named, columns.probability)))
    casts = [_whole(table(), name) for name in columns.labels if schema[name].is_float()]
    ends = [end for end in (columns.terminated, columns.truncated) if end is not None]
    casts += [_flag(table(), schema, end) for end in ends if text or schema[end].is_float() or schema[end] == pl.String]
    if columns.step is not None and schema[columns.step] == pl.String:
        casts.append(_time(table(), columns.step))
    worded = [name for name in columns.outcome_columns if schema[name] == pl.String]
    casts += [*(_flag(table(), schema, name, blanks=False) for name in worded), *without_codes(codes)]
    if columns.group is not None and few and schema[columns.group] != RANKED:
        casts.append(pl.col(columns.group).rank("dense").cast(RANKED) - 1)
    needed = [cast for cast in casts if cast is not None]
    return table().with_columns(needed) if needed else None


def empty_codes(lazy: pl.LazyFrame, schema: pl.Schema, names: Iterable[str]) -> dict[str, int]:
    """Column -> the one number below 0 that it holds, where that is repeated and a usual code of an empty value.

    Large codes such as 999 may be prices or counts, and stay.
    """
    below = {name: pl.col(name).filter(pl.col(name) < 0) for name in dict.fromkeys(names) if schema[name].is_numeric()}
    if not below:
        return {}
    facts = (pl.struct(low=x.min(), high=x.max(), rows=x.count()).alias(name) for name, x in below.items())
    found = collect(lazy.select(facts)).row(0, named=True)
    coded = {name: f["low"] for name, f in found.items() if f["low"] == f["high"] and f["rows"] >= FEWEST_CODED}
    return {name: int(code) for name, code in coded.items() if code in CODES}


def without_codes(codes: Mapping[str, int]) -> list[pl.Expr]:
    """Columns in which a code is an empty value."""
    return [pl.when(pl.col(name) != code).then(pl.col(name)).alias(name) for name, code in codes.items()]


def _whole(lazy: pl.LazyFrame, name: str) -> pl.Expr | None:
    """Whole numbers that are written with a point, as whole numbers."""
    value = pl.col(name).fill_nan(None)
    off = collect(lazy.select((value.round() != value).any().fill_null(True))).item()
    return None if off else value.cast(pl.Int64).alias(name)


def _flag(lazy: pl.LazyFrame, schema: pl.Schema, name: str, *, blanks: bool = True) -> pl.Expr | None:
    """True and false from words or numbers. Where only ends are marked, blanks say that it is none."""
    said = plain_words(pl.col(name).cast(pl.String)).str.replace(LEVELS, "$1")
    said = pl.when(~said.is_in(["", "nan"])).then(said)
    values = collect(lazy.select(said.alias("value")).unique().head(MANY))["value"].to_list()
    other = [value for value in values if value is not None and value not in (*YES, *NO)]
    if other:
        if schema[name] == pl.String:
            row = collect(lazy.select(said.alias("v")).with_row_index("row").filter(pl.col("v") == other[0]).head(1))
            hint = f". Hint: name the value that counts, as in '{name}{HOLDS}VALUE'" if not blanks else ""
            raise InvalidLogError(
                f"column {name!r} must hold numbers, or yes and no; {row_name(row['row'][0])} holds neither{hint}"
            )
        return None
    flag = said.is_in(YES)
    marks_only = blanks and None in values and not any(value in NO for value in values)
    return (flag.fill_null(False) if marks_only else flag).alias(name)


def _time(lazy: pl.LazyFrame, name: str) -> pl.Expr:
    """Dates and times from words, if there is one way to read them."""
    said = pl.col(name).str.strip_chars()
    facts = collect(
        lazy.select(
            said.str.contains(SLASHED).any().alias("slashed"),
            said.str.contains(ZONED).any().alias("zoned"),
            (said.str.extract(r"^(\d{1,2})/").cast(pl.Int64) > 12).any().fill_null(False).alias("day_first"),
            (said.str.extract(r"^\d{1,2}/(\d{1,2})").cast(pl.Int64) > 12).any().fill_null(False).alias("month_first"),
        )
    ).row(0, named=True)
    if facts["slashed"] and facts["day_first"] == facts["month_first"]:
        raise InvalidLogError(
            f"the dates in column {name!r} may be day/month or month/day: no row tells. Hint: write them as 2024-12-31"
        )
    ways = [said.str.to_time(way, strict=False) for way in TIMES]
    if facts["month_first"]:
        ways = [said.str.to_datetime(way, strict=False) for way in MONTH_FIRST]
    elif not collect(lazy.select(said.str.contains(r"^\d{1,2}:\d{2}").all())).item():
        ways = [said.str.to_datetime(strict=False, time_zone="UTC" if facts["zoned"] else None)]
    read = ways[0] if len(ways) == 1 else pl.coalesce(ways)
    first = collect(lazy.select(said.alias("v"), read.alias("t")).with_row_index("row")
                    .filter(pl.col("t").is_null() & pl.col("v").is_not_null()).head(1))  # fmt: skip
    if first.height:
        raise InvalidLogError(
            f"column {name!r} must hold numbers or times; {row_name(first['row'][0])} holds neither. Hint: write "
            "times as 2024-12-31 13:05"
        )
    return read.alias(name)


def repair(lazy: pl.LazyFrame, columns: Columns, *, sort: bool, drop: bool) -> Repaired | None:
    """The table in order, without blanks that mean nothing and without rows that lack something; None if as it was."""
    in_order = not sort or columns.episode is None or _in_order(lazy, columns)
    table = lazy.with_row_index(ROW)
    if not in_order:
        keys = [name for name in (columns.episode, columns.step) if name is not None]
        table = table.sort(keys, maintain_order=True, nulls_last=True)
    filled = [*_paid_at_the_end(table, columns), *_consecutive(table, columns)]
    table = table.with_columns(filled) if filled else table
    if not drop:
        return None if in_order and not filled else Repaired(table, sorted=not in_order)
    before = collect(table.select(pl.len())).item()
    table = table.filter(~_lacking(columns))
    left = collect(table.select(pl.len())).item()
    return Repaired(table, int(before - left), not in_order)


def _in_order(lazy: pl.LazyFrame, columns: Columns) -> bool:
    """Whether the rows of every episode stand together, with steps that do not fall."""
    first, falls = boundaries(columns)["first"], pl.lit(False)
    if columns.step is not None:
        falls = ~first & (pl.col(columns.step) < pl.col(columns.step).shift(1)).fill_null(False)
    names = pl.col(str(columns.episode)).n_unique()
    return bool(collect(lazy.select((first.sum() == names) & ~falls.any())).item())


def _paid_at_the_end(lazy: pl.LazyFrame, columns: Columns) -> list[pl.Expr]:
    """Outcomes that only the last rows of episodes tell: what came before added nothing."""
    if columns.episode is None:
        return []
    episode = pl.col(columns.episode)
    last = (episode != episode.shift(-1)).fill_null(True)
    names = columns.outcome_columns
    before = {name: (pl.col(name).is_not_null() & ~last).sum() for name in names}
    facts = collect(lazy.select((~last).sum().alias("rows before"), *(count.alias(n) for n, count in before.items())))
    late = [name for name in names if facts["rows before"][0] and not facts[name][0]]
    return [pl.when(last).then(pl.col(name)).otherwise(0).alias(name) for name in late]


def _consecutive(lazy: pl.LazyFrame, columns: Columns) -> list[pl.Expr]:
    """Steps that are numbered by hours or tens (0, 4, 8 …), numbered one by one: what is skipped evenly is no gap."""
    if columns.episode is None or columns.step is None or not lazy.collect_schema()[columns.step].is_integer():
        return []
    step, episode = pl.col(columns.step), pl.col(columns.episode)
    ahead = (step.shift(-1) - step).filter(episode == episode.shift(-1))
    least, even = collect(lazy.select(ahead.min().alias("least"), (ahead % ahead.min() == 0).all().alias("even"))).row(
        0
    )
    return [step // least] if even and least is not None and least > 1 else []


def _lacking(columns: Columns) -> pl.Expr:
    """Rows without an action or outcome; of an episode, all rows from the first such on."""
    lacks = pl.col(columns.action).is_null()
    for name in columns.outcome_columns:
        lacks = lacks | ~(pl.col(name).cast(pl.Float64).abs() <= LARGEST).fill_null(False)
    return lacks if columns.episode is None else lacks.cast(pl.Int8).cum_max().over(columns.episode) > 0
