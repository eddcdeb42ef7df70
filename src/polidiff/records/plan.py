"""The results of `improve` (plans, the bound above them, what each change is worth), of `check` and of `compare`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Real
from typing import Any, Literal, overload

from polidiff.errors import InvalidOptionError
from polidiff.records.codec import Document, Result, renderer, schema
from polidiff.records.explanation import Explanation, Methods, WorldSummary
from polidiff.records.outcome import Assumption, Interval, Outcome
from polidiff.records.patch import Patch
from polidiff.records.rule import Rule, within

UNKNOWN_GAIN = "its gain is not known: "  # how a plan's warning begins that says why


@dataclass(frozen=True)
class PlanRule:
    """One readable rule of a plan: where it holds, do this."""

    rule: Rule
    move: str  # "north", "pressor level 2", "order up to 34", "keep"
    applicable: float  # share of the visits in its box where the move is possible
    changes: float  # expected changed decisions that it causes
    without: float  # expected return of the plan if this rule is dropped

    @property
    def holds_back(self) -> bool:
        """Whether it changes nothing, and only keeps later rules away from where it holds."""
        return self.move == "keep" and not self.changes

    @property
    def deed(self) -> str:
        """What is done where it holds."""
        return "nothing changes" if self.holds_back else self.move


@dataclass(frozen=True)
class AdoptionPoint:
    """What happens when each change is followed only with probability `share`."""

    share: float
    expected_return: float
    outcomes: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Plan:
    """A patched policy with its value and the proof of it."""

    changes: float  # in the frontier's unit
    expected_return: float
    outcomes: Mapping[str, Interval]  # the return among them
    patch: Patch
    bound: float  # no plan with at most as many changes returns more; outside a table an estimate of that
    gap: float  # (bound − expected_return) as a share of the range from current to optimum
    proven: bool
    model_gap: float | None = None  # return in the model minus return in the world; None on a table
    rules: tuple[PlanRule, ...] = ()
    literals: int = 0
    share: float | None = None  # of the way from current to optimum
    applicable: float | None = None  # share of box visits where the moves are possible
    stability: float | None = None  # visit-weighted overlap of changed decisions over perturbed models
    adoption: tuple[AdoptionPoint, ...] = ()
    gain: Interval | None = None  # return minus the current policy's, judged on other data; None where it is exact
    kept: bool = True  # every guard is shown to be kept, not only estimated to be
    warnings: tuple[str, ...] = ()
    breaks: tuple[str, ...] = ()  # limits it does not keep: the current policy is listed, to compare with, even so
    holds_up_to: float | None = None  # strength Γ of unrecorded reasons at which the gain's interval meets 0; logs only
    rests_on: str | None = None  # how many people, what was tested, what cannot be, what would change it; logs only
    sentences: tuple[str, ...] = ()  # the plan explained against the current policy, in words; empty until asked for
    changes_interval: Interval | None = None  # of `changes`, where they were counted in played episodes
    policy: Any = field(default=None, repr=False, metadata={"json": False})
    assumptions: tuple[Assumption, ...] = field(default=(), repr=False, metadata={"json": False})  # behind its gain
    _explain: Callable[[], Explanation] | None = field(default=None, repr=False, metadata={"json": False})

    @cached_property
    def explanation(self) -> Explanation:
        """The plan against the current policy, explained when asked for."""
        if self._explain is None:
            raise InvalidOptionError(
                "a plan read from a file has no world to explain it in. Hint: call improve again, or explain"
            )
        return self._explain()

    @property
    def explainable(self) -> bool:
        """Whether the world is at hand to explain it in."""
        return self._explain is not None

    def without(self, index: int) -> float:
        """Expected return if one of the rules is dropped."""
        return self.rules[index].without

    def makes(self, entry: LedgerEntry) -> bool:
        """Whether it makes a change of the ledger, or a part of it."""
        place, swap = entry.rule, (entry.current, entry.proposed)
        rules = [edit.rule for edit in self.patch.changing if self.patch.swap(edit) == swap]
        return place is not None and any(within(rule, place) or within(place, rule) for rule in rules)


@dataclass(frozen=True)
class HullPoint:
    """A vertex of the stochastic bound: no policy, mixed or not, lies above the lines through these."""

    changes: float
    expected_return: float


@dataclass(frozen=True)
class Baseline:
    """What a simpler method finds: points (changes, expected return) in the order it finds them."""

    name: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class LedgerEntry:
    """One offered change and what it is worth."""

    change: str  # "s5: 0 → 1"
    state: str
    current: str
    proposed: str
    alone: float | None  # gain in return when made alone; None: episodes would then never end
    removed: float | None  # gain when added last to the plan; None: what is left would never end
    shapley: Interval
    needs: tuple[str, ...] = ()  # worth ≤ 0 alone, > 0 with one of these
    conflicts: tuple[str, ...] = ()  # each is worth less beside the other, and both less than the better one
    key: str = ""  # made from swap and place alone, as that of a region
    rule: Rule | None = None  # where it is made; None in results of older versions


@dataclass(frozen=True)
class Ledger:
    """What every offered change is worth, alone and with the others."""

    entries: tuple[LedgerEntry, ...]
    order: tuple[str, ...]  # best order to adopt
    running: tuple[float | None, ...]  # expected return after each step of that order; None: it never ends there
    exact: bool  # Shapley values computed over all subsets, not sampled


@schema("frontier", 1)
@dataclass(frozen=True, eq=False, repr=False)
class Frontier(Result, Sequence[Plan]):
    """All non-dominated plans found, fewest changes first.

    `plans` begins with the current policy even where that breaks a limit; a frontier as a sequence then leaves it out.
    """

    plans: tuple[Plan, ...]
    hull: tuple[HullPoint, ...]
    baselines: tuple[Baseline, ...]
    ledger: Ledger | None
    gap: float  # largest distance between frontier and proven bound, as a share of the range
    unit: Literal["expected", "total", "rules", "states"]
    outcomes: tuple[Outcome, ...]
    current_return: float  # of the current policy as it is (stochastic or not)
    optimum: float  # best return of any policy; for moves, of any use of the moves
    world: WorldSummary
    methods: Methods
    warnings: tuple[str, ...] = ()
    assumptions: tuple[Assumption, ...] = ()  # what gains judged on a log rest on
    stats: Mapping[str, float | int | str] = field(default_factory=dict)  # nodes, pivots, seconds, limits met
    budget: float | None = None  # the one that plans were sought for; None: every one
    objective: str = ""  # name of the outcome that plans improve; of one that is better less, returns are minus it
    context: Any = field(default=None, repr=False, metadata={"json": False})

    @overload
    def __getitem__(self, index: int) -> Plan: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Plan, ...]: ...
    def __getitem__(self, index: int | slice) -> Plan | tuple[Plan, ...]:
        return self.eligible[index]

    def __iter__(self) -> Iterator[Plan]:
        return iter(self.eligible)

    def __len__(self) -> int:
        return len(self.eligible)

    def at(self, budget: float) -> Plan:
        """The best plan with at most `budget` changes; an error where no such plan was sought."""
        known = isinstance(budget, Real)
        affordable = [plan for plan in self.eligible if known and self.cost(plan) <= budget + 1e-9]
        if not affordable and known and self.plans[0].breaks:
            least = self.cost(self.eligible[0])
            raise InvalidOptionError(f"every plan that keeps its limits costs {least:g} or more; got {budget!r}")
        if not affordable:
            raise InvalidOptionError(f"a budget must be a number of at least 0; got {budget!r}")
        if self.budget is not None and not self._sought(budget):
            raise InvalidOptionError(
                f"only the best plan within a budget of {self.budget:g} was sought, and it costs "
                f"{self.cost(self.eligible[-1]):g}; got {budget!r}. Hint: call improve with budget={budget!r}, or "
                "without one for every plan"
            )
        return affordable[-1]

    def _sought(self, budget: float) -> bool:
        """Whether the answer to another budget is known: nothing, the plan that was sought, or the optimum."""
        least, most = self.cost(self.eligible[0]), self.cost(self.eligible[-1])
        near = 1e-9 * abs(self.optimum - self.current_return) + 1e-12 * abs(self.optimum)
        reached = self.optimum - self.eligible[-1].expected_return <= near
        return budget <= least + 1e-9 or (most <= budget + 1e-9 and (budget <= (self.budget or 0.0) + 1e-9 or reached))

    @property
    def aim(self) -> str:
        """What plans improve, by its own name."""
        return self.objective or "return"

    @property
    def sign(self) -> float:
        """−1 where returns are minus the outcome that plans improve, because less of it is better; else 1."""
        lower = any(outcome.name == self.objective and outcome.prefer == "less" for outcome in self.outcomes)
        return -1.0 if lower else 1.0

    @property
    def judged(self) -> bool:
        """Whether gains were estimated on data that did not choose the plans, and not worked out exactly."""
        return any(plan.gain is not None for plan in self.plans)

    def gain_of(self, plan: Plan) -> Interval:
        """What a plan gains over the current policy: as it was judged, or exactly."""
        if plan.gain is not None:
            return plan.gain
        return Interval.exactly(plan.expected_return - self.plans[0].expected_return)

    @property
    def eligible(self) -> tuple[Plan, ...]:
        """The plans to choose from: all but a current policy that breaks a limit, unless it is all there is."""
        return self.plans[1:] if len(self.plans) > 1 and self.plans[0].breaks else self.plans

    @property
    def best(self) -> Plan:
        """The plan to choose: the most return where returns are exact, else the highest lower bound of the gain.

        Of plans that are shown to gain, those that are shown to keep every guard go before others. Of equals the one
        with the fewest changes; the first plan, the current policy, where no plan is shown to gain. A current policy
        that breaks a limit is no choice.
        """
        if not self.judged:
            return max(self.eligible, key=lambda plan: plan.expected_return)
        sure = [plan for plan in self.eligible if plan.kept and _shown_gain(plan, self.plans[0]) > 0]
        return max(sure or self.eligible, key=lambda plan: _shown_gain(plan, self.plans[0]))

    @property
    def knee(self) -> Plan:
        """Where further changes begin to pay less than the average one: the plan to look at first.

        Of the plans up to the best, the one highest above the line from the current policy to the best; the best where
        none is above it. By the lower bound of the gain where gains were judged. In a log the best itself: what a
        further change adds to another is not known there.
        """
        best, nothing, judged = self.best, self.plans[0], self.judged
        if self.world.recorded:
            return best
        gain = {
            id(plan): _shown_gain(plan, nothing) if judged else plan.expected_return - nothing.expected_return
            for plan in self.plans
        }
        most, cost = gain[id(best)], self.cost(best)
        if best is nothing or not cost or not most > 0:
            return best
        offered = [plan for plan in self.eligible if self.cost(plan) <= cost and gain[id(plan)] > 0]
        above = max(offered, key=lambda plan: (gain[id(plan)] / most - self.cost(plan) / cost, -self.cost(plan)))
        return above if gain[id(above)] / most - self.cost(above) / cost > 1e-9 else best

    def number(self, plan: Plan) -> int:
        """By which number a plan is told: its place in `plans`, so that plan 0 changes nothing."""
        return next(k for k, known in enumerate(self.plans) if known is plan)

    def cost(self, plan: Plan) -> float:
        """What a plan costs in the frontier's unit: plans told as rules are compared by their number of rules."""
        return float(len(plan.rules)) if self.unit == "rules" else plan.changes

    def to_frame(self) -> Any:
        """One row per plan, as a polars data frame."""
        import polars as pl

        names = list(self.plans[0].outcomes) if self.plans else []
        rows = [
            {
                "changes": plan.changes,
                "expected_return": plan.expected_return,
                "bound": plan.bound,
                "gap": plan.gap,
                "proven": plan.proven,
                "rules": len(plan.rules),
                "edits": len(plan.patch),
                **{name: plan.outcomes[name].estimate for name in names},
            }
            for plan in self.plans
        ]
        return pl.DataFrame(rows)

    def __str__(self) -> str:
        return renderer("frontier_text")(self)

    def chart(self, which: str = "frontier") -> Any:
        """A chart object for a notebook: "frontier", "ledger" or "adoption"."""
        return renderer("chart")(self, which)


def _shown_gain(plan: Plan, nothing: Plan) -> float:
    """What a plan gains at least; nothing for the current policy, and no plan is shown to gain without an interval."""
    if plan is nothing:
        return 0.0
    return plan.gain.low if plan.gain is not None and math.isfinite(plan.gain.low) else -math.inf


@schema("check", 1)
@dataclass(frozen=True)
class CheckResult(Document):
    """Whether a release may pass, and why not."""

    passed: bool
    reasons: tuple[str, ...]  # empty when passed
    checked: tuple[str, ...] = ()  # what was looked at, in words
    unjudged: tuple[str, ...] = ()  # outcomes of which nobody said whether more or less is better


ChangeStatus = Literal["new", "gone", "larger", "smaller", "same"]


@dataclass(frozen=True)
class DifferenceChange:
    """One change of decisions, or one group that loses, in the older and in the newer result."""

    status: ChangeStatus
    words: str  # as the newer result tells it; as the older one does where it is gone
    key: str  # made from swap and place alone, in the result that `words` is from
    old: str | None  # its number in the older result
    new: str | None
    before: Interval | None  # its size; None where it was not there, or not measured
    after: Interval | None
    place_before: str | None = None  # where it was, if its bounds have moved


@dataclass(frozen=True)
class VerdictChange:
    """What both results say about one outcome; better, worse, more, less, same or unknown."""

    outcome: str
    status: Literal["turned", "larger", "smaller", "same", "new", "gone"]
    reading_before: str | None
    reading_after: str | None
    before: Interval | None  # the difference that the older result tells
    after: Interval | None


@dataclass(frozen=True)
class AssumptionChange:
    """What both results say about one assumption of a log; None where it was not looked at."""

    name: str
    before: str | None
    after: str | None


@schema("comparison", 1)
@dataclass(frozen=True)
class ResultComparison(Result):
    """Which differences are new, gone, larger or smaller in a newer result, and which verdicts have turned."""

    kind: Literal["explanation", "frontier"]
    measure: str  # what the size of a difference is
    differences: tuple[DifferenceChange, ...]
    verdicts: tuple[VerdictChange, ...]
    losers: tuple[DifferenceChange, ...]  # groups that are shown to lose
    advice_before: str
    advice_after: str
    outcomes: tuple[Outcome, ...]
    assumptions: tuple[AssumptionChange, ...] = ()  # those whose status has changed
    cautions: tuple[str, ...] = ()  # why the two may not be comparable
    setbacks: tuple[str, ...] = ()  # what has changed for the worse, in words
    study: str = ""  # title of the newer study, if it has one

    @property
    def changed(self) -> bool:
        """Whether anything but figures within their intervals has changed."""
        statuses = [change.status for change in (*self.differences, *self.losers)]
        verdicts = [verdict.status for verdict in self.verdicts]
        return bool({*statuses, *verdicts} - {"same"}) or bool(self.assumptions)

    def __str__(self) -> str:
        return renderer("comparison_text")(self)
