"""Policies: what chooses an action in a state."""

from polidiff.policies.adapters import as_policy
from polidiff.policies.files import save_policy
from polidiff.policies.functions import (
    CallablePolicy,
    Discretised,
    GreedyPolicy,
    MixedPolicy,
    TablePolicy,
    table_policy,
)
from polidiff.policies.patched import PatchedPolicy, apply_patch, difference, edit_rules, fitted, rule_patch
from polidiff.policies.protocol import (
    Model,
    Policy,
    PolicyLike,
    changed_decisions,
    choose,
    drawn_from,
    one_hot,
    top_actions,
)

__all__ = [
    "CallablePolicy",
    "Discretised",
    "GreedyPolicy",
    "MixedPolicy",
    "Model",
    "PatchedPolicy",
    "Policy",
    "PolicyLike",
    "TablePolicy",
    "apply_patch",
    "as_policy",
    "changed_decisions",
    "choose",
    "drawn_from",
    "difference",
    "edit_rules",
    "fitted",
    "one_hot",
    "rule_patch",
    "save_policy",
    "table_policy",
    "top_actions",
]
