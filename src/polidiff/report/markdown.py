"""Markdown with pictures, for a pull request or a wiki: the page's words, the charts as files beside it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from polidiff.explanation.change_numbers import number_changes
from polidiff.explanation.plan_text import say_plans
from polidiff.explanation.said import Said, say
from polidiff.files import write_together
from polidiff.records.explanation import Explanation
from polidiff.records.plan import Frontier, ResultComparison
from polidiff.records.suppression import released
from polidiff.report import comparison, plans, tables
from polidiff.report.charts import DESCRIPTIONS, charts_of, picture
from polidiff.report.names import shown
from polidiff.report.tables import assumptions_table, methods_text

MOST_ROWS = 30
MOST_PICTURES = 3
IN_TABLES = ("now", "where", "ledger", "differences", "outcomes")  # blocks whose content stands above them
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~$&!])")
_LINKS = re.compile(r"\b(?:https?|ftp|mailto|xmpp):|\bwww(?=\.)|@", re.IGNORECASE)  # what many readers make links of


def save_markdown(record: Explanation | Frontier | ResultComparison, path: str | os.PathLike[str]) -> Path:
    """Write a result as Markdown; its pictures go to a folder beside it, named like the file."""
    target = Path(path)
    safe = released(record)
    drawable = {} if isinstance(record, ResultComparison) else charts_of(safe)
    folder = target.with_name(f"{target.stem}_pictures")
    drawn = {name: picture(safe, name) for name in list(drawable)[:MOST_PICTURES]}
    text = markdown(safe, {name: f"{folder.name}/{name}.png" for name in drawn})
    pictures = {folder / f"{name}.png": content for name, content in drawn.items()}
    write_together({**pictures, target: text}, folder if pictures else None)
    return target


def markdown(record: Explanation | Frontier | ResultComparison, pictures: dict[str, str] | None = None) -> str:
    """The result as Markdown text; `pictures` maps charts to addresses."""
    record = released(record)
    if isinstance(record, Explanation):
        said, shown_tables = say(record), [tables.outcomes_table(record), tables.regions_table(record)]
    elif isinstance(record, Frontier):
        numbering = number_changes(None, record)
        said = say_plans(record, numbering)
        shown_tables = [plans.plans_table(record.plans, record), plans.outcome_rows_table(record.knee, record),
                        plans.ledger_table(record, numbering)] if record.plans else []  # fmt: skip
    else:
        said = comparison.say(record)
        shown_tables = [comparison.differences_table(record), comparison.verdicts_table(record)]
    parts = [*_opening(said), *(line for table in shown_tables if table.rows for line in table_lines(table))]
    for name, address in (pictures or {}).items():
        parts += [f"![{DESCRIPTIONS[name]}]({address.replace(' ', '%20')})", ""]
    for block in said.blocks:
        if block.kind not in IN_TABLES:
            title = block.title or "What changes, and for whom"
            parts += [f"## {escaped(title)}", "", *(f"- {escaped(line)}" for line in block.first(MOST_ROWS)), ""]
    if not isinstance(record, ResultComparison):
        if record.assumptions:
            parts += table_lines(assumptions_table(record.assumptions))
        parts += ["## Method", "", escaped(methods_text(record)), ""]
    return "\n".join(parts)


def _opening(said: Said) -> Iterator[str]:
    yield f"# {said.title}"
    yield ""
    yield f"**{escaped(said.opening[0])}**"
    yield ""
    for answer in said.answers:
        yield f"- **{answer.question}** {escaped(answer.spoken)}"
    yield ""


def escaped(text: str) -> str:
    """Text that Markdown shows as it is; an invisible joiner keeps addresses in it from becoming links.

    >>> escaped("a|b <i>*c*")
    'a\\\\|b \\\\<i\\\\>\\\\*c\\\\*'
    """
    return _LINKS.sub("\\g<0>\u2060", _SPECIAL.sub(r"\\\1", shown(text)))


def table_lines(table: tables.Table) -> Iterator[str]:
    """A table in Markdown."""
    yield "| " + " | ".join(escaped(name) for name in table.columns) + " |"
    yield "|" + " --- |" * len(table.columns)
    for row in table.rows[:MOST_ROWS]:
        yield "| " + " | ".join(escaped(cell) for cell in row) + " |"
    if len(table.rows) > MOST_ROWS:
        yield ""
        yield f"{len(table.rows) - MOST_ROWS} more rows are in the JSON file."
    yield ""
