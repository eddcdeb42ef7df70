"""The engines, each started once: processes here, Dask with two workers, Ray with two nodes."""

from __future__ import annotations

import logging
import os
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import joblib
import pytest

HERE = Path(__file__).parent
START_SECONDS = 30


@pytest.fixture(scope="session", autouse=True)
def importable():
    """Workers find `faults` by name."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(HERE), before]))
    sys.path.insert(0, str(HERE))
    yield
    sys.path.remove(str(HERE))
    if before is None:
        del os.environ["PYTHONPATH"]
    else:
        os.environ["PYTHONPATH"] = before


@pytest.fixture(scope="session")
def dask_cluster():
    distributed = pytest.importorskip("distributed")
    began = time.monotonic()
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        assert len(client.run(os.getpid)) == 2
        assert time.monotonic() - began < START_SECONDS
        yield client


@pytest.fixture(scope="session")
def ray_cluster():
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster
    from ray.util.joblib import register_ray

    register_ray()
    began = time.monotonic()
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    cluster.add_node(num_cpus=1)
    ray.init(address=cluster.address, log_to_driver=False, logging_level="error")
    assert ray.cluster_resources()["CPU"] == 2
    assert time.monotonic() - began < START_SECONDS
    yield cluster
    ray.shutdown()
    cluster.shutdown()


@pytest.fixture
def engine(request):
    """A context in which work runs on the engine of this name."""

    @contextmanager
    def on(name):
        if name in ("dask", "ray"):
            request.getfixturevalue(f"{name}_cluster")
        if name == "dask":
            _wait_for_two(request.getfixturevalue("dask_cluster"))
        with joblib.parallel_config(backend=name, n_jobs=2):
            yield

    return on


def _wait_for_two(client):
    """Two workers: one may have been killed by the last test, and not every nanny brings it back."""
    try:
        client.wait_for_workers(2, timeout=20)
    except TimeoutError:
        client.cluster.scale(len(client.cluster.worker_spec) + 1)
        client.wait_for_workers(2, timeout=START_SECONDS)
