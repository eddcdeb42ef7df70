"""The reference pages that follow from declarations: ``python -m tests.docs.reference docs/reference`` writes them.

Flags come from the commands themselves, keys of a study from the records of `polidiff.options` and the tables of
`polidiff.cli.study`. What is prose stands here, beside what it is about.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from polidiff.cli.main import COMMANDS, polidiff
from polidiff.cli.study import NEEDED, OUTCOME, SECTIONS, SOURCES, WORLDS
from polidiff.files import write_whole
from polidiff.options import CheckOptions, ExplainOptions, ImproveOptions, Kind, Options, declarations

MADE = "<!-- made by python -m tests.docs.reference docs/reference; a test fails when it is out of date -->"
WORLD_WORDS = {
    "log": "Records of past decisions: one row per decision, as CSV or Parquet.",
    "gymnasium": "A Gymnasium environment.",
    "table": "A known table: an `.npz` with `transitions` (S, A, S), `rewards` (S, A), `initial` (S), `absorbing` (S) "
    "and, if there are, `features` and `allowed`.",
    "function": 'A function that makes the world, `name = "module:function"`; other modules than polidiff\'s own need '
    "`--trust`.",
}
KEY_WORDS = {
    "path": "a file, a folder or a glob, from where the study lies",
    "state": "one column that names the state, or a list of measurements, empty where nothing is known",
    "action": "column of what was done",
    "episode": "column that says which rows belong together; without it every row is one decision",
    "step": "column of their order: 0, 1, 2, …; a missing number is a gap",
    "reward": 'column that is summed to the return; `"status = cured"` counts a value of a column',
    "terminated": "column that is true in the row in which an episode ended",
    "truncated": "column that is true where a record was cut off; `false`: none was",
    "probability": "column, or one number: chance of the logged action under whoever wrote the log",
    "features": "columns that describe a discrete state; rules speak about them",
    "group": "column that says who is one person",
    "missing": "what happens to rows without an action or an outcome",
    "sort": "`false`: rows must be in order already",
    "states": "names of the states, also of those that a log may not show",
    "actions": "names of the actions, also of those that a log may not show; or levels of each part",
    "discount": "what one step later is worth; 1 if not given",
    "return_range": "the least and the most that an episode can return",
    "skip_bad": "leave out parts that cannot be read",
    "max_rows": "rows of features that are held in memory",
    "return_name": "what the return is called",
    "include_return": "whether the return is told as an outcome",
    "id": "of the environment",
    "exact": "use the environment's own table",
    "horizon": "decisions per episode",
    "feature_names": "names of the parts of an observation",
    "options": "handed on to whoever makes the world",
    "name": "what it is called",
}
OUTCOME_WORDS = {
    "name": "what it is called in the text",
    "column": "of a log",
    "info": "key of what an environment says beside the reward",
    "array": "of the `.npz`",
    "function": "`module:function`, called with states, actions and next states",
    "constant": "the same number for every decision",
    "prefer": '`"more"` or `"less"`; leave out if neither is better',
    "margin": "differences up to this are called the same",
    "more": "the words for more of it",
    "less": "the words for less of it",
    "unit": "of the numbers",
    "range": "least and most that is possible per episode; a log needs it",
}
POLICY_WORDS = {
    "current": 'the policy in use: a file, `module:function`, `"log"`, `"log:PATH"` (a second log), '
    '`"column:NAME"`, `"always:ACTION"`',
    "proposed": "the other policy, or a patch (`.json`)",
    "rules": 'instead of `proposed`: changes such as `["map < 55: pressor"]`; the first that holds decides',
    "candidates": "policies whose changes `improve` may use",
    "greedy": "policies take their most probable action",
}
WIDTH = 80  # columns of a help text
EXIT_CODES = {
    0: "fine",
    1: "a check failed",
    2: "bad usage or input; one line says what was expected, what came, where, and a way out; nothing is written",
    3: "no plan satisfies the guards",
    70: "a fault of polidiff, with its trace",
}


def pages() -> dict[str, str]:
    """Each page that follows from declarations, by file name."""
    return {"study_file.md": _text(study_file()), "command_line.md": _text(command_line())}


def _text(lines: Iterator[str]) -> str:
    return "\n".join(lines) + "\n"


def study_file() -> Iterator[str]:
    """The page of the study file."""
    yield from (MADE, "# The study file", "")
    yield "One TOML file that a colleague can run again. `polidiff init DATA -o study.toml` writes a commented one; the"
    yield "[tutorials](../tutorials/trial_as_csv.md) show two. Paths start from where the study lies. A slip is named"
    yield "with its line and the nearest key. A flag of the same name wins over the study."
    for kind, keys in WORLDS.items():
        yield from ("", f"## `[world.{kind}]`", "", WORLD_WORDS[kind], "")
        yield from _keys(keys, KEY_WORDS, NEEDED[kind])
    yield from ("", "## `[policies]`", "", *_keys(SECTIONS["policies"], POLICY_WORDS, ("current",)))
    yield from ("", "## `[[outcomes]]`", "")
    yield from (f"Once for each, with one source: {', '.join(f'`{source}`' for source in SOURCES)}.", "")
    yield from _keys(OUTCOME, OUTCOME_WORDS, ("name",))
    for verb, about in ((ExplainOptions, "What `explain` takes."), (ImproveOptions, "What `improve` takes."),
                        (CheckOptions, "What `check` takes.")):  # fmt: skip
        yield from ("", f"## `[{verb.section}]`", "", about, "", *_options(verb))


def _keys(keys: Mapping[str, Kind], words: Mapping[str, str], needed: tuple[str, ...]) -> Iterator[str]:
    yield from ("| key | value | meaning |", "|---|---|---|")
    for key, kind in keys.items():
        must = " (needed)" if key in needed else ""
        yield f"| `{key}`{must} | {kind.words} | {words[key]} |"


def _options(verb: type[Options]) -> Iterator[str]:
    yield from ("| key | value | default | meaning |", "|---|---|---|---|")
    for name, default, declared in declarations(verb):
        if declared.section is None and declared.only != "python":
            value = " or ".join(f'`"{choice}"`' for choice in declared.choices) or declared.kind.words
            yield f"| `{name}` | {value} | {_default(default)} | {declared.help} |"


def _default(value: Any) -> str:
    return "none" if value is None or value == () else f"`{str(value).lower() if isinstance(value, bool) else value}`"


def command_line() -> Iterator[str]:
    """The page of the command line: every command with its own help."""
    yield from (MADE, "# The command line", "")
    yield "Results go to stdout (`--json`: one document that follows the [published schema](json.md)), everything else"
    yield "to stderr. Work of over two seconds shows a bar if stderr is a terminal."
    yield from ("", "| exit code | meaning |", "|---|---|")
    yield from (f"| {code} | {what} |" for code, what in EXIT_CODES.items())
    top = click.Context(polidiff, info_name="polidiff", terminal_width=WIDTH, help_option_names=["-h", "--help"])
    for name in COMMANDS:
        command = polidiff.get_command(top, name)
        assert command is not None
        yield from _help(command, click.Context(command, info_name=name, parent=top), 2)


def _help(command: click.Command, context: click.Context, depth: int) -> Iterator[str]:
    yield from ("", f"{'#' * depth} `{context.command_path}`", "", "```text", command.get_help(context).rstrip(), "```")
    for name, inner in sorted(getattr(command, "commands", {}).items()):
        yield from _help(inner, click.Context(inner, info_name=name, parent=context), depth + 1)


if __name__ == "__main__":
    for name, text in pages().items():
        write_whole(Path(sys.argv[1]) / name, text)
