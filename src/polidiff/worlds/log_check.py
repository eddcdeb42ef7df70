"""What is in a log, who stands behind it, and what is wrong with it: found before anything is estimated.

People are the distinct people (or episodes) that rows belong to, never rows or states.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from polidiff.errors import InvalidOutcomeError
from polidiff.records.arrays import AnyArray, FloatArray, IntArray
from polidiff.records.explanation import Feature, WorldSummary
from polidiff.records.numbers import counted, number
from polidiff.records.outcome import Outcome
from polidiff.records.rule import MOST_VALUES
from polidiff.worlds.log_columns import TAIL, Columns, Labels, row_index, row_name
from polidiff.worlds.log_rows import boundaries, gain_expressions, row_problems
from polidiff.worlds.protocol import features_seen
from polidiff.worlds.shards.shard_files import collect
from polidiff.worlds.shards.shard_summary import ShardSummary

if TYPE_CHECKING:
    from polidiff.worlds.log import Log
    from polidiff.worlds.log_source import LogSource
MOST_HELD = 2_000_000  # rows of a log with discrete states that are read for checks
ONES = 0.1  # share of a variance that one person may have for it to be told


@dataclass(frozen=True)
class DataCheck:
    """Facts about a log. `problems` make it unusable; the rest is worth knowing."""

    rows: int
    episodes: int
    terminated: int  # episodes that ended
    cut: int  # episodes whose record stops before the end
    gaps: int  # places where steps are missing inside an episode
    missing: Mapping[str, int]  # column -> rows without a value, where there are any
    never_taken: tuple[str, ...]  # actions that no row takes
    problems: tuple[str, ...]
    skipped: tuple[str, ...] = ()  # parts of files that could not be read and were left out
    people: int | None = None  # distinct people, where a column tells who they are
    dropped: int = 0  # rows left out for want of an action or outcome, and those after them in their episodes
    sorted: bool = False  # whether rows were put in order by episode and step

    @property
    def noun(self) -> str:
        """What an episode is called: "decision", where each is a single one."""
        return "decision" if self.rows == self.episodes else "episode"

    @property
    def gaps_told(self) -> str:
        """How many gaps there are, and what that means."""
        return f"{counted(self.gaps, 'gap')} in the steps: what follows the row before a gap is unknown"

    def __str__(self) -> str:
        of = "" if self.people is None else f" of {counted(self.people, 'people')}"
        ended = f" ({number(self.terminated)} ended, {number(self.cut)} cut)"
        single = self.noun == "decision" and not self.cut
        lines = [f"{counted(self.rows, 'row')}, {counted(self.episodes, self.noun)}{of}{'' if single else ended}"]
        if self.gaps:
            lines.append(self.gaps_told)
        if self.missing:
            lines.append("missing: " + ", ".join(f"{name} {count}" for name, count in self.missing.items()))
        if self.never_taken:
            lines.append("actions never taken: " + ", ".join(self.never_taken))
        if self.dropped:
            lost = counted(self.dropped, "row")
            after = "" if self.noun == "decision" else ", or after one in their episode"
            lines.append(f"left out: {lost} without an action or outcome{after}")
        if self.sorted:
            lines.append("rows were put in order by episode and step")
        if self.skipped:
            lines.append("left out: " + "; ".join(self.skipped))
        return "\n".join([*lines, *self.problems])


def checked(read: ShardSummary, source: LogSource, columns: Columns, actions: Labels) -> DataCheck:
    """The facts that reading has found. What is wrong, if anything is, is looked up in the rows once more."""
    facts, lazy = read.facts, source.frame()
    if facts.rows == 0:
        empty = ("the log must have one row per decision; it has no rows",)
        return DataCheck(0, 0, 0, 0, 0, {}, actions.names, empty)
    taken = set(actions.numbers_of(read.actions).tolist())
    return DataCheck(
        rows=facts.rows,
        episodes=facts.runs,
        terminated=facts.ended,
        cut=facts.runs - facts.ended,
        gaps=facts.gaps,
        missing={name: count for name, count in zip(columns.used, facts.missing, strict=True) if count},
        never_taken=tuple(name for a, name in enumerate(actions.names) if a not in taken),
        problems=_problems(read, lazy, columns),
        skipped=source.skipped,
        people=None if columns.group is None else collect(lazy.select(pl.col(columns.group).n_unique())).item(),
    )


def _problems(read: ShardSummary, lazy: pl.LazyFrame, columns: Columns) -> tuple[str, ...]:
    """What makes the rows unusable, in words, with the first place of each."""
    problems = []
    if read.facts.wrong:
        wrong = row_problems(columns)
        counts = collect(lazy.select(rule.sum().alias(name) for name, rule in wrong.items())).row(0, named=True)
        problems += [_first_place(lazy, columns, name, wrong[name], counts[name]) for name in wrong if counts[name]]
    if columns.group is not None and columns.episode is not None:
        problems += _shared_episodes(lazy, columns)
    if columns.episode is not None and not read.facts.ordered:
        episodes = collect(lazy.select(pl.col(columns.episode).n_unique())).item()
        if episodes != read.facts.runs:
            problems.append(_scattered(lazy, columns, read.facts.runs - episodes))
    return tuple(problems)


def _shared_episodes(lazy: pl.LazyFrame, columns: Columns) -> list[str]:
    """Episodes that are said to be of more than one person."""
    people = pl.col(str(columns.group))
    rows = lazy.with_columns(row_index(lazy).alias("row")).group_by(str(columns.episode), maintain_order=True)
    counts = rows.agg(people.n_unique().alias("people"), pl.col("row").first())
    shared = collect(counts.filter(pl.col("people") > 1))
    if not shared.height:
        return []
    return [
        f"an episode belongs to one {columns.group!r}; the one of {row_name(shared['row'][0])} has "
        f"{shared['people'][0]}" + (f", and {shared.height - 1} more have several" if shared.height > 1 else "")
    ]


def declared_ranges(outcomes: Sequence[Outcome]) -> tuple[tuple[int, float, float], ...]:
    """Outcomes with a range, and the range with room for rounding."""
    ranges = [(k, *outcome.range) for k, outcome in enumerate(outcomes) if outcome.range is not None]
    slack = [1e-9 * (1 + abs(low) + abs(high)) for _, low, high in ranges]
    return tuple((k, low - room, high + room) for (k, low, high), room in zip(ranges, slack, strict=True))


def check_ranges(lazy: pl.LazyFrame, columns: Columns, outcomes: Sequence[Outcome]) -> None:
    """An error if a logged episode lies outside the range that an outcome is said to have: then it bounds nothing.

    It tells where, and not what is recorded there: that is one person's.
    """
    declared = declared_ranges(outcomes)
    row = row_index(lazy)
    name = row if columns.episode is None else pl.col(columns.episode)
    ended = boundaries(columns)["ended"].alias("ended")
    rows = lazy.select(name.alias("whose"), row.alias("row"), ended, *gain_expressions(columns))
    each = rows.group_by("whose").agg(pl.col("ended").any(), pl.col("row").first(), pl.col("^gain.*$").sum())
    sums = each.filter("ended").sort("row")
    for k, low, high in declared:
        outcome = outcomes[k]
        first = collect(sums.filter((pl.col(f"gain{k}") < low) | (pl.col(f"gain{k}") > high)).head(1))
        if first.height:
            place, gain = row_name(first["row"][0]), columns.gains[k]
            raise InvalidOutcomeError(
                f"range {outcome.range} of outcome {outcome.name!r} must hold for every episode; "
                + (place if columns.episode is None else f"the one of {place}")
                + (f", column {gain!r}," if isinstance(gain, str) else "")
                + f" lies {'below' if first[f'gain{k}'][0] < low else 'above'} it. Hint: declare what is possible, not "
                "what is usual"
            )


def _first_place(lazy: pl.LazyFrame, columns: Columns, said: str, rule: pl.Expr, count: int) -> str:
    """One problem in words: what was expected, where it first fails, how often; an episode is somebody's name."""
    row = collect(lazy.select(rule.alias("!"), row_index(lazy).alias("row")).filter("!").head(1))["row"][0]
    droppable = any(said.startswith(f"column {name!r} must") for name in (columns.action, *columns.outcome_columns))
    hint = 'missing="drop" leaves such rows out' if droppable else "fill it in, or delete these rows"
    return (
        f"{said} in {row_name(row)}"
        + (f" and {count - 1} more" if count > 1 else "")
        + (f". Hint: {hint}" if "is missing" in said else "")
    )


def _scattered(lazy: pl.LazyFrame, columns: Columns, extra: int) -> str:
    name = str(columns.episode)
    begins = lazy.with_columns(row_index(lazy).alias("row")).filter(boundaries(columns)["first"])
    runs = begins.group_by(name, maintain_order=True).agg(pl.len(), pl.col("row").get(1, null_on_oob=True))
    again = collect(runs.filter(pl.col("len") > 1).head(1))["row"][0]
    return (
        f"rows of an episode must stand together; {row_name(again)} goes on with an earlier one ({extra} such rows in "
        "all). Hint: sort the rows by episode and step"
    )


def log_summary(log: Log) -> WorldSummary:
    """What a result says about a log: its size, ranges that many reach, and how many stand behind each name."""
    return log.remembered("summary", lambda: _summary(log))


def common(counts: Mapping[str, int], names: Iterable[str]) -> frozenset[str]:
    """Names with at least `TAIL` people behind them, or with nobody."""
    return frozenset(name for name in names if not 0 < counts.get(name, 0) < TAIL)


def _summary(log: Log) -> WorldSummary:
    facts = {"rows": log.check.rows, "episodes": log.check.episodes}
    if log.check.people is not None:
        facts["people"] = log.check.people
    if log.discrete:
        _, behind = label_coverage(log, np.arange(log.n_states), log.n_states)
        states = dict(zip(log.states, behind.tolist(), strict=True))
        features = features_seen(log.features_of(np.arange(log.n_states)), log.feature_names)
        columns = log.features_of(np.flatnonzero(behind >= TAIL)).T
        shown = tuple(_met(feature, column) for feature, column in zip(features, columns, strict=True))
        takers = action_people(log, np.zeros(log.n_states, dtype=np.int64), 1)[0]
        return _told(log, shown, facts, {"state": states}, takers)
    rows = log.rows
    people = {}
    seen: tuple[Feature, ...] = ()
    for feature, column in zip(features_seen(rows.states, log.feature_names), rows.states.T, strict=True):
        if feature.kind == "category":
            people[feature.name] = row_people(column, rows.person)
        else:
            feature = _trimmed(feature, column.astype(float), rows.person)
        seen += (feature,)
    took = row_people(rows.actions, rows.person)
    return _told(log, seen, facts, people, [took.get(str(action), 0) for action in range(log.n_actions)])


def _told(
    log: Log,
    features: tuple[Feature, ...],
    facts: Mapping[str, int],
    people: Mapping[str, Mapping[str, int]],
    took: Iterable[int],
) -> WorldSummary:
    takers = {action.name: int(count) for action, count in zip(log.actions, took, strict=True)}
    return WorldSummary("log", log.actions, features, facts, people, takers, _spread(log))


def _spread(log: Log) -> dict[str, float]:
    """Standard deviation of each outcome over episodes, those of one person together; of no log of states too long.

    Nothing is told of an outcome of which one person makes more than a share: it would tell that person's.
    """
    if log.discrete and log.check.rows > MOST_HELD:
        return {}
    rows = log.rows
    person = np.unique(rows.person[rows.first], return_inverse=True)[1]
    totals = (np.bincount(rows.episode, column, rows.n_episodes) for column in rows.gains.T)
    sums = (np.bincount(person, total - total.mean()) for total in totals)
    pairs = zip(log.outcomes, (one**2 for one in sums), strict=True)
    return {
        o.name: float(np.sqrt(part.sum() / rows.n_episodes)) for o, part in pairs if part.max() <= ONES * part.sum()
    }


def rare_words(log: Log, least: int) -> dict[int, frozenset[str]]:
    """By column, the words of a log of feature rows that fewer than so many people have."""
    people = log_summary(log).people
    counts = {j: people.get(name, {}) for j, name in enumerate(log.feature_names)}
    words = {j: {v for v in log.rows.states[:, j] if isinstance(v, str)} for j, by in counts.items() if by}
    return {j: frozenset(word for word in some if counts[j].get(word, 0) < least) for j, some in words.items()}


def _met(feature: Feature, column: AnyArray) -> Feature:
    """The feature with the range or the names of the states that many have met."""
    if feature.kind == "category":
        return replace(feature, values=tuple(sorted(set(map(str, column)))[:MOST_VALUES]))
    numbers = column.astype(float)
    numbers = numbers[~np.isnan(numbers)]
    low, high = (float(numbers.min()), float(numbers.max())) if len(numbers) else (None, None)
    return replace(feature, low=low, high=high, behind=TAIL)


def _trimmed(feature: Feature, column: FloatArray, person: IntArray) -> Feature:
    """The feature with a range beyond each end of which at least `TAIL` people go, or that end themselves there."""
    rows = pl.DataFrame({"value": column, "person": person}).drop_nans("value")
    each = rows.group_by("person").agg(least=pl.col("value").min(), most=pl.col("value").max())
    low, high = each.select(pl.col("least").bottom_k(TAIL).max(), pl.col("most").top_k(TAIL).min()).row(0)
    if each.height < TAIL or low > high:
        return replace(feature, low=None, high=None)
    return replace(feature, low=low, high=high, behind=TAIL)


def row_people(labels: AnyArray, person: IntArray) -> dict[str, int]:
    """Distinct people behind each label of rows.

    >>> row_people(np.array(["a", "a", "b"], dtype=object), np.array([0, 0, 1]))
    {'a': 1, 'b': 1}
    """
    pairs = pl.DataFrame({"label": labels.astype(str), "person": person})
    counted = pairs.group_by("label").agg(pl.col("person").n_unique()).sort("label")
    return dict(zip(counted["label"].to_list(), counted["person"].to_list(), strict=True))


def label_coverage(log: Log, group: IntArray, count: int) -> tuple[IntArray, IntArray]:
    """(count,) rows and distinct people of each group of states; `group` (S,) is −1 for states of none.

    A person (an episode, where the log names none) counts once in every group, however often it is visited.
    """
    counted, coverage = _counted(log, group, "group"), np.zeros((2, count), dtype=np.int64)
    coverage[:, counted["group"].to_numpy()] = counted.select("rows", "people").to_numpy().T
    return coverage[0], coverage[1]


def action_people(log: Log, group: IntArray, count: int) -> IntArray:
    """(count, A) distinct people of each group of states who got each action there."""
    counted, people = _counted(log, group, "group", "action"), np.zeros((count, log.n_actions), dtype=np.int64)
    people[counted["group"].to_numpy(), counted["action"].to_numpy()] = counted["people"].to_numpy()
    return people


def _counted(log: Log, group: IntArray, *by: str) -> pl.DataFrame:
    """Rows and distinct people of each group of states, or of each group and action."""
    assert log.state_labels is not None
    states = pl.DataFrame({"state": np.arange(len(group)), "group": group}).filter(pl.col("group") >= 0)
    labels = {"state": log.state_labels.number(), "action": log.action_labels.number()}
    rows = log.frame.select(person=_person(log), **labels).join(states.lazy(), on="state", maintain_order="none")
    return collect(rows.group_by(by).agg(rows=pl.len(), people=pl.col("person").n_unique()))


def start_people(log: Log, groups: Sequence[AnyArray] | None) -> IntArray | None:
    """(groups,) distinct people behind the starts in each; `groups` are masks over ``log.starts``, or all starts.

    None where every episode is another's, or where the log is too long to be held.
    """
    if log.columns.group is None or log.sampled:
        return None
    groups = groups if groups is not None else [np.ones(len(log.starts), dtype=np.bool_)]
    assert log.state_labels is not None
    begins = log.frame.filter(boundaries(log.columns)["first"])
    pairs = collect(begins.select(log.state_labels.number().alias("state"), _person(log).alias("person")).unique())
    place = np.full(log.n_states, -1)
    place[log.starts] = np.arange(len(log.starts))
    start, people = place[pairs["state"].to_numpy()], pairs["person"]
    return np.array([people.filter(pl.Series((np.asarray(group) > 0)[start])).n_unique() for group in groups])


def _person(log: Log) -> pl.Expr:
    return pl.int_range(pl.len()) if log.columns.unit is None else pl.col(log.columns.unit)
