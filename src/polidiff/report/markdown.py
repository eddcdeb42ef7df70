"""Markdown with pictures, for a pull request or a wiki: the page's words, the charts as files beside it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from polidiff.errors import InvalidInputError, InvalidOptionError
from polidiff.explanation.text import rests_on_lines
from polidiff.files import write_whole
from polidiff.records.explanation import Explanation
from polidiff.records.plan import Frontier, ResultComparison
from polidiff.records.suppression import suppressed
from polidiff.report import comparison, plans, tables, view
from polidiff.report.charts import DESCRIPTIONS, charts_of, picture
from polidiff.report.names import number_changes, shown
from polidiff.report.plans import plan_answers
from polidiff.report.tables import assumptions_table, methods_text
from polidiff.report.view import answers

MOST_ROWS = 30
MOST_PICTURES = 3
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~$&!])")
_LINKS = re.compile(r"\b(?:https?|ftp|mailto|xmpp):|\bwww(?=\.)|@", re.IGNORECASE)  # what many readers make links of


def save_markdown(record: Explanation | Frontier | ResultComparison, path: str | os.PathLike[str]) -> Path:
    """Write a result as Markdown; its pictures go to a folder beside it, named like the file."""
    if isinstance(record, ResultComparison):
        return write_whole(path, "\n".join(_comparison_lines(record)))
    if not isinstance(record, (Explanation, Frontier)):
        raise InvalidOptionError(f"Markdown shows an explanation or a frontier; got {type(record).__name__}")
    target = Path(path)
    safe = suppressed(record)
    folder = target.with_name(f"{target.stem}_pictures")
    names = list(charts_of(safe))[:MOST_PICTURES]
    drawn = {name: picture(safe, name) for name in names}
    text = markdown(safe, {name: f"{folder.name}/{name}.png" for name in names})
    if drawn:
        _make(folder)
    for name, content in drawn.items():
        write_whole(folder / f"{name}.png", content)
    return write_whole(target, text)


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInputError(f"cannot make the folder {folder}: {error.strerror or error}") from error


def markdown(record: Explanation | Frontier, pictures: dict[str, str] | None = None) -> str:
    """The result as Markdown text; `pictures` maps charts to addresses."""
    record = suppressed(record)
    lines = _explanation_lines(record) if isinstance(record, Explanation) else _frontier_lines(record)
    parts = [*lines]
    for name, address in (pictures or {}).items():
        parts += [f"![{DESCRIPTIONS[name]}]({address.replace(' ', '%20')})", ""]
    resting = rests_on_lines(record)
    if resting:
        parts += ["## What this rests on", "", *(f"- {escaped(line)}" for line in resting), ""]
        parts += table_lines(assumptions_table(record.assumptions))
    if record.warnings:
        parts += ["## Caveats", "", *(f"- {escaped(line)}" for line in record.warnings), ""]
    parts += ["## Method", "", escaped(methods_text(record.methods, record.world)), ""]
    return "\n".join(parts)


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


def _explanation_lines(explanation: Explanation) -> Iterator[str]:
    yield "# What the proposed policy changes"
    yield ""
    yield f"**{escaped(view.headline(explanation))}**"
    yield ""
    for answer in answers(explanation):
        yield f"- **{answer.question}** {escaped(' '.join((answer.text, *answer.more)))}"
    yield ""
    yield from table_lines(tables.outcomes_table(explanation))
    yield "## Who would be worse off"
    yield ""
    worse = view.worse_views(explanation)
    for group in worse:
        loss = f"{escaped(group.what)}, {escaped(group.difference)}"
        yield f"- **{loss}** for {escaped(group.who)} ({group.share})"
    if not worse:
        yield escaped(view.nobody_worse(explanation))
    yield ""
    yield "## What changes, and for whom"
    yield ""
    for sentence in view.sentence_views(explanation)[:MOST_ROWS]:
        chips = " · ".join(f"{chip.mark} {escaped(chip.text)}" for chip in sentence.chips)
        yield f"{sentence.number}. {escaped(sentence.text)}  "
        yield f"   {chips}  "
        yield f"   Behind it: {escaped(sentence.support)}"
    yield ""
    yield "## Where they differ"
    yield ""
    yield from table_lines(tables.regions_table(explanation))


def _frontier_lines(frontier: Frontier) -> Iterator[str]:
    numbering = number_changes(None, frontier)
    yield "# Which changes pay most"
    yield ""
    yield from table_lines(plans.plans_table(frontier.plans, frontier))
    if frontier.plans:
        yield "## The plan to look at first"
        yield ""
        for answer in plan_answers(frontier):
            yield f"- **{answer.question}** {escaped(' '.join((answer.text, *answer.more)))}"
        yield ""
        for text in plans.change_texts(frontier.knee, numbering)[:MOST_ROWS]:
            yield f"- {escaped(text)}"
        yield ""
        yield from table_lines(plans.outcome_rows_table(frontier.knee, frontier))
    if frontier.ledger is not None and frontier.ledger.entries:
        yield "## What each change is worth"
        yield ""
        yield from table_lines(plans.ledger_table(frontier, numbering))


def _comparison_lines(compared: ResultComparison) -> Iterator[str]:
    yield f"# {comparison.TITLE}"
    yield ""
    yield f"**{escaped(comparison.headline(compared))}**"
    yield ""
    for answer in comparison.answers(compared):
        yield f"- **{answer.question}** {escaped(' '.join((answer.text, *answer.more)))}"
    yield ""
    for table in (
        comparison.differences_table(compared),
        comparison.verdicts_table(compared),
        comparison.losers_table(compared),
    ):
        if table.rows:
            yield from table_lines(table)
