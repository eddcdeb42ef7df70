"""``polidiff demo``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from polidiff.cli.options import writing
from polidiff.cli.output import deliver, progress

if TYPE_CHECKING:
    from polidiff.records.explanation import Explanation
    from polidiff.records.plan import Frontier

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
        text = None if as_json else spoken(example, explanation, frontier)
    page = (explanation, frontier)
    deliver(explanation, as_json=as_json, output=output, report=report, page=page, text=text, quiet=quiet)


def spoken(example: str, explanation: Explanation, frontier: Frontier) -> str:
    """What the terminal says: the difference and the plans; for sepsis, sentences to read aloud."""
    if example != "icu-sepsis":
        return f"{explanation}\n\n{frontier}"
    from polidiff.domains.icu_sepsis_words import summary

    return summary(explanation, frontier)


def results(example: str, seed: int) -> tuple[Explanation, Frontier]:
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
    return _sepsis(seed)


def _sepsis(seed: int) -> tuple[Explanation, Frontier]:
    """What clinicians did against the best policy, and at most two rules on the way there."""
    from dataclasses import replace

    from polidiff.api import explain, improve
    from polidiff.domains import icu_sepsis

    ward, care = icu_sepsis.world(), icu_sepsis.current()
    frontier = improve(ward, care, max_rules=2, max_conditions=2, moves="levels", seed=seed)
    explanation = explain(ward, care, icu_sepsis.proposed(), max_rules=6, seed=seed)
    caveats = (*icu_sepsis.CAVEATS, icu_sepsis.SOURCE, *explanation.warnings)
    methods = replace(
        explanation.methods, study={"title": "Treating sepsis: clinicians and the best policy of a model"}
    )
    return replace(explanation, warnings=caveats, methods=methods), frontier
