"""What policies achieve: exact in a table, with intervals in a simulator or from a log."""

from typing import TYPE_CHECKING

from polidiff.worlds.protocol import by_kind

if TYPE_CHECKING:
    from polidiff.evaluation.comparison import Comparison
    from polidiff.options import EvaluateOptions
    from polidiff.policies import Policy, PolicyLike
    from polidiff.records.outcome import Evaluation
    from polidiff.worlds.protocol import World

__all__ = ["acting", "compare", "evaluate"]


@by_kind
def evaluate(world: "World", policy: "PolicyLike", options: "EvaluateOptions") -> "Evaluation":
    """Expected outcomes of one policy, overall and from every start."""
    raise NotImplementedError


@by_kind
def compare(world: "World", current: "PolicyLike", proposed: "PolicyLike", *, seed: int = 0) -> "Comparison":
    """Two policies side by side, ready to be asked."""
    raise NotImplementedError


@by_kind
def acting(world: "World", policy: "PolicyLike", *, seed: int = 0) -> "Policy":
    """A policy as one that edits can be made to; of a log the estimate of who wrote it."""
    raise NotImplementedError
