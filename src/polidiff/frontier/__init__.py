"""The few changes that pay most: plans, frontiers and their proofs.

``improve_table(world, current, candidates=None, *, budget=None, unit="expected", max_states=None, keep=(), freeze=(),
change_cost=None, gap=1e-3, time_limit=None, level=0.95, seed=0, extras=True, explain=None) -> Frontier``

takes any `TabularMDP`. `candidates` are policies whose actions a plan may take (None: every allowed action); `keep`
holds texts (``"mortality<=current"``) or `Guard` records; `freeze` holds conditions as text, `Rule` records, or a mask
over states; `max_states` caps the number of changed states, which is what ``max_rules`` means without features;
`explain` is called as ``explain(world, current, policy)`` when a plan's explanation is asked for. Every edit of a
plan's patch names one state: its rule is ``Condition("state", 0, values=(name,))`` and `states` holds its index.
`Frontier.context` is the `Setting` that was solved.
"""

from polidiff.frontier.setting import Setting, prepare
from polidiff.frontier.table import improve_table

__all__ = ["Setting", "improve_table", "prepare"]
