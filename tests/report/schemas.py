"""The published form of results: a JSON schema for each record that stands on its own.

``python -m tests.report.schemas docs/schema`` writes them.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Union, get_args, get_origin

import polidiff.records.plan  # noqa: F401  every record that is published is known after this
from polidiff.files import write_whole
from polidiff.records.codec import SCHEMAS, json_fields

DIALECT = "https://json-schema.org/draft/2020-12/schema"
NUMBER = {"anyOf": [{"type": "number"}, {"enum": ["inf", "-inf", "nan"]}]}


def schemas() -> dict[str, dict[str, Any]]:
    """The schema of every result, by name."""

    return {name: record_schema(name) for name in sorted(SCHEMAS)}


def record_schema(name: str) -> dict[str, Any]:
    """The schema of one result, with the records inside it as definitions."""
    cls, version = SCHEMAS[name]
    parts: dict[str, Any] = {}
    body = _record(cls, parts)
    body["properties"] = {
        "schema": {"const": f"polidiff/{name}"},
        "version": {"type": "integer", "minimum": 1, "maximum": version},
        **body["properties"],
    }
    body["required"] = ["schema", "version", *body["required"]]
    definitions = {key: parts[key] for key in sorted(parts)}
    return {"$schema": DIALECT, "title": f"polidiff {name}, version {version}", **body, "$defs": definitions}


def _record(cls: type, parts: dict[str, Any]) -> dict[str, Any]:
    hints = typing.get_type_hints(cls)
    fields = json_fields(cls)
    needed = [f.name for f in fields if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING]
    properties = {f.name: _value(hints[f.name], parts) for f in fields}
    return {"type": "object", "description": _first_line(cls), "properties": properties, "required": needed}


def _first_line(cls: type) -> str:
    return (cls.__doc__ or "").strip().splitlines()[0]


def _value(kind: Any, parts: dict[str, Any]) -> dict[str, Any]:
    plain: dict[Any, dict[str, Any]] = {
        str: {"type": "string"},
        bool: {"type": "boolean"},
        int: {"type": "integer"},
        float: NUMBER,
    }
    origin = get_origin(kind)
    if kind in plain:
        return plain[kind]
    if kind is type(None):
        return {"type": "null"}
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return _reference(kind, parts)
    if origin is typing.Literal:
        return {"enum": list(get_args(kind))}
    if origin in (Union, types.UnionType):
        return {"anyOf": [_value(option, parts) for option in get_args(kind)]}
    if origin is tuple:
        return _tuple(get_args(kind), parts)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": _value(get_args(kind)[1], parts)}
    return {}


def _reference(cls: type, parts: dict[str, Any]) -> dict[str, Any]:
    if cls.__name__ not in parts:
        parts[cls.__name__] = {}  # a record may hold itself
        parts[cls.__name__] = _record(cls, parts)
    return {"$ref": f"#/$defs/{cls.__name__}"}


def _tuple(inner: tuple[Any, ...], parts: dict[str, Any]) -> dict[str, Any]:
    if len(inner) == 2 and inner[1] is Ellipsis:
        return {"type": "array", "items": _value(inner[0], parts)}
    items = [_value(kind, parts) for kind in inner]
    return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}


def schema_text(name: str) -> str:
    """The schema of one result as it is published."""
    return json.dumps(schemas()[name], indent=1, ensure_ascii=False) + "\n"


def write_schemas(folder: Path) -> list[Path]:
    """Write all schemas, one file for each."""
    folder.mkdir(parents=True, exist_ok=True)
    return [write_whole(folder / f"{name}-{SCHEMAS[name][1]}.json", schema_text(name)) for name in schemas()]


if __name__ == "__main__":
    for written in write_schemas(Path(sys.argv[1])):
        print(written)
