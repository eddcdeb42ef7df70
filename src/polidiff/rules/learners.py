"""An interpretable classifier as a learner of rules (section 4.2 of the paper).

What a learner must be: an estimator with scikit-learn's ``fit(X, y)`` whose result can be read as conditions on single
features. It is known by what it has after fitting, never by its class: a decision list, a tree, a set of rules for one
class, or a chain of thresholds. Read so, every learner is the same thing to the other stages: rules with labels, first
match wins, 0 where none holds. Learners of two classes tell several by peeling, smallest class first (Algorithm 4).
"""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from typing import Any, TypeAlias

import numpy as np

from polidiff.errors import InvalidOptionError
from polidiff.records.arrays import AnyArray, BoolArray, FloatArray, IntArray
from polidiff.records.rule import Condition, Rule
from polidiff.rules.grid import readable_bound
from polidiff.rules.lists import Kinds, intersection, shorten, without_any

Estimator: TypeAlias = Any  # of scikit-learn or alike, or a part of one
Listed: TypeAlias = tuple[tuple[Rule, int], ...]  # first match wins, 0 where none holds
Make: TypeAlias = Callable[[int], Estimator]  # an estimator that is not fitted, given a seed

COSTS = ((1e-2, 3e-3), (3e-3, 1e-3))  # of a clause and a literal, as shares of all visits
LEAVES = 24  # of a tree
FAMILY = 32  # leaves of the largest of nested trees
MOST_GROWN = 100_000  # rows that these are grown on; of more, every so manieth
DEPTH = 3  # of an optimal tree
MOST_ROWS = 4_000  # that an optimal tree is grown on
CUTS = 12  # bounds of a feature that a tree over yes-or-no features may use
RULES = "rules"


@dataclass(frozen=True)
class Learner:
    """A way to learn rules: an estimator, and what else to try where its rules tell too little."""

    name: str
    make: Make
    short: Make  # for the few rules that tell groups of starts apart
    finer: tuple[Make, ...] = ()
    chooses: bool = False  # whether the best rules are chosen among those of all estimators and of nested trees


def as_learner(classifier: Estimator = None) -> Learner:
    """A learner from a name or an estimator; None: our rules, at several prices of reading.

    >>> as_learner("rules cnf").name, as_learner(None).name
    ('rules cnf', 'rules')
    """
    if classifier is None or classifier == RULES:
        return _own_rules("dnf", RULES)
    if classifier == "rules cnf":
        return _own_rules("cnf", classifier)
    if isinstance(classifier, str):
        make = NAMED[classifier]
        return Learner(classifier, make, make)

    return Learner(type(classifier).__name__, partial(_copied, classifier), partial(_copied, classifier))


def _own_rules(form: str, name: str) -> Learner:
    finer = tuple(
        partial(_rule_classifier, form=form, clause_cost=clause, literal_cost=literal) for clause, literal in COSTS
    )
    return Learner(name, finer[0], partial(finer[0], max_rules=2), finer, chooses=form == "dnf")


def _copied(model: Estimator, seed: int = 0) -> Estimator:
    """A copy that is not fitted; it has a seed of its own, if any."""
    from sklearn.base import clone

    return clone(model, safe=False)


def _rule_classifier(seed: int, **options: Any) -> Estimator:
    from polidiff.rules.classifier import RuleClassifier

    return RuleClassifier(proof_budget=0, random_state=seed % 2**32, **options)


def _tree(seed: int) -> Estimator:
    from sklearn.tree import DecisionTreeClassifier

    return DecisionTreeClassifier(max_leaf_nodes=LEAVES, min_weight_fraction_leaf=1e-3, random_state=seed % 2**32)


def _imported(library: str, name: str, seed: int, *, seed_name: str = "", **options: object) -> Estimator:
    try:
        made = getattr(import_module(library), name)
    except ImportError as missing:
        raise InvalidOptionError(
            f"classifier {library!r} needs the package {missing.name or library}, which is not installed. Hint: "
            f"pip install {library}, or classifier='rules'"
        ) from None
    return made(**options, **({seed_name: seed % 2**31} if seed_name else {}))


NAMED: dict[str, Make] = {
    "tree": _tree,
    "wittgenstein": partial(_imported, "wittgenstein", "RIPPER", seed_name="random_state"),
    "imodels": partial(_imported, "imodels", "GreedyRuleListClassifier", max_depth=8),
    "pystreed": partial(_imported, "pystreed", "STreeDClassifier", max_depth=DEPTH),
    "pycontree": partial(_imported, "pycontree", "ConTree", max_depth=DEPTH),
}


def learn_rules(
    model: Estimator, X: AnyArray, label: IntArray, weight: FloatArray, *, seed: int
) -> tuple[Listed, tuple[str, ...]]:
    """Rules for the labels above 0, and what the learner could not tell; `weight` (n,) is how much a row counts."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # each library has its own; what matters is read off the rules
        if hasattr(model, "decision_list_") or "default_class" in inspect.signature(type(model)).parameters:
            model.set_params(default_class=0)
            model.fit(X, label, sample_weight=weight)
            return tuple((rule, int(told)) for rule, told in model.decision_list_), tuple(model.messages_)
        numbers = _numbers(model, X)
        if len(np.unique(label)) < 2:
            return ((((Rule(), int(label[0])),) if label[0] else ()), ())
        if _of_two_classes(model):
            return _peeled(model, numbers, label, weight, seed), ()
        return _above_zero(_fitted(model, numbers, label, weight, seed), numbers), ()


def _numbers(model: Estimator, X: AnyArray) -> FloatArray:
    try:
        return np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError):
        first = next(value for value in np.ravel(X) if isinstance(value, str))
        raise InvalidOptionError(
            f"classifier {type(model).__name__} takes numbers only; a feature holds {first!r}. Hint: classifier='rules'"
        ) from None


def _of_two_classes(model: Estimator) -> bool:
    return type(model).__module__.split(".")[0] == "wittgenstein" or type(model).__name__ in (
        "GreedyRuleListClassifier",
        "OneRClassifier",
    )


def _peeled(model: Estimator, X: FloatArray, label: IntArray, weight: FloatArray, seed: int) -> Listed:
    """A rule list of several classes from a learner of two: the smallest class first, then without its rows."""
    listed: list[tuple[Rule, int]] = []
    left = np.ones(len(label), dtype=np.bool_)
    mass = {int(k): float(weight[label == k].sum()) for k in np.unique(label) if k}
    for k in sorted(mass, key=lambda k: mass[k]):
        inside = (label[left] == k).astype(np.int64)
        if inside.all():
            listed.append((Rule(), k))
            break
        one = _fitted(_copied(model), X[left], inside, weight[left], seed)
        listed += [(rule, k) for rule, _ in _above_zero(one, X)]
        left &= label != k
    return tuple(listed)


def _fitted(model: Estimator, X: FloatArray, label: IntArray, weight: FloatArray, seed: int) -> Listed:
    """The fitted estimator read as a list, its last entry for what nothing else covers."""
    if "sample_weight" in inspect.signature(model.fit).parameters:
        _fit(model, X, label, sample_weight=weight * len(weight) / weight.sum())
    else:
        rows = _drawn(weight, seed, MOST_ROWS)
        X, label = X[rows], label[rows]
        known, label = np.unique(label, return_inverse=True)
        cuts = _cuts(X) if type(model).__module__.startswith("pystreed") else None
        given = X if cuts is None else np.column_stack([X[:, j] < bound for j, bound in cuts]).astype(np.int64)
        _fit(
            model, given, label, **({"pos_class": 1} if "pos_class" in inspect.signature(model.fit).parameters else {})
        )
        return tuple((rule, int(known[told])) for rule, told in _read(model, X, cuts))
    return tuple(_read(model, X, None))


def _fit(model: Estimator, X: AnyArray, label: IntArray, **more: Any) -> None:
    try:
        model.fit(X, label, **more)
    except ValueError as problem:
        gaps = int(np.isnan(X).any(axis=1).sum())
        why = f"takes no missing values; {gaps} of {len(X)} rows have some" if gaps else f"cannot be fitted: {problem}"
        raise InvalidOptionError(
            f"classifier {type(model).__name__} {why.splitlines()[0].rstrip('.')}. Hint: classifier='rules' or 'tree'"
        ) from problem


def _drawn(weight: FloatArray, seed: int, most: int) -> IntArray:
    """Rows in proportion to their weight, for a learner that knows no weights."""
    size = min(len(weight), most)
    if size == len(weight) and np.ptp(weight) == 0:
        return np.arange(size)
    at = (np.arange(size) + np.random.default_rng(seed).random()) / size
    return np.minimum(np.searchsorted(np.cumsum(weight / weight.sum()), at), len(weight) - 1)


def _cuts(X: FloatArray) -> list[tuple[int, float]]:
    """Bounds for yes-or-no features: between neighbouring values at quantiles, as short as they can be."""
    found: dict[tuple[int, float], None] = {}
    for j, column in enumerate(X.T):
        levels = np.unique(column[~np.isnan(column)])
        for at in np.unique(np.linspace(0, len(levels) - 1, CUTS + 2)[1:-1].astype(int)) if len(levels) > 1 else ():
            below = max(int(at), 0)
            if below + 1 < len(levels):
                found[j, readable_bound(float(levels[below]), float(levels[below + 1]))] = None
    return list(found)


def _read(model: Estimator, X: FloatArray, cuts: list[tuple[int, float]] | None) -> Iterator[tuple[Rule, int]]:
    tree = getattr(model, "tree_", None)
    if hasattr(tree, "children_left"):
        yield from _leaves(next(_nested_trees(model, X, [len(model.tree_.children_left)], _classes(model))))
    elif hasattr(tree, "get_split_feature"):
        yield from _leaves(_node_tree(tree, X))
    elif cuts is not None:
        yield from _leaves(_yes_no_tree(tree, cuts))
    elif hasattr(model, "ruleset_"):
        yield from ((_bins_rule(rule, X), 1) for rule in model.ruleset_.rules)
    elif isinstance(getattr(model, "rules_", None), list) and all(isinstance(rule, dict) for rule in model.rules_):
        yield from _chain(model.rules_, X)
    else:
        raise InvalidOptionError(
            f"no rules can be read off {type(model).__name__}: after fit it must have decision_list_, tree_, ruleset_ "
            "or a list rules_ of thresholds. Hint: classifier='rules' or 'tree'"
        )


@dataclass(frozen=True)
class Split:
    """A node of a tree: rows with the feature below the bound go left, those without it where `missing_left` says."""

    column: int
    bound: float
    left: Node
    right: Node
    missing_left: bool | None = None  # None: nothing was missing


Node: TypeAlias = Split | int  # an int is the label of a leaf


def _leaves(node: Node, inside: Rule | None = None) -> Iterator[tuple[Rule, int]]:
    """Leaves as rules; siblings that tell the same are one."""
    inside = Rule() if inside is None else inside
    if isinstance(node, int):
        yield inside, node
        return
    gap = node.missing_left is not None
    sides = (
        (Condition(f"x{node.column}", node.column, high=node.bound, missing=bool(node.missing_left)), node.left),
        (Condition(f"x{node.column}", node.column, low=node.bound, missing=gap and not node.missing_left), node.right),
    )
    for condition, below in sides:
        both = intersection(inside, Rule((condition,)))
        if both is not None:
            yield from _leaves(below, both)


def _joined(split: Split) -> Node:
    return split.left if isinstance(split.left, int) and split.left == split.right else split


def short_bound(column: FloatArray, low: BoolArray) -> float:
    """A short bound between the values of a column that go one way and the others."""
    below, above = column[low], column[~low & ~np.isnan(column)]
    if not len(below) or not len(above):
        return -math.inf if not len(below) else math.inf
    return readable_bound(float(below.max()), float(above.min()))


def leaf_rules(model: Estimator, X: FloatArray, names: tuple[str, ...], told: IntArray) -> Listed:
    """The leaves of a fitted tree, from left to right, as rules with what each node is told as (nodes,)."""
    return named(tuple(_leaves(next(_nested_trees(model, X, [len(told)], told)))), names)


def _classes(model: Estimator) -> IntArray:
    """(nodes,) class that most rows of each node have."""
    return np.asarray(model.classes_[model.tree_.value[:, 0].argmax(axis=1)])


def _nested_trees(model: Estimator, X: FloatArray, sizes: Sequence[int], told: IntArray) -> Iterator[Node]:
    """The tree cut back to its first nodes: grown best first, it is then the tree of so many nodes."""
    tree, single = model.tree_, X.astype(np.float32)  # trees compare single precision
    goes_left = getattr(tree, "missing_go_to_left", None)
    inner = np.flatnonzero(tree.children_left >= 0).tolist()
    bounds = {k: short_bound(X[:, tree.feature[k]], single[:, tree.feature[k]] <= tree.threshold[k]) for k in inner}
    gaps = np.asarray(np.isnan(X).any(axis=0))

    def node(k: int, size: int) -> Node:
        left, right, j = int(tree.children_left[k]), int(tree.children_right[k]), int(tree.feature[k])
        if left < 0 or right >= size:
            return int(told[k])
        gap = bool(goes_left[k]) if goes_left is not None and gaps[j] else None
        return _joined(Split(j, bounds[k], node(left, size), node(right, size), gap))

    for size in sizes:
        yield node(0, size)


def tree_rules(X: AnyArray, label: IntArray, weight: FloatArray, *, seed: int) -> list[Listed]:
    """The leaves that tell a label above 0, of trees of 2, 3, … leaves; none where features are words.

    >>> tree_rules(np.array([[0.0], [1.0], [2.0]]), np.array([0, 1, 0]), np.ones(3), seed=0)[1][0][0].conditions[0].high
    2.0
    """
    from sklearn.tree import DecisionTreeClassifier

    if X.dtype == object:
        return []
    model = DecisionTreeClassifier(max_leaf_nodes=FAMILY, random_state=seed % 2**31)
    some = slice(None, None, -(-len(X) // MOST_GROWN))
    model.fit(X[some], label[some], sample_weight=weight[some] / weight[some].mean())
    sizes = range(3, len(model.tree_.children_left) + 1, 2)
    trees = _nested_trees(model, np.asarray(X, dtype=np.float64), sizes, _classes(model))
    return [tuple((rule, told) for rule, told in _leaves(tree) if told) for tree in trees]


def _node_tree(tree: Estimator, X: FloatArray) -> Node:
    if tree.is_leaf_node():
        return int(tree.get_label())
    j = int(tree.get_split_feature())
    bound = short_bound(X[:, j], X[:, j] <= tree.get_split_threshold())
    return _joined(Split(j, bound, _node_tree(tree.get_left(), X), _node_tree(tree.get_right(), X)))


def _yes_no_tree(tree: Estimator, cuts: list[tuple[int, float]]) -> Node:
    if tree.is_leaf_node():
        return int(tree.label)
    column, bound = cuts[tree.feature]
    no, yes = _yes_no_tree(tree.left_child, cuts), _yes_no_tree(tree.right_child, cuts)
    return _joined(Split(column, bound, yes, no))


def _bins_rule(rule: Estimator, X: FloatArray) -> Rule:
    """A conjunction of bins such as "0.12 - 0.22", "<0.12" and ">0.9", each closed above."""
    conditions = []
    for part in rule.conds:
        j, text = int(part.feature), str(part.val)
        column = X[:, j]
        if text.startswith("<"):
            conditions.append(Condition(f"x{j}", j, high=short_bound(column, column <= float(text[1:]))))
        elif text.startswith(">"):
            conditions.append(Condition(f"x{j}", j, low=short_bound(column, column <= float(text[1:]))))
        elif " - " in text:
            low, high = (float(end) for end in text.split(" - "))
            conditions.append(
                Condition(f"x{j}", j, short_bound(column, column <= low), short_bound(column, column <= high))
            )
        else:
            conditions.append(Condition(f"x{j}", j, values=(float(text),)))
    return Rule(tuple(conditions))


def _chain(steps: list[dict[str, float]], X: FloatArray) -> Iterator[tuple[Rule, int]]:
    """Thresholds asked one after the other; the last entry is what remains."""
    for step in steps[:-1]:
        j = int(step["index_col"])
        bound = short_bound(X[:, j], X[:, j] < step["cutoff"])
        side = Condition(f"x{j}", j, high=bound) if step["flip"] else Condition(f"x{j}", j, low=bound)
        yield Rule((side,)), int(step["val_right"] > 0.5)
    yield Rule(), int(steps[-1]["val"] > 0.5)


def _above_zero(listed: Listed, X: FloatArray) -> Listed:
    """The list without its entries for label 0: what comes after one of them is told without the place it takes."""
    kinds = Kinds(gaps=frozenset(np.flatnonzero(np.isnan(X).any(axis=0)).tolist()))
    taken: list[Rule] = []
    found: list[tuple[Rule, int]] = []
    for rule, told in listed:
        if told == 0:
            taken.append(rule)
        else:
            found += [(piece, told) for piece in without_any(rule, taken, kinds)]
    return tuple(found)


def nested(listed: Listed, X: AnyArray, label: IntArray, weight: FloatArray) -> list[Listed]:
    """Lists of 0, 1, 2 … of the rules: each leaves out the rule of the next that matters least here."""
    cover = np.array([rule.covers(X) for rule, _ in listed]).reshape(len(listed), len(X))
    labels = np.array([k for _, k in listed], dtype=np.int64)
    return [tuple(listed[k] for k in chosen) for chosen in shorten(cover, labels, label, weight, 0)]


def named(listed: Listed, names: tuple[str, ...]) -> Listed:
    """The list with features by their names."""
    return tuple(
        (Rule(tuple(replace(condition, feature=names[condition.column]) for condition in rule.conditions)), label)
        for rule, label in listed
    )


def steady_weights(weight: FloatArray) -> FloatArray:
    """Weights as whole numbers of 2⁻¹⁷ that sum to about 10,000: sums are exact in any order, on any machine.

    >>> steady_weights(np.array([1 / 3, 2 / 3, 0.0, 1e-30])).tolist()
    [2730.666664123535, 5461.333335876465, 0.0, 7.62939453125e-06]
    """
    total = float(weight.sum())
    if total == 0:
        return weight
    units = np.rint(np.ldexp(weight, 30 - int(np.rint(np.log2(total)))))  # shares sum to 1, nearly: no edge of rint
    return np.asarray(np.where(weight > 0, np.maximum(units, 1.0), 0.0) * 2.0**-17)
