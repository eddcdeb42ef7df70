r"""The half of a log that chooses rules, as a table: rows are shrunk, and only pairs seen often enough are offered.

A row is drawn towards the mean row of its state,

.. math:: \tilde P(s' \mid s, a) = \frac{n(s, a)\, \hat P(s' \mid s, a) + \tau\, \hat P(s' \mid s)}{n(s, a) + \tau}

A search over many plans finds the rows that are good by luck; a shrunk row is only as far from its state's other rows
as its count supports. Rewards and outcomes shrink alike. The strength :math:`\tau` is the one under which each logged
move is most probable given all the others of the log (leave one out); where every decision ends its episode, the one
under which others foretell best what a decision brings.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from polidiff.errors import ImproperPolicyError
from polidiff.evaluation.exact import ExactEvaluator
from polidiff.evaluation.logged.counted_log import CountedLog
from polidiff.evaluation.logged.counts import Edges
from polidiff.evaluation.logged.plan import estimated_world, supported_world
from polidiff.policies import one_hot
from polidiff.policies.protocol import PolicyLike
from polidiff.records.arrays import BoolArray, FloatArray
from polidiff.records.plan import Frontier
from polidiff.surrogates.record import frozen_states
from polidiff.surrogates.table import rebuilt, with_edits
from polidiff.worlds.log import Log
from polidiff.worlds.protocol import aim
from polidiff.worlds.tabular import TabularMDP

if TYPE_CHECKING:
    from polidiff.options import Freeze

STRENGTHS = (1.0, 3.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 2000.0)


@dataclass(frozen=True, eq=False)
class ChoosingHalf:
    """What the choosing half of a log knows, as tables."""

    raw: TabularMDP  # rows as counted
    model: TabularMDP  # rows shrunk
    current: FloatArray  # (S + 2, A) the policy in use
    offered: BoolArray  # (S + 2, A) pairs that rules may prescribe
    frozen: BoolArray  # (S + 2,) never met, or kept by the user
    strength: float

    def promises(self, solved: Frontier) -> dict[str, float]:
        """What the choosing half says a plan gains, with shrunk and with raw rows: the winner's curse in figures."""
        said: dict[str, float] = {}
        base = _return(self.raw, self.current)
        for plan in solved.plans[1:]:
            table, rules = with_edits(self.current, plan), len(plan.rules)
            said[f"gain said by the choosing half with {rules} rules, shrunk"] = (
                plan.expected_return - solved.current_return
            )
            try:
                raw = _return(self.raw, table) - base
            except ImproperPolicyError:  # counts without shrinking may hold loops that nobody was seen to leave
                continue
            said[f"gain said by the choosing half with {rules} rules, raw"] = raw
        return said


def choosing_half(log: Log, half: CountedLog, current: PolicyLike, least: int, freeze: Freeze) -> ChoosingHalf:
    """What one half of a log knows."""
    visits = half.counts.edges.visits
    met = np.append(visits.sum(axis=1) > 0, [False, False])
    raw = _with_features(estimated_world(log, counted=half), met)
    strength = best_strength(half.counts.edges, outcome=aim(log)[0])
    often = np.array(supported_world(log, min_support=least, counted=half).allowed)
    often[:-2] &= visits >= least
    frozen = ~met | frozen_states(freeze, raw.feature_names, raw.features_of(np.arange(raw.n_states)))
    model = shrunk(raw, visits, strength)
    table = seen_part(model.allowed, half.table(current), visits, met)
    return ChoosingHalf(raw, model, table, often, frozen, strength)


def seen_part(seen: BoolArray, table: FloatArray, visits: FloatArray, met: BoolArray) -> FloatArray:
    """The policy on what the half has seen: its seen actions, or the most frequent one where it has none."""
    whole = np.vstack([table, np.zeros((2, table.shape[1]))])
    whole = np.where(seen, whole, 0.0)
    usual = one_hot(np.append(visits.argmax(axis=1), [0, 0]), table.shape[1])
    mass = whole.sum(axis=1, keepdims=True)
    return np.where((mass > 0) & met[:, None], whole / np.maximum(mass, 1e-300), usual)


def _with_features(world: TabularMDP, met: BoolArray) -> TabularMDP:
    """The table with the features of a met state lent to states that the half never met; nothing changes there."""
    filled = copy.copy(world)
    if world.features is not None and met.any() and not met.all():
        features = np.array(world.features)
        features[~met] = features[np.flatnonzero(met)[0]]
        filled.features = features
    return filled


def _return(world: TabularMDP, table: FloatArray) -> float:
    return float(ExactEvaluator(world, table).visits() @ (table * world.rewards).sum(axis=1))


def best_strength(edges: Edges, *, outcome: int = 0) -> float:
    """The strength with the largest leave-one-out likelihood of the logged moves, or of one outcome if all end."""
    if (edges.to == edges.n_states).all():
        return min(STRENGTHS, key=lambda strength: left_out_error(edges, strength, outcome))
    return max(STRENGTHS, key=lambda strength: left_out_likelihood(edges, strength))


def left_out_likelihood(edges: Edges, strength: float) -> float:
    """Mean logarithm of the chance that each move has under the shrunk rows of all other moves.

    Moves that nothing else in their state foretells are left out: no strength makes them possible.
    """
    width = edges.n_states + 1
    links, link = np.unique(edges.state * width + edges.to, return_inverse=True)
    of_state = np.bincount(link, edges.count, len(links))[link] - 1
    state = edges.state_visits[edges.state] - 1
    pair = edges.pair_visits[edges.row] - 1
    told = of_state > 0
    mean = of_state[told] / state[told]
    chance = (np.maximum(edges.count[told] - 1, 0) + strength * mean) / (pair[told] + strength)
    return float(edges.count[told] @ np.log(chance) / edges.count[told].sum())


def left_out_error(edges: Edges, strength: float, outcome: int) -> float:
    """Summed squared error of what each decision adds, foretold by the shrunk rows of all other decisions."""
    totals, squares = edges.sums[:, outcome], edges.squares[:, outcome]
    all_of_state = np.bincount(edges.state, totals, edges.n_states)[edges.state]
    others = edges.state_visits[edges.state] - 1
    pull = np.divide(strength, others, out=np.zeros(len(others)), where=others > 0)
    weight = edges.count - 1 + strength
    own, rest = 1 + (1 + pull) / weight, (totals + pull * all_of_state) / weight
    return float((own**2 * squares - 2 * own * rest * totals + edges.count * rest**2)[others > 0].sum())


def shrunk(world: TabularMDP, visits: FloatArray, strength: float) -> TabularMDP:
    """The table with the rows of pairs seen `visits` (S, A) times drawn towards their state's mean row.

    Pairs that were never seen in a state that was met are not allowed.
    """
    seen = np.zeros((world.n_states, world.n_actions))
    seen[: len(visits)] = visits
    total = seen.sum(axis=1, keepdims=True)
    share = np.where(total > 0, seen / np.maximum(total, 1.0), 0.0)
    own = np.where(seen > 0, seen / (seen + strength), 1.0)

    def drawn(table: FloatArray) -> FloatArray:
        mean = (share * np.where(seen > 0, table, 0.0)).sum(axis=1, keepdims=True)
        return np.where(seen > 0, own * table + (1 - own) * mean, table)

    mean = world.policy_moves(share)
    moves = [
        sparse.csr_array(
            sparse.diags_array(own[:, action]) @ world.transitions[action :: world.n_actions]
            + sparse.diags_array(1 - own[:, action]) @ mean
        )
        for action in range(world.n_actions)
    ]
    tables = [drawn(world.outcome_table(outcome)) for outcome in world.outcomes]
    allowed = np.where(total > 0, seen > 0, world.allowed)
    return rebuilt(world, moves, drawn(world.rewards), tables, actions=world.actions, allowed=allowed)
