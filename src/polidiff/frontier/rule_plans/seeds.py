"""Rule lists that others would write: the regions of the optimum, and trees fitted to it.

They are where the search starts, so that it never ends below them, and what its plans are compared with.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from polidiff.frontier.rule_plans.lists import ListedRule, Problem
from polidiff.frontier.rule_plans.model import point_at, value_of
from polidiff.frontier.rule_plans.search import Landmarks
from polidiff.progress import Clock
from polidiff.records.arrays import FloatArray, IntArray
from polidiff.records.plan import Baseline
from polidiff.rules.cell_grid import Box, RuleList

REGIONS, TREES, STATES = "regions of the optimum", "tree fitted to the optimum", "single states"
LEAVES = (2, 3, 4, 5, 6, 8, 10, 12, 16)


@dataclass(frozen=True, eq=False)
class Target:
    """The best use of the moves as something to imitate."""

    codes: FloatArray  # (n, d) cells of the free states
    move: IntArray  # (n,) the move of the optimum
    weights: tuple[FloatArray, ...]  # (n,) ways to say how much a state matters


def target_of(problem: Problem, marks: Landmarks) -> Target:
    """Which move the optimum makes in each free state; of several equal moves, the one it makes most."""
    star, keep = marks.star, problem.model.keep
    matches = problem.row == star.rows
    mass = (matches * (star.visits + 1e-12)).sum(axis=1)
    mass[problem.keep] = np.inf
    move = np.where(matches, mass[:, None], -1.0).argmax(axis=0)
    loss = np.maximum(star.ahead[star.rows] - star.ahead[keep], 0.0)
    worth = marks.weight * (loss / (loss.max(initial=0.0) or 1.0) + 0.02)
    return Target(problem.finder.codes.astype(np.float64), move, (star.visits, marks.weight, worth))


def imitations(
    problem: Problem, marks: Landmarks, max_rules: int, seed: int, clock: Clock
) -> dict[str, list[RuleList]]:
    """Rule lists of at most `max_rules` rules by imitation of the optimum, one tree and what else there is time for."""
    target = target_of(problem, marks)
    if (target.move == problem.keep).all():
        return {REGIONS: [], TREES: []}
    tries = product(target.weights, LEAVES[: 4 + max_rules])
    trees = [
        rules
        for number, (weight, leaves) in enumerate(tries)
        if not (number and clock.over())
        for rules in _shortened(problem, _tree(problem, target, weight, leaves, seed), max_rules)
    ]
    regions = [
        rules
        for weight in target.weights[1:]
        if not clock.over()
        for rules in _regions(problem, target, weight, max_rules, seed, clock)
    ]
    return {REGIONS: regions, TREES: trees}


def baselines(
    problem: Problem, marks: Landmarks, lists: dict[str, list[RuleList]], max_rules: int
) -> tuple[Baseline, ...]:
    """Best return of each imitation, and of single states changed greedily, with 0, 1, …, max_rules rules."""
    start = marks.current.expected_return
    made = []
    for name, found in lists.items():
        best = [start] * (max_rules + 1)
        for rules in found:
            total = float(problem.value(rules)[0])
            for size in range(len(rules), max_rules + 1):
                best[size] = max(best[size], total)
        made.append((name, best))
    made.append((STATES, _greedy_states(problem, max_rules)))
    return tuple(Baseline(name, tuple((float(k), value) for k, value in enumerate(best))) for name, best in made)


def admissible(problem: Problem, marks: Landmarks, rules: RuleList) -> RuleList:
    """The list with conditions dropped, those that the optimum misses least first, until it is short enough."""
    target = target_of(problem, marks)
    return tuple((move, _fewer(problem, target, move, box)) for move, box in rules)


def _fewer(problem: Problem, target: Target, move: int, box: Box) -> Box:
    while len(box) > problem.max_conditions:
        wrong = np.where(target.move == move, -target.weights[1], target.weights[1])
        shorter = [box[:k] + box[k + 1 :] for k in range(len(box))]
        box = min(shorter, key=lambda other: float(wrong[problem.covers(other)].sum()))
    return box


def _tree(problem: Problem, target: Target, weight: FloatArray, leaves: int, seed: int) -> RuleList:
    from sklearn.tree import DecisionTreeClassifier

    model = DecisionTreeClassifier(max_leaf_nodes=leaves, random_state=seed % 2**32)
    model.fit(target.codes, target.move, sample_weight=weight + 1e-12)
    tree, rules = model.tree_, []

    def walk(node: int, ranges: dict[int, tuple[int, int]]) -> None:
        if tree.children_left[node] < 0:
            move = int(model.classes_[tree.value[node][0].argmax()])
            if move != problem.keep:
                rules.append((move, tuple((j, *ranges[j]) for j in sorted(ranges))))
            return
        column, cut = int(tree.feature[node]), int(np.floor(tree.threshold[node]))
        low, high = ranges.get(column, (0, int(problem.cells.sizes[column]) - 1))
        walk(tree.children_left[node], {**ranges, column: (low, cut)})
        walk(tree.children_right[node], {**ranges, column: (cut + 1, high)})

    walk(0, {})
    return tuple(rules)


def _shortened(problem: Problem, rules: RuleList, max_rules: int) -> Iterator[RuleList]:
    """The list, or, where it is too long, its best rules chosen one after the other, as nested lists."""
    if len(rules) <= max_rules:
        yield rules
        return
    chosen: list[ListedRule] = []
    for _ in range(max_rules):
        rest = [rule for rule in rules if rule not in chosen]
        values = [problem.value((*chosen, rule))[0] for rule in rest]
        chosen.append(rest[int(np.argmax(values))])
        yield tuple(chosen)


def _regions(
    problem: Problem, target: Target, weight: FloatArray, max_rules: int, seed: int, clock: Clock
) -> Iterator[RuleList]:
    from polidiff.rules import RuleClassifier

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a class without rules is one move fewer here
        model = RuleClassifier(
            default_class=problem.keep, max_rules=2 * max_rules, max_bins=32, proof_budget=0,
            time_limit=clock.limit(), random_state=seed % 2**32,
        )  # fmt: skip
        model.fit(target.codes, target.move, sample_weight=weight)
        clock.over()  # remembers a fit that was cut
        nested = model.rule_path(target.codes, target.move, weight, max_rules=max_rules)
    for listed in nested[1:]:
        boxes = [(int(move), problem.cells.box(rule)) for rule, move in listed.rules]
        yield tuple((move, box) for move, box in boxes if box is not None)


def _greedy_states(problem: Problem, max_rules: int) -> list[float]:
    """Returns after changing the best single state, then the next best, …"""
    model, rows = problem.model, np.array(problem.model.keep)
    found = [float(value_of(model, rows)[0])]
    for _ in range(max_rules):
        point = point_at(model, rows)
        gain = point.visits[model.state_of] * (point.ahead - point.values[model.state_of])
        if model.dense:
            own = (point.shift(np.arange(len(gain))) * point.inverse.T[model.state_of]).sum(axis=1)
            gain = gain / np.maximum(1 - own, 1e-9)
        for row in np.argsort(-gain, kind="stable")[:5]:
            changed = rows.copy()
            changed[model.state_of[row]] = row
            total = float(value_of(model, changed)[0])
            if total > found[-1]:
                rows = changed
                found.append(total)
                break
        else:
            found.append(found[-1])
    return found
