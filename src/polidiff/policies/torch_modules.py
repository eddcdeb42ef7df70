"""Torch modules: on their device, in their precision, in evaluation mode and without gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from polidiff.errors import InvalidPolicyError
from polidiff.policies.model_io import as_probabilities, check_output, rows_of
from polidiff.policies.protocol import ForeignModel
from polidiff.records.arrays import AnyArray, FloatArray

LARGEST_BATCH = 16_384


class TorchPolicy:
    """A module from observations (n, d) to logits, probabilities, values or actions."""

    def __init__(self, module: ForeignModel, *, output: str | None = None, n_actions: int | None = None) -> None:
        check_output(output)
        self.module = module
        self.output = output
        self._n_actions = n_actions if n_actions is not None else last_width(module)

    @property
    def n_actions(self) -> int:
        """How many actions there are."""
        if self._n_actions is None:
            raise InvalidPolicyError(
                "a torch module does not tell how many actions there are. Hint: as_policy(module, n_actions=)"
            )
        return self._n_actions

    def probabilities(self, states: AnyArray) -> FloatArray:
        """Answers of the module, as probabilities."""
        rows = rows_of(states)
        if not len(rows):
            return np.zeros((0, self.n_actions))
        answer = in_batches(lambda part: called(self.module, self.module, part), rows)
        what = f"torch module {type(self.module).__name__}"
        return as_probabilities(answer, len(rows), output=self.output, n_actions=self._n_actions, what=what)


class ActorPolicy:
    """An agent in the style of CleanRL: ``get_action_and_value(x, action)`` gives the log-probability of an action."""

    def __init__(self, agent: ForeignModel, *, n_actions: int | None = None) -> None:
        if hasattr(agent, "actor_mean") or hasattr(agent, "actor_logstd"):
            raise InvalidPolicyError(
                "actions must be discrete; the agent draws them from a normal distribution. Hint: choose levels and "
                "wrap the policy, Discretised(agent.actor_mean, bins)"
            )
        self.agent = agent
        count = n_actions if n_actions is not None else last_width(getattr(agent, "actor", None))
        if count is None:
            raise InvalidPolicyError(
                "the agent does not tell how many actions there are. Hint: as_policy(agent, n_actions=)"
            )
        self.n_actions: int = count

    def probabilities(self, states: AnyArray) -> FloatArray:
        """Probabilities of the agent's distribution."""
        rows = rows_of(states)
        if not len(rows):
            return np.zeros((0, self.n_actions))
        what = f"agent {type(self.agent).__name__}"
        if not hasattr(self.agent, "get_action_and_value"):
            answer = in_batches(lambda part: called(self.agent, self.agent.actor, part), rows)
            return as_probabilities(answer, len(rows), output="logits", n_actions=self.n_actions, what=what)
        columns = [in_batches(self._log_of(action), rows) for action in range(self.n_actions)]
        logs = np.stack([column.reshape(len(rows)) for column in columns], axis=1).astype(np.float64)
        return as_probabilities(np.exp(logs), len(rows), output="probabilities", what=what)

    def _log_of(self, action: int) -> Callable[[AnyArray], AnyArray]:
        import torch

        def log_probability(x: Any) -> Any:
            chosen = torch.full((len(x),), action, dtype=torch.long, device=x.device)
            return self.agent.get_action_and_value(x, chosen)[1]

        return lambda part: called(self.agent, log_probability, part)


def called(owner: ForeignModel, function: Callable[[Any], Any], rows: AnyArray) -> AnyArray:
    """The function of a batch of rows as an array, with `owner` in evaluation mode."""
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
    return np.asarray(
        plain.float().numpy() if plain.dtype.itemsize == 2 and plain.is_floating_point() else plain.numpy()
    )


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
