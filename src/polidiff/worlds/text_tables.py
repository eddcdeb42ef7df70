"""Text tables as people have them: how a file is written is found out from its beginning, polars reads the rest.

The separator is the one that cuts the first lines into most columns, all lines alike; a blank if no other cuts them.
Where it is not a comma, numbers may have decimal commas. A first line of numbers is no header. What is not UTF-8 is
taken for Windows-1252, which has a letter for nearly every byte. A column of numbers in which some rows say "NA" is a
column of numbers with missing values.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import re
from collections.abc import Sequence
from pathlib import Path
from typing import IO, NamedTuple

import polars as pl

ENDINGS = (".csv", ".tsv", ".txt")
PACKED = ".gz"
INFER_ROWS = 10_000
SAMPLE = 1 << 16  # bytes whose lines tell how a file is written
LOOKED_THROUGH = 1 << 26  # bytes that are looked through for letters that are not UTF-8
LINES = 50
NOTHING = ("", "na", "n/a", "nan", "null", "none", "#n/a", "?", ".", "-")  # in a column of numbers
NUMBER = r"^\s*[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?\s*$"


class Dialect(NamedTuple):
    """How a text table is written."""

    separator: str
    decimal_comma: bool
    encoding: str
    header: bool = True  # else columns are called column_1, column_2, …


def is_text_table(file: str) -> bool:
    """Whether a file is a text table, by its name.

    >>> is_text_table("visits.CSV.gz"), is_text_table("visits.parquet")
    (True, False)
    """
    return ending(file) in ENDINGS


def ending(file: str) -> str:
    """The ending of a file's name, without that of its packing."""
    path = Path(file.lower())
    return Path(path.stem).suffix if path.suffix == PACKED else path.suffix


def scan_text_tables(files: Sequence[str]) -> pl.LazyFrame:
    """The rows of text tables, one after the other."""
    dialects = [find_dialect(file) for file in files]
    plain = dialects[0].encoding == "utf-8" and len(set(dialects)) == 1
    if plain:
        return with_numbers(_scan(list(files), dialects[0]))
    frames = [with_numbers(_scan([file], dialect)) for file, dialect in zip(files, dialects, strict=True)]
    return frames[0] if len(frames) == 1 else pl.concat(frames, how="vertical_relaxed")


def _scan(files: list[str], dialect: Dialect) -> pl.LazyFrame:
    separator, decimal_comma, encoding, header = dialect
    if encoding == "utf-8":
        return pl.scan_csv(
            files,
            separator=separator,
            decimal_comma=decimal_comma,
            has_header=header,
            infer_schema_length=INFER_ROWS,
            with_column_names=lambda names: _names(names, header),
        )
    with _opened(files[0]) as stream:
        data = stream.read().decode(encoding, errors="replace").encode()
    how = {"separator": separator, "decimal_comma": decimal_comma, "has_header": header}
    frame = pl.read_csv(data, infer_schema_length=INFER_ROWS, **how)  # type: ignore[arg-type]
    frame.columns = _names(frame.columns, header)
    return frame.lazy()


def _names(names: list[str], header: bool) -> list[str]:
    return [name.strip() if header else f"column_{number}" for number, name in enumerate(names, 1)]


def with_numbers(lazy: pl.LazyFrame) -> pl.LazyFrame:
    """Columns of text that hold numbers, and words for nothing in between, as numbers."""
    texts = [name for name, kind in lazy.collect_schema().items() if kind == pl.String]
    if not texts:
        return lazy
    head = lazy.select(texts).head(INFER_ROWS).collect()
    casts = []
    for name in texts:
        said = head[name].drop_nulls()
        values = said.filter(~said.str.strip_chars().str.to_lowercase().is_in(NOTHING))
        if len(values) and len(values) < len(head) and values.str.contains(NUMBER).all():
            casts.append(_number(name, whole=not values.str.contains(r"[.,eE]").any()))
        elif len(values) and values.str.contains(NUMBER).all() and values.str.contains(",").any():
            casts.append(_number(name, whole=False))
    return lazy.with_columns(casts) if casts else lazy


def _number(name: str, *, whole: bool) -> pl.Expr:
    text = pl.col(name).str.strip_chars()
    value = pl.when(~text.str.to_lowercase().is_in(NOTHING)).then(text.str.replace(",", ".", literal=True))
    return value.cast(pl.Int64 if whole else pl.Float64).alias(name)


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
    commas = separator != "," and _has_decimal_commas(lines, separator)
    return Dialect(separator, commas, encoding, header=not _all_numbers(lines, separator))


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


def _has_decimal_commas(lines: Sequence[str], separator: str) -> bool:
    fields = [field.strip() for row in csv.reader(lines[1:], delimiter=separator) for field in row]
    commas = sum(re.fullmatch(r"[+-]?\d*,\d+", field) is not None for field in fields)
    points = sum(re.fullmatch(r"[+-]?\d*\.\d+", field) is not None for field in fields)
    return commas > points
