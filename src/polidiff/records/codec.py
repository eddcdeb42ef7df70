"""Records as JSON and back, the same bytes each time.

A record is a frozen dataclass. Its JSON form is the dictionary of its fields in their order; a result that stands on
its own also carries ``schema`` and ``version``. Infinite and missing numbers become strings, because JSON has none.
Fields marked ``metadata={"json": False}`` hold what cannot be written (functions, policies) and come back as their
default.

Records import nothing from later stages. ``str(explanation)`` and ``plan.save("x.html")`` still have to reach the text
and the report, so a record asks for them by name when first called (`renderer`).
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import re
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, Union, get_args, get_origin

import numpy as np

from polidiff.errors import InvalidOptionError, InvalidResultError
from polidiff.files import checked_path, read_limited, write_whole

T = TypeVar("T")
Json: TypeAlias = Any  # dictionaries, lists, texts, finite numbers, true, false and null
TypeForm: TypeAlias = Any  # a class, or an annotation such as tuple[float, ...] | None
Record: TypeAlias = Any  # a frozen dataclass with a schema
SCHEMAS: dict[str, tuple[type, int]] = {}
MOST_BYTES = 256_000_000  # of a result file; its records take some ten times as much memory
MOST_WHOLE = 2**128  # a seed may be that long
DEEPEST = 50  # levels of what a study holds
_SPECIAL = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
_HALF = re.compile(r"\\u[dD][89a-fA-F]")  # how JSON writes halves of a character, which alone are no text
_UNSEEN = re.compile("[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")  # would act on a terminal


def schema(name: str, version: int) -> Callable[[type[T]], type[T]]:
    """Class decorator: the record stands on its own in a file, under this name and version."""

    def register(cls: type[T]) -> type[T]:
        SCHEMAS[name] = (cls, version)
        cls.__schema__ = (name, version)  # type: ignore[attr-defined]
        return cls

    return register


def to_dict(record: Record) -> dict[str, Json]:
    """The JSON form of a record, with its schema; without groups of a log that are too small to show."""
    from polidiff.records.suppression import released

    name, version = type(record).__schema__
    return {"schema": f"polidiff/{name}", "version": version, **encode(released(record))}


def from_dict(data: Mapping[str, Json]) -> Record:
    """The record whose JSON form is `data`."""
    if not isinstance(data, Mapping) or not isinstance(data.get("schema"), str):
        raise InvalidResultError(
            'expected a polidiff result with a "schema" entry; got none. Hint: results are written by '
            "explain, improve and evaluate with .save('x.json')"
        )
    name = data["schema"].removeprefix("polidiff/")
    if name not in SCHEMAS:
        raise InvalidResultError(f"unknown schema {data['schema']!r}; known: {sorted(SCHEMAS)}")
    cls, version = SCHEMAS[name]
    written = data.get("version")
    if not isinstance(written, int) or written < 1:
        raise InvalidResultError(f"the version of this {name} must be a positive integer; got {written!r}")
    if written > version:
        raise InvalidResultError(
            f"this {name} has version {written}; this polidiff reads up to {version}. Hint: update polidiff"
        )
    from polidiff.records.consistency import check_record

    try:
        record = decode(cls, data, where=name)
    except (TypeError, ValueError, KeyError, AttributeError, RecursionError, OverflowError) as error:
        if isinstance(error, InvalidResultError):
            raise
        raise InvalidResultError(f"the {name} cannot be read: {error}") from error
    check_record(record, name)
    return record


def dumps(record: Record) -> str:
    """The JSON text of a record."""
    text = json.dumps(to_dict(record), ensure_ascii=False, indent=1, allow_nan=False) + "\n"
    return _UNSEEN.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def save_json(record: Record, path: str | os.PathLike[str]) -> Path:
    """Write a record as JSON."""
    return write_whole(path, dumps(record))


def load_json(path: str | os.PathLike[str]) -> Record:
    """Read a record back."""
    try:
        text = read_limited(checked_path(path), MOST_BYTES, InvalidResultError).decode("utf-8-sig")
    except InvalidResultError:
        raise
    except FileNotFoundError as error:
        raise InvalidResultError(
            f"there is no file {str(path)!r}. Hint: polidiff explain STUDY -o {path} writes a result, "
            f"improve STUDY --patch {path} a patch"
        ) from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise InvalidResultError(f"cannot read {path}: {reason}") from error
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidResultError(f"{path} is not JSON: {error}. Hint: the file may be cut off") from error
    if _HALF.search(text):
        try:
            json.dumps(data, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            raise InvalidResultError(f"{path} must hold text; it holds half of a surrogate pair") from error
    return from_dict(data)


def encode(value: object) -> Json:
    """A value made of dictionaries, lists, strings and finite numbers."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: encode(getattr(value, f.name)) for f in json_fields(type(value))}
    if isinstance(value, np.ndarray):
        return encode(value.tolist())
    if isinstance(value, np.generic):
        return encode(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if value != value else ("inf" if value > 0 else "-inf")
    if isinstance(value, Mapping):
        return {str(key): encode(item) for key, item in value.items()}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Sequence):
        return [encode(item) for item in value]
    raise TypeError(f"{type(value).__name__} has no JSON form")


def parts_of(value: object, where: str) -> Iterator[tuple[str, Record]]:
    """Every record inside a value, itself first, with its place."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield where, value
        inner = ((f".{f.name}", getattr(value, f.name)) for f in json_fields(type(value)))
    elif isinstance(value, Mapping):
        inner = ((f".{key}", item) for key, item in value.items())
    elif isinstance(value, Sequence) and not isinstance(value, str):
        inner = ((f"[{place}]", item) for place, item in enumerate(value))
    else:
        return
    for place, item in inner:
        yield from parts_of(item, where + place)


def json_fields(cls: type) -> list[dataclasses.Field[object]]:
    """The fields of a record that its JSON form carries."""
    return [f for f in dataclasses.fields(cls) if f.metadata.get("json", True)]


@cache
def _hints(cls: type) -> dict[str, TypeForm]:
    return typing.get_type_hints(cls)


def decode(kind: TypeForm, data: Json, *, where: str) -> Record:
    """A value of type `kind` from its JSON form; `where` names the place for messages."""
    if dataclasses.is_dataclass(kind):
        return _decode_record(kind, data, where)
    origin: TypeForm = get_origin(kind)
    if origin in (Union, types.UnionType):
        return _decode_union(kind, data, where)
    if origin is tuple or kind is tuple:
        return _decode_tuple(kind, data, where)
    if origin is not None and isinstance(origin, type) and issubclass(origin, Mapping):
        inner = get_args(kind)[1]
        return {key: decode(inner, item, where=f"{where}.{key}") for key, item in _mapping(data, where).items()}
    if kind is float:
        return _decode_float(data, where)
    if kind in (str, int, bool):
        return _decode_plain(kind, data, where)
    if origin is typing.Literal:
        if data not in get_args(kind):
            raise InvalidResultError(f"{where} must be one of {get_args(kind)}; got {shortly(data)}")
        return data
    return _checked_tree(data, where)


def _decode_plain(kind: TypeForm, data: Json, where: str) -> Json:
    if type(data) is not kind:
        raise InvalidResultError(f"{where} must be {kind.__name__}; got {shortly(data)}")
    if kind is int and abs(data) > MOST_WHOLE:
        raise InvalidResultError(f"{where} must be a whole number of at most 38 digits; got one of more")
    return data


def _checked_tree(data: Json, where: str, depth: int = 0) -> Json:
    """What a record keeps as it is: not nested so deeply that nothing can write it again."""
    if depth > DEEPEST:
        raise InvalidResultError(f"{where} must not be nested more than {DEEPEST} deep")
    inner = data.values() if isinstance(data, Mapping) else data if isinstance(data, list) else ()
    for value in inner:
        _checked_tree(value, where, depth + 1)
    if isinstance(data, int) and abs(data) > MOST_WHOLE:
        raise InvalidResultError(f"{where} must hold numbers of at most 38 digits; got one of more")
    return data


def shortly(data: object) -> str:
    """A value for a message: its beginning, or only its kind where even that takes long.

    >>> shortly([1, 2])
    '[1, 2]'
    """
    if isinstance(data, (dict, list)) and len(data) > 20:
        return f"{'an object' if isinstance(data, dict) else 'a list'} of {len(data)} entries"
    try:
        return f"{data!r:.80}"
    except (RecursionError, ValueError):  # nested too deeply, or a number of too many digits
        return f"a {type(data).__name__}"


def _decode_record(kind: TypeForm, data: Json, where: str) -> Record:
    hints = _hints(kind)
    values = _mapping(data, where)
    given = {}
    for f in json_fields(kind):
        if f.name in values:
            given[f.name] = decode(hints[f.name], values[f.name], where=f"{where}.{f.name}")
        elif f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING:
            raise InvalidResultError(f"{where}.{f.name} is missing")
    return kind(**given)


def _decode_union(kind: TypeForm, data: Json, where: str) -> Record:
    options = get_args(kind)
    if data is None and type(None) in options:
        return None
    records = [option for option in options if dataclasses.is_dataclass(option)]
    if isinstance(data, Mapping) and records:
        return decode(records[0], data, where=where)
    for option in options:
        if option in (str, int, bool) and type(data) is option:
            return _decode_plain(option, data, where)
    if float in options and isinstance(data, (int, float, str)):
        return _decode_float(data, where)
    others = [option for option in options if option is not type(None)]
    return decode(others[0], data, where=where)


def _decode_tuple(kind: TypeForm, data: Json, where: str) -> tuple[Record, ...]:
    if not isinstance(data, list):
        raise InvalidResultError(f"{where} must be a list; got {shortly(data)}")
    inner = get_args(kind)
    if len(inner) == 2 and inner[1] is Ellipsis:
        return tuple(decode(inner[0], item, where=f"{where}[{i}]") for i, item in enumerate(data))
    if inner and len(inner) != len(data):
        raise InvalidResultError(f"{where} must have {len(inner)} entries; got {len(data)}")
    return tuple(decode(k, item, where=f"{where}[{i}]") for i, (k, item) in enumerate(zip(inner, data, strict=True)))


def _decode_float(data: Json, where: str) -> float:
    if isinstance(data, str) and data in _SPECIAL:
        return _SPECIAL[data]
    if isinstance(data, bool) or not isinstance(data, (int, float)):
        raise InvalidResultError(f"{where} must be a number; got {shortly(data)}")
    if isinstance(data, int) and abs(data) > sys.float_info.max:
        raise InvalidResultError(f"{where} must be a number of at most 308 digits; got one of more")
    return data  # a whole number stays one, so that it is written as it was read


def _mapping(data: Json, where: str) -> Mapping[str, Json]:
    if not isinstance(data, Mapping):
        raise InvalidResultError(f"{where} must be an object; got {shortly(data)}")
    return data


RENDERERS = {
    "text": "polidiff.explanation.said:render",
    "evaluation_text": "polidiff.explanation.text:evaluation_text",
    "frontier_text": "polidiff.explanation.plan_text:render_frontier",
    "comparison_text": "polidiff.report.comparison:render_comparison",
    "case": "polidiff.explanation.case:answer_case",
    "patch_lines": "polidiff.explanation.rule_code:patch_lines",
    "apply_patch": "polidiff.policies.patched:apply_patch",
    "undo_patch": "polidiff.policies.patched:undo_patch",
    "chart": "polidiff.report.charts:chart",
    "notebook": "polidiff.report.page:mimebundle",
    ".json": "polidiff.records.codec:save_json",
    ".html": "polidiff.report.page:save_page",
    ".md": "polidiff.report.markdown:save_markdown",
    ".png": "polidiff.report.charts:save_picture",
    ".svg": "polidiff.report.charts:save_picture",
}


def renderer(name: str) -> Callable[..., Any]:
    """The function behind a name."""
    module, function = RENDERERS[name].split(":")
    return getattr(import_module(module), function)


class Document:
    """A record that stands on its own in a file."""

    def to_dict(self) -> dict[str, Json]:
        """The JSON form."""
        return to_dict(self)


class Result(Document):
    """What every result can do: be turned into JSON, written to a file, and shown at a prompt or in a notebook."""

    def __repr__(self) -> str:
        return str(self)  # without groups too small to show

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write as .json, .html or .md, or as a picture (.png, .svg) where there is one, by the ending of the name."""
        suffix = checked_path(path).suffix.lower()
        if not suffix or suffix not in RENDERERS:
            known = ", ".join(key for key in RENDERERS if key.startswith("."))
            raise InvalidOptionError(f"a result is saved as one of {known}; got {os.fspath(path)!r}")
        return renderer(suffix)(self, path)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return renderer("notebook")(self)

    def _repr_html_(self) -> str:
        return self._repr_mimebundle_()["text/html"]
