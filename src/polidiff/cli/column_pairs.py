"""What two columns tell of each other: whether one follows from the other, says it again, or differs by it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import polars as pl

from polidiff.cli.table_columns import Column

FEWEST_ROWS = 10  # of an action before its values are taken for more than chance
BY_CHANCE = 1e-3  # probability, for all columns together, below which a column depends on the action
COPIED = 0.995  # correlation of ranks from which on a column says the outcome again


def _crosstab(frame: pl.DataFrame, name: str, action: str) -> pl.DataFrame:
    """Rows of each value x of a column with each action a; how many actions there are with x, and values with a."""
    pairs = frame.select(x=name, a=action).drop_nulls().group_by("x", "a").agg(rows=pl.len())
    return pairs.with_columns(actions=pl.len().over("x"), values=pl.len().over("a"))


def _share(of: str) -> pl.Expr:
    """The share of a value or an action among all rows of a crosstab."""
    return pl.col("rows").sum().over(of) / pl.col("rows").sum()


def determines(frame: pl.DataFrame, name: str, other: str) -> bool:
    """Whether a column tells another one, and is told by it no more than in part."""
    pairs = _crosstab(frame, name, other)
    return bool((pairs["actions"] == 1).all()) and pairs["x"].n_unique() > pairs["a"].n_unique()


def told_by_action(frame: pl.DataFrame, name: str, action: str) -> bool:
    """Whether all rows of an action have one value and actions differ in it, beyond chance."""
    pairs = _crosstab(frame, name, action)
    if name == action or pairs["x"].n_unique() < 2 or (pairs["values"] > 1).any():
        return False
    return pairs.select(((pl.col("rows") - 1) * _share("x").log()).sum()).item() < math.log(BY_CHANCE)


def copies(frame: pl.DataFrame, name: str, action: str) -> bool:
    """Whether the column follows from the action, or one action alone has a value of its own."""
    pairs = _crosstab(frame, name, action)
    own = (pairs["values"] == 1) & (pairs["actions"] == 1) & (pairs["rows"] >= FEWEST_ROWS)
    values = pairs["x"].n_unique()
    return (values > 1 and bool((pairs["values"] == 1).all())) or (values > 2 and bool(own.any()))


def taken_up(frame: pl.DataFrame, name: str, action: str, outcome: str) -> bool:
    """Whether a column behind action and outcome has two values, one with a single action: an offer that was taken."""
    if name not in frame.columns[max(frame.columns.index(c) for c in (action, outcome or action)) :]:
        return False
    pairs = _crosstab(frame, name, action)
    alone = (pl.col("actions") == 1) & (pl.col("rows") >= FEWEST_ROWS)
    chances = pairs.select(chance=_share("a") ** pl.col("rows"), alone=alone).filter("alone")["chance"]
    return pairs["x"].n_unique() == 2 and bool((chances < BY_CHANCE).any())


def tells_empty(frame: pl.DataFrame, column: Column, columns: Sequence[Column]) -> str | None:
    """A column that has values exactly where a column of two values has one of them."""
    high = frame[column.name] == frame[column.name].max()
    for other in columns:
        if 0 < other.missing < 1 and other is not column:
            same = (high == frame[other.name].is_null()).mean()
            if same in (0.0, 1.0):
                return other.name
    return None


def says_again(frame: pl.DataFrame, column: Column, outcome: str) -> bool:
    """Whether a column and the outcome rise together, or one is a threshold of the other."""
    from scipy.stats import mannwhitneyu

    ranks = frame.select(x=pl.col(column.name).rank(), y=pl.col(outcome).rank()).drop_nulls()
    few, many = sorted((ranks["x"], ranks["y"]), key=lambda values: values.n_unique())
    if len(ranks) < FEWEST_ROWS or few.n_unique() < 2:
        return False
    if few.n_unique() > 2:
        return abs(float(np.corrcoef(few, many)[0, 1])) > COPIED
    above, below = many.filter(few == few.max()), many.filter(few < few.max())
    auc = mannwhitneyu(above, below, method="asymptotic").statistic / (len(above) * len(below))
    return bool(max(auc, 1 - auc) >= (1.0 if many.n_unique() == 2 else COPIED))


def by_chance(frame: pl.DataFrame, column: Column, action: str) -> float:
    """The probability that a column differs between actions as much as it does if it does not depend on them."""
    from scipy.stats import chi2_contingency, kruskal

    pairs = frame.select(x=column.name, a=action).drop_nulls()
    if column.kind in ("text", "flag") or column.distinct <= 2:
        counts = pairs.group_by("x", "a").len().pivot("a", index="x", values="len").fill_null(0).drop("x").to_numpy()
        return float(chi2_contingency(counts, correction=False)[1]) if min(counts.shape, default=0) > 1 else 1.0
    groups = [part["x"].cast(pl.Float64).to_numpy() for part in pairs.partition_by("a") if len(part) >= FEWEST_ROWS]
    varied = len(groups) > 1 and any(group.min() != group.max() for group in groups)
    return float(kruskal(*groups, nan_policy="omit")[1]) if varied else 1.0
