"""What a stage that plans needs of a world: a small table, and the way back from it.

A world is reduced to a surrogate, plans are found in the surrogate's table, lifted back to policies of the world, and
judged there: `judge(lift(solve(reduce(world))))`. Some surrogates are learned again near the plans that were found.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from polidiff.errors import InfeasibleError, InvalidOptionError
from polidiff.options import ImproveOptions
from polidiff.policies.protocol import Candidates, PolicyLike
from polidiff.records.action import Action
from polidiff.records.arrays import AnyArray, BoolArray, FloatArray, as_numbers
from polidiff.records.explanation import Explanation, Verdict, WorldSummary
from polidiff.records.numbers import interval_numbers
from polidiff.records.outcome import Assumption, Interval, Outcome
from polidiff.records.parse import Guard, parse_guards, parse_rules
from polidiff.records.plan import UNKNOWN_GAIN, Frontier, Plan
from polidiff.records.rule import Rule, covers_any
from polidiff.worlds.protocol import World, aim

if TYPE_CHECKING:
    from polidiff.options import ChangeCost, Freeze, Keep
    from polidiff.surrogates.log_edits import RegionEdits
    from polidiff.surrogates.table import Surrogate


Explain = Callable[[World, PolicyLike, PolicyLike], Explanation]


@dataclass(frozen=True)
class RuleNote:
    """A remark about a place: `before` "where" the rule holds, `after`."""

    before: str
    rule: Rule
    after: str


Note = str | RuleNote


class Solver(Protocol):
    """Ways to find plans, which the stage that plans brings along; limits on plans are its own."""

    def changed_places(self, surrogate: Surrogate) -> Frontier:
        """Sets of places of a table in which another action is taken."""

    def rules(self, surrogate: Surrogate) -> Frontier:
        """Lists of rules over a table's features."""

    def edits(self, problem: RegionEdits) -> Frontier:
        """Sets of edits whose worth a function tells."""

    def prescribed(self, actions: Sequence[Action], where: str) -> list[str]:
        """The actions that rules may prescribe where nothing is a current action."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Reduction:
    """A world as something small to plan in; a world that is small enough itself is lifted and judged as it is."""

    world: World

    def solve(self, solver: Solver) -> Frontier:
        """The frontier of the small thing."""
        raise NotImplementedError

    def lift(self, plan: Plan) -> Plan:
        """A plan of the small thing as a plan of the world: its rules, patch and policy."""
        return plan

    def nearer(self, plans: Sequence[Plan]) -> Reduction | None:
        """The reduction learned again near the lifted plans; None if this one is good enough."""
        return None

    def judge(self, plans: Sequence[Plan]) -> tuple[Plan, ...]:
        """Lifted plans with what they bring in the world."""
        return tuple(plans)

    def conclude(self, solved: Frontier, plans: tuple[Plan, ...]) -> Frontier:
        """The frontier that was solved with the judged plans, told about the world."""
        return replace(solved, plans=plans)

    def notes(self, plans: Sequence[Plan]) -> tuple[Note, ...]:
        """What a reader must know about the way there and back."""
        return self.world.notes

    def assumptions(self) -> tuple[Assumption, ...]:
        """What the judged gains rest on."""
        return ()

    def places(self) -> dict[str, Rule]:
        """Places to plan in by name, where a rule says it better."""
        return {}


def told_of_world(solved: Frontier, plans: tuple[Plan, ...], world: WorldSummary, method: str) -> Frontier:
    """The frontier that was solved in a surrogate with plans that the world has judged, told about the world."""
    methods = replace(solved.methods, evaluation=method)
    return replace(solved, plans=plans, current_return=plans[0].expected_return, world=world, methods=methods)


WITH_RULES = (
    "does not go with max_rules where states have features: a rule changes every state that it covers; a log judges "
    "it on data that did not choose it. Hint: leave one of the two out; budget counts changed decisions per episode"
)
NO_LOG = "is for logs only, whose estimates have standard errors to subtract. Hint: leave it out"


def refuse(options: ImproveOptions, names: Sequence[str], why: str) -> None:
    """An error that says why the first of these options that is given cannot be."""
    for name in names:
        value, neutral = getattr(options, name), getattr(ImproveOptions, name)
        if value is not None and not (np.isscalar(value) and value == neutral):
            raise InvalidOptionError(f"{name} {why}")


def change_costs(given: ChangeCost | None, shape: tuple[int, int]) -> FloatArray:
    """(S, A) what a changed decision counts, 1 by default: one number for all, per action, per state, or per both.

    >>> change_costs(np.array([[1.0], [2.0]]), (2, 2)).tolist()
    [[1.0, 1.0], [2.0, 2.0]]
    """
    costs = as_numbers(1.0 if given is None else given)
    if costs is None or costs.shape not in ((), shape[1:], (1, shape[1]), (shape[0], 1), shape):
        raise InvalidOptionError(
            f"change_cost must be a number, one per action ({shape[1]},) or per state and action {shape}; got "
            + (f"{given!r:.80}" if costs is None else f"shape {costs.shape}")
        )
    return np.broadcast_to(costs, shape)


def listed_candidates(candidates: Candidates, otherwise: str) -> list[PolicyLike]:
    """The candidates of a user who must give some."""
    if not candidates:
        raise InvalidOptionError(
            "improve needs candidates here: policies whose changes may be taken. Hint: improve(world, current, "
            f"[proposed_1, proposed_2]), {otherwise}"
        )
    return list(candidates)


def frozen_rules(freeze: Freeze, names: Sequence[str]) -> tuple[Rule, ...]:
    """Where nothing may change, as rules over features.

    >>> [rule.features for rule in frozen_rules("x < 1 or y >= 2", ("x", "y"))]
    [('x',), ('y',)]
    """
    if isinstance(freeze, np.ndarray):
        raise InvalidOptionError("freeze must be conditions on features here, such as 'age < 18'; got a mask of states")
    rules: list[Rule] = []
    for entry in (freeze,) if isinstance(freeze, (str, Rule)) else freeze:
        rules += parse_rules(entry, tuple(names)) if isinstance(entry, str) else [entry]
    return tuple(rules)


def sparing_rules(frozen: Sequence[Rule], spared: Mapping[int, frozenset[str]]) -> tuple[Rule, ...]:
    """Where nothing may change, with the words that are spared, which would be named where a word may change."""
    rules = []
    for rule in frozen:
        first = rule.conditions[0]
        if len(rule.conditions) == 1 and first.values is not None:
            others = sorted(spared.get(first.column, frozenset()) - {str(value) for value in first.values})
            rule = Rule((replace(first, values=(*first.values, *others)),))
        rules.append(rule)
    return tuple(rules)


def frozen_states(freeze: Freeze, names: Sequence[str], features: AnyArray) -> BoolArray:
    """(S,) states of a table, with these features (S, d), where nothing may change."""
    if isinstance(freeze, np.ndarray):
        mask = np.asarray(freeze, dtype=np.bool_)
        if mask.shape != (len(features),):
            raise InvalidOptionError(f"freeze as a mask must have shape ({len(features)},); got {mask.shape}")
        return mask
    rules = frozen_rules(freeze, names)
    return covers_any(rules, features) if rules else np.zeros(len(features), dtype=np.bool_)


def split_support(value: float | None, default: int) -> tuple[float | None, int]:
    """`min_support` where it has two meanings: a share of what rules speak about, and a count of what they rest on.

    >>> split_support(0.05, 10), split_support(20, 10), split_support(None, 10)
    ((0.05, 10), (None, 20), (None, 10))
    """
    if value is not None and value < 1:
        return value, default
    return None, default if value is None else int(value)


def least_records(value: float | None, default: int) -> int:
    """`min_support` where plans are no lists of rules, behind which a share of visits could stand: a count."""
    share, least = split_support(value, default)
    if share is not None:
        raise InvalidOptionError(
            f"min_support counts the records behind a decision here, a whole number from 1 on; got {share:g}. Hint: "
            f"min_support={default}; a share of visits stands behind rules over features (max_rules=)"
        )
    return least


SLACK = 1e-9


@dataclass(frozen=True)
class GuardRoom:
    """A guard with the current policy's value of its outcome, and by how much a plan may be worse."""

    guard: Guard
    place: int  # of its outcome
    now: float
    most: float

    def keeps(self, value: float) -> bool:
        """Whether a value of the outcome is within the guard; one that is not known is not."""
        return self.guard.sign * (value - self.now) <= self.most + SLACK * (1 + abs(self.now))

    def nearest(self, values: Sequence[float]) -> str:
        """The best of some values, in words."""
        return f"{self.guard.sign * min(self.guard.sign * value for value in values):.6g} for {self.guard.outcome!r}"

    def doubt(self, change: Interval) -> tuple[str, ...]:
        """What is to be said where a change of the outcome is not shown to be within the guard."""
        if max(self.guard.sign * change.low, self.guard.sign * change.high) <= self.most:
            return ()
        _, least, largest = interval_numbers(change, signs=True)
        return (f"this plan is not shown to keep {self.guard.text}: {self.guard.outcome!r} changes by "
                f"{least} to {largest}",)  # fmt: skip


def guard_rooms(keep: Keep, outcomes: Sequence[Outcome], now: Sequence[float]) -> list[GuardRoom]:
    """Every guard with its room, by what the current policy is estimated to bring of each outcome."""
    names, rooms = [outcome.name for outcome in outcomes], []
    for guard in parse_guards(keep, names):
        place = names.index(guard.outcome)
        room = guard.value if guard.relative else guard.value - now[place]
        rooms.append(GuardRoom(guard, place, float(now[place]), float(guard.sign * room)))
    return rooms


def with_verdicts(
    plan: Plan, verdicts: Sequence[Verdict], assumptions: tuple[Assumption, ...], world: World, options: ImproveOptions
) -> Plan:
    """A plan with what verdicts say of it; its bound stays as far above its return as it was."""
    k, sign = aim(world)
    outcomes = {v.outcome: v.proposed for v in verdicts if v.proposed is not None}
    value, gain = sign * outcomes[world.outcomes[k].name].estimate, verdicts[k].difference.scaled(sign)
    bound = value + (plan.bound - plan.expected_return)  # in this order no rounding puts it below the return
    judged = replace(plan, expected_return=value, outcomes=outcomes, bound=bound, proven=False)
    if not plan.patch.edits:
        return judged
    now = [v.current.estimate for v in verdicts if v.current is not None]
    rooms = guard_rooms(options.keep, world.outcomes, now)
    unkept = tuple(text for room in rooms for text in room.doubt(verdicts[room.place].difference))
    unshown = () if gain.low > 0 else _not_shown(verdicts[k], gain)
    return replace(
        judged,
        gain=gain,
        warnings=(*plan.warnings, *unshown, *unkept),
        kept=not unkept,
        holds_up_to=verdicts[k].holds_up_to,
        rests_on=verdicts[k].rests_on,
        assumptions=assumptions,
    )


def _not_shown(verdict: Verdict, gain: Interval) -> tuple[str, ...]:
    """That a plan is not shown to gain, and, behind `UNKNOWN_GAIN`, why."""
    said = f"this plan is not shown to improve {verdict.outcome!r}"
    if math.isfinite(gain.width):
        _, low, high = interval_numbers(gain)
        said += f": the gain lies between {low} and {high}"
    return (said, UNKNOWN_GAIN + verdict.note) if verdict.direction == "unknown" and verdict.note else (said,)


def without_broken(frontier: Frontier, rooms: Sequence[GuardRoom]) -> Frontier:
    """The frontier without plans that break a guard by what they were judged to bring, and a note of them.

    The current policy stays to compare with, and the ledger only with the plan that it speaks of.
    """

    def breaks(plan: Plan) -> tuple[str, ...]:
        return tuple(r.guard.text for r in rooms if not r.keeps(plan.outcomes[r.guard.outcome].estimate))

    def keeps(plan: Plan) -> bool:
        return not breaks(plan)

    def nearest(plans: Sequence[Plan]) -> str:
        return " and ".join(room.nearest([p.outcomes[room.guard.outcome].estimate for p in plans]) for room in rooms)

    if not rooms:
        return frontier

    changing = [plan for plan in frontier.plans if plan.patch.edits]
    nothing = [plan for plan in frontier.plans if not plan.patch.edits]
    broken, notes = [plan for plan in changing if not keeps(plan)], []
    if len(broken) == len(changing) and not any(map(keeps, nothing)):
        raise InfeasibleError(
            f"no plan keeps {' and '.join(repr(room.guard.text) for room in rooms)} on data that did not choose it; "
            f"the best found is {nearest(frontier.plans)}. Hint: loosen it, or allow more changes"
        )
    if broken:
        notes.append(
            f"{len(broken)} of {len(changing)} plans break what is to be kept, on data that did not choose them, and "
            f"are left out; their best is {nearest(broken)}."
        )
    left = tuple(replace(plan, breaks=breaks(plan)) for plan in frontier.plans if plan not in broken)
    frontier = replace(frontier, warnings=(*frontier.warnings, *notes))
    if not broken:
        return replace(frontier, plans=left)
    return replace(
        frontier, plans=left, gap=max(plan.gap for plan in left), optimum=max(plan.bound for plan in left),
        ledger=None if frontier.plans[-1] in broken else frontier.ledger,
    )  # fmt: skip
