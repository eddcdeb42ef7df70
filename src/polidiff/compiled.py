"""Loops that are compiled on first use and kept on disk.

Compiling needs no compiler on the machine: numba brings its own. It costs a first user some tenths of a second per
kernel, and later processes read the machine code from a folder next to the source (or in the user's cache where that
is read-only). Modules with kernels are imported inside the functions that call them, so that ``import polidiff`` and
work that needs no kernel never load numba.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """A function over arrays and numbers as machine code, without the interpreter's lock.

    No reordering of sums and no fused operations: the same input gives the same bytes on every worker. Division by
    zero gives what numpy gives.

    >>> @kernel
    ... def total(values):
    ...     found = 0.0
    ...     for value in values:
    ...         found += value
    ...     return found
    >>> total(np.array([1.0, 2.0]))
    3.0
    """
    return _compiled(function)


def loops(function: F) -> F:
    """As `kernel`, for a function that only loops over the arrays it is given: about an eighth sooner to compile.

    It may neither make arrays nor compute with whole ones.
    """
    return _compiled(function, no_cfunc_wrapper=True, no_rewrites=True, _nrt=False)


def _compiled(function: F, **options: bool) -> F:
    from numba import njit

    _collect_no_garbage_while_compiling()
    try:
        return njit(function, nogil=True, error_model="numpy", cache=True, **options)
    except RuntimeError:  # there is no file behind the function, or no folder that can be written
        return njit(function, nogil=True, error_model="numpy", **options)


@cache
def _collect_no_garbage_while_compiling() -> None:
    """A compiler makes many objects that live on; looking through them for garbage takes a tenth of its time."""
    from numba.core import event

    class Pause(event.Listener):
        depth, collecting = 0, False

        def on_start(self, event: Any) -> None:
            if self.depth == 0:
                self.collecting = gc.isenabled()
                gc.disable()
            self.depth += 1

        def on_end(self, event: Any) -> None:
            self.depth -= 1
            if self.depth == 0 and self.collecting:
                gc.enable()

    event.register("numba:compile", Pause())
