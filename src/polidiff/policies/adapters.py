"""One function that turns whatever people have into a policy."""

from __future__ import annotations

from typing import Any

import numpy as np

from polidiff.errors import InvalidPolicyError
from polidiff.policies.callables import CallablePolicy
from polidiff.policies.protocol import Policy
from polidiff.policies.tables import table_policy


def as_policy(obj: Any, *, n_actions: int | None = None, n_states: int | None = None) -> Policy:
    """A policy from an object that is one, a table, or a function.

    Parameters
    ----------
    obj : policy, array-like or callable
        (S,) action indices, (S, A) probabilities, or a function of a batch of states or of one state.
    n_actions, n_states : int, optional
        What the world has; checked where the object tells, needed where it does not.
    """
    if isinstance(obj, CallablePolicy):
        return CallablePolicy(obj.function, n_actions) if n_actions is not None else obj
    if callable(getattr(obj, "probabilities", None)):
        if n_actions is not None and obj.n_actions != n_actions:
            raise InvalidPolicyError(f"the world has {n_actions} actions; the policy has {obj.n_actions}")
        policy: Policy = obj
        return policy
    if isinstance(obj, (np.ndarray, list, tuple)):
        array = np.asarray(obj)
        if array.dtype == object or not np.issubdtype(array.dtype, np.number):
            raise InvalidPolicyError(f"a policy table must hold numbers; got {array.dtype} of shape {array.shape}")
        return table_policy(array, n_actions, n_states)
    if callable(obj):
        return CallablePolicy(obj, n_actions)
    raise InvalidPolicyError(
        f"expected a policy, a table or a function; got {type(obj).__name__}. Hint: (S,) action indices, "
        "(S, A) probabilities, or a function of states"
    )
