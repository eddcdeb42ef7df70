r"""All rows of a log that is too long to be held, put into cells that were drawn from the rows that are.

Given the cells, everything that the careful interval needs of the rows is a sum over them,

.. math:: n_b(c, a, c'), \quad \sum g, \quad \sum g^2, \quad \text{starts } n_b(c), \quad
          \sum_i \pi(a \mid s_i) \text{ over the rows of } c,

and so is how often a region is met. One pass makes these sums, part by part of the log (`log_stream`); parts hold whole
episodes and are added in the order of the log. The cell of a row depends on its features, on the policies' actions and
on what came before it in its episode. With history, a pass before it counts by how many of a policy's own decisions
cells were reached: all rows settle how many are asked for, because intervals from all rows are narrow, and what a cell
hides must shrink with them.

Episodes that drew the cells are those with the smallest hashes: any part of the log knows them. They count as starts
and in averages, as in memory, but do not judge. Blocks of episodes are dealt by other bits of the hash, so that
episodes that chose a plan in memory never judge it here.

What looks at whole episodes (weighted estimates, fitted Q) or resamples them uses the rows that are held.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from polidiff.evaluation.logged.behaviour import logged_shares
from polidiff.evaluation.logged.cell_map import CellMap
from polidiff.evaluation.logged.counted_log import CountedLog, as_log_policy
from polidiff.evaluation.logged.counts import Counts, add_rows, as_counts
from polidiff.evaluation.logged.rule_coverage import RuleCoverage, rule_coverage
from polidiff.policies import Policy
from polidiff.records.arrays import AnyArray, FloatArray, IntArray
from polidiff.records.rule import Rule
from polidiff.worlds.log_rows import LoggedRows
from polidiff.worlds.shards.result_cache import ResultCache
from polidiff.worlds.shards.transition_counts import CUT, END, Entries, Sizes, TransitionCounts

if TYPE_CHECKING:
    from polidiff.worlds.log import Log

T = TypeVar("T")
HOW_REACHED, COUNTING = "how cells are reached in all rows", "counting all rows"
SEEN = ("rows", "first", "low", "high", "people", "apart")
DRAWING = 4  # one episode in this many draws the cells, at most
ROWS_THAT_DRAW = 250_000  # if so many are held, a quarter of those that are held suffices


@dataclass(frozen=True, eq=False)
class Asked:
    """What is counted of every part."""

    cells: CellMap
    policies: tuple[Policy, ...]  # whose averages are wanted
    n_actions: int
    outcomes: int
    limit: np.uint64  # episodes with a smaller hash have drawn the cells
    blocks: int
    rules: tuple[Rule, ...]


@dataclass(frozen=True, eq=False)
class Found:
    """The sums over some whole episodes; those that drew the cells are one block more."""

    entries: Entries
    starts: FloatArray  # (blocks + 1, S)
    chosen: FloatArray  # (policies, S, A) sums of probabilities
    coverage: RuleCoverage


class Total:
    """Sums that grow."""

    def __init__(self, asked: Asked) -> None:
        size = asked.cells.size
        self.counted = TransitionCounts(asked.blocks + 1, asked.outcomes)
        self.counted.reserve(size, asked.n_actions)
        self.starts = np.zeros((asked.blocks + 1, size))
        self.chosen = np.zeros((len(asked.policies), size, asked.n_actions))
        self._coverage: RuleCoverage | None = None

    def cover(self, coverage: RuleCoverage) -> None:
        """Add how often rules were met."""
        self._coverage = coverage if self._coverage is None else self._coverage + coverage

    @property
    def found(self) -> Found:
        """The sums so far."""
        assert self._coverage is not None, "a part has rows"
        return Found(self.counted.entries(), self.starts, self.chosen, self._coverage)


def share_that_draws(log: Log) -> float:
    """Share of all episodes that draw the cells: a quarter, as far as they are held and more of them would help."""
    held = log.share_held
    return min(1 / DRAWING, held, max(held / DRAWING, ROWS_THAT_DRAW / log.check.rows))


def answers(policy: Policy, states: AnyArray) -> FloatArray:
    """(n, A) probabilities of a policy."""
    return np.asarray(policy.probabilities(states), dtype=np.float64)


def count_cells(batches: Iterator[LoggedRows], asked: Asked) -> Found:
    """The sums over the rows of whole episodes that come in batches."""
    total = Total(asked)
    for rows in batches:
        assert rows.hashed is not None
        tables, x = [answers(policy, rows.states) for policy in asked.policies], asked.cells.encode(rows.states)
        cell = asked.cells.number(rows, x, tables)
        block = np.where(rows.hashed < asked.limit, asked.blocks, rows.turn % asked.blocks)
        add_rows(total.counted, total.starts, rows, cell, block)
        for sums, table in zip(total.chosen, tables, strict=True):
            sums += _sums(cell, table, asked.cells.size)
        total.cover(rule_coverage(rows, asked.rules, x))
    return total.found


def count_ways(batches: Iterator[LoggedRows], asked: Asked) -> IntArray:
    """(policies, pieces, levels) own decisions of episodes that did not draw the cells, by how they were reached."""
    total = None
    for rows in batches:
        assert rows.hashed is not None
        tables, x = [answers(policy, rows.states) for policy in asked.policies], asked.cells.encode(rows.states)
        found = asked.cells.ways_to(rows, x, tables, rows.hashed >= asked.limit)
        total = found if total is None else total + found
    assert total is not None, "a part has rows"
    return total


def settle_ways(log: Log, asked: Asked) -> Asked:
    """What is asked, with cells told apart by as many own decisions as all rows allow."""
    if asked.cells.turns is None:
        return asked
    kept = _kept(log, asked, pack=lambda ways: {"ways": ways}, unpack=lambda arrays: np.asarray(arrays["ways"]))
    ways = sum(log.count_parts(count_ways, asked, kept, what=HOW_REACHED))
    return replace(asked, cells=asked.cells.with_levels(np.asarray(ways)))


def count_all(log: Log, asked: Asked) -> Found:
    """The sums over all rows of a log."""
    total = Total(asked)
    kept = _kept(log, asked, pack=_packed, unpack=_unpacked)
    for part in log.count_parts(count_cells, asked, kept, what=COUNTING):
        total.counted.add(part.entries.keys, part.entries.sums)
        total.starts += part.starts
        total.chosen += part.chosen
        total.cover(part.coverage)
    return total.found


def count_all_rows(log: Log, asked: Asked, given: Sequence[Any]) -> CountedLog:
    """All rows counted over the cells that are met; `given` are the policies as the caller has them."""
    asked = settle_ways(log, asked)
    rows, cells = log.rows, asked.cells
    held = cells.number(rows, cells.encode(rows.states), [answers(policy, rows.states) for policy in asked.policies])
    found = count_all(log, asked)
    members = np.bincount(found.entries.sizes.parts(found.entries.keys)[1], found.entries.count, cells.size)
    met = np.flatnonzero(members)
    counts = _judging(found, met, asked)
    cell = np.searchsorted(met, held)
    known = [sums[met] / members[met, None] for sums in found.chosen]

    def average(policy: Any) -> FloatArray:
        """Over all rows for the policies of the pass, else over the rows that are held; as logged where none is."""
        for own, table in zip(given, known, strict=True):
            if own is policy:
                return table
        size = np.bincount(cell, minlength=len(met))[:, None]
        sums = _sums(cell, answers(as_log_policy(log, policy), rows.states), len(met))
        return np.where(size > 0, sums / np.maximum(size, 1), logged_shares(counts.edges.visits))

    starts = found.starts[:, met].sum(axis=0)
    begun = np.flatnonzero(starts)
    region = cells.regions_of(met[begun]) if cells.turns is None else None
    return CountedLog(
        counts, cells.named(met), begun, starts[begun].astype(np.int64), average, lambda: cell, region, found.coverage
    )


def _sums(cell: IntArray, table: FloatArray, size: int) -> FloatArray:
    return np.column_stack([np.bincount(cell, column, size) for column in table.T])


def _judging(found: Found, met: IntArray, asked: Asked) -> Counts:
    """The counts over cells that are met, of the episodes that did not draw them; of all, if all did."""
    entries, starts = found.entries, found.starts[:, met]
    block, state, action, to = entries.sizes.parts(entries.keys)
    keep = block < asked.blocks
    if not keep.any():
        keep, starts = ~keep, np.roll(starts, 1, axis=0)
    number = np.full(asked.cells.size + 2, -1, dtype=np.int64)
    number[met] = np.arange(len(met))
    number[-2:] = CUT, END
    sizes = Sizes(asked.blocks).holding(len(met), asked.n_actions)
    keys = sizes.keys(block[keep] % asked.blocks, number[state[keep]], action[keep], number[to[keep]])
    return as_counts(len(met), asked.n_actions, Entries(keys, sizes, entries.sums[keep]), starts[: asked.blocks])


def _kept(
    log: Log, asked: Asked, pack: Callable[[T], Mapping[str, AnyArray]], unpack: Callable[[Mapping[str, AnyArray]], T]
) -> ResultCache[T] | None:
    """Where finished parts are kept: under all that is asked, and what the policies say of the rows that are held."""
    if log.work_folder is None:
        return None
    cells, turns = asked.cells, () if asked.cells.turns is None else (asked.cells.turns.codes,)
    options = log.columns, log.action_labels, asked.limit, asked.blocks, asked.rules, cells.regions, cells.encode.codes
    key = hashlib.sha256(repr(options).encode())
    tree = cells.tree.threshold, cells.tree.feature, cells.tree.children_left
    for array in (
        *(answers(p, log.rows.states) for p in asked.policies),
        *tree,
        cells.places.codes,
        *turns,
        *cells.levels,
    ):
        key.update(np.ascontiguousarray(array).tobytes())
    return ResultCache(log.work_folder, "cells", key.hexdigest(), pack=pack, unpack=unpack)


def _packed(found: Found) -> dict[str, AnyArray]:
    arrays = {"keys": found.entries.keys, "sizes": np.array(found.entries.sizes), "sums": found.entries.sums}
    arrays |= {f"seen_{name}": getattr(found.coverage, name) for name in SEEN}
    return arrays | {"starts": found.starts, "chosen": found.chosen}


def _unpacked(arrays: Mapping[str, AnyArray]) -> Found:
    entries = Entries(arrays["keys"], Sizes(*arrays["sizes"].tolist()), arrays["sums"])
    coverage = RuleCoverage(*(arrays[f"seen_{name}"] for name in SEEN))
    return Found(entries, arrays["starts"], arrays["chosen"], coverage)
