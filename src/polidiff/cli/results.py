"""Commands that work on results: ``report``, ``ask``, ``compare``, ``patch``, and ``paper``, which makes its own."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from polidiff.cli.options import FILE, as_json, speaking, together, writing
from polidiff.cli.output import Output, progress, save, tell

if TYPE_CHECKING:
    from polidiff.policies import Policy
    from polidiff.records.codec import Record
    from polidiff.records.patch import Patch


@click.command()
@click.argument("results", nargs=-1, required=True, type=FILE, metavar="RESULT.json…")
@click.option("-o", "--output", type=FILE, help="Where to: .html, .md, .png or .svg.  [default: RESULT.html]")
@click.option("--chart", metavar="NAME", help="Which chart to draw as .png or .svg, such as regions or frontier.")
@click.option("--min-group", type=int, help="Smallest group of a log that is shown.  [default: 10]")
@speaking
def report_command(
    results: tuple[Path, ...], output: Path | None, chart: str | None, min_group: int | None, quiet: bool, verbose: bool
) -> None:
    """Turn results into one page that opens anywhere, into Markdown with pictures, or into a picture.

    An explanation and a frontier may share a page.

    \b
    Examples:
      polidiff report diff.json
      polidiff report diff.json plans.json -o both.html
      polidiff report plans.json -o frontier.png
    """
    from polidiff.api import load

    records = tuple(_shown(load(path), min_group) for path in results)
    output = results[0].with_suffix(".html") if output is None else output
    if chart is not None:
        from polidiff.errors import InvalidOptionError
        from polidiff.report.charts import save_picture

        if len(records) != 1 or output.suffix.lower() not in (".png", ".svg"):
            raise InvalidOptionError("--chart draws one result as .png or .svg")
        written = save_picture(records[0], output, chart)
    else:
        written = save(records, output)
    if not quiet:
        click.echo(f"wrote {written}", err=True)


def _shown(record: Record, min_group: int | None) -> Record:
    """The result, made again with a larger smallest group; what an earlier one left out does not come back."""
    from polidiff.records.suppression import suppressed

    return record if min_group is None or not hasattr(record, "world") else suppressed(record, min_group)


@click.group()
@click.argument("result", type=FILE, metavar="RESULT.json")
@click.pass_context
def ask_command(ctx: click.Context, result: Path) -> None:
    """Ask the result of `explain`; answers come from the file, without the policies.

    \b
    Examples:
      polidiff ask diff.json case "x=0.05, y=0.25"
      polidiff ask diff.json when north
      polidiff ask diff.json why-not south --in S1
      polidiff ask diff.json what-if "x<0.3 and y>0.2" --json
    """
    ctx.obj = result


@ask_command.command("why-not")
@click.argument("action")
@click.option("--in", "where", required=True, metavar="REGION", help="The region, such as S1.")
@as_json
@click.pass_obj
def why_not(result: Path, action: str, where: str, as_json: bool) -> None:
    """What ACTION would be worth in a region."""
    _answer(result, "why-not", action, where, as_json=as_json)


@ask_command.command()
@click.argument("action")
@as_json
@click.pass_obj
def when(result: Path, action: str, as_json: bool) -> None:
    """Where the proposed policy newly takes ACTION, and where it no longer does."""
    _answer(result, "when", action, as_json=as_json)


@ask_command.command("what-if")
@click.argument("conditions")
@as_json
@click.pass_obj
def what_if(result: Path, conditions: str, as_json: bool) -> None:
    """What changes where CONDITIONS hold, such as "x<0.3 and y>0.2"."""
    _answer(result, "what-if", conditions, as_json=as_json)


def _answer(
    result: Path, question: Literal["why-not", "when", "what-if"], about: str, where: str = "", *, as_json: bool
) -> None:
    from polidiff.cli.loading import loaded_explanation
    from polidiff.report.answers import answered

    answer = answered(loaded_explanation(result), question, about, where)
    tell(answer, answer.text, as_json=as_json)


@ask_command.command()
@click.argument("values")
@as_json
@click.pass_obj
def case(result: Path, values: str, as_json: bool) -> None:
    """What changes for one case, such as "map=60, lactate=4"; without features, the name of a state."""
    from polidiff.cli.loading import loaded_explanation
    from polidiff.errors import InvalidInputError
    from polidiff.records.parse import parse_case
    from polidiff.report.answers import known_name

    explanation = loaded_explanation(result)
    names = [feature.name for feature in explanation.world.features]
    if names == ["state"] and "=" not in values:
        name, known = values.strip(), explanation.world.values.get("state")
        case = explanation.case(known_name(name, known, "a state") if known else name)
    elif "=" not in values:
        such = ", ".join(f"{name}=…" for name in names)
        raise InvalidInputError(
            f"this result tells cases by features, not by names of states; got {values!r}. Hint: {such!r}"
        )
    else:
        case = explanation.case(parse_case(values, names, explanation.world.values))
    tell(case, case.text, as_json=as_json)


@click.command()
@click.argument("old", type=FILE, metavar="OLD.json")
@click.argument("new", type=FILE, metavar="NEW.json")
@click.option("--gate", is_flag=True, help="Exit 1 if something has changed for the worse.")
@writing
def compare_command(old: Path, new: Path, gate: bool, to: Output) -> int:
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
    to.deliver(comparison)
    if not gate or not comparison.setbacks:
        return 0
    for line in () if to.quiet else comparison.setbacks:
        click.echo(f"for the worse: {line}", err=True)
    return 1


@click.group()
def patch_command() -> None:
    """Show a patch, apply it to a policy, or take it back.

    \b
    Examples:
      polidiff patch show best.json
      polidiff patch apply best.json policy.npy -o new.json
      polidiff patch undo best.json new.json -o old.json
    """


@patch_command.command()
@click.argument("patch", type=FILE)
@click.option("--as", "form", type=click.Choice(["text", "python", "sql"]), default="text", help="How to write rules.")
@as_json
def show(patch: Path, form: str, as_json: bool) -> None:
    """What a patch changes, rule by rule; the first that holds acts."""
    loaded = load_patch(patch)
    tell(loaded, "\n".join(lines(loaded, form)), as_json=as_json)


applying = together(
    click.argument("patch", type=FILE),
    click.argument("policy", type=FILE),
    click.option("-o", "--output", required=True, type=FILE, help="Where to write the policy (.json)."),
    click.option("--trust", is_flag=True, help="Let the policy file run its code."),
    speaking,
)


@patch_command.command()
@applying
def apply(patch: Path, policy: Path, output: Path, trust: bool, quiet: bool, verbose: bool) -> None:
    """Write the policy with the changes made."""
    _write_patched(patch, policy, output, trust, quiet)


@patch_command.command()
@applying
def undo(patch: Path, policy: Path, output: Path, trust: bool, quiet: bool, verbose: bool) -> None:
    """Write the policy with the changes taken back."""
    _write_patched(patch, policy, output, trust, quiet, back=True)


def _write_patched(path: Path, policy: Path, output: Path, trust: bool, quiet: bool, *, back: bool = False) -> None:
    """Write a policy with edits made or taken back; warnings on the way are one line each on stderr."""
    from polidiff.errors import InvalidPolicyError
    from polidiff.policies import as_policy, save_policy
    from polidiff.policies.protocol import ALWAYS
    from polidiff.report.names import shown

    patch = load_patch(path)
    if str(policy) == "log" or str(policy).startswith(ALWAYS):
        raise InvalidPolicyError(
            f"{policy} has no file that could be written anew. Hint: a patch file is itself a proposed policy: "
            f"polidiff explain … --current {policy} --proposed PATCH"
        )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        base = as_policy(str(policy), n_actions=len(patch.actions) or None, trust=trust)
        patched: Policy = (patch.undo if back else patch.apply)(base)
    written = save_policy(patched, output)
    for line in () if quiet else (*(f"polidiff: {shown(str(w.message))}" for w in caught), f"wrote {written}"):
        click.echo(line, err=True)


def load_patch(path: Path) -> Patch:
    """The patch in a file; that of an explanation or of the best plan will do."""
    from polidiff.api import load
    from polidiff.errors import InvalidResultError
    from polidiff.records.explanation import Explanation
    from polidiff.records.patch import Patch
    from polidiff.records.plan import Frontier

    record = load(path)
    if isinstance(record, Explanation):
        return record.patch
    if isinstance(record, Frontier):
        return record.best.patch
    if not isinstance(record, Patch):
        raise InvalidResultError(f"expected a patch; {path} holds a {type(record).__name__.lower()}")
    return record


def lines(patch: Patch, form: str) -> list[str]:
    """One line per rule: a name that holds a line end must not become a line of Python or SQL."""
    from polidiff.explanation.rule_code import patch_lines, patch_python, patch_sql
    from polidiff.report.names import shown

    if not len(patch):
        return ["no changes"]
    return [shown(line) for line in {"text": patch_lines, "python": patch_python, "sql": patch_sql}[form](patch)]


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
def paper_command(out: Path, as_json: bool, seed: int, quiet: bool, verbose: bool) -> int:
    """Make every figure, sentence and value of the paper again and compare them; exit 1 if a value is off.

    \b
    Examples:
      polidiff paper
      polidiff paper --out reproduction/
    """
    from polidiff.paper.page import values_json, write_folder
    from polidiff.paper.runs import all_runs
    from polidiff.paper.values import checked_values

    with progress(quiet):
        runs = all_runs(seed)
        values = checked_values(runs)
        written = write_folder(out, runs, values)
    off = [value for value in values if not value.ok]
    if as_json:
        click.echo(values_json(runs, values), nl=False)
    else:
        click.echo(f"{len(values) - len(off)} of {len(values)} values agree")
        for value in off:
            click.echo(f"off: {value.quantity} ({value.where}): expected {value.expected}, got {value.got}")
    for path in written if verbose else ():
        click.echo(f"wrote {path}", err=True)
    if not quiet:
        click.echo(f"wrote {len(written)} files; open {written[-1]}", err=True)
    return 1 if off else 0
