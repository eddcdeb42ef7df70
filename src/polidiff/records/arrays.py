"""Names for array types, and read-only views of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
AnyArray: TypeAlias = npt.NDArray[Any]


def object_column(values: Sequence[object]) -> AnyArray:
    """Values of any kind as one column (n, 1)."""
    column = np.empty((len(values), 1), dtype=object)
    column[:, 0] = values
    return column


def as_numbers(values: object) -> FloatArray | None:
    """Real numbers, in rows of the same length, as an array; None for anything else.

    >>> as_numbers([1, True]), as_numbers([[1], [2, 3]]), as_numbers(["a"]), as_numbers(1j)
    (array([1., 1.]), None, None, None)
    """
    try:
        array = np.asarray(values)
    except ValueError:
        return None
    return array.astype(np.float64, copy=False) if array.dtype.kind in "biuf" else None


def read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A view of `array` that cannot be written through.

    >>> read_only(np.zeros(2)).flags.writeable
    False
    """
    view = array.view()
    view.flags.writeable = False
    return view
