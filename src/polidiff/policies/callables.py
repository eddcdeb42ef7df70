"""Functions as policies: called in batches if they can, state by state if they cannot."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from polidiff.errors import InvalidPolicyError
from polidiff.policies.protocol import action_numbers, check_probabilities, is_text, one_hot
from polidiff.records.arrays import AnyArray, FloatArray

PROBE = 3


class CallablePolicy:
    """A function from states to actions (numbers or names) or probabilities.

    Whether the function takes a batch or one state is found out once, on the first call: a batch answer must have one
    entry per state and, where single calls work too, agree with them.
    """

    def __init__(
        self, function: Callable[[Any], Any], n_actions: int | None = None, names: tuple[str, ...] | None = None
    ) -> None:
        self.function = function
        self.names = names
        self._n_actions = n_actions
        self._batched: bool | None = None

    @property
    def n_actions(self) -> int:
        """How many actions there are."""
        if self._n_actions is None:
            raise InvalidPolicyError(
                "a function does not tell how many actions there are. Hint: as_policy(f, n_actions=)"
            )
        return self._n_actions

    def probabilities(self, states: AnyArray) -> FloatArray:
        """Answers of the function, as probabilities."""
        answer = self.answers(states)
        return answer if answer.ndim == 2 else one_hot(answer, self.n_actions)

    def answers(self, states: AnyArray) -> AnyArray:
        """Actions (n,) if the function names actions, probabilities (n, A) if it gives those."""
        batch = np.asarray(states)
        if not len(batch):
            return np.zeros((0, self.n_actions))
        if self._batched is None:
            self._batched = self._takes_batches(batch)
        answer = self.function(batch) if self._batched else [self.function(state) for state in batch]
        return self._checked(np.asarray(answer), len(batch))

    def _takes_batches(self, batch: AnyArray) -> bool:
        probe = batch[np.linspace(0, len(batch) - 1, PROBE).astype(np.int64)]
        try:
            together = np.asarray(self.function(probe))
        except Exception:
            return False
        if together.ndim not in (1, 2) or len(together) != PROBE:
            return False
        try:
            apart = np.asarray([np.asarray(self.function(state)) for state in probe])
        except Exception:
            return True
        if apart.shape != together.shape:
            return True
        if is_text(together):
            return bool((apart == together).all())
        return bool(np.allclose(apart.astype(float), together.astype(float)))

    def _checked(self, answer: AnyArray, count: int) -> AnyArray:
        if len(answer) != count or answer.ndim not in (1, 2):
            raise InvalidPolicyError(
                f"a policy must return one action or one row of probabilities per state; for {count} states it "
                f"returned shape {answer.shape}"
            )
        if answer.ndim == 2:
            if self._n_actions is not None and answer.shape[1] != self._n_actions:
                raise InvalidPolicyError(
                    f"a policy must return {self._n_actions} probabilities per state; got {answer.shape[1]}"
                )
            return check_probabilities(answer)
        if is_text(answer):
            return action_numbers(answer, self.names, "the policy")
        actions = answer.astype(np.int64, copy=False)
        if actions is answer and answer.min() >= 0 and answer.max() < self.n_actions:
            return actions
        off = np.flatnonzero((actions < 0) | (actions >= self.n_actions) | (actions != answer))
        if off.size:
            raise InvalidPolicyError(
                f"a policy must return actions 0 to {self.n_actions - 1}; for state number {off[0]} it returned "
                f"{answer[off[0]]!r}"
            )
        return actions
