"""Plans you can read: improve a policy with at most K rules, directly."""

from polidiff.frontier.rule_plans.improve import improve_with_rules
from polidiff.frontier.rule_plans.moves import Move
from polidiff.frontier.rule_plans.search import SearchOptions
from polidiff.frontier.rule_plans.stability import gain_intervals
from polidiff.frontier.rule_plans.surface import SurfacePoint, surface

__all__ = ["Move", "SearchOptions", "SurfacePoint", "gain_intervals", "improve_with_rules", "surface"]
