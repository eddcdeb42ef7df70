r"""Does the recorded state say all that matters of the past? Tested, and mended where it can be.

A verdict from a log with discrete states takes what follows a decision to depend on that decision alone,

.. math:: (s_{t+1}, g_t) \perp (s_{t-1}, a_{t-1}) \mid (s_t, a_t) .

The test sums Pearson's statistic over the tables of all pairs (s, a). With :math:`n_{ij}` the counts of one table (R
rows, C columns, N rows of the log),

.. math:: X^2 = N \Bigl(\sum_{ij} \frac{n_{ij}^2}{n_{i\cdot}\, n_{\cdot j}} - 1\Bigr), \qquad
          E X^2 = \frac{N (R-1)(C-1)}{N-1},

given the margins, exactly and however thin the table; so is the variance (Haldane 1940, Dawson 1954), with
:math:`v = (R-1)(N-R)/(N-1)` and :math:`w = (N \sum_i 1/n_{i\cdot} - R^2)/(N-2)` for rows and alike for columns,

.. math:: \operatorname{var} X^2 = \frac{2N}{N-3} (v_1 - w_1)(v_2 - w_2) + \frac{N^2}{N-1} w_1 w_2 .

The sum is compared with the gamma distribution of the same mean and variance. What lies further back, and a hidden
cause that stays with a person and moves what they get, hardly shows in the decision before. Both show in the actions so
far: within the rows c of a state and an action,

.. math:: T = \sum_c \sum_{i \in c} (h_i - \bar h_c)(y_i - \bar y_c), \qquad
          \operatorname{var} T = \sum_c \frac{H_c Y_c}{n_c - 1},

with h whether an action was taken two decisions before, or its share so far, y what the decision brings and leads to,
and H, Y their sums of squares (Mantel 1963).

Where a test rejects, the state is deepened by past decisions, :math:`(s_t;\, s_{t-1}, a_{t-1})`, and so on until the
test is quiet. A deeper state cures what the past explains. It does not cure reasons that were never recorded: under
those the test falls quiet as well, so the first rejection is always told.

Where episodes last a fixed number of decisions, what ends them is how many there were, which no past of few decisions
tells. The last decision of such an episode is a stratum of its own, the number of decisions so far becomes part of the
state, and the test asks as well whether what follows a decision depends on that number. If not, a state's decisions are
counted together whenever they were made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import special

from polidiff.records.arrays import BoolArray, FloatArray, IntArray
from polidiff.worlds.log_rows import LoggedRows
from polidiff.worlds.shards.transition_counts import END

REJECTED = 0.001  # below this an assumption has failed
DOUBTED = 0.0025  # below this it is doubtful; five tests at this level alarm in at most 1.25 % of clean logs
CAREFUL = 0.02  # below this states are deepened once: that costs width only, and a short log hardly shows a memory
LARGE = 0.25  # of what a table's rows can show of a dependence (Cohen 1988: w = 0.5); a test must see as much
OFTEN_ENOUGH = 0.5  # chance to reject where a dependence is that large, or nothing is claimed
CHANCE = 1e-6  # below this it is no chance that all of the longest episodes end where they do
MOST_COPIES = 3_000_000  # rows × steps up to which decisions are counted together whenever they are made
BEFORE, SO_FAR, HOW_MANY = 0.7, 0.2, 0.1  # shares of the chance of a false alarm: decision before, all, their number
MOST_SUMMED = 10_000  # rows of which the actions so far are looked at
MOST_ACTIONS = 5  # that are looked for among those so far, the most frequent
EXTREME = 0.01  # share of what decisions bring, at either end, that counts as what is less extreme
ALIKE = 0.01  # above this, last decisions are taken to pay as earlier ones do
DEEPEST = 3  # past decisions that a state may be deepened by
UNEXPLAINED = 0.05  # decisions that depend on a deeper past than the state holds, at this level, have other reasons
OFTEN = 10  # rows that a past must have to become a state of its own
RARE = 5  # levels of a stratum with fewer rows are merged: they cannot speak, and cost power
FEWEST = 5  # rows of a stratum that is looked at
FAR_APART = 8  # times as many places as rows: keys are sorted there, else counted
ROUNDING = 1e-12  # of the product of two sums of squares: nothing varies
BINS = 3  # of a response with many values, within its stratum


@dataclass(frozen=True)
class PooledTest:
    """A sum of Pearson statistics and how likely one as large is by chance."""

    statistic: float = 0.0
    mean: float = 0.0  # expected by chance
    strata: int = 0  # tables that can show anything
    p_value: float = 1.0
    rows: int = 0  # of these tables
    variance: float = 0.0  # of the statistic by chance

    @property
    def power(self) -> float:
        """Chance to reject where the dependence is large: the statistic is shifted, and scatters more."""
        if not self.rows:
            return 0.0
        shift = LARGE * self.rows
        critical = _gamma_tail(self.mean, self.variance, REJECTED, inverse=True)
        return _gamma_tail(self.mean + shift, self.variance + 4 * shift, critical)


@dataclass(frozen=True, eq=False)
class Strata:
    """Rows in strata, with some responses, to be asked whether these depend on a factor.

    A stratum with few rows, or with one level of a response, shows nothing of it: its rows are not looked at.
    """

    size: IntArray  # (strata,)
    looked: IntArray  # (m,) rows of strata that can show something
    number: IntArray  # (m,) of the stratum of each
    responses: tuple[tuple[Levels, BoolArray], ...]  # which of these (m,) can show something of it, its levels there

    @classmethod
    def of(cls, stratum: IntArray, *responses: IntArray) -> Strata:
        """Of whole numbers (n,) each."""
        number, _, size = _distinct(stratum - stratum.min(initial=0))
        large = np.flatnonzero((size >= FEWEST)[number])
        number = number[large]
        levels = [Levels.of(number, response[large]) for response in responses]
        varied = [(np.bincount(one.stratum, minlength=len(size)) > 1)[number] for one in levels]
        some = np.flatnonzero(np.any(varied, axis=0))
        parts = ((replace(one, number=one.number[use]), use[some]) for one, use in zip(levels, varied, strict=True))
        return cls(size, large[some], number[some], tuple(parts))

    def tests(self, factor: IntArray) -> list[PooledTest]:
        """Whether each response depends on a factor (n,), any whole numbers, within strata.

        >>> half, one = np.repeat([0, 1], 50), np.zeros(100, dtype=int)
        >>> [test.p_value < 1e-9 for test in Strata.of(one, half, np.arange(100) % 2).tests(half)]
        [True, False]
        """
        rows = Levels.of(self.number, factor[self.looked])
        return [_pooled(self.size, rows, rows.number[use], columns) for columns, use in self.responses]


def _pooled(size: IntArray, rows: Levels, number: IntArray, columns: Levels) -> PooledTest:
    """Over the tables of strata with so many rows (strata,); `number` is the level of the rows that columns tell of."""
    cells, count = _tally(number * len(columns.count) + columns.number)
    row, column = np.divmod(cells, len(columns.count))
    share = np.bincount(rows.stratum[row], count**2 / (rows.count[row] * columns.count[column]), len(size))
    (r, inverse), (c, inverse_columns) = rows.margins(len(size)), columns.margins(len(size))
    telling = (size >= FEWEST) & (r > 1) & (c > 1)
    if not telling.any():
        return PooledTest()
    tables = (part[telling].astype(np.float64) for part in (size, r, c, inverse, inverse_columns))
    statistic, (mean, variance) = float((size * (share - 1))[telling].sum()), _moments(*tables)
    p_value = _gamma_tail(mean, variance, statistic)
    return PooledTest(statistic, mean, int(telling.sum()), p_value, int(size[telling].sum()), variance)


def _gamma_tail(mean: float, variance: float, at: float, *, inverse: bool = False) -> float:
    """Chance that a gamma variable lies above a number, or inversely the number above which it lies with a chance."""
    shape, scale = mean**2 / variance, variance / mean
    return float(special.gammainccinv(shape, at) * scale if inverse else special.gammaincc(shape, max(at, 0.0) / scale))


def least_p_value(tests: Sequence[PooledTest]) -> float:
    """The least of some tests', times their number; 1 without any."""
    return min(1.0, len(tests) * min((test.p_value for test in tests), default=1.0))


def most_power(tests: Sequence[PooledTest]) -> float:
    """Of the test that sees a strong dependence best; 0 without any."""
    return max((test.power for test in tests), default=0.0)


@dataclass(frozen=True, eq=False)
class Levels:
    """The levels of a variable within strata, those with few rows as one."""

    number: IntArray  # (n,) of each row's level
    stratum: IntArray  # (k,) that each level lies in
    count: IntArray  # (k,) its rows

    @classmethod
    def of(cls, stratum: IntArray, values: IntArray) -> Levels:
        """Levels of whole numbers (n,) in strata (n,)."""
        code = values.astype(np.int64) - values.min(initial=0) + 1
        wide = int(code.max(initial=0)) + 1
        number, names, count = _distinct(stratum * wide + code)
        names, merged = np.unique(np.where(count < RARE, names // wide * wide, names), return_inverse=True)
        return cls(merged[number], names // wide, np.bincount(merged, count).astype(np.int64))

    def margins(self, strata: int) -> tuple[IntArray, FloatArray]:
        """(strata,) how many levels each has, and the sum of 1 / rows over them."""
        inverse = np.bincount(self.stratum, 1.0 / self.count.astype(np.float64), strata)
        return np.bincount(self.stratum, minlength=strata), np.asarray(inverse, dtype=np.float64)


def _distinct(keys: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """(n,) number of each key among the distinct ones, these (k,), and their rows (k,); sorted only if far apart."""
    if int(keys.max(initial=0)) > FAR_APART * len(keys):
        names, number, count = np.unique(keys, return_inverse=True, return_counts=True)
        return number, names, count
    rows = np.bincount(keys)
    names = np.flatnonzero(rows)
    place = np.empty(len(rows), dtype=np.int64)
    place[names] = np.arange(len(names))
    return place[keys], names, rows[names]


def _tally(keys: IntArray) -> tuple[IntArray, IntArray]:
    """The distinct keys (k,) and their rows (k,): without telling which are whose, sorting is quicker."""
    ordered = np.sort(keys)
    begin = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)])
    return ordered[begin], np.diff(np.append(begin, len(ordered)))


def _moments(n: FloatArray, r: FloatArray, c: FloatArray, row: FloatArray, column: FloatArray) -> tuple[float, float]:
    """Mean and variance of the summed statistic given all margins."""
    mean = n * (r - 1) * (c - 1) / (n - 1)
    v, w = (r - 1) * (n - r) / (n - 1), (n * row - r**2) / (n - 2)
    v2, w2 = (c - 1) * (n - c) / (n - 1), (n * column - c**2) / (n - 2)
    variance = 2 * n / (n - 3) * (v - w) * (v2 - w2) + n**2 / (n - 1) * w * w2
    return float(mean.sum()), max(float(variance.sum()), 1e-12)


def binned(stratum: IntArray, values: FloatArray) -> IntArray:
    """(n,) a response with many values, in thirds of its stratum; one with few values as it is. Ties stay together.

    >>> binned(np.zeros(9, dtype=int), np.arange(9.0) ** 2)
    array([0, 0, 0, 1, 1, 1, 2, 2, 2])
    """
    distinct = np.unique(values)
    if len(distinct) <= RARE:
        return np.searchsorted(distinct, values)
    order = np.lexsort((values, stratum))
    s, v = stratum[order], values[order]
    index = np.arange(len(order))
    opens = np.append(True, s[1:] != s[:-1])
    begin = np.maximum.accumulate(np.where(opens, index, 0))
    first = np.maximum.accumulate(np.where(opens | np.append(True, v[1:] != v[:-1]), index, 0))
    size = np.diff(np.append(np.flatnonzero(opens), len(order)))[np.cumsum(opens) - 1]
    bins = np.empty(len(order), dtype=np.int64)
    bins[order] = BINS * (first - begin) // size
    return bins


@dataclass(frozen=True, eq=False)
class Deepened:
    """A log whose states know some of the past."""

    rows: LoggedRows  # with numbers of deeper states
    original: IntArray  # (deeper states,) the state that each belongs to: a policy's table is ``table[original]``
    p_values: tuple[float, ...]  # of the history test with 0, 1, … past decisions in the state
    action_p_value: float = 0.0  # of "what was decided depends on the past beyond the deeper state"
    steps: int = 1  # of an episode, where the number of decisions so far is part of the state
    pooled: bool = False  # whether decisions before the last are alike whenever they are made
    tail: bool = False  # whether those at the end pay alike as well
    power: float = 1.0  # chance that the history test sees a strong dependence in a log as short as this

    @property
    def depth(self) -> int:
        """Past decisions in the state."""
        return len(self.p_values) - 1

    @property
    def quiet(self) -> bool:
        """Whether the test no longer rejects."""
        return self.p_values[-1] >= REJECTED

    @property
    def explained(self) -> bool:
        """Whether decisions look as if they were made on what the deeper state holds, and on nothing behind it."""
        return self.quiet and self.action_p_value >= UNEXPLAINED


@dataclass(frozen=True, eq=False)
class Transitions:
    """What follows the decisions of a log with numbered states, as whole numbers."""

    rows: LoggedRows
    shown: IntArray  # (n,) states as recorded; where those of the rows are deeper, the next one holds the past by name
    timed: bool = False  # whether episodes end because they have lasted long enough

    @cached_property
    def stratum(self) -> IntArray:
        """(n,) number of the decisions that are alike: those of a pair, the last of the longest episodes apart."""
        step = self.rows.step
        return self.pair if not self.timed else 2 * self.pair + (step == step.max(initial=0))

    @cached_property
    def pair(self) -> IntArray:
        """(n,) number of state and action."""
        return np.asarray(self.rows.states.astype(np.int64) * (int(self.rows.actions.max()) + 1) + self.rows.actions)

    @cached_property
    def responses(self) -> list[IntArray]:
        """(n,) each: the next state (-1 at the end), then each outcome in bins of its stratum."""
        rows = self.rows
        after = np.where(rows.follow >= 0, np.append(self.shown, 0)[rows.follow], -1)
        gains = [binned(self.stratum, column) for column in rows.gains.T if (column != column[0]).any()]
        return [after.astype(np.int64), *gains]

    def tests(self, factor: IntArray, *, once: bool = False) -> list[PooledTest]:
        """Of "what follows a decision depends on a factor (n,)", a test of each response.

        Rows whose successor was not recorded are left out; with `once`, so are all but the first time that an episode
        makes a decision in a state: how often it comes back depends on what follows, as if episodes were different.
        """
        known, strata = self._first_times if once else self._all_times
        return strata.tests(factor[known])

    @cached_property
    def before(self) -> list[PooledTest]:
        """Tests of the decision before."""
        before = self.rows.previous
        return self.tests(np.where(before >= 0, self.pair[before], -1))

    @property
    def pays_alike_at_the_end(self) -> bool:
        """Whether the last decisions of the longest episodes pay as earlier ones do."""
        known, step = self.rows.follow >= -1, self.rows.step
        gains = [part[known] for part in self.responses[1:]]
        return least_p_value(Strata.of(self.pair[known], *gains).tests((step == step.max())[known])) >= ALIKE

    @cached_property
    def _all_times(self) -> tuple[BoolArray, Strata]:
        return self._some(self.rows.follow >= -1)

    @cached_property
    def _first_times(self) -> tuple[BoolArray, Strata]:
        episode, number = self.rows.episode, _distinct(self.pair)[0]
        order = np.argsort(number.astype(np.min_scalar_type(len(number))), kind="stable")  # linear up to 65,535 pairs
        again = (np.diff(number[order]) == 0) & (np.diff(episode[order]) == 0)
        known = self.rows.follow >= -1
        known[order[1:][again]] = False
        return self._some(known)

    def _some(self, known: BoolArray) -> tuple[BoolArray, Strata]:
        return known, Strata.of(self.stratum[known], *(part[known] for part in self.responses))


def transitions_of(rows: LoggedRows) -> Transitions:
    """The transitions of a log as it is."""
    return Transitions(rows, rows.states)


def history_p_value(transitions: Transitions) -> float:
    """P-value of "what follows depends on earlier decisions", or in timed logs on how many there were."""
    found = [least_p_value(transitions.before) / BEFORE, earlier_actions_p_value(transitions) / SO_FAR]
    if transitions.timed:
        found.append(least_p_value(transitions.tests(transitions.rows.step)) / HOW_MANY)
    return min(1.0, *found)


def earlier_actions_p_value(transitions: Transitions) -> float:
    """P-value of "what a decision brings and leads to goes with the actions taken so far", given state and action."""
    some = transitions.rows.episode % -(-len(transitions.shown) // MOST_SUMMED) == 0
    rows, shown, stratum = transitions.rows.some(some), transitions.shown[some], transitions.stratum[some]
    step, before = rows.step, rows.previous
    use = np.flatnonzero((step > 0) & (rows.follow >= -1))
    if not len(use):
        return 1.0
    met = np.maximum(np.bincount(shown), 1)
    worth = [np.append(np.bincount(shown, column) / met, 0.0) for column in rows.to_come().T]
    after = np.where(rows.follow[use] >= 0, np.append(shown, 0)[rows.follow[use]], -1)
    ahead = rows.gains[use] + np.column_stack(worth)[after]
    ahead = np.clip(ahead, *np.quantile(ahead, (EXTREME, 1 - EXTREME), axis=0))
    often = np.argsort(-np.bincount(rows.actions), kind="stable")[:MOST_ACTIONS]
    taken = (rows.actions[:, None] == often).astype(np.float64)
    so_far = np.cumsum(taken, axis=0) - taken
    so_far = (so_far - so_far[rows.first][rows.episode])[use] / step[use, None]
    second = np.where(before[use] >= 0, before[before[use]], -1)
    past = np.column_stack([so_far, np.where(second[:, None] >= 0, taken[second], 0.0)])
    number, _, size = _distinct(stratum[use])
    off = [off_means(part, number) for part in (past, ahead)]
    squares = [np.column_stack([np.bincount(number, column**2) for column in part.T]) for part in off]
    variance = (squares[0] / np.maximum(size - 1, 1)[:, None]).T @ squares[1]
    varied = variance > ROUNDING * np.outer(squares[0].sum(axis=0), squares[1].sum(axis=0))
    distance = np.abs(off[0].T @ off[1])[varied] / np.sqrt(variance[varied])
    return min(1.0, 2 * len(distance) * float(special.ndtr(-distance.max()))) if len(distance) else 1.0


def off_means(values: FloatArray, stratum: IntArray) -> FloatArray:
    """Columns (n, d) less their means in each stratum."""
    size = np.maximum(np.bincount(stratum), 1)
    return np.column_stack([column - (np.bincount(stratum, column) / size)[stratum] for column in values.T])


def ends_by_length(transitions: Transitions) -> bool:
    """Whether the longest episodes end because of their length: after the same decisions, earlier ones went on."""
    pair, step, ended = transitions.pair, transitions.rows.step, transitions.rows.follow == END
    last = step == step.max(initial=0)
    if not ended[last].all():
        return False
    before, stopped = (np.bincount(pair[~last], part, pair.max() + 1) for part in (None, ended[~last]))
    return bool(np.log((stopped + 1) / (before + 1))[pair[last]].sum() < np.log(CHANCE))


def deepen(transitions: Transitions, n_states: int) -> Deepened:
    """States deepened by past decisions until the history test is quiet, or the deepest is reached.

    A past that too few rows share stays with its state's other rare pasts: support is worth more than their difference.
    States are deepened before the test rejects: a short log hardly shows a memory.
    Where episodes end by their length, the number of decisions so far is part of the state as well, unless they are so
    long that it does not show.
    """
    rows, state, steps = transitions.rows, transitions.shown.astype(np.int64), int(transitions.rows.step.max()) + 1
    original, p_values, deep, few = np.arange(n_states), [history_p_value(transitions)], rows, MOST_COPIES // steps
    timed = ends_by_length(transitions) and (len(state) <= few or p_values[0] < REJECTED)
    if timed:
        transitions = replace(transitions, timed=True)
        p_values = [history_p_value(transitions)]
    power = most_power(transitions.before)
    before, wide = rows.previous, int(rows.actions.max(initial=0)) + 1
    while p_values[-1] < (CAREFUL if len(p_values) == 1 else REJECTED) and len(p_values) <= DEEPEST:
        way = np.where(before >= 0, deep.states[before] * wide + rows.actions[before] + 2, 1)
        label, original = _with_past(state, way, n_states)
        deep = replace(rows, states=label)
        p_values.append(history_p_value(Transitions(deep, state, timed)))
    chance = action_p_value(deep, state) if len(p_values) > 1 else 1.0
    if not timed:
        return Deepened(deep, original, tuple(p_values), chance, power=power)
    pooled, tail = p_values[-1] >= REJECTED and len(state) <= few, transitions.pays_alike_at_the_end
    deep = replace(rows, states=deep.states.astype(np.int64) * steps + rows.step)
    original = np.repeat(original, steps)
    return Deepened(deep, original, tuple(p_values), chance, steps, pooled=pooled, tail=tail, power=power)


def action_p_value(rows: LoggedRows, shown: IntArray) -> float:
    """P-value of "decisions depend on the decision before, or on what it brought, given the state".

    A hidden reason that stands behind decisions and outcomes shows here: past actions and outcomes tell of it.
    """
    before, state = rows.previous, rows.states.astype(np.int64)
    known = before >= 0
    pair = state * (int(rows.actions.max()) + 1) + rows.actions
    gains = [binned(pair, column) for column in rows.gains.T if (column != column[0]).any()]
    decided = Strata.of(state[known], rows.actions[known])
    factors = [part[before[known]] for part in (rows.actions, shown.astype(np.int64), *gains)]
    return least_p_value([test for factor in factors for test in decided.tests(factor)])


def _with_past(state: IntArray, way: IntArray, n_states: int) -> tuple[IntArray, IntArray]:
    """(n,) numbers of (state, way here), rare ways merged, and the state of each number; all states keep one."""
    width = int(way.max(initial=0)) + 1
    _, number, count = np.unique(state * width + way, return_inverse=True, return_counts=True)
    shown = state * width + np.where(count[number] < OFTEN, 0, way)
    every = np.arange(n_states, dtype=np.int64) * width  # a state's rare pasts, also where there are none
    keys, label = np.unique(np.append(shown, every), return_inverse=True)
    return label[: len(state)], keys // width
