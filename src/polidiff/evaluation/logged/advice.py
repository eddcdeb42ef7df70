"""The policy behind a column of advice: what another policy recommended for each logged decision ("shadow mode").

A policy here sees states. Where decisions in one state were advised differently, the policy takes each advice as often
as it was given there; a state that nobody met is advised like those that a tree cannot tell from it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from polidiff.errors import InvalidPolicyError
from polidiff.evaluation.logged.behaviour import ClassifierPolicy, logged_shares
from polidiff.evaluation.logged.encoder import fit_encoder
from polidiff.policies import Policy, TablePolicy
from polidiff.records.arrays import FloatArray, IntArray
from polidiff.worlds.log_columns import ROW
from polidiff.worlds.shards.shard_files import collect

if TYPE_CHECKING:
    from polidiff.worlds.log import Log

COLUMN = "column:"  # before the name of a column


def advice_policy(log: Log, column: str) -> Policy:
    """The policy that advised what a column of the log holds; made once for a log."""
    return log.remembered(COLUMN + column, lambda: _policy(log, column))


def _policy(log: Log, column: str) -> Policy:
    if log.discrete:
        return TablePolicy(logged_shares(_advice_counts(log, column)))
    from sklearn.tree import DecisionTreeClassifier

    states = log.rows.states
    encode = fit_encoder(states)
    tree = DecisionTreeClassifier(random_state=0)  # as deep as it takes to know every row
    return ClassifierPolicy(tree.fit(encode(states), advice_in_rows(log, column)), encode, log.n_actions)


def advice_in_rows(log: Log, column: str) -> IntArray:
    """(n,) the action that a column names in each row that is held."""
    number = _number(log, column)
    frame = log.drawn(column).lazy() if log.sampled else log.source.frame(log.read)
    return _checked(log, column, collect(frame.select(number.alias("advice")))["advice"])


def _advice_counts(log: Log, column: str) -> FloatArray:
    """(S, A) how often a column names each action in each discrete state; rows are not held."""
    number = _number(log, column)
    assert log.state_labels is not None
    pairs = log.source.frame(log.read).select(log.state_labels.number().alias("s"), number.alias("a"))
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
        frame = log.source.frame(log.read)
        row = pl.col(ROW) if ROW in log.source.schema else pl.int_range(pl.len())
        lacking = frame.with_columns(row.alias("row")).filter(_number(log, column).is_null())
        first = collect(lacking.select("row", column).head(1))
        advised = first[column][0]
        names = ", ".join(repr(action.name) for action in log.actions[:8])
        raise InvalidPolicyError(
            f"column {column!r} must name one of the {log.n_actions} actions ({names}) in every row; row "
            f"{first['row'][0]} holds {'nothing' if advised is None else repr(advised)}. Hint: where nothing is "
            "advised, write the action that was taken"
        )
    return numbers.to_numpy().astype(np.int64)
