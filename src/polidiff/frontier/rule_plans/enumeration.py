"""Every plan that a list of few rules can make, where that are few: a proof without a bound, guards included.

Rules that act on the same states in the same way are one rule. A rule put in front of a list overrides the plan of the
list where it acts, so that the plans of K rules are those of K − 1 with one rule in front; of lists that make the same
plan the one with the fewest literals counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, product

import numpy as np

from polidiff.frontier.rule_plans.lists import ListedRule, Problem, RuleList, Scored
from polidiff.frontier.rule_plans.values import SMALL, exact_values
from polidiff.records.arrays import BoolArray, IntArray

MOST_BOXES = 5_000
MOST_WORK = 3_000_000  # plans times rules, of one number of rules


@dataclass(frozen=True, eq=False)
class Plans:
    """Distinct plans, with the shortest list that makes each: a rule in front of another plan's list."""

    rows: IntArray  # (N, n)
    literals: IntArray  # (N,)
    rule: IntArray  # (N,) −1 for the plan that changes nothing
    behind: IntArray  # (N,) the plan of the rest of the list

    def list_of(self, plan: int, rules: list[ListedRule]) -> RuleList:
        """The rules of a plan, first match first."""
        listed = []
        while self.rule[plan] >= 0:
            listed.append(rules[self.rule[plan]])
            plan = int(self.behind[plan])
        return tuple(listed)


def best_lists(problem: Problem, most: int) -> list[Scored] | None:
    """The best list of at most 0, 1, …, `most` rules over all lists on the cuts; None where there are too many."""
    model = problem.model
    if model.loops or model.size > SMALL or (made := _distinct_rules(problem)) is None:
        return None
    rules, acts, rows = made
    cost = np.array([problem.cells.literals(box) for _, box in rules], dtype=np.int64)
    first = np.array([-1])
    plans, best = Plans(model.keep[None], np.zeros(1, dtype=np.int64), first, first), list[Scored]()
    for size in range(most + 1):
        if size:
            if len(plans.rows) * len(rules) > MOST_WORK:
                return None
            plans = _longer(problem, plans, acts, rows, cost)
        best.append(_best(problem, plans, rules))
    return best


def _distinct_rules(problem: Problem) -> tuple[list[ListedRule], BoolArray, IntArray] | None:
    """Rules that differ in what they do, where each acts (R, n) and which row it puts there (R, n)."""
    sizes = problem.cells.sizes
    ranges = [[(c, a, b) for a in range(s) for b in range(a, s) if (a, b) != (0, s - 1)] for c, s in enumerate(sizes)]
    count = sum(np.prod([len(ranges[c]) for c in some]) for some in _columns(problem))
    if count * len(problem.row) > MOST_BOXES:
        return None
    known: dict[bytes, tuple[int, ListedRule]] = {}
    for some in _columns(problem):
        for box in product(*(ranges[c] for c in some)):
            if not problem.supported(box):
                continue
            for move in range(len(problem.row)):
                acting = problem.covers(box) & (problem.row[move] >= 0)
                key = np.where(acting, problem.row[move], -1).tobytes()
                length = problem.cells.literals(box)
                if acting.any() and (key not in known or length < known[key][0]):
                    known[key] = (length, (move, box))
    rows = np.array([np.frombuffer(key, dtype=np.int64) for key in known]).reshape(-1, problem.model.size)
    return [rule for _, rule in known.values()], rows >= 0, rows


def _columns(problem: Problem) -> list[tuple[int, ...]]:
    every = range(len(problem.cells.sizes))
    return [some for k in range(problem.max_conditions + 1) for some in combinations(every, k)]


def _longer(problem: Problem, plans: Plans, acts: BoolArray, rows: IntArray, cost: IntArray) -> Plans:
    """The plans, and all that one more rule in front makes of them."""
    count, n = plans.rows.shape
    grown = np.where(acts[None], rows[None], plans.rows[:, None]).reshape(-1, n)
    behind, rule = np.divmod(np.arange(len(grown)), max(1, len(acts)))
    literals = plans.literals[behind] + cost[rule]
    if problem.max_literals is not None:
        short = literals <= problem.max_literals
        grown, behind, rule, literals = grown[short], behind[short], rule[short], literals[short]
    every = np.concatenate([plans.rows, grown])
    length = np.concatenate([plans.literals, literals])
    order = np.argsort(length, kind="stable")
    kept = np.sort(order[np.unique(every[order], axis=0, return_index=True)[1]])
    new = np.union1d(np.arange(count), kept)  # rows of the plans keep their numbers, which lists refer to
    origin = np.concatenate([np.arange(count), count + np.arange(len(grown))])[new]
    return Plans(
        every[new],
        length[new],
        np.concatenate([plans.rule, rule])[origin],
        np.concatenate([plans.behind, behind])[origin],
    )


def _best(problem: Problem, plans: Plans, rules: list[ListedRule]) -> Scored:
    returns, changes = exact_values(problem.model, plans.rows)
    kept = (
        np.ones(len(returns), dtype=np.bool_)
        if problem.feasible is None
        else problem.feasible.each(problem, plans.rows)
    )
    top = float(returns[kept].max(initial=-np.inf))
    if not np.isfinite(top):
        return Scored((), -np.inf, np.inf, 0)
    equal = np.flatnonzero(kept & (returns >= top - 1e-9 * max(problem.model.unit, abs(top) * 1e-3)))
    pick = int(equal[np.lexsort((plans.literals[equal], np.round(changes[equal], 9)))[0]])
    return Scored(plans.list_of(pick, rules), float(returns[pick]), float(changes[pick]), int(plans.literals[pick]))
