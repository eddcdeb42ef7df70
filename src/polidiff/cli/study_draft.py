"""A proposal of roles as a study that runs, with a comment beside each key; and as a summary to look at."""

from __future__ import annotations

import json
import os
from pathlib import Path

from polidiff.cli.column_roles import Column, Proposal

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
NEUTRAL = ("0", "0.0", "no", "false", "none", "control", "placebo", "0_no", "0_placebo")
SHOWN = 4


def summary(proposal: Proposal) -> str:
    """What the table looks like: every column with its range or its values, and the part it plays."""
    part = {name: role for role, name in proposal.roles.items()} | dict.fromkeys(proposal.state, "state")
    width = max(len(column.name) for column in proposal.columns)
    lines = [f"{proposal.rows:,} rows, {len(proposal.columns)} columns"]
    for column in proposal.columns:
        role = part.get(column.name) or f"not used: {proposal.left_out.get(column.name, 'left out')}"
        empty = f", {column.missing:.0%} empty" if column.missing else ""
        lines.append(f"  {column.name:<{width}}  {_values(column)}{empty}  → {role}")
    return "\n".join(lines)


def _values(column: Column) -> str:
    if column.values and (column.kind in ("text", "flag") or column.distinct <= SHOWN):
        listed = [f"{value} {share:.0%}" for value, share in zip(column.values, column.shares, strict=True)][:SHOWN]
        return ", ".join(listed) + (f", … ({column.distinct} values)" if column.distinct > SHOWN else "")
    if column.low is not None and column.high is not None:
        return f"{column.low:g} to {column.high:g}"
    return f"{column.distinct:,} different values"


def draft(data: Path, output: Path, proposal: Proposal) -> str:
    """The text of the study."""
    place = os.path.relpath(data, output.parent or ".")
    lines = [
        f"# A polidiff study. Run it with: polidiff explain {output.name} --report diff.html",
        "",
        "[world.log]",
        _entry("path", place),
        *(_role(role, proposal) for role in COMMENTS),
        _state(proposal),
        *(f"# not used: {name}, which {why}" for name, why in proposal.left_out.items()),
        *_dropped(proposal),
        *_policies(proposal),
        *_outcomes(proposal),
    ]
    return "\n".join([*lines, *OPTIONS]) + "\n"


def _entry(key: str, value: object, comment: str = "") -> str:
    return f"{key} = {json.dumps(value, ensure_ascii=False)}" + (f"  # {comment}" if comment else "")


def _role(role: str, proposal: Proposal) -> str:
    name = proposal.roles.get(role)
    if name is None or (role == "reward" and proposal.prefer != "more"):
        return f'# {role} = ""  # {COMMENTS[role]}'
    return _entry(role, name, COMMENTS[role])


def _state(proposal: Proposal) -> str:
    state = proposal.state
    if len(state) == 1 and proposal.column(state[0]).kind in ("whole", "text"):
        return _entry("state", state[0], "names the state; write it as a list if it is a measurement")
    return _entry("state", list(state), STATE)


def _dropped(proposal: Proposal) -> list[str]:
    """Rows without an action or an outcome are left out, and the study says so."""
    needed = [proposal.column(proposal.roles[role]) for role in ("action", "reward") if role in proposal.roles]
    empty = [column for column in needed if column.missing]
    if not empty:
        return []
    said = " and ".join(f"{column.name} is empty in {column.missing:.0%} of the rows" for column in empty)
    return [_entry("missing", "drop", f"{said}; these rows are left out and counted")]


def _policies(proposal: Proposal) -> list[str]:
    action = proposal.column(proposal.roles["action"])
    names = [value.removesuffix(".0") if action.kind == "number" else value for value in action.values]
    offered = [name for name in names if name.lower() not in NEUTRAL] or names
    return [
        "",
        "[policies]",
        'current = "log"  # as logged; or a file: .npy, .csv, .json, .onnx, .zip (with --trust)',
        _entry("proposed", f"always:{offered[0]}", f"what if everybody got it? Or a file, a column:NAME, rules; "
               f"actions: {', '.join(names[:8])}"),
    ]  # fmt: skip


def _outcomes(proposal: Proposal) -> list[str]:
    """The outcome that is told; where the name does not tell which way is better, the study asks."""
    name = proposal.roles.get("reward")
    if name is None or proposal.prefer == "more":
        return ["", *EXAMPLE]
    column = proposal.column(name)
    direction = (
        _entry("prefer", "less", "less of it is better")
        if proposal.prefer == "less"
        else '# prefer = "more"  # or "less": which is better? The table does not say'
    )
    ends = [_entry("range", [column.low, column.high])] if column.low is not None else []
    steps = "episode" in proposal.roles
    ranges = [f"# {line}  # per episode, from the smallest to the largest possible" for line in ends] if steps else ends
    return ["", "[[outcomes]]", _entry("name", name), _entry("column", name), direction, *ranges]


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
