"""Cells once they are drawn: in which of them any row lies, also a row that had no part in drawing them.

A row belongs to a leaf of a tree and to a region. Pieces of a leaf with few rows join those of their region. With
`history`, cells are cut again where the policies act differently, and told apart by whether enough own decisions of
each policy led to the row (`cell_history`). All of it depends on the rows of an episode alone, so that parts of a log
can be put into cells apart from each other. Rows in a piece that the rows at hand never showed join the small ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from polidiff.evaluation.logged.cell_history import acted_apart, own_counts, own_way, way_levels
from polidiff.evaluation.logged.encoder import Encoder
from polidiff.evaluation.logged.partition import FEWEST_ROWS
from polidiff.policies import top_actions
from polidiff.records.arrays import AnyArray, BoolArray, FloatArray, IntArray
from polidiff.records.rule import Rule, first_match
from polidiff.worlds.log_rows import LoggedRows

OTHER = "other states"
WAYS = (" (reached by other decisions)", " (reached by a policy's own decisions)")


@dataclass(frozen=True, eq=False)
class Pieces:
    """What two numbers, a leaf (from 0 on) and a part of it, are joined to."""

    width: int  # parts of a leaf
    codes: IntArray  # (m,) leaf · width + part, sorted

    @property
    def size(self) -> int:
        """How many pieces there are; the last is for rows that fit nowhere."""
        return len(self.codes) + 1

    def of(self, leaf: IntArray, part: IntArray) -> IntArray:
        """(n,) piece of each row: that of its code, else of its part as leaf 0, else the last."""
        code = leaf * self.width + part
        place, known = self._find(code)
        if not known.all():
            again, joined = self._find(part)
            place = np.where(known, place, np.where(joined, again, self.size - 1))
        return np.asarray(place, dtype=np.int64)

    def _find(self, code: IntArray) -> tuple[IntArray, AnyArray]:
        place = np.searchsorted(self.codes, code)
        return place, self.codes[np.minimum(place, len(self.codes) - 1)] == code


def join_slivers(leaf: IntArray, part: IntArray, width: int, parts: IntArray) -> Pieces:
    """Pieces in which small parts of a leaf are joined with those of the same part as leaf 0, which all `parts` have.

    Leaf 0 is the root, which is a leaf only if it is the only one: then nothing is left to join.
    """
    codes, size = np.unique(leaf * width + part, return_counts=True)
    cut = np.bincount(codes // width)[codes // width] > 1
    kept = codes[~(cut & (size < FEWEST_ROWS))]
    return Pieces(width, np.union1d(kept, parts))


@dataclass(frozen=True, eq=False)
class CellMap:
    """Numbers of cells for rows; not every number need be met."""

    encode: Encoder
    tree: Any  # of a fitted regressor
    regions: tuple[Rule, ...]
    described: dict[int, str]  # leaf -> words
    places: Pieces  # leaf and region
    turns: Pieces | None  # 1 + place, and how the policies act; None without history
    levels: tuple[IntArray, ...] = ()  # per policy: own decisions in a row that are asked for in each of `turns`

    @property
    def size(self) -> int:
        """How many numbers there are."""
        return self.places.size if self.turns is None else self.turns.size * self.ways

    @property
    def ways(self) -> int:
        """In how many ways a cell can be reached."""
        return 1 << len(self.levels)

    def number(self, rows: LoggedRows, x: FloatArray, tables: Sequence[FloatArray]) -> IntArray:
        """(n,) cell of each row of whole episodes.

        `x` (n, d) are its encoded features, `tables` (n, A) the policies' answers, which only history needs.
        """
        if self.turns is None:
            return self._places(rows, x)
        piece, tops = self._turned(rows, x, tables, self.turns)
        way = np.zeros(len(piece), dtype=np.int64)
        for j, (table, top, level) in enumerate(zip(tables, tops, self.levels, strict=True)):
            way += (own_way(rows, table, top)[1] >= level[piece]).astype(np.int64) << j
        return piece * self.ways + way

    def ways_to(self, rows: LoggedRows, x: FloatArray, tables: Sequence[FloatArray], counted: BoolArray) -> IntArray:
        """(policies, pieces, levels) own decisions among the rows (n,) that are counted, by how they were reached."""
        assert self.turns is not None
        piece, tops = self._turned(rows, x, tables, self.turns)
        ways = [own_way(rows, table, top) for table, top in zip(tables, tops, strict=True)]
        return np.array([own_counts(piece, own & counted, run, self.turns.size) for own, run in ways])

    def with_levels(self, ways: IntArray) -> CellMap:
        """The cells told apart by as many own decisions as the counts of `ways_to` allow."""
        return replace(self, levels=tuple(way_levels(counts) for counts in ways))

    def _places(self, rows: LoggedRows, x: FloatArray) -> IntArray:
        region = region_of(self.regions, rows.states)
        return self.places.of(leaf_of(self.tree, x, region), region)

    def _turned(
        self, rows: LoggedRows, x: FloatArray, tables: Sequence[FloatArray], turns: Pieces
    ) -> tuple[IntArray, list[IntArray]]:
        tops = [top_actions(table) for table in tables]
        return turns.of(self._places(rows, x) + 1, acted_apart(tops, tables[0].shape[1])), tops

    def regions_of(self, numbers: IntArray) -> IntArray:
        """The region of cells, from 1 on; 0 is none. Only without history: cells joined there may mix regions."""
        assert self.turns is None
        return np.append(self.places.codes % self.places.width, 0)[numbers]

    def named(self, numbers: IntArray) -> tuple[str, ...]:
        """What those of the cells that are met are called."""
        if self.turns is None:
            return tuple(self._place(number) for number in numbers)
        piece = numbers // self.ways
        parted = np.bincount(piece)[piece] > 1
        return tuple(
            self._turn(number // self.ways) + (WAYS[int(number % self.ways > 0)] if cut else "")
            for number, cut in zip(numbers.tolist(), parted, strict=True)
        )

    def _turn(self, piece: int) -> str:
        assert self.turns is not None
        leaf = int(self.turns.codes[piece]) // self.turns.width if piece < len(self.turns.codes) else 0
        return self._place(leaf - 1) if leaf else OTHER

    def _place(self, place: int) -> str:
        if place >= len(self.places.codes):
            return OTHER
        leaf, region = divmod(int(self.places.codes[place]), self.places.width)
        return self.described.get(leaf, OTHER) + (f" (region {region})" if region else "")


def leaf_of(tree: Any, x: FloatArray, region: IntArray) -> IntArray:
    """(n,) leaf of each row in a tree over its encoded features (n, d) and its region (n,)."""
    single = np.empty((len(x), x.shape[1] + 1), dtype=np.float32)
    with np.errstate(over="ignore"):
        single[:, :-1], single[:, -1] = x, region
    return np.asarray(tree.apply(single), dtype=np.int64)


def region_of(regions: Sequence[Rule], states: AnyArray) -> IntArray:
    """(n,) 1 + the first region that covers each row; 0 for none."""
    if not regions:
        return np.zeros(len(states), dtype=np.int64)
    return np.asarray(first_match(list(regions), states) + 1, dtype=np.int64)


def cut_by_actions(place: IntArray, tables: Sequence[FloatArray]) -> Pieces:
    """Cells (n,) cut where the policies (n, A) act differently."""
    n_actions = tables[0].shape[1]
    apart = acted_apart([top_actions(table) for table in tables], n_actions)
    return join_slivers(place + 1, apart, n_actions ** len(tables), np.unique(apart))
