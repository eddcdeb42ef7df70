"""Records of past decisions as a world: no simulator, no table, only what was seen."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal, TypeVar

import numpy as np
import polars as pl

from polidiff.errors import InvalidLogError, InvalidOptionError
from polidiff.options import check_count
from polidiff.records.action import ActionNames
from polidiff.records.arrays import AnyArray, FloatArray, IntArray, object_column
from polidiff.records.numbers import counted, number
from polidiff.records.outcome import Outcome, check_outcomes
from polidiff.worlds.log_check import DataCheck, check_ranges, checked, common, declared_ranges, log_summary
from polidiff.worlds.log_columns import (
    Columns,
    Labels,
    check_types,
    find_labels,
    name_columns,
    named_actions,
    nearest_levels,
)
from polidiff.worlds.log_rows import LoggedRows, check_room, feature_matrix, hashed_rows, read_rows
from polidiff.worlds.log_source import HASH, LogSource, TableSource
from polidiff.worlds.messy_tables import Repaired, empty_codes, repair, with_events, with_types
from polidiff.worlds.protocol import check_discount, with_return
from polidiff.worlds.shards.shard_files import collect
from polidiff.worlds.shards.shard_summary import ShardSummary
from polidiff.worlds.shards.transition_counts import free_memory

T = TypeVar("T")
HALVES = 2  # blocks of episodes that reading tells apart: one chooses a plan, the other judges it
EVERYBODY = "everybody"  # the state where nothing is known before a decision
MOST_VALUES = 100_000_000  # numbers of a log with feature states that are held at once: 0.8 GB


class Log:
    r"""A table of past decisions, one row per decision: :math:`(s_t, a_t, g_t)` in the order they were taken.

    Parameters
    ----------
    source : table, path, folder or glob
        pandas, polars or Arrow table; CSV or Parquet; Parquet also at any address that fsspec knows. Files are read a
        million rows at a time, not loaded. An episode may go on in the next file. Of text files, separator, decimal
        comma and encoding are found out, and ``.gz`` is unpacked.
    state : str, or list of str
        One column of labels (discrete states), or the columns of measurements that make up the state; none, where
        nothing is known before a decision.
    action : str
        Whole numbers, text, or real numbers such as a dose. Real numbers are told at the nearest of some levels:
        those of `actions`, or the medians of fifths of the column; policies of such a log give real numbers too.
    episode, step : str, optional
        Which decisions belong together, and their order. Neither: every row is an episode of one decision.
    reward : str, optional
        Makes up the return: a column of numbers, or of yes and no, or ``"status = cured"``, which is 1 where the
        column holds the value; so may columns of `outcomes`.
    terminated : str
        Where the process ended. An episode whose last row does not say so was cut: a cut is censoring, not an end.
    truncated : str or False
        Where the record was cut; False says that none was.
    probability : str or float, optional
        Probability of the logged action under the policy that wrote the log: a column, or one number for all rows.
    features : list of str, optional
        What rules speak about where states are discrete; constant within a state.
    group : str, optional
        Who is one unit, such as a patient with many episodes; people are dealt to folds and blocks as a whole.
    missing : {"refuse", "drop"}
        Whether rows without an action or outcome are refused, or left out and counted. An episode is then used up to
        the first such row, and counts as cut there.
    sort : bool
        Whether rows that are not in order are put in order, by episode and step.
    states, actions : int or sequence, optional
        How many there are or what they are called, where the log may not show all of them. Actions may be mappings of
        ordered components to levels.
    discount : float
        1 for plain sums.
    outcomes, return_name, include_return, return_range
        What is told about. `return_range` declares the smallest and largest possible return from any state on; without
        it nothing bounds what was never tried.
    skip_bad : bool
        Leave out rows and files that cannot be read, with a warning, instead of stopping at the first.
    work_folder : path, optional
        Where what was read of each shard of a Parquet log is kept, so that reading that was stopped goes on there.
    max_rows : int, optional
        How many rows of a log with feature states are held at once; by default a hundred million numbers' worth. Cells
        and rules of a longer log are made from whole episodes drawn by a hash of their names (see `sampled`); all
        rows are then read once more and counted in the cells.

    Examples
    --------
    >>> log = Log(pl.DataFrame({"s": [0, 1], "a": [1, 0], "r": [0.0, 1.0], "e": [7, 7], "end": [False, True]}),
    ...           state="s", action="a", reward="r", episode="e", terminated="end")
    >>> log.check.episodes, log.n_states, log.n_actions
    (1, 2, 2)
    """

    kind: Literal["log"] = "log"

    def __init__(
        self,
        source: TableSource,
        *,
        state: str | Sequence[str],
        action: str,
        episode: str | None = None,
        step: str | None = None,
        reward: str | None = None,
        terminated: str | None = None,
        truncated: str | bool | None = None,
        probability: str | float | None = None,
        features: Sequence[str] | None = None,
        group: str | None = None,
        missing: Literal["refuse", "drop"] = "refuse",
        sort: bool = True,
        states: int | Sequence[str] | None = None,
        actions: int | ActionNames | None = None,
        discount: float = 1.0,
        outcomes: Sequence[Outcome] = (),
        return_name: str = "return",
        include_return: bool = True,
        return_range: tuple[float, float] | None = None,
        skip_bad: bool = False,
        work_folder: str | os.PathLike[str] | None = None,
        max_rows: int | None = None,
    ) -> None:
        self._given = {name: value for name, value in locals().items() if name != "self"}
        check_count("max_rows", max_rows)
        self.discount = check_discount(discount)
        self.return_outcome, self.outcomes = _all_outcomes(outcomes, reward, return_name, include_return, return_range)
        self.source = LogSource(source, skip_bad=skip_bad, work_folder=work_folder)
        columns = (reward, *(outcome.of for outcome in self.outcomes))
        named = dict.fromkeys(of for of in columns if isinstance(of, str))
        with_columns = with_events(self.source.frame(), self.source.schema, named, episode if group is None else group)
        self.source = self.source if with_columns is None else self.source.with_table(with_columns)
        if isinstance(state, (list, tuple)) and not state:
            alike = self.source.frame().with_columns(pl.lit(EVERYBODY).alias(EVERYBODY))
            self.source, state = self.source.with_table(alike), [EVERYBODY]
        roles = {"action": action, "episode": episode, "step": step, "reward": reward, "group": group}
        self.columns: Columns = name_columns(
            self.source.schema, state, features, self.outcomes, roles, terminated, truncated, probability
        )
        if not isinstance(missing, str) or missing not in ("refuse", "drop"):
            raise InvalidOptionError(f"missing must be 'refuse' or 'drop'; got {missing!r}")
        self.levels: FloatArray | None = None  # (A, 1) of an action in real numbers
        repaired = self._read(actions, sort=sort, drop=missing == "drop")
        if self.levels is not None:
            actions = [{action: float(level)} for level in self.levels[:, 0]]
        schema = self.source.schema
        self.frame = self.source.frame().select(self.columns.used)
        self.action_labels, self.actions = named_actions(self.read.actions, schema[action], action, actions)
        check = checked(self.read, self.source, self.columns, self.action_labels)
        self.check: DataCheck = replace(check, dropped=repaired.dropped, sorted=repaired.sorted) if repaired else check
        if self.check.problems:
            raise InvalidLogError(self.check.problems[0])
        if self.read.facts.outside:
            check_ranges(self.source.frame(), self.columns, self.outcomes)
        column = self.columns.state[0]
        self.state_labels: Labels | None = (
            find_labels(self.read.states, schema[column], column, states, "state") if self.columns.discrete else None
        )
        self.feature_names: tuple[str, ...] = self.columns.features or ("state",)
        self._most_rows = MOST_VALUES // self.columns.values_per_row if max_rows is None else max_rows
        self._remembered: dict[str, Any] = {}

    def _read(self, actions: int | ActionNames | None, *, sort: bool, drop: bool) -> Repaired | None:
        """Read all rows once; if they cannot be used as they are, but can be repaired, a second time."""
        source, columns = self.source, self.columns
        measured = (*(() if columns.discrete else columns.state), *columns.features, *columns.outcome_columns)
        self.empty_codes = empty_codes(source.frame(), source.schema, measured) if source.is_text else {}
        few, codes = source.table is not None, self.empty_codes
        typed = with_types(source.frame, source.schema, columns, text=source.is_text, few=few, codes=codes)
        self.source = source if typed is None else source.with_table(typed)
        if self.source.schema[columns.action].is_float():
            nearest, self.levels = nearest_levels(self.source.frame(), columns.action, actions)
            self.source = self.source.with_table(self.source.frame().with_columns(nearest))
        check_types(self.source.schema, columns)
        temporal = columns.step is not None and self.source.schema[columns.step].is_temporal()
        columns = self.columns = replace(columns, temporal=temporal)
        ranges = declared_ranges(self.outcomes) if self.discount == 1.0 else ()
        self.read: ShardSummary = self.source.read(columns, blocks=HALVES, ranges=ranges)
        facts = self.read.facts
        usable = not facts.wrong and (facts.ordered or columns.episode is None)
        if usable and not facts.gaps:
            return None
        repaired = repair(self.source.frame(), columns, sort=sort and not usable, drop=drop and not usable)
        if repaired is not None:
            self.source = self.source.with_table(repaired.table)
            self.read = self.source.read(columns, blocks=HALVES, ranges=ranges)
        return repaired

    def with_outcomes(self, outcomes: Sequence[Outcome]) -> Log:
        """The same log, read for these outcomes alone."""
        return Log(**{**self._given, "outcomes": outcomes, "include_return": False})

    @property
    def discrete(self) -> bool:
        """Whether states are labels; else they are feature rows."""
        return self.columns.discrete

    @property
    def n_actions(self) -> int:
        """How many actions there are."""
        return len(self.actions)

    @property
    def n_states(self) -> int:
        """How many discrete states there are; an error for feature states."""
        return self._labels.count

    @property
    def states(self) -> tuple[str, ...]:
        """Names of the discrete states."""
        return self._labels.names

    @property
    def has_features(self) -> bool:
        """Whether rules can speak about features; else they name states."""
        return bool(self.columns.features)

    @cached_property
    def rows(self) -> LoggedRows:
        """All rows as arrays, or those of the episodes that were drawn (`sampled`); an error if they would not fit."""
        if self.sampled:
            check_room(self._most_rows, self.columns, free_memory())
            drawn = self.drawn()
            check_room(drawn.height, self.columns, free_memory())
            rows = read_rows(drawn.lazy(), self.columns, self.action_labels, None)
            return replace(rows, hashed=drawn[HASH].to_numpy())
        check_room(self.check.rows, self.columns, free_memory())
        return read_rows(self.frame, self.columns, self.action_labels, self.state_labels)

    def drawn(self, *more: str) -> pl.DataFrame:
        """The rows that are held of a log that is too long, with further columns."""
        return self.source.draw_episodes(self.check.rows, self.columns, self._most_rows, more)

    def remembered(self, key: str, make: Callable[[], T]) -> T:
        """What was made of the log before, or is made now."""
        if key not in self._remembered:
            self._remembered[key] = make()
        return self._remembered[key]

    def count_parts(self, count: Callable[..., T], asked: object, *, what: str) -> Iterator[T]:
        """``count(batches of rows of whole episodes, asked)`` of every part of the log, in order."""
        return self.source.count_parts(self.check.rows, self.columns, self.action_labels, count, asked, what)

    @property
    def sampled(self) -> bool:
        """Whether states are features and rows too many to be held, so that `rows` are a sample of whole episodes."""
        return not self.discrete and self.check.rows > self._most_rows

    @cached_property
    def fingerprint(self) -> str:
        """The same for logs with the same decisions in the same states, in whatever order people stand."""
        counts = self.read.entries
        held = (counts.keys, counts.count) if self.discrete else (self.rows.states, self.rows.actions)
        return f"{self.check.rows} rows {int(hashed_rows(*held).sum()):016x}"

    @property
    def own_names(self) -> dict[str, str]:
        """What the log's table calls the action, and the state where it has a column of states."""
        named = {"state": self.columns.state[0]} if self.discrete else {}
        return {"action": self.columns.action, **named}

    @property
    def notes(self) -> tuple[str, ...]:
        """What must be said of every result: what comes from the episodes that are held, if they are not all."""
        lacking: tuple[str, ...] = ()
        if self.check.dropped:
            lost = counted(self.check.dropped, "row")
            after = "" if self.check.noun == "decision" else ", or after such a row in their episode"
            lacking = (f"Left out: {lost} without an action or outcome{after}.",)
        if self.check.gaps:
            lacking += (f"The log has {self.check.gaps_told}.",)
        if not self.sampled:
            return lacking
        held = self.rows.n_episodes
        return (
            *lacking,
            f"The log is too long to be held: rules, verdicts and changes come from "
            f"{number(held)} of {counted(self.check.episodes, self.check.noun)} ({number(len(self.rows.actions))} of "
            f"{counted(self.check.rows, 'row')}), drawn by a hash of their names. "
            "How often regions are met is counted in all rows.",
        )

    @property
    def starts(self) -> AnyArray:
        """States in which logged episodes begin: distinct numbers, or one feature row per episode."""
        return self._starts[0]

    @property
    def start_counts(self) -> IntArray:
        """Episodes behind each of `starts`."""
        return self._starts[1]

    @cached_property
    def _starts(self) -> tuple[AnyArray, IntArray]:
        if not self.discrete:
            states = self.rows.states[self.rows.first]
            return states, np.ones(len(states), dtype=np.int64)
        _, state, _, _ = self.read.starts.parts
        state = self._labels.numbers_of(self.read.states)[state]
        episodes = np.bincount(state, self.read.starts.count, self.n_states)
        met = np.flatnonzero(episodes)
        return met, episodes[met].astype(np.int64)

    def summary(self, *, blocks: int) -> ShardSummary:
        """The log read with its episodes dealt to so many blocks in turn; from the first reading if that did so."""
        if blocks == HALVES:
            return self.read
        return self.source.read(replace(self.columns, features=()) if self.discrete else self.columns, blocks=blocks)

    def features_of(self, states: AnyArray) -> AnyArray:
        """Feature rows of states (numbers, or feature rows as they are); without features, a column of names."""
        if not self.discrete:
            return np.asarray(states)
        index = np.asarray(states, dtype=np.int64).ravel()
        return self._state_features[index] if self.has_features else object_column([self.states[s] for s in index])

    def known_features(self) -> AnyArray | None:
        """Features (n, d) of all states, or of all rows; None where only some of these are held."""
        if self.sampled:
            return None
        return self.features_of(np.arange(self.n_states)) if self.discrete else self.rows.states

    @property
    def common_actions(self) -> frozenset[str]:
        """Names of actions that at least ten people got, or nobody."""
        return common(log_summary(self).takers, [action.name for action in self.actions])

    def common_words(self, feature: str) -> frozenset[str]:
        """Words of a feature that at least ten people have."""
        seen = log_summary(self)
        counts = seen.people.get(feature)
        return frozenset(seen.values.get(feature, ())) if counts is None else common(counts, counts)

    @property
    def _labels(self) -> Labels:
        if self.state_labels is None:
            raise InvalidLogError("this log has feature states, not a list of states")
        return self.state_labels

    @cached_property
    def _state_features(self) -> AnyArray:
        """(S, d) features of each discrete state; an error where they are not constant."""
        names, labels = self.columns.features, self._labels
        parts = [pl.col(name).first().alias(f"x{j}") for j, name in enumerate(names)]
        parts += [pl.col(name).n_unique().alias(f"values{j}") for j, name in enumerate(names)]
        met = collect(self.frame.group_by(labels.number().alias("state")).agg(parts))
        for j, name in enumerate(names):
            varied = met.filter(pl.col(f"values{j}") > 1).sort("state")
            if varied.height:
                raise InvalidLogError(
                    f"feature {name!r} must be constant within a state; in state {self.states[varied['state'][0]]!r} "
                    f"it has {varied[f'values{j}'][0]} values. Hint: state=[...] makes the features the state"
                )
        every = pl.DataFrame({"state": np.arange(self.n_states)}).join(
            met, on="state", how="left", maintain_order="left"
        )
        return feature_matrix(every, len(names))


def _all_outcomes(
    outcomes: Sequence[Outcome], reward: str | None, name: str, include: bool, range_: tuple[float, float] | None
) -> tuple[Outcome | None, tuple[Outcome, ...]]:
    """The return (None without a reward column) and all outcomes that are told."""
    if reward is None:
        if not outcomes:
            raise InvalidLogError(
                'a log needs an outcome. Hint: reward="COLUMN", or outcomes= ([[outcomes]] in a study, with a column)'
            )
        return None, check_outcomes(outcomes)
    return with_return(outcomes, name, include, of=reward, range_=range_)
