"""Small valid documents of every kind, to be made wrong: results, patches, studies, logs, tables and policies."""

from __future__ import annotations

import dataclasses
import json
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from polidiff import check, evaluate
from polidiff.domains import chain
from polidiff.policies import as_policy, save_policy
from polidiff.records.codec import to_dict
from polidiff.records.explanation import SampledState
from tests.report import samples


@cache
def results() -> dict[str, Any]:
    """One result of each kind as a JSON tree."""
    plain = samples.plain()
    small = dataclasses.replace(
        plain,
        pictures=tuple(
            dataclasses.replace(picture, cells=picture.cells[:3], trajectories=picture.trajectories[:1])
            for picture in plain.pictures[:1]
        ),
        sample=(SampledState((0.05, 0.25), 0.5, "N", "E"), SampledState((0.9, 0.9), 0.5, "N", "N")),
    )
    told = samples.chain()
    records = {
        "plain": small,
        "log": dataclasses.replace(samples.from_log(), pictures=small.pictures),
        "chain": told,
        "frontier": samples.frontier(),
        "rules": samples.rule_frontier(),
        "evaluation": evaluate(chain.world(), chain.current()),
        "check": check(told),
        "case": told.case({"state": told.regions[0].states[0]}) if told.regions else told.case("s0"),
    }
    return {name: json.loads(json.dumps(to_dict(record))) for name, record in records.items()}


@cache
def patches() -> dict[str, Any]:
    """Patches over states and over features."""
    told = {name: {"schema": "polidiff/patch", "version": 1, **results()[name]["patch"]} for name in ("plain", "chain")}
    return told | patches_by_hand()


def patches_by_hand() -> dict[str, Any]:
    """A patch with a rule, and one with states and a probability."""
    within = {"feature": "s", "column": 0, "low": 0.0, "high": 2.0, "values": None, "missing": False}
    head = {"schema": "polidiff/patch", "version": 1, "actions": ["a", "b"], "feature_names": ["s"]}
    swap = {"rule": {"conditions": [within]}, "current": 0, "proposed": 1, "states": None, "shift": None}
    less = {"current": 1.0, "proposed": 0.5}
    shift = {"rule": {"conditions": []}, "current": 1, "proposed": 1, "states": [1, 2], "shift": less}
    return {"table": {**head, "edits": [swap]}, "shift": {**head, "edits": [swap, shift]}}


OUTCOMES = [
    {"name": "trajectory length", "constant": 1.0, "prefer": "less", "more": "longer", "margin": 0.1, "unit": "steps"},
    {"name": "desired visits", "array": "desired", "prefer": "more", "range": [0, 12]},
]
STUDIES: dict[str, dict[str, Any]] = {
    "table": {
        "title": "Detours",
        "world": {"table": {"path": "chain.npz", "actions": ["stay", "detour"], "include_return": False}},
        "policies": {"current": "current.npy", "proposed": "proposed.npy", "greedy": True},
        "outcomes": OUTCOMES,
        "options": {"seed": 3, "level": 0.9, "max_rules": 3, "policy_tolerance": 0.1, "min_group": 5},
        "improve": {"budget": 2, "keep": ["trajectory length<=current+1"], "gap": 0.01, "max_states": 3},
        "check": {"max_changes": 3, "allow_unknown": True},
    },
    "log": {
        "world": {
            "log": {
                "path": "log.csv",
                "state": "s",
                "action": "a",
                "episode": "e",
                "step": "t",
                "reward": "r",
                "terminated": "end",
                "discount": 0.9,
            }
        },
        "policies": {"current": "log", "proposed": "two.json"},
        "outcomes": [{"name": "cost", "column": "cost", "prefer": "less", "range": [0, 100]}],
        "options": {"level": 0.95, "starts": 3, "style": "plain"},
    },
    "features": {
        "world": {"log": {"path": "log.csv", "state": ["x", "s"], "action": "a", "reward": "r"}},
        "policies": {"current": "log", "proposed": "log"},
    },
    "function": {
        "world": {"function": {"name": "polidiff.domains.chain:world", "options": {}}},
        "policies": {"current": "polidiff.domains.chain:current", "proposed": "polidiff.domains.chain:proposed"},
        "options": {"style": "paper", "max_splits": 2, "max_steps": 1000, "transition_tolerance": 0.1},
    },
    "environment": {
        "world": {"gymnasium": {"id": "FrozenLake-v1", "exact": True, "actions": ["l", "d", "r", "u"]}},
        "policies": {"current": "lake.csv", "proposed": "lake.csv"},
    },
}
LOG = {
    "e": ["1", "1", "1", "2", "2", "3", "3", "4"],
    "t": ["0", "1", "2", "0", "1", "0", "1", "0"],
    "s": ["0", "1", "2", "0", "1", "1", "2", "2"],
    "x": ["0.5", "1.5", "2.5", "0.25", "", "1.25", "2.0", "3.5"],
    "a": ["0", "1", "0", "1", "0", "1", "1", "0"],
    "r": ["0", "0", "1", "0", "1", "0.5", "1", "2"],
    "cost": ["1", "1", "1", "1", "1", "1", "1", "1"],
    "end": ["false", "false", "true", "false", "true", "false", "true", "true"],
}


def csv_of(columns: dict[str, list[str]] | list[tuple[str, list[str]]]) -> str:
    """A table as CSV, entries as they are."""
    pairs = list(columns.items()) if isinstance(columns, dict) else columns
    height = max((len(entries) for _, entries in pairs), default=0)
    lines = [",".join(name for name, _ in pairs)]
    lines += [",".join(entries[i] if i < len(entries) else "" for _, entries in pairs) for i in range(height)]
    return "\n".join(lines) + "\n"


@cache
def folder() -> Path:
    """A folder with everything that the studies name."""
    place = Path(tempfile.mkdtemp(prefix="polidiff-fuzz-"))
    np.savez(place / "chain.npz", **table_arrays())
    np.save(place / "current.npy", chain.current())
    np.save(place / "proposed.npy", chain.proposed())
    np.savetxt(place / "lake.csv", np.zeros(16), fmt="%d")
    save_policy(as_policy([0, 1, 1], n_actions=2), place / "two.json")
    (place / "log.csv").write_text(csv_of(LOG), encoding="utf-8")
    (place / "table.toml").write_text(toml_of(STUDIES["table"]), encoding="utf-8")
    return place


def table_arrays() -> dict[str, np.ndarray]:
    """The chain as arrays."""
    world = chain.world()
    return {
        "transitions": np.asarray(world.transitions.todense()).reshape(12, 2, 12),
        "rewards": np.asarray(world.rewards),
        "initial": np.asarray(world.initial),
        "absorbing": np.asarray(world.absorbing),
        "desired": np.isin(np.arange(12), chain.DESIRED).astype(float)[:, None] * np.ones((1, 2)),
    }


def toml_of(tree: Any) -> str:
    """A tree as TOML, as far as it can be written: tables under their names, what is inside them in one line each."""
    if not isinstance(tree, dict):
        return f"value = {toml_value(tree)}\n"
    plain = {key: entry for key, entry in tree.items() if not (isinstance(entry, dict) or _tables(entry))}
    lines = _entries(plain)
    for key, entry in tree.items():
        if isinstance(entry, dict):
            inner = {name: value for name, value in entry.items() if isinstance(value, dict)}
            lines += [f"[{_key(key)}]", *_entries({n: v for n, v in entry.items() if n not in inner})]
            for name, value in inner.items():
                lines += [f"[{_key(key)}.{_key(name)}]", *_entries(value)]
        elif _tables(entry):
            for item in entry:
                lines += [f"[[{_key(key)}]]", *_entries(item)]
    return "\n".join(lines) + "\n"


def _tables(entry: Any) -> bool:
    return isinstance(entry, list) and bool(entry) and all(isinstance(item, dict) for item in entry)


def _entries(table: dict[str, Any]) -> list[str]:
    return [f"{_key(name)} = {toml_value(value)}" for name, value in table.items()]


def toml_value(value: Any) -> str:
    """One value in one line."""
    if value is None:
        return "''"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, dict):
        return "{" + ", ".join(_entries(value)) + "}"
    return "[" + ", ".join(toml_value(entry) for entry in value) + "]"


def _key(name: Any) -> str:
    text = str(name)
    return text if text.isascii() and text.replace("_", "").isalnum() else _text(text)


def _text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in escaped) + '"'
