r"""The borrow rule: an untried decision is as good, beside its neighbours, as the tried ones.

.. math:: q(s, a) = \bar q(s) + \mu \pm z \sqrt{\tau^2 + \mathrm{se}^2}

An unseen pair gets its state's logged average plus the mean advantage :math:`\mu` of the policy's *seen* pairs, with
the largest scatter :math:`\tau^2` that those allow (Q-profile), all unseen pairs on one side. The assumption fails when
decisions are missing for a reason, so this interval stands beside the careful one and never alone.
"""

from __future__ import annotations

import numpy as np
from scipy import stats

from polidiff.evaluation.logged.model import LoggedModel, SplitPolicy, build_model
from polidiff.evaluation.logged.noise import spread
from polidiff.evaluation.logged.worst_case_bounds import Difference, PolicyBounds, difference, value_bounds
from polidiff.records.arrays import FloatArray

ASSUMPTION = (
    "assumes that a decision nobody has tried is as good, beside the other decisions of its state, as the tried ones "
    "of this policy are beside theirs"
)
FEWEST_PAIRS = 5
TAIL = 0.1  # one-sided level of the upper limit of the scatter
HALVINGS = 40


def borrowed_bounds(careful: PolicyBounds, *, level: float) -> PolicyBounds:
    """The ends of a policy when unseen pairs borrow; loans of fewer than five seen pairs are refused.

    The careful ends themselves where nothing is unknown.
    """
    if careful.model.complete:
        return careful
    target, discount = careful.target, careful.model.discount
    model = build_model(careful.model.edges, target, discount=discount, lend=True)
    low, high, centre = [], [], []
    for k, declared in enumerate(careful.ranges):
        least, most = declared if declared is not None else (0.0, 0.0)
        middle = model.values(k, (least + most) / 2)
        found = mean_advantage(model, target, k, middle)
        mean, half = (0.0, np.inf) if found is None else (found[0], stats.norm.ppf((1 + level) / 2) * found[1])
        if not np.isfinite(half):
            low.append(careful.low[k])
            high.append(careful.high[k])
        else:
            low.append(model.values(k, least, mean - half))
            high.append(model.values(k, most, mean + half))
        centre.append(model.values(k, (least + most) / 2, mean))
    visits = model.visits(careful.starts.weights)
    return PolicyBounds(target, model, careful.starts, visits, careful.ranges, tuple(low), tuple(high), tuple(centre))


def mean_advantage(
    model: LoggedModel, target: SplitPolicy, outcome: int, values: FloatArray
) -> tuple[float, float] | None:
    """Mean advantage of the policy's seen pairs over their states' other actions, and its deviation for a new pair."""
    edges = model.edges
    found = spread(edges, outcome, values, values, model.discount)
    after = model.discount * np.append(values, 0.0)[edges.to]
    visits, of_state = edges.pair_visits, edges.pair_state
    total = np.bincount(edges.row, edges.sums[:, outcome] + edges.count * after, len(visits))
    others = edges.state_visits[of_state] - visits
    weight = target.rest[of_state, edges.pair_action]
    use = (others > 0) & (weight > 1e-9)
    if use.sum() < FEWEST_PAIRS:
        return None
    elsewhere = (np.bincount(of_state, total, edges.n_states)[of_state] - total) / np.maximum(others, 1)
    advantage = (total / visits - elsewhere)[use]
    variance = (found.pair / visits + found.state[of_state] / np.maximum(others, 1))[use]
    return _profile(advantage, variance, weight[use])


def _profile(advantage: FloatArray, variance: FloatArray, weight: FloatArray) -> tuple[float, float]:
    """Mean and deviation at the largest scatter that a chi-square test of the advantages allows, by bisection."""
    limit = stats.chi2.ppf(TAIL, len(advantage) - 1)
    low, high = 0.0, float(advantage.var()) + 1e-12
    while _excess(advantage, variance, weight, high)[0] > limit and high < 1e12:
        high *= 2
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if _excess(advantage, variance, weight, middle)[0] > limit:
            low = middle
        else:
            high = middle
    _, mean, error = _excess(advantage, variance, weight, high)
    return mean, float(np.sqrt(high + error**2))


def _excess(
    advantage: FloatArray, variance: FloatArray, weight: FloatArray, scatter: float
) -> tuple[float, float, float]:
    precision = 1 / np.maximum(scatter + variance, 1e-300)
    mass = float((weight * precision).sum())
    mean = float((weight * precision * advantage).sum()) / mass
    error = float(np.sqrt((weight**2 * precision).sum())) / mass
    return float((precision * (advantage - mean) ** 2).sum()), mean, error


def borrowed_values(
    careful: PolicyBounds, borrowing: PolicyBounds, outcome: int, alpha: float
) -> tuple[FloatArray, FloatArray]:
    """(q,) bounds under the assumption, never wider than without it."""
    _, least, most = value_bounds(careful, outcome, alpha)
    if borrowing is careful:
        return least, most
    _, low, high = value_bounds(borrowing, outcome, alpha)
    return np.maximum(low, least), np.minimum(high, most)


def borrowed_difference(
    careful: Difference, borrowing: tuple[PolicyBounds, PolicyBounds], alpha: float
) -> tuple[FloatArray, FloatArray]:
    """(q,) bounds of new − old under the assumption, never wider than without it."""
    _, least, most = careful.bounds(alpha)
    if borrowing == (careful.new, careful.old):
        return least, most
    _, low, high = difference(*borrowing, careful.outcome).bounds(alpha)
    return np.maximum(low, least), np.minimum(high, most)
