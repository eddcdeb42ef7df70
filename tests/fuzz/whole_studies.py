"""Whole studies: a random world or log, policies and options, asked on the command line and told in every format.

Most of them are right, so that what is tried is the work itself: tiny tables and logs, names that attack, features that
are missing, constant or categories, ends that never come, groups of one. The result is then loaded, checked, asked,
compared, applied, and written as page, Markdown and picture.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from unittest import mock

from altair.utils.schemapi import debug_mode

from polidiff.errors import InvalidInputError
from polidiff.report import charts
from tests.fuzz import whole_worlds
from tests.fuzz.commands import command
from tests.fuzz.judge import FailureError
from tests.fuzz.mutate import HOSTILE
from tests.fuzz.seeds import toml_of
from tests.fuzz.texts import quoted

CODES = {0, 1, 2, 3}
DRAWN = 10  # the pictures of one study in so many are drawn
NAMES = [name for name in HOSTILE if isinstance(name, str) and "\ud800" not in name and 0 < len(name) < 200]


class Whole(NamedTuple):
    """What a study is made from."""

    seed: int
    kind: str  # table, environment, single (decisions), episodes
    features: bool  # states are features, or discrete
    verb: str
    names: tuple[str, ...]  # of four columns, or of states
    options: dict[str, Any]
    plans: dict[str, Any]
    extra: Mapping[str, Any] = MappingProxyType({})  # what else the world and its policies have
    gate: Mapping[str, Any] = MappingProxyType({})


WORDS = [*NAMES, "constructor", "__proto__", "toString", "see https://example.org/x", "a@b.org", "www.x.org"]
WORDS += ["age", "ward", "map", "x y", "État"] * 3
KINDS = ["table", "single", "episodes"] * 5 + ["environment"]  # whose episodes take seconds to play
VERBS = ["explain", "improve"] * 2 + ["check", "compare", "both"]
OPTIONS: dict[str, list[Any]] = {
    "level": [0.5, 0.9, 0.999],
    "min_group": list(range(1, 13)),
    "max_rules": [1, 2, 3],
    "seed": [0, 1, 2, 2**40],
    "starts": [1, 2, 4],
    "policy_tolerance": [0.0, 0.1, 0.6],
    "transition_tolerance": [0.0, 0.5],
    "max_splits": [0, 1, 3],
    "style": ["plain", "paper"],
    "classifier": ["rules", "rules cnf", "tree"],
    "evaluation": ["model bootstrap", "importance sampling", "fitted q"],
}
PLANS: dict[str, list[Any]] = {
    "max_rules": [0, 1, 2],
    "budget": [0, 0.5, 3],
    "max_states": [0, 1, 2],
    "max_conditions": [1, 2],
    "gap": [0.0, 0.1],
    "unit": ["expected", "total"],
    "max_literals": [0, 1, 3],
    "min_support": [1, 5, 0.1],
    "pessimism": [0.0, 1.0],
    "keep": ["<=current", ">=current-0.5", "<=1"],  # of the first outcome beside the return
    "freeze": ["< 0", "= w1"],  # of the first name
    "moves": ["actions", "levels"],
    "fallback": ["keep", "nearest"],
}
EXTRA: dict[str, list[Any]] = {
    "discount": [0.9, 1.0],
    "include_return": [True, False],
    "outcomes": [1, 2],
    "called": WORDS,
    "named_actions": [True],
    "coordinates": [True],
    "mixed": [True],
    "person": [True],
    "described": [True],
    "chance": [True],
    "missing": ["drop", "drop", "refuse"],
    "scored": [0, 0, 1, 2],
    "ruled": [False, False, True],
    "second": [False, False, True],
    "ranged": [True],
}
GATE: dict[str, list[Any]] = {"max_changes": [0, 0.5, 5], "allow_unknown": [True, False]}


def whole(seed: int) -> Whole:
    """The study of a seed; half of what could be said about it is left out."""
    rng = random.Random(seed)

    def some(offered: dict[str, list[Any]]) -> dict[str, Any]:
        return {key: rng.choice(values) for key, values in offered.items() if rng.random() < 0.4}

    kind, verb = rng.choice(KINDS), rng.choice(VERBS)
    names = tuple(rng.sample(list(dict.fromkeys(WORDS)), 4))
    plans = {"time_limit": 0.3, **some(PLANS)}
    return Whole(
        rng.getrandbits(32), kind, rng.random() < 0.5, verb, names, some(OPTIONS), plans, some(EXTRA), some(GATE)
    )


def enter_whole(case: Whole, folder: Path) -> None:
    """Asked, and what came back told in every format; the pictures of one in ten are drawn, held against a schema.

    Files are not flushed to disk, where they do not stay.
    """
    drawn = case.seed % DRAWN == 0
    pictures = mock.patch.object(charts, "SCALE", 0.3) if drawn else mock.patch.object(charts, "rendered", _undrawn)
    with pictures, debug_mode(drawn), mock.patch("os.fsync"):
        _enter(case, folder)


def _undrawn(chart: Any, suffix: str) -> bytes:
    """A picture as far as our own work goes: what the library would be given is a document that it can read."""
    return json.dumps(chart.to_dict(validate=False), allow_nan=False).encode()


def _enter(case: Whole, folder: Path) -> None:
    study = _study(case, folder)
    path, result, best = folder / "study.toml", folder / "result.json", folder / "best.json"
    path.write_text(toml_of(study), encoding="utf-8")
    written = {
        "check": ["--junit", str(folder / "checks.xml")],
        "improve": ["--report", str(result), "--patch", str(best)],
    }.get(case.verb, ["--report", str(result)])
    verb = case.verb if case.verb in ("check", "improve") else "explain"
    code = command([verb, str(path), *written], CODES)
    if result.exists() != (code == 0 and case.verb != "check"):
        raise FailureError("a file where none was to be, or none where one was", str(case))
    if code in (2, 3):
        raise InvalidInputError("refused")
    if result.exists():
        _tell(case, result, folder)
    if case.verb == "improve":
        _use(best, path, folder)
    elif case.verb == "compare":
        _again(path, result, folder)
    elif case.verb == "both":
        plans = folder / "plans.json"
        if command(["improve", str(path), "--report", str(plans)], CODES) == 0:
            command(["report", str(result), str(plans), "-o", str(folder / "both.html")], {0})


def _study(case: Whole, folder: Path) -> dict[str, Any]:
    """The study, as a tree."""
    if case.kind == "table":
        study = whole_worlds.table(case.seed, case.names, case.features, case.extra, folder)
    elif case.kind == "environment":
        study = whole_worlds.environment(case.seed, case.names, not case.features, case.extra, folder)
    else:
        study = whole_worlds.log(case.seed, case.kind, case.names, case.features, case.extra, folder)
    plans, options = _fitting(case)
    options |= {"max_steps": 5_000} if case.kind == "environment" else {}
    study |= {"options": options, "check": dict(case.gate)}
    return study | ({"improve": plans} if case.verb in ("improve", "both") else {})


def _fitting(case: Whole) -> tuple[dict[str, Any], dict[str, Any]]:
    """What plans and explanations are asked for, mostly without what this world would refuse."""
    plans, options = dict(case.plans), dict(case.options)
    for key, name in (("keep", f"{case.names[3]}!"), ("freeze", case.names[0])):
        plans[key] = f"{quoted(name)} {plans[key]}" if plans.get(key) else None
    wrong: set[str] = set()
    if case.seed % 8:
        featured = case.features and case.kind != "table"
        wrong |= {"evaluation"} if case.kind in ("table", "environment") else set()
        wrong |= {"keep"} if not case.extra.get("outcomes") else set()
        wrong |= {"freeze"} if not featured else set()
        wrong |= {"unit", "pessimism", "max_states" if "max_rules" in plans else ""} if featured else set()
        wrong |= {"max_literals", "moves", "fallback"} if "max_rules" not in plans else set()
    plans = {key: value for key, value in plans.items() if key not in wrong and value is not None}
    return plans, {key: value for key, value in options.items() if key not in wrong}


def _tell(case: Whole, result: Path, folder: Path) -> None:
    """Everything that commands do with a result."""
    drawn = case.seed % DRAWN == 0
    for ending in ("html", "md", "svg") if drawn else ("html", "md"):  # Markdown comes with PNG files
        command(["report", str(result), "-o", str(folder / f"told.{ending}")], {0})
    tree = json.loads(result.read_text(encoding="utf-8"))
    command(["check", str(result)], {0, 1, 2})
    if case.verb == "explain":
        action = tree["world"]["actions"][-1]["name"]
        asked = f'"{case.names[0]}" < 1' if '"' not in case.names[0] else "x < 1"
        features = [(quoted(entry["name"]), (entry.get("values") or ["1"])[0]) for entry in tree["world"]["features"]]
        at = ", ".join(f"{name} = {value if value == '1' else quoted(value)}" for name, value in features)
        where = next((region["id"] for region in tree["regions"]), "S_1")
        questions = [["when", "--", action], ["why-not", "--in", where, "--", action], ["what-if", "--", asked]]
        for question in [*questions, ["case", "--", at]]:
            command(["ask", str(result), *question], {0, 2})
        if case.kind in ("single", "episodes"):
            command(["report", str(result), "-o", str(folder / "more.md"), "--min-group", "15"], {0})


def _use(best: Path, study: Path, folder: Path) -> None:
    """What is done with the patch of the best plan."""
    for form in ("text", "python", "sql"):
        command(["patch", "show", str(best), "--as", form], {0})
    policy = folder / "current.npy"
    if policy.exists() and command(["patch", "apply", str(best), str(policy), "-o", f"{folder}/new.json"], {0, 2}) == 0:
        command(["patch", "undo", str(best), f"{folder}/new.json", "-o", f"{folder}/old.json"], {0, 2})
    command(["explain", str(study), "--proposed", str(best), "--json"], CODES)


def _again(study: Path, result: Path, folder: Path) -> None:
    """Asked once more with another seed, and both results compared."""
    other = folder / "other.json"
    if command(["explain", str(study), "--seed", "7", "--level", "0.8", "-o", str(other)], CODES) == 0:
        for ending in ("html", "md", "json"):
            command(["compare", str(result), str(other), "-o", str(folder / f"since.{ending}"), "--gate"], {0, 1, 2})
