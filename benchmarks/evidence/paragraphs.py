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


def delivered(results: Results) -> str:
    """What `improve` takes beside the solver, and how it grows."""
    large, proven = results["certified"][0], results["proven"]
    seconds = ", ".join(f"{one['seconds']:.2g} s at {one['states']} states" for one in proven)
    return _paragraph(
        f"What `improve` delivers, each plan evaluated again in the world: {large['states']:,} states and "
        f"{large['actions']} actions to {large['gap']:.1%} take {large['seconds of improve']:.2g} s where the solver "
        f"alone takes {large['seconds of the solver']:.2g} s, {large['ratio']:.2g} times as long (medians of three; "
        f"peak {large['peak megabytes']} MB). With {proven[0]['actions']} actions and every plan to the default gap: "
        f"{seconds}. Seconds grow with states to the power {results['exponent']:.2g}; the plans with them, from "
        f"{proven[0]['plans']} to {proven[-1]['plans']:,}."
    )
