"""The worked examples run, and say what they are there to say."""

from __future__ import annotations

import importlib.util
import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"

NEEDS = {
    "frozen_lake": (["gymnasium"], "left instead of down"),
    "sepsis": (["icu_sepsis"], "0.787 now,    0.875 proposed"),
    "behaviour_clone": (["gymnasium", "sklearn"], "Over all starts: fewer steps in balance (by "),
    "two_outcomes": (["mo_gymnasium"], "a richer treasure (by 13.3) but a longer dive (by 6)"),
    "torch_module": (["torch", "gymnasium"], "instead of coast"),
    "sb3_checkpoints": (["stable_baselines3"], "Over all starts: more steps in balance (by "),
    "lunar_lander": (["Box2D"], "Over all starts: fewer bursts of the main engine (by "),
}
QUICK = ["frozen_lake", "sepsis", "two_outcomes"]
OTHERS = [pytest.param(name, marks=pytest.mark.slow if name == "behaviour_clone" else pytest.mark.adapters)
          for name in NEEDS if name not in QUICK]  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [*QUICK, *OTHERS])
def test_an_example_prints_something_worth_reading(name, tmp_path, monkeypatch, capsys):
    libraries, expected = NEEDS[name]
    missing = [library for library in libraries if importlib.util.find_spec(library) is None]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}")
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    assert expected in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


def test_every_example_is_run():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(NEEDS)
