r"""What a log gives the estimators: numbered states (or cells of features), counts, starts, and policies as tables.

Feature states as cells in which policies act alike and their values are level, so that plans are found in a model.

A quarter of the episodes draws the cells and the others are counted in them, so that no cell is used by the rows that
drew it. Within a cell a policy is its average over the cell's rows: an approximation, good enough to choose plans by.
They are judged by scores of the rows themselves.

A cell may stand for its states if the value of each policy in question is the same in all of them. What the logging
policy's episodes brought is not enough: where it mends what a proposed policy would not, both sides of a border look
alike. So the cells are drawn several times. With :math:`V_\pi` solved on the last cells, a logged row whose action is
the policy's own shows

.. math:: V_\pi(c) + \frac{g + \gamma V_\pi(c') - Q_\pi(c, a)}{\sqrt{p_c}},

with :math:`p_c` the share of such rows in the cell (a row of another action shows :math:`V_\pi(c)`), and a regression
tree is grown on what all policies show. Dividing by the root keeps the scatter as large as that of the rows that speak.
A split must gain more than the best of many splits would if all that varies within the last cells were noise,

.. math:: \sum_j \varphi_j + 2 \sqrt{L \textstyle\sum_j \varphi_j^2} + 2 L \max_j \varphi_j

over the columns j (Laurent and Massart 2000), with L the logarithm of the places tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import TYPE_CHECKING

import numpy as np

from polidiff.evaluation.logged.counts import BLOCKS, HALVES, Counts, count_log, count_rows
from polidiff.evaluation.logged.model import build_model, split_policy
from polidiff.evaluation.logged.policies import as_log_policy, is_logs, logged_shares, state_table
from polidiff.evaluation.scores.decisions import fit_encoder
from polidiff.policies import Policy, one_hot, top_actions
from polidiff.policies.protocol import PolicyLike
from polidiff.records.arrays import BoolArray, FloatArray, IntArray
from polidiff.records.rule import Rule, first_match
from polidiff.worlds.log_rows import LoggedRows
from polidiff.worlds.shards.transition_counts import CUT

if TYPE_CHECKING:
    from sklearn.tree import DecisionTreeRegressor

    from polidiff.worlds.log import Log


@dataclass(frozen=True, eq=False)
class CountedLog:
    """A log, counted."""

    counts: Counts
    names: tuple[str, ...]  # of the states or cells
    start_state: IntArray  # (n_starts,) state of each logged start
    start_episodes: IntArray  # (n_starts,)
    average: Callable[[PolicyLike], FloatArray]  # policy -> (S, A) probabilities
    row_state: Callable[[], IntArray]  # state or cell of every logged row that is held

    def table(self, policy: PolicyLike) -> FloatArray:
        """Probabilities (S, A) of a policy; of "log", the logged shares."""
        if is_logs(policy):
            return logged_shares(self.counts.edges.visits)
        return self.average(policy)


def counted_log(
    log: Log,
    policies: Sequence[PolicyLike] = (),
    regions: Sequence[Rule] = (),
    *,
    seed: int = 0,
    blocks: int = HALVES,
) -> CountedLog:
    """A log counted over its states, or over cells fitted to policies and regions if its states are features.

    Two blocks of episodes are there since the log was read; more of them show over how many episodes a pair is spread.
    """
    if not log.discrete:
        return count_cells_of(log, policies, regions, seed=seed)
    counts = count_log(log, blocks=blocks)
    starts = log.starts.astype(np.int64)
    return CountedLog(
        counts, log.states, starts, log.start_counts, lambda p: state_table(log, p), lambda: log.rows.states
    )


DRAWING = 4  # one episode in so many draws the cells
FEWEST_ROWS = 30  # per cell, among the rows that draw it
MOST_CELLS = 300
ROUNDS = 4
SPLITS_TRIED = 3.0  # logarithm of how many places a split may be put
LATEST = 4096  # decisions before a first meeting that are told apart
COUNTING = "counting all rows"


def count_cells_of(log: Log, policies: Sequence[PolicyLike], regions: Sequence[Rule], *, seed: int = 0) -> CountedLog:
    """A log with feature states, counted over cells of the rows that are held."""
    rows = log.rows
    named = [policy for policy in policies if not is_logs(policy)]
    given = [as_log_policy(log, policy) for policy in named]
    drawing, encode = _drawing(rows), fit_encoder(rows.states)
    x, region = encode(rows.states), np.asarray(first_match(list(regions), rows.states) + 1, dtype=np.int64)
    drawn = np.column_stack([x[drawing], region[drawing]])  # the tree may split by region, exactly
    tree = fit_partition(
        rows.some(drawing), drawn, given, log.n_actions, region=region[drawing], discount=log.discount,
        seed=seed,
    )  # fmt: skip
    code, width = _joined(_leaf_of(tree, x, region), region, len(regions) + 1), len(regions) + 1
    met, cell = np.unique(code, return_inverse=True)
    counted = ~drawing if drawing.any() and not drawing.all() else drawing
    part = replace(rows.some(counted), episode=rows.episode[counted])  # same blocks as the whole log
    counts = count_rows(part, cell[counted], len(met), log.n_actions, blocks=BLOCKS)

    def average(policy: PolicyLike) -> FloatArray:
        chosen = np.asarray(as_log_policy(log, policy).probabilities(rows.states), dtype=np.float64)
        return _averages(cell, chosen, np.maximum(np.bincount(cell, minlength=len(met)), 1))

    names = [f"cell {leaf}" + (f" (region {r})" if r else "") for leaf, r in (divmod(int(c), width) for c in met)]
    first = rows.first
    return CountedLog(
        counts, tuple(names), cell[first], np.ones(int(first.sum()), dtype=np.int64), average, lambda: cell
    )


def _joined(leaf: IntArray, region: IntArray, width: int) -> IntArray:
    """(n,) leaf · width + region; small pieces of a leaf that regions cut are joined as leaf 0 of their region.

    Leaf 0 is the root, which is a leaf only if it is the only one: then nothing is left to join.
    """
    code = leaf * width + region
    codes, place, size = np.unique(code, return_inverse=True, return_counts=True)
    cut = np.bincount(codes // width)[codes // width] > 1
    return np.where((cut & (size < FEWEST_ROWS))[place.ravel()], region, code)


def _leaf_of(tree: DecisionTreeRegressor, x: FloatArray, region: IntArray) -> IntArray:
    """(n,) leaf of each row in a tree over its encoded features (n, d) and its region (n,)."""
    single = np.empty((len(x), x.shape[1] + 1), dtype=np.float32)
    with np.errstate(over="ignore"):
        single[:, :-1], single[:, -1] = x, region
    return np.asarray(tree.tree_.apply(single), dtype=np.int64)


def _drawing(rows: LoggedRows) -> BoolArray:
    """(n,) rows of the episodes that draw the cells; all of them if there are few."""
    if rows.n_episodes < 2 * DRAWING:
        return np.ones(len(rows.actions), dtype=np.bool_)
    return np.asarray(rows.turn % DRAWING == 0)


def fit_partition(
    rows: LoggedRows,
    x: FloatArray,
    policies: Sequence[Policy],
    n_actions: int,
    *,
    region: IntArray,
    discount: float,
    seed: int,
) -> DecisionTreeRegressor:
    """A regression tree over encoded features x (n, d); its leaves are the cells, `region` (n,) is told apart first."""
    acted = [top_actions(policy.probabilities(rows.states)) for policy in policies]
    apart = [one_hot(region, int(region.max(initial=0)) + 1), *(one_hot(actions, n_actions) for actions in acted)]
    logged = rows.to_come(discount)
    tree = _grow(x, [*apart, logged], np.zeros(len(x), dtype=np.int64), seed)
    for _ in range(ROUNDS if acted else 0):
        cell = np.asarray(np.unique(tree.apply(x), return_inverse=True)[1])
        tree = _grow(x, [*apart, logged, *_shown(rows, cell, acted, n_actions, discount)], cell, seed)
    return tree


def _shown(
    rows: LoggedRows, cell: IntArray, acted: Sequence[IntArray], n_actions: int, discount: float
) -> list[FloatArray]:
    """(n, K) per policy: what each row shows of the policy's value, given cells."""
    size = int(cell.max()) + 1
    edges = count_rows(rows, cell, size, n_actions).edges
    after = np.where(rows.follow >= 0, cell[np.maximum(rows.follow, 0)], size)
    members = np.bincount(cell, minlength=size)
    per_policy = []
    for actions in acted:
        table = _averages(cell, one_hot(actions, n_actions), members)
        model = build_model(edges, split_policy(table, None), discount=discount, lend=True)
        own = np.flatnonzero((rows.actions == actions) & (rows.follow != CUT))
        here, pair = cell[own], cell[own] * n_actions + actions[own]
        share = np.bincount(here, minlength=size) / members
        shown = np.empty(rows.gains.shape)
        for k in range(edges.sums.shape[1]):
            values = model.values(k, 0.0)
            shown[:, k] = values[cell]
            drawn = rows.gains[own, k] + discount * np.append(values, 0.0)[after[own]]
            shown[own, k] += _off_mean(drawn, pair) / np.sqrt(share[here])
        per_policy.append(shown)
    return per_policy


def _off_mean(values: FloatArray, group: IntArray) -> FloatArray:
    total, count = np.bincount(group, values), np.bincount(group)
    return np.asarray(values - (total / np.maximum(count, 1))[group])


def _averages(cell: IntArray, table: FloatArray, members: IntArray) -> FloatArray:
    columns = [np.bincount(cell, column, len(members)) for column in table.T]
    return np.asarray(np.column_stack(columns) / members[:, None])


def _grow(x: FloatArray, signals: Sequence[FloatArray], cell: IntArray, seed: int) -> DecisionTreeRegressor:
    """A tree on signals, each on the scale of one standard deviation; what varies within cells may be noise."""
    from sklearn.tree import DecisionTreeRegressor

    table = np.column_stack(signals)
    scale = table.std(axis=0)
    varying = scale > 1e-12 * (1 + np.abs(table).max(axis=0))
    table = table[:, varying] / scale[varying] if varying.any() else np.zeros((len(x), 1))
    noise = np.array([_off_mean(column, cell).var() for column in table.T])
    luck = noise.sum() + 2 * np.sqrt(SPLITS_TRIED * (noise**2).sum()) + 2 * SPLITS_TRIED * noise.max()
    return DecisionTreeRegressor(
        max_leaf_nodes=MOST_CELLS,
        min_samples_leaf=max(min(FEWEST_ROWS, len(x) // 4), 1),
        min_impurity_decrease=luck / (table.shape[1] * len(x)),
        random_state=seed % 2**32,
    ).fit(x, table)


@dataclass(frozen=True, eq=False)
class RuleCoverage:
    """Rows and episodes in which each rule is the first to cover."""

    rows: IntArray  # (R,)
    first: IntArray  # (R, T) episodes that meet the rule for the first time after so many decisions
    people: IntArray  # (R,) distinct people that meet the rule; of several parts of a log, at least as many
    apart: bool  # whether no person is in two parts of a log: every episode is another's

    def __add__(self, other: RuleCoverage) -> RuleCoverage:
        """What was seen in two parts of a log."""
        width = max(self.first.shape[1], other.first.shape[1])
        first = np.zeros((len(self.rows), width), dtype=np.int64)
        for part in (self.first, other.first):
            first[:, : part.shape[1]] += part
        people = self.people + other.people if self.apart else np.maximum(self.people, other.people)
        return RuleCoverage(self.rows + other.rows, first, people, self.apart)

    @property
    def episodes(self) -> IntArray:
        """(R,) that meet each rule."""
        return np.asarray(self.first.sum(axis=1))

    def typical_first(self, rule: int) -> float:
        """Decisions before a rule is first met: the median over the episodes that meet it; endless if none does."""
        below = np.cumsum(self.first[rule])
        if not below[-1:].sum():
            return float("inf")
        middle = [np.searchsorted(below, place, side="right") for place in ((below[-1] - 1) // 2, below[-1] // 2)]
        return float(np.mean(middle))


def cover_all_rows(log: Log, rules: Sequence[Rule]) -> RuleCoverage:
    """What is seen in all rows of a log, whether they are held or not."""
    if not log.sampled:
        return rule_coverage(log.rows, rules)
    return reduce(add, log.count_parts(count_batches, tuple(rules), what=COUNTING))


def count_batches(batches: Iterator[LoggedRows], rules: tuple[Rule, ...]) -> RuleCoverage:
    """What is seen in the rows of whole episodes that come in batches."""
    return reduce(add, (rule_coverage(rows, rules) for rows in batches))


def rule_coverage(rows: LoggedRows, rules: Sequence[Rule]) -> RuleCoverage:
    """What is seen in the rows of whole episodes."""
    where, count = np.asarray(first_match(list(rules), rows.states)), len(rules)
    at = np.minimum(np.arange(len(where)) - np.flatnonzero(rows.first)[rows.episode], LATEST - 1)
    first = np.zeros((count, int(at.max(initial=0)) + 1), dtype=np.int64)
    for k in range(count):
        inside = np.flatnonzero(where == k)
        _, met = np.unique(rows.episode[inside], return_index=True)
        first[k] = np.bincount(at[inside[met]], minlength=first.shape[1])
    people = np.array([len(np.unique(rows.person[where == k])) for k in range(count)], dtype=np.int64)
    met = np.bincount(where[where >= 0], minlength=count)
    return RuleCoverage(met, first, people, rows.unit is None)
