r"""Plans over regions of feature rows: every cell of a region changes together.

With :math:`\bar\pi(c)` the current policy's average in cell c and :math:`\Delta_e(c)` what the rows of c that edit e
acts on would do otherwise, a plan E is the policy

.. math:: \pi_E(a \mid c) = \bar\pi(a \mid c) + \sum_{e \in E} \Delta_e(a, c), \qquad
          C(E) = \sum_c x_E(c) \sum_{e \in E} \lambda_e(c),

with :math:`\lambda_e(c)` the share of those rows and :math:`x_E` the plan's visits. Regions are disjoint, so effects of
edits on the policy add up, and a plan costs one small linear solve.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from polidiff.evaluation.logged.counted_log import CountedLog
from polidiff.evaluation.logged.model import build_model, split_policy
from polidiff.policies import one_hot
from polidiff.records.arrays import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class TiedEdit:
    """One action in one region, in place of the current one."""

    region: int
    current: int
    proposed: int
    acts: FloatArray  # (S,) share of each cell's rows on which it acts
    shift: FloatArray  # (S, A) what it adds to the policy's averages
    tried: int  # rows of the region in which its action was taken
    episodes: int  # blocks of episodes among which these are spread: at least so many people
    untried: float  # share of its rows in cells where nobody took its action


@dataclass(frozen=True)
class TiedValue:
    """What a plan is worth in the model of the half that chooses."""

    outcomes: FloatArray  # (K,)
    changes: float


def tied_edit(
    counted: CountedLog, region: int, where: IntArray, top: IntArray, chances: FloatArray, proposed: int, current: int
) -> TiedEdit:
    """The edit of rows in a region (`where` (n,) is the region of each row) whose current top action is `current`.

    `chances` (n, A) is the current policy on the logged rows, `top` its most probable actions.
    """
    cell, edges = counted.row_state(), counted.counts.edges
    size = np.maximum(np.bincount(cell, minlength=edges.n_states), 1)
    acting = (where == region) & (top == current)
    new = one_hot(np.full(int(acting.sum()), proposed), chances.shape[1]) - chances[acting]
    shift = np.column_stack([np.bincount(cell[acting], column, edges.n_states) for column in new.T]) / size[:, None]
    acts = np.bincount(cell[acting], minlength=edges.n_states) / size
    there = acts > 0
    weight = acts * edges.state_visits
    entries = there[counted.counts.state] & (counted.counts.action == proposed)
    return TiedEdit(
        region,
        current,
        proposed,
        acts,
        shift,
        tried=int(edges.visits[there, proposed].sum()),
        episodes=len(np.unique(counted.counts.block[entries])),
        untried=float(weight[edges.visits[:, proposed] == 0].sum() / max(weight.sum(), 1e-300)),
    )


def tied_value(
    counted: CountedLog, base: FloatArray, edits: Sequence[TiedEdit], ends: FloatArray, *, discount: float
) -> TiedValue:
    """Outcomes and changes of a plan from the logged starts; decisions nobody took count as their cell's average."""
    edges = counted.counts.edges
    table = base + sum((edit.shift for edit in edits), start=np.zeros(base.shape))
    acts = sum((edit.acts for edit in edits), start=np.zeros(len(base)))
    model = build_model(edges, split_policy(np.clip(table, 0.0, 1.0), None), discount=discount, lend=True)
    starts = edges.starts / edges.starts.sum()
    outcomes = np.array([starts @ model.values(k, float(end)) for k, end in enumerate(ends)])
    return TiedValue(outcomes, float(model.visits(starts[None])[0] @ acts))


def enough(edit: TiedEdit, *, rows: int, episodes: int, untried: float) -> bool:
    """Whether the log has tried an edit often enough for plans to use it."""
    return edit.tried >= rows and edit.episodes >= episodes and edit.untried <= untried
