r"""Compiled passes over sparse rows: the rows of a policy, sweeps that evaluate it, and the search for better pairs.

Row numbers and columns are unsigned: a signed index would be tested for counting from the end at every transition,
which doubles the time of a pass.
"""

from __future__ import annotations

import numpy as np

from polidiff.compiled import kernel
from polidiff.records.arrays import FloatArray, IntArray

U32Array = np.ndarray[tuple[int, ...], np.dtype[np.uint32]]


@kernel
def copy_rows(
    starts: U32Array,
    index: U32Array,
    chance: FloatArray,
    states: IntArray,
    choice: U32Array,
    own_starts: U32Array,
    own_ends: U32Array,
    own_index: U32Array,
    own_chance: FloatArray,
) -> None:
    """Copy the rows that a policy chose in some states to their places."""
    for s in states:
        p = np.uint64(choice[s])
        n = own_starts[s]
        for j in range(starts[p], starts[p + np.uint64(1)]):
            own_index[n] = index[j]
            own_chance[n] = chance[j]
            n += np.uint32(1)
        own_ends[s] = n


@kernel
def sweep(
    starts: U32Array,
    ends: U32Array,
    index: U32Array,
    chance: FloatArray,
    weight: FloatArray,
    values: FloatArray,
    back: bool,
) -> float:
    """Gauss–Seidel in place, from the first state to the last or from the last to the first; the largest move."""
    last, largest = len(weight) - 1, 0.0
    for i in range(len(weight)):
        s = last - i if back else i
        v = weight[s]
        for j in range(starts[s], ends[s]):
            v += chance[j] * values[index[j]]
        moved = abs(v - values[s])
        largest = largest if moved <= largest else moved
        values[s] = v
    return largest


@kernel
def improve(
    starts: U32Array,
    index: U32Array,
    chance: FloatArray,
    first: U32Array,
    weight: FloatArray,
    values: FloatArray,
    written: FloatArray,
    choice: U32Array,
    expiry: FloatArray,
    drift: float,
    strict: float,
) -> tuple[int, float]:
    """Switch every state whose margin has expired to its best pair; how many were switched, and the largest gain.

    What the pair is worth is written; where that goes into the values themselves, this is a Gauss–Seidel sweep.

    A state's margin is by how much its best pair led; while the values have drifted by less, it leads still.
    """
    switched, largest = 0, 0.0
    for s in range(len(choice)):
        if expiry[s] > drift:
            continue
        mine = choice[s]
        best, top, second, own = mine, -np.inf, -np.inf, 0.0
        for p in range(first[s], first[s + 1]):
            q = weight[p]
            for j in range(starts[p], starts[p + np.uint64(1)]):
                q += chance[j] * values[index[j]]
            own = q if p == mine else own
            second = max(second, min(q, top))
            best = np.uint32(p) if q > top else best
            top = max(q, top)
        if top > own + strict * (1.0 + abs(own)):
            choice[s] = best
            switched += 1
            largest = max(largest, top - own)
            own = top
        written[s] = own
        expiry[s] = drift + top - second
    return switched, largest
