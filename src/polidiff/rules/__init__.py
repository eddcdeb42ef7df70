"""Boolean decision rules by column generation: a few readable conjunctions per class."""

from polidiff.rules.classifier import RuleClassifier, RuleWarning
from polidiff.rules.lists import DecisionList

__all__ = ["DecisionList", "RuleClassifier", "RuleWarning"]
