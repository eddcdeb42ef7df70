"""Text tables however they are written: found out from their beginning, read by polars.

The separator is the one that cuts the first lines into most columns, all lines alike; a blank if no other cuts them. A
first line of numbers is no header. What is not UTF-8 is taken for Windows-1252, which has a letter for nearly every
byte. A column of numbers, or of yes and no, in which some rows say "NA" has missing values there.

Numbers are written 1,182.5 or 1.182,5. A column such as 12.5, 0,125 or 1.182.500 can be read in one way only, and tells
the sign of decimals for those that can be read in two, such as 1,182. Else such a column has thousands if enough
of its values have a sign and others, without one, are below a thousand but larger than all of them would be.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO, NamedTuple, TypeVar

import polars as pl

from polidiff.errors import InvalidLogError
from polidiff.worlds.log_columns import row_name

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
PARTED = r"^[+-]?\d{1,3}([ \u00a0\u202f'’]\d{3})*([.,]\d+)?$"  # thousands by blanks or raised commas
PARTS = r"[ \u00a0\u202f'’]"
UNITS = r"^[$€£]\s*|\s*[$€£%]$"
UNUSUAL = r"[,$€£%]|\d" + PARTS  # in numbers that polars takes for text
NUMBER = r"^\s*[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?\s*$"
FORM = r"^[+-]?((\d+|[1-9]\d{0,2}(%s\d{3})+)(%s\d*)?|%s\d+)([eE][+-]?\d+)?$"
OTHER = {".": ",", ",": "."}  # the sign of thousands beside that of decimals
FORMS = {".": FORM % (",", r"\.", r"\."), ",": FORM % (r"\.", ",", ",")}  # of numbers, by the sign of decimals
EITHER = f"{FORMS['.']}|{FORMS[',']}"
FEWEST_NUMBERS = 20  # in a column before a single word among them is taken for a slip
FEWEST_MARKED = 10  # different numbers with a sign before size tells that it parts thousands
YES = ("1", "1.0", "true", "t", "yes", "y", "ja", "j", "oui", "si", "sí", "sim")
NO = ("0", "0.0", "false", "f", "no", "n", "nein", "non", "nee", "não", "nao")
LEVELS = r"^([01])_.*$"  # 0_no and 1_yes, as statistics packages write levels
Words = TypeVar("Words", pl.Series, pl.Expr)


class Dialect(NamedTuple):
    """How a text table is written."""

    separator: str
    encoding: str
    header: bool = True  # else columns are called column_1, column_2, …
    above: int = 0  # lines above the names of columns: a title


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
        skip_lines=dialect.above,
        with_column_names=lambda names: _names(names, dialect.header),
    )
    try:
        head = scan(infer_schema=False).head(INFER_ROWS).collect()
        short = scan(infer_schema=False).select(pl.last().is_null().any()).collect().item()  # or left empty
    except pl.exceptions.ComputeError:
        _refuse_ragged_lines(files, dialect)
        raise
    if short:
        _refuse_ragged_lines(files, dialect)
    signs = decimal_signs(head, dialect.separator)
    as_text = {name: pl.String for name, sign in signs.items() if sign != "."}
    return with_values(scan(infer_schema_length=INFER_ROWS, schema_overrides=as_text), head, signs)


def _refuse_ragged_lines(files: Iterable[str], dialect: Dialect) -> None:
    """Raise for the first line with more or fewer fields than the first line has; empty lines have none."""
    for file in files:
        encoding, odd = "utf-8-sig" if dialect.encoding == "utf-8" else dialect.encoding, None
        with io.TextIOWrapper(_opened(file), encoding, "replace", newline="\n") as stream, suppress(csv.Error):
            for _ in range(dialect.above):
                next(stream)
            lines = csv.reader(stream, delimiter=dialect.separator)
            written = (line for line in lines if line[1:] or "".join(line).strip())
            first = next(written)
            odd = next((line for line in written if len(line) != len(first)), None)
        if odd is not None:
            raise InvalidLogError(
                f"every line must have the fields of the first; {file}, line {dialect.above + lines.line_num}, has "
                f"{len(odd)} instead of {len(first)}. Hint: delete what stands above the names of columns or below the "
                f"rows, write {dialect.separator!r} beside an empty value too, and quote values that hold it"
            )


def _names(names: list[str], header: bool) -> list[str]:
    """Names of columns. Polars leaves quotes doubled in a header, though not in the rows below it."""
    return [name.strip().replace('""', '"') if header else f"column_{k}" for k, name in enumerate(names, 1)]


def decimal_signs(head: pl.DataFrame, separator: str) -> dict[str, str | None]:
    """The sign of decimals of columns of text that hold numbers with points or commas; None where it cannot be told."""
    marked = {name: said for name in head.columns if (said := _said(head[name])).str.contains("[.,]").any()}
    numbers = {name: said for name, said in marked.items() if said.str.contains(EITHER).all()}
    ways = {n: [sign for sign, form in FORMS.items() if said.str.contains(form).all()] for n, said in numbers.items()}
    sure = {signs[0] for signs in ways.values() if len(signs) == 1}
    common = sure.pop() if len(sure) == 1 else None
    return {
        name: signs[0] if len(signs) == 1 else common or _sign_by_size(numbers[name], separator) if signs else None
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
    said = said.filter(~said.str.to_lowercase().is_in(NOTHING)).str.replace_all(UNITS, "")
    return said.str.replace_all(PARTS, "") if said.str.contains(PARTED).all() else said


def with_values(lazy: pl.LazyFrame, head: pl.DataFrame, signs: Mapping[str, str | None]) -> pl.LazyFrame:
    """Columns of text that hold numbers as numbers, without words for nothing; also yes and no, however written."""
    casts = []
    for name in (name for name, kind in lazy.collect_schema().items() if kind == pl.String):
        said, sign = _said(head[name]), signs.get(name, ".")
        blanks = len(said) < head.height
        if len(said) and sign is not None and said.str.contains(FORMS[sign]).all():
            if blanks or sign == "," or head[name].str.contains(UNUSUAL).any():
                whole = not said.str.contains(f"[{sign}eE]").any()
                casts.append(_number(name, sign, pl.Int64 if whole else pl.Float64))
        elif len(said) and yes_or_no(said) and "none" not in set(plain_words(head[name])):  # none may be a choice
            alike = plain_words(pl.col(name))
            spelled = pl.when(alike.str.replace(LEVELS, "$1").is_in(YES)).then(pl.lit("yes")).otherwise(pl.lit("no"))
            text = pl.col(name).str.strip_chars() if said.n_unique() <= 2 else spelled
            casts.append(pl.when(~alike.is_in(NOTHING)).then(text).alias(name))
        else:
            casts.append(pl.col(name).str.strip_chars())
    return lazy.with_columns(casts) if casts else lazy


def yes_or_no(words: pl.Series) -> bool:
    """Whether all words say yes or no."""
    return bool(plain_words(words).str.replace(LEVELS, "$1").is_in([*YES, *NO]).all())


def plain_words(words: Words) -> Words:
    """In small letters, without blanks around them."""
    return words.str.strip_chars().str.to_lowercase()


def _number(name: str, sign: str, kind: type[pl.Int64 | pl.Float64]) -> pl.Expr:
    """A column of text as numbers; what is not written like the others stays, so that it is refused."""
    text = pl.col(name).str.strip_chars().str.replace_all(UNITS, "")
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
        other = said.filter(~said.str.contains(EITHER))
        if len(other) == 1 and len(said) > FEWEST_NUMBERS:
            row = int((head[name].str.strip_chars() == other[0]).fill_null(False).arg_max() or 0)
            raise InvalidLogError(
                f"column {name!r} holds numbers, except in {row_name(row)}, which holds text. Hint: delete "
                "the row if it is a sum of the others, or leave the field empty"
            )
        if said.str.contains("[.,]").any() and not len(other):
            row = int(head[name].str.contains("[.,]").fill_null(False).arg_max() or 0)
            raise InvalidLogError(
                f"the numbers in column {name!r} may have decimal points or decimal commas: that of "
                f"{row_name(row)} may be either, and neither other rows nor other columns tell. Hint: write thousands "
                "without a sign and decimals with a point (1182 or 1.182), or leave the column out"
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
    separator = min(",;\t|", key=lambda sign: _fitness(lines, sign))
    if _columns(lines, separator) <= 1:
        separator = " " if len(lines) > 1 and _columns(lines, " ") == len(lines[0].split(" ")) > 1 else ","
    title = _title(lines, separator)
    above = text.splitlines().index(lines[title]) if title else 0
    fields = next(csv.reader(lines[title : title + 1], delimiter=separator), [])
    rows_only = len(lines) > title + 1 and len(fields) > 1 and all(re.fullmatch(NUMBER, field) for field in fields)
    return Dialect(separator, encoding, not rows_only, above)


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
    """Columns that a separator makes of the first line below a title, if most others have as many."""
    try:
        widths = [len(row) for row in csv.reader(lines[_title(lines, separator) :], delimiter=separator)]
    except csv.Error:
        return 0.0
    return widths[0] * sum(width == widths[0] for width in widths) / len(widths) if widths else 0.0


def _fitness(lines: Sequence[str], separator: str) -> tuple[bool, int, float]:
    """The least is the best: it makes several columns, with few lines above, as decimal commas would leave out names.

    >>> min(",;", key=lambda sign: _fitness(["id;x", "1;2,5", "2;3,5"], sign))
    ';'
    """
    columns = _columns(lines, separator)
    return columns <= 1, _title(lines, separator), -columns


def _title(lines: Sequence[str], separator: str) -> int:
    """How many lines stand above the names of columns: in each, one field at most is filled.

    >>> _title(["Sales 2023;;", "id;x;y", "1;2;3"], ";"), _title(["id;x", "1;2"], ";"), _title(["x", "1", "2"], ";")
    (1, 0, 0)
    """
    filled = [sum(bool(field.strip()) for field in line.split(separator)) for line in lines]
    return next((k for k, fields in enumerate(filled) if fields > 1), 0)
