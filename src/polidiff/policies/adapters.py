"""One function that turns whatever people have into a policy.

A library's model is recognised by what it can do, never by importing the library: whoever holds such an object has
the library already.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from polidiff.errors import InvalidPolicyError
from polidiff.options import check_count
from polidiff.policies import models
from polidiff.policies.functions import CallablePolicy, GreedyPolicy, always, table_policy
from polidiff.policies.protocol import (
    ALWAYS,
    ForeignModel,
    Policy,
    PolicyLike,
    action_numbers,
    is_text,
)
from polidiff.records.action import Action, listed
from polidiff.records.parse import Known
from polidiff.records.patch import Patch


def as_policy(
    obj: PolicyLike,
    *,
    n_actions: int | None = None,
    n_states: int | None = None,
    actions: Sequence[Action | str] | None = None,
    features: Sequence[str] = (),
    output: str | None = None,
    greedy: bool = False,
    trust: bool = False,
) -> Policy:
    """A policy from an object that is one, a table, a model, a file, or a function.

    Parameters
    ----------
    obj : policy, array-like, model, path or callable
        Recognised in this order: a policy; (S,) action indices or (S, A) probabilities; Stable-Baselines3; d3rlpy;
        RLlib; tianshou; an agent in the style of CleanRL; a torch module; a scikit-learn classifier; an ONNX file
        or session; a function of a batch of states or of one state. A path is read first (see `read_object`).
        The text "always:ACTION" is the policy that takes one action everywhere.
    n_actions, n_states : int, optional
        What the world has; checked where the object tells, needed where it does not.
    actions : sequence of names, optional
        The world's actions, for policies that answer with names; there are then as many as these.
    features : sequence of names, optional
        The world's features, for models that were fitted on a data frame and know their columns by name.
    output : {"logits", "probabilities", "values", "action"}, optional
        How to read the numbers of a torch module or ONNX model, where they do not tell themselves.
    greedy : bool
        Always take the most probable action.
    trust : bool
        Whether a file may run code while it is loaded.

    Examples
    --------
    >>> as_policy(lambda states: states[:, 0] > 2, n_actions=2).probabilities([[1.0], [3.0]])
    array([[1., 0.],
           [0., 1.]])
    >>> as_policy("always:go", actions=["stay", "go"]).probabilities([[1.0]])
    array([[0., 1.]])
    """
    names: tuple[str, ...] | None = actions if isinstance(actions, Known) else None
    if actions is not None and names is None:
        names = tuple(Action.of(action).name for action in listed("actions", actions))
    check_count("n_actions", n_actions)
    if names is not None:
        n_actions = len(names)
    policy = _recognised(obj, Asked(n_actions, n_states, names, tuple(features), output, trust))
    return GreedyPolicy(policy) if greedy else policy


class Asked(NamedTuple):
    """What the caller says about a policy; see `as_policy`."""

    n_actions: int | None
    n_states: int | None
    names: tuple[str, ...] | None
    features: tuple[str, ...]
    output: str | None
    trust: bool


def _recognised(obj: ForeignModel, asked: Asked) -> Policy:
    n_actions, n_states, names, features, output, _ = asked
    if isinstance(obj, CallablePolicy):
        return CallablePolicy(obj.function, n_actions, names) if n_actions is not None else obj
    if callable(getattr(obj, "probabilities", None)):
        return _checked(obj, n_actions)
    if isinstance(obj, (np.ndarray, list, tuple)):
        try:
            array = np.asarray(obj)
        except ValueError:
            raise InvalidPolicyError("a policy table must hold rows of numbers of the same length") from None
        if names is not None and array.ndim == 1 and is_text(array):
            array = action_numbers(array, names, "the policy table")
        if array.dtype.kind not in "iuf":
            raise InvalidPolicyError(f"a policy table must hold numbers; got {array.dtype} of shape {array.shape}")
        return table_policy(array, n_actions, n_states)
    if isinstance(obj, str) and obj.startswith(ALWAYS):
        return always(obj, names, n_actions)
    if isinstance(obj, (str, os.PathLike)):
        return _from_file(Path(obj), asked)
    for recognises, adapter in _LIBRARIES:
        if recognises(obj):
            return _checked(getattr(models, adapter)(obj, n_actions, output), n_actions)
    if _is_classifier(obj):
        return _checked(models.ClassifierPolicy(obj, n_actions, names, features), n_actions)
    if _can("run", "get_inputs", "get_outputs")(obj):
        raise InvalidPolicyError(
            "give the path of the .onnx file instead of its session, so that workers can load it too"
        )
    if callable(obj):
        return CallablePolicy(obj, n_actions, names)
    raise InvalidPolicyError(_not_recognised(obj))


def _from_file(path: Path, asked: Asked) -> Policy:
    if path.suffix.lower() == ".onnx":
        from polidiff.policies.onnx_models import OnnxPolicy

        if not path.is_file():
            raise InvalidPolicyError(f"there is no policy file {str(path)!r}")
        policy = OnnxPolicy.read(path, output=asked.output, n_actions=asked.n_actions)
        return _checked(policy, asked.n_actions)
    from polidiff.policies.files import from_stored, read_object

    stored = read_object(path, trust=asked.trust)
    if isinstance(stored, dict):
        stored = from_stored(stored, path, trust=asked.trust)
    elif isinstance(stored, (str, os.PathLike)):
        raise InvalidPolicyError(f"{path.name} holds a text, not a policy")
    return _recognised(stored, asked)


def _checked(policy: Policy, n_actions: int | None) -> Policy:
    if n_actions is not None and policy.n_actions != n_actions:
        raise InvalidPolicyError(f"the world has {n_actions} actions; the policy has {policy.n_actions}")
    return policy


def _can(*names: str) -> Callable[[ForeignModel], bool]:
    return lambda obj: all(callable(getattr(obj, name, None)) for name in names)


def _is_classifier(obj: ForeignModel) -> bool:
    return _can("predict")(obj) and (hasattr(obj, "classes_") or _can("predict_proba")(obj))


def _is_agent(obj: ForeignModel) -> bool:
    return _can("parameters")(obj) and (_can("get_action_and_value")(obj) or _can("actor")(obj))


_LIBRARIES: tuple[tuple[Callable[[ForeignModel], bool], str], ...] = (  # what tells a library's model, and its class
    (lambda obj: _can("predict", "policy")(obj) and hasattr(obj, "action_space"), "StableBaselinesPolicy"),
    (_can("predict", "predict_value"), "D3rlpyPolicy"),
    (lambda obj: _can("forward_inference")(obj) or _can("get_module", "train")(obj), "RllibPolicy"),
    (lambda obj: _can("compute_action")(obj) or _can("compute_action")(getattr(obj, "policy", None)), "TianshouPolicy"),
    (_is_agent, "ActorPolicy"),
    (_can("forward", "parameters"), "TorchPolicy"),
)


def _not_recognised(obj: ForeignModel) -> str:
    name = type(obj).__name__
    if obj is None or isinstance(obj, Patch):
        what = "a plan read from a file has no policy" if obj is None else "a patch changes a policy and is none itself"
        return f"{what}; got {name}. Hint: patch.apply(policy), or explain(world, current, patch)"
    if _can("predict")(obj):
        return (
            f"it is not clear how {name} is a policy: it predicts, but has no classes. Hint: pass a function that "
            "gives actions or probabilities, or Discretised(model, bins) if it predicts real numbers"
        )
    return (
        f"expected a policy, a table, a model, a file or a function; got {name}. Hint: (S,) action indices, "
        "(S, A) probabilities, or a function of states"
    )
