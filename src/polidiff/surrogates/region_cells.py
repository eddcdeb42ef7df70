"""Disjoint cells from the regions of several candidates, and plans over cells as edits of a policy.

Regions of different candidates may overlap. Two states belong to the same cell when every candidate's rules put them in
the same region, when guards freeze both or neither, and when the current policy acts there as the cell says. A cell is
written as the conditions of all its regions together. These hold in more places than the cell: where an earlier region
of a candidate holds, where a region holds of a candidate that has none in this cell, and where nothing may change. A
plan's edits leave those places out, so that the policy it makes is the one that was priced.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from polidiff.divergence import Divergence
from polidiff.errors import InvalidOptionError
from polidiff.policies.protocol import FeaturesOf
from polidiff.records.arrays import AnyArray, IntArray
from polidiff.records.patch import Edit, Patch
from polidiff.records.rule import Rule, covers_any
from polidiff.regions.describe import Described, describe
from polidiff.rules.lists import Kinds, intersection, without_any
from polidiff.surrogates.record import frozen_rules, sparing_rules
from polidiff.worlds.protocol import World

if TYPE_CHECKING:
    from polidiff.options import Freeze

SMALLEST = 5  # sampled states below which a sliver between regions is no cell


@dataclass(frozen=True, eq=False)
class Cell:
    """A set of states, the current action there and the actions that candidates would take."""

    name: str
    signature: tuple[int, ...]  # region of each candidate, −1 outside; then 1 if frozen
    rule: Rule
    current: int
    offered: tuple[int, ...]  # actions besides the current one, sorted

    @property
    def depth(self) -> int:
        """Of how many candidates' regions it is a part."""
        return sum(region >= 0 for region in self.signature[:-1])


@dataclass(frozen=True, eq=False)
class RegionCells:
    """All cells, how to find the cell of a state, and how to change it."""

    cells: tuple[Cell, ...]
    described: tuple[Described, ...]
    frozen: tuple[Rule, ...]
    kinds: Kinds

    def of(self, features: AnyArray, top: IntArray) -> IntArray:
        """Index of the cell of each row, −1 outside, and where the current policy's action `top` is another one."""
        keys = _signatures(features, self.described, self.frozen)
        index = {cell.signature: k for k, cell in enumerate(self.cells)}
        unique, inverse = np.unique(keys, axis=0, return_inverse=True)
        cells = np.array([index.get(tuple(int(v) for v in row), -1) for row in unique], dtype=np.int64)
        cell = cells[inverse.ravel()]
        expected = np.array([*(one.current for one in self.cells), -1])
        return np.where(top == expected[cell], cell, -1)

    def patch(
        self,
        chosen: Mapping[int, int],
        actions: Sequence[str],
        names: Sequence[str],
        features: FeaturesOf | None = None,
    ) -> Patch:
        """Edits that take these actions in these cells, and change nothing anywhere else.

        An exception to one cell's edit may hold in other cells, all of which lie in earlier regions: where there are
        exceptions, cells come in the order of their regions.
        """
        by_cell = {k: self._edits(self.cells[k], action) for k, action in chosen.items()}
        held = any(edit.holds_back for edits in by_cell.values() for edit in edits)
        order = sorted(chosen, key=self._order if held else lambda k: -self.cells[k].depth)
        edits = tuple(edit for k in order for edit in by_cell[k])
        return Patch(edits, tuple(actions), tuple(names), features)

    def _order(self, k: int) -> list[int]:
        """Region of each candidate; none comes after all others."""
        return [
            len(described.regions) if region < 0 else region
            for described, region in zip(self.described, self.cells[k].signature[:-1], strict=True)
        ]

    def _edits(self, cell: Cell, action: int) -> list[Edit]:
        """One edit if what the cell leaves out can be written into its rule; else exceptions in front of it."""
        others = [
            region.rule
            for described, own in zip(self.described, cell.signature[:-1], strict=True)
            for region in described.regions[: own if own >= 0 else None]
        ]
        left_out = [both for rule in (*self.frozen, *others) if (both := intersection(cell.rule, rule)) is not None]
        pieces = without_any(cell.rule, left_out, self.kinds) if len(left_out) <= 3 else []
        if len(pieces) == 1:
            return [Edit(pieces[0], cell.current, action)]
        held = [Edit(rule, cell.current, cell.current) for rule in dict.fromkeys(left_out)]
        return [*held, Edit(cell.rule, cell.current, action)]


def parted_cells(
    parted: Sequence[Divergence],
    world: World,
    states: AnyArray,
    freeze: Freeze,
    seed: int,
    spared: Mapping[int, frozenset[str]] = MappingProxyType({}),
) -> RegionCells:
    """Cells of sampled states (n, d) where the policies of some divergences part; an error if they nowhere do.

    Words of a column that are `spared` stand in no rule, so that nothing changes where a rule would have named them.
    """
    names = tuple(world.feature_names)
    described = [
        _sparing(describe(one, world.actions, names, has_features=world.has_features, seed=seed), spared)
        for one in parted
    ]
    frozen = sparing_rules(frozen_rules(freeze, names), spared)
    cells = make_cells(described, states, tuple(action.name for action in world.actions), frozen)
    words = {j: tuple(w for w in some if w not in spared.get(j, ())) for j, some in cells.kinds.words.items()}
    cells = replace(cells, kinds=replace(cells.kinds, words=words))
    if not cells.cells:
        raise InvalidOptionError(
            "the candidates act like the current policy in every state that was seen. Hint: give others"
        )
    return cells


def _sparing(described: Described, spared: Mapping[int, frozenset[str]]) -> Described:
    """Regions without spared words, nor those that have no other."""
    regions = []
    for region in described.regions:
        conditions = []
        for condition in region.rule.conditions:
            names = spared.get(condition.column, frozenset())
            values = None if condition.values is None else tuple(v for v in condition.values if v not in names)
            conditions.append(replace(condition, values=values))
        if all(c.values is None or c.values or c.missing for c in conditions):
            regions.append(replace(region, rule=Rule(tuple(conditions))))
    return replace(described, regions=tuple(regions))


def make_cells(
    described: Sequence[Described], features: AnyArray, names: tuple[str, ...], frozen: Sequence[Rule] = ()
) -> RegionCells:
    """Cells of the sampled states `features`, named S0, S1 … in the order of their lower bounds."""
    keys = _signatures(features, tuple(described), tuple(frozen))
    inside = (keys[:, :-1] >= 0).any(axis=1)
    unique, counts = np.unique(keys[inside], axis=0, return_counts=True)
    boxes = []
    for row in unique[counts >= min(SMALLEST, counts.max(initial=0))]:
        signature = tuple(int(v) for v in row)
        regions = [d.regions[k] for d, k in zip(described, signature[:-1], strict=True) if k >= 0]
        others = Rule(tuple(condition for region in regions[1:] for condition in region.rule.conditions))
        rule = intersection(regions[0].rule, others)
        assert rule is not None, "a state lies in all of them"
        current = names.index(regions[0].swap.current)
        offered = () if signature[-1] else tuple(sorted({names.index(r.swap.proposed) for r in regions} - {current}))
        boxes.append(Cell("", signature, rule, current, offered))
    boxes.sort(key=lambda cell: _lows(cell.rule, features.shape[1]))
    cells = tuple(replace(cell, name=f"S{k}") for k, cell in enumerate(boxes))
    return RegionCells(cells, tuple(described), tuple(frozen), Kinds.of(features.T))


def _signatures(features: AnyArray, described: tuple[Described, ...], frozen: tuple[Rule, ...]) -> IntArray:
    columns = [one.region_of(features) for one in described]
    held = covers_any(frozen, features) if frozen else np.zeros(len(features), dtype=np.bool_)
    return np.stack([*columns, held.astype(np.int64)], axis=1)


def _lows(rule: Rule, columns: int) -> tuple[float, ...]:
    lows = [-math.inf] * columns
    for condition in rule.conditions:
        lows[condition.column] = condition.low
    return tuple(lows)
