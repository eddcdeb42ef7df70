"""Lists of rules found on some rows of a log, within limits on what a plan may change or cost.

A limit is kept by a price on what it limits: raised until the longest list is within it, then lowered half-way. Where
decisions follow each other, actions are first scored as if the current policy went on after them, then as if the list
that was found did (policy iteration), and no plan changes more of an episode than a log can follow.

Feature rows of a log as the cells that rules speak about.

Numbers are cut between their values where these are few, else at quantiles: fine ones, and among them coarse ones that
a search begins with. A word has a column with the cells "other" and "this one"; of a column of many words rules name
the commonest and say nothing about the rest.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date, time, timedelta
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from polidiff.errors import InvalidLogError
from polidiff.evaluation.logged.plan import MIN_SUPPORT
from polidiff.evaluation.scores.difference import MOST_CHANGES
from polidiff.policies import one_hot
from polidiff.progress import Clock
from polidiff.records.arrays import AnyArray, BoolArray, FloatArray, IntArray
from polidiff.records.numbers import percent
from polidiff.records.rule import Condition, Rule, missing_entries
from polidiff.rules.best_lists import (
    ListOptions,
    ProvenList,
    grown_lists,
    merged,
    proven_lists,
    refined,
    supported,
)
from polidiff.rules.cell_grid import Box, Column, Grid, RuleList
from polidiff.rules.grid import Axis, make_grid, readable_bound
from polidiff.rules.lists import MOST_WORDS, Kinds, as_table
from polidiff.surrogates.record import split_support
from polidiff.worlds.protocol import aim

if TYPE_CHECKING:
    from polidiff.surrogates.log_scores import ScorePlans

PRICE = 0.1  # of a bound, in standard deviations of a sum over all rows
TIGHTENED, TIGHTENED_AGAIN = 6, 3  # times that the price of a limit is moved, at first and from where it was before
CHOICES = 6  # that share a time limit: everyone's, and those of the five turns that judge
ROUNDS = 2  # of policy iteration, where decisions follow each other
FOLLOWED = 0.9 * MOST_CHANGES  # changed decisions of an episode up to which a log shows what a plan gains
COARSE = 12  # cuts of a feature that a search begins with
FINE = 95


@dataclass(frozen=True, eq=False)
class Limit:
    """What a plan may add to something, per episode."""

    cost: FloatArray  # (n, A) what every action adds in every row
    most: float


@dataclass(frozen=True, eq=False)
class Choice:
    """Lists of at most 1, 2, … rules, and the gains (n, A, M) by which they were chosen."""

    lists: list[ProvenList]
    gains: FloatArray


class ListChooser:
    """Finds lists on some of the rows that keep within limits."""

    def __init__(self, problem: ScorePlans, offered: list[bool]) -> None:
        self.problem, self.offered = problem, np.flatnonzero(offered)
        self.price: FloatArray | None = None  # that kept limits before
        options, decisions = problem.options, problem.scored.decisions
        share, least = split_support(options.min_support, MIN_SUPPORT)
        self.limits = ListOptions(
            max_rules=int(options.max_rules or 0),
            max_conditions=options.max_conditions,
            min_support=float(max(least, options.min_group)),
            min_share=share or 0.0,
            price=PRICE,
            max_literals=options.max_literals,
        )
        self.stopped = False  # whether time ran out while something was left to look for
        person = np.unique(problem.world.rows.person[decisions.order], return_inverse=True)[1]
        person_action = person * decisions.n_actions + decisions.actions
        once = np.zeros(len(person_action), dtype=np.bool_)
        once[np.unique(person_action, return_index=True)[1]] = True  # whoever comes back stands behind a rule once
        free = once & ~problem.fixed
        self.support = (one_hot(decisions.actions, decisions.n_actions) * free[:, None])[:, self.offered]

    def choose(self, rows: BoolArray, *, proven: bool = False) -> Choice:
        """The best lists found on some rows, with bounds that tell more if they are to be `proven`."""
        follow, limit = None, self.problem.options.time_limit
        clock = Clock(None if limit is None else limit / CHOICES)
        self.limits = replace(self.limits, clock=clock)
        rounds = 1 if self.problem.scored.decisions.one_step else ROUNDS
        for number in range(rounds):
            gains = self.problem.scores.gains(rows, follow)
            lists = self._within_limits(rows, gains, proven=proven and number == rounds - 1)
            follow = self.problem.table(lists[-1].rules) if lists else None
            if clock.over():
                break
        self.stopped |= clock.stopped
        return Choice(lists, gains)

    def _within_limits(self, rows: BoolArray, gains: FloatArray, *, proven: bool) -> list[ProvenList]:
        limits, value = self._limits(gains), self._aimed(gains)
        if not limits:
            return self._searched(rows, value, proven=proven)
        ceiling = float(np.maximum(value[rows][:, self.offered].max(axis=1), 0.0).sum())
        unit = [float(np.abs(value[rows]).mean() / max(np.abs(one.cost[rows]).mean(), 1e-300)) / 8 for one in limits]
        nothing = ProvenList((), -np.inf if any(limit.most < 0 for limit in limits) else 0.0, ceiling)
        best = [nothing] * self.limits.max_rules
        tightened = TIGHTENED if self.price is None else TIGHTENED_AGAIN
        price = np.zeros(len(limits)) if self.price is None else self.price
        low, high = np.zeros(len(limits)), np.full(len(limits), np.inf)
        for _ in range(tightened):
            lowered = value - sum((p * limit.cost for p, limit in zip(price, limits, strict=True)), start=0.0)
            tried = [one.rules for one in self._searched(rows, lowered)]
            for k, rules in enumerate(tried):
                new = ProvenList(rules, self.problem.total(rules, rows, value), ceiling)
                if not any(self._over(rules, rows, limit) for limit in limits):
                    best[k:] = [max(old, new, key=lambda one: one.worth) for old in best[k:]]
            over = np.array([self._over(tried[-1] if tried else (), rows, limit) for limit in limits])
            low, high = np.where(over, price, low), np.where(over, high, price)
            if (not over.any() and not price.any()) or self.limits.clock.over():
                break
            price = np.where(np.isfinite(high), (low + high) / 2, np.maximum(4 * price, unit))
        self.price = price
        return best

    def nearest(self, rows: BoolArray, gains: FloatArray) -> str:
        """The best value found of what each guard limits, whatever becomes of the rest, in words."""
        episodes, said = int((self.problem.scored.decisions.first & rows).sum()), []
        for room in self.problem.guards:
            cost = room.guard.sign * gains[:, :, room.place]
            lists = self._searched(rows, np.where(self.problem.scores.untried, np.minimum(-cost, 0.0), -cost))
            best = self.problem.total(lists[-1].rules if lists else (), rows, gains[:, :, room.place]) / episodes
            said.append(room.nearest([room.now + best]))
        return " and ".join(said)

    def _searched(self, rows: BoolArray, value: FloatArray, *, proven: bool = False) -> list[ProvenList]:
        """The best lists found over coarse cells, then with bounds at fine cells."""
        problem, cells = self.problem, self.problem.cells
        gains = np.where(problem.fixed[:, None], 0.0, value)[rows][:, self.offered]
        table = merged(
            problem.codes(coarse=True)[:, rows], cells.coarse_sizes, gains, self.support[rows], self.limits, cells.named
        )
        keep = np.column_stack([gains, np.zeros(len(gains))])
        grown = grown_lists(table)
        lists = proven_lists(table, grown) if proven else [ProvenList(one, table.worth(one), np.inf) for one in grown]
        return [replace(one, rules=self._refined(one.rules, rows, keep)) for one in lists]

    def _refined(self, rules: RuleList, rows: BoolArray, gains: FloatArray) -> RuleList:
        """The list over fine cells, with actions numbered as in the log."""
        cells, codes = self.problem.cells, self.problem.codes()[:, rows]
        fine = tuple((move, cells.as_fine(box)) for move, box in rules)
        better = refined(codes, cells.sizes, gains, fine)
        support, weight = np.column_stack([self.support[rows], np.full(int(rows.sum()), np.inf)]).T, 1 / rows.sum()
        fine = better if supported(codes, support, np.full(codes.shape[1], weight), better, self.limits) else fine
        number = [*self.offered.tolist(), self.problem.world.n_actions]
        return tuple((number[move], box) for move, box in fine)

    def _aimed(self, gains: FloatArray) -> FloatArray:
        """(n, A) what is improved; where next to nobody took an action, nothing good is expected of it."""
        k, sign = aim(self.problem.world)
        value = np.where(self.problem.scores.untried, np.minimum(sign * gains[:, :, k], 0.0), sign * gains[:, :, k])
        return np.where(self.problem.fixed[:, None], 0.0, value)

    def _over(self, rules: RuleList, rows: BoolArray, limit: Limit) -> bool:
        """Whether a list exceeds a limit, over all episodes of the rows."""
        episodes = int((self.problem.scored.decisions.first & rows).sum())
        return self.problem.total(rules, rows, limit.cost) > episodes * (limit.most + 1e-9)

    def _limits(self, gains: FloatArray) -> list[Limit]:
        problem = self.problem
        scores, decisions, budget = problem.scores, problem.scored.decisions, problem.options.budget
        several = [] if decisions.one_step else [FOLLOWED]
        changes = [most for most in (budget, *several) if most is not None]
        counted = scores.current is None and budget is not None  # as changes of a plan are: by what the log did
        taken = one_hot(decisions.actions, problem.world.n_actions) if counted else scores.base
        limits = [Limit(1.0 - taken, min(changes))] if changes else []
        return [*limits, *(Limit(room.guard.sign * gains[:, :, room.place], room.most) for room in problem.guards)]


@dataclass(frozen=True, eq=False, kw_only=True)
class RuleCells(Grid):
    """The cells of feature rows, fine and coarse."""

    begins: tuple[IntArray, ...]  # (coarse cells − 1,) per column: the fine cell with which the next coarse one begins
    named: BoolArray  # (columns,) words of which a rule says "is" and never "is not"
    kinds: Kinds
    notes: tuple[str, ...]  # what is lost

    @cached_property
    def coarse(self) -> AnyArray:
        """(columns, n) coarse cell of every row."""
        pairs = zip(self.begins, self.codes, strict=True)
        return np.array([np.searchsorted(begin, code, side="right") for begin, code in pairs], dtype=np.uint8)

    @property
    def coarse_sizes(self) -> IntArray:
        """(columns,)"""
        return np.array([len(begin) + 1 for begin in self.begins])

    def as_fine(self, box: Box) -> Box:
        """A box of coarse cells as one of fine cells."""
        ends = [np.concatenate([[0], self.begins[column], [self.sizes[column]]]) for column, _, _ in box]
        return tuple(
            (column, int(end[first]), int(end[last + 1]) - 1)
            for (column, first, last), end in zip(box, ends, strict=True)
        )


def rule_cells(
    states: AnyArray, names: tuple[str, ...], spared: Mapping[int, frozenset[str]] = MappingProxyType({})
) -> RuleCells:
    """Cells for feature rows (n, d); rules name no word of a column that is `spared`, not even by saying "is not"."""
    _check_kinds(states, names)
    table = as_table(np.asarray(states), names)
    grid = make_grid(table, np.ones(table.rows), FINE + 1)
    places, axes = grid.encode(table).T, tuple(map(_readable, grid.axes, table.columns))
    columns: list[Column] = []
    named: list[bool] = []
    notes: list[str] = []
    for j, axis in enumerate(axes):
        if axis.cuts is not None:
            new: list[Column] = [(j, None)] if axis.cells > 1 else []
        else:
            counts = np.bincount(places[:, j], minlength=axis.cells)
            rare = np.isin(list(map(str, axis.categories)), list(spared.get(j, ())))
            common = np.argsort(-counts[: len(axis.categories)], kind="stable")[:MOST_WORDS]
            common = common[~rare[common]]
            gap = [axis.values] if axis.missing else []
            new = [(j, int(k)) for k in [*np.sort(common), *gap]] if axis.cells > 1 else []
            if len(axis.categories) > MOST_WORDS:
                notes.append(_many_words(axis.name, table.columns[j], float(counts[common].sum()), len(common)))
        columns += new
        named += [axis.cuts is None and (len(axis.categories) > MOST_WORDS or bool(rare.any()))] * len(new)
    if not columns:
        raise InvalidLogError(
            f"rules need a feature that differs between rows; these do not: {', '.join(names[:8])}. Hint: name others "
            "with state="
        )
    cells = Grid(axes, places, tuple(columns))
    parts = zip(cells.codes, cells.sizes.tolist(), columns, strict=True)
    kinds = Kinds(
        {j: tuple(map(str, axis.categories)) for j, axis in enumerate(axes) if axis.cuts is None},
        frozenset(j for j, axis in enumerate(axes) if axis.missing),
    )
    return RuleCells(
        axes,
        places,
        cells.columns,
        begins=tuple(_coarse(part, size, axes[j].missing) for part, size, (j, _) in parts),
        named=np.array(named),
        kinds=kinds,
        notes=tuple(notes),
    )


def _coarse(codes: AnyArray, size: int, gaps: bool) -> IntArray:
    """Fine cells with which coarse ones begin: all if they are few, else those at quantiles of the rows."""
    if size <= COARSE + 1 + int(gaps):
        return np.arange(1, size)
    values = codes[codes < size - 1] if gaps else codes
    at = np.quantile(values, np.arange(1, COARSE + 1) / (COARSE + 1), method="inverted_cdf").astype(np.int64)
    return np.unique([*at[at > 0], *([size - 1] if gaps else [])])


def _many_words(name: str, column: AnyArray, rows: float, common: int) -> str:
    return (
        f"{name!r} has {len(set(column.tolist()) - {None})} levels: rules name only the {common} commonest, in "
        f"{percent(rows / len(column))} of the rows; what tells the others apart is lost."
    )


def _check_kinds(states: AnyArray, names: tuple[str, ...]) -> None:
    if states.dtype != object:
        return
    for name, column in zip(names, states.T, strict=True):
        odd = next((v for v in column if isinstance(v, date | time | timedelta)), None)
        if odd is not None:
            raise InvalidLogError(
                f"rules need features that are numbers or words; {name!r} holds {type(odd).__name__}. Hint: write it "
                "as a number, such as hours since the first row"
            )


def _readable(axis: Axis, column: AnyArray) -> Axis:
    """The axis with cuts at the shortest numbers between the same values."""
    if axis.cuts is None or not len(axis.cuts):
        return axis
    values = np.unique(column[~missing_entries(column)].astype(np.float64))
    at = np.searchsorted(values, axis.cuts)
    return replace(axis, cuts=np.array([readable_bound(float(values[k - 1]), float(values[k])) for k in at]))


def with_bounds(rule: Rule, states: AnyArray, kinds: Kinds) -> list[Rule]:
    """The rule with bounds in place of listed numbers, one rule for each: 3 is from 3 to below what comes next."""
    rules = [Rule()]
    for condition in rule.conditions:
        sides = [condition]
        if condition.values and condition.column not in kinds.words:
            column = states[:, condition.column]
            numbers = np.unique(column[~missing_entries(column)].astype(np.float64))
            sides = [_just(condition, float(v), numbers) for v in condition.values if not isinstance(v, str)]
        rules = [Rule((*part.conditions, side)) for part in rules for side in sides]
    return rules


def _just(condition: Condition, value: float, numbers: FloatArray) -> Condition:
    above = numbers[numbers > value]
    high = readable_bound(value, float(above[0])) if above.size else math.nextafter(value, math.inf)
    return replace(condition, values=None, low=value, high=high)
