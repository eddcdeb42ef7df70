"""Compiled loops agree with the interpreter's, to the byte, wherever their source comes from."""

from __future__ import annotations

import resource
import subprocess
import sys
import warnings

import numpy as np
import pytest

from polidiff.compiled import _forgiving_cache, inner, kernel, loops


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


def test_a_kernel_that_calls_another_is_the_interpreters_to_the_byte():
    values = np.random.default_rng(1).normal(size=10_000)
    assert loops(positive_squares)(values) == running_total(np.maximum(values, 0.0))


def test_a_function_without_a_file_is_compiled_and_not_kept():
    assert kernel(without_file("double", "def double(x):\n    return 2.0 * x"))(2.0) == 4.0


@pytest.fixture
def code(tmp_path, monkeypatch):
    """A folder of its own for machine code, in a process that has said nothing yet."""
    monkeypatch.setattr("numba.core.config.CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(_forgiving_cache(), "silent", False)
    return tmp_path


def compiled_and_said():
    """What was said while two functions were compiled or read."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert (kernel(running_total)(np.arange(3.0)), loops(positive_squares)(np.arange(-1.0, 3.0))) == (5.0, 5.0)
    return [str(warning.message) for warning in said]


@pytest.mark.parametrize(("ending", "share"), [("nbi", 0.0), ("nbi", 0.5), ("nbc", 0.0), ("nbc", 0.9)])
def test_code_that_was_cut_is_compiled_again_with_one_line_and_kept_again(code, ending, share):
    assert compiled_and_said() == []
    for file in code.rglob(f"*.{ending}"):
        file.write_bytes(file.read_bytes()[: int(share * file.stat().st_size)])
    assert ["compiled code cannot be read" in line for line in compiled_and_said()] == [True]
    assert compiled_and_said() == []


def test_where_files_may_not_grow_code_is_compiled_and_not_kept(code):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (512, before[1]))
    try:
        said = compiled_and_said()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert ["compiled code cannot be kept" in line for line in said] == [True]
    assert not list(code.rglob("*.nbc"))


def test_importing_the_package_loads_no_compiler():
    code = "import sys, polidiff, polidiff.compiled; print('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
