r"""How far values estimated from counts may be off: one exact linear sum over states.

With :math:`M = (I - P)^{-1}` and the draws' targets :math:`T = g + V(s')`,

.. math:: \operatorname{cov}(\hat V_x, \hat V_y)(s_0) = \sum_s M_x(s_0, s)\, M_y(s_0, s) \Bigl[\sum_a k_x k_y\,
          n(s,a)\, \operatorname{cov}_{sa}(T_x, T_y)
          + \rho_x \rho_y \frac{\operatorname{cov}_{s}(\bar T_x, \bar T_y)}{n(s)}\Bigr]

The covariance within a pair is shrunk from the pair to its state to the whole log, two pseudo-draws each, so that a
pair seen once never counts as certain; at the level of the log a rule of three stands for what no repeat has shown yet.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from polidiff.evaluation.logged.counts import Edges
from polidiff.evaluation.logged.model import LoggedModel
from polidiff.records.arrays import FloatArray

PSEUDO_DRAWS = 2.0
BUSY = 10.0  # a row counts for at most this many draws in the pooled level: busy rows must not speak for thin ones
RULE_OF_THREE = 3.0


@dataclass(frozen=True, eq=False)
class Spread:
    """Covariances of two targets."""

    pair: FloatArray  # (R,) within each pair, shrunk
    state: FloatArray  # (S,) within each state, shrunk
    between: FloatArray  # (S,) of the means of a state's actions, shrunk


@dataclass(frozen=True, eq=False)
class Noise:
    """Per state, what its draws add to a covariance."""

    covariance: FloatArray  # (S,)
    squares: FloatArray  # (S,) parts squared over their degrees of freedom (Satterthwaite)

    def variance(self, visits: FloatArray, other: FloatArray) -> FloatArray:
        """(q,) covariance of two values from the same starts, given their visits (q, S)."""
        total: FloatArray = (visits * other) @ self.covariance
        return total

    def freedom(self, visits: FloatArray) -> FloatArray:
        """(q,) degrees of freedom of the variance."""
        found: FloatArray = ((visits**2) @ self.covariance) ** 2 / np.maximum((visits**4) @ self.squares, 1e-300)
        return found


def spread(edges: Edges, outcome: int, x: FloatArray, y: FloatArray, discount: float) -> Spread:
    """Covariances of the targets of two value functions x, y (S,) for the same outcome."""
    n, pair_n, state_n = edges.count, edges.pair_visits, edges.state_visits
    rows, of_row, size = len(pair_n), edges.pair_state, edges.n_states
    dx, dy = (_step(edges, v, discount) for v in (x, y))
    gain, square = edges.sums[:, outcome], edges.squares[:, outcome]
    product = square + (dx + dy) * gain + n * dx * dy
    sum_x, sum_y = gain + n * dx, gain + n * dy
    row_x, row_y = np.bincount(edges.row, sum_x, rows), np.bincount(edges.row, sum_y, rows)
    within = np.bincount(edges.row, product, rows) - row_x * row_y / pair_n
    all_x, all_y = np.bincount(edges.state, sum_x, size), np.bincount(edges.state, sum_y, size)
    total = np.bincount(edges.state, product, size) - all_x * all_y / np.maximum(state_n, 1)
    if x is y:
        within, total = np.maximum(within, 0.0), np.maximum(total, 0.0)
    pooled = _pooled(within, pair_n) + _rule_of_three(edges, outcome, x, y, discount)
    state = (PSEUDO_DRAWS * pooled + total) / (PSEUDO_DRAWS + np.maximum(state_n - 1, 0))
    pair = (PSEUDO_DRAWS * state[of_row] + within) / (PSEUDO_DRAWS + pair_n - 1)
    gap = total - np.bincount(of_row, within, size)
    share = np.minimum(state_n, BUSY)
    typical = (share / np.maximum(state_n, 1) * gap).sum() / max(share.sum(), 1.0)
    between = (PSEUDO_DRAWS * typical + gap) / (PSEUDO_DRAWS + np.maximum(state_n - 1, 0))
    return Spread(pair, state, between)


def noise(one: LoggedModel, other: LoggedModel, outcome: int, x: FloatArray, y: FloatArray) -> Noise:
    """What each state adds to the covariance of two policies' values."""
    edges = one.edges
    found = spread(edges, outcome, x, y, one.discount)
    repeats = edges.pair_visits**2 / edges.pair_seen  # rows without a recorded successor lend weight, not knowledge
    part = one.weight * other.weight * repeats * found.pair
    on_policy = one.rho * other.rho * found.between / np.maximum(edges.state_visits, 1)
    squares = np.bincount(edges.pair_state, part**2 / (1 + edges.pair_seen), edges.n_states)
    covariance = np.bincount(edges.pair_state, part, edges.n_states) + on_policy
    return Noise(covariance, np.asarray(squares, dtype=np.float64))


def _step(edges: Edges, values: FloatArray, discount: float) -> FloatArray:
    """(m,) the part of a target that is not outcome, less the value of the state: constants per state do not matter
    to a covariance, and taking them out keeps the sums from cancelling."""
    return discount * np.append(values, 0.0)[edges.to] - values[edges.state]


def _pooled(within: FloatArray, pair_n: FloatArray) -> float:
    cap = np.minimum(pair_n - 1, BUSY) / np.maximum(pair_n - 1, 1)
    return float((cap * within).sum() / max((cap * (pair_n - 1)).sum(), 1.0))


def _rule_of_three(edges: Edges, outcome: int, x: FloatArray, y: FloatArray, discount: float) -> float:
    """A repeat of a pair may yet lead anywhere: the scatter of targets over the whole log, weighted by 3 / repeats."""
    n, gain, square = edges.count, edges.sums[:, outcome], edges.squares[:, outcome]
    after_x, after_y = (discount * np.append(v, 0.0)[edges.to] for v in (x, y))
    total = max(n.sum(), 1.0)
    product = (square + (after_x + after_y) * gain + n * after_x * after_y).sum() / total
    anywhere = product - (gain + n * after_x).sum() / total * ((gain + n * after_y).sum() / total)
    repeats = max(float((edges.pair_visits - 1).sum()), 1.0)
    return float(RULE_OF_THREE / (repeats + RULE_OF_THREE) * anywhere)
