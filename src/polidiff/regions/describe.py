r"""From diverging states to regions: one conjunction, one swap (h_aggr of the paper).

Rules are learned on half of the episodes and counted on the other half; a table is enumerated, so there both halves
are the whole. The number of rules is the knee of the curve rules against F1: the fewest from which no further rule
adds more than one point in a hundred.

A swap is told as the pair of actions, or as the direction in which one component moves: with ordered actions (fluid
level, pressor level) there are many pairs and few directions. A direction is told where it lets fewer words do as well;
it names one part of what changes, and parts that it leaves out, told beside it as often as they change, count for half.

How true rules are is counted by visits, and visits of one episode are alike. Each measure is a ratio of sums over
episodes, :math:`p = \sum_e k_e / \sum_e n_e`, and its spread is that of the episodes (Cochran, *Sampling Techniques*,
3rd ed., 1977, section 6.3). Where nothing wrong was seen that spread is 0, which is no evidence. So each bound is taken
with one episode more, of the size of the others, that speaks for it: all wrong for the lower, all right for the upper.
With :math:`m` episodes of one size and nothing wrong, the lower bound is near :math:`1 - 3/m`, the rule of three.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from polidiff.divergence import Divergence
from polidiff.errors import InvalidOptionError
from polidiff.records.action import Action, Direction, Swap
from polidiff.records.arrays import AnyArray, BoolArray, FloatArray, IntArray
from polidiff.records.explanation import TradeoffPoint
from polidiff.records.outcome import Interval
from polidiff.records.rule import Condition, Rule, first_match
from polidiff.regions.rule_choice import Pool, best_lists, known_lists, shortened
from polidiff.rules.learners import Learner, Listed, as_learner, learn_rules, named, nested, steady_weights, tree_rules
from polidiff.rules.lists import MOST_WORDS, intersection, names_many, of_few_words
from polidiff.streams import Stream

WORTH = 0.01  # what one more rule must add to F1
WORTH_OF_LITERAL = 0.002
MOST_RULES = 12
MOST_PAIRS = 12  # swaps beyond which pairs are told only if there are no directions
WAYS = 3  # to lists of rules from one pool
WELL_TOLD = 0.98  # F1 from which finer rules are not tried
MOST_CONDITIONS = 4  # of a rule that people read


@dataclass(frozen=True, eq=False)
class SwapLabels:
    """A label for every visited state, and what each label means."""

    label: IntArray  # (n,) 0 where the policies agree, else 1 + index into `swaps`
    swaps: tuple[Swap, ...]
    named: float = 1.0  # share of the components that move, of a changed visit on average, that its swap names


def as_pairs(divergence: Divergence) -> SwapLabels:
    """Every pair of actions on its own."""
    return SwapLabels(divergence.label, divergence.swaps)


def as_directions(divergence: Divergence, actions: tuple[Action, ...]) -> SwapLabels | None:
    """Pairs joined by the component that moves most and its direction; None if actions have no components."""
    if not actions or not actions[0].levels:
        return None
    index = {action.name: action for action in actions}
    groups: dict[Direction | Swap, list[int]] = {}
    parts = np.ones(len(divergence.swaps))
    for k, swap in enumerate(divergence.swaps):
        pair = index[swap.current], index[swap.proposed]
        moved = moved_parts(*pair)  # none where only a probability shifts
        parts[k] = max(1, len(moved))
        groups.setdefault(main_direction(*pair) if moved else swap, []).append(k)
    label = np.zeros_like(divergence.label)
    mass, judged = (
        np.bincount(divergence.label, weight, len(parts) + 1) for weight in (divergence.weight, divergence.judged)
    )
    swaps: list[Swap] = []
    for key, members in groups.items():
        label[np.isin(divergence.label, [k + 1 for k in members])] = len(swaps) + 1
        common = divergence.swaps[max(members, key=lambda k: float(mass[k + 1]))]
        swaps.append(key if isinstance(key, Swap) else Swap(common.current, common.proposed, direction=key))
    changed = float(judged[1:].sum())
    return SwapLabels(label, tuple(swaps), float((judged[1:] / parts).sum()) / changed if changed > 0 else 1.0)


def moved_parts(current: Action, proposed: Action) -> dict[str, float]:
    """The components that move, and by how many levels."""
    moves = {name: proposed.levels[name] - level for name, level in current.levels.items()}
    return {name: move for name, move in moves.items() if move}


def main_direction(current: Action, proposed: Action) -> Direction:
    """The component that moves by most levels, the first one on a tie.

    >>> main_direction(Action.of({"fluid": 0, "pressor": 2}), Action.of({"fluid": 1, "pressor": 0}))
    Direction(component='pressor', sign=-1, also=())
    """
    moves = moved_parts(current, proposed)
    component = max(moves, key=lambda name: abs(moves[name]))
    return Direction(component, 1 if moves[component] > 0 else -1)


@dataclass(frozen=True)
class ToldRegion:
    """One rule and the swap it tells."""

    rule: Rule
    swap: Swap
    label: int  # index into the swaps of the labels, plus 1
    merged: bool = False


@dataclass(frozen=True, eq=False)
class Described:
    """Regions in the order they are matched, and how well fewer or more would do."""

    regions: tuple[ToldRegion, ...]
    labels: SwapLabels  # of the visits that the regions tell
    held_out: BoolArray  # (n,) visits that did not make the rules
    tradeoff: tuple[TradeoffPoint, ...]
    messages: tuple[str, ...] = ()  # classes without rules, and why
    notes: tuple[str, ...] = ()  # what was traded for fewer words

    @property
    def rules(self) -> tuple[Rule, ...]:
        """Where the regions are, in the order they are matched."""
        return tuple(region.rule for region in self.regions)

    def region_of(self, features: AnyArray) -> IntArray:
        """Index of the region of each row, −1 outside."""
        return np.asarray(first_match(list(self.rules), features))


def describe(
    divergence: Divergence,
    actions: tuple[Action, ...],
    feature_names: tuple[str, ...],
    *,
    has_features: bool,
    max_rules: int | None = None,
    learner: Learner | None = None,
    given: Sequence[Rule] = (),
    seed: int = 0,
) -> Described:
    """Regions for all diverging states; with `max_rules`, at most so many; by our rules, or another `learner`'s.

    Where the proposed policy was `given` as rules, those are the regions if they tell the difference.
    """
    if not divergence.diverging.any():
        return Described((), as_pairs(divergence), np.zeros(len(divergence.label), dtype=np.bool_), ())
    if not has_features:
        return _name_states(divergence, max_rules)
    as_written = _as_given(divergence, given, max_rules)
    if as_written is not None:
        return as_written
    pairs, directions = as_pairs(divergence), as_directions(divergence, actions)
    ways = [directions] if directions is not None and len(directions.swaps) < len(pairs.swaps) else []
    if len(pairs.swaps) <= MOST_PAIRS or not ways:
        ways = [pairs, *ways]
    learner = learner or as_learner()
    learned = [_learn_short(divergence, labels, feature_names, max_rules, learner, seed) for labels in ways]
    return max(learned, key=worth)


def _as_given(divergence: Divergence, given: Sequence[Rule], max_rules: int | None) -> Described | None:
    """The rules that a policy was given as, each with the swap it mostly makes; None where they do not tell it."""
    given = [intersection(Rule(), rule) or rule for rule in given]  # one condition for each feature
    labels, match = as_pairs(divergence), first_match(given, divergence.features)
    mass = np.zeros((len(given) + 1, len(labels.swaps) + 1))
    np.add.at(mass, (match, labels.label), divergence.judged)  # the last row holds what no rule covers
    labelled = [(rule, 1 + int(mass[k, 1:].argmax())) for k, rule in enumerate(given) if mass[k, 1:].any()]
    if not labelled or len(labelled) > (MOST_RULES if max_rules is None else max_rules):
        return None
    regions = _of_all_visits(divergence, [ToldRegion(rule, labels.swaps[label - 1], label) for rule, label in labelled])
    return regions if regions.tradeoff[0].f1 >= WELL_TOLD else None


def _of_all_visits(divergence: Divergence, regions: Sequence[ToldRegion]) -> Described:
    """Regions that were not learned, so that no visits are held out to count them."""
    labels, none = as_pairs(divergence), np.zeros(len(divergence.label), dtype=np.bool_)
    point = visits_of(divergence, labels).point(tuple((region.rule, region.label) for region in regions))
    return Described(tuple(regions), labels, none, (replace(point, chosen=True),))


def worth(described: Described) -> float:
    """How much of the difference is told, less reading costs: F1 (1 + named) / 2 − 0.01 rules − 0.002 literals."""
    chosen = next(point for point in described.tradeoff if point.chosen)
    return chosen.f1 * (1 + described.labels.named) / 2 - WORTH * chosen.rules - WORTH_OF_LITERAL * chosen.literals


@dataclass(frozen=True, eq=False)
class Visits:
    """Visits with a label each; rules are learned on some of them and counted on others, or both on all."""

    features: AnyArray
    label: IntArray
    weight: FloatArray  # what rules are fitted to
    judged: FloatArray  # what quality is measured by

    def take(self, rows: BoolArray) -> Visits:
        """Some of the visits."""
        return Visits(self.features[rows], self.label[rows], self.weight[rows], self.judged[rows])

    def point(self, rules: Listed) -> TradeoffPoint:
        """How well a list tells them, and how long it is."""
        match = first_match([rule for rule, _ in rules], self.features)
        labels = np.array([*(int(k) for _, k in rules), 0])[match]
        f1 = fidelity(labels, self.label, self.judged).f1
        return TradeoffPoint(len(rules), sum(rule.literals for rule, _ in rules), f1, chosen=False)


def visits_of(divergence: Divergence, labels: SwapLabels) -> Visits:
    """The visits of a divergence, labelled in one way."""
    weight, judged = steady_weights(divergence.weight), steady_weights(divergence.judged)
    return Visits(divergence.features, labels.label, weight, judged)


def _learn_short(
    divergence: Divergence,
    labels: SwapLabels,
    names: tuple[str, ...],
    max_rules: int | None,
    learner: Learner,
    seed: int,
) -> Described:
    """Lists of few and more rules, learned on some visits; how many is decided on the others."""
    visits = visits_of(divergence, labels)
    held_out = held_out_visits(divergence.episode, seed)
    fit, judge = (visits.take(~held_out), visits.take(held_out)) if held_out.any() else (visits, visits)
    most = MOST_RULES if max_rules is None else max_rules
    ways, long, messages = rule_lists(fit, learner, names, max(MOST_RULES, most), seed, wanted=most)
    of_words = [ways[k : k + (WAYS if held_out.any() else 1)] for k in range(0, len(ways), WAYS)]  # few, then many
    judged_ways = [best_told(some, judge, max_rules) for some in of_words]
    f1s = [[point.f1 for point in points[: most + 1]] for _, points in judged_ways]
    sizes = [knee(scores) if max_rules is None else int(np.argmax(scores)) for scores in f1s]
    few, many = (judged_ways[k][1][sizes[k]].f1 for k in (0, -1))
    which = 0 if many <= few + WORTH else -1
    (path, points), chosen = judged_ways[which], sizes[which]
    regions = tuple(ToldRegion(rule, labels.swaps[told - 1], told) for rule, told in path[chosen])
    known = dict(zip(path, points, strict=True))  # a tree of so many leaves may be missing
    tradeoff = tuple(replace(point, chosen=rules == path[chosen]) for rules, point in known.items())
    many_words = any(map(names_many, long)) and not names_many(path[chosen])
    longer = [judge.point(rules) for rules in long[: chosen + 1]]
    notes = _cost_of_reading(points[chosen], longer, many_words=many_words)
    return Described(regions, labels, held_out, tradeoff, messages, notes)


def _cost_of_reading(chosen: TradeoffPoint, long: list[TradeoffPoint], *, many_words: bool) -> tuple[str, ...]:
    """What it costs to leave out rules that are too long to read, or name too many words."""
    best = max((point.f1 for point in long), default=0.0)
    if best <= chosen.f1 + WORTH:
        return ()
    words = f", or of more than {MOST_WORDS} words of one feature," if many_words else ""
    return (
        f"Rules of more than {MOST_CONDITIONS} conditions{words} are left out: as many longer ones would tell the "
        f"difference with an F1 of {best:.2f} instead of {chosen.f1:.2f}.",
    )


def rule_lists(
    fit: Visits, learner: Learner, names: tuple[str, ...], most: int, seed: int, *, wanted: int = MOST_RULES
) -> tuple[list[list[Listed]], list[Listed], tuple[str, ...]]:
    """Ways to lists of 0, 1, 2 … readable rules, such lists without that limit, and what the learner could not tell.

    Where `wanted` of the learner's own rules tell too little, the best of all, of finer ones and of trees' leaves are
    chosen: the first few of a long list are not the best few.
    """
    X, label = fit.features, fit.label
    first, messages = learn_rules(learner.make(seed), X, label, fit.weight, seed=seed)
    path = nested(named(first, names), X, label, fit.judged)
    f1, at_first = (fit.point(path[k]).f1 for k in (-1, min(wanted, len(path) - 1)))
    readable = all(len(rule.conditions) <= MOST_CONDITIONS for rule, _ in first) and not names_many(first)
    if at_first >= WELL_TOLD and (readable or not learner.chooses):
        return [path], [], messages
    if not learner.chooses:
        return [_finest_told(path, fit, learner, names, seed)], [], messages
    priced_at = -1.0
    while f1 > 2 * priced_at:  # at far too low an F1, a rule that covers nearly everything pays
        priced_at = f1
        weight = np.where(
            label > 0, fit.weight, fit.weight * f1 / (2 - f1)
        )  # a rule pays from a precision of F1 / 2 on
        for make in learner.finer:
            finer, _ = learn_rules(make(seed), X, label, weight, seed=seed)
            path += nested(named(finer, names), X, label, fit.judged)
        f1 = fit.point(path[-1]).f1
    trees = [named(some, names) for share in (fit.weight, weight) for some in tree_rules(X, label, share, seed=seed)]
    path += trees
    few = [tuple((of_few_words(rule), told) for rule, told in listed) for listed in path]
    ways: list[list[Listed]] = []
    for paths in (few, path) if few != path else (path,):
        short = {e: shortened(e, X, label, fit.judged, MOST_CONDITIONS) for listed in paths for e in listed}
        read = [tuple(dict.fromkeys(short[entry] for entry in listed)) for listed in paths]
        pool = Pool.of(read, X, label, fit.judged, WORTH_OF_LITERAL)
        ways += [best_lists(one, read, most) for one in (pool, pool.doubted(int(np.count_nonzero(fit.judged))))]
        ways.append(known_lists(pool, read[len(path) - len(trees) :], most))
    free = Pool.of(path, X, label, fit.judged, WORTH_OF_LITERAL)
    return ways, best_lists(free, path, most), messages


def best_told(
    ways: list[list[Listed]], judge: Visits, max_rules: int | None = None
) -> tuple[list[Listed], list[TradeoffPoint]]:
    """The way whose lists tell most of other visits, and how well each of them does.

    Lists of all lengths together; where at most `max_rules` are asked for, the best of these.
    """
    judged_paths = [(path, [judge.point(rules) for rules in path]) for path in ways]
    of_all = [sum(point.f1 for point in points) for _, points in judged_paths]
    asked = [0.0 if max_rules is None else max(p.f1 for p in points[: max_rules + 1]) for _, points in judged_paths]
    return judged_paths[max(range(len(ways)), key=lambda k: (asked[k], of_all[k]))]


def _finest_told(path: list[Listed], fit: Visits, learner: Learner, names: tuple[str, ...], seed: int) -> list[Listed]:
    """The lists that tell most, of a learner's at lower prices of reading; what nobody could read is left out."""
    found = [path]
    for make in learner.finer[1:]:
        with suppress(InvalidOptionError):
            finer, _ = learn_rules(make(seed), fit.features, fit.label, fit.weight, seed=seed)
            found.append(nested(named(finer, names), fit.features, fit.label, fit.judged))
    return max(found, key=lambda lists: fit.point(lists[-1]).f1)


def knee(scores: list[float]) -> int:
    """Fewest rules from which no further rule adds more than `WORTH` each.

    >>> knee([0.0, 0.6, 0.9, 0.905, 0.907])
    2
    """
    for k, score in enumerate(scores):
        if all(later <= score + WORTH * (j + 1) for j, later in enumerate(scores[k + 1 :])):
            return k
    return len(scores) - 1


def held_out_visits(episode: IntArray, seed: int) -> BoolArray:
    """Which visits make no rules: those of half of the episodes, none in a table or where no other would be left."""
    if (episode < 0).any():
        return np.zeros(len(episode), dtype=np.bool_)
    half = np.random.default_rng((seed, Stream.HELD_OUT)).random(int(episode.max()) + 1) < 0.5
    return np.asarray(half[episode] & ~half[episode].all())


def _name_states(divergence: Divergence, max_rules: int | None) -> Described:
    """Each diverging state by its name; with `max_rules`, states with the same swap together.

    Of played episodes, one swap in every state that was met is one everywhere: states that were not met are no others.
    """
    where = np.flatnonzero(divergence.diverging)
    played = bool((divergence.episode >= 0).all())
    if played and len(where) == len(divergence.label) and len(divergence.swaps) == 1:
        return _of_all_visits(divergence, [ToldRegion(Rule(), divergence.swaps[0], 1)])
    where = where[np.argsort(divergence.states[where], kind="stable")] if divergence.states.ndim == 1 else where
    names = divergence.features[:, 0]
    groups: dict[tuple[int, str], dict[str, None]] = {}
    merge = max_rules is not None and len({names[s] for s in where}) > max_rules
    for s in where:
        groups.setdefault((int(divergence.label[s]), "" if merge else names[s]), {})[names[s]] = None
    regions = [
        ToldRegion(Rule((Condition("state", 0, values=tuple(met)),)), divergence.swaps[k - 1], k, merged=len(met) > 1)
        for (k, _), met in groups.items()
    ]
    if max_rules is not None and len(regions) > max_rules:
        mass = [-float(divergence.judged[region.rule.covers(divergence.features)].sum()) for region in regions]
        regions = [regions[k] for k in sorted(sorted(range(len(mass)), key=mass.__getitem__)[:max_rules])]
    return _of_all_visits(divergence, regions)


@dataclass(frozen=True)
class Fidelity:
    r"""Precision, recall and their harmonic mean, by visits; 1 where there is nothing to tell and nothing is told.

    .. math:: P = \frac{w(\text{told rightly})}{w(\text{covered})}, \qquad
              R = \frac{w(\text{told rightly})}{w(\text{diverging})}, \qquad F_1 = \frac{2PR}{P + R}
    """

    precision: float
    recall: float
    f1: float


def fidelity(told: IntArray, truth: IntArray, weight: FloatArray) -> Fidelity:
    """Compare told labels with true ones, 0 meaning no difference.

    >>> fidelity(np.array([1, 1, 0]), np.array([1, 0, 0]), np.ones(3)).precision
    0.5
    """
    right = float(weight[(told == truth) & (truth > 0)].sum())
    covered = float(weight[told > 0].sum())
    diverging = float(weight[truth > 0].sum())
    precision = right / covered if covered > 0 else 1.0
    recall = right / diverging if diverging > 0 else 1.0
    f1 = 2 * precision * recall / (precision + recall) if precision + recall > 0 else 0.0
    return Fidelity(precision, recall, f1)


def fidelity_intervals(
    told: BoolArray, truth: BoolArray, right: BoolArray, weight: FloatArray, episode: IntArray, level: float
) -> dict[str, Interval]:
    """Intervals of precision, recall and F1 where rules are `told`, hold in `truth`, and tell it `right`."""
    _, unit = np.unique(episode, return_inverse=True)
    covered, changed, correct = (
        np.bincount(unit, weights=weight * part).astype(np.float64) for part in (told, truth, right)
    )
    return {
        "precision": ratio_interval(correct, covered, level),
        "recall": ratio_interval(correct, changed, level),
        "f1": ratio_interval(2 * correct, covered + changed, level),
    }


def ratio_interval(part: FloatArray, whole: FloatArray, level: float) -> Interval:
    r"""Interval of :math:`\sum_e k_e / \sum_e n_e` over episodes, each with its part of its whole.

    >>> ratio_interval(np.ones(13), np.ones(13), 0.95).low > 0.75
    True
    >>> ratio_interval(np.ones(1), np.ones(1), 0.95), ratio_interval(np.zeros(0), np.zeros(0), 0.95)
    (Interval(estimate=1.0, low=0.0, high=1.0, level=0.95), Interval(estimate=1.0, low=0.0, high=1.0, level=0.95))
    """
    part, whole = part[whole > 0], whole[whole > 0]
    if not len(whole):
        return Interval(1.0, 0.0, 1.0, level)
    size = float((whole**2).sum() / whole.sum())  # of an episode, as a visit meets it
    count = float(whole.sum()) / size  # episodes, counted as if all were of this size
    reach = float(stats.t.ppf((1 + level) / 2, count))
    bounds = []
    for sign, more in ((-1.0, 0.0), (1.0, size)):
        of, k = np.append(whole, size), np.append(part, more)
        middle = k.sum() / of.sum()
        spread = math.sqrt((count + 1) / count * ((k - middle * of) ** 2).sum()) / of.sum()
        bounds.append(float(np.clip(middle + sign * reach * spread, 0.0, 1.0)))
    estimate = float(part.sum() / whole.sum())
    return Interval(estimate, min(bounds[0], estimate), max(bounds[1], estimate), level)
