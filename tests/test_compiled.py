"""Compiled loops agree with the interpreter's, to the byte, wherever their source comes from."""

from __future__ import annotations

import gc
import subprocess
import sys

import numpy as np
from numba import njit
from numba.core import config, event

from polidiff.compiled import branches, inner, kernel


def running_total(values):
    found = 0.0
    for value in values:
        found += value * value
    return found


def test_a_compiled_sum_is_the_interpreters_to_the_byte():
    values = np.random.default_rng(0).normal(size=10_000)
    assert kernel(running_total)(values) == running_total(values)


@inner
def squared(value):
    return value * value


def positive_squares(values):
    found = 0.0
    for value in values:
        if value > 0:
            found += squared(value)
    return found


def without_file(name, text):
    """A function that is compiled in every run, because no machine code is kept of it."""
    made = {"squared": inner(squared.py_func)}
    exec(text, made)
    return made[name]


def test_a_light_kernel_is_the_interpreters_to_the_byte():
    values = np.random.default_rng(1).normal(size=10_000)
    assert branches(positive_squares)(values) == running_total(np.maximum(values, 0.0))


def test_only_light_kernels_are_optimised_lightly_and_the_settings_come_back():
    class Seen(event.Listener):
        def on_start(self, event):
            settings[event.data["dispatcher"].py_func.__name__] = (config.OPT, config.LOOP_VECTORIZE)

        def on_end(self, event):
            pass

    settings, usual = {}, (config.OPT, config.LOOP_VECTORIZE)
    with event.install_listener("numba:compile", Seen()):
        assert kernel(without_file("double", "def double(x):\n    return 2.0 * x"))(2.0) == 4.0
        assert branches(without_file("fourth", "def fourth(x):\n    return squared(squared(x))"))(2.0) == 16.0
        assert njit(without_file("triple", "def triple(x):\n    return 3.0 * x"))(2.0) == 6.0
    assert settings["fourth"] == settings["squared"] == (1, 0)
    assert settings["double"] == settings["triple"] == usual == (config.OPT, config.LOOP_VECTORIZE)


def test_a_function_without_a_file_is_compiled_and_not_kept():
    assert kernel(without_file("double", "def double(x):\n    return 2.0 * x"))(2.0) == 4.0


def test_garbage_is_collected_again_after_compiling():
    assert kernel(running_total)(np.ones(3)) == 3.0
    assert gc.isenabled()


def test_importing_the_package_loads_no_compiler():
    code = "import sys, polidiff, polidiff.compiled; print('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
