"""Numbers of changes: the same change has the same number wherever a page tells it.

Regions of an explanation have their numbers, a change of a plan that does the same in the same place has that number
too, and others go on from there. Changes of named states need none: they are called by the state.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from polidiff.records.explanation import Explanation
from polidiff.records.plan import Frontier, LedgerEntry, Plan
from polidiff.records.rule import Rule, change_key


@dataclass(frozen=True)
class Numbering:
    """Numbers of changes by their key."""

    numbers: Mapping[str, str] = field(default_factory=dict)
    regions: frozenset[str] = frozenset()  # those of them that an explanation tells

    def of(self, plan: Plan) -> tuple[str, ...]:
        """The numbers of a plan's changes, in the order in which they are told; "" where a state is named."""
        return tuple(self.numbers.get(key, "") for key in _keys(plan))

    def of_entry(self, entry: LedgerEntry) -> str:
        """The number of a change of the ledger; "" where a state is named."""
        return self.numbers.get(entry.key, "")

    def short(self, entry: LedgerEntry) -> str:
        """A change of the ledger for an axis: its number and what is done; where is told beside it."""
        number = self.of_entry(entry)
        return f"{number}: {entry.current} → {entry.proposed}" if number else entry.change

    def among(self, entries: Sequence[LedgerEntry]) -> dict[str, str]:
        """Of changes that are told together, what each is called in the others: its number, or what it is."""
        return {entry.change: self.of_entry(entry) or entry.change for entry in entries}

    def new(self, entries: Sequence[LedgerEntry]) -> list[str]:
        """Numbers that no region of the explanation has, if there is one."""
        numbers = filter(None, map(self.of_entry, entries)) if self.regions else ()
        return [number for number in numbers if number not in self.regions]

    def named(self, entry: LedgerEntry) -> str:
        """A change of the ledger with its number in front."""
        number = self.of_entry(entry)
        return f"{number}: {entry.change}" if number else entry.change


def number_changes(explanation: Explanation | None, frontier: Frontier) -> Numbering:
    """Numbers for a page with a frontier, and perhaps an explanation above it."""
    regions = () if explanation is None else explanation.regions
    numbers = {r.key: r.id for r in regions if r.key and not _is_named(r.rule)}
    told = frozenset(numbers.values())
    last = max((int(r.id[1:]) for r in regions if re.fullmatch(r"S[0-9]+", r.id)), default=0)
    for key in _all_keys(frontier):
        if key not in numbers:
            last += 1
            numbers[key] = f"S{last}"
    return Numbering(numbers, told)


def _all_keys(frontier: Frontier) -> Iterator[str]:
    """Keys of changes that speak about features: of the best plan, of the ledger, of all plans."""
    plans = (frontier.best, *frontier.plans) if frontier.plans else ()
    for plan in plans[:1]:
        yield from filter(None, _keys(plan))
    entries = frontier.ledger.entries if frontier.ledger is not None else ()
    yield from (entry.key for entry in entries if entry.key and not entry.change.startswith(f"{entry.state}: "))
    for plan in plans[1:]:
        yield from filter(None, _keys(plan))


def _keys(plan: Plan) -> Iterator[str]:
    if plan.rules:
        yield from (_key(entry.rule, "", entry.move) for entry in plan.rules)
        return
    for edit in plan.patch.changing:
        yield _key(edit.rule, *plan.patch.swap(edit))


def _key(rule: Rule, current: str, proposed: str) -> str:
    return "" if _is_named(rule) else change_key(rule, current, proposed)


def _is_named(rule: Rule) -> bool:
    """Whether its place is called by its name: a state, or everywhere."""
    return rule.features in ((), ("state",))
