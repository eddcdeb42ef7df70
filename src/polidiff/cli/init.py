"""``polidiff init``: roles of columns as a study that runs, with a comment beside each key, and as a summary."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from polidiff.cli.options import FILE
from polidiff.records.numbers import counted, percent

if TYPE_CHECKING:
    import polars as pl

    from polidiff.cli.column_roles import Proposal
    from polidiff.cli.table_columns import Column


WITHIN = ("step", "terminated")  # parts of columns that only episodes have
ASKED = ("action", "reward", "episode", *WITHIN)
COMMENTS = {
    "episode": "which decisions belong together",
    "step": "their order",
    "action": "what was done",
    "reward": "makes up the return; more is better",
    "terminated": "true in the row in which an episode ended",
    "probability": "of the action under the policy that wrote the log",
    "group": "who is one person: intervals count people, not rows",
}
STATE = "what the decision could depend on; rules speak about these"
NEUTRAL = (
    r"^(0|0\.0|old|alt|no|nein|non|false|none|control|cont|ctrl|placebo|p|obs|observation|usual|tau|standard|regular|0_.*"
    r"|keine?[rs]?|nichts|kontrolle|aucune?|rien|temoin|ninguno|ninguna|nada|nessuno|nessuna|nenhum|nenhuma|geen|niets)$"
)
ADVICE = (
    r"(^|_)(recommend\w*|advi[cs]e\w*|suggest\w*|proposed|predicted|model)(_|$)"  # names of another policy's actions
)
SHOWN = 4  # values of a column
LOOKED_AT = 200_000  # rows that guesses rest on
FEW_LABELS, ROWS_PER_LABEL = 5, 10  # up to which whole numbers name states; above, they are a measurement
EXAMPLE = (
    "# What people care about, beside the return; once for each.",
    "# [[outcomes]]",
    '# name = "cost"',
    '# column = "cost"',
    '# prefer = "less"  # or "more"; leave out if neither is better',
    "# range = [0, 100]  # smallest and largest possible per episode",
    '# more = "more of it"',
    '# less = "less of it"',
)
OPTIONS = (
    "",
    "[options]",
    "level = 0.95  # of all intervals together",
    "seed = 0  # same seed, same bytes",
    "# max_rules = 4",
    "# min_group = 10  # smaller groups are left out of every output",
    "",
    "# [improve]",
    "# max_rules = 2",
    '# keep = ["mortality<=current"]',
    '# freeze = ["map<55"]',
)


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
def init_command(data: Path, output: Path, state: tuple[str, ...], yes: bool, force: bool, **given: str | None) -> None:
    """Write a commented study for a table of past decisions, CSV or Parquet.

    Columns are guessed by their names and values and confirmed by you; without a terminal, or with --yes, the guesses
    stand.

    \b
    Examples:
      polidiff init stays.csv -o study.toml
      polidiff init stays.parquet -o study.toml --action dose --episode stay_id --yes
    """
    import polars as pl

    from polidiff.cli.column_roles import propose
    from polidiff.errors import InvalidInputError
    from polidiff.files import write_whole

    if output.exists() and not force:
        raise InvalidInputError(f"{output} is there already. Hint: another name, or --force to write over it")
    frame = _read_table(data)
    proposal = propose(frame, {role: column for role, column in given.items() if column}, state)
    if sys.stdin.isatty() and not yes:
        proposal = _confirmed(frame, proposal)
    write_whole(output, draft(data, output, proposal))
    click.echo(summary(proposal), err=True)
    if "reward" not in proposal.roles:
        click.echo(f"No column could be the outcome; write [[outcomes]] into {output}. Or: --reward COLUMN", err=True)
    elif proposal.prefer is None:
        click.echo(f"Is more or less {proposal.outcome} better? Write prefer = … into {output}.", err=True)
    filled = frame.filter(~pl.all_horizontal(pl.all().is_null()))
    repeated, named = filled.height - filled.n_unique(), proposal.identifiers
    if repeated and named:
        said = f"{counted(repeated, 'row')} {'repeats' if repeated == 1 else 'repeat'} another one, {named[0]} and all"
        click.echo(f"{said}. Each counts as a decision: take copies out of the table.", err=True)
    words = {column.name: column.values for column in proposal.columns if column.kind == "text"}
    alike = [name for name, values in words.items() if len({value.lower() for value in values}) < len(values)]
    if alike:
        click.echo(f"Words that differ only in capitals are taken as different ones: {', '.join(alike)}.", err=True)
    if proposal.unnamed_outcome and given["reward"] is None and not sys.stdin.isatty():
        click.echo(f"No name tells the outcome; {proposal.roles['reward']} is a guess. Or: --reward COLUMN", err=True)
    click.echo(f"wrote {output}; next: polidiff explain {output} --report diff.html", err=True)


def _read_table(data: Path) -> pl.DataFrame:
    """The first rows of a table, CSV or Parquet."""
    from polidiff.cli.table_columns import plain_columns
    from polidiff.errors import InvalidLogError
    from polidiff.worlds.log_source import lazy_frame
    from polidiff.worlds.messy_tables import empty_codes, without_codes
    from polidiff.worlds.text_tables import ENDINGS, ending, refuse_unclear_numbers

    if not data.exists() and not any(sign in str(data) for sign in "*?["):
        raise InvalidLogError(f"there is no file {str(data)!r}. Hint: a CSV or Parquet file, a folder or a glob")
    lazy = lazy_frame(str(data))
    if ending(str(data)) in ENDINGS:
        refuse_unclear_numbers(lazy, lazy.collect_schema())
    frame = plain_columns(lazy.head(LOOKED_AT).collect())
    codes = empty_codes(frame.lazy(), frame.schema, frame.columns) if ending(str(data)) in ENDINGS else {}
    if codes:
        frame = frame.with_columns(without_codes(codes))
        listed = ", ".join(f"{code} in {name}" for name, code in codes.items())
        click.echo(f"Read as empty, because nothing else there is below 0: {listed}.", err=True)
    if frame.width < 2:
        raise InvalidLogError(
            f"{data} must have a column for the action and one for what came of it; it has {frame.columns}"
        )
    if not frame.height:
        raise InvalidLogError(f"{data} has no rows. Hint: one row per decision, with a header")
    return frame


def _confirmed(frame: pl.DataFrame, proposal: Proposal) -> Proposal:
    """The proposal after a look at the table, a question for each role, and what the table cannot say itself."""
    from polidiff.cli.column_roles import propose

    click.echo(frame.head(3).glimpse(return_type="string"), err=True)
    click.echo(summary(proposal), err=True)
    said: dict[str, str] = {}
    for role in ASKED:
        if said.get("episode") != "" or role not in WITHIN:
            guess = proposal.roles.get(role, "-")
            name = str(click.prompt(f"Column of the {role} (- for none)", default=guess, err=True))
            said[role] = name if name != "-" else ""
    confirmed = propose(frame, {**dict.fromkeys(COMMENTS, ""), **proposal.roles, **said})
    late = {name: why for name, why in confirmed.left_out.items() if "after the decision" in why}
    late |= confirmed.doubtful
    known = {
        name: click.confirm(f"{name} {why}. Was it known before?", default=name in confirmed.doubtful, err=True)
        for name, why in late.items()
    }
    returned = [name for name in known if known[name] and name not in confirmed.state]
    state = (*(name for name in confirmed.state if known.get(name, True)), *returned)
    left_out = {name: why for name, why in confirmed.left_out.items() if name not in returned}
    left_out |= {name: "came after the decision" for name in confirmed.doubtful if not known[name]}
    return _valued(replace(confirmed, state=state, left_out=left_out, doubtful={}))


def _valued(proposal: Proposal) -> Proposal:
    """The proposal with the direction and the range of the outcome."""
    if "reward" not in proposal.roles:
        return proposal
    column = proposal.column(proposal.roles["reward"])
    ways = click.Choice(["more", "less", "neither"])
    better = click.prompt(f"Is more or less {proposal.outcome} better?", type=ways, default=proposal.prefer, err=True)
    if proposal.met is None:
        return replace(proposal, direction=better)
    whole = " of a whole episode" if "episode" in proposal.roles else ""
    low = click.prompt(f"Smallest {column.name}{whole} that is possible", type=float, default=proposal.met[0], err=True)
    high = click.prompt("And the largest", type=float, default=proposal.met[1], err=True)
    return replace(proposal, direction=better, limits=(low, high))


def summary(proposal: Proposal) -> str:
    """What the table looks like: every column with its range or its values, and the part it plays."""
    part = {name: role for role, name in proposal.roles.items()} | dict.fromkeys(proposal.state, "state")
    width = max(len(column.name or "(no name)") for column in proposal.columns)
    lines = [f"{counted(proposal.rows, 'row')}, {counted(len(proposal.columns), 'column')}"]
    for column in proposal.columns:
        role = part.get(column.name) or f"not used: {proposal.left_out.get(column.name, 'left out')}"
        values = _values(column, proposal.told.get(column.name, {}))
        empty = f", {percent(column.missing)} empty" if column.missing else ""
        role += f" ({proposal.doubtful[column.name]})" if column.name in proposal.doubtful else ""
        lines.append(f"  {column.name or '(no name)':<{width}}  {values}{empty}  → {role}")
    return "\n".join(lines)


def _values(column: Column, told: Mapping[str, float]) -> str:
    """The commonest values, of those that many have, or the range."""
    if told and (column.kind in ("text", "flag") or column.distinct <= SHOWN):
        listed = [f"{value} {percent(share)}" for value, share in list(told.items())[:SHOWN]]
        return ", ".join(listed) + (f", … ({column.distinct} values)" if column.distinct > len(listed) else "")
    if column.low is not None and column.high is not None:
        return f"{column.low:g} to {column.high:g}"
    return counted(column.distinct, "different value")


def draft(data: Path, output: Path, proposal: Proposal) -> str:
    """The text of the study."""
    place = os.path.relpath(data, output.parent or ".")
    lines = [
        f"# A polidiff study. Run it with: polidiff explain {output.name} --report diff.html",
        "",
        "[world.log]",
        _entry("path", place),
        *(line for role in COMMENTS for line in _role(role, proposal)),
        *_cut(proposal),
        _state(proposal),
        *(f"# {name} {why}: take it out of state if it came after" for name, why in proposal.doubtful.items()),
        *_unused(proposal),
        *_dropped(proposal),
        *_policies(proposal),
        *_outcomes(proposal),
    ]
    return "\n".join([*lines, *OPTIONS]) + "\n"


def _unused(proposal: Proposal) -> list[str]:
    """Columns that are left out, those of one reason in one line."""
    reasons: dict[str, list[str]] = {}
    for name, why in proposal.left_out.items():
        reasons.setdefault(why, []).append(name or "the first column")
    return [f"# not used: {', '.join(names)}, which {why}" for why, names in reasons.items()]


def _entry(key: str, value: object, comment: str = "") -> str:
    return f"{key} = {json.dumps(value, ensure_ascii=False)}" + (f"  # {comment}" if comment else "")


def _role(role: str, proposal: Proposal) -> list[str]:
    name = proposal.roles.get(role)
    if name is None or (role == "reward" and proposal.prefer != "more"):
        return [f'# {role} = ""  # {COMMENTS[role]}']
    if role != "reward":
        return [_entry(role, name, COMMENTS[role])]
    named = [_entry("return_name", proposal.outcome, "what texts call it")] if name != "return" else []
    sure = [_entry("return_range", [0, 1], "it happens or not")] if proposal.yes_or_no else []
    return [_entry(role, proposal.outcome_column, COMMENTS[role]), *named, *sure]


def _cut(proposal: Proposal) -> list[str]:
    """Where no column tells the end, or its name may mean either: that no record was cut, for the reader to confirm."""
    from polidiff.worlds.log_columns import DONE

    name = proposal.roles.get("terminated", "")
    if "episode" in proposal.roles and not name:
        return [
            _entry("truncated", False, "taken so: every episode ended in its last row; else name the column of cuts")
        ]
    said = f"taken so: {name} may also mean that the record was cut; then name the column of cuts here"
    return [_entry("truncated", False, said)] if name.lower() in DONE else []


def _state(proposal: Proposal) -> str:
    state = proposal.state
    if not state:
        return _entry("state", [], "nothing in the table is known before the decision")
    column = proposal.column(state[0])
    most = max(FEW_LABELS, proposal.rows / ROWS_PER_LABEL) if "episode" in proposal.roles else FEW_LABELS
    few = column.distinct <= most  # a number of one decision alone, such as an age, is a measurement
    if len(state) == 1 and (column.kind == "text" or (column.kind == "whole" and few)):
        return _entry("state", state[0], "names the state; write it as a list if it is a measurement")
    return _entry("state", list(state), STATE)


def _dropped(proposal: Proposal) -> list[str]:
    """Rows without an action or an outcome are left out, and the study says so."""
    needed = [proposal.column(proposal.roles[role]) for role in ("action", "reward") if role in proposal.roles]
    empty = [column for column in needed if column.missing]
    if not empty:
        return []
    said = " and ".join(f"{column.name} is empty in {percent(column.missing)} of the rows" for column in empty)
    several = (
        "; where only last rows of episodes hold it, the others add nothing" if "episode" in proposal.roles else ""
    )
    return [_entry("missing", "drop", f"{said}{several}; rows that lack it are left out and counted")]


def _policies(proposal: Proposal) -> list[str]:
    action = proposal.column(proposal.roles["action"])
    often = list(proposal.told.get(action.name, {}))
    values = often if len(often) > 1 else action.values  # a study must name an arm to compare, however few had it
    whole = [value.removesuffix(".0") if action.kind == "number" else value for value in values]
    names = list(proposal.levels) or whole
    if action.kind == "flag":  # as actions without a name are called
        names = ["1" if name == "True" else "0" for name in names]
    offered = [name for name in names if not re.search(NEUTRAL, name.lower())] or names
    others = [column for column in proposal.columns if column is not action and re.search(ADVICE, column.plain)]
    advice = [f"column:{column.name}" for column in others if column.values and {*column.values} <= {*action.values}]
    return [
        "",
        "[policies]",
        'current = "log"  # as logged; or a file: .npy, .csv, .json, .onnx, .zip (with --trust)',
        _entry("proposed", advice[0] if advice else f"always:{offered[0]}",
               f"what if {'it were followed' if advice else 'everybody got it'}? Or a file, a column:NAME, rules; "
               f"actions: {', '.join(names[:8])}"),
    ]  # fmt: skip


def _outcomes(proposal: Proposal) -> list[str]:
    """The outcome that is told; where the name does not tell which way is better, the study asks."""
    if "reward" not in proposal.roles or proposal.prefer == "more":
        return ["", *EXAMPLE]
    direction = (
        _entry("prefer", "less", "less of it is better")
        if proposal.prefer == "less"
        else '# prefer = "more"  # or "less": which is better? The table does not say'
    )
    limits = proposal.limits or ((0, 1) if proposal.yes_or_no else proposal.met)
    ranges = [_entry("range", list(limits))] if limits is not None else []
    if "episode" in proposal.roles and proposal.limits is None:
        ranges = [f"# {line}  # per episode, as met in the table; from the smallest to the largest possible"
                  for line in ranges]  # fmt: skip
    return [
        "",
        "[[outcomes]]",
        _entry("name", proposal.outcome),
        _entry("column", proposal.outcome_column, "a guess: no name tells the outcome" * proposal.unnamed_outcome),
        direction,
        *ranges,
    ]
