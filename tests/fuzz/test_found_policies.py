"""Every failure that fuzzing found in policy files, as the smallest case that shows it; each stays refused."""

from __future__ import annotations

import io
import tracemalloc
import zipfile

import numpy as np
import pytest

from polidiff import as_policy
from polidiff.errors import InvalidPolicyError
from tests.fuzz import arrays, seeds
from tests.fuzz.mutate import as_json

POLICIES = {
    "an empty archive": (".npz", b"", "File is not a zip file"),
    "an archive with damaged data": (".npz", arrays.npz([("policy.npy", arrays.npy(np.arange(50)))])[:-200], "zip"),
    "objects in an archive": (".npz", arrays.npz([("policy.npy", arrays.npy(arrays.ARRAYS[17]))]), "pickled objects"),
    "objects in an array": (".npy", arrays.npy(arrays.ARRAYS[17]), "pickled objects, which may run code"),
    "a header that promises too much": (".npy", arrays.lying(b"(99999999999,)"), "promises 799999999992 bytes"),
    "a negative shape": (".npy", arrays.lying(b"(-1,)"), "must not be negative"),
    "a broken header": (".npy", arrays.lying(b"(((("), "no header"),
    "complex numbers": (".npy", arrays.npy(np.array([1 + 2j])), "must hold numbers; got complex128"),
    "no number among actions": (".npy", arrays.npy(np.array([0.0, np.nan])), "entry 1 is nan"),
    "an endless action": (".npy", arrays.npy(np.array([1e300])), "must hold action indices; entry 0 is 1e+300"),
    "an action without end": (".npy", arrays.npy(np.array([2**40])), "is too large (at most 134217728 entries"),
    "an action that takes a gigabyte": (".npy", arrays.npy(np.array([2**26])), "65536 actions)"),
    "probabilities that overflow": (".npy", arrays.npy(np.array([[1e308, 1e308]])), "sums to inf"),
    "a header longer than its rows": (".csv", b"a,action\n0\n", "must have the 2 entries that its header names; got 1"),
    "an entry of 140,000 letters": (".csv", b"z" * 140_000, "field larger than field limit"),
    "rows of other lengths": (".json", b"[[1, 0], [1]]", "rows of numbers of the same length"),
    "a base that leads back to itself": (
        ".json",
        as_json({**arrays.STORED[3]}),
        "must be a table or a model; 'policy.json' is patched itself",
    ),
    "a patch that is none": (
        ".json",
        as_json({**arrays.STORED[2], "patch": seeds.results()["check"]}),
        "the patch of policy.json must be one; it is a checkresult",
    ),
    "a patch of other actions": (
        ".json",
        as_json({**arrays.STORED[2], "base": [[1.0, 0.0, 0.0]]}),
        "names 2 actions; its base has 3",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_file_that_lies_is_refused(name, tmp_path):
    ending, content, message = POLICIES[name]
    path = tmp_path / f"policy{ending}"
    path.write_bytes(content)
    with pytest.raises(InvalidPolicyError) as caught:
        as_policy(path)
    assert message in str(caught.value)


def test_an_archive_that_unpacks_to_a_thousand_times_its_size_is_refused_by_what_it_declares(tmp_path, monkeypatch):
    monkeypatch.setattr("polidiff.policies.files.MOST_BYTES", 10**8)
    path = tmp_path / "policy.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("policy.npy", "w") as member:
        for _ in range(110):
            member.write(bytes(10**6))
    assert path.stat().st_size < 200_000
    with pytest.raises(InvalidPolicyError, match="take 110 MB unpacked; at most 100 MB are read"):
        as_policy(path)


def test_a_header_that_says_it_is_four_gigabytes_long_takes_no_memory(tmp_path):
    (tmp_path / "policy.npy").write_bytes(b"\x93NUMPY\x02\x00\xff\xff\xff\xff{}")
    tracemalloc.start()
    try:
        with pytest.raises(InvalidPolicyError, match="no header of an array"):
            as_policy(tmp_path / "policy.npy")
        assert tracemalloc.get_traced_memory()[1] < 10**7
    finally:
        tracemalloc.stop()


def test_an_archive_that_declares_less_than_it_holds_is_refused(tmp_path):
    stream = io.BytesIO(arrays.npz([("policy.npy", arrays.npy(np.zeros(1_000)))]))
    content = stream.getvalue().replace((8_128).to_bytes(4, "little"), (200).to_bytes(4, "little"))
    (tmp_path / "policy.npz").write_bytes(content)
    with pytest.raises(InvalidPolicyError, match="Bad CRC-32 for file"):
        as_policy(tmp_path / "policy.npz")


def test_a_path_too_long_for_a_file_is_a_file_that_is_not_there():
    with pytest.raises(InvalidPolicyError, match="there is no policy file"):
        as_policy("f" * 5_000 + ".npy")


def test_a_table_policy_is_not_asked_with_features():
    with pytest.raises(InvalidPolicyError, match=r"it was asked about states of shape \(2,\)"):
        as_policy([0, 1]).probabilities(np.zeros((3, 2)))


def test_a_model_that_takes_no_batches_is_refused(tmp_path):
    pytest.importorskip("onnxruntime")
    declared = b"Z\x11\n\x01x\x12\x0c\n\n\x08\x01\x12\x06\n\x00\n\x02\x08\x02"  # x, of shape (any, 2)
    assert declared in arrays.ONNX
    flat = declared.replace(b"\n\x00\n\x02", b"\n\x00*\x02")  # the second length becomes a field that nobody knows
    (tmp_path / "policy.onnx").write_bytes(arrays.ONNX.replace(declared, flat))
    with pytest.raises(InvalidPolicyError, match=r"must take observations of shape \(1, 2\): .*Invalid rank for input"):
        as_policy(tmp_path / "policy.onnx").probabilities(np.zeros((1, 2)))
