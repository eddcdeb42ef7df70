"""What `import polidiff` costs and brings in, measured in fresh interpreters."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import polidiff

HEAVY = (
    "altair",
    "gymnasium",
    "highspy",
    "icu_sepsis",
    "jinja2",
    "joblib",
    "narwhals",
    "onnxruntime",
    "pandas",
    "polars",
    "pyarrow",
    "rich",
    "scipy",
    "sklearn",
    "torch",
    "vl_convert",
)


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout


def seconds_to_import(module: str) -> float:
    code = f"import time; start = time.process_time(); import {module}; print(time.process_time() - start)"
    return float(run(code))


def test_importing_costs_little_more_than_numpy():
    """At most 1.3 times `import numpy` plus 50 ms, of processor time at best of seven, taken in turns."""
    pairs = [(seconds_to_import("numpy"), seconds_to_import("polidiff")) for _ in range(7)]
    numpy, ours = (min(times) for times in zip(*pairs, strict=True))
    assert ours <= 1.3 * numpy + 0.05, f"numpy {numpy:.3f} s, polidiff {ours:.3f} s"


def test_importing_brings_in_no_heavy_library():
    loaded = json.loads(run("import polidiff, sys, json; print(json.dumps(sorted(sys.modules)))"))
    assert {name.split(".")[0] for name in loaded} & set(HEAVY) == set()


def test_a_table_is_evaluated_without_data_frames_charts_or_environments():
    code = (
        "import sys, json; from polidiff import evaluate; from polidiff.domains import chain; "
        "evaluate(chain.world(), chain.current()); print(json.dumps(sorted(sys.modules)))"
    )
    loaded = {name.split(".")[0] for name in json.loads(run(code))}
    assert loaded & (set(HEAVY) - {"scipy", "joblib"}) == set()


@pytest.mark.parametrize("name", polidiff.__all__)
def test_every_public_name_is_found(name):
    assert getattr(polidiff, name) is not None
    assert name in dir(polidiff)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'explane'"):
        _ = polidiff.explane


@pytest.mark.skipif(
    not (Path(polidiff.__file__).parent / "cli" / "main.py").exists(), reason="this build has no command line"
)
def test_help_on_the_command_line_imports_no_numpy():
    code = (
        "import sys\n"
        "from polidiff.cli.main import main\n"
        "try:\n    main(['--help'])\n"
        "except SystemExit as end:\n    assert not end.code\n"
        "print('numpy' in sys.modules)"
    )
    assert run(code).splitlines()[-1] == "False"
