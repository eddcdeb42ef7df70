"""``polidiff explain``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from polidiff.cli.options import GroupedCommand, as_study, flags_of, from_study, proposing, settings, together, writing
from polidiff.cli.output import deliver, progress, remark
from polidiff.options import CheckOptions, ExplainOptions, Setting

if TYPE_CHECKING:
    from polidiff.records.explanation import Explanation

explaining = together(proposing, flags_of(ExplainOptions))


@click.command(
    cls=GroupedCommand,
    ways=(
        "polidiff explain study.toml                  a study; polidiff init DATA -o study.toml writes one",
        "polidiff explain --log stays.csv --state map --action dose --reward lived --current log --proposed new.onnx",
        "polidiff explain --env CartPole-v1 --current old.zip --proposed new.zip --trust",
    ),
)
@from_study
@explaining
@writing
def command(
    study: Path | None,
    trust: bool,
    as_json: bool,
    output: Path | None,
    report: Path | None,
    quiet: bool,
    verbose: bool,
    **given: Setting,
) -> None:
    """Say where two policies act differently, in which order that is met, and what it does to outcomes.

    STUDY is a TOML file; every flag stands for one of its keys and wins over it.

    \b
    Examples:
      polidiff explain study.toml --report diff.html
      polidiff explain --env FrozenLake-v1 --current a.npy --proposed b.npy
      polidiff explain --log stays.csv --state map --state lactate --action dose \\
          --episode stay --terminated died_or_left --reward survived \\
          --current log --proposed new.onnx
      polidiff explain study.toml --rule "map < 55: pressor" --rule "lactate > 4: fluid"
    """
    explanation = explained(study, trust, quiet, verbose, given)
    deliver(explanation, as_json=as_json, output=output, report=report, quiet=quiet)


def explained(study: Path | None, trust: bool, quiet: bool, verbose: bool, given: dict[str, Setting]) -> Explanation:
    """The explanation of a study with flags laid over it; guards that it is checked by later are read first."""
    from polidiff.cli.loading import load_policies, load_world, with_origin
    from polidiff.cli.study import read_study
    from polidiff.records.parse import parse_guards

    read = read_study(study, as_study(given, ExplainOptions, CheckOptions))
    with progress(quiet):
        from polidiff.api import explain

        world = load_world(read, trust=trust)
        remark(f"world: {world.kind}, {len(world.actions)} actions", verbose=verbose)
        parse_guards(settings(CheckOptions, read.values).get("keep", ()), [o.name for o in world.outcomes])
        current, proposed = load_policies(read, world, trust=trust)
        return with_origin(explain(world, current, proposed, **settings(ExplainOptions, read.values)), read)
