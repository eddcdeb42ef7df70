"""Flags as a study: the same keys, under the same names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

WORLD_FLAGS = {
    "log": ("log", "path"),
    "env": ("gymnasium", "id"),
    "table": ("table", "path"),
    "world": ("function", "name"),
}
COLUMNS = ("state", "action", "episode", "step", "reward", "terminated")
POLICIES = ("current", "proposed", "rules", "candidates")
EXPLAIN = (
    "level",
    "max_rules",
    "policy_tolerance",
    "transition_tolerance",
    "max_splits",
    "max_steps",
    "starts",
    "style",
    "min_group",
    "seed",
)
IMPROVE = (
    "budget",
    "unit",
    "max_states",
    "max_rules",
    "max_conditions",
    "max_literals",
    "moves",
    "fallback",
    "min_support",
    "keep",
    "freeze",
    "gap",
    "time_limit",
)
CHECK = ("max_changes", "keep", "allow_unknown")


def as_study(given: Mapping[str, Any], *, options: tuple[str, ...], section: str = "options") -> dict[str, Any]:
    """Flags that were given, in the sections of a study; `section` takes those named in `options`."""
    told = {name: list(value) if isinstance(value, tuple) else value for name, value in given.items() if _told(value)}
    return {
        "world": _world(told),
        "policies": {name: told[name] for name in POLICIES if name in told},
        section: {name: told[name] for name in options if name in told},
    }


def _told(value: Any) -> bool:
    return value is not None and value != () and value is not False


def _world(told: Mapping[str, Any]) -> dict[str, Any]:
    worlds = [name for name in WORLD_FLAGS if name in told]
    if len(worlds) > 1:
        raise click.UsageError(f"--{worlds[0]} and --{worlds[1]} both name a world; give one")
    columns = {name: told[name] for name in (*COLUMNS, "skip_bad") if name in told}
    if not worlds:
        if columns:
            return {"log": columns}
        return {"gymnasium": {"horizon": told["horizon"]}} if "horizon" in told else {}
    kind, key = WORLD_FLAGS[worlds[0]]
    settings = {key: told[worlds[0]]}
    if kind == "log":
        states = columns.get("state", [])
        settings |= {**columns, **({"state": states[0]} if len(states) == 1 else {})}
    if kind == "gymnasium" and "horizon" in told:
        settings["horizon"] = told["horizon"]
    return {kind: settings}
