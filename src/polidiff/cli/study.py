"""The study file: world, policies, outcomes and options in TOML, checked key by key.

A message names the file, the line and the key, what was expected, what came, and the nearest known key.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from polidiff.cli.main import near_miss
from polidiff.errors import InvalidStudyError
from polidiff.files import read_limited
from polidiff.options import (
    COUNT,
    FINITE,
    FLAG,
    NUMBER,
    TEXT,
    TEXT_OR_ANY_TEXTS,
    TEXTS,
    CheckOptions,
    ExplainOptions,
    ImproveOptions,
    Kind,
    study_section,
)

if TYPE_CHECKING:
    from polidiff.records.codec import Json

MOST_BYTES = 1_000_000  # of a study
TABLE_SUFFIXES = (".csv", ".tsv", ".parquet", ".pq", ".gz")  # of what is handed over in place of a study
MOST_NAME = 255  # bytes of one part of a path, as file systems have it


PAIR = Kind("two numbers [low, high]", lambda v: isinstance(v, list) and len(v) == 2 and all(map(NUMBER.accepts, v)))
TABLE = Kind("a table", lambda v: isinstance(v, dict))
NAMES = Kind("a number of them or a list of names", lambda v: COUNT.accepts(v) or TEXTS.accepts(v))
NAMES_OR_LEVELS = Kind("a list of names, or a table of levels", lambda v: NAMES.accepts(v) or isinstance(v, dict))
TEXT_OR_NUMBER = Kind("a text or a number", lambda v: TEXT.accepts(v) or NUMBER.accepts(v))
MISSING = Kind("'refuse' or 'drop'", lambda v: v in ("refuse", "drop"))
TEXT_OR_FALSE = Kind("a text or false", lambda v: TEXT.accepts(v) or v is False)

RETURN = {"return_name": TEXT, "include_return": FLAG}
WORLDS: dict[str, dict[str, Kind]] = {
    "log": {
        "path": TEXT,
        "state": TEXT_OR_ANY_TEXTS,
        "action": TEXT,
        "episode": TEXT,
        "step": TEXT,
        "reward": TEXT,
        "terminated": TEXT,
        "truncated": TEXT_OR_FALSE,
        "probability": TEXT_OR_NUMBER,
        "features": TEXTS,
        "group": TEXT,
        "missing": MISSING,
        "sort": FLAG,
        "states": NAMES,
        "actions": NAMES_OR_LEVELS,
        "discount": NUMBER,
        "return_range": PAIR,
        "skip_bad": FLAG,
        "max_rows": COUNT,
        **RETURN,
    },
    "gymnasium": {
        "id": TEXT,
        "exact": FLAG,
        "horizon": COUNT,
        "actions": NAMES_OR_LEVELS,
        "feature_names": TEXTS,
        "options": TABLE,
        **RETURN,
    },
    "table": {
        "path": TEXT,
        "actions": NAMES_OR_LEVELS,
        "states": TEXTS,
        "feature_names": TEXTS,
        "discount": NUMBER,
        **RETURN,
    },
    "function": {"name": TEXT, "options": TABLE},
}
NEEDED = {"log": ("path", "state", "action"), "gymnasium": ("id",), "table": ("path",), "function": ("name",)}
SECTIONS: dict[str, dict[str, Kind]] = {
    "policies": {"current": TEXT, "proposed": TEXT, "rules": TEXTS, "candidates": TEXTS, "greedy": FLAG},
    "options": study_section(ExplainOptions),
    "improve": study_section(ImproveOptions),
    "check": study_section(CheckOptions),
}
SOURCES = {"column": TEXT, "info": TEXT, "array": TEXT, "function": TEXT, "constant": FINITE}  # of an outcome
WORDS = {"more": TEXT, "less": TEXT, "unit": TEXT}
OUTCOME: dict[str, Kind] = {"name": TEXT, **SOURCES, "prefer": TEXT, "margin": NUMBER, **WORDS, "range": PAIR}
INSTEAD = (("proposed", "rules"),)  # one flag of these replaces all of them in the file
TOP = ("title", "world", "policies", "outcomes", *SECTIONS)


@dataclass(frozen=True)
class Study:
    """A study file, checked; or flags that stand for one."""

    values: Mapping[str, Json]
    folder: Path = field(default_factory=Path)  # what relative paths start from
    source: str = "the command line"

    @property
    def world_kind(self) -> str:
        """Which kind of world the study names."""
        return next(iter(self.values["world"]))

    @property
    def world(self) -> Mapping[str, Json]:
        """The settings of the world."""
        return self.values["world"][self.world_kind]

    def section(self, name: str) -> dict[str, Json]:
        """The keys of a section; empty if it is not there."""
        return dict(self.values.get(name, {}))

    def file(self, path: str) -> Path:
        """A path of the study, from where the study lies."""
        if "\0" in path or any(len(part.encode()) > MOST_NAME for part in Path(path).parts):
            raise InvalidStudyError(f"{self.source}: {path!r:.80} is no path: a part is too long, or is no text")
        try:
            return self.folder / Path(path).expanduser()
        except RuntimeError as error:
            raise InvalidStudyError(f"{self.source}: {path!r:.80} is no path: {error}") from error


def read_study(path: Path | None, flags: Mapping[str, Json]) -> Study:
    """The study of a file with flags laid over it, or of flags alone."""
    text = _read(path) if path is not None else ""
    try:
        values = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        hint = f". Hint: polidiff init {path} -o study.toml writes a study of a table of data"
        toml = path is None or path.suffix == ".toml"
        raise InvalidStudyError(f"{path} is not TOML: {error}{'' if toml else hint}") from error
    place = Place(str(path) if path is not None else "the command line", text)
    check_study(values, place)
    merged = _laid_over(values, flags)
    check_study(merged, place, complete=True)
    return Study(merged, path.parent if path is not None else Path(), place.source)


def _read(path: Path) -> str:
    if path.suffix.lower() in TABLE_SUFFIXES:
        raise InvalidStudyError(
            f"{path} is a table, not a study. Hint: polidiff init {path} -o study.toml writes a study of it"
        )
    try:
        return read_limited(path, MOST_BYTES, InvalidStudyError).decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise InvalidStudyError(
            f"{path} must be a text file in UTF-8. Hint: polidiff init {path} -o study.toml writes a study"
        ) from error
    except OSError as error:
        raise InvalidStudyError(
            f"cannot read the study {path}: {error.strerror}. Hint: polidiff init DATA -o study.toml writes one"
        ) from error


def _laid_over(values: Mapping[str, Json], flags: Mapping[str, Json]) -> dict[str, Json]:
    """Flags given as {"section": {key: value}} win over the file; a world given by flag replaces the file's."""
    merged = {key: dict(value) if isinstance(value, Mapping) else value for key, value in values.items()}
    for section, given in flags.items():
        if not isinstance(given, Mapping):
            merged[section] = given
        elif section == "outcomes":
            merged[section] = _outcomes_over(merged.get(section, []), given)
        elif section == "world" and given:
            kind, keys = next(iter(given.items()))
            before = merged.get("world", {}).get(kind, {})
            merged["world"] = {kind: {**before, **keys} if isinstance(keys, Mapping) else keys}
        elif given:
            before = merged.get(section, {})
            replaced = {key for pair in INSTEAD for key in pair if not given.keys().isdisjoint(pair)}
            merged[section] = {**{k: v for k, v in before.items() if k not in replaced}, **given}
    return merged


def _outcomes_over(outcomes: Json, given: Mapping[str, Json]) -> list[Json]:
    """Outcomes with keys laid over those that are named, by their number from 0 or by their name."""
    merged: list[Json] = [dict(outcome) for outcome in outcomes]
    places = {str(k): k for k in range(len(outcomes))} | {str(o["name"]): k for k, o in enumerate(outcomes)}
    for name, keys in given.items():
        if name not in places:
            known = ", ".join(f"{k} ({outcome['name']})" for k, outcome in enumerate(outcomes)) or "none"
            raise InvalidStudyError(f"--set outcomes.{name}: the study has no such outcome; it has {known}")
        k = places[name]
        merged[k] = {**merged[k], **keys} if isinstance(keys, Mapping) else keys
    return merged


@dataclass(frozen=True)
class Place:
    """Where a study was written, to name lines."""

    source: str
    text: str

    def error(self, path: tuple[str | int, ...], message: str) -> InvalidStudyError:
        """An error at a key."""
        line = line_of(self.text, path)
        return InvalidStudyError(f"{self.source}{f', line {line}' if line else ''}: {message}")


def line_of(text: str, path: tuple[str | int, ...]) -> int | None:
    """The line of a key, or of the closest table around it.

    >>> line_of('[policies]\\ncurrent = "a"\\n', ("policies", "current"))
    2
    """
    closest: tuple[int, int] | None = None  # how much of the path a line names, the line
    table: tuple[str | int, ...] = ()
    counts: dict[tuple[str | int, ...], int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        header = re.match(r"\s*(\[\[?)\s*([^\]]+?)\s*\]", line)
        key = re.match(r"\s*([A-Za-z0-9_.\"'-]+)\s*=", line)
        if header:
            table = _parts(header[2])
            if header[1] == "[[":
                counts[table] = counts.get(table, -1) + 1
                table = (*table, counts[table])
            at = table
        elif key:
            at = (*table, *_parts(key[1]))
        else:
            continue
        if at == path[: len(at)] and (closest is None or len(at) > closest[0]):
            closest = (len(at), number)
    return closest[1] if closest else None


def _parts(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip().strip("\"'") for part in dotted.split("."))


def check_study(values: Mapping[str, Json], place: Place, *, complete: bool = False) -> None:
    """Raise for the first key that is unknown or has a value of another kind; if `complete`, for what is missing."""
    for key in values:
        if key not in TOP:
            raise place.error((key,), f"unknown key {key!r}{near_miss(key, TOP)}")
    if "title" in values:
        _check_value("title", values["title"], TEXT, ("title",), place)
    for name, known in SECTIONS.items():
        if name in values:
            _check_table(values[name], known, (name,), place)
    _check_outcomes(values.get("outcomes", []), place)
    if "world" in values or complete:
        _check_world(values.get("world", {}), place, complete)


def _check_world(world: Json, place: Place, complete: bool) -> None:
    _check_value("world", world, TABLE, ("world",), place)
    for kind in world:
        if kind not in WORLDS:
            raise place.error(("world", kind), f"unknown world {kind!r}{near_miss(kind, list(WORLDS))}")
    if len(world) != 1:
        came = "none" if not world else ", ".join(world)
        raise place.error(("world",), f"expected one world of {', '.join(f'[world.{k}]' for k in WORLDS)}; came {came}")
    kind, settings = next(iter(world.items()))
    _check_table(settings, WORLDS[kind], ("world", kind), place)
    for key in NEEDED[kind] if complete else ():
        if key not in settings:
            raise place.error(("world", kind), f"[world.{kind}] needs {key!r}, {WORLDS[kind][key].words}")


def _check_table(values: Json, known: Mapping[str, Kind], path: tuple[str | int, ...], place: Place) -> None:
    name = ".".join(str(part) for part in path)
    _check_value(name, values, TABLE, path, place)
    for key, value in values.items():
        if key not in known:
            raise place.error((*path, key), f"unknown key {key!r} in [{name}]{near_miss(key, list(known))}")
        _check_value(f"{name}.{key}", value, known[key], (*path, key), place)


def _check_value(name: str, value: Json, kind: Kind, path: tuple[str | int, ...], place: Place) -> None:
    if not kind.accepts(value):
        from polidiff.records.codec import shortly

        raise place.error(path, f"{name} must be {kind.words}; got {shortly(value)}")


def _check_outcomes(outcomes: Json, place: Place) -> None:
    if not isinstance(outcomes, list) or not all(isinstance(item, dict) for item in outcomes):
        raise place.error(("outcomes",), "outcomes must be written as [[outcomes]], once for each")
    for index, outcome in enumerate(outcomes):
        path = ("outcomes", index)
        _check_table(outcome, OUTCOME, path, place)
        if "name" not in outcome:
            raise place.error(path, "an outcome needs a 'name'")
        given = [key for key in SOURCES if key in outcome]
        if len(given) != 1:
            came = "none" if not given else " and ".join(given)
            raise place.error(path, f"outcome {outcome['name']!r} needs one of {', '.join(SOURCES)}; came {came}")
