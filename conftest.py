"""What every doctest may use."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def _names_in_doctests(doctest_namespace: dict[str, object]) -> None:
    doctest_namespace["np"] = np
