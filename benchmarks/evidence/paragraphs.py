"""Sentences of the evidence pages that hold figures."""

from __future__ import annotations

from textwrap import fill

from benchmarks.evidence.table import Results

WIDTH = 120


def _paragraph(text: str) -> str:
    return fill(text, WIDTH, break_on_hyphens=False) + "\n"


def storm_arithmetic(results: Results) -> str:
    """How many policies a model checker valued, and how far off our plans are."""
    found = results["exact arithmetic"]
    return _paragraph(
        f"Storm {results['stormpy']} values every policy of {found['tables']} small tables in rational numbers: of "
        f"{found['policies valued by Storm']} policies {found['policies above the frontier'] or 'none'} lie above a "
        f"frontier, and the {found['plans']} plans differ from their exact changes and returns by at most "
        f"{found['largest relative difference of a plan']:.0e}, relative to their size."
    )


def cartpole_pairs(results: Results) -> str:
    """CartPole episodes beside bare loops."""
    settings, ratios = results["settings"], sorted(results["ratio to 512 side by side"])
    return _paragraph(
        f"In processor time, {settings['repetitions']} alternating repetitions of {settings['episodes']:,} episodes of "
        f"each of {settings['policies']} policies took {ratios[0]:.2f} to {ratios[-1]:.2f} times as long as the loop "
        f"of 512, median {results['median ratio to 512 side by side']:.2f}; against the loop of 128 the median is "
        f"{results['median ratio to 128 side by side']:.2f} (Gymnasium {results['versions']['gymnasium']}, "
        f"Stable-Baselines3 {results['versions']['stable-baselines3']})."
    )


def trees_note(results: Results) -> str:
    """How the figures beside trees came about, where the run says so."""
    return _paragraph(results["note"]) if results.get("note") else ""
