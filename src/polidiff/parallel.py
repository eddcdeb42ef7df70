"""Independent tasks through joblib: the user chooses the engine, the answer stays the same.

Library code never names a back end or a number of workers. ``with joblib.parallel_config(backend="ray"): explain(…)``
decides both, or `polidiff.parallel` for the command line. Each task carries its own seed and runs with one BLAS thread,
so that a plain loop, processes, Dask and Ray give the same bytes. Answers come in the order of the tasks. A worker or
node that dies costs time only: what it had not answered is done again by the others.

Work that is soon done stays in this process, whatever the engine.
"""

from __future__ import annotations

import gc
import math
import sys
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, lru_cache
from multiprocessing import current_process
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from polidiff.errors import InvalidOptionError, MissingExtraError, WorkersLostError
from polidiff.progress import report

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

T = TypeVar("T")
Task: TypeAlias = tuple[Any, ...]  # arguments of one call
WAVE = 16  # tasks per worker that are done again if one of them loses its worker
SMALL_JOB = 2.0  # seconds that all tasks together may take before workers are asked
WORTH_SENDING = 0.05  # seconds of work that are sent together: sending costs about a millisecond
FEWEST_GROUPS = 64  # of tasks that are sent several at a time, so that many workers have something to do
PATIENCE = 3  # times in a row that an engine may fail without a single answer in between

_at_work: ContextVar[bool] = ContextVar("polidiff_at_work", default=False)  # whether this is a task on a worker
ENGINES = ("loky", "threading", "dask", "ray")


def run_tasks(function: Callable[..., T], tasks: Sequence[Task], *, what: str, quick: bool = False) -> list[T]:
    """``[function(*task) for task in tasks]`` on the workers that the user chose; serial by default.

    Tasks that may be `quick` are done in this process while all are to be soon done, as the first of them tell; the
    rest is sent, several at a time.
    """
    collected: list[T] = []
    for results in _in_groups(function, tasks, quick):
        collected += results
        if len(tasks) > 1:
            report(what, len(collected) / len(tasks))
    return collected


def _in_groups(function: Callable[..., T], tasks: Sequence[Task], quick: bool) -> Iterator[list[T]]:
    """The answers of all tasks in order, of some at a time."""
    done, pace = 0, math.inf
    if quick and len(tasks) > 1 and not _alone():
        done, pace = yield from _while_quick(function, tasks)
    rest = tasks[done:]
    size = max(1, min(math.ceil(WORTH_SENDING / max(pace, 1e-6)), len(rest) // FEWEST_GROUPS))
    yield from stream_tasks(_each, [(function, rest[first : first + size]) for first in range(0, len(rest), size)])


def _while_quick(function: Callable[..., T], tasks: Sequence[Task]) -> Generator[list[T], None, tuple[int, float]]:
    """Answers of tasks that are done here until the rest will take long; returns how many, and seconds for each."""
    done, pace, begin = 0, 0.0, time.perf_counter()
    while done < len(tasks) and pace * (len(tasks) - done) <= SMALL_JOB:
        yield [_single_threaded(function, tasks[done])]
        done += 1
        pace = (time.perf_counter() - begin) / done
    return done, pace


def _each(function: Callable[..., T], tasks: Sequence[Task]) -> list[T]:
    return [function(*task) for task in tasks]


def stream_tasks(function: Callable[..., T], tasks: Sequence[Task], *, threads: int = 1) -> Iterator[T]:
    """The answers of tasks one after the other, for those that are too large to be kept together.

    Where one process does it all, tasks that wait for files or run machine code may share it in `threads`.
    """
    if len(tasks) < 2 or _alone():
        yield from _in_this_process(function, tasks, threads)
        return
    if _on_dask():
        _check_sendable(function, tasks[0])  # it would wait for ever; the others say so
    done = failures = 0
    while done < len(tasks):
        try:
            with closing(_answers(function, tasks[done:])) as answers:
                for answer in answers:
                    failures = 0
                    done += 1
                    yield answer.value()
        except EngineFaultError as fault:
            _check_sendable(function, tasks[done])
            failures += 1
            if failures == PATIENCE:
                raise WorkersLostError(
                    f"workers failed {PATIENCE} times in a row at part {done + 1} of {len(tasks)}: {fault}. Hint: give "
                    "workers more memory or take fewer of them; what is sent to them must survive pickling"
                ) from fault


def _in_this_process(function: Callable[..., T], tasks: Sequence[Task], threads: int) -> Generator[T, None, None]:
    if threads == 1 or len(tasks) < 2:
        for task in tasks:
            yield _single_threaded(function, task)
        return
    begun: deque[Future[T]] = deque()
    with one_blas_thread(), ThreadPoolExecutor(threads) as pool:
        try:
            for task in tasks:
                begun.append(pool.submit(function, *task))
                if len(begun) == threads:
                    yield begun.popleft().result()
            while begun:
                yield begun.popleft().result()
        finally:
            for unwanted in begun:
                unwanted.cancel()


def _alone() -> bool:
    """Whether one process here is to do it all: a cluster with a single worker is still one, a task on it is alone."""
    from joblib.parallel import get_active_backend

    if _at_work.get():
        return True
    backend, workers = get_active_backend()
    here = type(backend).__module__ == "joblib._parallel_backends"
    return here and backend.effective_n_jobs(1 if workers is None else workers) == 1


def _on_dask() -> bool:
    from joblib.parallel import get_active_backend

    return type(get_active_backend()[0]).__module__ == "joblib._dask"


def _check_sendable(function: Callable[..., T], task: Task) -> None:
    """An error in one line if a task cannot leave this process, which no second try would mend."""
    try:
        from cloudpickle import dumps
    except ImportError:  # joblib before 1.6 brings its own
        from joblib.externals.cloudpickle import dumps
    try:
        dumps((function, task))
    except Exception as error:
        said = " ".join(str(error).split())[:200]
        raise WorkersLostError(
            f"what the work needs cannot be sent to workers: {said}. Hint: what is sent must survive pickling: "
            "leave open files, locks and handles to devices out of what environments and policies pickle, also after "
            "they were used; without an engine nothing is sent"
        ) from error


class EngineFaultError(Exception):
    """What a back end says when a worker is lost; never what a task says."""


@dataclass(frozen=True)
class Answer(Generic[T]):
    """What a task returned or raised, told apart from what the engine raises."""

    result: T | None
    error: Exception | None = None

    def value(self) -> T:
        """The result; raises what the task raised."""
        if self.error is not None:
            raise self.error
        return self.result  # type: ignore[return-value]


def _answers(function: Callable[..., T], tasks: Sequence[Task]) -> Generator[Answer[T], None, None]:
    from joblib.parallel import Parallel, delayed, get_active_backend

    calls = [delayed(_answer)(function, task) for task in tasks]
    try:
        if get_active_backend()[0].supports_return_generator:
            yield from Parallel(return_as="generator")(calls)
        else:
            yield from _in_waves(calls)
    except GeneratorExit:
        raise
    except Exception as error:
        raise EngineFaultError(f"{type(error).__name__}: {' '.join(str(error).split())[:200]}") from error


def _in_waves(calls: list[Callable[..., Answer[T]]]) -> Iterator[Answer[T]]:
    """Answers from an engine that gives none before all are there (Ray): some tasks at a time, on the nodes it has."""
    from joblib.parallel import Parallel, get_active_backend

    backend, asked = get_active_backend()
    workers = max(1, min(backend.effective_n_jobs(-1 if asked is None else asked), backend.effective_n_jobs(-1)))
    with Parallel(n_jobs=workers) as pool:
        for first in range(0, len(calls), WAVE * workers):
            yield from pool(calls[first : first + WAVE * workers])


def _answer(function: Callable[..., T], task: Task) -> Answer[T]:
    token = _at_work.set(True)
    try:
        return Answer(_single_threaded(function, task))
    except Exception as error:
        return Answer(None, error)
    finally:
        _at_work.reset(token)
        if type(current_process()).__name__ == "LokyProcess":
            _leave_alone_what_is_loaded(len(sys.modules))


@cache
def _leave_alone_what_is_loaded(modules: int) -> None:
    """Once for every number of loaded modules: a process of loky looks for garbage every second.

    Looking through all that numpy, scikit-learn and numba have made takes it a tenth of a second each time.
    """
    gc.collect()
    gc.freeze()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Linear algebra on one thread: sums in one order on every machine, and no threads that wait for each other.

    On a machine whose cores are busy, small solves on several threads took ten times the computing of one.
    """
    import scipy.linalg  # noqa: F401  brings a library of its own; what is loaded later would not be limited

    with _thread_pools(len(sys.modules)).limit(limits=1):
        yield


@lru_cache(maxsize=1)
def _thread_pools(modules: int) -> ThreadpoolController:
    """Libraries that have threads, looked for again, which takes milliseconds, only after modules were loaded."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def _single_threaded(function: Callable[..., T], task: Task) -> T:
    with one_blas_thread():
        return function(*task)


@contextmanager
def on_engine(engine: str | None = None, *, workers: int | None = None, address: str | None = None) -> Iterator[None]:
    """Run the work inside on an engine: processes here, or a Dask or Ray cluster, started here if none is named."""
    if engine is None and workers is None and address is None:
        yield
        return
    if workers is not None and workers < 1:
        raise InvalidOptionError(f"workers must be at least 1; got {workers}")
    name = "loky" if engine is None else engine
    if name not in ENGINES:
        raise InvalidOptionError(f"engine must be one of {', '.join(ENGINES)}; got {name!r}")
    if address is not None and name not in ("dask", "ray"):
        raise InvalidOptionError(f"an address belongs to dask or ray; the engine is {name}")
    from joblib import parallel_config

    with ExitStack() as stack:
        if name in ("dask", "ray"):
            {"dask": _join_dask, "ray": _join_ray}[name](stack, workers, address)
        stack.enter_context(parallel_config(backend=name, n_jobs=-1 if workers is None else workers))
        yield


def _join_dask(stack: ExitStack, workers: int | None, address: str | None) -> None:
    try:
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise MissingExtraError("distributed", "dask") from error
    if address is None:
        address = stack.enter_context(LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None))
    try:
        stack.enter_context(Client(address, timeout=30))
    except OSError as error:
        raise InvalidOptionError(f"no Dask scheduler answers at {address}: {error}") from error


def _join_ray(stack: ExitStack, workers: int | None, address: str | None) -> None:
    try:
        import ray
        from ray.util.joblib import register_ray
    except ImportError as error:
        raise MissingExtraError("ray", "ray") from error
    register_ray()
    if ray.is_initialized():
        return
    try:
        ray.init(address=address or "local", num_cpus=None if address else workers, include_dashboard=False,
                 log_to_driver=False, logging_level="error")  # fmt: skip
    except ConnectionError as error:
        raise InvalidOptionError(f"no Ray cluster answers at {address}: {error}") from error
    stack.callback(ray.shutdown)
