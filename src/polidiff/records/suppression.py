"""Groups too small to show: no output made from a log may point at people.

`suppressed` turns a result into one in which every region, group of starts, path, pair of actions, named state,
category and plan has at least `min_group` episodes behind it, and says how much was left out. What remains refers to
nothing that is gone, so text, page, Markdown, pictures and answers need not know. Results of a table or a simulator
are no one's records and stay as they are.

Counts come from the record: `Support.episodes`, shares of all episodes, and `WorldSummary.people` for names. Ranges of
features shrink to what is still shown, because the smallest and the largest value belong to somebody.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, overload

from polidiff.errors import InvalidOptionError
from polidiff.records.codec import Json, Record, encode
from polidiff.records.explanation import (
    Explanation,
    Feature,
    PathShare,
    Picture,
    Region,
    Sentence,
    Verdict,
    WorldSummary,
    WorseOff,
)
from polidiff.records.patch import Patch
from polidiff.records.plan import Frontier, Ledger, Plan
from polidiff.records.rule import Condition, Rule, change_key

UNSHOWN = "a place that too few have met to be named"
_QUOTED = re.compile(r"'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\"")


@overload
def suppressed(record: Explanation, min_group: int | None = None) -> Explanation: ...
@overload
def suppressed(record: Frontier, min_group: int | None = None) -> Frontier: ...
@overload
def suppressed(record: Explanation | Frontier, min_group: int | None = None) -> Explanation | Frontier: ...
def suppressed(record: Explanation | Frontier, min_group: int | None = None) -> Explanation | Frontier:
    """The result without groups smaller than `min_group`, by default the one that it was made with."""
    least = record.methods.min_group if min_group is None else min_group
    if isinstance(least, bool) or not isinstance(least, int) or least < 1:
        raise InvalidOptionError(f"min_group must be a whole number of at least 1; got {least!r}")
    record = replace(record, methods=replace(record.methods, min_group=least))
    if not record.world.recorded:
        return record
    if least > 1:
        limit = Limit(least, _all_episodes(record.world), record.world, _plain_names(record, least))
        record = _explanation(record, limit) if isinstance(record, Explanation) else _frontier(record, limit)
    return replace(record, world=_counting_what_is_named(record))


def released(record: Record) -> Record:
    """What may leave the process: a result without small groups; any other record as it is."""
    return suppressed(record) if isinstance(record, (Explanation, Frontier)) else record


@dataclass(frozen=True)
class Limit:
    """How many episodes a group must have, and what is known about names."""

    least: int
    episodes: float  # of the whole log
    world: WorldSummary
    plain: frozenset[str]  # names that may be quoted: of actions, outcomes, features, and of states that many met

    def enough(self, share: float) -> bool:
        """Whether a share of all episodes is large enough to show."""
        return share * self.episodes >= self.least - 1e-9

    def shows(self, feature: str, value: object) -> bool:
        """Whether a category or state may be named; without counts, there is nothing against it."""
        people = self.world.people.get(feature)
        return people is None or people.get(str(value), 0) >= self.least

    def rule(self, rule: Rule) -> Rule | None:
        """The rule without categories that too few have; None where nothing is left of a condition."""
        conditions = [self.condition(condition) for condition in rule.conditions]
        return None if None in conditions else Rule(tuple(c for c in conditions if c is not None))

    def condition(self, condition: Condition) -> Condition | None:
        """The condition without categories that too few have."""
        if not condition.values:
            return condition
        values = tuple(value for value in condition.values if self.shows(condition.feature, value))
        return replace(condition, values=values) if values else None

    def text(self, text: str) -> str:
        """A remark without the names of states and cells that too few have met."""
        return _QUOTED.sub(lambda match: match[0] if (match[1] or match[2]) in self.plain else UNSHOWN, text)


def _all_episodes(world: WorldSummary) -> float:
    """People behind a log, or episodes where every episode is another's."""
    count = world.facts.get("people", world.facts.get("episodes"))
    return float(count) if isinstance(count, (int, float)) and count > 0 else 1.0


def _plain_names(record: Explanation | Frontier, least: int) -> frozenset[str]:
    common = (name for people in record.world.people.values() for name, count in people.items() if count >= least)
    own = [action.name for action in record.world.actions] + [outcome.name for outcome in record.outcomes]
    return frozenset([*common, *own, *(feature.name for feature in record.world.features)])


def _counting_what_is_named(record: Explanation | Frontier) -> WorldSummary:
    """The world with counts of people behind the names that the record still mentions."""
    world = replace(record.world, people={})
    named = set(_texts(encode(replace(record, world=world))))
    people = {
        feature: {name: count for name, count in names.items() if name in named}
        for feature, names in record.world.people.items()
    }
    return replace(world, people=people)


def _texts(tree: Json) -> Iterator[str]:
    """All texts of a JSON document, and all names that are quoted in them."""
    if isinstance(tree, str):
        yield tree
        yield from (match[1] or match[2] for match in _QUOTED.finditer(tree))
    for part in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
        yield from _texts(part)


def _explanation(record: Explanation, limit: Limit) -> Explanation:
    regions = tuple(_regions(record.regions, limit))
    known = {region.id for region in regions}
    sentences = tuple(_sentences(record.sentences, known, limit))
    worse = tuple(_worse_off(record.worse_off, limit))
    pictures = tuple(_picture(picture, known, limit) for picture in record.pictures)
    gone = {region.rule for region in record.regions if region.id not in known}
    shown = replace(
        record,
        regions=regions,
        sentences=sentences,
        verdicts=tuple(_verdict(verdict, limit) for verdict in record.verdicts),
        worse_off=worse,
        patch=_patch(record.patch, gone, limit),
        forms={},
        lead="difference",
        pictures=pictures,
        graph=(),
        sample=(),
        withheld=record.withheld + len(record.regions) - len(regions),
    )
    counts = (
        (len(record.regions) - len(regions), "region", "regions"),
        (len(record.sentences) - len(sentences), "group of starts", "groups of starts"),
        (len(record.worse_off) - len(worse), "group that is worse off", "groups that are worse off"),
    )
    parts: list[Region | Sentence | WorseOff] = [*regions, *sentences, *worse]
    rules = (rule for part in parts for rule in _rules_of(part))
    return replace(shown, **_rest(shown, limit, counts, rules))


def _frontier(record: Frontier, limit: Limit) -> Frontier:
    plans = tuple(_plan(plan, limit) for plan in record.plans if plan is record.plans[0] or _shows_plan(plan, limit))
    shown = replace(record, plans=plans, ledger=_ledger(record.ledger, limit))
    rules = (rule for plan in plans for rule in _plan_rules(plan))
    return replace(shown, **_rest(shown, limit, ((len(record.plans) - len(plans), "plan", "plans"),), rules))


def _rest(
    record: Explanation | Frontier, limit: Limit, counts: Iterable[tuple[int, str, str]], rules: Iterable[Rule]
) -> dict[str, Any]:
    """What is left of the world's summary and of the remarks, which say how much is gone."""
    pictures = record.pictures if isinstance(record, Explanation) else ()
    shown = list(rules)
    features = tuple(_feature(feature, shown, pictures, limit) for feature in record.world.features)
    people = {
        feature: {name: count for name, count in names.items() if count >= limit.least}
        for feature, names in record.world.people.items()
    }
    gone = [f"{count} {one if count == 1 else several}" for count, one, several in counts if count]
    line = f"Left out because fewer than {limit.least} episodes stand behind them: {', '.join(gone)}."
    return {
        "world": replace(record.world, features=features, people=people),
        "assumptions": tuple(replace(a, detail=limit.text(a.detail)) for a in record.assumptions),
        "warnings": (*(limit.text(warning) for warning in record.warnings), *([line] if gone else [])),
    }


def _regions(regions: Iterable[Region], limit: Limit) -> Iterator[Region]:
    for region in regions:
        rule = limit.rule(region.rule)
        if rule is not None and region.support.episodes >= limit.least:
            swaps = tuple(s for s in region.swaps if s.share * region.support.episodes >= limit.least)
            key = region.key if rule == region.rule else change_key(rule, region.current, region.proposed)
            yield replace(region, rule=rule, states=_names(region.states, limit), swaps=swaps, key=key)


def _sentences(sentences: Iterable[Sentence], known: set[str], limit: Limit) -> Iterator[Sentence]:
    for sentence in sentences:
        rules = _start_rules((sentence.start, *sentence.also), limit)
        if sentence.support.episodes < limit.least or (sentence.start is not None and not rules):
            continue
        path = tuple(region for region in sentence.path if region in known)
        meetings = tuple(m for m in sentence.meetings if m.region in known and limit.enough(m.share * sentence.share))
        missing = len(sentence.path) - len(path) + len(sentence.meetings) - len(meetings)
        yield replace(
            sentence,
            start=rules[0] if rules else None,
            also=tuple(rules[1:]),
            path=path,
            meetings=meetings,
            others=tuple(_others(sentence, known, limit)),
            verdicts=tuple(_verdict(verdict, limit) for verdict in sentence.verdicts),
            starts=_names(sentence.starts, limit),
            left_out=sentence.left_out + missing,
        )


def _start_rules(rules: Iterable[Rule | None], limit: Limit) -> list[Rule]:
    shown = [limit.rule(rule) for rule in rules if rule is not None]
    return [rule for rule in shown if rule is not None]


def _names(names: tuple[str, ...], limit: Limit) -> tuple[str, ...]:
    """States by name, where it is known how many met each."""
    return tuple(name for name in names if "state" in limit.world.people and limit.shows("state", name))


def _others(sentence: Sentence, known: set[str], limit: Limit) -> Iterator[PathShare]:
    for other in sentence.others:
        if set(other.path) <= known and limit.enough(other.share * sentence.share):
            yield other


def _worse_off(groups: Iterable[WorseOff], limit: Limit) -> Iterator[WorseOff]:
    for group in groups:
        start = None if group.start is None else limit.rule(group.start)
        if limit.enough(group.share) and (group.start is None) == (start is None):
            yield replace(group, start=start, starts=_names(group.starts, limit))


def _verdict(verdict: Verdict, limit: Limit) -> Verdict:
    return verdict if verdict.note is None else replace(verdict, note=limit.text(verdict.note))


def _picture(picture: Picture, known: set[str], limit: Limit) -> Picture:
    """Only cells with enough visits.

    A cell counts visits, not people: even if every episode spent all its time in one cell, one with this share of all
    visits would hold `min_group` of them.
    """
    enough = limit.least / limit.episodes * math.fsum(cell.visits for cell in picture.cells)
    cells = tuple(
        cell if cell.region in known else replace(cell, region=None) for cell in picture.cells if cell.visits >= enough
    )
    return replace(picture, cells=cells, trajectories=(), proposed_trajectories=())


def _patch(patch: Patch, gone: set[Rule], limit: Limit) -> Patch:
    """Without the edits of regions that are left out, and of states that too few have met."""
    edits = tuple(edit for edit in patch.edits if edit.rule not in gone and limit.rule(edit.rule) == edit.rule)
    return replace(patch, edits=edits)


def _feature(feature: Feature, rules: Iterable[Rule], pictures: Iterable[Picture], limit: Limit) -> Feature:
    """The feature with the range and the categories that are still shown."""
    if feature.kind == "category":
        known = feature.name in limit.world.people
        return replace(feature, values=tuple(v for v in feature.values if known and limit.shows(feature.name, v)))
    if feature.behind is not None and feature.behind >= limit.least:
        return feature
    shown = [
        bound
        for rule in rules
        for c in rule.conditions
        if c.feature == feature.name and c.values is None
        for bound in (c.low, c.high)
        if math.isfinite(bound)
    ]
    for picture in pictures:
        for name, step, place in ((picture.x, picture.x_step, "x"), (picture.y, picture.y_step, "y")):
            if name == feature.name:
                shown += [getattr(cell, place) + side * step / 2 for cell in picture.cells for side in (-1, 1)]
    return replace(feature, low=min(shown, default=None), high=max(shown, default=None), behind=None)


def _rules_of(part: Region | Sentence | WorseOff) -> tuple[Rule, ...]:
    if isinstance(part, Region):
        return (part.rule,)
    also = part.also if isinstance(part, Sentence) else ()
    return tuple(rule for rule in (part.start, *also) if rule is not None)


def _plan_rules(plan: Plan) -> tuple[Rule, ...]:
    return (*(entry.rule for entry in plan.rules), *(edit.rule for edit in plan.patch.edits))


def _shows_plan(plan: Plan, limit: Limit) -> bool:
    """Whether every rule and edit of a plan may be shown; a plan without one of its rules is another plan."""
    small = any(not limit.enough(entry.changes) and entry.changes > 0 for entry in plan.rules)
    return not small and all(limit.rule(rule) == rule for rule in _plan_rules(plan))


def _plan(plan: Plan, limit: Limit) -> Plan:
    return replace(plan, warnings=tuple(limit.text(warning) for warning in plan.warnings))


def _ledger(ledger: Ledger | None, limit: Limit) -> Ledger | None:
    """Without the changes of states that too few have met, wherever they are named."""
    if ledger is None or "state" not in limit.world.people:
        return ledger
    gone = {entry.change for entry in ledger.entries if not limit.shows("state", entry.state)}
    entries = tuple(
        replace(
            entry,
            needs=tuple(change for change in entry.needs if change not in gone),
            conflicts=tuple(change for change in entry.conflicts if change not in gone),
        )
        for entry in ledger.entries
        if entry.change not in gone
    )
    steps = [(name, value) for name, value in zip(ledger.order, ledger.running, strict=True) if name not in gone]
    return replace(
        ledger, entries=entries, order=tuple(name for name, _ in steps), running=tuple(value for _, value in steps)
    )
