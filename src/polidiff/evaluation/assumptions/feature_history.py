r"""Does the past matter where states are measured features? A test that does not mistake a poor fit for a memory.

What comes next is predicted, on episodes that the fit has not seen, from state, action and the decision before; and
again with the decision before taken from another episode that stood in nearly the same state and took the same action.
Under

.. math:: (s_{t+1}, g_t) \perp (s_{t-1}, a_{t-1}) \mid (s_t, a_t)

the stranger's past is as good as one's own, and so it is for telling the state itself more finely than the fit can: a
past helps either way only if it says something that the present does not. The gain is compared over whole episodes.
As a check on the check, the past of a neighbour further away takes the place of the nearer one: where that alone makes
a difference, neighbours are too far apart, and nothing is claimed. The number of decisions so far counts as part of the
state, as it does for verdicts.

A weak memory of earlier actions shows in no prediction, and neither does a hidden cause that stays with a person and
moves what they get. Both show in the sums over each episode of what outcomes are beyond their prediction times what the
action before or the one before that, or the share of each action so far, is beyond that of four neighbours; the mean of
these is 0 under the same null however poor the prediction is.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg, stats
from scipy.spatial import cKDTree

from polidiff.evaluation.assumptions.history import REJECTED
from polidiff.evaluation.assumptions.log_checks import DRIFT, ROUNDING, WHOLE_TIME, not_testable, shown
from polidiff.records.arrays import FloatArray, IntArray
from polidiff.records.numbers import counted
from polidiff.records.outcome import Assumption, Status
from polidiff.worlds.log_rows import LoggedRows

MOST_ROWS = 5000
MOST_SUMMED = 10_000  # rows of sums, which cost less
FEWEST_EPISODES = 50
FOLDS = 4
WAVES = 80  # random Fourier features of each width
WIDTHS = (0.5, 1.5)
PENALTIES = (1e-2, 0.1, 1.0, 10.0, 100.0)
NEIGHBOURS = 8
NEARER, FURTHER, NEAR = 0, 3, 4  # places among the neighbours from other episodes, and how many of them are near
TOO_FAR = 0.01
ALIKE = 0.8  # correlation with the nearest neighbour from which on an outcome is a function of the state


def feature_history_check(rows: LoggedRows, x: FloatArray) -> Assumption:
    """Whether earlier decisions matter where states are features `x` (n, d) without gaps."""
    how = (
        "what comes next, given state, action and number of decisions so far, predicted with the decision before and "
        "with that of a neighbour, on records not seen; outcomes beyond that against the actions so far"
    )
    before = rows.previous
    use = np.flatnonzero((before >= 0) & (rows.follow >= 0))
    episodes = len(np.unique(rows.episode[use]))
    if episodes < FEWEST_EPISODES:
        reason = f"only {episodes} episodes go on" if episodes else "every episode is one decision"
        return not_testable("history", reason)
    use = _thinned(rows, use)
    state, action = _scaled(x), np.eye(int(rows.actions.max()) + 1)[rows.actions]
    response = np.column_stack([state[rows.follow[use]] - state[use], rows.gains[use]])
    timed = _scaled(np.column_stack([x, rows.step]))
    past = np.column_stack([state[before[use]], action[before[use]]])
    p_value, placebo = own_against_strangers(rows, timed, use, response, past, np.random.default_rng(0))
    p_values = min(1.0, 2 * min(p_value, earlier_actions_p_value(rows, timed, np.random.default_rng(0)))), placebo
    return _found("history", how, p_values, "what comes next depends on earlier decisions",
                  "Verdicts take the record as complete; here the past matters beyond it.")  # fmt: skip


def drift_feature_check(rows: LoggedRows, x: FloatArray) -> Assumption:
    """Whether early and late episodes follow the same world where states are features `x` (n, d)."""
    how = f"outcomes predicted with early or late in the log, and with that of a neighbour, on {rows.noun}s not seen"
    if rows.n_episodes < FEWEST_EPISODES:
        return not_testable("drift", f"only {counted(rows.n_episodes, rows.noun)}")
    use = _thinned(rows, np.flatnonzero(rows.follow >= -1))
    late = (2 * rows.episode[use] >= rows.n_episodes).astype(np.float64)[:, None]
    state = _scaled(x if x.shape[1] else np.zeros((len(x), 1)))  # no feature takes two values: all states are one
    p_values = own_against_strangers(rows, state, use, rows.gains[use], late, np.random.default_rng(0))
    return _found("drift", how, p_values, DRIFT.format(rows.noun), WHOLE_TIME)


def _found(name: str, how: str, p_values: tuple[float, float], what: str, consequence: str) -> Assumption:
    p_value, placebo = p_values
    if placebo < TOO_FAR:
        reason = "neighbouring states are too far apart to tell it from a poor fit"
        return Assumption(name, how, "not testable", reason, "")
    status: Status = "failed" if p_value < REJECTED else "held"  # no "doubtful": the null is only nearly exact
    return Assumption(name, how, status, shown(p_value, what), "" if status == "held" else consequence, p_value)


def _thinned(rows: LoggedRows, use: IntArray, most: int = MOST_ROWS) -> IntArray:
    """Some rows, of every so manieth of their episodes."""
    every = max(1, int(np.ceil(len(use) / most)))
    return use[np.unique(rows.episode[use], return_inverse=True)[1] % every == 0]


def own_against_strangers(
    rows: LoggedRows,
    state: FloatArray,
    use: IntArray,
    response: FloatArray,
    own: FloatArray,
    rng: np.random.Generator,
) -> tuple[float, float]:
    """P-values of "one's `own` (m, p) predicts better than a neighbour's", and of the same for two neighbours.

    The second is found only where the first rejects.

    Parameters
    ----------
    state : array (n, d), scaled
    use : array (m,)
        Rows that are looked at, with responses (m, K).
    """
    action = np.eye(int(rows.actions.max()) + 1)[rows.actions[use]]
    response, own = _scaled(response), _scaled(own)
    _, episode = np.unique(rows.episode[use], return_inverse=True)
    near_rows = _neighbours(state[use], rows.actions[use], episode)
    nearer, further = near_rows[:, NEARER], near_rows[:, FURTHER]
    both, present = _present(state[use], action, rng)
    waves = WIDTHS[0] * rng.normal(size=(both.shape[1] + own.shape[1], WAVES)), 2 * np.pi * rng.random(WAVES)

    def lost(told: FloatArray) -> FloatArray:
        joint = np.cos(np.column_stack([both, told]) @ waves[0] + waves[1])
        design = np.column_stack([present, told, told**2, joint])
        return np.asarray((response - _predicted(design, response, episode % FOLDS)) ** 2)

    near = lost(own[nearer])
    p_value = _gain(near - lost(own), episode)
    return p_value, 1.0 if p_value >= REJECTED else _gain(lost(own[further]) - near, episode)


def earlier_actions_p_value(rows: LoggedRows, state: FloatArray, rng: np.random.Generator) -> float:
    r"""P-value of "outcomes go with one of two actions before, or with all", given scaled states (n, d) and the action.

    .. math:: U_i = \sum_t (g_t - \hat g(s_t, a_t)) \, (h_t - \bar h_t), \qquad
              h_t = 1_{a_{t-1}}, \; 1_{a_{t-2}} \text{ or } \frac1t \sum_{u < t} 1_{a_u},

    with the mean over neighbours from other episodes; Hotelling's test of :math:`\mathbb{E} U = 0` over episodes i. An
    outcome that the nearest of them nearly always shares is a function of the state: what a prediction leaves of it is
    where its borders lie, of which one's own past tells more than a stranger's state does.
    """
    before, every = rows.previous, np.eye(int(rows.actions.max()) + 1)[rows.actions]
    use = _thinned(rows, np.flatnonzero((before >= 0) & (rows.follow >= -1)), MOST_SUMMED)
    _, episode = np.unique(rows.episode[use], return_inverse=True)
    response, sums = _scaled(rows.gains[use]), np.cumsum(every, axis=0) - every
    _, present = _present(state[use], every[use], rng)
    beyond = response - _predicted(present, response, episode % FOLDS)
    near = _neighbours(state[use], rows.actions[use], episode)
    so_far = (sums - sums[np.flatnonzero(rows.first)][rows.episode])[use] / rows.step[use, None]
    last, second = before[use], before[before[use]]
    p_values = [
        _no_mean(np.column_stack([np.bincount(episode, column * one) for one in (past - past[near].mean(axis=1)).T]))
        for past in (every[last], np.where(second[:, None] >= 0, every[second], 0.0), so_far)
        for column, values in zip(beyond.T, response.T, strict=True)
        if float(values @ values[near[:, NEARER]]) < ALIKE * float(values @ values)
    ]
    return min(1.0, max(len(p_values), 1) * min(p_values, default=1.0))


def _no_mean(sums: FloatArray) -> float:
    """P-value of Hotelling's test that rows (n, d) have mean 0; directions in which none varies do not count."""
    n, mean = len(sums), sums.mean(axis=0)
    spread, axes = np.linalg.eigh(np.atleast_2d(np.cov(sums.T)))
    varied = spread > 1e-8 * max(float(spread[-1]), 1e-300)
    d = int(varied.sum())
    distance = n * float(((axes[:, varied].T @ mean) ** 2 / spread[varied]).sum())
    return float(stats.f.sf(distance * (n - d) / (d * (n - 1)), d, n - d)) if 0 < d < n else 1.0


def _scaled(x: FloatArray) -> FloatArray:
    return np.asarray(np.clip((x - x.mean(axis=0)) / np.maximum(x.std(axis=0), 1e-9), -5.0, 5.0))


def _present(state: FloatArray, action: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """State and action side by side, and all that a prediction may make of them."""
    both = np.column_stack([state, 2.0 * action])
    crossed = [state * column[:, None] for column in action.T] if state.shape[1] * action.shape[1] <= 100 else []
    drawn = [(w * rng.normal(size=(both.shape[1], WAVES)), 2 * np.pi * rng.random(WAVES)) for w in WIDTHS]
    waves = [np.cos(both @ slope + shift) for slope, shift in drawn]
    return both, np.column_stack([np.ones(len(state)), state, state**2, action, *crossed, *waves])


def _neighbours(state: FloatArray, actions: IntArray, episode: IntArray) -> IntArray:
    """(n, NEAR) rows of other episodes with the same action, the nearest first; the row itself where there are few."""
    near = np.repeat(np.arange(len(actions))[:, None], NEAR, axis=1)
    for action in np.unique(actions):
        own = np.flatnonzero(actions == action)
        if len(own) <= NEIGHBOURS:
            continue
        _, found = cKDTree(state[own]).query(state[own], k=NEIGHBOURS)
        same = episode[own][found] == episode[own][:, None]
        near[own] = own[np.take_along_axis(found, np.argsort(same, axis=1, kind="stable"), axis=1)[:, :NEAR]]
    return near


def _predicted(design: FloatArray, response: FloatArray, fold: IntArray) -> FloatArray:
    """(n, K) ridge predictions on folds that the fit has not seen, each response with the penalty that suits it."""
    tried = np.zeros((len(PENALTIES), *response.shape))
    parts = [(design[fold == number], response[fold == number]) for number in range(FOLDS)]
    squares, products = [x.T @ x for x, _ in parts], [x.T @ y for x, y in parts]
    for number, (ahead, _) in enumerate(parts):
        square, product = sum(squares) - squares[number], sum(products) - products[number]
        for k, penalty in enumerate(PENALTIES):
            factor = linalg.cho_factor(square + penalty * np.eye(len(square)), check_finite=False)
            tried[k, fold == number] = ahead @ linalg.cho_solve(factor, product, check_finite=False)
    best = ((tried - response) ** 2).sum(axis=1).argmin(axis=0)
    return np.asarray(np.take_along_axis(tried, best[None, None, :], axis=0)[0])


def _gain(saved: FloatArray, episode: IntArray) -> float:
    """P-value that no response is predicted better: one-sided, over episodes, times the number of responses.

    A mean that a few episodes make (Student's test alone) and ranks that hide them (Wilcoxon's) must both say so.
    """
    p_values = [1.0]
    for column in saved.T[np.ptp(saved, axis=0) > 0]:
        each = np.bincount(episode, column).astype(np.float64)
        if each.any() and len(each) > 1:
            ranks = float(stats.wilcoxon(each, alternative="greater").pvalue)
            p_values.append(max(_student_p_value(each), ranks))
    return min(1.0, saved.shape[1] * min(p_values))


def _student_p_value(x: FloatArray) -> float:
    """P-value of Student's test that x has a mean of at most 0; a spread that may be rounding is taken for rounding."""
    spread = max(float(x.std(ddof=1)), ROUNDING * float(np.abs(x).max()))
    return float(stats.t.sf(x.mean() / spread * np.sqrt(len(x)), len(x) - 1))
