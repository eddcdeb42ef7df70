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


def branches(function: F) -> F:
    """As `loops`, for loops full of branches, which vector instructions do not help: a fifth sooner to compile."""
    _while_compiling().light.add(function)
    return loops(function)


def inner(function: F) -> F:
    """As `branches`, for a function that only compiled ones call: it becomes a part of them, and is not kept alone."""
    _while_compiling().light.add(function)
    return _compiled(function, keep=False, no_cpython_wrapper=True, **LOOPS)


LOOPS = {"no_cfunc_wrapper": True, "no_rewrites": True, "_nrt": False}


def _compiled(function: F, *, keep: bool = True, **options: bool) -> F:
    from numba import njit

    _while_compiling()
    try:
        return njit(function, nogil=True, error_model="numpy", cache=keep, **options)
    except RuntimeError:  # there is no file behind the function, or no folder that can be written
        return njit(function, nogil=True, error_model="numpy", **options)


@cache
def _while_compiling() -> Any:
    """Keeps the compiler to what is needed; as before once it is done, and for kernels of others.

    It makes many objects that live on, and looking through them for garbage takes a tenth of its time. Light kernels
    are optimised once over, without looking for vector instructions. numba has no such option per function: its pass
    manager reads the global settings at every compilation, so they are set for ours and put back.
    """
    from numba.core import config, event

    names = ("OPT", "LOOP_VECTORIZE", "SLP_VECTORIZE")

    class Restraint(event.Listener):
        def __init__(self) -> None:
            self.light: set[Callable[..., Any]] = set()
            self.before: list[tuple[bool, tuple[int, ...]]] = []

        def on_start(self, event: Any) -> None:
            self.before.append((gc.isenabled(), tuple(getattr(config, name) for name in names)))
            gc.disable()
            usual = self.before[0][1]
            light = event.data["dispatcher"].py_func in self.light
            self.set((type(config.OPT)(min(usual[0], 1)), 0, 0) if light else usual)

        def on_end(self, event: Any) -> None:
            collecting, settings = self.before.pop()
            self.set(settings)
            if collecting:
                gc.enable()

        def set(self, settings: tuple[int, ...]) -> None:
            for name, value in zip(names, settings, strict=True):
                setattr(config, name, value)

    listener = Restraint()
    event.register("numba:compile", listener)
    return listener
