r"""Many verdicts at once: does Bonferroni hold, and would a maximum over resamples be as safe and sharper?

Outcomes that no action moves (noise, ten of them) are compared from five starts. Max-T takes the quantile c of

.. math:: \max_{g,k} |D^*_{gk} - \hat D_{gk}| / \operatorname{sd}(D^*_{gk})

over bootstrap resamples of the differences and widens each by c; calibrated max-T turns c into a level per comparison,
:math:`2\,(1 - \Phi(c))`, and lets the careful rule with its shrunk variances and Student quantiles use that level.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats

from benchmarks.logs.sampling import simulated_rows
from benchmarks.logs.tasks import chain
from polidiff.evaluation.logged.bounds import bound_policy, difference
from polidiff.evaluation.logged.counts import count_rows
from polidiff.evaluation.logged.model import Starts, bootstrap_values, split_policy
from polidiff.records.arrays import FloatArray
from polidiff.worlds.log_rows import LoggedRows

STARTS = [0, 1, 3, 5, 7]
OUTCOMES = 10
RESAMPLES = 200
ALPHA = 0.05
RULES = ("one by one", "Bonferroni", "max-T", "calibrated max-T")


def run(smoke: bool, *, seed: int) -> list[dict[str, Any]]:
    """Two log sizes."""
    return [noise_family(n, 3 if smoke else 100, seed=seed) for n in (200, 1000)]


def noise_family(episodes: int, repetitions: int, *, seed: int) -> dict[str, Any]:
    """How often any of fifty comparisons of noise is called different, and how wide the intervals are."""
    wrong, widths, single = np.zeros((repetitions, 4)), np.zeros((repetitions, 4)), np.zeros(repetitions)
    for r in range(repetitions):
        rng = np.random.default_rng((seed, episodes, r, 5))
        for j, (low, high) in enumerate(_intervals(episodes, rng)):
            called = (low > 0) | (high < 0)
            wrong[r, j], widths[r, j] = called.any(), (high - low).mean()
            if j == 0:
                single[r] = called.mean()
    result: dict[str, Any] = {"episodes": episodes, "repetitions": repetitions, "resamples": RESAMPLES}
    result["one by one, per comparison"] = round(float(single.mean()), 4)
    for j, rule in enumerate(RULES):
        share = float(wrong[:, j].mean())
        result[f"{rule}: any called different"] = round(share, 4)
        result[f"{rule}: s.e."] = round(float(np.sqrt(share * (1 - share) / repetitions)), 4)
        result[f"{rule}: width against Bonferroni"] = round(float((widths[:, j] / widths[:, 1]).mean()), 3)
    return result


def _intervals(episodes: int, rng: np.random.Generator) -> list[tuple[FloatArray, FloatArray]]:
    """(low, high), each (5, 10), under the four rules."""
    task = chain()
    size, n_actions = task.world.n_states, task.world.n_actions
    rows = simulated_rows(task.world, task.logging, episodes, rng=rng)
    noise = rng.normal(size=(len(rows.actions), OUTCOMES))  # lengths differ, sums of centred noise do not
    noisy = LoggedRows(rows.states, rows.actions, rows.episode, rows.follow, noise, None)
    counts = count_rows(noisy, rows.states, size, n_actions)
    starts = Starts(np.eye(size)[STARTS], np.full(len(STARTS), np.inf))
    targets = [split_policy(table, task.logging) for table in (task.target, task.logging)]
    new, old = (bound_policy(counts.edges, target, starts, [(-40.0, 40.0)] * OUTCOMES) for target in targets)
    seed = int(rng.integers(2**32))
    drawn = [
        bootstrap_values(counts, target, starts, np.zeros(OUTCOMES), resamples=RESAMPLES, seed=seed)
        for target in targets
    ]
    resampled = drawn[0] - drawn[1]
    middle, deviation = resampled.mean(axis=0), resampled.std(axis=0)
    moved = deviation > 0  # from a start where both policies act alike nothing differs
    largest = (np.abs(resampled - middle)[:, moved] / deviation[moved]).max(axis=1)
    c = float(np.quantile(largest, 1 - ALPHA))
    levels = (ALPHA, ALPHA / (len(STARTS) * OUTCOMES), None, 2 * stats.norm.sf(c))
    plain = (middle - c * deviation, middle + c * deviation)
    return [plain if level is None else _careful(new, old, level) for level in levels]


def _careful(new: Any, old: Any, alpha: float) -> tuple[FloatArray, FloatArray]:
    bounds = [difference(new, old, k).bounds(alpha)[1:] for k in range(OUTCOMES)]
    return np.column_stack([low for low, _ in bounds]), np.column_stack([high for _, high in bounds])
