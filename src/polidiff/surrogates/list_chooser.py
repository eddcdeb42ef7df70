"""Lists of rules found on some rows of a log, within limits on what a plan may change or cost.

A limit is kept by a price on what it limits: raised until the longest list is within it, then lowered half-way. Where
decisions follow each other, actions are first scored as if the current policy went on after them, then as if the list
that was found did (policy iteration), and no plan changes more of an episode than a log can follow.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from polidiff.evaluation.logged.plan import MIN_SUPPORT
from polidiff.evaluation.scores.difference import MOST_CHANGES
from polidiff.evaluation.scores.rule_lists import (
    ListOptions,
    ProvenList,
    RuleList,
    covers,
    grown_lists,
    merged,
    proven_lists,
    refined,
)
from polidiff.optimize import Clock
from polidiff.policies import one_hot
from polidiff.records.arrays import AnyArray, BoolArray, FloatArray
from polidiff.records.parse import Guard, parse_guard
from polidiff.surrogates.record import split_support
from polidiff.worlds.protocol import aim

if TYPE_CHECKING:
    from polidiff.surrogates.log_scores import ScorePlans

PRICE = 0.1  # of a bound, in standard deviations of a sum over all rows
TIGHTENED, TIGHTENED_AGAIN = 6, 3  # times that the price of a limit is moved, at first and from where it was before
CHOICES = 6  # that share a time limit: everyone's, and those of the five turns that judge
ROUNDS = 2  # of policy iteration, where decisions follow each other
FOLLOWED = 0.9 * MOST_CHANGES  # changed decisions of an episode up to which a log shows what a plan gains


@dataclass(frozen=True, eq=False)
class Limit:
    """What a plan may add to something, per episode."""

    cost: FloatArray  # (n, A) what every action adds in every row
    most: float


@dataclass(frozen=True, eq=False)
class Choice:
    """Lists of at most 1, 2, … rules, and the gains (n, A, M) by which they were chosen."""

    lists: list[ProvenList]
    gains: FloatArray


class ListChooser:
    """Finds lists on some of the rows that keep within limits."""

    def __init__(self, problem: ScorePlans, offered: list[bool]) -> None:
        self.problem, self.offered = problem, np.flatnonzero(offered)
        self.price: FloatArray | None = None  # that kept limits before
        options, decisions = problem.options, problem.scores.decisions
        share, least = split_support(options.min_support, MIN_SUPPORT)
        self.limits = ListOptions(
            max_rules=int(options.max_rules or 0),
            max_conditions=options.max_conditions,
            min_support=float(max(least, options.min_group)),
            min_share=share or 0.0,
            price=PRICE,
            max_literals=options.max_literals,
        )
        self.stopped = False  # whether time ran out while something was left to look for
        person_action = decisions.unit * decisions.n_actions + decisions.actions
        once = np.zeros(len(person_action), dtype=np.bool_)
        once[np.unique(person_action, return_index=True)[1]] = True  # whoever comes back stands behind a rule once
        free = once & ~problem.fixed
        self.support = (one_hot(decisions.actions, decisions.n_actions) * free[:, None])[:, self.offered]

    def choose(self, rows: BoolArray, *, proven: bool = False) -> Choice:
        """The best lists found on some rows, with bounds that tell more if they are to be `proven`."""
        scores, follow, limit = self.problem.scores, None, self.problem.options.time_limit
        clock = Clock(None if limit is None else limit / CHOICES)
        self.limits = replace(self.limits, clock=clock)
        rounds = 1 if scores.decisions.one_step else ROUNDS
        for number in range(rounds):
            gains = scores.gains(rows, follow)
            lists = self._within_limits(rows, gains, proven=proven and number == rounds - 1)
            follow = self.problem.table(lists[-1].rules) if lists else None
            if clock.over():
                break
        self.stopped |= clock.stopped
        return Choice(lists, gains)

    def _within_limits(self, rows: BoolArray, gains: FloatArray, *, proven: bool) -> list[ProvenList]:
        limits, value = self._limits(gains), self._aimed(gains)
        if not limits:
            return self._searched(rows, value, proven=proven)
        ceiling = float(np.maximum(value[rows][:, self.offered].max(axis=1), 0.0).sum())
        unit = [float(np.abs(value[rows]).mean() / max(np.abs(one.cost[rows]).mean(), 1e-300)) / 8 for one in limits]
        nothing = ProvenList((), -np.inf if any(limit.most < 0 for limit in limits) else 0.0, ceiling)
        best = [nothing] * self.limits.max_rules
        tightened = TIGHTENED if self.price is None else TIGHTENED_AGAIN
        price = np.zeros(len(limits)) if self.price is None else self.price
        low, high = np.zeros(len(limits)), np.full(len(limits), np.inf)
        for _ in range(tightened):
            lowered = value - sum((p * limit.cost for p, limit in zip(price, limits, strict=True)), start=0.0)
            tried = [one.rules for one in self._searched(rows, lowered)]
            for k, rules in enumerate(tried):
                new = ProvenList(rules, self.total(rules, rows, value), ceiling)
                if not any(self._over(rules, rows, limit) for limit in limits):
                    best[k:] = [max(old, new, key=lambda one: one.worth) for old in best[k:]]
            over = np.array([self._over(tried[-1] if tried else (), rows, limit) for limit in limits])
            low, high = np.where(over, price, low), np.where(over, high, price)
            if (not over.any() and not price.any()) or self.limits.clock.over():
                break
            price = np.where(np.isfinite(high), (low + high) / 2, np.maximum(4 * price, unit))
        self.price = price
        return best

    def nearest(self, rows: BoolArray, gains: FloatArray) -> str:
        """The best value found of what each guard limits, whatever becomes of the rest, in words."""
        episodes, said = int((self.problem.scores.decisions.first & rows).sum()), []
        for guard, k, _ in guards_of(self.problem):
            cost = (1.0 if guard.sense == "<=" else -1.0) * gains[:, :, k]
            lists = self._searched(rows, np.where(self.problem.scores.untried, np.minimum(-cost, 0.0), -cost))
            best = self.total(lists[-1].rules if lists else (), rows, gains[:, :, k]) / episodes
            said.append(f"{float(self.problem.present.estimate[k]) + best:.6g} for {guard.text!r}")
        return " and ".join(said)

    def _searched(self, rows: BoolArray, value: FloatArray, *, proven: bool = False) -> list[ProvenList]:
        """The best lists found over coarse cells, then with bounds at fine cells."""
        problem, cells = self.problem, self.problem.cells
        gains = np.where(problem.fixed[:, None], 0.0, value)[rows][:, self.offered]
        table = merged(
            problem.codes(coarse=True)[:, rows], cells.coarse_sizes, gains, self.support[rows], self.limits, cells.named
        )
        keep = np.column_stack([gains, np.zeros(len(gains))])
        grown = grown_lists(table)
        found = proven_lists(table, grown) if proven else [ProvenList(one, table.worth(one), np.inf) for one in grown]
        return [replace(one, rules=self._refined(one.rules, rows, keep)) for one in found]

    def _refined(self, rules: RuleList, rows: BoolArray, gains: FloatArray) -> RuleList:
        """The list over fine cells, with actions numbered as in the log."""
        cells, codes = self.problem.cells, self.problem.codes()[:, rows]
        fine = tuple((move, cells.as_fine(box)) for move, box in rules)
        better = refined(codes, cells.sizes, gains, fine)
        fine = better if self._supported(better, codes, rows) else fine
        number = [*self.offered.tolist(), self.problem.world.n_actions]
        return tuple((number[move], box) for move, box in fine)

    def _supported(self, rules: RuleList, codes: AnyArray, rows: BoolArray) -> bool:
        """Whether enough people stand behind every rule."""
        support = np.column_stack([self.support[rows], np.full(int(rows.sum()), np.inf)])
        left = np.ones(codes.shape[1], dtype=np.bool_)
        for move, box in rules:
            inside = left & covers(codes, box)
            if support[inside, move].sum() < self.limits.min_support or inside.mean() < self.limits.min_share:
                return False
            left &= ~inside
        return True

    def _aimed(self, gains: FloatArray) -> FloatArray:
        """(n, A) what is improved; where next to nobody took an action, nothing good is expected of it."""
        k, sign = aim(self.problem.world)
        value = np.where(self.problem.scores.untried, np.minimum(sign * gains[:, :, k], 0.0), sign * gains[:, :, k])
        return np.where(self.problem.fixed[:, None], 0.0, value)

    def total(self, rules: RuleList, rows: BoolArray, table: FloatArray) -> float:
        """What the moves of a list sum to, of a table (n, A), over some rows."""
        move = self.problem.moves(rules)
        whole = np.column_stack([table, np.zeros(len(table))])
        return float(whole[np.arange(len(move)), move][rows].sum())

    def _over(self, rules: RuleList, rows: BoolArray, limit: Limit) -> bool:
        """Whether a list exceeds a limit, over all episodes of the rows."""
        episodes = int((self.problem.scores.decisions.first & rows).sum())
        return self.total(rules, rows, limit.cost) > episodes * (limit.most + 1e-9)

    def _limits(self, gains: FloatArray) -> list[Limit]:
        problem = self.problem
        scores, budget = problem.scores, problem.options.budget
        several = [] if scores.decisions.one_step else [FOLLOWED]
        changes = [most for most in (budget, *several) if most is not None]
        counted = scores.current is None and budget is not None  # as changes of a plan are: by what the log did
        taken = one_hot(scores.decisions.actions, problem.world.n_actions) if counted else scores.base
        found = [Limit(1.0 - taken, min(changes))] if changes else []
        for guard, k, most in guards_of(problem):
            sign = 1.0 if guard.sense == "<=" else -1.0
            found.append(Limit(sign * gains[:, :, k], most))
        return found


def guards_of(problem: ScorePlans) -> list[tuple[Guard, int, float]]:
    """Each guard with its outcome, and by how much a plan may be worse than the current policy."""
    names = [outcome.name for outcome in problem.world.outcomes]
    keep = problem.options.keep
    texts = [keep] if isinstance(keep, (str, Guard)) else list(keep)
    found = []
    for text in texts:
        guard = parse_guard(text, names) if isinstance(text, str) else text
        k, sign = names.index(guard.outcome), 1.0 if guard.sense == "<=" else -1.0
        room = guard.value if guard.relative else guard.value - float(problem.present.estimate[k])
        found.append((guard, k, sign * room))
    return found
