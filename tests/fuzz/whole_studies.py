"""Whole studies: a random world or log, policies and options, asked on the command line and told in every format.

Most of them are right, so that what is tried is the work itself: tiny tables and logs, names that attack, features that
are missing, constant or categories, ends that never come, groups of one. The result is then loaded, checked, asked,
applied, and written as page, Markdown and picture.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

from polidiff.errors import InvalidInputError
from tests.fuzz.commands import command
from tests.fuzz.judge import FailureError
from tests.fuzz.mutate import HOSTILE
from tests.fuzz.seeds import csv_of, toml_of

CODES = {0, 1, 2, 3}
NAMES = [name for name in HOSTILE if isinstance(name, str) and "\ud800" not in name and 0 < len(name) < 200]


class Whole(NamedTuple):
    """What a study is made from."""

    seed: int
    kind: str  # table, single (decisions), episodes
    features: bool  # states are features, or discrete
    verb: str
    names: tuple[str, ...]  # of four columns, or of states
    options: dict[str, Any]
    plans: dict[str, Any]


_name = st.sampled_from(NAMES) | st.sampled_from(["age", "ward", "map", "x y", "État"])
_options = st.fixed_dictionaries(
    {},
    optional={
        "level": st.sampled_from([0.5, 0.9, 0.999]),
        "min_group": st.integers(1, 12),
        "max_rules": st.integers(1, 3),
        "seed": st.integers(0, 5) | st.just(2**40),
        "starts": st.integers(1, 4),
        "policy_tolerance": st.sampled_from([0.0, 0.1, 0.6]),
    },
)
_plans = st.fixed_dictionaries(
    {"time_limit": st.just(1.0)},
    optional={
        "max_rules": st.integers(0, 2),
        "budget": st.sampled_from([0, 0.5, 3]),
        "max_states": st.integers(0, 2),
        "max_conditions": st.integers(1, 2),
        "gap": st.sampled_from([0.0, 0.1]),
    },
)
wholes = st.builds(
    Whole,
    st.integers(0, 2**32 - 1),
    st.sampled_from(["table", "single", "episodes"]),
    st.booleans(),
    st.sampled_from(["explain", "explain", "explain", "improve", "improve", "check"]),
    st.lists(_name, min_size=4, max_size=4, unique=True).map(tuple),
    _options,
    _plans,
)


def enter_whole(case: Whole, folder: Path) -> None:
    """Asked, and what came back told in every format."""
    rng = np.random.default_rng(case.seed)
    study = _table(case, rng, folder) if case.kind == "table" else _log(case, rng, folder)
    study |= {"options": case.options} | ({"improve": case.plans} if case.verb == "improve" else {})
    path, result = folder / "study.toml", folder / "result.json"
    path.write_text(toml_of(study), encoding="utf-8")
    written = [] if case.verb == "check" else ["--report", str(result)]
    code = command([case.verb, str(path), *written], CODES)
    if result.exists() != (code == 0 and bool(written)):
        raise FailureError("a file where none was to be, or none where one was", str(case))
    if code in (2, 3):
        raise InvalidInputError("refused")
    if written:
        _tell(case, result, folder)


def _tell(case: Whole, result: Path, folder: Path) -> None:
    """Everything that commands do with a result."""
    for ending in ("html", "md", "svg"):  # Markdown comes with PNG files
        command(["report", str(result), "-o", str(folder / f"told.{ending}")], {0})
    tree = json.loads(result.read_text(encoding="utf-8"))
    command(["check", str(result)], {0, 1, 2})
    if case.verb == "explain":
        action = tree["world"]["actions"][-1]["name"]
        asked = f'"{case.names[0]}" < 1' if '"' not in case.names[0] else "x < 1"
        for question in (["when", "--", action], ["why-not", "--in", "S_1", "--", action], ["what-if", "--", asked]):
            command(["ask", str(result), *question], {0, 2})


def _table(case: Whole, rng: np.random.Generator, folder: Path) -> dict[str, Any]:
    size, actions = int(rng.integers(1, 7)), int(rng.integers(1, 4))
    moves = rng.random((size, actions, size)) * (rng.random((size, actions, size)) < 0.6)
    moves[..., -1] += rng.random() < 0.9  # else some never end
    moves[..., 0] += moves.sum(axis=2) == 0
    absorbing = np.arange(size) >= size - int(rng.integers(1, 3))
    rewards = np.round(rng.normal(size=(size, actions)) * 10.0 ** rng.integers(-3, 6), 2)
    arrays = {"initial": np.full(size, 1 / size), "absorbing": absorbing, "rewards": rewards}
    np.savez(folder / "world.npz", transitions=moves / moves.sum(axis=2, keepdims=True), **arrays)
    for name in ("current", "proposed"):
        np.save(folder / f"{name}.npy", rng.integers(0, actions, size))
    named = {"states": [f"{case.names[k % 4]}{k}" for k in range(size)]} if case.features else {}
    return {
        "world": {"table": {"path": "world.npz", **named}},
        "policies": {"current": "current.npy", "proposed": "proposed.npy"},
    }


def _log(case: Whole, rng: np.random.Generator, folder: Path) -> dict[str, Any]:
    rows, actions = int(rng.integers(1, 120)), int(rng.integers(1, 4))
    number, word, odd, action = case.names
    columns = {
        number: [f"{x:.2f}" if rng.random() < 0.97 else "" for x in rng.normal(size=rows)],
        word: [f"w{k}" for k in rng.geometric(0.5, rows)],
        odd: [str(int(k)) for k in rng.integers(0, 2, rows)],
        action: [f"do {k}" for k in rng.integers(0, actions, rows)],
        "pays": [f"{x:.3g}" for x in rng.normal(size=rows) * 10.0 ** rng.integers(-3, 6)],
    }
    state = [number, word, odd] if case.features else word
    roles: dict[str, Any] = {"state": state, "action": action, "reward": "pays"}
    if case.kind == "episodes":
        length = int(rng.integers(1, 5))
        last = [(k + 1) % length == 0 and rng.random() < 0.9 for k in range(rows)]
        columns["who"] = [f"p{k // length}" for k in range(rows)]
        columns["at"] = [str(k % length) for k in range(rows)]
        columns["over"] = [str(end).lower() for end in last]
        roles |= {"episode": "who", "step": "at", "terminated": "over"}
    quoted = {_field(name): [_field(entry) for entry in entries] for name, entries in columns.items()}
    (folder / "log.csv").write_text(csv_of(quoted), encoding="utf-8")
    proposed = "log" if rng.random() < 0.3 else f"always:do {rng.integers(0, actions)}"
    return {"world": {"log": {"path": "log.csv", **roles}}, "policies": {"current": "log", "proposed": proposed}}


def _field(text: str) -> str:
    escaped = text.replace('"', '""')
    return f'"{escaped}"' if text else ""
