"""Limits on outcomes (`keep`), asked of plans once more where they are judged: on data that did not choose them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from polidiff.errors import InfeasibleError
from polidiff.records.numbers import interval_numbers
from polidiff.records.outcome import Interval, Outcome
from polidiff.records.parse import Guard, parse_guard
from polidiff.records.plan import Frontier, Plan

if TYPE_CHECKING:
    from polidiff.options import Keep

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
    names = [outcome.name for outcome in outcomes]
    rooms = []
    for text in [keep] if isinstance(keep, (str, Guard)) else keep:
        guard = parse_guard(text, names) if isinstance(text, str) else text
        place = names.index(guard.outcome)
        room = guard.value if guard.relative else guard.value - now[place]
        rooms.append(GuardRoom(guard, place, float(now[place]), float(guard.sign * room)))
    return rooms


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
