"""Models of scikit-learn, Stable-Baselines3, d3rlpy, RLlib and tianshou, recognised by what they can do."""

from __future__ import annotations

import warnings
from importlib import import_module

import numpy as np

from polidiff.errors import InvalidPolicyError
from polidiff.policies.model_io import (
    CONTINUOUS,
    action_count,
    as_probabilities,
    check_width,
    normalised,
    observed,
    rows_of,
)
from polidiff.policies.protocol import ForeignModel, action_numbers, is_text, one_hot
from polidiff.policies.torch_modules import as_array, in_batches
from polidiff.records.arrays import AnyArray, FloatArray, IntArray


class ClassifierPolicy:
    """A fitted classifier whose classes are actions: their numbers, or their names where the world tells them."""

    def __init__(
        self, classifier: ForeignModel, n_actions: int | None = None, names: tuple[str, ...] | None = None
    ) -> None:
        self.classifier = classifier
        self.what = f"classifier {type(classifier).__name__}"
        self.classes = _action_indices(classifier, names, self.what)
        self.n_actions: int = n_actions if n_actions is not None else int(self.classes.max()) + 1
        if self.classes.max() >= self.n_actions:
            raise InvalidPolicyError(
                f"{self.what} knows action {int(self.classes.max())}; the world has {self.n_actions} actions (from 0)"
            )

    def probabilities(self, states: AnyArray) -> FloatArray:
        """Predicted probabilities, by action."""
        rows = check_width(rows_of(states), getattr(self.classifier, "n_features_in_", None), self.what)
        table = np.zeros((len(rows), self.n_actions))
        if not len(rows):
            return table
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="X does not have valid feature names")
            if not hasattr(self.classifier, "predict_proba"):
                chosen = np.asarray(self.classifier.predict(rows))
                known = np.asarray(self.classifier.classes_)
                return one_hot(self.classes[np.searchsorted(known, chosen)], self.n_actions)
            table[:, self.classes] = self.classifier.predict_proba(rows)
        return normalised(table, self.what)


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


class StableBaselinesPolicy:
    """PPO and A2C by their action distribution, DQN by the largest value of its Q network, others by `predict`."""

    def __init__(self, model: ForeignModel) -> None:
        self.model = model
        self.what = f"Stable-Baselines3 {type(model).__name__}"
        self.n_actions: int = action_count(model.action_space, self.what)
        if hasattr(model.policy, "lstm_actor"):
            raise InvalidPolicyError(f"{self.what} remembers past states; a policy here sees the present state only")

    def probabilities(self, states: AnyArray) -> FloatArray:
        """Probabilities of the model's actions."""
        rows = rows_of(states)
        return in_batches(self._batch, rows) if len(rows) else np.zeros((0, self.n_actions))

    def _batch(self, rows: AnyArray) -> AnyArray:
        import torch

        policy = self.model.policy
        observations = observed(self.model.observation_space, rows, self.what)
        if policy.training:
            policy.set_training_mode(False)
        with torch.no_grad():
            if type(getattr(policy, "action_dist", None)).__name__ == "CategoricalDistribution":
                # the numbers of get_distribution without its checks, which take twice as long as the network
                tensor, _ = policy.obs_to_tensor(observations)
                features = policy.extract_features(tensor, policy.pi_features_extractor)
                logits = as_array(policy.action_net(policy.mlp_extractor.forward_actor(features)))
                return as_probabilities(logits, len(rows), output="logits", what=self.what)
            if hasattr(policy, "get_distribution"):
                tensor, _ = policy.obs_to_tensor(observations)
                return normalised(_joint(policy.get_distribution(tensor).distribution), self.what)
            if hasattr(policy, "q_net"):
                tensor, _ = policy.obs_to_tensor(observations)
                return as_probabilities(as_array(policy.q_net(tensor)), len(rows), output="values", what=self.what)
        actions, _ = self.model.predict(observations, deterministic=True)
        return as_probabilities(actions, len(rows), output="action", n_actions=self.n_actions, what=self.what)


class D3rlpyPolicy:
    """A d3rlpy algorithm: the action it predicts."""

    def __init__(self, algorithm: ForeignModel, n_actions: int | None = None) -> None:
        self.algorithm = algorithm
        self.what = f"d3rlpy {type(algorithm).__name__}"
        count = getattr(algorithm, "action_size", None) or n_actions
        if not count:
            raise InvalidPolicyError(
                f"{self.what} does not tell how many actions there are. Hint: as_policy(..., n_actions=)"
            )
        self.n_actions: int = int(count)

    def probabilities(self, states: AnyArray) -> FloatArray:
        """Probability 1 for the predicted action."""
        rows = rows_of(states)
        if not len(rows):
            return np.zeros((0, self.n_actions))
        shape = getattr(self.algorithm, "observation_shape", None)
        if shape is not None:
            check_width(rows, int(np.prod(shape)), self.what)
            rows = rows.reshape(len(rows), *shape)
        actions = np.asarray(self.algorithm.predict(rows.astype(np.float32)))
        if not np.issubdtype(actions.dtype, np.integer):
            raise InvalidPolicyError(f"actions must be discrete; {self.what} predicts real numbers. {CONTINUOUS}")
        return as_probabilities(actions, len(rows), output="action", n_actions=self.n_actions, what=self.what)


def _declared_actions(model: ForeignModel, n_actions: int | None, what: str) -> int:
    """How many actions a model has: by its own action space, else as the caller says."""
    space = getattr(model, "action_space", None)
    count = action_count(space, what) if space is not None else n_actions
    if count is None:
        raise InvalidPolicyError(f"{what} does not tell how many actions there are. Hint: as_policy(..., n_actions=)")
    return count


class RllibPolicy:
    """An RLlib module (new stack): the inputs of its categorical distribution, or the actions it infers."""

    def __init__(self, module: ForeignModel, n_actions: int | None = None) -> None:
        self.module = module
        self.what = f"RLlib {type(module).__name__}"
        self.n_actions = _declared_actions(module, n_actions, self.what)

    def probabilities(self, states: AnyArray) -> FloatArray:
        """Probabilities of the module's actions."""
        rows = rows_of(states)
        return in_batches(self._batch, rows) if len(rows) else np.zeros((0, self.n_actions))

    def _batch(self, rows: AnyArray) -> AnyArray:
        import torch

        space = getattr(self.module, "observation_space", None)
        batch = observed(space, rows, self.what) if space is not None else rows.astype(np.float32)
        with torch.no_grad():
            answer = self.module.forward_inference({"obs": torch.as_tensor(batch)})
        if "action_dist_inputs" in answer:
            logits = as_array(answer["action_dist_inputs"])
            return as_probabilities(logits, len(rows), output="logits", n_actions=self.n_actions, what=self.what)
        if "actions" in answer:
            actions = as_array(answer["actions"])
            return as_probabilities(actions, len(rows), output="action", n_actions=self.n_actions, what=self.what)
        raise InvalidPolicyError(f"{self.what} must infer action_dist_inputs or actions; it gave {sorted(answer)}")


class TianshouPolicy:
    """A tianshou policy: its distribution, or the action it computes."""

    def __init__(self, policy: ForeignModel, n_actions: int | None = None) -> None:
        self.policy = policy
        self.what = f"tianshou {type(policy).__name__}"
        self.n_actions = _declared_actions(policy, n_actions, self.what)

    def probabilities(self, states: AnyArray) -> FloatArray:
        """Probabilities of the policy's actions."""
        rows = rows_of(states)
        return in_batches(self._batch, rows) if len(rows) else np.zeros((0, self.n_actions))

    def _batch(self, rows: AnyArray) -> AnyArray:
        import torch

        batch_of = import_module("tianshou.data").Batch

        space = getattr(self.policy, "observation_space", None)
        batch = observed(space, rows, self.what) if space is not None else rows.astype(np.float32)
        self.policy.eval()
        with torch.no_grad():
            answer = self.policy(batch_of(obs=batch, info={}))
        distribution = getattr(answer, "dist", None)
        if distribution is not None and hasattr(distribution, "probs"):
            return normalised(_joint(distribution), self.what)
        actions = np.asarray(answer.act)
        return as_probabilities(actions, len(rows), output="action", n_actions=self.n_actions, what=self.what)


def _joint(distribution: ForeignModel) -> FloatArray:
    """Probabilities (n, A) of one categorical distribution, or of all combinations of several."""
    parts = distribution if isinstance(distribution, list) else [distribution]
    joint: FloatArray | None = None
    for part in parts:
        own = as_array(part.probs).astype(np.float64)
        joint = own if joint is None else (joint[:, :, None] * own[:, None, :]).reshape(len(own), -1)
    assert joint is not None
    return joint
