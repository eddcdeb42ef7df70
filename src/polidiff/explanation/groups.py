"""Starts that share a path and verdicts, told as rules over starts (h_exp of the paper).

Groups are formed on other roll-outs than those that judge them. Where rules cannot tell the groups apart, because
luck and not the start decides the path, one group is the honest answer. One episode says little about its start, so
similar starts lend each other directions: the episodes of one start where starts come back, else the leaves of a
small tree over start features, grown on half of the episodes and judged on the others. These directions form groups
and decide nothing.

Who is worse off is told by groups of starts and by the tail, not only by the mean.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from polidiff.evaluation.verdicts import StartOutcomes, direction_of
from polidiff.explanation.words import MOST_LISTED
from polidiff.journeys import Journeys, Path, modal_path
from polidiff.options import ExplainOptions
from polidiff.records.arrays import AnyArray, BoolArray, FloatArray, IntArray
from polidiff.records.explanation import Tail, WorseOff
from polidiff.records.outcome import Outcome
from polidiff.records.rule import Condition, GroupRules, Rule
from polidiff.rules.learners import as_learner, leaf_rules, learn_rules, named, nested
from polidiff.worlds.protocol import World

Key = TypeVar("Key", bound=Hashable)
FEWEST = 20  # episodes of a class
MOST_CLASSES = 6  # leaves of the tree
LEVEL = 0.95  # over all classes and outcomes at once
TAIL = 0.1  # of the starts, the worst
MOST_LEAVES = 32  # of a tree that tells starts known to lose from others
SIGN = {"more": 1, "less": -1, "same": 0}


def same_rows(features: AnyArray) -> IntArray:
    """(n,) the number of each row among the distinct rows.

    >>> same_rows(np.array([[2.0], [1.0], [2.0]])), same_rows(np.array([["b"], ["a"]], dtype=object))
    (array([1, 0, 1]), array([0, 1]))
    """
    if features.dtype.kind in "fiub":
        return np.asarray(np.unique(features, axis=0, return_inverse=True)[1]).reshape(len(features))
    numbers: dict[tuple[object, ...], int] = {}
    return np.array([numbers.setdefault(tuple(row), len(numbers)) for row in features.tolist()], dtype=np.int64)


def distinct_rows(features: AnyArray) -> int:
    """How many rows there are, equal ones counted once."""
    return int(same_rows(features).max(initial=-1)) + 1


def start_signs(forming: StartOutcomes, outcomes: tuple[Outcome, ...]) -> IntArray:
    """(n, M) directions of the differences from each start, −1, 0 or 1; the common one where a class leaves it open."""
    if forming.exact:
        margin = np.array([max(outcome.margin, 1e-9) for outcome in outcomes])
        return (np.sign(forming.difference) * (np.abs(forming.difference) > margin)).astype(np.int64)
    label, judging = _classes(forming)
    count = int(label.max(initial=0)) + 1
    strict = 1 - (1 - LEVEL) / (count * max(1, len(outcomes)))
    signs = np.zeros((len(label), len(outcomes)), dtype=np.int64)
    for m, outcome in enumerate(outcomes):
        known = {
            k: direction_of(forming.interval(forming.difference[:, m], judging & (label == k), strict), outcome.margin)
            for k in range(count)
        }
        decided = {k: SIGN[word] for k, word in known.items() if word in SIGN}
        mass = {sign: sum((label == k).sum() for k, s in decided.items() if s == sign) for sign in decided.values()}
        common = max(mass, key=lambda sign: mass[sign], default=0)
        signs[:, m] = np.array([decided.get(k, common) for k in range(count)])[label]
    return signs


def _classes(forming: StartOutcomes) -> tuple[IntArray, BoolArray]:
    """(n,) class of each start, and the episodes that judge the classes."""
    start, everyone = same_rows(forming.features), np.ones(len(forming.weight), dtype=np.bool_)
    if np.bincount(start).min(initial=0) >= FEWEST:
        return start, everyone
    if forming.features.dtype.kind not in "fiub" or len(start) < 4 * FEWEST:
        return np.zeros(len(start), dtype=np.int64), everyone
    grows = np.arange(len(start)) % 2 == 0
    return _leaves(np.nan_to_num(forming.features.astype(np.float64)), forming.difference, grows), ~grows


def _leaves(features: FloatArray, difference: FloatArray, grows: BoolArray) -> IntArray:
    from sklearn.tree import DecisionTreeRegressor

    spread = difference.std(axis=0)
    scaled = difference / np.where(spread > 0, spread, 1.0)
    tree = DecisionTreeRegressor(max_leaf_nodes=MOST_CLASSES, min_samples_leaf=FEWEST, random_state=0)
    tree.fit(features[grows], scaled[grows])
    return same_rows(tree.apply(features)[:, None])


SMALLEST_SHARE, FEWEST_PLAYED = 0.02, 5  # of the starts, and episodes of a group where they are played
MOST_GROUPS = 6
MOST_RULES = 2  # that tell a group
MOST_NAMED = 50  # groups of starts without features
TOLD_APART = 0.9
TYPICAL = 0.5  # share from which a path is told as the path: never that of a minority

ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class StartGroup:
    """Some starts, by rules and by number."""

    told: GroupRules
    members: IntArray  # indices into the journeys

    @property
    def rules(self) -> tuple[Rule, ...]:
        """Where the group starts, unless it does in an earlier group; none: everywhere."""
        return self.told.rules


def form_groups(
    journeys: Journeys, forming: StartOutcomes, world: World, options: ExplainOptions, people: float
) -> tuple[StartGroup, ...]:
    """Group starts by (path, directions of outcomes); `people` are behind all of them.

    Where directions are estimated, groups by direction alone and by path alone are tried too if rules cannot tell the
    pairs apart. In the paper's printing, every named start that meets a difference is a group of its own.
    """
    start = same_rows(journeys.features)
    paths, signs = _path_of_starts(journeys, start), start_signs(forming, world.outcomes)
    ways: list[list[tuple[Any, ...]]] = [[(path, tuple(row)) for path, row in zip(paths, signs.tolist(), strict=True)]]
    if not forming.exact:
        ways += [[tuple(row) for row in signs.tolist()], list(paths)]
    if options.style == "paper" and not world.has_features:
        ways = [[(key, journeys.features[k, 0] if paths[k] else None) for k, key in enumerate(ways[0])]]
    for keys in ways:
        members = join_small(by_key(keys), journeys.weight * people, options.min_group)
        if len(members) < 2:
            continue
        known = forming.exact and not world.has_features  # every start is told by its name, however rare it is
        large = [some for some in members if known or _is_large(journeys, some, exact=forming.exact)]
        if world.has_features:
            groups = _described_groups(journeys, large, world.feature_names, options)
        else:
            groups = _named_groups(journeys, large)
        if groups:
            return groups
    return (StartGroup(GroupRules(), np.arange(len(paths))),)


def by_key(keys: Sequence[Key]) -> dict[Key, list[int]]:
    """Positions of equal keys, in order of first meeting."""
    members: dict[Key, list[int]] = {}
    for k, key in enumerate(keys):
        members.setdefault(key, []).append(k)
    return members


def join_small(groups: dict[tuple[Any, ...], list[int]], people: FloatArray, least: int) -> list[list[int]]:
    """Groups by key, those of fewer than `least` people joined to the one whose key is most alike, or to the smallest.

    Alone they would have to be withheld, and what is told of the others with them.

    >>> groups = {("a", 1): [0], ("b", -1): [1], ("c", -1): [2]}
    >>> join_small(groups, np.array([30.0, 40.0, 4.0]), 10), join_small(groups, np.full(3, np.inf), 10)
    ([[0], [1, 2]], [[0], [1], [2]])
    """
    groups = dict(groups)

    def behind(key: tuple[Any, ...]) -> float:
        return float(people[groups[key]].sum())

    while len(groups) > 1 and behind(few := min(groups, key=behind)) < least:
        alone = groups.pop(few)
        near = max(groups, key=lambda key: (sum(a == b for a, b in zip(key, few, strict=False)), -behind(key)))
        groups[near] = sorted(groups[near] + alone)
    return sorted(groups.values())


def _is_large(journeys: Journeys, members: list[int], *, exact: bool) -> bool:
    played = sum(journeys.paths[k].total() for k in members)
    return bool(journeys.weight[members].sum() >= SMALLEST_SHARE and (exact or played >= FEWEST_PLAYED))


def _path_of_starts(journeys: Journeys, start: IntArray) -> list[Path]:
    """The most frequent path from each start; episodes of a simulator that begin alike share theirs."""
    together: dict[int, Counter[Path]] = {}
    for k, number in enumerate(start.tolist()):
        together[number] = together.get(number, Counter()) + journeys.paths[k]
    modal = {number: modal_path(counts) for number, counts in together.items()}
    return [modal[number] for number in start.tolist()]


def _named_groups(journeys: Journeys, large: list[list[int]]) -> tuple[StartGroup, ...]:
    """A group per large class, other starts together; none if there are too many."""
    small = sorted(set(range(len(journeys.weight))) - {k for members in large for k in members})
    grouped = [*large, *([small] if small else [])]
    if not 1 < len(grouped) <= MOST_NAMED:
        return ()
    names = [tuple(dict.fromkeys(journeys.features[members, 0])) for members in grouped]
    rules = [GroupRules((Rule((Condition("state", 0, values=values),)),)) for values in names]
    return tuple(StartGroup(where, np.array(members)) for where, members in zip(rules, grouped, strict=True))


def _described_groups(
    journeys: Journeys, large: list[list[int]], names: tuple[str, ...], options: ExplainOptions
) -> tuple[StartGroup, ...]:
    label = _largest_classes(journeys.weight, large)
    count = int(label.max())
    if count < 2 or (options.max_rules is not None and count > options.max_rules):
        return ()
    groups: list[StartGroup] = []
    right = 0.0
    for k in range(count):
        rules = _rules_for(journeys, label == k + 1, names, options)
        if not rules:
            return ()
        where = GroupRules(rules, outside=tuple(rule for group in groups for rule in group.rules))
        inside = where.covers(journeys.features)
        groups.append(StartGroup(where, np.flatnonzero(inside)))
        right += float(journeys.weight[inside & (label == k + 1)].sum())
    apart = sum(len(group.members) > 0 for group in groups) > 1  # else the first one holds every start
    return tuple(groups) if right >= TOLD_APART and apart else ()


def _largest_classes(weight: FloatArray, large: list[list[int]]) -> IntArray:
    """(n,) number of each start's class, from 1 on: the largest ones, and what is left as one more.

    >>> _largest_classes(np.array([0.5, 0.3, 0.1, 0.1]), [[0], [1], [2], [3]]).tolist()
    [1, 2, 3, 4]
    >>> _largest_classes(np.full(8, 0.125), [[k] for k in range(8)]).tolist()
    [1, 2, 3, 4, 5, 6, 6, 6]
    """
    if len(large) > MOST_GROUPS:
        largest = sorted(range(len(large)), key=lambda k: -float(weight[large[k]].sum()))[: MOST_GROUPS - 1]
        large = [large[k] for k in sorted(largest)]
    label = np.full(len(weight), len(large) + 1, dtype=np.int64)
    for number, members in enumerate(large):
        label[members] = number + 1
    rest = label == len(large) + 1
    if weight[rest].sum() < SMALLEST_SHARE:
        label[rest] = 0
    return label


def _rules_for(
    journeys: Journeys, inside: BoolArray, names: tuple[str, ...], options: ExplainOptions
) -> tuple[Rule, ...]:
    label, learner = inside.astype(np.int64), as_learner(options.classifier).short(options.seed)
    listed, _ = learn_rules(learner, journeys.features, label, journeys.weight, seed=options.seed)
    lists = nested(named(listed, names), journeys.features, label, journeys.weight)
    return tuple(rule for rule, _ in lists[min(MOST_RULES, len(listed))])


def typical_path(shares: dict[Path, float]) -> Path | None:
    """The most frequent path, if at least half of the episodes are on it."""
    path = next(iter(shares), ())
    return path if shares.get(path, 0.0) >= TYPICAL - ROUNDING else None


def tails(judged: StartOutcomes, outcomes: tuple[Outcome, ...]) -> tuple[Tail, ...]:
    """Mean, worst tenth and share worse of the differences, for outcomes with a preference."""
    result = []
    for m, outcome in enumerate(outcomes):
        if outcome.prefer is None:
            continue
        harm = _harm(judged.difference[:, m], outcome)
        worst = worst_mean(harm, judged.weight, TAIL)
        mean = float(judged.weight @ harm)
        share = float(judged.weight[harm > outcome.margin + 1e-9].sum())
        sign = 1.0 if outcome.prefer == "less" else -1.0
        result.append(Tail(outcome.name, sign * mean, sign * worst, share))
    return tuple(result)


def worst_mean(harm: FloatArray, weight: FloatArray, share: float) -> float:
    """Mean of the largest values that make up `share` of the weight.

    >>> worst_mean(np.array([3.0, 1.0, 0.0, 0.0]), np.full(4, 0.25), 0.5)
    2.0
    """
    order = np.argsort(-harm, kind="stable")
    taken = np.minimum(np.cumsum(weight[order]), share)
    part = np.diff(np.concatenate(([0.0], taken)))
    return float(harm[order] @ part / share)


def worse_off(judged: StartOutcomes, forming: StartOutcomes, world: World, level: float) -> tuple[WorseOff, ...]:
    """Groups of starts that lose, found on `forming` and confirmed on `judged`, the largest harm first."""
    losing: list[tuple[float, WorseOff]] = []
    candidates = [(m, outcome) for m, outcome in enumerate(world.outcomes) if outcome.prefer is not None]
    for m, outcome in candidates:
        harm = _harm(forming.difference[:, m], outcome)
        for rule in _losing_rules(forming, harm, world, outcome.margin):
            members = np.ones(len(judged.weight), dtype=bool) if rule is None else rule.covers(judged.features)
            if not members.any():
                continue
            strict = 1 - (1 - level) / max(1, len(candidates) * 3)
            interval = judged.interval(judged.difference[:, m], members, strict)
            loses = interval.low > outcome.margin if outcome.prefer == "less" else interval.high < -outcome.margin
            if loses and abs(interval.estimate) > 1e-9:
                share = float(judged.weight[members].sum())
                names = () if world.has_features else dict.fromkeys(map(str, judged.features[members, 0]))
                listed = tuple(names)[:MOST_LISTED]
                scale = float(np.abs(judged.current[:, m]).mean()) or 1.0
                losing.append((abs(interval.estimate) / scale, WorseOff(outcome.name, rule, share, interval, listed)))
    return tuple(entry for _, entry in sorted(losing, key=lambda pair: -pair[0]))


def _harm(difference: FloatArray, outcome: Outcome) -> FloatArray:
    return difference if outcome.prefer == "less" else -difference


def _losing_rules(forming: StartOutcomes, harm: FloatArray, world: World, margin: float) -> list[Rule | None]:
    """Rules over starts that lose: by name, by leaves that hold all of them, or, of episodes, by a small tree."""
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

    features, weight, losing = forming.features, forming.weight, harm > margin + 1e-9
    if (forming.exact or not world.has_features) and (losing.all() or not losing.any()):
        return [None] * bool(losing.all())
    if not world.has_features:
        return [Rule((Condition("state", 0, values=tuple(dict.fromkeys(features[losing, 0]))),))]
    if features.dtype == object or len(np.unique(features, axis=0)) == 1 or np.ptp(harm) < 1e-9:
        return [None] if weight @ harm > margin + 1e-9 else []
    numbers, names = np.nan_to_num(features.astype(float)), tuple(world.feature_names)
    if forming.exact:  # boxes that hold the starts known to lose, as far as so many leaves tell them from others
        tree = DecisionTreeClassifier(max_leaf_nodes=MOST_LEAVES, random_state=0).fit(numbers, losing)
        lost = tree.tree_.value[:, 0, -1] > 0.5
        return [rule for rule, loses in leaf_rules(tree, numbers, names, lost) if loses]
    tree = DecisionTreeRegressor(max_leaf_nodes=4, min_samples_leaf=max(2, len(harm) // 20), random_state=0)
    tree.fit(numbers, harm, sample_weight=weight)
    lost = tree.tree_.value[:, 0, 0] > margin + 1e-9
    return [rule if rule.conditions else None for rule, loses in leaf_rules(tree, numbers, names, lost) if loses]
