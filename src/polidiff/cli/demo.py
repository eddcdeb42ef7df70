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

TITLES = {
    "navigation": "The navigation task: the second proposal against the current policy",
    "chain": "The chain: detours to desired states against the straight way",
    "icu-sepsis": "Treating sepsis: the best policy of a model against what clinicians did",
}


@click.command()
@click.argument("example", type=click.Choice(list(TITLES)), default="navigation")
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
    from dataclasses import replace

    explanation, frontier = _sepsis(seed) if example == "icu-sepsis" else _example(example, seed)
    study = {"title": TITLES[example], **explanation.methods.study}
    return replace(explanation, methods=replace(explanation.methods, study=study)), frontier


def _example(example: str, seed: int) -> tuple[Explanation, Frontier]:
    from polidiff.api import explain, improve

    if example == "chain":
        from polidiff.domains import chain

        world, current, proposed = chain.world(), chain.current(), chain.proposed()
        return explain(world, current, proposed, seed=seed), improve(world, current, unit="total", seed=seed)
    from polidiff.domains import navigation

    away = navigation.world()
    explanation = explain(away, navigation.current, navigation.proposed_2, seed=seed)
    return explanation, improve(away, navigation.current, [navigation.proposed_1, navigation.proposed_2], seed=seed)


def _sepsis(seed: int) -> tuple[Explanation, Frontier]:
    """What clinicians did against the best policy, at most two rules on the way there, and sentences about both."""
    from dataclasses import replace

    from polidiff.api import explain, improve
    from polidiff.domains import icu_sepsis
    from polidiff.domains.icu_sepsis_words import briefing

    ward, care = icu_sepsis.world(), icu_sepsis.current()
    frontier = improve(ward, care, max_rules=2, max_conditions=2, moves="levels", seed=seed)
    explanation = explain(ward, care, icu_sepsis.proposed(), max_rules=6, seed=seed)
    caveats = (*icu_sepsis.CAVEATS, icu_sepsis.SOURCE, *explanation.warnings)
    study = {"summary": list(briefing(explanation, frontier))}
    return replace(explanation, warnings=caveats, methods=replace(explanation.methods, study=study)), frontier
