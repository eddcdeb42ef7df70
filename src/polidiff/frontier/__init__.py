"""The few changes that pay most: plans, frontiers and their proofs.

``improve_table(surrogate, options)`` takes any table to plan in. Every edit of a plan's patch names one state: its rule
is ``Condition("state", 0, values=(name,))`` and `states` holds its index. `Frontier.context` is the `Setting` that was
solved.
"""

from polidiff.frontier.setting import Setting, prepare
from polidiff.frontier.table import improve_table

__all__ = ["Setting", "improve_table", "prepare"]
