r"""Direct search for rule lists.

To first order a move m in state s gains :math:`w(s, m) = d(s)\,[Q(s, m) - Q(s, z(s))]`, with visits d and look-ahead Q
of some plan. Boxes with a large sum of w are proposed at the plan with the rule, at the plan without it, and at the
optimum (states that the present plan never visits have no gain at the present plan). New rules go in front and behind;
each rule is re-optimised against the others; several lists that behave differently go on to the next size. Whatever is
kept has been valued exactly.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from polidiff.frontier.rule_plans.lists import ListedRule, Problem, Scored, best_boxes
from polidiff.frontier.rule_plans.model import DENSE_UP_TO, Point, best_choices, point_at, screen
from polidiff.progress import Clock, report
from polidiff.records.arrays import FloatArray, IntArray
from polidiff.rules.cell_grid import RuleList

REACH = 8
WIDER = 4  # times as many lists where returns tell nothing yet
OVERLAP = 0.8  # lists that share more of their changed visits count as the same
LITERAL_SHARE = 2e-4  # of the range, that a literal must earn while boxes are compared
FEW = 8  # columns of cells up to which boxes are cheap to find


@dataclass(frozen=True)
class SearchOptions:
    """How hard to look."""

    lists: int = 4  # lists that behave differently, extended to the next size
    refined: int = 1  # of these, how many have every rule re-optimised
    proposals: int = 24  # boxes proposed at each linearisation
    branch: int = 6  # of these, how many are valued exactly
    sweeps: int = 4


@dataclass(frozen=True, eq=False)
class Landmarks:
    """What the search knows about the problem before it starts."""

    current: Scored
    star: Point  # the best use of the moves
    ceiling: float  # its return
    weight: FloatArray  # (n,) visits of both

    @property
    def span(self) -> float:
        """Return of the best use of the moves minus the current return."""
        return max(self.ceiling - self.current.expected_return, 0.0)

    @property
    def tolerance(self) -> float:
        """Returns closer than this are equal."""
        return 1e-9 * max(self.span, 1e-3 * self.star.model.unit)


def landmarks(problem: Problem) -> Landmarks:
    """The current plan, and the best use of the moves by policy iteration from it."""
    model = problem.model
    total, changes = (float(value) for value in problem.value(())[:2])
    current = Scored((), total, changes, 0)
    choices = best_choices(model, np.ones(len(model.state_of), dtype=np.bool_), model.keep)
    assert choices is not None, "the current plan ends"
    ceiling, best = choices
    star = point_at(model, best)
    return Landmarks(current, star, ceiling, star.visits + problem.point(()).visits)


def search(
    problem: Problem,
    marks: Landmarks,
    max_rules: int,
    *,
    seeds: Iterable[RuleList] = (),
    clock: Clock | None = None,
) -> tuple[Scored, ...]:
    """The best list found with at most 0, 1, …, max_rules rules."""
    options = default_options(problem.model.size, len(problem.cells.sizes))
    searcher = _Searcher(problem, marks, options, clock or Clock())
    for seed in seeds:
        if problem.admits(seed):
            problem.score(seed)
    best = [problem.score(())]
    lists = [marks.current]
    for size in range(1, max_rules + 1):
        if best[-1].expected_return >= marks.ceiling - marks.tolerance:
            best += [best[-1]] * (max_rules + 1 - size)
            break
        report("rules searched", (size - 1) / max_rules, f"plans of {size} {'rule' if size == 1 else 'rules'}")
        lists = searcher.next_lists(lists, size)
        best.append(searcher.best(size))
        lists = searcher.spread([best[-1], *lists])
    report("rules searched", 1.0, f"{len(problem.evaluated)} plans valued exactly")
    return tuple(searcher.trim(scored, size) for size, scored in enumerate(best))


@dataclass(frozen=True, eq=False)
class _Searcher:
    problem: Problem
    marks: Landmarks
    options: SearchOptions
    clock: Clock

    def best(self, size: int) -> Scored:
        """The best list of at most `size` rules valued so far: most return, fewest changes, fewest literals."""
        able = [scored for scored in self.problem.evaluated.values() if len(scored.rules) <= size]
        top = max(scored.expected_return for scored in able)
        ties = [scored for scored in able if scored.expected_return >= top - self.marks.tolerance]
        return min(ties, key=lambda s: (round(s.changes, 9), s.literals, len(s.rules), s.rules))

    def next_lists(self, lists: list[Scored], size: int) -> list[Scored]:
        """Lists of at most `size` rules grown from shorter ones and from seeds, the best refined."""
        pool = [scored for scored in lists if len(scored.rules) < size]
        seeds = [s for s in self.problem.evaluated.values() if len(s.rules) == size]
        pool += self.ranked(seeds)[: self.options.lists]
        for scored in lists:
            if not self.clock.over() and len(scored.rules) < size:
                pool += self.extend(scored.rules)
        kept = self.spread(pool)
        for scored in kept[: self.options.refined]:
            kept.append(self.refine(scored))
        return self.spread(kept)

    def extend(self, rules: RuleList) -> list[Scored]:
        """The list with one more rule, in front or behind."""
        point = self.problem.point(rules)
        flat = self.problem.model.dense and self.flat(point.expected_return)
        grown: dict[RuleList, None] = {}
        for position in {0, len(rules)}:
            for at in (point_at(point.model, point.rows, self.marks.star.rows) if flat else point, self.marks.star):
                for rule in self.proposals(at, rules, position):
                    grown[(*rules[:position], rule, *rules[position:])] = None
        chosen = self.screened(point, list(grown))[: self.options.branch * (WIDER if flat else 1)]
        return [self.problem.score(new) for new in chosen]

    def proposals(self, at: Point, rest: RuleList, position: int) -> list[ListedRule]:
        """Rules to put at a position of `rest`, by first-order gain at a point."""
        problem = self.problem
        taken = np.zeros(problem.model.size, dtype=np.bool_)
        for move, box in rest[:position]:
            taken |= problem.covers(box) & (problem.row[move] >= 0)
        possible = (problem.row >= 0) & ~taken
        gain = at.ahead[np.maximum(problem.row, 0)] - at.ahead[problem.plan(rest)]
        weights = np.where(possible, at.visits * gain, 0.0)
        left = None if problem.max_literals is None else problem.max_literals - problem.literals(rest)
        return best_boxes(
            problem.finder,
            weights,
            conditions=problem.max_conditions,
            top=self.options.proposals,
            literal_cost=LITERAL_SHARE * self.marks.span,
            literals=left,
        )

    def screened(self, point: Point, lists: list[RuleList]) -> list[RuleList]:
        """Lists that are short enough, best estimate first."""
        able = [rules for rules in lists if self.problem.admits(rules)]
        if not able:
            return []
        plans, which = np.unique(np.stack([self.problem.plan(rules) for rules in able]), axis=0, return_index=True)
        sums = screen(self.problem.model, point, plans, exact=2 * self.options.branch)
        worth = sums[:, 0]
        for plan, brought in zip(plans, sums, strict=True):
            self.problem.remember(plan, brought)
        if self.flat(float(worth.max())) and self.problem.model.dense:
            worth = np.where(np.isfinite(worth), [self.helped(plan) for plan in plans], worth)
        order = np.lexsort((which, -worth))
        return [able[which[c]] for c in order if np.isfinite(worth[c])]

    def flat(self, expected_return: float) -> bool:
        """Whether a return tells nothing: no better than that of the current plan, as while no plan arrives."""
        return expected_return <= self.marks.current.expected_return + self.marks.tolerance

    def helped(self, plan: IntArray) -> float:
        """What a plan returns that the best use of the moves helps out half of the time: how good it is on the way."""
        return point_at(self.problem.model, plan, self.marks.star.rows).expected_return

    def ranked(self, scored: Iterable[Scored]) -> list[Scored]:
        """Most return first, less what literals cost."""
        cost = LITERAL_SHARE * self.marks.span
        unique = {s.rules: s for s in scored if np.isfinite(s.expected_return)}
        flat = self.problem.model.dense and self.flat(max((s.expected_return for s in unique.values()), default=0.0))
        helped = {rules: self.helped(self.problem.plan(rules)) if flat else 0.0 for rules in unique}
        return sorted(
            unique.values(),
            key=lambda s: (-(s.expected_return + helped[s.rules] - cost * s.literals), s.changes, s.rules),
        )

    def spread(self, scored: Iterable[Scored]) -> list[Scored]:
        """The best lists that behave differently."""
        kept: list[Scored] = []
        plans: list[IntArray] = []
        weight, keep = self.marks.weight, self.problem.model.keep
        for one in self.ranked(scored):
            plan = self.problem.plan(one.rules)
            alike = (
                weight[(plan == other) & (plan != keep)].sum()
                > OVERLAP * weight[(plan != keep) | (other != keep)].sum()
                for other in plans
            )
            if not any(alike) and not any((plan == other).all() for other in plans):
                kept.append(one)
                plans.append(plan)
                if len(kept) == self.options.lists * (WIDER if self.flat(one.expected_return) else 1):
                    break
        return kept

    def refine(self, scored: Scored) -> Scored:
        """Re-optimise each rule against the others until nothing gains."""
        tried: dict[int, RuleList] = {}  # the list in which each rule was last re-optimised in vain
        for _ in range(self.options.sweeps):
            before = scored.expected_return
            for index in range(len(scored.rules)):
                if self.clock.over():
                    return scored
                if tried.get(index) != scored.rules:
                    scored = self.reoptimise(scored, index)
                    tried[index] = scored.rules
            if scored.expected_return <= before + self.marks.tolerance:
                break
        return scored

    def reoptimise(self, scored: Scored, index: int) -> Scored:
        """The list with one rule replaced by a better one, in its place or in front."""
        rules = scored.rules
        rest = rules[:index] + rules[index + 1 :]
        problem = self.problem
        there, without = problem.point(rules), problem.point(rest)
        offers = [*self.shifts(rules[index]), *((move, rules[index][1]) for move in range(len(problem.row)))]
        for at in (there, without, self.marks.star):
            offers += self.proposals(at, rest, index)
        new = {(*rest[:q], rule, *rest[q:]): None for rule in offers for q in {index, 0}}
        new |= {(*rest[:q], rules[index], *rest[q:]): None for q in range(len(rules))}
        new.pop(rules, None)
        chosen = self.screened(there, list(new))[: max(2, self.options.branch // 2)]
        return max([scored, *(problem.score(one) for one in chosen)], key=lambda s: s.expected_return)

    def shifts(self, rule: ListedRule) -> Iterable[ListedRule]:
        """The rule with one bound moved by up to `REACH` cells, or one condition dropped."""
        move, box = rule
        for index, (column, first, last) in enumerate(box):
            top = int(self.problem.cells.sizes[column]) - 1
            moved = [(low, last) for low in _near(first, last)] + [(first, high) for high in _near(last, top, first)]
            for low, high in dict.fromkeys(moved):
                if (low, high) not in ((first, last), (0, top)):
                    yield move, (*box[:index], (column, low, high), *box[index + 1 :])
            yield move, box[:index] + box[index + 1 :]

    def trim(self, scored: Scored, size: int) -> Scored:
        """Equal return with fewer changes, then fewer literals: move bounds and drop rules while nothing is lost."""
        while np.isfinite(scored.expected_return) and not self.clock.over():
            rules = scored.rules
            near = {rules[:k] + rules[k + 1 :]: None for k in range(len(rules))}
            for k, rule in enumerate(rules):
                near.update({(*rules[:k], other, *rules[k + 1 :]): None for other in self.shifts(rule)})
            better = [s for s in self._equals(scored, list(near)) if self._shorter(s, scored)]
            if not better:
                break
            scored = min(better, key=lambda s: (round(s.changes, 9), s.literals, s.rules))
        return scored

    def _equals(self, scored: Scored, lists: list[RuleList]) -> list[Scored]:
        """Of these lists, those with the same return (found by screening, then valued exactly)."""
        able = [rules for rules in lists if self.problem.admits(rules)]
        if not able:
            return []
        point = self.problem.point(scored.rules)
        plans = np.stack([self.problem.plan(rules) for rules in able])
        worth = screen(self.problem.model, point, plans, exact=len(plans))[:, 0]
        close = np.flatnonzero(worth >= point.expected_return - 1e-6 * max(self.marks.span, 1e-12))
        limit = scored.expected_return - self.marks.tolerance
        return [s for s in (self.problem.score(able[c]) for c in close) if s.expected_return >= limit]

    def _shorter(self, one: Scored, other: Scored) -> bool:
        least = 1e-9 * max(1.0, other.changes)
        if one.changes < other.changes - least:
            return True
        return one.changes <= other.changes + least and one.literals < other.literals


def _near(cell: int, top: int, bottom: int = 0) -> Iterable[int]:
    return range(max(bottom, cell - REACH), min(top, cell + REACH) + 1)


def default_options(size: int, columns: int) -> SearchOptions:
    """Wider where a plan is cheap to value, on small models, and where boxes are cheap to find, over few features."""
    if size <= 200:
        return SearchOptions(lists=10, refined=5, proposals=40, branch=10)
    if size <= DENSE_UP_TO and columns <= FEW:
        return SearchOptions(lists=8, refined=4, proposals=40, branch=10)
    return SearchOptions() if size <= DENSE_UP_TO else SearchOptions(lists=3, branch=4, sweeps=2)
