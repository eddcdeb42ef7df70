"""The same script on two sets of linear algebra kernels, as two kinds of processor would choose them."""

from __future__ import annotations

import os
import subprocess
import sys

KERNELS = ("Haswell", "Prescott")


def printed_with_each(script: str) -> list[list[str]]:
    """The lines that a script prints, for each set of kernels."""
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", script],
            env={**os.environ, "OPENBLAS_CORETYPE": kernels},
            stdout=subprocess.PIPE,
            text=True,
        )
        for kernels in KERNELS
    ]
    return [run.communicate()[0].splitlines() for run in runs]
