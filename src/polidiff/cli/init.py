"""``polidiff init``."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from polidiff.cli.drafting import Roles
from polidiff.cli.options import FILE

ASKED = ("action", "episode", "step", "reward", "terminated")


@click.command()
@click.argument("data", type=click.Path(path_type=Path))
@click.option("-o", "--output", required=True, type=FILE, help="Where to write the study (.toml).")
@click.option("--action", help="Column of the action taken.")
@click.option("--episode", help="Column that tells episodes apart.")
@click.option("--step", help="Column that orders decisions within an episode.")
@click.option("--reward", help="Column of the reward.")
@click.option("--terminated", help="Column that is true where an episode ended.")
@click.option("--state", multiple=True, help="Column of the state; repeat for several.")
@click.option("--yes", is_flag=True, help="Take the guesses without asking.")
@click.option("--force", is_flag=True, help="Write over a study that is there.")
def command(data: Path, output: Path, state: tuple[str, ...], yes: bool, force: bool, **given: str | None) -> None:
    """Write a commented study for a table of past decisions, CSV or Parquet.

    Columns are guessed by name and confirmed by you; without a terminal, or with --yes, the guesses stand.

    \b
    Examples:
      polidiff init stays.csv -o study.toml
      polidiff init stays.parquet -o study.toml --action dose --episode stay_id --yes
    """
    from polidiff.cli.drafting import draft, guess, read_columns
    from polidiff.errors import InvalidInputError
    from polidiff.files import write_whole

    if output.exists() and not force:
        raise InvalidInputError(f"{output} is there already. Hint: another name, or --force to write over it")
    columns = read_columns(data)
    roles = guess(columns, {name: column for name, column in given.items() if column}, state)
    if sys.stdin.isatty() and not yes:
        roles = _confirmed(roles, columns)
    write_whole(output, draft(data, output, columns, roles))
    click.echo(f"wrote {output}; next: polidiff explain {output} --proposed POLICY", err=True)


def _confirmed(roles: Roles, columns: dict[str, str]) -> Roles:
    """The roles after a question for each."""
    from polidiff.cli.drafting import guess

    asked = {
        role: click.prompt(f"Column of the {role} (- for none)", default=str(roles[role] or "-"), err=True)
        for role in ASKED
    }
    answers = {role: str(said) for role, said in asked.items() if said != "-"}
    return guess(columns, answers, (), only_given=True)
