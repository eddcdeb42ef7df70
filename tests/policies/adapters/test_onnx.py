"""ONNX files written by torch and scikit-learn, against the models they came from."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

pytestmark = pytest.mark.adapters
onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx import TensorProto, helper  # noqa: E402

from polidiff import as_policy  # noqa: E402
from polidiff.errors import InvalidPolicyError  # noqa: E402
from polidiff.policies import top_actions  # noqa: E402

STATES = np.random.default_rng(0).normal(size=(1000, 4)).astype(np.float32)
WEIGHTS = np.random.default_rng(1).normal(size=(4, 3)).astype(np.float32)


def softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def linear(path, *, name="logits", batch="n", inputs=1, then=None, out_type=TensorProto.FLOAT, out_shape=("n", 3)):
    """A file with one matrix product, and perhaps another operation after it."""
    nodes = [helper.make_node("MatMul", ["x0", "w"], ["product"])]
    nodes.append(then if then is not None else helper.make_node("Identity", ["product"], [name]))
    graph = helper.make_graph(
        nodes,
        "policy",
        [helper.make_tensor_value_info(f"x{i}", TensorProto.FLOAT, [batch, 4]) for i in range(inputs)],
        [helper.make_tensor_value_info(name, out_type, [batch if s == "n" else s for s in out_shape])],
        [helper.make_tensor("w", TensorProto.FLOAT, [4, 3], WEIGHTS.ravel())],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, path)
    return path


def test_logits_by_name_single_and_batched(tmp_path):
    policy = as_policy(linear(tmp_path / "p.onnx"))
    expected = softmax(STATES @ WEIGHTS)
    assert policy.n_actions == 3
    assert policy.probabilities(STATES) == pytest.approx(expected, abs=1e-5)
    singly = np.concatenate([policy.probabilities(STATES[i : i + 1]) for i in range(1000)])
    assert singly == pytest.approx(expected, abs=1e-5)


def test_a_fixed_batch_of_one_is_looped_over(tmp_path):
    policy = as_policy(linear(tmp_path / "p.onnx", batch=1))
    assert policy.probabilities(STATES[:50]) == pytest.approx(softmax(STATES[:50] @ WEIGHTS), abs=1e-5)


def test_numbers_of_unknown_meaning_are_an_error_that_names_the_choices(tmp_path):
    path = linear(tmp_path / "p.onnx", name="y")
    with pytest.raises(InvalidPolicyError, match=r"output='logits'.*output='values'"):
        as_policy(path).probabilities(STATES)
    greedy = as_policy(path, output="values").probabilities(STATES)
    assert np.array_equal(top_actions(greedy), (STATES @ WEIGHTS).argmax(axis=1))


def test_chosen_actions_are_read_as_such(tmp_path):
    argmax = helper.make_node("ArgMax", ["product"], ["y"], axis=1, keepdims=0)
    path = linear(tmp_path / "p.onnx", name="y", then=argmax, out_type=TensorProto.INT64, out_shape=("n",))
    policy = as_policy(path, n_actions=3)
    assert np.array_equal(top_actions(policy.probabilities(STATES)), (STATES @ WEIGHTS).argmax(axis=1))


def test_a_policy_from_a_file_travels_to_other_processes(tmp_path):
    policy = as_policy(linear(tmp_path / "p.onnx"))
    again = pickle.loads(pickle.dumps(policy))
    assert np.array_equal(again.probabilities(STATES), policy.probabilities(STATES))


def test_other_inputs_are_refused(tmp_path):
    with pytest.raises(InvalidPolicyError, match=r"one input, the observations; it has \['x0', 'x1'\]"):
        as_policy(linear(tmp_path / "two.onnx", inputs=2))
    with pytest.raises(InvalidPolicyError, match="expects observations of 4 numbers; the world's have 2"):
        as_policy(linear(tmp_path / "p.onnx")).probabilities(np.zeros((3, 2)))
    with pytest.raises(InvalidPolicyError, match="must give 5 numbers"):
        as_policy(tmp_path / "p.onnx", n_actions=5).probabilities(STATES)


def test_a_file_that_is_not_onnx_is_refused(tmp_path):
    (tmp_path / "p.onnx").write_bytes(b"something else")
    with pytest.raises(InvalidPolicyError, match=r"p\.onnx cannot be read"):
        as_policy(tmp_path / "p.onnx")
    with pytest.raises(InvalidPolicyError, match="no policy file"):
        as_policy(tmp_path / "missing.onnx")


@pytest.mark.parametrize("zipmap", [True, False])
def test_a_classifier_exported_from_scikit_learn(tmp_path, zipmap):
    skl2onnx = pytest.importorskip("skl2onnx")
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression().fit(STATES, (STATES @ WEIGHTS).argmax(axis=1))
    types = [("x", skl2onnx.common.data_types.FloatTensorType([None, 4]))]
    exported = skl2onnx.to_onnx(model, initial_types=types, options={"zipmap": zipmap})
    (tmp_path / "p.onnx").write_bytes(exported.SerializeToString())
    policy = as_policy(tmp_path / "p.onnx", n_actions=3)
    assert policy.probabilities(STATES) == pytest.approx(model.predict_proba(STATES), abs=1e-5)


def test_columns_that_are_other_classes_are_found_out(tmp_path):
    skl2onnx = pytest.importorskip("skl2onnx")
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression().fit(STATES, np.array([0, 2, 3])[(STATES @ WEIGHTS).argmax(axis=1)])
    types = [("x", skl2onnx.common.data_types.FloatTensorType([None, 4]))]
    exported = skl2onnx.to_onnx(model, initial_types=types, options={"zipmap": False})
    (tmp_path / "p.onnx").write_bytes(exported.SerializeToString())
    with pytest.raises(InvalidPolicyError, match=r"columns of ONNX model p\.onnx must be actions 0, 1"):
        as_policy(tmp_path / "p.onnx", n_actions=3).probabilities(STATES)


def test_a_module_exported_from_torch(tmp_path):
    torch = pytest.importorskip("torch")
    module = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))
    torch.onnx.export(
        module,
        (torch.zeros(1, 4),),
        str(tmp_path / "p.onnx"),
        input_names=["x"],
        output_names=["logits"],
        dynamic_axes={"x": {0: "n"}, "logits": {0: "n"}},
        dynamo=False,
    )
    with torch.no_grad():
        expected = torch.softmax(module(torch.as_tensor(STATES)), 1).numpy()
    assert as_policy(tmp_path / "p.onnx").probabilities(STATES) == pytest.approx(expected, abs=1e-5)
