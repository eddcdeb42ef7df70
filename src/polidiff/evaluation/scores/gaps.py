r"""Empty values of a feature: what they may hide from a comparison.

An empty value counts as a level of its own. That is right if whoever decided did not know it either. If they knew it
and only the record lost it, rows with gaps are compared without a reason of their decision. How much that moves a score
is seen where the value is recorded. With :math:`d_i = s_i^{-j} - s_i` how the score of row i changes if nobody's value
of feature j is used, :math:`g` the share of rows that are empty and :math:`\bar d` the mean of :math:`d` over the
others, the scores of the second reading are

.. math:: s_i - \bar d \quad \text{where } j \text{ is empty}, \qquad
          s_i - \frac{g}{1 - g} (d_i - \bar d) \quad \text{elsewhere;}

their mean is :math:`\bar s - g \bar d`, and their variance has that of :math:`\bar d` in it. Intervals span both
readings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from polidiff.records.arrays import AnyArray, BoolArray, FloatArray
from polidiff.records.numbers import number
from polidiff.records.rule import missing_entries

FEWEST_EMPTY = 0.01  # share of the rows below which what they hide is too little to tell
LEAST_RECORDED = 0.1  # share of the rows that the others are thought to be at least
MOST_ALONE = 3  # features that are left out one at a time; the others together
MIN_GROUP = 10  # rows whose number is told


@dataclass(frozen=True, eq=False)
class Gap:
    """Features that are left out together, and the rows in which one of them is empty."""

    features: tuple[int, ...]
    empty: BoolArray  # (n,)

    def second_reading(self, with_it: FloatArray, without: FloatArray) -> FloatArray:
        """(n, M) what is added to scores (n, M) if only the record lost the values; scores with them and without."""
        if self.empty.all():
            return np.zeros_like(with_it)
        moved = without - with_it
        mean = moved[~self.empty].mean(axis=0)
        share = min(float(self.empty.mean()), 1 - LEAST_RECORDED)
        return np.where(self.empty[:, None], -mean, -share / (1 - share) * (moved - mean))


def gaps_of(states: AnyArray, *, together: bool) -> list[Gap]:
    """What is left out of feature rows (n, d), the emptiest first; `together`: all at once."""
    empty = np.column_stack([missing_entries(column) for column in states.T])
    often = [int(j) for j in np.argsort(-empty.mean(axis=0), kind="stable") if empty[:, j].mean() >= FEWEST_EMPTY]
    alone = 0 if together else MOST_ALONE
    parts = [(j,) for j in often[:alone]] + ([tuple(often[alone:])] if often[alone:] else [])
    return [Gap(part, np.asarray(empty[:, list(part)].any(axis=1))) for part in parts]


def gaps_told(
    missing: Mapping[str, int], features: Sequence[str], rows: int, codes: Mapping[str, int], *, spanned: bool
) -> tuple[str, ...]:
    """One line on the empty values of features, counted by column; `codes` stood for them in the table.

    >>> print(*gaps_told({"lactate": 240, "reward": 3}, ["age", "lactate"], 800, {"lactate": -99}, spanned=False))
    'lactate' is empty in 240 of 800 rows (-99 is read as empty). Empty counts as a value of its own.
    """
    counts = sorted(((missing[name], name) for name in features if missing.get(name)), key=lambda one: -one[0])
    if not counts:
        return ()
    few = f"fewer than {MIN_GROUP}"
    read = {name: f" ({code} is read as empty)" for name, code in codes.items()}
    first, *others = (
        (name, number(count) if count >= MIN_GROUP else few, read.get(name, "")) for count, name in counts
    )
    listed = "".join(f", {name!r} in {count}{code}" for name, count, code in others)
    text = f"{first[0]!r} is empty in {first[1]} of {number(rows)} rows{first[2]}{listed}. "
    text += "Empty counts as a value of its own"
    if spanned:
        text += "; intervals also span what follows if whoever decided knew the value and only the record lost it"
    return (f"{text}.",)
