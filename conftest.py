"""What every doctest may use, and one thread for each worker: threads for small arrays wait more than they compute."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when numpy is first imported
os.environ.setdefault("POLARS_MAX_THREADS", "1")

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def _names_in_doctests(doctest_namespace: dict[str, object]) -> None:
    doctest_namespace["np"] = np
