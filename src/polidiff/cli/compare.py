"""``polidiff compare``."""

from __future__ import annotations

from pathlib import Path

import click

from polidiff.cli.options import FILE, writing
from polidiff.cli.output import deliver


@click.command()
@click.argument("old", type=FILE, metavar="OLD.json")
@click.argument("new", type=FILE, metavar="NEW.json")
@click.option("--gate", is_flag=True, help="Exit 1 if something has changed for the worse.")
@writing
def command(
    old: Path,
    new: Path,
    gate: bool,
    as_json: bool,
    output: Path | None,
    report: Path | None,
    quiet: bool,
    verbose: bool,
) -> int:
    """Compare two results: which differences are new, gone, larger or smaller, and which verdicts have turned.

    Both are results of explain, or both of improve. Exit 0 whatever has changed; with --gate 1 if a verdict has turned
    for the worse, a loss has grown or a group newly loses; 2 if a file cannot be read or the two cannot be compared.

    \b
    Examples:
      polidiff compare october.json november.json
      polidiff compare october.json november.json --report since_october.html
      polidiff compare october.json november.json --gate
    """
    from polidiff.api import compare, load

    comparison = compare(load(old), load(new))
    deliver(comparison, as_json=as_json, output=output, report=report, quiet=quiet)
    if not gate or not comparison.setbacks:
        return 0
    for line in () if quiet else comparison.setbacks:
        click.echo(f"for the worse: {line}", err=True)
    return 1
