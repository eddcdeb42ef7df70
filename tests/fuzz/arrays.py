"""Policies and tables of a world as files: arrays of every type and shape, headers that lie, archives, pickles."""

from __future__ import annotations

import base64
import contextlib
import io
import pickle
import re
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from polidiff import as_policy, explain
from polidiff.cli.loading import load_world
from polidiff.cli.study import Study
from tests.fuzz import seeds
from tests.fuzz.judge import FailureError, written
from tests.fuzz.mutate import as_json, damaged, mostly_whole, mutated


class Harm:
    """Runs code when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _harm, ()


def _harm() -> None:
    raise FailureError("code in a file was run", "by unpickling")


ARRAYS = (
    np.array([0, 1, 1]),
    np.array([[0.5, 0.5], [1.0, 0.0]]),
    np.array([0.0, 1.0, np.nan]),
    np.array([2**62, 0]),
    np.array([[np.inf, -np.inf]]),
    np.zeros((0,)),
    np.zeros((0, 2)),
    np.zeros((3, 0)),
    np.zeros((1, 1, 2)),
    np.array(1.0),
    np.array(["a", "b"]),
    np.array([b"a"]),
    np.array([1 + 2j, 0]),
    np.array([True, False]),
    np.array([-1, 0]),
    np.array(["2020-01-01"], dtype="datetime64[D]"),
    np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]),
    np.array([Harm()], dtype=object),
    np.array([1e300, 0]),
    np.array([0.5, 1.5]),
    np.array([[1e308, 1e308]]),
    np.array([255, 0], dtype=np.uint8),
    np.array([2**64 - 1], dtype=np.uint64),
    np.zeros(3, dtype="V8"),
    np.array([[0.5, 0.5]], dtype=np.float16),
    np.array([[0.5, 0.5]], dtype=">f8"),
)
SHAPES = (b"(99999999999,)", b"(-1,)", b"(3, 10000000000)", b"(1,,,,,)", b"()", b"(1e3,)", b"(2**70,)", b"[3]", b"((((")
CELLS = ("0", "1", "0.5", "1.0", "nan", "inf", "", "x", "1e999", "-1", '"', '"1"', "1_0", "٣", "\x00", "9" * 200)


def npy(array: Any) -> bytes:
    """An array as .npy, objects pickled."""
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.asanyarray(array), allow_pickle=True)
    return stream.getvalue()


def npz(members: list[tuple[str, bytes]]) -> bytes:
    """An archive."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return stream.getvalue()


def lying(shape: bytes) -> bytes:
    """Three numbers under a header that says otherwise."""
    return re.sub(rb"\(3,\), } *", lambda found: (shape + b", }").ljust(len(found[0])), npy(ARRAYS[0]), count=1)


_table_patch = seeds.patches_by_hand()["table"]
STORED = (
    {"schema": "polidiff/policy", "version": 1, "table": [[1.0, 0.0], [0.5, 0.5]]},
    {"policy": [0, 1, 1]},
    {"schema": "polidiff/policy", "version": 1, "base": [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]], "patch": _table_patch},
    {"schema": "polidiff/policy", "version": 1, "base": "policy.json", "patch": _table_patch},
    [[0.5, 0.5], [1, 0]],
    [0, 1, 0],
)
# x @ identity, softmax: written with onnx.helper, which not every environment has
ONNX = base64.b64decode(
    "CAg6ggEKEQoBeAoBdxIBeSIGTWF0TXVsChsKAXkSDXByb2JhYmlsaXRpZXMiB1NvZnRtYXgSAWcqGwgCCAIQASIQAACAPwAAAAAAAAAA"
    "AACAP0IBd1oRCgF4EgwKCggBEgYKAAoCCAJiHQoNcHJvYmFiaWxpdGllcxIMCgoIARIGCgAKAggCQgQKABAN"
)
_npy_bytes = mostly_whole(st.sampled_from(ARRAYS).map(npy) | st.sampled_from(SHAPES).map(lying))
_members = st.sampled_from(("policy.npy", "table.npy", "x.npy", "policy", "../up.npy", "a/b.npy", "x.txt"))
_npz_bytes = st.lists(st.tuples(_members, _npy_bytes), max_size=3, unique_by=lambda member: member[0]).map(npz)
_cells = st.sampled_from(CELLS) | st.just(140_000).map("z".__mul__)
_rows = st.lists(st.lists(_cells, max_size=4).map(",".join), max_size=6).map("\n".join)
_heads = st.sampled_from(("", "action\n", "state,action\n", "a,b\n", "state,state\n"))
_pickled = st.just(pickle.dumps(Harm()))
policies = st.one_of(
    st.tuples(st.just(".npy"), _npy_bytes),
    st.tuples(st.just(".npz"), mostly_whole(_npz_bytes)),
    st.tuples(st.just(".csv"), mostly_whole(st.tuples(_heads, _rows).map(lambda parts: "".join(parts).encode()))),
    st.tuples(st.just(".onnx"), damaged(ONNX)),
    st.tuples(st.just(".json"), mostly_whole(st.sampled_from(STORED).flatmap(mutated).map(as_json))),
    st.tuples(st.sampled_from((".npy", ".npz", ".json", ".csv", ".onnx")), st.binary(max_size=80) | _pickled),
    st.tuples(st.sampled_from((".pkl", ".joblib", ".pt", ".zip", ".d3", ".PKL", ".txt", "")), _pickled),
)


def enter_policy(case: tuple[str, bytes], folder: Path) -> None:
    """Read with and without knowing the number of actions, and asked."""
    ending, content = case
    path = written(folder, f"policy{ending}", content)
    for n_actions in (None, 2):
        policy = as_policy(str(path), n_actions=n_actions)
        count = len(policy.table) if hasattr(policy, "table") else 1
        table = policy.probabilities(np.zeros((1, 2)) if ending == ".onnx" else np.arange(min(count, 2)))
        if not np.allclose(table.sum(axis=1), 1.0):
            raise FailureError("a policy whose rows do not sum to 1", str(table))


_CHANGES: dict[str, Any] = {
    "cut": lambda a: a[:-1],
    "flat": np.ravel,
    "more": lambda a: np.repeat(a, 3, axis=0),
    "nan": lambda a: a * np.nan,
    "huge": lambda a: a * 1e308,
    "tiny": lambda a: a * 1e-320,
    "half": lambda a: a * 0.5,
    "negative": lambda a: -a.astype(float),
    "text": lambda a: a.astype(str),
    "nothing": lambda a: a[:0],
    "whole": lambda a: a.astype(np.int8),
    "complex": lambda a: a.astype(complex),
    "objects": lambda a: a.astype(object),
    "flags": lambda a: a.astype(bool),
    "dates": lambda a: a.astype(int).astype("datetime64[s]"),
    "wrong way round": lambda a: a.T,
    "one number": lambda a: np.array(1.0),
}


_UNFIT = (TypeError, ValueError, IndexError)  # a change that such an array does not take


@st.composite
def _tables(draw: st.DrawFn) -> bytes:
    arrays = dict(seeds.table_arrays())
    for _ in range(draw(st.integers(1, 2))):
        name, change = draw(st.sampled_from(sorted(arrays))), draw(st.sampled_from(sorted(_CHANGES)))
        with (
            np.errstate(all="ignore"),
            warnings.catch_warnings(action="ignore"),
            contextlib.suppress(TypeError, ValueError, IndexError),
        ):
            arrays[name] = _CHANGES[change](arrays[name])
    if draw(st.integers(0, 9)) == 0:
        arrays.pop(draw(st.sampled_from(sorted(arrays))))
    if draw(st.integers(0, 4)) == 0:
        arrays[draw(st.sampled_from(("features", "allowed", "states")))] = draw(st.sampled_from(ARRAYS))
    return npz([(f"{name}.npy", npy(array)) for name, array in arrays.items()])


tables = mostly_whole(_tables())


def enter_table(content: bytes, folder: Path) -> None:
    """Loaded as a world and explained."""
    written(folder, "chain.npz", content)
    world = load_world(Study(seeds.STUDIES["table"], folder, "study.toml"))
    str(explain(world, np.zeros(12, dtype=int), np.arange(12) % 2))
