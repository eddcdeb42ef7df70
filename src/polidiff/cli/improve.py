"""``polidiff improve``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from polidiff.cli.options import FILE, GroupedCommand, as_study, flags_of, from_study, settings, together, writing
from polidiff.cli.output import deliver, progress, remark
from polidiff.options import ImproveOptions, Setting

if TYPE_CHECKING:
    from polidiff.records.plan import Frontier

improving = together(
    click.option(
        "--candidate", "candidates", multiple=True, metavar="POLICY", help="Where changes may come from; repeat."
    ),
    flags_of(ImproveOptions),
    click.option("--patch", type=FILE, help="Write the best plan as a patch (.json)."),
)


@click.command(
    cls=GroupedCommand,
    ways=(
        "polidiff improve study.toml                  a study; polidiff init DATA -o study.toml writes one",
        "polidiff improve --log stays.csv --state map --action dose --reward survived --current log --max-rules 2",
        "polidiff improve --env FrozenLake-v1 --current policy.npy --candidate other.npy",
    ),
)
@from_study
@improving
@writing
def command(
    study: Path | None,
    trust: bool,
    as_json: bool,
    output: Path | None,
    report: Path | None,
    patch: Path | None,
    quiet: bool,
    verbose: bool,
    **given: Setting,
) -> None:
    """Find the few changes to the current policy that pay most, for every budget, each plan with its proof.

    \b
    Examples:
      polidiff improve study.toml --budget 2
      polidiff improve study.toml --max-rules 2 --keep "mortality<=current" --freeze "map<55"
      polidiff improve study.toml --report plans.html --patch best.json
    """
    from polidiff.cli.loading import load_policy, load_world, policy_named, with_origin
    from polidiff.cli.study import read_study

    read = read_study(study, as_study(given, ImproveOptions))
    with progress(quiet):
        from polidiff.api import improve

        world = load_world(read, trust=trust)
        remark(f"world: {world.kind}, {len(world.actions)} actions", verbose=verbose)
        current = load_policy(read, "current", world, trust=trust)
        names = read.section("policies").get("candidates", [])
        candidates = [policy_named(name, read, world, trust=trust) for name in names] or None
        frontier = with_origin(improve(world, current, candidates, **settings(ImproveOptions, read.values)), read)
        if report is not None:  # the JSON file then holds the words of the page too
            from polidiff.report.plans import explained

            frontier = explained(frontier)
    written = None if patch is None else _save_patch(frontier, patch)
    deliver(frontier, as_json=as_json, output=output, report=report, quiet=quiet)
    if written is not None and not quiet:
        click.echo(written, err=True)


def _save_patch(frontier: Frontier, path: Path) -> str:
    """Write the best plan as a patch, and say what it holds."""
    from polidiff.explanation.words import counted
    from polidiff.records.suppression import suppressed

    told = suppressed(frontier)  # a patch leaves the house as a page does
    told.best.patch.save(path)
    if told.best.patch.changing:
        return f"wrote {path}: {counted(len(told.best.patch.changing), 'change')}"
    why = "no plan is shown to gain" if told.best is told.plans[0] else "what the best plan changes is too rare to show"
    return f"wrote {path}: no changes, because {why}"
