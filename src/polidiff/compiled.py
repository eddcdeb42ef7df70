"""Loops that are compiled on first use and kept on disk.

Compiling needs no compiler on the machine: numba brings its own. It costs a first user some tenths of a second per
kernel, and later processes read the machine code from a folder next to the source (or in the user's cache where that
is read-only). Modules with kernels are imported inside the functions that call them, so that ``import polidiff`` and
work that needs no kernel never load numba.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, TypeVar

from polidiff.errors import PolidiffWarning

if TYPE_CHECKING:
    from numba.core.caching import FunctionCache

F = TypeVar("F", bound=Callable[..., object])


def kernel(function: F) -> F:
    """A function over arrays and numbers as machine code, without the interpreter's lock.

    No reordering of sums and no fused operations: the same input gives the same bytes on every worker. Division by
    zero gives what numpy gives. Arrays are copied entry by entry: assigning a whole one takes two seconds to compile.

    >>> @kernel
    ... def total(values):
    ...     sum_ = 0.0
    ...     for value in values:
    ...         sum_ += value
    ...     return sum_
    >>> total(np.array([1.0, 2.0]))
    3.0
    """
    return _compiled(function)


def loops(function: F) -> F:
    """As `kernel`, for a function that only loops over the arrays it is given: about an eighth sooner to compile.

    It may neither make arrays nor compute with whole ones.
    """
    return _compiled(function, **LOOPS)


def inner(function: F) -> F:
    """As `loops`, for a function that only compiled ones call: it becomes a part of them, and is not kept alone."""
    return _compiled(function, keep=False, no_cpython_wrapper=True, **LOOPS)


LOOPS = {"no_cfunc_wrapper": True, "no_rewrites": True, "_nrt": False}


def _compiled(function: F, *, keep: bool = True, **options: bool) -> F:
    from numba import njit

    compiled = njit(function, nogil=True, error_model="numpy", **options)
    if keep:
        with suppress(RuntimeError):  # there is no file behind the function, or no folder that can be written
            compiled._cache = _forgiving_cache()(function)
    return compiled


@cache
def _forgiving_cache() -> type[FunctionCache]:
    """The class of numba's caches on disk, but a file that is cut or cannot be written costs a compilation, no more."""
    from numba.core.caching import FunctionCache

    class ForgivingCache(FunctionCache):
        silent = False

        def load_overload(self, sig: object, target_context: object) -> object:
            try:
                return super().load_overload(sig, target_context)
            except Exception as error:
                with suppress(OSError):
                    self.flush()  # an empty index in place of the damaged one, so that the code is kept again
                self.say("read", error)
                return None

        def save_overload(self, sig: object, data: object) -> None:
            try:
                super().save_overload(sig, data)
            except Exception as error:
                self.say("kept", error)

        def say(self, what: str, error: Exception) -> None:
            if not ForgivingCache.silent:  # one line per process is enough
                ForgivingCache.silent = True
                fault = f"compiled code cannot be {what} in {self.cache_path} ({type(error).__name__}: {error})"
                warnings.warn(f"{fault}; it is compiled again, which takes seconds", PolidiffWarning, stacklevel=2)

    return ForgivingCache
