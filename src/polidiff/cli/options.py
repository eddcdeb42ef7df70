"""Flags: those that commands share, those made from the options of a verb, and both as the keys of a study."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import click

from polidiff.cli.output import Output
from polidiff.cli.study import SECTIONS, WORLDS
from polidiff.options import (
    COUNT,
    FINITE,
    FLAG,
    NUMBER,
    SEED,
    TEXT_OR_TEXTS,
    TEXTS,
    Declared,
    Options,
    Setting,
    declarations,
)

Command = TypeVar("Command", bound=Callable[..., object])
Decorator: TypeAlias = Callable[[Any], Any]  # as click makes them
FILE = click.Path(path_type=Path, dir_okay=False)
TYPES: dict[str, type] = {COUNT.words: int, SEED.words: int, NUMBER.words: float, FINITE.words: float}
FLAGS = {  # flag -> the key of a study that it stands for, what its value is called, what it is for
    "env": ("world.gymnasium.id", "ID", "A Gymnasium environment.  [world.gymnasium.id]"),
    "log": ("world.log.path", "PATH", "Past decisions, CSV or Parquet.  [world.log.path]"),
    "table": ("world.table.path", "FILE", "A known table, .npz.  [world.table.path]"),
    "world": ("world.function.name", "MODULE:FUNCTION", "A function that makes the world.  [world.function.name]"),
    "state": ("world.log.state", "COLUMN", "State of a log; repeat for several columns."),
    "action": ("world.log.action", "COLUMN", "Action of a log."),
    "episode": ("world.log.episode", "COLUMN", "Episode of a log."),
    "step": ("world.log.step", "COLUMN", "Order within an episode of a log."),
    "reward": ("world.log.reward", "COLUMN", "Reward of a log."),
    "terminated": ("world.log.terminated", "COLUMN", "End of an episode of a log."),
    "skip_bad": ("world.log.skip_bad", None, "Leave out parts of a log that cannot be read."),
    "horizon": ("world.gymnasium.horizon", None, "Decisions per episode of an environment."),
    "current": ("policies.current", "POLICY", "Policy in use: a file, MODULE:FUNCTION, or log."),
    "greedy": ("policies.greedy", None, "Policies take their most probable action."),
    "proposed": ("policies.proposed", "POLICY", "The other policy: file, patch or MODULE:FUNCTION."),
    "rule": ("policies.rules", "RULE", 'Or a change such as "age<35: coupon"; repeat.'),
    "candidate": ("policies.candidates", "POLICY", "Where changes may come from; repeat."),
}
OF_VERBS = ("proposed", "rule", "candidate")  # flags of a study that not every command has
OWN = "How it is done"  # the options of the verb itself
GROUPS = {
    "The world": tuple(name for name, (key, *_) in FLAGS.items() if key.startswith("world.")),
    "The policies": (*(name for name, (key, *_) in FLAGS.items() if key.startswith("policies.")), "trust"),
    "The study": ("settings",),
    OWN: (),
    "What is written": ("as_json", "output", "report", "patch", "junit", "quiet", "verbose", "help"),
    "How work is shared": ("workers", "engine", "address", "work_folder"),
}


class GroupedCommand(click.Command):
    """A command with many flags, shown in groups; without any argument it says how it may be called."""

    def __init__(self, *args: Setting, ways: tuple[str, ...] = (), **more: Setting) -> None:
        super().__init__(*args, **more)
        self.ways = ways

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The flags, group by group."""
        rows: dict[str, list[tuple[str, str]]] = {group: [] for group in GROUPS}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, click.Option):
                name = "help" if "--help" in parameter.opts else parameter.name
                rows[next((group for group, members in GROUPS.items() if name in members), OWN)].append(record)
        for group, records in rows.items():
            if records:
                with formatter.section(group):
                    formatter.write_dl(records)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """The arguments; none at all are answered with the ways to call it."""
        if not args and self.ways and not ctx.resilient_parsing:
            raise click.UsageError("\n  ".join(["nothing is given. Ways to call it:", *self.ways]), ctx)
        return super().parse_args(ctx, args)


def together(*options: Decorator) -> Callable[[Command], Command]:
    """Several options as one decorator, shown in this order."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


speaking = together(
    click.option("-q", "--quiet", is_flag=True, help="No progress, no remarks."),
    click.option("-v", "--verbose", is_flag=True, help="Say what is done, on stderr."),
)

as_json = click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout instead of text.")


def writing(command: Callable[..., object]) -> Callable[..., object]:
    """The flags that say where a result goes, given to the command as one record, `to`."""

    @wraps(command)
    def with_output(
        as_json: bool, output: Path | None, report: Path | None, quiet: bool, verbose: bool, **given: Setting
    ) -> object:
        return command(to=Output(as_json, output, report, quiet, verbose), **given)

    return together(
        as_json,
        click.option("-o", "--output", type=FILE, help="Write the result: .json, .html, .md, .png or .svg."),
        click.option("--report", type=FILE, help="Write the page that people forward (.html)."),
        speaking,
    )(with_output)


def _kept(context: click.Context, option: click.Parameter, value: Setting) -> Setting:
    """Keep how the work is to be done for `output.progress`; what is worked out does not depend on it."""
    context.meta[f"polidiff.{option.name}"] = value
    return value


WORKING: dict[str, dict[str, Setting]] = {
    "--workers": {"type": int, "help": "Processes to share long work."},
    "--engine": {"type": click.Choice(["loky", "dask", "ray"]), "help": "Who runs them.  [default: loky]"},
    "--address": {"metavar": "HOST:PORT", "help": "Of a Dask or Ray cluster."},
    "--work-folder": {
        "type": click.Path(path_type=Path, file_okay=False),
        "help": "Keep what was read of a Parquet log; go on from there.",
    },
}
working = together(
    *(click.option(flag, callback=_kept, expose_value=False, **about) for flag, about in WORKING.items())
)


def _flag(name: str, default: Setting, declared: Declared) -> Decorator:
    """The flag of an option; it stands for no value until it is given, so that the study's counts."""
    flag = f"--{name.replace('_', '-')}"
    if declared.kind is FLAG:
        return click.option(flag, is_flag=True, help=declared.help)
    if declared.kind.words in (TEXTS.words, TEXT_OR_TEXTS.words):
        return click.option(flag, multiple=True, metavar=declared.metavar, help=declared.help)
    shown = "" if default is None or (default == 0.0 and name != "seed") else f"  [default: {default}]"
    kind = click.Choice(declared.choices) if declared.choices else TYPES.get(declared.kind.words)
    return click.option(flag, type=kind, metavar=declared.metavar, help=declared.help + shown)


def study_flags(*names: str) -> Decorator:
    """Flags that stand for keys of a study, by name."""
    flags = []
    for name in names:
        path, metavar, about = FLAGS[name]
        *sections, key = path.split(".")
        keys = WORLDS[sections[1]] if sections[0] == "world" else SECTIONS[sections[0]]
        flags.append(_flag(name, None, Declared(keys[key], about, metavar=metavar)))
    return together(*flags)


from_study = together(
    click.argument("study", required=False, type=click.Path(path_type=Path, dir_okay=False)),
    study_flags(*(name for name in FLAGS if name not in OF_VERBS)),
    click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="KEY=VALUE",
        help="Any other key of a study, such as world.log.group=patient; repeat.",
    ),
    click.option("--trust", is_flag=True, help="Let files and modules named here run their code."),
    working,
)


def flags_of(verb: type[Options]) -> Callable[[Command], Command]:
    """A flag for each option that a verb declares."""
    return together(
        *(_flag(name, default, declared) for name, default, declared in declarations(verb) if declared.only != "python")
    )


def as_study(given: Mapping[str, Setting], *verbs: type[Options]) -> dict[str, Setting]:
    """Flags that were given, in the sections of a study."""
    said = {name: v for name, v in given.items() if v is not None and v is not False and v != ()}
    values = {name: list(v) if isinstance(v, tuple) else v for name, v in said.items()}
    if "log" in values and len(values.get("state", ())) == 1:
        values["state"] = values["state"][0]
    study: dict[str, Setting] = {"world": {}}
    for name in (name for name in FLAGS if name in values):
        _put(study, FLAGS[name][0], values[name], f"--{name}")
        if len(study["world"]) > 1:
            first = next(flag for flag in GROUPS["The world"] if flag in values)
            raise click.UsageError(f"--{first} is about one kind of world and --{name} about another; give one")
    for verb in verbs:
        for name, _, declared in declarations(verb):
            if name in values:
                study.setdefault(declared.section or verb.section, {})[name] = values[name]
    for setting in values.get("settings", []):
        path, equals, text = setting.partition("=")
        if not equals or not path.rpartition(".")[2].strip():
            raise click.UsageError(f"--set takes KEY=VALUE, such as world.log.group=patient; got {setting!r}")
        _put(study, path, _value(text), f"--set {setting}")
    return study


def _value(text: str) -> Setting:
    """What TOML reads, or a text without quotes."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text.strip()


def _put(study: dict[str, Setting], path: str, value: Setting, flag: str) -> None:
    """Lay a value over the key "section.key" of a study."""
    *sections, key = (part.strip() for part in path.split("."))
    place = study
    for section in sections:
        place = place.setdefault(section, {})
        if not isinstance(place, dict):
            raise click.UsageError(f"{flag} goes into {section!r}, which another --set made {place!r:.40}")
    place[key] = value


def settings(verb: type[Options], sections: Mapping[str, Setting]) -> dict[str, Setting]:
    """The options of a verb that a study sets."""
    places = {name: sections.get(declared.section or verb.section, {}) for name, _, declared in declarations(verb)}
    return {name: place[name] for name, place in places.items() if name in place}
