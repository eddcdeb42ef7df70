"""The best box of at most three features, by sums over all boxes of every triple of features."""

from __future__ import annotations

from polidiff.compiled import loops
from polidiff.records.arrays import AnyArray, BoolArray, FloatArray, IntArray


@loops
def scan_boxes(
    codes: AnyArray,  # (d, n) cell of each feature and row
    sizes: IntArray,  # (d,) cells of each feature
    gains: FloatArray,  # (m, n) what each move adds in each row
    named: BoolArray,  # (d,) features of which a box holds the last cell or all
    price: FloatArray,  # (m,) of one bound
    most: int,  # bounds of a box
    deepest: int,  # features of a box: 2 or 3
    room: FloatArray,  # ((largest + 1) ** 3,) sums of the rows below each corner
    best: FloatArray,  # (d, m) filled: worth of the best box that has the feature
    box: IntArray,  # (d, m, 9) filled: its (feature, first, last) three times; last < first: no condition
) -> None:
    """Every box with at most `most` bounds over at most three features, for every move."""
    d, n = codes.shape
    for f in range(d):
        for g in range(f, d):
            for h in range(g, d if deepest > 2 else g + 1):
                if (f == g) != (g == h) and f == g:
                    continue  # one feature: f = g = h; two: f < g = h; three: f < g < h
                a, b, c = sizes[f], (sizes[g] if g > f else 1), (sizes[h] if h > g else 1)
                for m in range(len(gains)):
                    for k in range((a + 1) * (b + 1) * (c + 1)):
                        room[k] = 0.0
                    for i in range(n):
                        y = codes[g, i] if g > f else 0
                        z = codes[h, i] if h > g else 0
                        room[((codes[f, i] + 1) * (b + 1) + y + 1) * (c + 1) + z + 1] += gains[m, i]
                    for x in range(1, a + 1):
                        for y in range(1, b + 1):
                            for z in range(1, c + 1):
                                k = (x * (b + 1) + y) * (c + 1) + z
                                up, left = (b + 1) * (c + 1), c + 1
                                room[k] += (
                                    room[k - up] + room[k - left] + room[k - 1]
                                    - room[k - up - left] - room[k - up - 1] - room[k - left - 1]
                                    + room[k - up - left - 1]
                                )  # fmt: skip
                    for x0 in range(a):
                        for x1 in range(x0 + 1, a + 1):
                            s = (1 if x0 > 0 else 0) + (1 if x1 < a else 0)
                            if s == 0 or s > most or (named[f] and x1 < a):
                                continue
                            for y0 in range(b):
                                for y1 in range(y0 + 1, b + 1):
                                    t = s + (1 if y0 > 0 else 0) + (1 if y1 < b else 0)
                                    if t > most or (g > f and (t == s or (named[g] and y1 < b))):
                                        continue
                                    for z0 in range(c):
                                        for z1 in range(z0 + 1, c + 1):
                                            u = t + (1 if z0 > 0 else 0) + (1 if z1 < c else 0)
                                            if u > most or (h > g and (u == t or (named[h] and z1 < c))):
                                                continue
                                            lo, hi = x0 * (b + 1), x1 * (b + 1)
                                            worth = (
                                                room[(hi + y1) * (c + 1) + z1] - room[(lo + y1) * (c + 1) + z1]
                                                - room[(hi + y0) * (c + 1) + z1] - room[(hi + y1) * (c + 1) + z0]
                                                + room[(lo + y0) * (c + 1) + z1] + room[(lo + y1) * (c + 1) + z0]
                                                + room[(hi + y0) * (c + 1) + z0] - room[(lo + y0) * (c + 1) + z0]
                                                - price[m] * u
                                            )  # fmt: skip
                                            for q in range(3):
                                                feature = f if q == 0 else (g if q == 1 else h)
                                                if worth > best[feature, m]:
                                                    best[feature, m] = worth
                                                    box[feature, m, 0] = f
                                                    box[feature, m, 1] = x0
                                                    box[feature, m, 2] = x1 - 1
                                                    box[feature, m, 3] = g
                                                    box[feature, m, 4] = y0
                                                    box[feature, m, 5] = y1 - 1 if g > f else -1
                                                    box[feature, m, 6] = h
                                                    box[feature, m, 7] = z0
                                                    box[feature, m, 8] = z1 - 1 if h > g else -1
