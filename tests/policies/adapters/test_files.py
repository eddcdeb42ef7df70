"""Policies from files: numbers are read freely, code never runs unasked."""

from __future__ import annotations

import json
import os
import pickle
import zipfile

import joblib
import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

from polidiff import Patch, as_policy
from polidiff.cli.main import run
from polidiff.errors import InvalidPolicyError, UntrustedFileError
from polidiff.policies import difference, save_policy

TABLE = np.array([[1.0, 0.0], [0.25, 0.75], [0.5, 0.5]])


class Hostile:
    """A pickle of this creates a file when it is loaded."""

    def __init__(self, marker):
        self.marker = str(marker)

    def __reduce__(self):
        return os.mkdir, (self.marker,)


def written(path, kind):
    if kind == "npz":
        np.savez(path / "p.npz", policy=TABLE, other=np.zeros(3))
    elif kind == "npy":
        np.save(path / "p.npy", TABLE)
    elif kind == "json":
        (path / "p.json").write_text(json.dumps({"probabilities": TABLE.tolist()}))
    elif kind == "csv":
        rows = "\n".join(f"{s},{p},{q}" for s, (p, q) in reversed(list(enumerate(TABLE.tolist()))))
        (path / "p.csv").write_text(f"state,left,right\n{rows}\n")
    return path / f"p.{kind}"


@pytest.mark.parametrize("kind", ["npz", "npy", "json", "csv"])
def test_tables_load_freely(tmp_path, kind):
    policy = as_policy(str(written(tmp_path, kind)), n_actions=2, n_states=3)
    assert np.array_equal(policy.probabilities(np.arange(3)), TABLE)


@pytest.mark.parametrize(
    "text", ["1\n0\n2\n", "action\n1\n0\n2\n", "state,action\n2,2\n0,1\n1,0\n", "\ufeffaction\n1\n0\n2\n"]
)
def test_a_column_of_actions_is_a_policy(tmp_path, text):
    (tmp_path / "p.csv").write_text(text, encoding="utf-8")
    assert as_policy(tmp_path / "p.csv").probabilities([0, 1, 2]).argmax(axis=1).tolist() == [1, 0, 2]


@pytest.mark.parametrize("suffix", [".pkl", ".pickle", ".joblib", ".pt", ".pth", ".zip", ".d3"])
def test_a_hostile_file_runs_nothing_without_trust(tmp_path, suffix):
    marker = tmp_path / "marker"
    path = tmp_path / f"model{suffix}"
    path.write_bytes(pickle.dumps(Hostile(marker)))
    with pytest.raises(UntrustedFileError, match=r"runs whatever code it contains.*trust=True"):
        as_policy(path)
    assert not marker.exists()


@pytest.mark.parametrize("role", ["--current", "--proposed"])
def test_the_command_line_runs_nothing_without_trust_and_exits_with_2(tmp_path, role, capsys):
    pytest.importorskip("gymnasium")
    marker = tmp_path / "marker"
    (tmp_path / "model.pkl").write_bytes(pickle.dumps(Hostile(marker)))
    np.save(tmp_path / "good.npy", np.zeros(16, dtype=int))
    files = {"--current": tmp_path / "good.npy", "--proposed": tmp_path / "good.npy", role: tmp_path / "model.pkl"}
    flags = [str(part) for pair in files.items() for part in pair]
    assert run(["explain", "--env", "FrozenLake-v1", *flags]) == 2
    said = capsys.readouterr()
    assert "--trust" in said.err
    assert said.out == ""
    assert not marker.exists()


def test_the_hostile_file_is_a_real_one(tmp_path):
    marker = tmp_path / "marker"
    (tmp_path / "model.pkl").write_bytes(pickle.dumps(Hostile(marker)))
    with pytest.raises(InvalidPolicyError):
        as_policy(tmp_path / "model.pkl", trust=True)
    assert marker.exists()


@pytest.mark.parametrize("kind", ["npz", "npy", "json", "csv"])
def test_a_pickle_in_disguise_runs_nothing(tmp_path, kind):
    marker = tmp_path / "marker"
    path = tmp_path / f"p.{kind}"
    if kind == "npz":
        array = np.empty(1, dtype=object)
        array[0] = Hostile(marker)
        np.savez(path, policy=array)
    else:
        path.write_bytes(pickle.dumps(Hostile(marker)))
    with pytest.raises(InvalidPolicyError, match="cannot be read as a policy"):
        as_policy(path)
    assert not marker.exists()


@pytest.mark.parametrize("suffix", [".pkl", ".joblib"])
def test_a_trusted_model_is_a_policy(tmp_path, suffix):
    states = np.arange(8)[:, None]
    model = DecisionTreeClassifier().fit(states, np.arange(8) % 2)
    joblib.dump(model, tmp_path / f"m{suffix}")
    assert as_policy(tmp_path / f"m{suffix}", trust=True).probabilities(states).argmax(axis=1).tolist() == [0, 1] * 4


def test_a_policy_over_a_table_is_written_and_read_back(tmp_path):
    current = np.array([0, 0, 1])
    patched = difference(current, [0, 1, 1]).apply(as_policy(current, n_actions=2))
    save_policy(patched, tmp_path / "p.json")
    again = as_policy(tmp_path / "p.json").probabilities([0, 1, 2])
    assert np.array_equal(again, patched.probabilities(np.arange(3)))


def test_a_base_beside_the_file_takes_the_patch(tmp_path):
    np.savez(tmp_path / "base.npz", policy=np.array([0, 0, 1]))
    patch = difference([0, 0, 1], [0, 1, 1])
    stored = {"schema": "polidiff/policy", "version": 1, "base": "base.npz", "patch": patch.to_dict()}
    (tmp_path / "p.json").write_text(json.dumps(stored))
    assert as_policy(tmp_path / "p.json").probabilities([0, 1, 2]).argmax(axis=1).tolist() == [0, 1, 1]


def test_a_base_that_runs_code_needs_trust_too(tmp_path):
    (tmp_path / "base.pkl").write_bytes(pickle.dumps(Hostile(tmp_path / "marker")))
    stored = {"schema": "polidiff/policy", "version": 1, "base": "base.pkl", "patch": Patch().to_dict()}
    (tmp_path / "p.json").write_text(json.dumps(stored))
    with pytest.raises(UntrustedFileError):
        as_policy(tmp_path / "p.json")
    assert not (tmp_path / "marker").exists()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("p.txt", "1", "must end in .npz"),
        ("p.csv", "", "rows of the same length"),
        ("p.csv", "1,2\n3\n", "cannot be read"),
        ("p.csv", "state,action\n0,1\n5,0\n", "every index from 0 to 1 once"),
        ("p.json", "{", "cannot be read"),
        ("p.json", '{"weights": 1}', "must hold a table"),
        ("p.json", '"model.zip"', "holds a text"),
        ("p.json", '{"schema": "polidiff/patch", "version": 1}', "is a patch, which needs a policy"),
        ("p.json", '{"schema": "polidiff/policy", "version": 9, "table": [[1]]}', "version 9"),
        ("p.json", '{"schema": "polidiff/policy", "version": 1, "table": [[1], [1, 0]]}', "rows of numbers"),
        ("p.npz", "not an archive", "cannot be read"),
        ("p.json", "[[0.5, 0.4]]", "must sum to 1"),
    ],
)
def test_bad_files_are_told_in_one_line(tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(InvalidPolicyError, match=message) as caught:
        as_policy(tmp_path / name)
    assert "\n" not in str(caught.value)


def test_a_missing_file_and_an_archive_without_a_policy(tmp_path):
    with pytest.raises(InvalidPolicyError, match="no policy file"):
        as_policy(str(tmp_path / "nowhere.npz"))
    np.savez(tmp_path / "two.npz", a=TABLE, b=TABLE)
    with pytest.raises(InvalidPolicyError, match=r"one named policy .* it has \['a', 'b'\]"):
        as_policy(tmp_path / "two.npz")


def test_an_archive_of_something_else_is_refused(tmp_path):
    pytest.importorskip("stable_baselines3")
    with zipfile.ZipFile(tmp_path / "m.zip", "w") as archive:
        archive.writestr("readme", "hello")
    with pytest.raises(InvalidPolicyError, match="not an archive of Stable-Baselines3"):
        as_policy(tmp_path / "m.zip", trust=True)
