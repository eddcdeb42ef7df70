"""Models of scikit-learn, torch, Stable-Baselines3, d3rlpy, RLlib, tianshou and CleanRL, known by what they can do.

They are asked in batches, without gradients, in evaluation mode, on their device and in their precision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from importlib import import_module
from typing import TYPE_CHECKING

import numpy as np

from polidiff.errors import InvalidPolicyError
from polidiff.policies.model_io import (
    CONTINUOUS,
    Batch,
    action_count,
    as_probabilities,
    check_output,
    check_width,
    normalised,
    observed,
    rows_of,
    takes_batches,
)
from polidiff.policies.protocol import ForeignModel, Policy, action_numbers, is_text, one_hot, told_count
from polidiff.records.arrays import AnyArray, FloatArray, IntArray

if TYPE_CHECKING:
    import torch

LARGEST_BATCH = 16_384
MEMORY = (
    "remembers what it saw before; a policy here is asked about the present observation only. Hint: train on a stack "
    "of frames instead (FrameStackObservation), and compare both policies in that environment"
)


class ModelPolicy:
    """A model that answers batches of rows; a kind of model says how in `_batch`."""

    def __init__(self, model: ForeignModel, what: str, n_actions: int | None) -> None:
        self.model = model
        self.what = what
        self._n_actions = n_actions

    @property
    def n_actions(self) -> int:
        """How many actions there are."""
        return told_count(self._n_actions, self.what)

    def probabilities(self, states: AnyArray) -> FloatArray:
        """Probabilities of the model's actions."""
        rows = rows_of(states)
        return np.asarray(in_batches(self._batch, rows)) if len(rows) else np.zeros((0, self.n_actions))

    def _batch(self, rows: AnyArray) -> AnyArray:
        raise NotImplementedError

    def _read(self, answer: AnyArray, rows: AnyArray, output: str | None) -> FloatArray:
        return as_probabilities(answer, len(rows), output=output, n_actions=self._n_actions, what=self.what)

    def _observed(self, rows: AnyArray) -> Batch:
        """Rows as the model's observation space says, where it has one."""
        space = getattr(self.model, "observation_space", None)
        return rows.astype(np.float32) if space is None else observed(space, rows, self.what)


def _declared_actions(model: ForeignModel, n_actions: int | None, what: str) -> int:
    """How many actions a model has: by its own action space, else as the caller says."""
    space = getattr(model, "action_space", None)
    return told_count(action_count(space, what) if space is not None else n_actions, what)


class ClassifierPolicy(ModelPolicy):
    """A fitted classifier whose classes are actions: their numbers, or their names where the world tells them."""

    def __init__(
        self,
        classifier: ForeignModel,
        n_actions: int | None = None,
        names: tuple[str, ...] | None = None,
        features: Sequence[str] = (),
    ) -> None:
        what = f"classifier {type(classifier).__name__}"
        self.classes = _action_indices(classifier, names, what)
        self.columns = list(getattr(classifier, "feature_names_in_", ()))  # of the data frame that it was fitted on
        by_name = self.columns and set(self.columns) <= set(features)
        self.places = [list(features).index(name) for name in self.columns] if by_name else None
        largest = int(self.classes.max())
        super().__init__(classifier, what, n_actions if n_actions is not None else largest + 1)
        if largest >= self.n_actions:
            raise InvalidPolicyError(f"{what} knows action {largest}; the world has {self.n_actions} actions (from 0)")

    def _batch(self, rows: AnyArray) -> FloatArray:
        rows = rows if self.places is None else rows[:, self.places]
        check_width(rows, getattr(self.model, "n_features_in_", None), self.what)
        table = np.zeros((len(rows), self.n_actions))
        shares = self._asked("predict_proba", rows) if hasattr(self.model, "predict_proba") else None
        one = shares is not None and shares.shape[1] != len(self.classes)  # a network with one class gives two
        if shares is None or one:
            place = np.searchsorted(np.asarray(self.model.classes_), self._asked("predict", rows))
            return one_hot(self.classes[place], self.n_actions)
        table[:, self.classes] = shares
        return normalised(table, self.what)

    def _asked(self, method: str, rows: AnyArray) -> AnyArray:
        try:
            return np.asarray(getattr(self.model, method)(_framed(rows, self.columns) if self.columns else rows))
        except Exception as error:
            first = str(error).partition("\n")[0]
            raise InvalidPolicyError(
                f"{self.what} cannot read the states as the world has them ({rows.shape[1]} columns): "
                f"{type(error).__name__}: {first}. Hint: fit it on a data frame of these columns, with the encoding "
                "inside a Pipeline, or pass a function that prepares states and asks it"
            ) from error


def reads_features(policy: Policy) -> bool:
    """Whether a policy is a classifier of several features, and not of the numbers of states."""
    return isinstance(policy, ClassifierPolicy) and getattr(policy.model, "n_features_in_", 1) > 1


def _framed(rows: AnyArray, columns: list[str]) -> ForeignModel:
    """Rows as the data frame that a model was fitted on."""
    values = {name: column.tolist() for name, column in zip(columns, rows.T, strict=True)}
    try:
        frame = import_module("pandas").DataFrame
    except ImportError:
        frame = import_module("polars").DataFrame
    return frame(values)


def _action_indices(classifier: ForeignModel, names: tuple[str, ...] | None, what: str) -> IntArray:
    classes = getattr(classifier, "classes_", None)
    if classes is None:
        raise InvalidPolicyError(f"{what} is not fitted: it has no classes_. Hint: call fit(states, actions) first")
    if isinstance(classes, list):
        raise InvalidPolicyError(
            f"{what} predicts {len(classes)} labels per state. Hint: fit one label, the action index"
        )
    labels = np.asarray(classes)
    labels = labels.astype(np.int64) if labels.dtype == np.bool_ else labels  # no and yes are actions 0 and 1
    if is_text(labels) and names is not None:
        return action_numbers(labels, names, what)
    whole = np.issubdtype(labels.dtype, np.number) and np.array_equal(labels, labels.astype(np.int64))
    if not whole or labels.min() < 0:
        raise InvalidPolicyError(
            f"classes of a policy must be action indices 0, 1, …; {what} has {labels[:5].tolist()}. Hint: fit it on "
            "indices, or pass a function that translates its predictions"
        )
    return labels.astype(np.int64)


class StableBaselinesPolicy(ModelPolicy):
    """PPO and A2C by their action distribution, DQN by the largest value of its Q network, others by `predict`."""

    def __init__(self, model: ForeignModel, n_actions: int | None = None, output: str | None = None) -> None:
        what = f"Stable-Baselines3 {type(model).__name__}"
        if hasattr(model.policy, "lstm_actor"):
            raise InvalidPolicyError(f"{what} {MEMORY}")
        super().__init__(model, what, action_count(model.action_space, what))
        self._normalise = normaliser(model, what)

    def _batch(self, rows: AnyArray) -> AnyArray:
        import torch

        policy, observations = self.model.policy, self._normalise(self._observed(rows))
        if policy.training:
            policy.set_training_mode(False)
        with torch.no_grad():
            if type(getattr(policy, "action_dist", None)).__name__ == "CategoricalDistribution":
                # the numbers of get_distribution without its checks, which take twice as long as the network
                tensor, _ = policy.obs_to_tensor(observations)
                features = policy.extract_features(tensor, policy.pi_features_extractor)
                logits = policy.action_net(policy.mlp_extractor.forward_actor(features))
                return self._read(as_array(logits), rows, "logits")
            if hasattr(policy, "get_distribution"):
                tensor, _ = policy.obs_to_tensor(observations)
                return normalised(_joint(policy.get_distribution(tensor).distribution), self.what)
            if hasattr(policy, "q_net"):
                tensor, _ = policy.obs_to_tensor(observations)
                return self._read(as_array(policy.q_net(tensor)), rows, "values")
        actions, _ = self.model.predict(observations, deterministic=True)
        return self._read(actions, rows, "action")


def normaliser(model: ForeignModel, what: str) -> Callable[[Batch], Batch]:
    """What a model of Stable-Baselines3 does to observations first: the running statistics of `VecNormalize`."""
    statistics = getattr(model, "get_vec_normalize_env", lambda: None)()
    if statistics is not None:
        return statistics.normalize_obs
    if hasattr(model, "gae_lambda") and getattr(model, "_last_original_obs", None) is not None:
        raise InvalidPolicyError(
            f"{what} was trained on normalised observations, and their statistics are not at hand. Hint: keep the file "
            "that VecNormalize saves beside the model, as NAME.pkl or vecnormalize.pkl"
        )
    return lambda observations: observations


class D3rlpyPolicy(ModelPolicy):
    """A d3rlpy algorithm: the action it predicts."""

    def __init__(self, model: ForeignModel, n_actions: int | None = None, output: str | None = None) -> None:
        what = f"d3rlpy {type(model).__name__}"
        super().__init__(model, what, int(told_count(getattr(model, "action_size", None) or n_actions, what)))

    def _batch(self, rows: AnyArray) -> FloatArray:
        shape = getattr(self.model, "observation_shape", None)
        if shape is not None:
            rows = check_width(rows, int(np.prod(shape)), self.what).reshape(len(rows), *shape)
        actions = np.asarray(self.model.predict(rows.astype(np.float32)))
        if not np.issubdtype(actions.dtype, np.integer):
            raise InvalidPolicyError(f"actions must be discrete; {self.what} predicts real numbers. {CONTINUOUS}")
        return self._read(actions, rows, "action")


class RllibPolicy(ModelPolicy):
    """An RLlib module (new stack): the inputs of its categorical distribution, or the actions it infers."""

    def __init__(self, model: ForeignModel, n_actions: int | None = None, output: str | None = None) -> None:
        module = model if hasattr(model, "forward_inference") else model.get_module()
        what = f"RLlib {type(module).__name__}"
        super().__init__(module, what, _declared_actions(module, n_actions, what))

    def _batch(self, rows: AnyArray) -> FloatArray:
        import torch

        with torch.no_grad():
            answer = self.model.forward_inference({"obs": torch.as_tensor(self._observed(rows))})
        for key, output in (("action_dist_inputs", "logits"), ("actions", "action")):
            if key in answer:
                return self._read(as_array(answer[key]), rows, output)
        raise InvalidPolicyError(f"{self.what} must infer action_dist_inputs or actions; it gave {sorted(answer)}")


class TianshouPolicy(ModelPolicy):
    """A tianshou policy: its distribution, or the action it computes."""

    def __init__(self, model: ForeignModel, n_actions: int | None = None, output: str | None = None) -> None:
        policy = model if hasattr(model, "compute_action") else model.policy
        what = f"tianshou {type(policy).__name__}"
        super().__init__(policy, what, _declared_actions(policy, n_actions, what))

    def _batch(self, rows: AnyArray) -> FloatArray:
        import torch

        batch_of = import_module("tianshou.data").Batch
        self.model.eval()
        with torch.no_grad():
            answer = self.model(batch_of(obs=self._observed(rows), info={}))
        distribution = getattr(answer, "dist", None)
        if distribution is not None and hasattr(distribution, "probs"):
            return normalised(_joint(distribution), self.what)
        return self._read(np.asarray(answer.act), rows, "action")


def _joint(distribution: ForeignModel) -> FloatArray:
    """Probabilities (n, A) of one categorical distribution, or of all combinations of several."""
    parts = distribution if isinstance(distribution, list) else [distribution]
    shares = [as_array(part.probs).astype(np.float64) for part in parts]
    return reduce(lambda joint, own: (joint[:, :, None] * own[:, None, :]).reshape(len(own), -1), shares)


class TorchPolicy(ModelPolicy):
    """A module from observations (n, d) to logits, probabilities, values or actions."""

    def __init__(self, model: ForeignModel, n_actions: int | None = None, output: str | None = None) -> None:
        check_output(output)
        self.output = output
        count = n_actions if n_actions is not None else last_width(model)
        super().__init__(model, f"torch module {type(model).__name__}", count)

    def _batch(self, rows: AnyArray) -> FloatArray:
        return self._read(called(self.model, self.model, rows), rows, self.output)


class ActorPolicy(ModelPolicy):
    """An agent in the style of CleanRL: ``get_action_and_value(x, action)`` gives the log-probability of an action."""

    def __init__(self, model: ForeignModel, n_actions: int | None = None, output: str | None = None) -> None:
        if hasattr(model, "actor_mean") or hasattr(model, "actor_logstd"):
            raise InvalidPolicyError(
                "actions must be discrete; the agent draws them from a normal distribution. Hint: choose levels and "
                "wrap the policy, Discretised(agent.actor_mean, bins)"
            )
        what = f"agent {type(model).__name__}"
        count = n_actions if n_actions is not None else last_width(getattr(model, "actor", None))
        super().__init__(model, what, told_count(count, what))

    def _batch(self, rows: AnyArray) -> FloatArray:
        if not hasattr(self.model, "get_action_and_value"):
            return self._read(called(self.model, self.model.actor, rows), rows, "logits")
        columns = [called(self.model, self._log_of(action), rows) for action in range(self.n_actions)]
        logs = np.stack([column.reshape(len(rows)) for column in columns], axis=1).astype(np.float64)
        return self._read(np.exp(logs), rows, "probabilities")

    def _log_of(self, action: int) -> Callable[[torch.Tensor], torch.Tensor]:
        import torch

        def log_probability(x: torch.Tensor) -> torch.Tensor:
            chosen = torch.full((len(x),), action, dtype=torch.long, device=x.device)
            return self.model.get_action_and_value(x, chosen)[1]

        return log_probability


def called(owner: ForeignModel, function: Callable[[torch.Tensor], object], rows: AnyArray) -> AnyArray:
    """The function of a batch of rows as an array, with the torch module `owner` in evaluation mode."""
    import torch

    parameter = next(iter(owner.parameters()), None)
    device = parameter.device if parameter is not None else "cpu"
    dtype = parameter.dtype if parameter is not None and parameter.is_floating_point() else torch.float32
    with torch.no_grad(), evaluating(owner):
        try:
            answer = function(torch.as_tensor(np.ascontiguousarray(rows)).to(device=device, dtype=dtype))
        except (RuntimeError, IndexError) as error:
            raise InvalidPolicyError(
                f"torch module {type(owner).__name__} cannot take observations of shape {rows.shape}: "
                f"{str(error).splitlines()[0]}. Hint: give the world the features the module was trained on"
            ) from error
    return as_array(answer[0] if isinstance(answer, tuple) else answer)


def as_array(tensor: ForeignModel) -> AnyArray:
    """A tensor as an array, whatever its device and precision."""
    plain = tensor.detach().cpu()
    half = plain.dtype.itemsize == 2 and plain.is_floating_point()
    return np.asarray(plain.float().numpy() if half else plain.numpy())


@contextmanager
def evaluating(module: ForeignModel) -> Iterator[None]:
    """Evaluation mode within the block; each part gets its own mode back after it."""
    training = [part for part in module.modules() if part.training]
    for part in training:
        part.training = False
    try:
        yield
    finally:
        for part in training:
            part.training = True


def in_batches(function: Callable[[AnyArray], AnyArray], rows: AnyArray) -> AnyArray:
    """A function of rows, called on batches that fit into memory."""
    cuts = range(0, len(rows), LARGEST_BATCH)
    return np.concatenate([function(rows[cut : cut + LARGEST_BATCH]) for cut in cuts])


def last_width(module: ForeignModel) -> int | None:
    """Outputs of the last linear layer, if there is one."""
    if module is None or not hasattr(module, "modules"):
        return None
    widths = [part.out_features for part in module.modules() if hasattr(part, "out_features")]
    return int(widths[-1]) if widths else None


def real_actions(policy: ForeignModel, batch: AnyArray, width: int, wanted: str) -> FloatArray:
    """What a model or function does, (n, width) real numbers; of one that draws its actions, the mean."""
    answer = np.asarray(_real_answer(policy, batch), dtype=np.float64)
    if answer.size != len(batch) * width:
        raise InvalidPolicyError(
            f"{wanted.format(width)}; the policy answered {len(batch)} states with shape {answer.shape}"
        )
    return answer.reshape(len(batch), width)


def _real_answer(policy: ForeignModel, batch: AnyArray) -> AnyArray:
    if callable(getattr(policy, "predict", None)):
        space, what = getattr(policy, "observation_space", None), type(policy).__name__
        if space is None:
            return np.asarray(policy.predict(rows_of(batch).astype(np.float32)))
        observations = normaliser(policy, what)(observed(space, batch, what))
        return np.asarray(policy.predict(observations, deterministic=True)[0])
    if callable(getattr(policy, "parameters", None)) and callable(getattr(policy, "forward", None)):
        return in_batches(lambda part: called(policy, policy, part), rows_of(batch))
    if not callable(policy):
        raise InvalidPolicyError(f"expected a model or a function that gives real numbers; got {type(policy).__name__}")
    return np.asarray(policy(batch) if takes_batches(policy, batch) else [policy(state) for state in batch])
