"""Plans you can read: improve a policy with at most K rules, directly."""

from polidiff.frontier.rule_plans.improve import improve_with_rules
from polidiff.frontier.rule_plans.moves import Move
from polidiff.frontier.rule_plans.search import SearchOptions

__all__ = ["Move", "SearchOptions", "improve_with_rules"]
