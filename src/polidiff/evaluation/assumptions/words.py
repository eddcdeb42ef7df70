"""Sentences about what a verdict rests on, for a reader who is no statistician."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from polidiff.records.outcome import Assumption

FRAGILE = 1.5  # a verdict that holds up to less is called fragile: one measurement more often moves odds as far
DRAWN = "Actions were drawn with recorded probabilities, so no unrecorded reason stands behind them."
FRAGILE_EVERY = 1.2  # the same where every decision of an episode may have such reasons


def strength(gamma: float) -> str:
    """By how much odds change.

    >>> strength(1.3), strength(2.4), strength(float("inf"))
    ('by more than 30 %', 'by more than 2.4 times', 'more than ten times')
    """
    if np.isinf(gamma):
        return "more than ten times"
    return f"by more than {gamma:.1f} times" if gamma >= 1.95 else f"by more than {round(100 * (gamma - 1))} %"


def fragile(every: float, one_step: bool) -> bool:
    """Whether little would undo a verdict that holds up to a strength."""
    return every < (FRAGILE if one_step else FRAGILE_EVERY)


def only_if(gamma: float) -> str:
    """The doubt that is part of the sentence of a fragile verdict.

    >>> only_if(1.14)
    'if no unrecorded reason changes the odds of a decision by more than 14 %'
    """
    return f"if no unrecorded reason changes the odds of a decision {strength(gamma)}"


def hidden_reasons(every: float, one: float | None = None, scale: tuple[str, float] | None = None) -> str:
    """What unrecorded reasons would have to do to undo a verdict.

    Parameters
    ----------
    every, one : float
        The strength Γ if every decision, or one decision of an episode, has such reasons; one decision per episode: the
        same, and `one` is None.
    scale : (name, strength), optional
        How far the recorded measurement that matters most for the decision moves its odds.

    >>> print(hidden_reasons(1.3)[:35], "…", hidden_reasons(1.3)[-70:])
    This is fragile: it would no longer … unrecorded reasons changed the odds of the decision by more than 30 %.
    """
    frail = "This is fragile: it" if fragile(every, one is None) else "This"
    text = (
        f"{frail} would no longer hold if, among people who look alike in the record, unrecorded reasons changed the "
        f"odds of {'every' if one is not None else 'the'} decision {strength(every)}"
    )
    if one is not None:
        text += f"; if they touched one decision of each episode only, {strength(one)}"
    text += "."
    if scale is not None:
        text += (
            f" For scale: hiding {scale[0]!r}, the recorded measurement that matters most for the decision, changes "
            f"them up to {scale[1]:.1f} times for nine people in ten."
        )
    return text


def rests_on(units: float, unit: str, assumptions: Sequence[Assumption], gamma: str | None) -> str:
    """One line under a verdict: how many people, what was tested, what cannot be, what would change it."""
    held, blind = ([a.name for a in assumptions if a.status == status] for status in ("held", "not testable"))
    parts = [f"Rests on {units:.0f} {unit}"]
    if held:
        parts.append(f"tested and held: {', '.join(held)}")
    against = [f"{a.name} ({a.status})" for a in assumptions if a.alarming]
    if against:
        parts.append(f"speaks against it: {', '.join(against)}")
    if blind:
        parts.append(f"not tested: {', '.join(blind)}")
    line = "; ".join(parts) + "."
    return line if gamma is None else f"{line} {gamma}"
