"""Classifiers with scikit-learn's interface: columns in the order of actions, unseen actions with probability 0."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from polidiff.errors import InvalidPolicyError
from polidiff.policies.answers import normalised
from polidiff.policies.observations import check_width, rows_of
from polidiff.policies.protocol import one_hot
from polidiff.records.arrays import FloatArray, IntArray


class ClassifierPolicy:
    """A fitted classifier whose classes are action indices."""

    def __init__(self, classifier: Any, n_actions: int | None = None) -> None:
        self.classifier = classifier
        self.what = f"classifier {type(classifier).__name__}"
        self.classes = _action_indices(classifier, self.what)
        self.n_actions: int = n_actions if n_actions is not None else int(self.classes.max()) + 1
        if self.classes.max() >= self.n_actions:
            raise InvalidPolicyError(
                f"{self.what} knows action {int(self.classes.max())}; the world has {self.n_actions} actions (from 0)"
            )

    def probabilities(self, states: Any) -> FloatArray:
        """Predicted probabilities, by action."""
        rows = check_width(rows_of(states), getattr(self.classifier, "n_features_in_", None), self.what)
        table = np.zeros((len(rows), self.n_actions))
        if not len(rows):
            return table
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="X does not have valid feature names")
            if not hasattr(self.classifier, "predict_proba"):
                return one_hot(np.asarray(self.classifier.predict(rows)).astype(np.int64), self.n_actions)
            table[:, self.classes] = self.classifier.predict_proba(rows)
        return normalised(table, self.what)


def _action_indices(classifier: Any, what: str) -> IntArray:
    classes = getattr(classifier, "classes_", None)
    if classes is None:
        raise InvalidPolicyError(f"{what} is not fitted: it has no classes_. Hint: call fit(states, actions) first")
    if isinstance(classes, list):
        raise InvalidPolicyError(
            f"{what} predicts {len(classes)} labels per state. Hint: fit one label, the action index"
        )
    labels = np.asarray(classes)
    whole = np.issubdtype(labels.dtype, np.number) and np.array_equal(labels, labels.astype(np.int64))
    if not whole or labels.min() < 0:
        raise InvalidPolicyError(
            f"classes of a policy must be action indices 0, 1, …; {what} has {labels[:5].tolist()}. Hint: fit it on "
            "indices, or pass a function that translates its predictions"
        )
    return labels.astype(np.int64)
