"""What a result read from a file must hold beyond the types of its fields.

A file may be written by hand, cut, or made to do harm. The text, the page and the answers look things up by name: a
verdict's outcome, a path's region, an edit's action. Whatever refers to something that is not there is refused when it
is read, with its place, so that nothing later has to doubt a record.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from polidiff.errors import InvalidResultError
from polidiff.records.action import repeated
from polidiff.records.codec import Record, parts_of
from polidiff.records.explanation import (
    Explanation,
    Meeting,
    PathShare,
    RegionEffect,
    Sentence,
    Tail,
    Verdict,
    WorseOff,
)
from polidiff.records.patch import Edit, Patch
from polidiff.records.plan import Frontier, Ledger, Plan
from polidiff.records.rule import Condition

MOST_INDEX = 2**31 - 1  # of states, actions and columns


def check_record(record: Record, name: str) -> None:
    """An error that names the first thing which refers to something that is not there."""
    if isinstance(record, Explanation):
        _check_explanation(record, name)
    if isinstance(record, Frontier):
        _check_frontier(record, name)
    for where, part in parts_of(record, name):
        if isinstance(part, Patch):
            for place, edit in enumerate(part.edits):
                _check_edit(edit, len(part.actions), f"{where}.edits[{place}]")
        if isinstance(part, Condition) and not 0 <= part.column <= MOST_INDEX:
            raise InvalidResultError(f"{where}: the column of a condition counts from 0; got {part.column}")


def _check_explanation(record: Explanation, where: str) -> None:
    outcomes = _unique([outcome.name for outcome in record.outcomes], f"{where}.outcomes")
    regions = _unique([region.id for region in record.regions], f"{where}.regions")
    for here, part in parts_of(record, where):
        if isinstance(part, (Verdict, WorseOff, Tail)):
            _among([part.outcome], outcomes, here, "an outcome")
        elif isinstance(part, RegionEffect):
            _among((*part.alone, *part.without), outcomes, here, "an outcome")
        elif isinstance(part, (Sentence, PathShare)):
            _among(part.path, regions, here, "a region")
        elif isinstance(part, Meeting):
            _among([part.region], regions, here, "a region")
    if record.lead == "complete" and "complete policy" not in record.forms:
        raise InvalidResultError(f'{where}.forms must hold "complete policy" where it leads; it holds none')
    width = len(record.world.features)
    odd = next((place for place, state in enumerate(record.sample) if len(state.values) != width), None)
    if odd is not None:
        raise InvalidResultError(f"{where}.sample[{odd}].values must hold {width} values, one per feature")


def _check_frontier(record: Frontier, where: str) -> None:
    if not record.plans:
        raise InvalidResultError(f"{where}.plans must hold at least one plan, that of changing nothing; it holds none")
    names = list(record.plans[0].outcomes)
    _among(names, {outcome.name for outcome in record.outcomes}, f"{where}.plans[0].outcomes", "an outcome")
    for here, part in parts_of(record, where):
        if isinstance(part, Plan) and list(part.outcomes) != names:
            raise InvalidResultError(f"{here}.outcomes must be those of the first plan, {names}; got others")
        if isinstance(part, Plan) and len(part.adoption) > len(record.plans[-1].adoption):
            raise InvalidResultError(f"{here}.adoption must have no more points than that of the last plan")
        if isinstance(part, Ledger) and len(part.order) != len(part.running):
            raise InvalidResultError(f"{here}.running must hold one return for each of {here}.order")


def _check_edit(edit: Edit, n_actions: int, where: str) -> None:
    for role, action in (("current", edit.current), ("proposed", edit.proposed)):
        if action is not None and not 0 <= action < n_actions:
            raise InvalidResultError(f"{where}.{role} must be one of the {n_actions} actions named; got {action}")
    if edit.proposed is None and not edit.holds_back:
        raise InvalidResultError(f"{where}.proposed must be an action unless current and shift are null too")
    if edit.shift is not None and not all(0 <= share <= 1 for share in (edit.shift.current, edit.shift.proposed)):
        raise InvalidResultError(f"{where}.shift must hold probabilities between 0 and 1")
    off = next((state for state in edit.states or () if not 0 <= state <= MOST_INDEX), None)
    if off is not None:
        raise InvalidResultError(f"{where}.states must be numbers of states, from 0 up; got {off}")


def _unique(names: Sequence[str], where: str) -> set[str]:
    twice = repeated(names)
    if twice is not None:
        raise InvalidResultError(f"{where} must have names of their own; {twice!r:.80} is used twice")
    return set(names)


def _among(named: Iterable[str], known: set[str], where: str, what: str) -> None:
    missing = next((name for name in named if name not in known), None)
    if missing is not None:
        raise InvalidResultError(f"{where}: {missing!r:.80} is not {what} of this result")
