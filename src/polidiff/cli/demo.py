"""``polidiff demo``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from polidiff.cli.options import writing
from polidiff.cli.work import deliver, progress

EXAMPLES = ("navigation", "chain", "icu-sepsis")


@click.command()
@click.argument("example", type=click.Choice(EXAMPLES), default="navigation")
@click.option("--seed", type=int, default=0, help="Same seed, same bytes.", show_default=True)
@writing
def command(
    example: str, seed: int, as_json: bool, output: Path | None, report: Path | None, quiet: bool, verbose: bool
) -> None:
    """Compare two policies of an example, find the changes that pay most, and write a report.

    \b
    Examples:
      polidiff demo
      polidiff demo chain --report chain.html
    """
    with progress(quiet):
        explanation, frontier = results(example, seed)
    page = (explanation, frontier)
    if as_json:
        deliver(explanation, as_json=True, output=output, report=report, page=page, quiet=quiet)
        return
    deliver(explanation, as_json=False, output=output, report=report, page=page, quiet=quiet)
    click.echo(f"\n{frontier}")


def results(example: str, seed: int) -> tuple[Any, Any]:
    """The example explained, and improved."""
    from polidiff.api import explain, improve

    if example == "chain":
        from polidiff.domains import chain

        world, current, proposed = chain.world(), chain.current(), chain.proposed()
        return explain(world, current, proposed, seed=seed), improve(world, current, unit="total", seed=seed)
    if example == "navigation":
        from polidiff.domains import navigation

        away = navigation.world()
        explanation = explain(away, navigation.current, navigation.proposed_2, seed=seed)
        candidates = [navigation.proposed_1, navigation.proposed_2]
        return explanation, improve(away, navigation.current, candidates, seed=seed)
    from polidiff.domains import icu_sepsis

    ward, care = icu_sepsis.world(), icu_sepsis.current()
    explanation = explain(ward, care, icu_sepsis.proposed(), max_rules=6, seed=seed)
    return explanation, improve(ward, care, max_rules=2, seed=seed)
