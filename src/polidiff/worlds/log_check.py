"""What is in a log and what is wrong with it, found in one pass before anything is estimated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from polidiff.errors import InvalidOutcomeError
from polidiff.records.outcome import Outcome
from polidiff.worlds.log_columns import Columns
from polidiff.worlds.log_labels import Labels
from polidiff.worlds.log_rows import boundaries, gain_expressions
from polidiff.worlds.log_source import collect


@dataclass(frozen=True)
class DataCheck:
    """Facts about a log. `problems` make it unusable; the rest is worth knowing."""

    rows: int
    episodes: int
    terminated: int  # episodes that ended
    cut: int  # episodes whose record stops before the end
    gaps: int  # places where steps are missing inside an episode
    duplicates: int  # rows that repeat the episode and step of the row before
    missing: Mapping[str, int]  # column -> rows without a value, where there are any
    constant: tuple[str, ...]  # features that never vary
    never_taken: tuple[str, ...]  # actions that no row takes
    problems: tuple[str, ...]

    def __str__(self) -> str:
        lines = [f"{self.rows} rows, {self.episodes} episodes ({self.terminated} ended, {self.cut} cut)"]
        if self.gaps:
            lines.append(f"{self.gaps} gaps in the steps: what follows the row before a gap is unknown")
        if self.missing:
            lines.append("missing: " + ", ".join(f"{name} {count}" for name, count in self.missing.items()))
        if self.constant:
            lines.append("never vary: " + ", ".join(self.constant))
        if self.never_taken:
            lines.append("actions never taken: " + ", ".join(self.never_taken))
        return "\n".join([*lines, *self.problems])


def check_rows(lazy: pl.LazyFrame, columns: Columns, actions: Labels) -> DataCheck:
    """The facts and the problems of a log."""
    temporal = columns.step is not None and lazy.collect_schema()[columns.step].is_temporal()
    wrong = _wrong(columns, temporal)
    facts = collect(
        lazy.select(*_facts(columns, temporal), *(rule.sum().alias(f"!{name}") for name, rule in wrong.items()))
    )
    fact = facts.row(0, named=True)
    if fact["rows"] == 0:
        return DataCheck(
            0, 0, 0, 0, 0, 0, {}, (), actions.names, ("the log must have one row per decision; it has no rows",)
        )
    problems = [_first_place(lazy, columns, name, wrong[name], fact[f"!{name}"]) for name in wrong if fact[f"!{name}"]]
    if columns.episode is not None and fact["episodes"] != fact["runs"]:
        problems.append(_scattered(lazy, columns, fact["runs"] - fact["episodes"]))
    taken = collect(lazy.select(actions.number().unique().alias("a")))["a"].to_list()
    return DataCheck(
        rows=fact["rows"],
        episodes=fact["episodes"],
        terminated=fact["terminated"],
        cut=fact["episodes"] - fact["terminated"],
        gaps=fact["gaps"],
        duplicates=fact["duplicates"],
        missing={name: fact[f"?{name}"] for name in columns.used if fact[f"?{name}"]},
        constant=tuple(name for name in columns.features if fact[f"={name}"]),
        never_taken=tuple(name for a, name in enumerate(actions.names) if a not in set(taken)),
        problems=tuple(problems),
    )


def check_ranges(lazy: pl.LazyFrame, columns: Columns, outcomes: Sequence[Outcome]) -> None:
    """An error if a logged episode lies outside the range that an outcome is said to have: then it bounds nothing."""
    declared = [(k, outcome) for k, outcome in enumerate(outcomes) if outcome.range is not None]
    if not declared:
        return
    gains = {f"gain{k}": expression for k, expression in enumerate(gain_expressions(columns))}
    sums = lazy.select(pl.int_range(pl.len()).alias("row"), *(gains[f"gain{k}"] for k, _ in declared))
    if columns.episode is not None:
        named = lazy.select(pl.col(columns.episode).alias("episode"), *(gains[f"gain{k}"] for k, _ in declared),
                            boundaries(columns)["ended"].alias("ended"))  # fmt: skip
        sums = named.group_by("episode").agg(pl.col("ended").any(), *(pl.col(f"gain{k}").sum() for k, _ in declared))
        sums = sums.filter("ended").drop("ended")
    for k, outcome in declared:
        low, high = outcome.range or (0.0, 0.0)
        slack = 1e-9 * (1 + abs(low) + abs(high))
        outside = sums.filter((pl.col(f"gain{k}") < low - slack) | (pl.col(f"gain{k}") > high + slack))
        found = collect(outside.sort(pl.first()).head(1))
        if found.height:
            what = "row" if columns.episode is None else "episode"
            raise InvalidOutcomeError(
                f"range {outcome.range} of outcome {outcome.name!r} must hold for every episode; {what} "
                f"{found.row(0)[0]} has {found[f'gain{k}'][0]:.6g}. Hint: declare what is possible, not what is usual"
            )


def _facts(columns: Columns, temporal: bool) -> list[pl.Expr]:
    edge = boundaries(columns)
    facts = [pl.len().alias("rows"), *(pl.col(name).is_null().sum().alias(f"?{name}") for name in columns.used)]
    facts += [(pl.col(name).drop_nulls().n_unique() <= 1).alias(f"={name}") for name in columns.features]
    if columns.episode is None:
        return [
            *facts,
            pl.len().alias("episodes"),
            pl.len().alias("terminated"),
            pl.lit(0).alias("gaps"),
            pl.lit(0).alias("duplicates"),
        ]
    episode = pl.col(columns.episode)
    same = (episode.shift(1) == episode).fill_null(False)
    move = pl.lit(1) if columns.step is None or temporal else pl.col(columns.step) - pl.col(columns.step).shift(1)
    again = pl.lit(False) if columns.step is None else pl.col(columns.step) == pl.col(columns.step).shift(1)
    return [
        *facts,
        episode.n_unique().alias("episodes"),
        edge["first"].sum().alias("runs"),
        edge["ended"].sum().alias("terminated") if columns.terminated else pl.lit(0).alias("terminated"),
        (same & (move > 1)).sum().alias("gaps"),
        (same & again).sum().alias("duplicates"),
    ]


def _wrong(columns: Columns, temporal: bool) -> dict[str, pl.Expr]:
    """Per kind of problem, which rows have it."""
    wrong: dict[str, pl.Expr] = {}
    needed = [columns.action, columns.episode, columns.step, columns.terminated, columns.truncated, columns.probability]
    for name in [*needed, *(columns.state if columns.discrete else ())]:
        if name is not None:
            wrong[f"column {name!r} must have a value in every row; it is missing"] = pl.col(name).is_null()
    gains = [gain for gain in columns.gains if isinstance(gain, str)]
    for name in dict.fromkeys(gain for gain in (columns.reward, *gains) if gain is not None):
        bad = pl.col(name).is_null() | ~pl.col(name).cast(pl.Float64).is_finite()
        wrong[f"column {name!r} must hold finite numbers; it is missing, NaN or infinite"] = bad.fill_null(True)
    if columns.probability is not None:
        chance = pl.col(columns.probability)
        wrong[
            f"the probability {columns.probability!r} of a logged action must be above 0 and at most 1; it is not"
        ] = (~((chance > 0) & (chance <= 1))).fill_null(False)
    if columns.episode is not None:
        wrong |= _wrong_order(columns, temporal)
    return wrong


def _wrong_order(columns: Columns, temporal: bool) -> dict[str, pl.Expr]:
    episode = pl.col(str(columns.episode))
    wrong = {}
    if columns.step is not None:
        step = pl.col(columns.step)
        same = (episode.shift(1) == episode).fill_null(False)
        wrong[f"steps ({columns.step!r}) must increase within an episode; they repeat"] = same & (
            step == step.shift(1)
        ).fill_null(False)
        wrong[
            f"steps ({columns.step!r}) must increase within an episode (hint: sort by episode and step); they fall"
        ] = same & (step < step.shift(1)).fill_null(False)
    goes_on = (episode.shift(-1) == episode).fill_null(False)
    for name, said in ((columns.terminated, "ended"), (columns.truncated, "was cut")):
        if name is not None:
            wrong[f"an episode has one end; it {said} ({name!r}) and goes on"] = pl.col(name).cast(pl.Boolean) & goes_on
    return wrong


def _first_place(lazy: pl.LazyFrame, columns: Columns, said: str, rule: pl.Expr, count: int) -> str:
    """One problem in words: what was expected, where it first fails, how often."""
    shown = [name for name in (columns.episode, columns.step) if name is not None]
    row = collect(lazy.with_columns(rule.alias("!")).with_row_index("row").filter("!").select("row", *shown).head(1))
    found = row.row(0, named=True)
    place = ", ".join(f"{name} {found[name]}" for name in shown)
    return (
        f"{said} in row {found['row']}"
        + (f" ({place})" if place else "")
        + (f" and {count - 1} more" if count > 1 else "")
    )


def _scattered(lazy: pl.LazyFrame, columns: Columns, extra: int) -> str:
    name = str(columns.episode)
    runs = lazy.filter(boundaries(columns)["first"]).group_by(name, maintain_order=True).len().filter(pl.col("len") > 1)
    first = collect(runs.head(1)).row(0)[0]
    return (
        f"rows of an episode must stand together; {name} {first!r} is interrupted by other episodes ({extra} times in "
        "all). Hint: sort the rows by episode and step"
    )
