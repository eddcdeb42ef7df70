"""ONNX models, run by onnxruntime. The file holds a graph of operations and no code."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from polidiff.errors import InvalidPolicyError, MissingExtraError
from polidiff.files import read_limited
from polidiff.policies.model_io import OUTPUTS, check_width
from polidiff.policies.models import ModelPolicy
from polidiff.policies.protocol import ForeignModel, top_actions
from polidiff.records.arrays import AnyArray, FloatArray

MOST_BYTES = 1_000_000_000  # of a model
DTYPES = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
}
KINDS = (
    ("prob", "probabilities"),
    ("logit", "logits"),
    ("q_value", "values"),
    ("label", "action"),
    ("action", "action"),
)


class OnnxPolicy(ModelPolicy):
    """A model with one input of observations; `output` names one of its outputs, or how to read the only one."""

    def __init__(self, model: bytes, output: str | None, n_actions: int | None, name: str) -> None:
        super().__init__(model, f"ONNX model {name}", n_actions)
        self.output = output
        self._name = name
        self._session = _session(model, self.what)
        self._input = _only_input(self._session, self.what)
        self._chosen, self._kind = _choice(self._session, output, self.what)
        self._n_actions = n_actions if n_actions is not None else self._declared_width()

    @classmethod
    def read(cls, path: Path, *, output: str | None = None, n_actions: int | None = None) -> OnnxPolicy:
        """The policy stored in a file."""
        model = read_limited(path, MOST_BYTES, InvalidPolicyError)
        return cls(model, output, n_actions, path.name)

    def __reduce__(self) -> tuple[object, ...]:
        return OnnxPolicy, (self.model, self.output, self._n_actions, self._name)

    def _batch(self, rows: AnyArray) -> FloatArray:
        shape = self._input.shape
        if len(shape) == 2 and isinstance(shape[1], int):
            check_width(rows, shape[1], self.what)
        batch = rows.astype(DTYPES[self._input.type])
        single = bool(shape) and shape[0] == 1
        parts = [batch[i : i + 1] for i in range(len(batch))] if single else [batch]
        answers = [self._run(part) for part in parts]
        columns = [_stacked([answer[j] for answer in answers], self.n_actions) for j in range(len(self._chosen))]
        table = self._read(columns[0], rows, self._kind)
        if len(columns) == 2:
            self._check_labels(table, columns[1])
        return table

    def _run(self, observations: AnyArray) -> list[AnyArray]:
        try:
            answers: list[AnyArray] = self._session.run(self._chosen, {self._input.name: observations})
        except Exception as error:
            raise InvalidPolicyError(
                f"{self.what} must take observations of shape {observations.shape}: {str(error).splitlines()[0]}"
            ) from error
        return answers

    def _check_labels(self, table: FloatArray, labels: AnyArray) -> None:
        top = table.max(axis=1)
        clear = (table >= top[:, None] - 1e-6).sum(axis=1) == 1
        off = np.flatnonzero(clear & (top_actions(table) != labels))
        if off.size:
            raise InvalidPolicyError(
                f"columns of {self.what} must be actions 0, 1, …; for state number {off[0]} the largest is column "
                f"{int(top_actions(table)[off[0]])} and the label {labels[off[0]]}. Hint: train on all action indices"
            )

    def _declared_width(self) -> int | None:
        shapes = {o.name: o.shape for o in self._session.get_outputs()}
        shape = shapes[self._chosen[0]]
        return shape[1] if self._kind != "action" and shape and len(shape) == 2 and isinstance(shape[1], int) else None


def _session(model: bytes, what: str) -> ForeignModel:
    try:
        import onnxruntime
    except ImportError:
        raise MissingExtraError("onnxruntime", "onnx") from None
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"], enable_fallback=0)
    except Exception as error:
        raise InvalidPolicyError(f"{what} cannot be read: {str(error).splitlines()[0]}") from error


def _only_input(session: ForeignModel, what: str) -> ForeignModel:
    inputs = session.get_inputs()
    if len(inputs) != 1:
        raise InvalidPolicyError(
            f"{what} must have one input, the observations; it has {[i.name for i in inputs]}. Hint: export the part "
            "that maps observations to actions"
        )
    if inputs[0].type not in DTYPES:
        raise InvalidPolicyError(f"{what} must take numbers; input {inputs[0].name!r} is {inputs[0].type}")
    return inputs[0]


def _choice(session: ForeignModel, output: str | None, what: str) -> tuple[list[str], str | None]:
    """Names of the outputs to read (the answer, then labels to check it against), and how to read the answer."""
    names = [o.name for o in session.get_outputs()]
    kinds = {name: next((kind for part, kind in KINDS if part in name.lower()), None) for name in names}
    if output in names and output not in OUTPUTS:
        return [str(output)], kinds[str(output)]
    if output is not None and output not in OUTPUTS:
        raise InvalidPolicyError(f"output must be one of {', '.join(OUTPUTS)}, or one of {names}; got {output!r}")
    if len(names) == 1:
        return names, output or kinds[names[0]]
    wanted = [output] if output is not None else ["probabilities", "logits", "values", "action"]
    for kind in wanted:
        matching = [name for name in names if kinds[name] == kind]
        if len(matching) == 1:
            labels = [name for name in names if kinds[name] == "action"] if kind == "probabilities" else []
            return [*matching, *labels[:1]], kind
    raise InvalidPolicyError(f"it is not clear which output of {what} is the policy. Hint: output= one of {names}")


def _stacked(answers: list[AnyArray], n_actions: int) -> AnyArray:
    """Outputs of one or many calls as one array; maps from class to probability become columns."""
    if not isinstance(answers[0], list):
        return np.concatenate([np.asarray(answer) for answer in answers])
    table = np.zeros((sum(len(answer) for answer in answers), n_actions))
    for row, entry in enumerate(entry for answer in answers for entry in answer):
        for action, probability in entry.items():
            table[row, int(action)] = probability
    return table
