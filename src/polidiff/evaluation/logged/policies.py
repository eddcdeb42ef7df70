r"""Policies beside a log: as the user gives them, as a column advises them, and the one that wrote the log.

Who wrote the log is estimated once: shares of actions where states are labels, the chances of `scores.propensity` where
they are features. A log looks like a given policy :math:`\pi` if its counts are not further from it than those of logs
that :math:`\pi` writes in the same states,

.. math:: G = 2 \sum_{s,a} n(s,a) \ln \frac{n(s,a)}{n(s)\, \pi(a \mid s)},

judged against 199 simulated tables of actions. If it fails, nothing is lost but sharpness: the policy is then judged
like any other.

A column of advice ("shadow mode") is a policy too: where decisions in one state were advised differently, it takes each
advice as often as it was given there; a state that nobody met is advised like the nearest one that was.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeGuard

import numpy as np
import polars as pl

from polidiff.errors import InvalidPolicyError
from polidiff.evaluation.logged.counts import HALVES, count_log
from polidiff.evaluation.scores.decisions import Decisions, Encoder, deal, decisions_of, fit_encoder
from polidiff.evaluation.scores.propensity import ChanceModel, Propensity, fit_chances, logging_chances, says_more
from polidiff.policies import Policy, TablePolicy, changed_decisions, one_hot
from polidiff.policies.protocol import PolicyLike, names_listed
from polidiff.records.arrays import AnyArray, FloatArray, IntArray
from polidiff.worlds.log_columns import nearest_levels, row_index, row_name
from polidiff.worlds.protocol import known_actions, policy_in
from polidiff.worlds.shards.shard_files import collect

if TYPE_CHECKING:
    from polidiff.worlds.log import Log
    from polidiff.worlds.log_rows import LoggedRows

LOG = "log"  # the policy that wrote the log, whatever it was
COLUMN = "column:"  # before the name of a column
SIMULATED = 199
UNCHANGED = 1e-9  # difference of chances up to which a decision stays as it is
MOST_SINGLE = 500_000  # rows of one decision each that are scored: their regressions fit into memory


def is_logs(policy: PolicyLike) -> bool:
    """Whether a policy is given as the one that wrote the log."""
    return isinstance(policy, str) and policy == LOG


def is_log(policy: object) -> TypeGuard[Log]:
    """Whether a policy is given as the log that it wrote."""
    return getattr(policy, "kind", None) == "log"


def as_log_policy(log: Log, policy: PolicyLike, *, seed: int = 0) -> Policy:
    """A policy over the log's actions; one with more actions than the log knows is told how to declare them."""
    if is_log(policy):
        from polidiff.evaluation.logged.second_log import policy_behind

        return policy_behind(log, policy)
    if is_logs(policy):
        return logging_policy(log, seed=seed)
    if isinstance(policy, str) and policy.startswith(COLUMN):
        return advice_policy(log, policy.removeprefix(COLUMN))
    width = getattr(policy, "n_actions", None) if not isinstance(policy, np.ndarray) else None
    if isinstance(policy, np.ndarray) and policy.ndim == 2:
        width = policy.shape[1]
    elif (
        isinstance(policy, np.ndarray)
        and policy.ndim == 1
        and policy.dtype.kind in "iuf"
        and policy.max(initial=-1) >= 0
    ):
        width = max(int(policy.max()) + 1, log.n_actions)
    if width is not None and not callable(policy) and width > log.n_actions:
        raise InvalidPolicyError(
            f"the policy takes action {log.n_actions}, the log knows {log.n_actions} actions (0 to "
            f"{log.n_actions - 1}). Hint: Log(..., actions={width}) declares actions that nobody has tried"
        )
    return policy_in(log, policy)


def state_table(log: Log, policy: PolicyLike) -> FloatArray:
    """Probabilities (S, A) of a policy over discrete states."""
    table = np.asarray(as_log_policy(log, policy).probabilities(np.arange(log.n_states)), dtype=np.float64)
    if table.shape != (log.n_states, log.n_actions):
        raise InvalidPolicyError(
            f"a policy for this log must give shape {(log.n_states, log.n_actions)}; it gave {table.shape}"
        )
    return table


def logged_shares(visits: FloatArray) -> FloatArray:
    """Share of each action in each state (S, A); even where a state was never met."""
    totals = visits.sum(axis=1, keepdims=True)
    return np.where(totals > 0, visits / np.maximum(totals, 1), 1 / visits.shape[1])


@dataclass(frozen=True, eq=False)
class EstimatedPolicy:
    """The policy that wrote a log of features, as estimated."""

    model: ChanceModel | None  # None where no feature is seen to move what the log does
    shares: FloatArray  # (A,) of the actions in the whole log
    encode: Encoder

    @property
    def n_actions(self) -> int:
        """How many actions there are."""
        return len(self.shares)

    def probabilities(self, states: AnyArray) -> FloatArray:
        """(n, A) chances of every action."""
        if self.model is None:
            return np.tile(self.shares, (len(states), 1))
        return self.model(self.encode(np.asarray(states)))


def logging_policy(log: Log, *, seed: int = 0) -> Policy:
    """The policy that wrote the log: shares of each state, read off the counts, or chances given the features."""
    if log.discrete:
        counts = count_log(log, blocks=HALVES)
        visits = np.zeros((counts.n_states, counts.n_actions))
        np.add.at(visits, (counts.state, counts.action), counts.count)
        return TablePolicy(logged_shares(visits))
    return log.remembered(f"who wrote the log, {seed}", lambda: _estimated(log, seed))


def _estimated(log: Log, seed: int) -> Policy:
    """Chances given the features; the shares of the whole log where these say no less of rows that were not fitted.

    The borders of a model of pure chance would be told as regions, and as decisions that somebody makes.
    """
    rows, decisions = log.rows, scored_decisions(log, seed=seed)
    shares = np.bincount(rows.actions, minlength=log.n_actions) / len(rows.actions)
    stated = estimated_chances(log, decisions, seed=seed).table[np.arange(len(decisions.actions)), decisions.actions]
    encode, order = fit_encoder(rows.states), rows.canonical  # what is fitted does not depend on their order
    if not says_more(stated, shares[decisions.actions], decisions):
        return EstimatedPolicy(None, shares, encode)
    held = rows.folds(4, seed)[order] == 0
    model = fit_chances(encode(rows.states[order]), rows.actions[order], log.n_actions, held)
    return EstimatedPolicy(model, shares, encode)


def scored_decisions(log: Log, rows: LoggedRows | None = None, *, seed: int = 0) -> Decisions:
    """The decisions of a log of features that are scored, or of its `rows` with other units; made once.

    All, but of more than `MOST_SINGLE` single ones those of some whole units.
    """
    if rows is None:
        return log.remembered(f"decisions, {seed}", lambda: scored_decisions(log, log.rows, seed=seed))
    decisions = decisions_of(rows, log.n_actions)
    if not decisions.one_step or len(decisions.actions) <= MOST_SINGLE:
        return decisions
    parts = -(-len(decisions.actions) // MOST_SINGLE)
    return decisions.some((deal(decisions.n_units, parts, seed) == 0)[decisions.unit])


def estimated_chances(log: Log, decisions: Decisions, *, seed: int = 0) -> Propensity:
    """Chances of the logged actions in `scored_decisions`, whatever was recorded; estimated once."""
    key = f"chances, {seed}, of {len(decisions.actions)} decisions of {decisions.n_units}"
    return log.remembered(key, lambda: logging_chances(replace(decisions, probability=None), seed=seed))


def row_chances(log: Log, *, seed: int = 0) -> FloatArray:
    """(n, A) chances of every action in the rows that are held, from folds that did not see the row."""
    if log.discrete:
        return np.asarray(logging_policy(log).probabilities(log.rows.states))
    return log.remembered(f"chances of the log, {seed}", lambda: _in_rows(log, seed))


def _in_rows(log: Log, seed: int) -> FloatArray:
    decisions = decisions_of(log.rows, log.n_actions)
    table = np.empty((len(decisions.actions), log.n_actions))
    table[decisions.order] = estimated_chances(log, decisions, seed=seed).table
    return table


def changed_rows(actions: IntArray, current: FloatArray, proposed: FloatArray) -> FloatArray:
    """(n,) chance that each decision of the policy that wrote a log comes out differently; policies as (n, A) chances.

    Where the proposed policy is certain, the logged action itself says so, and nothing is estimated.
    """
    changed = changed_decisions(current, proposed)
    certain = (changed > UNCHANGED) & (proposed.max(axis=1) > 1 - UNCHANGED)
    return np.where(certain, changed_decisions(one_hot(actions, proposed.shape[1]), proposed), changed)


def wrote_the_log(visits: FloatArray, table: FloatArray, rng: np.random.Generator) -> bool:
    """Whether counts (S, A) look as if the policy (S, A) had taken the actions."""
    met = visits.sum(axis=1) > 0
    counts, chances = visits[met].astype(np.int64), table[met] / table[met].sum(axis=1, keepdims=True)
    if (counts[chances <= 0] > 0).any():
        return False
    totals = counts.sum(axis=1)
    seen = _distance(counts, chances)
    simulated = (_distance(rng.multinomial(totals, chances), chances) for _ in range(SIMULATED))
    return any(distance >= seen for distance in simulated)


def _distance(counts: IntArray, chances: FloatArray) -> float:
    expected = counts.sum(axis=1, keepdims=True) * chances
    ratio = np.divide(counts, expected, out=np.ones(counts.shape), where=(counts > 0) & (expected > 0))
    return float(2 * (counts * np.log(ratio)).sum())


class NearestAdvice:
    """What was advised in the nearest feature row of a log."""

    def __init__(self, states: AnyArray, advised: IntArray, n_actions: int) -> None:
        from scipy.spatial import KDTree

        self.encode, self.n_actions = fit_encoder(states), n_actions
        met, row = np.unique(self.encode(states), axis=0, return_inverse=True)
        self.scale = met.std(axis=0) + 1e-12
        self.tree = KDTree(met / self.scale)
        counts = np.zeros((len(met), n_actions))
        np.add.at(counts, (row.ravel(), advised), 1.0)
        self.table = logged_shares(counts)

    def probabilities(self, states: AnyArray) -> FloatArray:
        """(n, A) shares of the advice."""
        return np.asarray(self.table[self.tree.query(self.encode(np.asarray(states)) / self.scale)[1]])


def advice_policy(log: Log, column: str) -> Policy:
    """The policy that advised what a column of the log holds; made once for a log."""
    return log.remembered(COLUMN + column, lambda: _advice(log, column))


def _advice(log: Log, column: str) -> Policy:
    if log.discrete:
        return TablePolicy(logged_shares(_advice_counts(log, column)))
    number = _number(log, column)
    frame = log.drawn(column).lazy() if log.sampled else log.source.frame()
    advised = _checked(log, column, collect(frame.select(number.alias("advice")))["advice"])
    return NearestAdvice(log.rows.states, advised, log.n_actions)


def _advice_counts(log: Log, column: str) -> FloatArray:
    """(S, A) how often a column names each action in each discrete state; rows are not held."""
    number = _number(log, column)
    assert log.state_labels is not None
    pairs = log.source.frame().select(log.state_labels.number().alias("s"), number.alias("a"))
    met = collect(pairs.group_by("s", "a").len())
    counts = np.zeros((log.n_states, log.n_actions))
    counts[met["s"].to_numpy(), _checked(log, column, met["a"])] = met["len"].to_numpy()
    return counts


def _number(log: Log, column: str) -> pl.Expr:
    """The number of the advised action; null where there is none."""
    schema, actions = log.source.schema, log.action_labels
    if column not in schema:
        raise InvalidPolicyError(f"the log must have column {column!r}; it has {list(schema.names())[:20]}")
    kind = schema[column]
    if log.levels is not None and kind.is_numeric():
        return nearest_levels(log.source.frame(), column, log.levels)[0]
    if actions.own and not (kind.is_numeric() or kind == pl.Boolean):
        raise InvalidPolicyError(
            f"column {column!r} must advise actions as {actions.column!r} records them, as whole numbers; it holds "
            f"{kind}"
        )
    number = replace(actions, column=column).number()
    whole = pl.col(column).round() == pl.col(column) if kind.is_float() else pl.lit(True)
    return pl.when(whole & number.is_between(0, log.n_actions - 1)).then(number)


def _checked(log: Log, column: str, numbers: pl.Series) -> IntArray:
    """The advised actions, if every row names one."""
    if numbers.null_count():
        frame = log.source.frame()
        lacking = frame.with_columns(row_index(frame).alias("row")).filter(_number(log, column).is_null())
        first, names = collect(lacking.select("row", column).head(1)), names_listed(known_actions(log))
        held = "nothing" if first[column][0] is None else "none of them"
        raise InvalidPolicyError(
            f"column {column!r} must name one of the {log.n_actions} actions ({names}) in every row; "
            f"{row_name(first['row'][0])} holds {held}. Hint: "
            "where nothing is advised, write the action that was taken"
        )
    return numbers.to_numpy().astype(np.int64)
