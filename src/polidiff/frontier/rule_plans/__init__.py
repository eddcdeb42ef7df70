"""Plans you can read: improve a policy with at most K rules, directly."""

from polidiff.frontier.rule_plans.improve import improve_with_rules
from polidiff.frontier.rule_plans.moves import Move

__all__ = ["Move", "improve_with_rules"]
