r"""How much regions move when the sample changes.

Two explanations agree on a visit when both or neither put it in a region with the same swap. Their overlap is the
Jaccard index by visits,

.. math:: J = \frac{w(\text{both tell the same swap})}{w(\text{either tells a swap})},

and stability is its mean over all pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from polidiff.records.arrays import AnyArray, FloatArray
from polidiff.records.explanation import Explanation
from polidiff.records.rule import first_match


def region_stability(explanations: Sequence[Explanation], features: AnyArray, weight: FloatArray) -> float:
    """Mean overlap of the regions of several explanations over visited states; 1 if none tells a difference."""
    told = [_told(explanation, features) for explanation in explanations]
    overlaps = [_overlap(one, other, weight) for one, other in combinations(told, 2)]
    return float(np.mean(overlaps)) if overlaps else 1.0


def _told(explanation: Explanation, features: AnyArray) -> AnyArray:
    names = np.array([*(f"{region.current}→{region.proposed}" for region in explanation.regions), ""], dtype=object)
    return np.asarray(names[first_match([region.rule for region in explanation.regions], features)])


def _overlap(one: AnyArray, other: AnyArray, weight: FloatArray) -> float:
    either = weight[(one != "") | (other != "")].sum()
    both = weight[(one == other) & (one != "")].sum()
    return float(both / either) if either > 0 else 1.0
