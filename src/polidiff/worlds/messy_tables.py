"""Tables as people have them, made into logs: text files however written, flags and times in words, rows in any order.

How a text file is written is found out from its beginning, polars reads the rest. The separator is the one that cuts
the first lines into most columns, all lines alike; a blank if no other cuts them. A first line of numbers is no header.
What is not UTF-8 is taken for Windows-1252, which has a letter for nearly every byte. A column of numbers in which some
rows say "NA" is numeric with missing values.

Numbers are written 1,182.5 or 1.182,5. A column such as 12.5, 0,125 or 1.182.500 can be read in one way only, and tells
the sign of decimals for those that can be read in two, such as 1,182. Else such a column has thousands if enough
of its values have a sign and others, without one, are below a thousand but larger than all of them would be.

What is not clear is asked about in one line, never guessed. Nothing is done to a log that can be read as it is.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, NamedTuple

import polars as pl

from polidiff.errors import InvalidLogError
from polidiff.worlds.log_columns import RANKED, ROW, Columns
from polidiff.worlds.shards.shard_files import collect

ENDINGS = (".csv", ".tsv", ".txt")
PACKED = ".gz"
INFER_ROWS = 10_000
SAMPLE = 1 << 16  # bytes whose lines tell how a file is written
LOOKED_THROUGH = 1 << 26  # bytes that are looked through for letters that are not UTF-8
LINES = 50
NOTHING = (  # in a column of numbers
    "", "na", "n/a", "nan", "null", "none", "#n/a", "?", ".", "-", "--", "nd", "n.d.", "unk", "unknown", "missing",
    "not measured", "not done", "unbekannt", "k.a.", "k. a.", "keine angabe", "inconnu", "desconocido", "sconosciuto",
    "desconhecido", "onbekend",
)  # fmt: skip
CODES = (-9, -99, -999, -9999)  # of an empty value, where nothing else is below 0
FEWEST_CODED = 5  # rows with such a code
PARTED = r"^[+-]?\d{1,3}([ \u00a0\u202f'’]\d{3})*([.,]\d+)?$"  # thousands by blanks or raised commas
PARTS = r"[ \u00a0\u202f'’]"
NUMBER = r"^\s*[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?\s*$"
FORM = r"^[+-]?((\d+|[1-9]\d{0,2}(%s\d{3})+)(%s\d*)?|%s\d+)([eE][+-]?\d+)?$"
OTHER = {".": ",", ",": "."}  # the sign of thousands beside that of decimals
FORMS = {".": FORM % (",", r"\.", r"\."), ",": FORM % (r"\.", ",", ",")}  # of numbers, by the sign of decimals
EITHER = f"{FORMS['.']}|{FORMS[',']}"
FEWEST_MARKED = 10  # different numbers with a sign before size tells that it parts thousands


class Dialect(NamedTuple):
    """How a text table is written."""

    separator: str
    encoding: str
    header: bool = True  # else columns are called column_1, column_2, …


def ending(file: str) -> str:
    """The ending of a file's name, without that of its packing."""
    path = Path(file.lower())
    return Path(path.stem).suffix if path.suffix == PACKED else path.suffix


def scan_text_tables(files: Sequence[str]) -> pl.LazyFrame:
    """The rows of text tables, one after the other."""
    dialects = [find_dialect(file) for file in files]
    plain = dialects[0].encoding == "utf-8" and len(set(dialects)) == 1
    if plain:
        return _scan(list(files), dialects[0])
    frames = [_scan([file], dialect) for file, dialect in zip(files, dialects, strict=True)]
    return frames[0] if len(frames) == 1 else pl.concat(frames, how="vertical_relaxed")


def _scan(files: list[str], dialect: Dialect) -> pl.LazyFrame:
    source: list[str] | bytes = files
    if dialect.encoding != "utf-8":
        with _opened(files[0]) as stream:
            source = stream.read().decode(dialect.encoding, errors="replace").encode()
    scan = partial(
        pl.scan_csv,
        source,
        separator=dialect.separator,
        has_header=dialect.header,
        with_column_names=lambda names: _names(names, dialect.header),
    )
    head = scan(infer_schema=False).head(INFER_ROWS).collect()
    signs = decimal_signs(head, dialect.separator)
    as_text = {name: pl.String for name, sign in signs.items() if sign != "."}
    return with_numbers(scan(infer_schema_length=INFER_ROWS, schema_overrides=as_text), head, signs)


def _names(names: list[str], header: bool) -> list[str]:
    """Names of columns. Polars leaves quotes doubled in a header, though not in the rows below it."""
    return [name.strip().replace('""', '"') if header else f"column_{k}" for k, name in enumerate(names, 1)]


def decimal_signs(head: pl.DataFrame, separator: str) -> dict[str, str | None]:
    """The sign of decimals of columns of text that hold numbers with points or commas; None where it cannot be told."""
    marked = {name: said for name in head.columns if (said := _said(head[name])).str.contains("[.,]").any()}
    numbers = {name: said for name, said in marked.items() if said.str.contains(EITHER).all()}
    ways = {n: [sign for sign, form in FORMS.items() if said.str.contains(form).all()] for n, said in numbers.items()}
    sure = {signs[0] for signs in ways.values() if len(signs) == 1}
    told = sure.pop() if len(sure) == 1 else None
    return {
        name: signs[0] if len(signs) == 1 else told or _sign_by_size(numbers[name], separator) if signs else None
        for name, signs in ways.items()
    }


def _sign_by_size(said: pl.Series, separator: str) -> str | None:
    """The sign of decimals of numbers that may have thousands, such as 1,182 beside 991; None where both may be."""
    marked, plain = said.filter(said.str.contains("[.,]")), said.filter(~said.str.contains("[.,]"))
    mark = "," if marked.str.contains(",").all() else "." if not marked.str.contains(",").any() else ""
    if mark == "." and separator in ", ":  # where commas or blanks part columns, numbers have points
        return mark
    short = len(plain) > 0 and plain.str.contains(r"^[+-]?\d{1,3}$").all()
    if not mark or not short or marked.n_unique() < FEWEST_MARKED:
        return None
    largest = marked.str.replace(mark, ".", literal=True).cast(pl.Float64).abs().max()
    return OTHER[mark] if plain.cast(pl.Float64).abs().max() > largest else None  # type: ignore[operator]


def _said(column: pl.Series) -> pl.Series:
    """The values of a column of text without words for nothing."""
    said = column.drop_nulls().str.strip_chars()
    said = said.filter(~said.str.to_lowercase().is_in(NOTHING))
    return said.str.replace_all(PARTS, "") if said.str.contains(PARTED).all() else said


def with_numbers(lazy: pl.LazyFrame, head: pl.DataFrame, signs: Mapping[str, str | None]) -> pl.LazyFrame:
    """Columns of text that hold numbers, and words for nothing in between, as numbers."""
    casts = []
    for name, kind in lazy.collect_schema().items():
        said, sign = _said(head[name]), signs.get(name, ".")
        if kind != pl.String or sign is None or not len(said) or not said.str.contains(FORMS[sign]).all():
            continue
        parted = head[name].str.contains(r"\d" + PARTS).any()
        if len(said) < head.height or sign == "," or said.str.contains(",").any() or parted:
            whole = not said.str.contains(f"[{sign}eE]").any()
            casts.append(_number(name, sign, pl.Int64 if whole else pl.Float64))
    return lazy.with_columns(casts) if casts else lazy


def _number(name: str, sign: str, kind: type[pl.Int64 | pl.Float64]) -> pl.Expr:
    """A column of text as numbers; what is not written like the others stays, so that it is refused."""
    text = pl.col(name).str.strip_chars()
    joined = pl.when(text.str.contains(PARTED)).then(text.str.replace_all(PARTS, "")).otherwise(text)
    plain = joined.str.replace_all(OTHER[sign], "", literal=True).str.replace(sign, ".", literal=True)
    written = pl.when(joined.str.contains(FORMS[sign])).then(plain).otherwise(text + " ")
    return pl.when(~text.str.to_lowercase().is_in(NOTHING)).then(written).cast(kind).alias(name)


def refuse_unclear_numbers(lazy: pl.LazyFrame, names: Iterable[str]) -> None:
    """Raise for the first of some columns of a text table whose numbers may be read in two ways."""
    texts = [name for name, kind in lazy.collect_schema().items() if name in set(names) and kind == pl.String]
    head = lazy.select(texts).head(INFER_ROWS).collect()
    for name in texts:
        said = _said(head[name])
        if said.str.contains("[.,]").any() and said.str.contains(EITHER).all():
            row = int(head[name].str.contains("[.,]").fill_null(False).arg_max() or 0)
            raise InvalidLogError(
                f"the numbers in column {name!r} may have decimal points or decimal commas: row {row} holds "
                f"{head[name][row]!r}, and neither other rows nor other columns tell. Hint: write thousands without "
                "a sign and decimals with a point (1182 or 1.182), or leave the column out"
            )


def find_dialect(file: str) -> Dialect:
    """How a file is written, from its first lines and the bytes that are no ASCII."""
    with _opened(file) as stream:
        beginning = stream.read(SAMPLE)
        encoding = _encoding(beginning, stream)
    text = beginning.decode(encoding, errors="replace")
    lines = [line for line in text.splitlines()[:LINES] if line.strip()]
    if len(text.splitlines()) > 1 and len(beginning) == SAMPLE and len(lines) < LINES:
        lines = lines[:-1]  # it may be cut
    separator = max(",;\t|", key=lambda sign: _columns(lines, sign))
    if _columns(lines, separator) <= 1:
        separator = " " if len(lines) > 1 and _columns(lines, " ") == len(lines[0].split(" ")) > 1 else ","
    return Dialect(separator, encoding, header=not _all_numbers(lines, separator))


def _all_numbers(lines: Sequence[str], separator: str) -> bool:
    """Whether the first of several lines, of several columns, holds numbers alone."""
    fields = next(csv.reader(lines[:1], delimiter=separator), [])
    return len(lines) > 1 and len(fields) > 1 and all(re.fullmatch(NUMBER, field) for field in fields)


def _opened(file: str) -> IO[bytes]:
    if file.lower().endswith(PACKED):
        return gzip.open(file, "rb")  # type: ignore[return-value]
    return Path(file).open("rb")


def _encoding(beginning: bytes, stream: IO[bytes]) -> str:
    if beginning.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    decoder, part, seen = codecs.getincrementaldecoder("utf-8")(), beginning, 0
    try:
        while part and seen < LOOKED_THROUGH:
            decoder.decode(part)
            seen, part = seen + len(part), stream.read(1 << 20)
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8"


def _columns(lines: Sequence[str], separator: str) -> float:
    """Columns that a separator makes of the first line, if most others have as many."""
    try:
        widths = [len(row) for row in csv.reader(lines, delimiter=separator)]
    except csv.Error:
        return 0.0
    return widths[0] * sum(width == widths[0] for width in widths) / len(widths) if widths else 0.0


# --- columns and rows

YES = ("1", "1.0", "true", "t", "yes", "y", "ja", "j", "oui", "si", "sí", "sim")
NO = ("0", "0.0", "false", "f", "no", "n", "nein", "non", "nee", "não", "nao")
LEVELS = r"^([01])_.*$"  # 0_no and 1_yes, as statistics packages write levels
MANY = 30  # values from which on a column is no flag
SLASHED = r"^\s*\d{1,2}/\d{1,2}/\d{4}"  # day/month or month/day
TIMES = ("%H:%M", "%H:%M:%S")
MONTH_FIRST = ("%m/%d/%Y", "%m/%d/%Y %H:%M", "%m/%d/%Y %H:%M:%S")


@dataclass(frozen=True, eq=False)
class Repaired:
    """A table that can be read, and what was done to it."""

    table: pl.LazyFrame
    dropped: int = 0  # rows without an action or outcome, and those after them in their episodes
    sorted: bool = False  # whether rows were put in order


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
    casts = [cast for cast in _casts(table, schema, columns, text) if cast is not None] + without_codes(codes)
    if columns.group is not None and few and schema[columns.group] != RANKED:
        casts.append(pl.col(columns.group).rank("dense").cast(RANKED) - 1)
    return table().with_columns(casts) if casts else None


def empty_codes(lazy: pl.LazyFrame, schema: pl.Schema, names: Iterable[str]) -> dict[str, int]:
    """Column -> the one number below 0 that it holds, where that is repeated and a usual code of an empty value.

    Large codes such as 999 may be prices or counts, and stay.
    """
    below = {name: pl.col(name).filter(pl.col(name) < 0) for name in dict.fromkeys(names) if schema[name].is_numeric()}
    if not below:
        return {}
    facts = (pl.Expr.min, pl.Expr.max, pl.Expr.count)
    found = collect(
        lazy.select(fact(x).alias(f"{name} {k}") for name, x in below.items() for k, fact in enumerate(facts))
    )
    told = {name: tuple(found[f"{name} {k}"][0] for k in range(len(facts))) for name in below}
    return {name: int(low) for name, (low, high, rows) in told.items()
            if low in CODES and low == high and rows >= FEWEST_CODED}  # fmt: skip


def without_codes(codes: Mapping[str, int]) -> list[pl.Expr]:
    """Columns in which a code is an empty value."""
    return [pl.when(pl.col(name) != code).then(pl.col(name)).alias(name) for name, code in codes.items()]


def _casts(
    table: Callable[[], pl.LazyFrame], schema: pl.Schema, columns: Columns, text: bool
) -> Iterator[pl.Expr | None]:
    for name in (columns.action, *(columns.state if columns.discrete else ())):
        if schema[name].is_float():
            yield _whole(table(), name)
    for end in (columns.terminated, columns.truncated):
        if end is not None and (text or schema[end].is_float() or schema[end] == pl.String):
            yield _flag(table(), schema, end)
    if columns.step is not None and schema[columns.step] == pl.String:
        yield _time(table(), columns.step)
    for name in columns.outcome_columns:
        if schema[name] == pl.String:
            yield _flag(table(), schema, name, blanks=False)


def _whole(lazy: pl.LazyFrame, name: str) -> pl.Expr | None:
    """Whole numbers that are written with a point, as whole numbers."""
    value = pl.col(name).fill_nan(None)
    off = collect(lazy.select((value.round() != value).any().fill_null(True))).item()
    return None if off else value.cast(pl.Int64).alias(name)


def _flag(lazy: pl.LazyFrame, schema: pl.Schema, name: str, *, blanks: bool = True) -> pl.Expr | None:
    """True and false from words or numbers. Where only ends are marked, blanks say that it is none."""
    said = pl.col(name).cast(pl.String).str.strip_chars().str.to_lowercase().str.replace(LEVELS, "$1")
    said = pl.when(~said.is_in(["", "nan"])).then(said)
    values = collect(lazy.select(said.alias("value")).unique().head(MANY))["value"].to_list()
    other = [value for value in values if value is not None and value not in (*YES, *NO)]
    if other:
        if schema[name] == pl.String:
            row = collect(lazy.select(said.alias("v")).with_row_index("row").filter(pl.col("v") == other[0]).head(1))
            raise InvalidLogError(
                f"column {name!r} must hold numbers, or yes and no; row {row['row'][0]} holds {other[0]!r}"
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
        ways = [said.str.to_datetime(strict=False)]
    read = ways[0] if len(ways) == 1 else pl.coalesce(ways)
    first = collect(lazy.select(said.alias("v"), read.alias("t")).with_row_index("row")
                    .filter(pl.col("t").is_null() & pl.col("v").is_not_null()).head(1))  # fmt: skip
    if first.height:
        raise InvalidLogError(
            f"column {name!r} must hold numbers or times; row {first['row'][0]} holds {first['v'][0]!r}. Hint: write "
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
    episode = pl.col(str(columns.episode))
    same = (episode == episode.shift(1)).fill_null(False)
    falls = pl.lit(False)
    if columns.step is not None:
        falls = (same & (pl.col(columns.step) < pl.col(columns.step).shift(1))).fill_null(False).any()
    facts = collect(lazy.select((~same).sum().alias("runs"), episode.n_unique().alias("names"), falls.alias("falls")))
    runs, names, fall = facts.row(0)
    return bool(runs == names and not fall)


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
        lacks = lacks | ~pl.col(name).cast(pl.Float64).is_finite().fill_null(False)
    return lacks if columns.episode is None else lacks.cast(pl.Int8).cum_max().over(columns.episode) > 0
