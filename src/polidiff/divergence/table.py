r"""Diverging states of a table, all of them.

A state diverges when the policies act differently there,

.. math:: a_b \ne a_e \quad\text{or}\quad |\pi_b(a_b \mid s) - \pi_e(a_e \mid s)| > \kappa_\pi,

and it matters: the total variation of the two next-state distributions exceeds :math:`\kappa_T`, or some outcome
differs at once. The paper's own second condition looks at the most probable next state only; it is blind where several
are equally likely, and is kept for the reproduction.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from polidiff.divergence import Divergence, decide, labelled
from polidiff.evaluation.exact import ExactEvaluator, outcome_tensor, policy_table
from polidiff.options import ExplainOptions
from polidiff.policies import PolicyLike, TablePolicy
from polidiff.policies.protocol import changed_decisions
from polidiff.records.arrays import BoolArray, FloatArray
from polidiff.records.explanation import IDLE
from polidiff.worlds.tabular import TabularMDP

IMMEDIATE = 1e-9


def find_divergence(
    world: TabularMDP,
    current: PolicyLike,
    proposed: PolicyLike,
    options: ExplainOptions,
    *,
    unsure: BoolArray | None = None,
) -> Divergence:
    """Compare two policies in every state that either can reach, alone or taking turns; no luck is needed."""
    by_chance = current.by_chance if isinstance(current, TablePolicy) else 0.0
    current, proposed = policy_table(world, current), policy_table(world, proposed)
    decided = decide(current, proposed, by_chance)
    matters = _matters(world, current, proposed, options, unsure)
    visits = [ExactEvaluator(world, table).visits() for table in (current, proposed, (current + proposed) / 2)]
    reached = (visits[2] > 0) & ~world.absorbing
    apart = decided.differ(options.policy_tolerance) & reached
    differs = apart & matters
    facts: dict[str, str | int] = {"states compared": int(reached.sum()), "states in the table": world.n_states}
    if unsure is not None and (apart & ~matters).any():
        facts[IDLE] = "some"  # a share of what was recorded may be that of a few people
    keep = np.flatnonzero(reached)
    shares = [v[keep] / v[keep].sum() for v in visits]
    return labelled(
        decided.take(keep),
        differs[keep],
        world.actions,
        visits[1][keep] * changed_decisions(current[keep], proposed[keep]) if unsure is None else None,
        states=keep,
        features=world.features_of(keep),
        weight=sum(shares) / 3,
        judged=(shares[0] + shares[1]) / 2,
        episode=np.full(len(keep), -1),
        first=np.full(len(keep), np.nan),
        facts=facts,
    )


def _matters(
    world: TabularMDP, current: FloatArray, proposed: FloatArray, options: ExplainOptions, unsure: BoolArray | None
) -> BoolArray:
    moves_b, moves_e = world.policy_moves(current), world.policy_moves(proposed)
    if options.style == "paper":
        return _most_probable_differs(moves_b, moves_e, options.transition_tolerance)
    apart = np.asarray(abs(moves_b - moves_e).sum(axis=1)).ravel() / 2
    gains = outcome_tensor(world)
    at_once = np.abs(np.einsum("sa,sam->sm", current - proposed, gains)).max(axis=1) > IMMEDIATE
    return np.asarray((apart > options.transition_tolerance) | at_once | (False if unsure is None else unsure))


def _most_probable_differs(moves_b: sparse.csr_array, moves_e: sparse.csr_array, tolerance: float) -> BoolArray:
    to_b, to_e = (np.asarray(moves.argmax(axis=1)).ravel() for moves in (moves_b, moves_e))
    p_b, p_e = (np.asarray(moves.max(axis=1).toarray()).ravel() for moves in (moves_b, moves_e))
    return np.asarray((to_b != to_e) | (np.abs(p_b - p_e) > tolerance))
