"""Who is worse off: groups of starts and the tail, not only the mean."""

from __future__ import annotations

import numpy as np

from polidiff.evaluation.verdicts import StartOutcomes
from polidiff.explanation.forms import leaf_rules
from polidiff.explanation.words import MOST_LISTED
from polidiff.records.arrays import FloatArray
from polidiff.records.explanation import Tail, WorseOff
from polidiff.records.outcome import Outcome
from polidiff.records.rule import Condition, Rule
from polidiff.worlds.protocol import World

TAIL = 0.1
MOST_LEAVES = 32  # of a tree that tells starts known to lose from others


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
    found: list[tuple[float, WorseOff]] = []
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
                found.append((abs(interval.estimate) / scale, WorseOff(outcome.name, rule, share, interval, listed)))
    return tuple(entry for _, entry in sorted(found, key=lambda pair: -pair[0]))


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
    numbers = np.nan_to_num(features.astype(float))
    if forming.exact:  # boxes that hold the starts known to lose, as far as so many leaves tell them from others
        tree = DecisionTreeClassifier(max_leaf_nodes=MOST_LEAVES, random_state=0).fit(numbers, losing)
        share = tree.tree_.value[:, 0, -1]
        return [rule for leaf, rule in leaf_rules(tree.tree_, world.feature_names) if share[leaf] > 0.5]
    tree = DecisionTreeRegressor(max_leaf_nodes=4, min_samples_leaf=max(2, len(harm) // 20), random_state=0)
    tree.fit(numbers, harm, sample_weight=weight)
    mean = tree.tree_.value[:, 0, 0]
    told = [rule for leaf, rule in leaf_rules(tree.tree_, world.feature_names) if mean[leaf] > margin + 1e-9]
    return [None] if len(told) == tree.get_n_leaves() else list(told)
