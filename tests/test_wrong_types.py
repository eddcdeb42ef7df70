"""Any value for any argument of the Python functions: it is taken, or refused in one line. Nothing else."""

from __future__ import annotations

import contextlib
import warnings
from functools import cache

import numpy as np
import polars as pl
import pytest

from polidiff import (
    Log,
    Outcome,
    Patch,
    Simulator,
    TabularMDP,
    as_policy,
    changelog,
    check,
    compare,
    evaluate,
    explain,
    improve,
    load,
)
from polidiff.errors import PolidiffError
from polidiff.rules import RuleClassifier

VALUES = {
    "nothing": None,
    "yes": True,
    "a whole float": 2.0,
    "beyond all counts": 10**30,
    "no number": float("nan"),
    "endless": float("inf"),
    "a text": "x",
    "bytes": b"ab",
    "an empty list": [],
    "an empty dict": {},
    "texts": ["a", "b"],
    "nothings": [None, None],
    "uneven rows": [[1, 2], [3]],
    "nested": [[[]]],
    "a set": {1, 2},
    "an object": object(),
    "a complex number": 1j,
    "complex numbers": np.array([1j, 2]),
    "one number as an array": np.array(3),
    "numbers that are none": np.full(2, np.nan),
    "objects": np.array([object(), None], dtype=object),
    "dates": np.array(["2020-01-01"], dtype="M8[D]"),
    "a column": pl.Series([1, 2]),
}
MOVES = np.array([[[0.5, 0.5], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]])
ROWS = pl.DataFrame({"x": [1, 2, 3, 4] * 5, "a": ["go", "stop"] * 10, "r": [0.0, 1.0, 2.0, 3.0] * 5})


def table(**given) -> TabularMDP:
    own = {
        "transitions": MOVES,
        "rewards": np.ones((2, 2)),
        "initial": [1, 0],
        "absorbing": [1],
        "features": [[0], [1]],
    }
    return TabularMDP(**{**own, "actions": ["stay", "go"], "feature_names": ["x"], **given})


def log(**given) -> Log:
    return Log(**{"source": ROWS, "state": ["x"], "action": "a", "reward": "r", **given})


class Walk:
    """A model of one step."""

    n_actions = 2

    def reset(self, count, rng):
        return rng.random((count, 1))

    def step(self, states, actions, rng):
        return states, actions * 1.0, np.ones(len(states), dtype=bool)


@cache
def difference():
    return explain(table(), [0, 0], [1, 0])


def asked(world, **given):
    return explain(world, given.pop("current", [0, 0]), given.pop("proposed", [1, 0]), **given)


X, Y = np.arange(20.0).reshape(10, 2), np.arange(10) > 4
TABLE = (
    "transitions rewards initial absorbing actions states features feature_names allowed discount outcomes return_name"
)
EXPLAIN = (
    "level max_rules policy_tolerance transition_tolerance max_splits max_steps starts seed style min_group classifier"
)
IMPROVE = (
    "candidates budget unit max_states max_rules max_conditions max_literals moves fallback min_support keep freeze"
)
RULES = "form clause_cost literal_cost overlap_cost max_rules max_bins max_samples refine proof_budget time_limit"
DOORS = {
    "table": (table, f"{TABLE} include_return return_range"),
    "log": (log, "source state action episode step reward terminated probability group missing outcomes return_range"),
    "simulator": (lambda **given: Simulator(**{"env": Walk(), **given}), "horizon actions feature_names outcomes"),
    "outcome": (
        lambda **given: evaluate(table(outcomes=[Outcome(**{"name": "o", "of": 1.0, **given})]), [0, 0]),
        "name of prefer margin more less unit range",
    ),
    "outcome of a log": (lambda **given: log(outcomes=[Outcome(**{"name": "o", "of": "r", **given})]), "of range"),
    "explain": (lambda **given: asked(table(), **given), f"current proposed outcomes evaluation {EXPLAIN}"),
    "improve": (
        lambda **given: improve(table(), given.pop("current", [0, 0]), **given),
        f"current {IMPROVE} change_cost gap level seed pessimism min_group",
    ),
    "evaluate": (
        lambda **given: evaluate(table(), **{"policy": [0, 0], **given}),
        "policy outcomes level seed episodes",
    ),
    "check": (
        lambda **given: check(**{"explanation": difference(), **given}),
        "explanation max_changes keep allow_unknown",
    ),
    "changelog": (lambda policies: changelog(table(), policies), "policies"),
    "compare": (lambda **given: compare(**{"old": difference(), "new": difference(), **given}), "old new"),
    "load": (load, "path"),
    "save": (lambda path: difference().save(path), "path"),
    "case": (lambda state: difference().case(state), "state"),
    "as_policy": (lambda obj=(0, 1), **given: as_policy(obj, **{"n_actions": 2, **given}), "obj n_actions actions"),
    "from_dict": (Patch.from_dict, "data"),
    "apply": (lambda policy: difference().patch.apply(policy), "policy"),
    "rules": (lambda **given: RuleClassifier(**given).fit(X, Y), RULES),
}


@pytest.mark.parametrize("door", DOORS)
def test_whatever_is_given_is_taken_or_refused_in_one_line(door, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    call, names = DOORS[door]
    for name in names.split():
        for what, value in VALUES.items():
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                warnings.filterwarnings("ignore", message="an edit replaces|No rules for class")
                assert "\n" not in refusal(call, name, value), (name, what)


def refusal(call, name, value) -> str:
    try:
        call(**{name: value})
    except PolidiffError as error:
        return str(error)
    except Exception as error:
        raise AssertionError(f"{name} = {value!r}: {type(error).__name__}: {error}") from error
    return ""


def test_a_number_for_a_path_opens_no_stream(capfd):
    with contextlib.suppress(PolidiffError):
        load(1)
    print("stdout is still open", flush=True)
    assert "still open" in capfd.readouterr().out


def test_a_table_whose_starts_have_all_ended_is_refused():
    with pytest.raises(PolidiffError, match="needs a start in which something is decided; all 1 are absorbing"):
        table(initial=[0, 1])
