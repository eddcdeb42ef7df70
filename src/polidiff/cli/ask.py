"""``polidiff ask``."""

from __future__ import annotations

from pathlib import Path

import click

from polidiff.cli.options import FILE
from polidiff.cli.output import say


@click.group()
@click.argument("result", type=FILE, metavar="RESULT.json")
@click.pass_context
def command(ctx: click.Context, result: Path) -> None:
    """Ask the result of `explain`; answers come from the file, without the policies.

    \b
    Examples:
      polidiff ask diff.json case "x=0.05, y=0.25"
      polidiff ask diff.json when north
      polidiff ask diff.json why-not south --in S1
      polidiff ask diff.json what-if "x<0.3 and y>0.2"
    """
    ctx.obj = result


@command.command("why-not")
@click.argument("action")
@click.option("--in", "where", required=True, metavar="REGION", help="The region, such as S1.")
@click.pass_obj
def why_not(result: Path, action: str, where: str) -> None:
    """What ACTION would be worth in a region."""
    from polidiff.cli.check import loaded_explanation
    from polidiff.report import answers

    say(answers.why_not(loaded_explanation(result), action, where))


@command.command()
@click.argument("action")
@click.pass_obj
def when(result: Path, action: str) -> None:
    """Where the proposed policy newly takes ACTION, and where it no longer does."""
    from polidiff.cli.check import loaded_explanation
    from polidiff.report import answers

    say(answers.when(loaded_explanation(result), action))


@command.command("what-if")
@click.argument("conditions")
@click.pass_obj
def what_if(result: Path, conditions: str) -> None:
    """What changes where CONDITIONS hold, such as "x<0.3 and y>0.2"."""
    from polidiff.cli.check import loaded_explanation
    from polidiff.report import answers

    say(answers.what_if(loaded_explanation(result), conditions))


@command.command()
@click.argument("values")
@click.pass_obj
def case(result: Path, values: str) -> None:
    """What changes for one case, such as "map=60, lactate=4" or the name of a state."""
    from polidiff.cli.check import loaded_explanation
    from polidiff.records.parse import parse_case
    from polidiff.report.answers import known_name

    explanation = loaded_explanation(result)
    names = [feature.name for feature in explanation.world.features]
    if names == ["state"] and "=" not in values:
        name, known = values.strip(), explanation.world.values.get("state")
        say(str(explanation.case(known_name(name, known, "a state") if known else name)))
        return
    say(str(explanation.case(parse_case(values, names, explanation.world.values))))
