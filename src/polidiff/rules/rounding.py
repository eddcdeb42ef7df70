"""Bounds that people can read: the shortest decimal between two neighbouring samples."""

from __future__ import annotations

import math


def readable_bound(below: float, above: float) -> float:
    """The shortest decimal t with below < t ≤ above; among equally short ones the nearest to the middle.

    >>> readable_bound(0.19996, 0.2004), readable_bound(3, 4), readable_bound(0.11, 0.92), readable_bound(97, 250)
    (0.2, 4.0, 0.5, 200.0)
    >>> readable_bound(-math.inf, 0.7), readable_bound(-0.2, 0.7)
    (0.7, 0.0)
    """
    if not (math.isfinite(below) and math.isfinite(above)) or not below < above:
        return above
    middle = below + (above - below) / 2
    if below < 0 <= above:
        return 0.0
    exponent = math.floor(math.log10(max(abs(below), abs(above)))) + 1
    for digits in range(-exponent, 18 - exponent):
        bound = _nearest_multiple(below, middle, above, digits)
        if bound is not None:
            return bound
    return middle if below < middle else above


def _nearest_multiple(below: float, middle: float, above: float, digits: int) -> float | None:
    scale = 10.0**digits
    first = math.floor(below * scale)
    last = math.ceil(above * scale)
    if last - first > 1000:
        first, last = math.floor(middle * scale), math.ceil(middle * scale)
    found = (round(k / scale, max(digits, 0)) for k in range(first, last + 1))
    inside = [bound for bound in found if below < bound <= above]
    return min(inside, key=lambda bound: (abs(bound - middle), bound)) if inside else None
