"""``polidiff report``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from polidiff.cli.options import FILE, speaking
from polidiff.cli.output import save

if TYPE_CHECKING:
    from polidiff.records.codec import Record


@click.command()
@click.argument("results", nargs=-1, required=True, type=FILE, metavar="RESULT.json…")
@click.option("-o", "--output", type=FILE, help="Where to: .html, .md, .png or .svg.  [default: RESULT.html]")
@click.option("--chart", metavar="NAME", help="Which chart to draw as .png or .svg, such as regions or frontier.")
@click.option("--min-group", type=int, help="Smallest group of a log that is shown.  [default: 10]")
@speaking
def command(
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
