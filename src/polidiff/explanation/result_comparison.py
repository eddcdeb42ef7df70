"""Two results side by side: a model retrained every month, and what that changed in what is said about it.

A difference of the older result and one of the newer are the same if they have the same key, that is, the same swap in
the same place with bounds read to three digits. What is left is paired where the swap is the same and the two places
share at least half of what they cover together, values taken as spread evenly over the range seen: its bounds moved.

Sizes, effects and losses are called larger or smaller only if their intervals lie apart and the estimates differ by a
tenth; a share of decisions that was counted in episodes has an interval of two standard errors.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from polidiff.errors import InvalidOptionError
from polidiff.explanation.advice import advise
from polidiff.explanation.plan_text import plan_answers, plan_verdicts
from polidiff.explanation.region_places import beside, group_words, losers
from polidiff.explanation.words import edit_words, in_order, place_text, rule_text, swap_text
from polidiff.records.explanation import Explanation, Feature, Region, WorseOff
from polidiff.records.numbers import percent
from polidiff.records.outcome import Interval
from polidiff.records.plan import (
    AssumptionChange,
    ChangeStatus,
    DifferenceChange,
    Frontier,
    ResultComparison,
    VerdictChange,
)
from polidiff.records.rule import Condition, Rule, change_key, within
from polidiff.records.suppression import suppressed

ALIKE = 0.5  # share of their joint place that makes two rules with one swap the same difference
NOTABLE = 0.1  # of the larger of two sizes; less is no news
RANKS = {"worse": 0, "unknown": 1, "same": 2, "better": 3}


@dataclass(frozen=True)
class _Item:
    """A difference, or a group that loses, ready to be paired."""

    key: str
    number: str | None
    rule: Rule
    swap: tuple[str, ...]
    words: str
    size: Interval | None


@dataclass(frozen=True)
class _Side:
    """What one result says."""

    items: tuple[_Item, ...]
    losing: tuple[_Item, ...]
    verdicts: Mapping[str, tuple[str, Interval]]  # outcome -> reading, difference
    advice: str


def compare_results(old: Explanation | Frontier, new: Explanation | Frontier) -> ResultComparison:
    """Which differences are new, gone, larger or smaller; which verdicts have turned; who newly loses."""
    for record in (old, new):
        if not isinstance(record, (Explanation, Frontier)):
            raise InvalidOptionError(
                f"two explanations or two frontiers are compared; got a {type(record).__name__.lower()}"
            )
    if isinstance(old, Explanation) != isinstance(new, Explanation):
        raise InvalidOptionError(
            "two explanations or two frontiers are compared; got one of each. Hint: explain the chosen plan first"
        )
    old, new = suppressed(old), suppressed(new)
    before, after = _side(old), _side(new)
    features = {feature.name: feature for feature in (*old.world.features, *new.world.features)}
    losing = _changes(before.losing, after.losing, features, nested=True)
    verdicts = _verdict_changes(before.verdicts, after.verdicts)
    return ResultComparison(
        kind="explanation" if isinstance(new, Explanation) else "frontier",
        measure="share of decisions" if isinstance(new, Explanation) else f"worth in {new.aim}",
        differences=_changes(before.items, after.items, features),
        verdicts=verdicts,
        losers=losing,
        advice_before=before.advice,
        advice_after=after.advice,
        outcomes=tuple({outcome.name: outcome for outcome in (*old.outcomes, *new.outcomes)}.values()),
        assumptions=_assumption_changes(old, new),
        cautions=tuple(_cautions(old, new)),
        setbacks=tuple(_setbacks(verdicts, losing)),
        study=str(new.methods.study.get("title", "")),
    )


def _side(record: Explanation | Frontier) -> _Side:
    if isinstance(record, Explanation):
        return _Side(
            tuple(_region_item(region, record) for region in record.regions),
            tuple(_losing_item(entry, record) for entry in _losing(record)),
            {v.outcome: (v.valence or v.direction, v.difference) for v in record.verdicts},
            advise(record).sentence,
        )
    if not record.plans:
        return _Side((), (), {}, "There is no plan.")
    verdicts = plan_verdicts(record, record.best)
    readings = {v.outcome: (v.valence or v.direction, v.difference) for v in verdicts}
    return _Side(tuple(_plan_items(record)), (), readings, plan_answers(record)[0].text)


def _region_item(region: Region, record: Explanation) -> _Item:
    share, episodes = region.support.share, region.support.episodes
    spread = 0.0 if record.world.enumerated else 2 * share / math.sqrt(max(1, episodes))
    size = Interval(share, max(0.0, share - spread), share + spread, 0.95) if spread else Interval.exactly(share)
    swap = (region.current, region.proposed, "" if region.shift is None else "shift")
    key = region.key or change_key(region.rule, region.current, region.proposed)
    words = f"{swap_text(region)} {place_text(region.rule)}{beside(record.regions, region.id, numbered=False)}"
    return _Item(key, region.id, region.rule, swap, words, size)


def _losing(record: Explanation) -> list[WorseOff]:
    """Who loses, with all starts together wherever their mean does: a group beside them must not hide that they did."""
    listed = losers(record)
    known = {entry.outcome for entry in listed if entry.start is None}
    worse = [v for v in record.verdicts if v.valence == "worse" and v.outcome not in known]
    return [*(WorseOff(v.outcome, None, 1.0, v.difference) for v in worse), *listed]


def _losing_item(entry: WorseOff, record: Explanation) -> _Item:
    rule = entry.start or Rule()
    words = f"{entry.outcome} for {group_words(record, entry, numbered=False)}"
    amount = entry.difference.scaled(-1.0) if entry.difference.estimate < 0 else entry.difference
    return _Item(change_key(rule, entry.outcome, ""), None, rule, (entry.outcome,), words, amount)


def _plan_items(frontier: Frontier) -> Iterable[_Item]:
    """The changes of the best plan, each with what it is worth."""
    plan = frontier.best
    if plan.rules:
        texts = [f"{entry.deed} {place_text(entry.rule)}" for entry in plan.rules]
        for entry, words in zip(plan.rules, in_order([entry.rule for entry in plan.rules], texts), strict=True):
            worth = Interval.exactly(plan.expected_return - entry.without)
            yield _Item(change_key(entry.rule, "", entry.move), None, entry.rule, (entry.move,), words, worth)
        return
    worths = {entry.key: entry.shapley for entry in (frontier.ledger.entries if frontier.ledger is not None else ())}
    for edit in plan.patch.changing:
        swap = plan.patch.swap(edit)
        key = change_key(edit.rule, *swap)
        words = f"{edit_words((edit,), plan.patch)} {place_text(edit.rule)}"
        yield _Item(key, None, edit.rule, swap, words, worths.get(key))


def _changes(
    old: Sequence[_Item], new: Sequence[_Item], features: Mapping[str, Feature], *, nested: bool = False
) -> tuple[DifferenceChange, ...]:
    """What is new, then what is gone, then pairs; within each in the order of the results.

    Where `nested`, what lies within an item of the other result, or around one, is neither new nor gone.
    """
    partner = _pairs(old, new, features)
    added = [k for k in range(len(new)) if k not in partner and not (nested and _met(new[k], old))]
    gone = [j for j in range(len(old)) if j not in partner.values() and not (nested and _met(old[j], new))]
    pairs = [_change(old[partner[k]], item) for k, item in enumerate(new) if k in partner]
    return (*(_change(None, new[k]) for k in added), *(_change(old[j], None) for j in gone), *pairs)


def _met(item: _Item, others: Sequence[_Item]) -> bool:
    """Whether one of the others lies within an item or around it; beside groups, all together say nothing of a part."""
    same = [other.rule for other in others if other.swap == item.swap]
    groups = [rule for rule in same if rule.conditions]
    return any(within(item.rule, rule) or within(rule, item.rule) for rule in groups or same)


def _change(was: _Item | None, now: _Item | None) -> DifferenceChange:
    """One difference of either result, or of both."""
    told, moved = now or was, None
    assert told is not None
    status: ChangeStatus = "gone" if now is None else "new"
    if was is not None and now is not None:
        status = size_status(was.size, now.size)
        moved = rule_text(was.rule) if rule_text(was.rule) != rule_text(now.rule) else None
    (old, before), (new, after) = ((item.number, item.size) if item else (None, None) for item in (was, now))
    return DifferenceChange(status, told.words, told.key, old, new, before, after, moved)


def _pairs(old: Sequence[_Item], new: Sequence[_Item], features: Mapping[str, Feature]) -> dict[int, int]:
    """New item -> old item: by key, then the most alike first."""
    waiting: dict[str, list[int]] = {}
    for j, item in reversed(list(enumerate(old))):
        waiting.setdefault(item.key, []).append(j)
    partner = {k: waiting[item.key].pop() for k, item in enumerate(new) if waiting.get(item.key)}
    likeness = [
        (_likeness(was, item, features), j, k)
        for k, item in enumerate(new)
        if k not in partner
        for j, was in enumerate(old)
        if j not in partner.values() and was.swap == item.swap
    ]
    for share, j, k in sorted(likeness, key=lambda entry: (-entry[0], entry[1], entry[2])):
        if share >= ALIKE and k not in partner and j not in partner.values():
            partner[k] = j
    return partner


def _likeness(was: _Item, now: _Item, features: Mapping[str, Feature]) -> float:
    """How much of a place two changes share: where one lies in the other by their decisions, else by extent."""
    nested = within(was.rule, now.rule) or within(now.rule, was.rule)
    if nested and was.number and now.number and was.size is not None and now.size is not None:
        few, many = sorted((was.size.estimate, now.size.estimate))
        return few / many if many > 0 else 1.0
    return shared_place(was.rule, now.rule, features)


def size_status(before: Interval | None, after: Interval | None) -> ChangeStatus:
    """Larger or smaller where the intervals lie apart and the estimates differ by a tenth; by amount, not by sign.

    >>> size_status(Interval(2.0, 1.5, 2.5, 0.95), Interval(4.0, 3.0, 5.0, 0.95))
    'larger'
    >>> size_status(Interval(2.0, 1.5, 2.5, 0.95), Interval(2.4, 1.9, 2.9, 0.95))
    'same'
    """
    if before is None or after is None or (before.low <= after.high and after.low <= before.high):
        return "same"
    one, other = abs(before.estimate), abs(after.estimate)
    if not abs(other - one) > NOTABLE * max(one, other):
        return "same"
    return "larger" if other > one else "smaller"


def shared_place(one: Rule, other: Rule, features: Mapping[str, Feature]) -> float:
    """What two rules cover together, as a share of what either covers, feature by feature.

    >>> shared_place(Rule((Condition("x", 0, high=0.4),)), Rule((Condition("x", 0, high=0.5),)),
    ...              {"x": Feature("x", "number", 0.0, 1.0)})
    0.8
    """
    share = 1.0
    for name in dict.fromkeys((*one.features, *other.features)):
        sides = [[c for c in rule.conditions if c.feature == name] for rule in (one, other)]
        share *= _shared_side(sides[0], sides[1], features.get(name))
    return share


def _shared_side(one: list[Condition], other: list[Condition], feature: Feature | None) -> float:
    if any(condition.values is not None for condition in (*one, *other)):
        everything = set(map(str, feature.values)) if feature is not None else set()
        first, second = (
            set.intersection(*(set(map(str, c.values or ())) for c in side)) if side else everything
            for side in (one, other)
        )
        return len(first & second) / len(first | second) if first | second else 0.0
    bounds = [b for c in (*one, *other) for b in (c.low, c.high) if math.isfinite(b)]
    seen = [b for b in (feature.low, feature.high) if b is not None and math.isfinite(b)] if feature else []
    least, most = min([*bounds, *seen], default=0.0), max([*bounds, *seen], default=0.0)
    (a, b), (c, d) = (
        (max([least, *(x.low for x in side)]), min([most, *(x.high for x in side)])) for side in (one, other)
    )
    joint = (b - a) + (d - c) - max(0.0, min(b, d) - max(a, c))
    return max(0.0, min(b, d) - max(a, c)) / joint if joint > 0 else float((a, b) == (c, d))


def _verdict_changes(
    old: Mapping[str, tuple[str, Interval]], new: Mapping[str, tuple[str, Interval]]
) -> tuple[VerdictChange, ...]:
    changes = []
    for name in dict.fromkeys((*new, *old)):
        (was, before), (now, after) = (side.get(name, (None, None)) for side in (old, new))
        status: ChangeStatus | Literal["turned"] = "same" if now in ("same", "unknown") else size_status(before, after)
        if was != now:
            status = "new" if was is None else "gone" if now is None else "turned"
        changes.append(VerdictChange(name, status, was, now, before, after))
    return tuple(changes)


def _assumption_changes(old: Explanation | Frontier, new: Explanation | Frontier) -> tuple[AssumptionChange, ...]:
    was, now = ({a.name: a.status for a in record.assumptions} for record in (old, new))
    names = [name for name in dict.fromkeys((*was, *now)) if was.get(name) != now.get(name)]
    return tuple(AssumptionChange(name, was.get(name), now.get(name)) for name in names)


def _setbacks(verdicts: Iterable[VerdictChange], losing: Iterable[DifferenceChange]) -> Iterable[str]:
    """What has changed for the worse: a verdict, a loss that has grown, a group that newly loses."""
    for verdict in verdicts:
        before, after = verdict.reading_before, verdict.reading_after
        if verdict.status == "new" and after == "worse":
            yield f"{verdict.outcome} is new and gets worse"
        elif verdict.status == "turned" and RANKS.get(str(after), 2) < RANKS.get(str(before), 2):
            yield f"{verdict.outcome} has turned from {before} to {after}"
        elif verdict.status == "larger" and after == "worse":
            yield f"{verdict.outcome} gets worse by more"
    for group in losing:
        if group.status == "new":
            yield f"newly worse off: {group.words}"
        elif group.status == "larger":
            yield f"worse off by more: {group.words}"


def _cautions(old: Explanation | Frontier, new: Explanation | Frontier) -> Iterable[str]:
    """Why the two results may not speak about the same thing."""
    if old.world.kind != new.world.kind:
        yield f"The older result is from a {old.world.kind}, the newer one from a {new.world.kind}."
    for what, was, now in (
        ("actions", [a.name for a in old.world.actions], [a.name for a in new.world.actions]),
        ("features", [f.name for f in old.world.features], [f.name for f in new.world.features]),
    ):
        if set(was) != set(now):
            yield f"Their {what} differ: {_only(was, now, 'older')}{_only(now, was, 'newer')}".rstrip("; ") + "."
    if old.methods.level != new.methods.level:
        levels = percent(old.methods.level), percent(new.methods.level)
        yield f"Intervals hold at {levels[0]} in the older result, {levels[1]} in the newer."
    was_current, now_current = (_current_policy(record) for record in (old, new))
    if was_current != now_current:
        yield f"They do not start from the same policy in use: {was_current}, then {now_current}."
    preferred = {outcome.name: outcome.prefer for outcome in old.outcomes}
    for outcome in new.outcomes:
        if outcome.name in preferred and preferred[outcome.name] != outcome.prefer:
            yield f"Which direction of {outcome.name} is better was said otherwise in the older result."
    for record, which in ((old, "older"), (new, "newer")):
        if isinstance(record, Explanation) and record.withheld:
            least = record.methods.min_group
            yield f"The {which} result leaves out groups of fewer than {least}; they may seem new or gone."


def _only(names: Sequence[str], others: Sequence[str], which: str) -> str:
    own = [name for name in names if name not in set(others)]
    listed = ", ".join(own[:5]) + (f" and {len(own) - 5} more" if len(own) > 5 else "")
    return f"{listed} only in the {which}; " if own else ""


def _current_policy(record: Explanation | Frontier) -> str:
    policies = record.methods.study.get("policies")
    return str(policies.get("current", "not named")) if isinstance(policies, Mapping) else "not named"
