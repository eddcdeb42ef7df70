"""From a study to the objects it names: world, policies, outcomes, and the hashes of the files behind them."""

from __future__ import annotations

import copy
import glob
import hashlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

import click

from polidiff.cli.main import near_miss
from polidiff.cli.study import Study
from polidiff.errors import InvalidStudyError, InvalidWorldError, PolidiffError, UntrustedFileError

if TYPE_CHECKING:
    from polidiff.policies import Policy, PolicyLike
    from polidiff.records.arrays import AnyArray
    from polidiff.records.codec import Json
    from polidiff.records.explanation import Explanation
    from polidiff.records.outcome import Outcome, OutcomeOf
    from polidiff.records.patch import Patch
    from polidiff.records.plan import Frontier
    from polidiff.worlds.log import Log
    from polidiff.worlds.protocol import World

    Result = TypeVar("Result", Explanation, Frontier)
Named: TypeAlias = Any  # what a user's module holds under a name, and what that returns
OWN = "polidiff.domains."


def load_world(study: Study, *, trust: bool = False) -> World:
    """The world that a study names, telling about its outcomes."""
    outcomes = [_outcome(entry, study, trust) for entry in study.values.get("outcomes", [])]
    if study.world.get("include_return") is False and not outcomes:
        raise InvalidStudyError(f"{study.source} tells about nothing: no return, and no [[outcomes]]. Hint: name one")
    makers = {"log": _log, "gymnasium": _gymnasium, "table": _table, "function": _function}
    return makers[study.world_kind](study, outcomes, trust)


def _function(study: Study, outcomes: list[Outcome], trust: bool) -> World:
    from polidiff.api import with_outcomes

    name = study.world["name"]
    function = named(name, trust=trust)
    if not callable(function):
        raise InvalidStudyError(f"{name!r} must be a function; it is {type(function).__name__}")
    world = _result(name, function, study.world.get("options", {}))
    return with_outcomes(world, (*world.outcomes, *outcomes)) if outcomes else world


def _log(study: Study, outcomes: list[Outcome], trust: bool) -> World:
    from polidiff.worlds.log import Log

    settings = {key: value for key, value in study.world.items() if key != "path"}
    if "return_range" in settings:
        settings["return_range"] = tuple(settings["return_range"])
    context = click.get_current_context(silent=True)  # the folder is no part of the study: answers are the same
    kept = None if context is None else context.meta.get("polidiff.work_folder")
    return Log(str(study.file(study.world["path"])), outcomes=outcomes, work_folder=kept, **settings)


def _gymnasium(study: Study, outcomes: list[Outcome], trust: bool) -> World:
    settings = {key: value for key, value in study.world.items() if key not in ("id", "exact", "options")}
    env_id = study.world["id"]
    if ":" in env_id and not trust:
        raise UntrustedFileError(f"{env_id!r} imports a module: nothing was run. Hint: allow it with --trust")
    options = study.world.get("options", {})
    if study.world.get("exact") and "horizon" in settings:
        raise InvalidStudyError(f"{study.source}: a horizon goes with a simulator; leave it or exact = true out")
    if study.world.get("exact", "horizon" not in settings and _has_table(env_id, options)):
        from polidiff.worlds import TabularMDP

        return TabularMDP.from_gymnasium(_environment(env_id, options), outcomes=outcomes, **settings)
    from polidiff.worlds import Simulator

    return Simulator((lambda: _environment(env_id, options)) if options else env_id, outcomes=outcomes, **settings)


def _has_table(env_id: str, options: Mapping[str, Json]) -> bool:
    """Whether the environment carries its transitions, where episodes begin, and no chance beside them."""
    core = _environment(env_id, options).unwrapped
    has_both = getattr(core, "P", None) is not None and getattr(core, "initial_state_distrib", None) is not None
    return has_both and not getattr(core, "fickle_passenger", False)


def _environment(env_id: str, options: Mapping[str, Json]) -> Named:
    """An environment made with options."""
    from polidiff.worlds.gymnasium.source import made

    return _result(env_id, partial(made, env_id), options)


def _table(study: Study, outcomes: list[Outcome], trust: bool) -> World:
    """A table from the arrays of an .npz file: transitions, rewards, initial, absorbing; more if they are there."""
    from polidiff.worlds import TabularMDP

    arrays = _arrays(study.file(study.world["path"]))
    missing = [name for name in ("transitions", "rewards", "initial", "absorbing") if name not in arrays]
    if missing:
        raise InvalidWorldError(f"{study.world['path']} must hold {missing[0]!r}; it holds {', '.join(sorted(arrays))}")
    known = ("transitions", "rewards", "initial", "absorbing", "features", "allowed")
    settings: dict[str, Json] = {name: _numbers(name, arrays) for name in known if name in arrays}
    settings |= {key: value for key, value in study.world.items() if key != "path"}
    return TabularMDP(outcomes=outcomes, **settings)


def _arrays(path: Path) -> dict[str, AnyArray]:
    from polidiff.policies.files import read_npz

    return read_npz(path, InvalidWorldError)


def _numbers(name: str, arrays: Mapping[str, AnyArray]) -> AnyArray:
    if arrays[name].dtype.kind not in "biuf":
        raise InvalidWorldError(f"array {name!r} must hold numbers; it holds {arrays[name].dtype}")
    return arrays[name]


def _outcome(entry: Mapping[str, Json], study: Study, trust: bool) -> Outcome:
    from polidiff.records.outcome import Outcome

    words = {key: entry[key] for key in ("prefer", "margin", "more", "less", "unit") if key in entry}
    if "range" in entry:
        words["range"] = tuple(entry["range"])
    return Outcome(entry["name"], _measured(entry, study, trust), **words)


def _measured(entry: Mapping[str, Json], study: Study, trust: bool) -> OutcomeOf:
    if "column" in entry:
        return entry["column"]
    if "info" in entry:
        return f"info:{entry['info']}"
    if "constant" in entry:
        return float(entry["constant"])
    if "function" in entry:
        return named(entry["function"], trust=trust)
    if study.world_kind != "table":
        raise InvalidStudyError(f"outcome {entry['name']!r}: 'array' names an array of [world.table]; there is none")
    arrays = _arrays(study.file(study.world["path"]))
    if entry["array"] not in arrays:
        raise InvalidStudyError(
            f"outcome {entry['name']!r}: no array {entry['array']!r}{near_miss(entry['array'], sorted(arrays))}"
        )
    return _numbers(entry["array"], arrays)


def load_policy(study: Study, role: str, world: World, *, trust: bool = False) -> PolicyLike:
    """The policy in a role: "current" or "proposed"."""
    policies = study.section("policies")
    if role not in policies:
        raise InvalidStudyError(
            f'{study.source} names no {role} policy. Hint: [policies] {role} = "policy.npy", or --{role} policy.npy'
        )
    return policy_named(policies[role], study, world, trust=trust)


def second_log(name: str, study: Study, world: World) -> Log:
    """The log that a policy such as "log:other.csv" wrote: read as [world.log] is, from another path."""
    _check_log(name, world)
    values = copy.deepcopy(study.values)
    values["world"]["log"]["path"] = name.removeprefix("log:")
    return cast("Log", load_world(replace(study, values=values)))


def _check_log(name: str, world: World) -> None:
    if world.kind != "log":
        raise InvalidStudyError(f"the policy {name!r} is estimated from [world.log]; this study has another world")


def policy_named(name: str, study: Study, world: World, *, trust: bool = False) -> PolicyLike:
    """A policy from "log", "log:PATH", "column:NAME", "always:ACTION", "module:function" or a file."""
    from polidiff.policies import as_policy
    from polidiff.policies.protocol import ALWAYS
    from polidiff.worlds.protocol import known_actions
    from polidiff.worlds.tabular import TabularMDP

    greedy = bool(study.section("policies").get("greedy", False))
    if name == "log":
        _check_log(name, world)
        return name
    if name.startswith(("log:", "column:")):
        from polidiff.evaluation.logged.policies import as_log_policy

        _check_log(name, world)
        return as_log_policy(cast("Log", world), second_log(name, study, world) if name.startswith("log:") else name)
    n_states = world.n_states if isinstance(world, TabularMDP) else None
    shape: dict[str, Named] = {
        "actions": known_actions(world),
        "features": world.feature_names,
        "n_states": n_states,
        "greedy": greedy,
    }
    if name.startswith(ALWAYS):
        return as_policy(name, **shape)
    # what gives real numbers is read where these become choices
    real = any(getattr(world, name, None) is not None for name in ("real", "levels"))
    if _names_code(name):
        made: Named = _made(name, named(name, trust=trust))
        return made if real else as_policy(made, **shape)
    if real:
        from polidiff.policies.files import read_object

        numbers: Named = read_object(str(study.file(name)), trust=trust)
        if not isinstance(numbers, dict):  # a policy that polidiff kept chooses among levels already
            return numbers
    return as_policy(str(study.file(name)), trust=trust, **shape)


def _made(name: str, obj: Named) -> PolicyLike:
    """A policy function takes states; a function without arguments makes a policy."""
    import inspect

    if not callable(obj) or hasattr(obj, "probabilities"):
        return obj
    needed = [p for p in inspect.signature(obj).parameters.values() if p.default is p.empty]
    return _result(name, obj, {}) if not needed else obj


def _names_code(name: str) -> bool:
    module, colon, function = name.partition(":")
    return bool(colon) and function.isidentifier() and all(part.isidentifier() for part in module.split("."))


def _result(name: str, function: Named, options: Mapping[str, Json]) -> Named:
    """What a function returns; what it cannot take, and how else it fails, is told in one line."""
    try:
        return function(**options)
    except PolidiffError:
        raise
    except Exception as error:
        raise InvalidStudyError(f"{name!r} failed with these options: {type(error).__name__}: {error}") from error


def named(name: str, *, trust: bool) -> Named:
    """What "module:function" names. Importing runs the module's code, so it takes trust, but for our own domains."""
    if not _names_code(name):
        raise InvalidStudyError(f"expected module:function; got {name!r}")
    module, _, function = name.partition(":")
    if not (trust or module.startswith(OWN)):
        raise UntrustedFileError(
            f"{name!r} imports the module {module!r} and runs its code: nothing was run. Hint: allow it with --trust"
        )
    if trust and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))  # as for a script that lies here
    try:
        obj = getattr(import_module(module), function, None)
    except PolidiffError:
        raise
    except ImportError as error:
        raise InvalidStudyError(
            f"cannot import {module!r}: {error}. Hint: run from the folder that holds it"
        ) from error
    if obj is None or not (trust or getattr(obj, "__module__", None) == module):  # not what it imports itself
        public = [known for known in dir(import_module(module)) if not known.startswith("_")]
        raise InvalidStudyError(f"{module!r} has no {function!r}{near_miss(function, public)}")
    return obj


def loaded_explanation(path: Path) -> Explanation:
    """The explanation in a result file."""
    from polidiff.api import load
    from polidiff.errors import InvalidResultError
    from polidiff.records.explanation import Explanation

    record = load(path)
    if not isinstance(record, Explanation):
        raise InvalidResultError(
            f"expected the result of explain; {path} holds a {type(record).__name__.lower()}. Hint: polidiff explain "
            f"STUDY -o {path.stem}.json"
        )
    return record


def with_origin(record: Result, study: Study) -> Result:
    """The result with the study it came from and the hashes of its inputs."""
    methods = replace(record.methods, study=dict(study.values), inputs=dict(_hashes(study)))
    return replace(record, methods=methods)


def _hashes(study: Study) -> Iterator[tuple[str, str]]:
    policies = study.section("policies")
    names = [
        study.world.get("path"),
        policies.get("current"),
        policies.get("proposed"),
        *policies.get("candidates", []),
    ]
    for name in dict.fromkeys(name for name in names if isinstance(name, str)):
        for path in _files(study.file(name.removeprefix("log:"))):
            with path.open("rb") as stream:
                digest = hashlib.file_digest(stream, "sha256").hexdigest()
            shown = path.relative_to(study.folder) if path.is_relative_to(study.folder) else path
            yield str(shown), f"sha256:{digest}"


def _files(path: Path) -> list[Path]:
    """The files that a file, a folder or a glob stands for."""
    met = path.rglob("*") if path.is_dir() else [path] if path.is_file() else glob.glob(str(path), recursive=True)
    return sorted(file for file in map(Path, met) if file.is_file())


def load_policies(study: Study, world: World, *, trust: bool = False) -> tuple[PolicyLike, PolicyLike | Patch]:
    """Current and proposed; two logs stay logs, so that each is judged by its own episodes."""
    policies = study.section("policies")
    proposed = policies.get("proposed")
    if policies.get("current") == "log" and str(proposed).startswith("log:") and "rules" not in policies:
        return "log", second_log(str(proposed), study, world)
    current = load_policy(study, "current", world, trust=trust)
    if "rules" in policies:
        if proposed is not None:
            raise InvalidStudyError(f"{study.source} names both a proposed policy and rules; give one of them")
        from polidiff.evaluation import acting

        base = acting(world, current, seed=study.section("options").get("seed", 0))
        return current, ruled_by(policies["rules"], base, world)
    if isinstance(proposed, str) and _is_patch(study.file(proposed)):
        from polidiff.api import load

        return current, load(study.file(proposed))
    return current, load_policy(study, "proposed", world, trust=trust)


def ruled_by(texts: Sequence[str], current: Policy, world: World) -> Policy:
    """The current policy, except where rules such as "age < 35: coupon" say what to do; the first that holds wins."""
    from polidiff.policies import PatchedPolicy, rule_patch
    from polidiff.records.parse import offered, parse_rules
    from polidiff.worlds.protocol import known_actions, known_values

    names, values = known_actions(world), known_values(world)
    rules = []
    for text in texts:
        where, colon, action = (part.strip() for part in text.rpartition(":"))
        named = next((name for name in (action, f"action {action}") if name in names), None)  # 3 is short for action 3
        if not colon or named is None:
            got = f"there is no action {action!r}{near_miss(action, names)}" if colon else f"got {text!r}"
            such = next(iter(offered(names)), "ACTION")
            raise InvalidStudyError(f'a rule reads "condition: action", such as "age < 35: {such}"; {got}')
        rules += [(rule, names.index(named)) for rule in parse_rules(where, world.feature_names, values)]
    return PatchedPolicy(current, rule_patch(rules, names, world.feature_names, world.features_of))


def _is_patch(path: Path) -> bool:
    if path.suffix != ".json" or not path.is_file():
        return False
    with path.open("rb") as file:
        return b'"polidiff/patch"' in file.read(100)
