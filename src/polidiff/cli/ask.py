"""``polidiff ask``."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

from polidiff.cli.options import FILE
from polidiff.cli.output import say, say_json

as_json = click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout instead of text.")


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
      polidiff ask diff.json what-if "x<0.3 and y>0.2" --json
    """
    ctx.obj = result


@command.command("why-not")
@click.argument("action")
@click.option("--in", "where", required=True, metavar="REGION", help="The region, such as S1.")
@as_json
@click.pass_obj
def why_not(result: Path, action: str, where: str, as_json: bool) -> None:
    """What ACTION would be worth in a region."""
    _answer(result, "why-not", action, where, as_json=as_json)


@command.command()
@click.argument("action")
@as_json
@click.pass_obj
def when(result: Path, action: str, as_json: bool) -> None:
    """Where the proposed policy newly takes ACTION, and where it no longer does."""
    _answer(result, "when", action, as_json=as_json)


@command.command("what-if")
@click.argument("conditions")
@as_json
@click.pass_obj
def what_if(result: Path, conditions: str, as_json: bool) -> None:
    """What changes where CONDITIONS hold, such as "x<0.3 and y>0.2"."""
    _answer(result, "what-if", conditions, as_json=as_json)


def _answer(
    result: Path, question: Literal["why-not", "when", "what-if"], about: str, where: str = "", *, as_json: bool
) -> None:
    from polidiff.cli.check import loaded_explanation
    from polidiff.report.answers import answered

    answer = answered(loaded_explanation(result), question, about, where)
    if as_json:
        say_json(answer)
    else:
        say(answer.text)


@command.command()
@click.argument("values")
@as_json
@click.pass_obj
def case(result: Path, values: str, as_json: bool) -> None:
    """What changes for one case, such as "map=60, lactate=4" or the name of a state."""
    from polidiff.cli.check import loaded_explanation
    from polidiff.records.parse import parse_case
    from polidiff.report.answers import known_name

    explanation = loaded_explanation(result)
    names = [feature.name for feature in explanation.world.features]
    if names == ["state"] and "=" not in values:
        name, known = values.strip(), explanation.world.values.get("state")
        case = explanation.case(known_name(name, known, "a state") if known else name)
    else:
        case = explanation.case(parse_case(values, names, explanation.world.values))
    if as_json:
        say_json(case)
    else:
        say(case.text)
