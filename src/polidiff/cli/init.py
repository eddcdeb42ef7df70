"""``polidiff init``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from polidiff.cli.options import FILE

if TYPE_CHECKING:
    import polars as pl

    from polidiff.cli.column_roles import Proposal

ASKED = ("action", "reward", "episode", "step", "terminated")


@click.command()
@click.argument("data", type=click.Path(path_type=Path))
@click.option("-o", "--output", required=True, type=FILE, help="Where to write the study (.toml).")
@click.option("--action", help="Column of the action taken.")
@click.option("--episode", help="Column that tells episodes apart.")
@click.option("--step", help="Column that orders decisions within an episode.")
@click.option("--reward", help="Column of the reward or outcome.")
@click.option("--terminated", help="Column that is true where an episode ended.")
@click.option("--group", help="Column that tells people apart, if one has several episodes.")
@click.option("--state", multiple=True, help="Column of the state; repeat for several.")
@click.option("--yes", is_flag=True, help="Take the guesses without asking.")
@click.option("--force", is_flag=True, help="Write over a study that is there.")
def command(data: Path, output: Path, state: tuple[str, ...], yes: bool, force: bool, **given: str | None) -> None:
    """Write a commented study for a table of past decisions, CSV or Parquet.

    Columns are guessed by their names and values and confirmed by you; without a terminal, or with --yes, the guesses
    stand.

    \b
    Examples:
      polidiff init stays.csv -o study.toml
      polidiff init stays.parquet -o study.toml --action dose --episode stay_id --yes
    """
    from polidiff.cli.column_roles import propose, read_table
    from polidiff.cli.study_draft import draft, summary
    from polidiff.errors import InvalidInputError
    from polidiff.files import write_whole

    if output.exists() and not force:
        raise InvalidInputError(f"{output} is there already. Hint: another name, or --force to write over it")
    frame = read_table(data)
    proposal = propose(frame, {role: column for role, column in given.items() if column}, state)
    if sys.stdin.isatty() and not yes:
        proposal = _confirmed(frame, proposal)
    write_whole(output, draft(data, output, proposal))
    click.echo(summary(proposal), err=True)
    if proposal.prefer is None and "reward" in proposal.roles:
        click.echo(f"Is more or less {proposal.roles['reward']} better? Write prefer = … into {output}.", err=True)
    click.echo(f"wrote {output}; next: polidiff explain {output} --report diff.html", err=True)


def _confirmed(frame: pl.DataFrame, proposal: Proposal) -> Proposal:
    """The proposal after a look at the table and a question for each role."""
    from polidiff.cli.column_roles import with_roles
    from polidiff.cli.study_draft import summary

    click.echo(str(frame.head(5)), err=True)
    click.echo(summary(proposal), err=True)
    asked = {
        role: click.prompt(f"Column of the {role} (- for none)", default=proposal.roles.get(role, "-"), err=True)
        for role in ASKED
    }
    return with_roles(frame, proposal, {role: str(said) for role, said in asked.items() if said != "-"})
