"""Worlds of whole studies: tiny tables, environments and logs, what is odd about each drawn from a seed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from tests.fuzz.seeds import csv_of
from tests.fuzz.texts import quoted

ENV = "polidiff-fuzz/Small-v0"
Table = dict[str, Any]
Extra = Mapping[str, Any]


class Small(gymnasium.Env[Any, Any]):
    """A walk of a few steps in a box, or over a few numbers; some never end by themselves."""

    def __init__(self, seed: int, width: int, actions: int, size: int) -> None:
        rng = np.random.default_rng(seed)
        self._pushes = rng.normal(size=(actions, max(width, 1)))
        self._pay = rng.normal(size=actions) * 10.0 ** rng.integers(-3, 6)
        self._ends, self._size = rng.choice([0.5, 2.0, 1e9]), size
        self.action_space = gymnasium.spaces.Discrete(actions)
        box = gymnasium.spaces.Box(-np.inf, np.inf, (width,), np.float64)
        self.observation_space = box if width else gymnasium.spaces.Discrete(size)

    def _seen(self) -> Any:
        within = int(abs(self._at[0]) * 2) % self._size
        return within if isinstance(self.observation_space, gymnasium.spaces.Discrete) else self._at.copy()

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """Somewhere near nothing."""
        super().reset(seed=seed)
        self._at = self.np_random.normal(size=self._pushes.shape[1]) * 0.3
        return self._seen(), {"cost": 0.0}

    def step(self, action: Any) -> Any:
        """Pushed, with some luck."""
        self._at = self._at + self._pushes[action] * 0.5 + self.np_random.normal(size=len(self._at)) * 0.1
        over = bool(abs(self._at).max() > self._ends)
        return self._seen(), float(self._pay[action] * self._at[0]), over, False, {"cost": float(action)}


if ENV not in gymnasium.registry:
    gymnasium.register(id=ENV, entry_point=Small)


def table(seed: int, names: tuple[str, ...], named: bool, extra: Extra, folder: Path) -> Table:
    """A few states, the last of them ends; policies as arrays."""
    rng = np.random.default_rng(seed)
    size, actions = int(rng.integers(1, 7)) + (seed % 8 > 0), int(rng.integers(1, 4))
    moves = rng.random((size, actions, size)) * (rng.random((size, actions, size)) < 0.6)
    moves[..., -1] += rng.random() < 0.9  # else some never end
    moves[..., 0] += moves.sum(axis=2) == 0
    absorbing = np.arange(size) >= max(size - int(rng.integers(1, 3)), seed % 8 > 0)  # rarely all
    rewards = np.round(rng.normal(size=(size, actions)) * 10.0 ** rng.integers(-3, 6), 2)
    arrays = {"initial": np.full(size, 1 / size), "absorbing": absorbing, "rewards": rewards}
    policies = {name: rng.integers(0, actions, size) for name in ("current", "proposed")}
    more = np.random.default_rng([seed, 1])
    if extra.get("coordinates"):
        arrays["features"] = more.integers(0, 3, (size, 2)).astype(float)
    if extra.get("mixed"):
        policies["current"] = more.dirichlet(np.ones(actions), size)
    arrays["counted"] = more.random((size, actions))
    np.savez(folder / "world.npz", transitions=moves / moves.sum(axis=2, keepdims=True), **arrays)
    for name, chosen in policies.items():
        np.save(folder / f"{name}.npy", chosen)
    words: Table = {"states": [f"{names[k % 4]}{k}" for k in range(size)]} if named else {}
    words |= {"feature_names": list(names[:2])} if extra.get("coordinates") else {}
    words |= {"actions": [f"{names[2]} {k}" for k in range(actions)]} if extra.get("named_actions") else {}
    return {
        "world": {"table": {"path": "world.npz", **words, **_settings(extra, "discount", "include_return")}},
        "policies": {"current": "current.npy", "proposed": "proposed.npy"},
        "outcomes": _outcomes(extra, names, "array", "counted"),
    }


def environment(seed: int, names: tuple[str, ...], discrete: bool, extra: Extra, folder: Path) -> Table:
    """An environment of a few steps; policies as arrays, constants or rules."""
    rng = np.random.default_rng(seed)
    actions, size, width = int(rng.integers(1, 4)), int(rng.integers(1, 7)), 0 if discrete else int(rng.integers(1, 4))
    called = [f"{names[2]} {k}" if extra.get("named_actions") else f"do {k}" for k in range(actions)]
    words: Table = {"feature_names": list(names[:width])} if width else {}
    for name in ("current", "proposed"):
        np.save(folder / f"{name}.npy", rng.integers(0, actions, size))
    policies: Table = {"current": "current.npy" if discrete else f"always:{called[0]}"}
    if discrete and rng.random() < 0.7:
        policies["proposed"] = "proposed.npy"
    else:
        where = "state" if discrete else quoted(names[0])
        policies["rules"] = [f"{where} < {rng.normal():.2f}: {called[-1]}"]
    options = {"seed": int(rng.integers(1000)), "width": width, "actions": actions, "size": size}
    settings = {"id": ENV, "horizon": int(rng.integers(1, 4)), "actions": called, "options": options}
    return {
        "world": {"gymnasium": {**settings, **words, **_settings(extra, "include_return")}},
        "policies": policies,
        "outcomes": _outcomes(extra, names, "info", "cost"),
    }


def log(seed: int, kind: str, names: tuple[str, ...], features: bool, extra: Extra, folder: Path) -> Table:
    """A few rows: numbers with gaps, words, a switch, and sums of any size; single decisions or episodes."""
    rng = np.random.default_rng(seed)
    rows, actions = int(rng.integers(1, 120 if seed % 8 == 0 else 40)), int(rng.integers(1, 4))
    number, word, odd, action = names
    columns = {
        number: [f"{x:.2f}" if rng.random() < 0.97 else "" for x in rng.normal(size=rows)],
        word: [f"w{k}" for k in rng.geometric(0.5, rows)],
        odd: [str(int(k)) for k in rng.integers(0, 2, rows)],
        action: [f"do {k}" for k in rng.integers(0, actions, rows)],
        "pays": [f"{x:.3g}" for x in rng.normal(size=rows) * 10.0 ** rng.integers(-3, 6)],
    }
    state = [number, word, odd] if features else word
    roles: Table = {"state": state, "action": action, "reward": "pays"}
    if kind == "episodes":
        length = int(rng.integers(1, 5))
        last = [(k + 1) % length == 0 and rng.random() < 0.9 for k in range(rows)]
        columns["who"] = [f"p{k // length}" for k in range(rows)]
        columns["at"] = [str(k % length) for k in range(rows)]
        columns["over"] = [str(end).lower() for end in last]
        roles |= {"episode": "who", "step": "at", "terminated": "over"}
    proposed = "log" if rng.random() < 0.3 else f"always:do {rng.integers(0, actions)}"
    current = "log"
    more = np.random.default_rng([seed, 1])
    columns["cost"] = [f"{x:.2f}" for x in more.random(rows)]
    if extra.get("person"):
        people = np.sort(more.integers(0, 1 + rows // 2, rows)).tolist()
        episodes = [int(entry[1:]) for entry in columns.get("who", [f"p{k}" for k in range(rows)])]
        columns["person"] = [f"n{people[episode]}" for episode in episodes]
        roles["group"] = "person"
    if extra.get("described") and not features:
        columns[number] = [str(len(entry) + int(entry[1:]) % 3) for entry in columns[word]]
        roles["features"] = [number]
    if extra.get("chance"):
        roles["probability"] = round(1 / actions, 3)
    if extra.get("missing"):
        columns["pays"] = [entry if more.random() < 0.95 else "" for entry in columns["pays"]]
        roles["missing"] = extra["missing"]
    if extra.get("named_actions"):
        columns[action] = [f"{names[2]}{entry}" for entry in columns[action]]
        proposed = proposed.replace("do ", f"{names[2]}do ")
    if extra.get("scored"):  # what two policies would do is a column each
        for name in ("now", "then"):
            columns[name] = [columns[action][k] for k in more.permutation(rows)]
        current, proposed = "column:now" if extra["scored"] == 2 else current, "column:then"
    policies = {"current": current, "proposed": proposed}
    if extra.get("ruled"):
        del policies["proposed"]
        where = f"{quoted(number)} < 0.1" if features else f"{quoted(word)} = w1"
        policies["rules"] = [f"{where}: {columns[action][0]}"]
    write_csv(folder / "log.csv", columns)
    if extra.get("second") and "proposed" in policies and not extra.get("scored"):
        write_csv(folder / "other.csv", {name: entries[rows // 3 :] for name, entries in columns.items()})
        policies["proposed"] = f"log:{folder / 'other.csv'}"
    ranged = {"return_range": [-1e6, 1e6]} if extra.get("ranged") else {}
    return {
        "world": {"log": {"path": "log.csv", **roles, **ranged, **_settings(extra, "discount", "include_return")}},
        "policies": policies,
        "outcomes": _outcomes(extra, names, "column", "cost", range=[0, 5]),
    }


def write_csv(path: Path, columns: dict[str, list[str]]) -> None:
    """A table with every entry in quotes."""
    written = {_field(name): [_field(entry) for entry in entries] for name, entries in columns.items()}
    path.write_text(csv_of(written), encoding="utf-8")


def _field(text: str) -> str:
    escaped = text.replace('"', '""')
    return f'"{escaped}"' if text else ""


def _settings(extra: Extra, *keys: str) -> Table:
    told = {key: extra[key] for key in keys if key in extra}
    return told if extra.get("outcomes") else {key: value for key, value in told.items() if key != "include_return"}


def _outcomes(extra: Extra, names: tuple[str, ...], source: str, what: str, **more: Any) -> list[Table]:
    """None, one or two outcomes beside the return; the second counts decisions."""
    told = [
        {"name": f"{names[3]}!", source: what, "prefer": "less", "margin": 0.01, **more},
        {"name": extra.get("called", "steps"), "constant": 1.0, "range": [0, 9], "unit": names[0]},
    ]
    return told[: extra.get("outcomes", 0)]
