"""Independent tasks through joblib: the user chooses the engine, the answer stays the same.

Library code never names a back end or a number of workers. ``with joblib.parallel_config(backend="ray"): explain(…)``
decides both. Each task carries its own seed and runs with one BLAS thread, so that a plain loop, processes, Dask and
Ray give the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from polidiff.progress import report

T = TypeVar("T")


def run_tasks(function: Callable[..., T], tasks: Sequence[tuple[Any, ...]], *, what: str) -> list[T]:
    """``[function(*task) for task in tasks]`` on the workers that the user chose; serial by default."""
    from joblib import Parallel, delayed

    if len(tasks) == 1:
        return [_single_threaded(function, tasks[0])]
    pool = Parallel(return_as="generator")
    results = pool(delayed(_single_threaded)(function, task) for task in tasks)
    collected = []
    for result in results:
        collected.append(result)
        report(what, len(collected) / len(tasks))
    return collected


def _single_threaded(function: Callable[..., T], task: tuple[Any, ...]) -> T:
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1):
        return function(*task)
