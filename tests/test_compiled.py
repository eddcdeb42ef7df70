"""Compiled loops agree with the interpreter's, to the byte, wherever their source comes from."""

from __future__ import annotations

import gc
import subprocess
import sys

import numpy as np

from polidiff.compiled import kernel


def running_total(values):
    found = 0.0
    for value in values:
        found += value * value
    return found


def test_a_compiled_sum_is_the_interpreters_to_the_byte():
    values = np.random.default_rng(0).normal(size=10_000)
    assert kernel(running_total)(values) == running_total(values)


def test_a_function_without_a_file_is_compiled_and_not_kept():
    made: dict[str, object] = {}
    exec("def double(x):\n    return 2.0 * x", made)
    assert kernel(made["double"])(2.0) == 4.0


def test_garbage_is_collected_again_after_compiling():
    assert kernel(running_total)(np.ones(3)) == 3.0
    assert gc.isenabled()


def test_importing_the_package_loads_no_compiler():
    code = "import sys, polidiff, polidiff.compiled; print('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
