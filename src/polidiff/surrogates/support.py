"""`min_support`: a count of what a decision rests on, or a share of what a rule speaks about."""

from __future__ import annotations

from typing import Any

import numpy as np

from polidiff.errors import InvalidOptionError


def check_support(value: Any) -> None:
    """A share below 1, or a count of at least 1, or nothing.

    >>> check_support(0.05), check_support(20), check_support(None)
    (None, None, None)
    """
    if value is None:
        return
    number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not (number and (0 < value < 1 or (value >= 1 and value % 1 == 0))):
        raise InvalidOptionError(
            f"min_support must be a whole number of at least 1 (a count) or a share below 1; got {value!r}"
        )


def split_support(value: float | None, default: int) -> tuple[float | None, int]:
    """`min_support` where it has two meanings: a share of what rules speak about, and a count of what they rest on.

    >>> split_support(0.05, 10), split_support(20, 10), split_support(None, 10)
    ((0.05, 10), (None, 20), (None, 10))
    """
    check_support(value)
    if value is not None and value < 1:
        return value, default
    return None, default if value is None else int(value)
