"""Engines by name, for the command line: processes here, or a Dask or Ray cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from polidiff.errors import InvalidOptionError, MissingExtraError

ENGINES = ("loky", "threading", "dask", "ray")


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
