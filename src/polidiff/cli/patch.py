"""``polidiff patch``."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from polidiff.cli.options import FILE, speaking, together

if TYPE_CHECKING:
    from polidiff.policies import Policy
    from polidiff.records.patch import Patch

applying = together(
    click.argument("patch", type=FILE),
    click.argument("policy", type=FILE),
    click.option("-o", "--output", required=True, type=FILE, help="Where to write the policy (.json)."),
    click.option("--trust", is_flag=True, help="Let the policy file run its code."),
    speaking,
)


@click.group()
def command() -> None:
    """Show a patch, apply it to a policy, or take it back.

    \b
    Examples:
      polidiff patch show best.json
      polidiff patch apply best.json policy.npy -o new.json
      polidiff patch undo best.json new.json -o old.json
    """


@command.command()
@click.argument("patch", type=FILE)
@click.option("--as", "form", type=click.Choice(["text", "python", "sql"]), default="text", help="How to write rules.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout instead of text.")
def show(patch: Path, form: str, as_json: bool) -> None:
    """What a patch changes, rule by rule; the first that holds acts."""
    from polidiff.cli.output import say, say_json

    loaded = load_patch(patch)
    if as_json:
        say_json(loaded)
    else:
        say("\n".join(lines(loaded, form)))


@command.command()
@applying
def apply(patch: Path, policy: Path, output: Path, trust: bool, quiet: bool, verbose: bool) -> None:
    """Write the policy with the changes made."""
    edits = load_patch(patch)
    with remarks(quiet):
        made = edits.apply(_policy(policy, edits, trust))
    _write(made, output, quiet)


@command.command()
@applying
def undo(patch: Path, policy: Path, output: Path, trust: bool, quiet: bool, verbose: bool) -> None:
    """Write the policy with the changes taken back."""
    edits = load_patch(patch)
    with remarks(quiet):
        made = edits.undo(_policy(policy, edits, trust))
    _write(made, output, quiet)


@contextmanager
def remarks(quiet: bool) -> Iterator[None]:
    """Warnings of what is done inside, one line each on stderr."""
    from polidiff.report.names import shown

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        yield
    for remark in said if not quiet else ():
        click.echo(f"polidiff: {shown(str(remark.message))}", err=True)


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
    from polidiff.explanation.rule_code import joined_edits, patch_python, patch_sql
    from polidiff.report.names import shown
    from polidiff.report.plans import edits_sentence

    if not len(patch):
        return ["no changes"]
    if form != "text":
        return [shown(line) for line in (patch_python if form == "python" else patch_sql)(patch)]
    return [f"{number}. {shown(edits_sentence(edits, patch))}" for number, edits in enumerate(joined_edits(patch), 1)]


def _policy(path: Path, patch: Patch, trust: bool) -> Policy:
    from polidiff.policies import as_policy

    return as_policy(str(path), n_actions=len(patch.actions) or None, trust=trust)


def _write(policy: Policy, output: Path, quiet: bool) -> None:
    from polidiff.policies import save_policy

    written = save_policy(policy, output)
    if not quiet:
        click.echo(f"wrote {written}", err=True)
