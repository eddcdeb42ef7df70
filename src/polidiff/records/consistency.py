"""What a result read from a file must hold beyond the types of its fields.

A file may be written by hand, cut, or made to do harm. The text, the page and the answers look things up by name: a
verdict's outcome, a path's region, an edit's action. Whatever refers to something that is not there is refused when it
is read, with its place, so that nothing later has to doubt a record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from polidiff.errors import InvalidResultError
from polidiff.records.patch import Edit, Patch
from polidiff.records.rule import Rule

if TYPE_CHECKING:
    from polidiff.records.codec import Record
    from polidiff.records.explanation import Explanation
    from polidiff.records.plan import Frontier

MOST_INDEX = 2**31 - 1  # of states, actions and columns


def check_record(record: Record, name: str) -> None:
    """An error that names the first thing which refers to something that is not there."""
    checks: dict[str, Callable[[Record, str], None]] = {
        "explanation": _check_explanation,
        "frontier": _check_frontier,
        "patch": _check_patch,
    }
    if name in checks:
        checks[name](record, name)


def _check_explanation(record: Explanation, where: str) -> None:
    outcomes = _unique((outcome.name for outcome in record.outcomes), f"{where}.outcomes")
    regions = _unique((region.id for region in record.regions), f"{where}.regions")
    _among((v.outcome for v in record.verdicts), outcomes, f"{where}.verdicts", "an outcome")
    _among((group.outcome for group in record.worse_off), outcomes, f"{where}.worse_off", "an outcome")
    for place, region in enumerate(record.regions):
        effect = region.effect
        named = () if effect is None else (*effect.alone, *effect.without)
        _among(named, outcomes, f"{where}.regions[{place}].effect", "an outcome")
    for place, sentence in enumerate(record.sentences):
        here = f"{where}.sentences[{place}]"
        _among((v.outcome for v in sentence.verdicts), outcomes, f"{here}.verdicts", "an outcome")
        others = (region for other in sentence.others for region in other.path)
        _among((*sentence.path, *(m.region for m in sentence.meetings), *others), regions, here, "a region")
    if record.lead == "complete" and "complete policy" not in record.forms:
        raise InvalidResultError(f'{where}.forms must hold "complete policy" where it leads; it holds none')
    width = len(record.world.features)
    odd = next((place for place, state in enumerate(record.sample) if len(state.values) != width), None)
    if odd is not None:
        raise InvalidResultError(f"{where}.sample[{odd}].values must hold {width} values, one per feature")
    _check_rules((region.rule for region in record.regions), f"{where}.regions")
    _check_patch(record.patch, f"{where}.patch")


def _check_frontier(record: Frontier, where: str) -> None:
    if not record.plans:
        raise InvalidResultError(f"{where}.plans must hold at least one plan, that of changing nothing; it holds none")
    names = list(record.plans[0].outcomes)
    for place, plan in enumerate(record.plans):
        here = f"{where}.plans[{place}]"
        if list(plan.outcomes) != names:
            raise InvalidResultError(f"{here}.outcomes must be those of the first plan, {names}; got others")
        if plan.adoption and len(plan.adoption) > len(record.plans[-1].adoption):
            raise InvalidResultError(f"{here}.adoption must have no more points than that of the last plan")
        _check_patch(plan.patch, f"{here}.patch")
    if record.ledger is not None and len(record.ledger.order) != len(record.ledger.running):
        raise InvalidResultError(f"{where}.ledger.running must hold one return for each of {where}.ledger.order")


def _check_patch(patch: Patch, where: str) -> None:
    for place, edit in enumerate(patch.edits):
        _check_edit(edit, len(patch.actions), f"{where}.edits[{place}]")


def _check_edit(edit: Edit, n_actions: int, where: str) -> None:
    for role, action in (("current", edit.current), ("proposed", edit.proposed)):
        if not 0 <= action < n_actions:
            raise InvalidResultError(f"{where}.{role} must be one of the {n_actions} actions named; got {action}")
    if edit.shift is not None and not all(0 <= share <= 1 for share in (edit.shift.current, edit.shift.proposed)):
        raise InvalidResultError(f"{where}.shift must hold probabilities between 0 and 1")
    off = next((state for state in edit.states or () if not 0 <= state <= MOST_INDEX), None)
    if off is not None:
        raise InvalidResultError(f"{where}.states must be numbers of states, from 0 up; got {off}")
    _check_rules([edit.rule], where)


def _check_rules(rules: Iterable[Rule], where: str) -> None:
    for rule in rules:
        for condition in rule.conditions:
            if not 0 <= condition.column <= MOST_INDEX:
                raise InvalidResultError(f"{where}: the column of a condition counts from 0; got {condition.column}")


def _unique(names: Iterable[str], where: str) -> Sequence[str]:
    seen: dict[str, None] = {}
    for name in names:
        if name in seen:
            raise InvalidResultError(f"{where} must have names of their own; {name!r:.80} is used twice")
        seen[name] = None
    return list(seen)


def _among(named: Iterable[str], known: Sequence[str], where: str, what: str) -> None:
    missing = next((name for name in named if name not in known), None)
    if missing is not None:
        raise InvalidResultError(f"{where}: {missing!r:.80} is not {what} of this result")
