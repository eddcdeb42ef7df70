"""Groups too small to show: no output made from a log may point at people.

`suppressed` turns a result into one in which every region, group of starts, path, pair of actions, named state,
category and plan has at least `min_group` people behind it (episodes, where a log does not know people), and says how
much was left out. What remains refers to nothing that is gone, and tells nothing about it by subtraction
(`disclosure`), so text, page, Markdown, pictures and answers need not know. Results of a table or a simulator are no
one's records and stay as they are.

The result is walked part by part. Whatever has a rule loses the categories that too few have, whatever is a text loses
the names that too few have met; what each kind of part needs beyond that stands with `shown`. Counts come from the
record: `Support.episodes`, shares of all episodes, and `WorldSummary.people` for names. Ranges of features shrink to
what is still shown, because the smallest and the largest value belong to somebody.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import is_dataclass, replace
from functools import singledispatch

from polidiff.errors import InvalidOptionError
from polidiff.records.action import Action
from polidiff.records.codec import Json, Record, encode, json_fields, parts_of
from polidiff.records.disclosure import (
    AnyResult,
    coarse_bounds,
    coarse_shift,
    counts_of_names,
    disclosed,
    distinct_plans,
    few,
    filled,
    share,
    shares,
    with_rounding_note,
)
from polidiff.records.explanation import (
    ActionSupport,
    Explanation,
    Feature,
    Methods,
    Picture,
    Region,
    Sentence,
    Support,
    Verdict,
    WorldSummary,
    WorseOff,
)
from polidiff.records.group_limit import QUOTED, Limit, actions_told
from polidiff.records.outcome import Outcome
from polidiff.records.patch import Patch
from polidiff.records.plan import Frontier, Ledger, LedgerEntry, Plan
from polidiff.records.rule import Condition, Rule, change_key


def suppressed(record: AnyResult, min_group: int | None = None) -> AnyResult:
    """The result without groups smaller than `min_group`, by default the one that it was made with."""
    least = record.methods.min_group if min_group is None else min_group
    if isinstance(least, bool) or not isinstance(least, int) or least < 1:
        raise InvalidOptionError(f"min_group must be a whole number of at least 1; got {least!r}")
    grown = least > record.methods.min_group
    record = replace(record, methods=replace(record.methods, min_group=least))
    if not record.world.recorded:
        return record
    if least > 1:
        record = shown(record, replace(_limit(record, least), grown=grown))
    world = _counting_what_is_named(record)
    before = record.world.people
    if any(count != before[f][name] for f, names in world.people.items() for name, count in names.items()):
        record = with_rounding_note(record, least)
    return replace(record, world=world)


def released(record: Record) -> Record:
    """What may leave the process: a result without small groups; any other record as it is."""
    return suppressed(record) if isinstance(record, (Explanation, Frontier)) else record


def _limit(record: Explanation | Frontier, least: int) -> Limit:
    world = record.world
    plain = [name for people in world.people.values() for name, behind in people.items() if behind >= least]
    told = actions_told(record, least)
    plain += [*told, *(o.name for o in record.outcomes), *(f.name for f in world.features)]
    odd = sorted(filter(QUOTED.search, plain), key=len, reverse=True)
    quoted = re.compile("|".join([*map(re.escape, odd), QUOTED.pattern]))
    limit = Limit(least, world.units, world, frozenset(plain), told, quoted=quoted)
    regions = record.regions if isinstance(record, Explanation) else ()
    known = frozenset(region.id for region in shown(regions, limit))
    return replace(limit, known=known, gone=frozenset(r.rule for r in regions if r.id not in known))


def _counting_what_is_named(record: Explanation | Frontier) -> WorldSummary:
    """The world with counts of people behind the names that the record still mentions."""
    world = replace(record.world, people={})
    named = set(_texts(encode(replace(record, world=world))))
    people = {
        feature: {name: count for name, count in names.items() if name in named}
        for feature, names in record.world.people.items()
    }
    return replace(world, people=counts_of_names(replace(world, people=people), record.methods.min_group))


def _texts(tree: Json) -> Iterator[str]:
    """All texts of a JSON document, and all names that are quoted in them."""
    if isinstance(tree, str):
        yield tree
        yield from (match[1] or match[2] for match in QUOTED.finditer(tree))
    for part in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
        yield from _texts(part)


@singledispatch
def shown(part: Record, limit: Limit) -> Record:
    """What may be said of a part of a result; None where nothing may."""
    if isinstance(part, str):
        return limit.text(part)
    if isinstance(part, tuple):
        return tuple(left for item in part if (left := shown(item, limit)) is not None or item is None)
    if isinstance(part, Mapping):
        return {key: shown(value, limit) for key, value in part.items()}
    if is_dataclass(part) and not isinstance(part, type):
        return replace(part, **{f.name: shown(getattr(part, f.name), limit) for f in json_fields(type(part))})
    return part


@shown.register
def _outcome(part: Outcome, limit: Limit) -> Outcome:
    """A name that the user gave is nobody's."""
    return part


@shown.register
def _action(part: Action, limit: Limit) -> Action:
    """Unnamed, where it is one of a few."""
    return part if part.name in limit.told else Action(limit.action(part.name))


@shown.register
def _methods(methods: Methods, limit: Limit) -> Methods:
    """With the number of a policy's rules in place of the rules: one of them may be about a handful of people."""
    policies = methods.study.get("policies")
    if not isinstance(policies, Mapping) or not isinstance(policies.get("rules"), (list, tuple)):
        return methods
    return replace(methods, study={**methods.study, "policies": {**policies, "rules": len(policies["rules"])}})


@shown.register
def _rule(rule: Rule, limit: Limit) -> Rule | None:
    """Without categories that too few have; nothing where a condition loses all of its own."""
    conditions = shown(rule.conditions, limit)
    return Rule(conditions) if len(conditions) == len(rule.conditions) else None


@shown.register
def _condition(condition: Condition, limit: Limit) -> Condition | None:
    if not condition.values:
        return condition
    values = tuple(value for value in condition.values if limit.names(condition.feature, value))
    return replace(condition, values=values) if values else None


@shown.register
def _region(region: Region, limit: Limit) -> Region | None:
    rule = shown(region.rule, limit)
    people, decisions = region.support.episodes, limit.decisions(region.support)
    shift = coarse_shift(region, decisions, limit.least)
    told = region.current in limit.told and region.proposed in limit.told
    if rule is None or not told or people < limit.least or (region.shift is not None and shift is None):
        return None
    support = _support(region.support, limit)
    often = (s for s in region.swaps if s.share * people >= limit.least)
    swaps = tuple(s for s in often if limit.told.issuperset((s.current, s.proposed)))
    swap_shares = shares([swap.share for swap in swaps], decisions, limit.least)
    taken = [entry.action for entry in support.actions]
    return replace(
        region,
        rule=rule,
        support=support,
        precision=share(region.precision, decisions, limit.least),
        states=limit.states(region.states),
        swaps=tuple(replace(swap, share=part) for swap, part in zip(swaps, swap_shares, strict=True)),
        action_values={o: {a: v for a, v in by.items() if a in taken} for o, by in region.action_values.items()},
        key=region.key if rule == region.rule else change_key(rule, region.current, region.proposed),
        shift=shift,
    )


def _support(support: Support, limit: Limit) -> Support:
    """Without actions that too few got, or too few did not get, and without so many more that nobody finds those.

    >>> rare = (ActionSupport("a", 4, 0.1, 0.0), ActionSupport("b", 40, 0.4, 0.0), ActionSupport("c", 60, 0.5, 1.0))
    >>> world = WorldSummary("log", (), (), {"episodes": 500, "rows": 500})
    >>> limit = Limit(10, 500.0, world, frozenset(), told=frozenset("abc"))
    >>> [entry.action for entry in _support(Support(99, 99, 0.2, None, rare), limit).actions]
    ['c']
    """
    people, decisions, least = support.episodes, limit.decisions(support), limit.least
    hidden: list[ActionSupport] = []
    for entry in sorted((entry for entry in support.actions if entry.people), key=lambda entry: entry.people):
        rare = entry.people < least or few(people - entry.people, least)
        if rare or 0 < sum(e.people for e in hidden) < least or len(hidden) == 1:
            hidden.append(entry)
    often = [entry for entry in support.actions if entry not in hidden and entry.action in limit.told]
    both = [shares([getattr(entry, of) for entry in often], decisions, least) for of in ("current", "proposed")]
    actions = tuple(replace(entry, current=a, proposed=b) for entry, a, b in zip(often, *both, strict=True))
    unsupported = None if support.unsupported is None else share(support.unsupported, decisions, least)
    return replace(support, actions=actions, unsupported=unsupported)


@shown.register
def _sentence(sentence: Sentence, limit: Limit) -> Sentence | None:
    rules = shown(sentence.rules, limit)
    small = sentence.support.episodes < limit.least or few(sentence.share * limit.episodes, limit.least)
    if small or (sentence.start is not None and not rules):
        return None
    starts, least = sentence.support.episodes * limit.episodes / limit.people, limit.least
    decisions = limit.decisions(sentence.support)
    path = () if few(sentence.path_share * starts, least) else tuple(r for r in sentence.path if r in limit.known)
    meetings = tuple(m for m in sentence.meetings if m.region in limit.known and m.share * starts >= least)
    others = tuple(p for p in sentence.others if limit.known.issuperset(p.path) and p.share * starts >= least)
    first, *paths = shares([sentence.path_share, *(p.share for p in others)], starts, least)
    return replace(
        sentence,
        start=rules[0] if rules else None,
        also=rules[1:],
        path=path,
        path_share=first,
        meetings=tuple(replace(m, share=share(m.share, starts, least)) for m in meetings),
        others=tuple(replace(p, share=part) for p, part in zip(others, paths, strict=True)),
        path_fidelity=None if sentence.path_fidelity is None else share(sentence.path_fidelity, starts, least),
        precision=None if sentence.precision is None else share(sentence.precision, decisions, least),
        verdicts=tuple(_verdict(verdict, decisions, limit) for verdict in sentence.verdicts),
        support=_support(sentence.support, limit),
        starts=limit.states(sentence.starts),
        left_out=sentence.left_out + len(sentence.path) - len(path) + len(sentence.meetings) - len(meetings),
    )


def _verdict(verdict: Verdict, decisions: float, limit: Limit) -> Verdict:
    """Of a group with so many decisions."""
    unsupported = None if verdict.unsupported is None else share(verdict.unsupported, decisions, limit.least)
    return replace(shown(verdict, limit), unsupported=unsupported)


@shown.register
def _worse_off(group: WorseOff, limit: Limit) -> WorseOff | None:
    rules = shown(group.rules, limit)
    if not limit.enough(group.behind(limit.people)) or len(rules) < len(group.rules):
        return None
    return replace(group, start=rules[0] if rules else None, also=rules[1:], starts=limit.states(group.starts))


@shown.register
def _picture(picture: Picture, limit: Limit) -> Picture:
    """Only cells with enough visits.

    A cell counts visits, not people: even if every episode spent all its time in one cell, one with this share of all
    visits would hold `min_group` of them.
    """
    enough = limit.least / limit.people * math.fsum(cell.visits for cell in picture.cells)
    cells = tuple(
        cell if cell.region in limit.known else replace(cell, region=None)
        for cell in picture.cells
        if cell.visits >= enough
    )
    return picture.holding(cells)


@shown.register
def _patch(patch: Patch, limit: Limit) -> Patch:
    """Without the edits of regions that are left out, and of states that too few have met or actions too few took."""
    untold = {k for k, name in enumerate(patch.actions) if name not in limit.told}
    places = (e for e in patch.edits if e.rule not in limit.gone and not {e.current, e.proposed} & untold)
    edits = tuple(e for e in places if shown(e.rule, limit) == e.rule)
    if len(edits) == len(patch) and not untold:
        return patch
    return replace(patch, edits=edits, actions=tuple(map(limit.action, patch.actions)))


@shown.register
def _plan(plan: Plan, limit: Limit) -> Plan | None:
    """A plan without one of its rules is another plan; the first one, which changes nothing, has none."""
    changes = [plan.changes, *(entry.changes for entry in plan.rules)]
    of = limit.people if limit.grown else limit.episodes  # who chose it had enough people behind each of its rules
    small = any(share > 0 and not limit.enough(min(share, 1.0) * of) for share in changes)
    patch = shown(plan.patch, limit)
    if small or len(patch) < len(plan.patch) or shown(plan.rules, limit) != plan.rules:
        return None
    texts = {name: shown(getattr(plan, name), limit) for name in ("warnings", "rests_on", "sentences")}
    return replace(plan, patch=patch, **texts)


def _ledger(ledger: Ledger, every: Sequence[Plan], plans: Sequence[Plan], limit: Limit) -> Ledger:
    """Without changes of places that too few have to be named, or of withheld plans alone, wherever they are named."""
    gone = {
        entry.change
        for entry in ledger.entries
        if not _may_be_named(entry, limit)
        or (any(plan.makes(entry) for plan in every) and not any(plan.makes(entry) for plan in plans))
    }
    entries = tuple(
        replace(
            entry,
            needs=tuple(change for change in entry.needs if change not in gone),
            conflicts=tuple(change for change in entry.conflicts if change not in gone),
        )
        for entry in ledger.entries
        if entry.change not in gone
    )
    broken = (k for k, change in enumerate(ledger.order) if change in gone)
    length = next(broken, len(ledger.order))  # or it would follow
    return replace(ledger, entries=entries, order=ledger.order[:length], running=ledger.running[:length])


def _may_be_named(entry: LedgerEntry, limit: Limit) -> bool:
    """Whether enough have what a change names; a place of which only the words are known is not told."""
    if not limit.told.issuperset((entry.current, entry.proposed)):
        return False
    if entry.rule is None:
        return "state" in limit.world.people and limit.names("state", entry.state)
    return shown(entry.rule, limit) == entry.rule


@shown.register
def _explanation(record: Explanation, limit: Limit) -> Explanation:
    names = ("regions", "sentences", "worse_off", "verdicts", "patch", "pictures", "assumptions", "warnings", "methods")
    left = {name: shown(getattr(record, name), limit) for name in names}
    rows = float(record.world.facts.get("rows", limit.people))
    left["verdicts"] = tuple(_verdict(verdict, rows, limit) for verdict in record.verdicts)
    tails = tuple(replace(t, share_worse=share(t.share_worse, limit.episodes, limit.least)) for t in record.tails)
    tails = tails if limit.enough(0.1 * limit.people) else ()  # the worst tenth would be a few
    rest = replace(record, **left, tails=tails, forms={}, lead="difference", graph=(), sample=(), episodes=())
    gone = [len(getattr(record, name)) - len(left[name]) for name in names[:3]]
    words = (
        ("region", "regions"),
        ("group of starts", "groups of starts"),
        ("group that is worse off", "groups that are worse off"),
    )
    if gone[0] or len(rest.patch) < len(record.patch):  # what is told was measured with the edits that are left out
        rest = replace(rest, quality=replace(rest.quality, completeness={}))
    rounded = record.withheld > 0 or (not record.regions and record.changes > 0)  # by the smaller limit of before
    rest = disclosed(record, rest, limit.least, unknown=limit.grown and rounded)
    shown_ids = {region.id for region in left["regions"]}
    met = any(r.support.episodes >= limit.least for r in record.regions if r.id not in shown_ids)  # changed for a few
    why = "stand behind them" + ", or behind what changes there" * met
    return replace(
        rest,
        patch=_with_shifts_told(rest.patch, rest.regions),
        withheld=record.withheld + gone[0],
        warnings=(*rest.warnings, *_left_out(gone, words, limit, why)),
        world=_world(rest, [rest.regions, rest.sentences, rest.worse_off], limit),
    )


def _with_shifts_told(patch: Patch, regions: Iterable[Region]) -> Patch:
    """The patch with chances of actions as coarse as its regions tell them."""
    shifts = {region.rule: region.shift for region in regions if region.shift is not None}
    if not shifts:
        return patch
    edits = (e if e.shift is None else replace(e, shift=shifts.get(e.rule, e.shift)) for e in patch.edits)
    return replace(patch, edits=tuple(edits))


@shown.register
def _frontier(record: Frontier, limit: Limit) -> Frontier:
    plans = shown(record.plans, limit)
    if record.plans and shown(record.plans[0], limit) is None:
        bare = replace(record.plans[0], patch=shown(record.plans[0].patch, limit), rules=())
        plans = (shown(bare, limit), *plans)  # there is always the plan to change nothing
    plans = distinct_plans(replace(record, plans=plans), limit.least)
    left = {name: shown(getattr(record, name), limit) for name in ("assumptions", "warnings", "methods")}
    left["ledger"] = record.ledger and _ledger(record.ledger, record.plans, plans, limit)
    why = "stand behind a rule or a name in them, or tell them from another plan"
    missing = _left_out([len(record.plans) - len(plans)], [("plan", "plans")], limit, why)
    rest = replace(record, **left | {"plans": plans, "warnings": (*left["warnings"], *missing)})
    if missing or limit.grown or record.ledger != left["ledger"]:
        rest = coarse_bounds(rest, limit.least)
    return replace(rest, world=_world(rest, plans, limit))


def _left_out(counts: Iterable[int], words: Iterable[tuple[str, str]], limit: Limit, why: str) -> list[str]:
    """How much is gone."""
    gone = [f"{n} {one if n == 1 else several}" for n, (one, several) in zip(counts, words, strict=True) if n]
    few = f"fewer than {limit.least} {limit.world.counted_in}"
    return [f"Left out because {few} {why}: {', '.join(gone)}."] * bool(gone)


def _world(record: Explanation | Frontier, parts: Iterable[Record], limit: Limit) -> WorldSummary:
    """The world's summary, with the ranges and the categories that are still shown."""
    pictures = record.pictures if isinstance(record, Explanation) else ()
    bounds = list(_bounds(parts, pictures))
    people = {
        feature: {name: count for name, count in names.items() if count >= limit.least}
        for feature, names in record.world.people.items()
    }
    features = tuple(
        _feature(feature, [b for name, b in bounds if name == feature.name], limit) for feature in record.world.features
    )
    actions, takers = shown(record.world.actions, limit), record.world.takers
    takers = {action.name: takers[action.name] for action in actions if action.name in takers}
    takers = dict(zip(takers, filled(list(takers.values()), limit.people, limit.least), strict=True))
    return replace(record.world, actions=actions, features=features, people=people, takers=takers)


def _bounds(parts: Iterable[Record], pictures: Iterable[Picture]) -> Iterator[tuple[str, float]]:
    """Values of features that are still shown: bounds of rules, sides of cells."""
    for _, part in parts_of(list(parts), ""):
        if isinstance(part, Condition) and part.values is None:
            yield from ((part.feature, bound) for bound in (part.low, part.high) if math.isfinite(bound))
    for picture in pictures:
        for cell in picture.cells:
            for side in (-0.5, 0.5):
                yield picture.x, cell.x + side * picture.x_step
                yield picture.y, cell.y + side * picture.y_step


def _feature(feature: Feature, seen: list[float], limit: Limit) -> Feature:
    if feature.kind == "category":
        known = feature.name in limit.world.people
        return replace(feature, values=tuple(v for v in feature.values if known and limit.names(feature.name, v)))
    if feature.behind is not None and feature.behind >= limit.least:
        return feature
    return replace(feature, low=min(seen, default=None), high=max(seen, default=None), behind=None)
