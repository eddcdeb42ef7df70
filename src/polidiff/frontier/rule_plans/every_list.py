"""The best list of few rules over all lists on the cuts, where these make few plans: a proof without a bound.

Boxes that hold the same states are one box, and rules that act on the same states in the same way are one rule. A rule
put in front of a list overrides the plan of the list where it acts, so that the plans of K rules are those of K − 1
with one rule in front; of lists that make the same plan the one with the fewest literals counts. States on which the
same rules act are one part of a plan; a plan is a number, its choices in the parts the digits.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from polidiff.frontier.rule_plans.lists import ListedRule, Problem, Scored
from polidiff.frontier.rule_plans.model import SMALL, exact_values
from polidiff.progress import Clock
from polidiff.records.arrays import FloatArray, IntArray
from polidiff.rules.cell_grid import Box, RuleList

MOST_BOXES = 5_000
MOST_PLANS = 1 << 21  # that the moves could make: up to so many, a plan has a place of its own
MOST_WORK = 30_000_000, 3_000_000  # plans times rules, of one number of rules; where plans have no places
AT_ONCE = 2_000_000  # numbers held at a time
LENGTH = 1 << 40  # what a literal counts beside the number of a rule and the plan behind it
NONE = np.iinfo(np.int64).max


@dataclass(frozen=True, eq=False)
class Plans:
    """Distinct plans, with the shortest list that makes each: a rule in front of another plan's list."""

    digits: IntArray  # (N, parts)
    literals: IntArray  # (N,)
    rule: IntArray  # (N,) −1 for the plan that changes nothing
    behind: IntArray  # (N,) the plan of the rest of the list
    sums: FloatArray  # (N, m) what each brings

    def list_of(self, plan: int, rules: list[ListedRule]) -> RuleList:
        """The rules of a plan, first match first."""
        listed = []
        while self.rule[plan] >= 0:
            listed.append(rules[self.rule[plan]])
            plan = int(self.behind[plan])
        return tuple(listed)


@dataclass(frozen=True, eq=False)
class Parts:
    """States on which the same rules act, and what these may do there."""

    members: tuple[IntArray, ...]  # of each part, its states
    choices: tuple[IntArray, ...]  # of each part (c, members), rows that are taken together
    rules: IntArray  # (R, parts) the choice of each rule, −1 where it does not act
    places: IntArray  # (parts,) what a digit counts in the number of a plan
    count: int  # plans that the choices could make

    def rows(self, digits: IntArray) -> IntArray:
        """Rows (N, n) of plans (N, parts)."""
        rows = np.empty((len(digits), sum(map(len, self.members))), dtype=np.int64)
        for part, (members, choices) in enumerate(zip(self.members, self.choices, strict=True)):
            rows[:, members] = choices[digits[:, part]]
        return rows


def best_lists(problem: Problem, most: int, clock: Clock) -> list[Scored] | None:
    """The best list of at most 0, 1, …, `most` rules over all lists on the cuts; None where there are too many.

    Too many also for the time that is left.
    """
    model = problem.model
    if clock.left() <= 0 or model.loops or model.size > SMALL or (made := _distinct_rules(problem)) is None:
        return None
    rules, rows = made
    parts, now = _parts(model.keep, rows)
    if parts.count > 2**62:
        return None
    cost = np.array([problem.cells.literals(box) for _, box in rules], dtype=np.int64)
    first = np.array([-1])
    plans, best = Plans(now, np.zeros(1, dtype=np.int64), first, first, _sums(problem, parts, now)), list[Scored]()
    for size in range(most + 1):
        if size:
            if clock.left() <= 0 or len(plans.literals) * len(rules) > MOST_WORK[parts.count > MOST_PLANS]:
                return None
            plans = _longer(problem, parts, plans, cost)
        best.append(_best(problem, plans, rules))
    return best


def _distinct_rules(problem: Problem) -> tuple[list[ListedRule], IntArray] | None:
    """Rules that differ in what they do, and the row (R, n) that each puts where it acts, −1 elsewhere."""
    boxes = _distinct_boxes(problem)
    if boxes is None:
        return None
    known: dict[bytes, tuple[int, ListedRule]] = {}
    for box in filter(problem.supported, boxes):
        for move in range(len(problem.row)):
            key = np.where(problem.covers(box), problem.row[move], -1)
            length = problem.cells.literals(box)
            if (key >= 0).any() and (key.tobytes() not in known or length < known[key.tobytes()][0]):
                known[key.tobytes()] = (length, (move, box))
    made = [np.frombuffer(key, dtype=np.int64) for key in known]
    return [rule for _, rule in known.values()], np.array(made, dtype=np.int64).reshape(-1, problem.model.size)


def _distinct_boxes(problem: Problem) -> list[Box] | None:
    """For every set of states that a box holds the one with the fewest literals; None where there are too many."""
    sizes, length = problem.cells.sizes, problem.cells.literals
    sides = [(c, a, b) for c, s in enumerate(sizes) for a in range(s) for b in range(a, s) if (a, b) != (0, s - 1)]
    if len(sides) * len(problem.row) > MOST_BOXES:
        return None
    known: dict[bytes, Box] = {problem.covers(()).tobytes(): ()}
    for _ in range(problem.max_conditions):
        before = list(known.values())
        for box in before:
            for side in sides:
                inner = _inside(box, side)
                held = problem.covers(inner)
                key = held.tobytes()
                if held.any() and (key not in known or length(inner) < length(known[key])):
                    known[key] = inner
        if len(known) * len(problem.row) > MOST_BOXES:
            return None
    return list(known.values())


def _inside(box: Box, side: tuple[int, int, int]) -> Box:
    """The box with one more condition, or a narrower one on a column that it speaks about."""
    ranges = {column: (first, last) for column, first, last in box}
    column, low, high = side
    first, last = ranges.get(column, (low, high))
    ranges[column] = max(first, low), min(last, high)
    return tuple((c, *ranges[c]) for c in sorted(ranges))


def _parts(keep: IntArray, rows: IntArray) -> tuple[Parts, IntArray]:
    """The parts of plans, and the plan (1, parts) that changes nothing."""
    of = np.unique(rows >= 0, axis=1, return_inverse=True)[1]
    members = tuple(np.flatnonzero(of == part) for part in range(of.max(initial=-1) + 1))
    choices, digits = [], np.full((len(rows) + 1, len(members)), -1)
    for part, states in enumerate(members):
        acting = np.append(True, rows[:, states[0]] >= 0)
        some, number = np.unique(np.vstack([keep, rows])[acting][:, states], axis=0, return_inverse=True)
        choices.append(some)
        digits[acting, part] = number.ravel()
    places = [prod(len(some) for some in choices[:part]) for part in range(len(choices) + 1)]
    fits = np.array(places[:-1] if places[-1] <= 2**62 else [0] * len(choices), dtype=np.int64)
    return Parts(members, tuple(choices), digits[1:], fits, places[-1]), digits[:1]


def _longer(problem: Problem, parts: Parts, plans: Plans, cost: IntArray) -> Plans:
    """The plans, and all that one more rule in front makes of them, or makes with fewer literals."""
    own, acts, rules = plans.digits * parts.places, parts.rules >= 0, np.arange(len(cost))
    laid = (np.where(acts, parts.rules, 0) * parts.places).sum(axis=1)
    placed = parts.count <= MOST_PLANS
    names = np.arange(parts.count) if placed else np.unique([*own.sum(axis=1), *(own @ ~acts.T + laid).ravel()])
    shortest = np.full(len(names), NONE)
    np.minimum.at(shortest, np.searchsorted(names, own.sum(axis=1)), plans.literals * LENGTH)
    for some in np.array_split(rules, 1 + own.shape[0] * len(rules) // AT_ONCE):
        number, literals = own @ ~acts[some].T + laid[some], plans.literals[:, None] + cost[some]
        code = literals * LENGTH + 1 + np.arange(len(own))[:, None] * len(rules) + some
        if problem.max_literals is not None:
            code[literals > problem.max_literals] = NONE
        np.minimum.at(shortest, number if placed else np.searchsorted(names, number), code)
    literals, made = np.divmod(shortest, LENGTH)
    fresh = np.flatnonzero((shortest < NONE) & (made > 0))
    behind, rule = np.divmod(made[fresh] - 1, len(rules))
    sizes = [len(some) for some in parts.choices]
    digits = names[fresh, None] // parts.places % np.array(sizes, dtype=np.int64)
    return Plans(
        np.concatenate([plans.digits, digits]),
        np.concatenate([plans.literals, literals[fresh]]),
        np.concatenate([plans.rule, rule]),
        np.concatenate([plans.behind, behind]),
        np.concatenate([plans.sums, _sums(problem, parts, digits)]),
    )


def _sums(problem: Problem, parts: Parts, digits: IntArray) -> FloatArray:
    """(N, m) what plans bring, worked out for so many at a time."""
    size = problem.model.size
    some = np.array_split(parts.rows(digits), 1 + len(digits) * size * size // AT_ONCE)
    return np.concatenate([exact_values(problem.model, rows) for rows in some])


def _best(problem: Problem, plans: Plans, rules: list[ListedRule]) -> Scored:
    returns, changes, kept = plans.sums[:, 0], plans.sums[:, 1], problem.keeps(plans.sums)
    top = float(returns[kept].max(initial=-np.inf))
    if not np.isfinite(top):
        return Scored((), -np.inf, np.inf, 0)
    equal = np.flatnonzero(kept & (returns >= top - 1e-9 * max(problem.model.unit, abs(top) * 1e-3)))
    pick = int(equal[np.lexsort((plans.literals[equal], np.round(changes[equal], 9)))[0]])
    return Scored(plans.list_of(pick, rules), float(returns[pick]), float(changes[pick]), int(plans.literals[pick]))
