"""Verdicts in words: each with its figures, several in one clause with "but" between what speaks for and against."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from polidiff.explanation.words import MOST_NAMED, few, interval_text, moved_text
from polidiff.records.explanation import Verdict
from polidiff.records.numbers import counted
from polidiff.records.outcome import Outcome

UNKNOWN = "an unknown effect "  # once before all outcomes of which nothing is known


def verdict_text(verdict: Verdict, outcome: Outcome, *, figures: bool = True) -> str:
    """One outcome's verdict that is not "same", with its figures unless a table beside it holds them."""
    if verdict.direction == "unknown":
        known = not math.isnan(verdict.difference.estimate)
        why = "; ".join(filter(None, [interval_text(verdict.difference, outcome=outcome) * known, verdict.note]))
        return f"{UNKNOWN}on {outcome.name}{f' ({why})' if figures and why else ''}"
    assert verdict.direction != "same"
    return moved_text(outcome, verdict.difference, "bounds" if figures else "none", verdict.note)


def verdicts_text(verdicts: Sequence[Verdict], outcomes: Sequence[Outcome], *, figures: bool = True) -> str:
    """Verdicts in one clause: those that agree with the first, "but" those that speak against it.

    Directions come first, in the order of the outcomes; what is unknown or stays the same follows.
    """
    by_name = {outcome.name: outcome for outcome in outcomes}
    decided = [v for v in verdicts if v.direction in ("more", "less")]
    first = next((v.valence for v in decided if v.valence is not None), None)
    sides = [[v for v in decided if (v.valence in (None, first)) is agrees] for agrees in (True, False)]
    sides[bool(sides[1])] += [v for v in verdicts if v.direction == "unknown"]
    room = len(verdicts) if len(verdicts) <= MOST_NAMED else MOST_NAMED - 1
    agreeing = max(room // 2, room - len(sides[1]))  # of many, some of either side
    shown = sides[0][:agreeing], sides[1][: room - min(agreeing, len(sides[0]))]
    side_texts = [_side_texts(side, by_name, figures=figures) for side in shown]
    same = [v.outcome for v in verdicts if v.direction == "same"]
    left = len(verdicts) - sum(map(len, shown))
    if left:
        alike = f"no material difference in {few(same)}"
        side_texts[bool(side_texts[1])].append(alike if left == len(same) else counted(left, "more outcome"))
    return " but ".join(" and ".join(side) for side in side_texts if side)


def _side_texts(side: Sequence[Verdict], outcomes: Mapping[str, Outcome], *, figures: bool) -> list[str]:
    """Each verdict in words; what several outcomes that are unknown share, also the reason why, is said once."""
    unknown = [v.note for v in side if v.direction == "unknown"]
    texts = []
    for k, verdict in enumerate(side):
        note = verdict.note
        if verdict.direction == "unknown" and note and unknown.count(note) > 1:
            last = all(v.note != note or v.direction != "unknown" for v in side[k + 1 :])
            verdict = replace(verdict, note=f"for all of these, {note}" if last else "")
        text = verdict_text(verdict, outcomes[verdict.outcome], figures=figures)
        texts.append(text.removeprefix(UNKNOWN) if any(v.direction == "unknown" for v in side[:k]) else text)
    return texts
