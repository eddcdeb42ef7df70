"""``polidiff paper``."""

from __future__ import annotations

from pathlib import Path

import click

from polidiff.cli.options import speaking
from polidiff.cli.output import progress, remark


@click.command()
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("paper"),
    show_default=True,
    help="Folder for the pictures, the page and the values.",
)
@click.option("--json", "as_json", is_flag=True, help="All values as one JSON document on stdout instead of text.")
@click.option("--seed", type=click.IntRange(min=0), default=0, help="Same seed, same values.", show_default=True)
@speaking
def command(out: Path, as_json: bool, seed: int, quiet: bool, verbose: bool) -> int:
    """Make every figure, sentence and value of the paper again and compare them; exit 1 if a value is off.

    \b
    Examples:
      polidiff paper
      polidiff paper --out reproduction/
    """
    from polidiff.paper.page import values_json, write_folder
    from polidiff.paper.runs import all_runs
    from polidiff.paper.values import checked, expected_values

    with progress(quiet):
        runs = all_runs(seed)
        values = checked(runs, expected_values())
        written = write_folder(out, runs, values)
    off = [value for value in values if not value.ok]
    if as_json:
        click.echo(values_json(runs, values), nl=False)
    else:
        click.echo(f"{len(values) - len(off)} of {len(values)} values agree")
        for value in off:
            click.echo(f"off: {value.quantity} ({value.where}): expected {value.expected}, got {value.got}")
    for path in written:
        remark(f"wrote {path}", verbose=verbose)
    if not quiet:
        click.echo(f"wrote {len(written)} files; open {written[-1]}", err=True)
    return 1 if off else 0
