"""``polidiff init``: a first study, its columns guessed by name and type, with a comment beside each key."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import click

from polidiff.cli.main import near_miss
from polidiff.cli.options import FILE
from polidiff.errors import InvalidInputError, InvalidLogError

Roles: TypeAlias = dict[str, str | tuple[str, ...] | None]
WORDS = {
    "action": r"^(action|act|decision|treatment|dose|offer|arm|choice)s?(_|$)",
    "episode": r"(episode|stay|patient|user|session|trajectory|traj|encounter|customer)(_?id)?$|^id$",
    "step": r"^(step|t|time|timestep|hour|day|visit|charttime|timestamp|seq|order)$",
    "reward": r"^(reward|r|return|outcome|survived|conversion|converted|profit|revenue)$",
    "terminated": r"(^terminated$|^terminal$|^done$|died_or_left|^end$|^ended$|^is_last$)",
    "probability": r"(^prob|probability$|propensity)",
}
CONSEQUENCE = r"(^|_)(cost|costs|paid|died|death|mortality|harm|uplift|clicks?|margin)(_|$)"
COMMENTS = {
    "episode": "which decisions belong together",
    "step": "their order",
    "action": "what was done",
    "reward": "makes up the return",
    "terminated": "true in the row in which an episode ended",
    "probability": "of the action under the policy that wrote the log",
    "state": "what the decision could depend on; rules speak about these",
}


def read_columns(data: Path) -> dict[str, str]:
    """Names and types of the columns: "number", "whole" (numbers), "text" or "flag"."""
    from polidiff.worlds.log_source import lazy_frame

    if not data.exists() and not any(sign in str(data) for sign in "*?["):
        raise InvalidLogError(f"there is no file {str(data)!r}. Hint: a CSV or Parquet file, a folder or a glob")
    schema = lazy_frame(str(data)).collect_schema()
    kinds = {name: _kind(dtype) for name, dtype in schema.items()}
    if len(kinds) < 2:
        raise InvalidLogError(f"{data} must have a column for the state and one for the action; it has {list(kinds)}")
    return kinds


def _kind(dtype: Any) -> str:
    if dtype.is_numeric():
        return "whole" if dtype.is_integer() else "number"
    return "flag" if str(dtype) == "Boolean" else "text"


def guess(
    columns: Mapping[str, str], given: Mapping[str, str], state: tuple[str, ...], *, only_given: bool = False
) -> Roles:
    """Which column plays which part."""
    for name in (*given.values(), *state):
        if name not in columns:
            raise InvalidInputError(f"there is no column {name!r}{near_miss(name, list(columns))}")
    roles: Roles = dict(given)
    for role, words in WORDS.items():
        free = [name for name in columns if name not in roles.values() and name not in state]
        found = next((name for name in free if re.search(words, name.lower())), None)
        roles.setdefault(role, None if only_given else found)
    if roles["action"] is None:
        raise InvalidInputError(
            f"which column is the action? None of {', '.join(columns)} looks like it. Hint: --action COLUMN"
        )
    taken = {name for name in roles.values() if isinstance(name, str)}
    rest = tuple(
        name
        for name, kind in columns.items()
        if name not in taken and kind in ("number", "whole") and not re.search(CONSEQUENCE, name.lower())
    )
    roles["state"] = state or rest or tuple(name for name in columns if name not in taken)[:1]
    if not roles["state"]:
        raise InvalidInputError("no column is left for the state. Hint: --state COLUMN")
    return roles


def draft(data: Path, output: Path, columns: Mapping[str, str], roles: Roles) -> str:
    """The text of the study."""
    place = os.path.relpath(data, output.parent or ".")
    lines = [
        "# A polidiff study. Run it with: polidiff explain " + output.name,
        "",
        "[world.log]",
        f"path = {json.dumps(place, ensure_ascii=False)}",
    ]
    for role, comment in COMMENTS.items():
        lines.append(_line(role, roles.get(role), comment))
    state = roles["state"]
    if isinstance(state, tuple) and len(state) == 1 and columns[state[0]] in ("whole", "text"):
        lines[-1] = _line("state", state[0], "names the state; write it as a list if it is a measurement")
    return "\n".join([*lines, *_left_out(columns, roles), *_rest(columns, roles)]) + "\n"


def _left_out(columns: Mapping[str, str], roles: Roles) -> list[str]:
    used = {name for name in roles.values() if isinstance(name, str)} | set(roles["state"] or ())
    names = [name for name in columns if name not in used]
    return [f"# not used: {', '.join(names)}; add to state what decisions may depend on"] if names else []


def _line(role: str, column: str | tuple[str, ...] | None, comment: str) -> str:
    if column is None:
        return f'# {role} = ""  # {comment}'
    value = list(column) if isinstance(column, tuple) else column
    return f"{role} = {json.dumps(value, ensure_ascii=False)}  # {comment}"


def _rest(columns: Mapping[str, str], roles: Roles) -> list[str]:
    used = {name for name in roles.values() if isinstance(name, str)}
    free = [name for name, kind in columns.items() if kind != "text" and name not in used]
    example = next((name for name in free if re.search(CONSEQUENCE, name.lower())), free[0] if free else "cost")
    return [
        "",
        "[policies]",
        'current = "log"  # estimated from the log; or a file: .npy, .csv, .json, .onnx, .zip (with --trust)',
        '# proposed = "new_policy.onnx"',
        "",
        "# What people care about, beside the return; once for each.",
        "# [[outcomes]]",
        f"# name = {json.dumps(example, ensure_ascii=False)}",
        f"# column = {json.dumps(example, ensure_ascii=False)}",
        '# prefer = "less"  # or "more"; leave out if neither is better',
        "# range = [0, 100]  # smallest and largest possible per episode",
        '# more = "more of it"',
        '# less = "less of it"',
        "",
        "[options]",
        "level = 0.95  # of all intervals together",
        "seed = 0  # same seed, same bytes",
        "# max_rules = 4",
        "# min_group = 10  # smaller groups are left out of reports",
        "",
        "# [improve]",
        "# max_rules = 2",
        '# keep = ["mortality<=current"]',
        '# freeze = ["map<55"]',
    ]


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
    asked = {
        role: click.prompt(f"Column of the {role} (- for none)", default=str(roles[role] or "-"), err=True)
        for role in ASKED
    }
    answers = {role: str(said) for role, said in asked.items() if said != "-"}
    return guess(columns, answers, (), only_given=True)
