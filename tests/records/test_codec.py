"""Records as JSON: the same bytes each time, and errors that name the place."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polidiff import Patch, evaluate, load
from polidiff.domains import chain
from polidiff.errors import InvalidResultError
from polidiff.records.codec import SCHEMAS, decode, dumps, encode, from_dict, load_json, save_json, to_dict
from polidiff.records.outcome import Evaluation, Interval
from polidiff.records.plan import CheckResult
from tests.strategies import patches

numbers = st.floats(allow_nan=False)
intervals = st.builds(Interval, numbers, numbers, numbers, st.floats(0, 1))
evaluations = st.builds(
    Evaluation,
    st.dictionaries(st.text(max_size=5), intervals, max_size=3),
    st.dictionaries(st.text(max_size=5), st.dictionaries(st.text(max_size=5), intervals, max_size=2), max_size=2),
    st.text(max_size=10),
    st.floats(0, 1),
    st.dictionaries(st.text(max_size=5), numbers, max_size=2),
)
checks = st.builds(CheckResult, st.booleans(), st.lists(st.text(), max_size=2).map(tuple))


@given(evaluations | checks | patches())
def test_a_record_comes_back_equal_and_with_the_same_bytes(record):
    text = dumps(record)
    back = from_dict(json.loads(text))
    assert back == record
    assert dumps(back) == text


def test_a_record_saved_and_loaded_has_the_same_bytes(tmp_path):
    told = evaluate(chain.world(), chain.proposed())
    first = save_json(told, tmp_path / "a.json").read_bytes()
    assert save_json(load(tmp_path / "a.json"), tmp_path / "b.json").read_bytes() == first


def test_what_json_lacks_becomes_words_and_comes_back():
    told = Interval(math.nan, -math.inf, math.inf, 0.95)
    form = encode(told)
    assert form == {"estimate": "nan", "low": "-inf", "high": "inf", "level": 0.95}
    back = decode(Interval, form, where="interval")
    assert math.isnan(back.estimate)
    assert (back.low, back.high) == (-math.inf, math.inf)


def test_arrays_and_numpy_numbers_become_plain_lists_and_numbers():
    assert encode({"a": np.array([[1.0, np.nan]]), "b": np.int64(3), "c": np.bool_(True)}) == {
        "a": [[1.0, "nan"]],
        "b": 3,
        "c": True,
    }
    with pytest.raises(TypeError, match="object has no JSON form"):
        encode(object())


def test_every_schema_is_registered_under_its_own_name():
    assert set(SCHEMAS) >= {"patch", "evaluation", "explanation", "frontier", "check"}
    assert all(cls.__schema__ == (name, version) for name, (cls, version) in SCHEMAS.items())


def damaged(**changes) -> dict:
    form = to_dict(Evaluation({"return": Interval.exactly(1.0)}, {}, "exact", 0.0))
    return {**form, **changes}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], 'expected a polidiff result with a "schema" entry'),
        ({"version": 1}, 'expected a polidiff result with a "schema" entry'),
        (damaged(schema="polidiff/poem"), "unknown schema 'polidiff/poem'"),
        (damaged(version=99), "this evaluation has version 99; this polidiff reads up to 1"),
        (damaged(version="1"), "the version of this evaluation must be a positive integer; got '1'"),
        (damaged(method=3), "evaluation.method must be str; got 3"),
        (damaged(truncated="none"), "evaluation.truncated must be a number; got 'none'"),
        (damaged(outcomes=[]), r"evaluation.outcomes must be an object; got \[\]"),
        (damaged(outcomes={"return": {"estimate": 1}}), "evaluation.outcomes.return.low is missing"),
        ({"schema": "polidiff/patch", "version": 1, "edits": [{}]}, r"patch.edits\[0\].rule is missing"),
        ({"schema": "polidiff/patch", "version": 1, "edits": 7}, "patch.edits must be a list; got 7"),
        ({"schema": "polidiff/check", "version": 1, "passed": 1, "reasons": []}, "check.passed must be bool; got 1"),
    ],
)
def test_damaged_results_are_named_in_one_line(data, message):
    with pytest.raises(InvalidResultError, match=message) as caught:
        from_dict(data)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b'{"schema": "polidiff/ev', b"\xff\xfe\x00", b"[" * 100_000, b""])
def test_files_that_are_cut_off_or_no_json_are_named(tmp_path, content):
    path = tmp_path / "result.json"
    path.write_bytes(content)
    with pytest.raises(InvalidResultError, match=r"result\.json") as caught:
        load_json(path)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(InvalidResultError, match=r"there is no file .*nothing\.json"):
        load(tmp_path / "nothing.json")


def test_a_patch_keeps_no_function_in_its_file():
    patch = Patch(features=lambda states: states)
    assert "features" not in {key for key in to_dict(patch) if key != "feature_names"}
    assert from_dict(to_dict(patch)).features is None
