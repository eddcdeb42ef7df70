"""What the stages hand to each other. Records import nothing from the stages."""

from polidiff.records.action import Action, Direction, Shift, Swap, as_actions
from polidiff.records.arrays import AnyArray, BoolArray, FloatArray, IntArray, read_only
from polidiff.records.outcome import Evaluation, Interval, Outcome, check_outcomes
from polidiff.records.patch import Edit, Patch
from polidiff.records.rule import Condition, Rule, covers_any, first_match

__all__ = [
    "Action",
    "AnyArray",
    "BoolArray",
    "Condition",
    "Direction",
    "Edit",
    "Evaluation",
    "FloatArray",
    "IntArray",
    "Interval",
    "Outcome",
    "Patch",
    "Rule",
    "Shift",
    "Swap",
    "as_actions",
    "check_outcomes",
    "covers_any",
    "first_match",
    "read_only",
]
