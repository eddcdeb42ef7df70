"""What a stage that plans needs of a world: a small table, and the way back from it.

A world is reduced to a surrogate, plans are found in the surrogate's table, lifted back to policies of the world, and
judged there: `judge(lift(solve(reduce(world))))`. Some surrogates are learned again near the plans that were found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from polidiff.errors import InvalidOptionError
from polidiff.options import ImproveOptions
from polidiff.records.explanation import Explanation
from polidiff.records.outcome import Assumption
from polidiff.records.plan import Frontier, Plan
from polidiff.records.rule import Rule

Explain = Callable[[Any, Any, Any], Explanation]


@dataclass(frozen=True)
class RuleNote:
    """A remark about a place: `before` "where" the rule holds, `after`."""

    before: str
    rule: Rule
    after: str


Note = str | RuleNote


@dataclass(frozen=True, eq=False, kw_only=True)
class Reduction:
    """A world as something small to plan in; a world that is small enough itself is lifted and judged as it is."""

    world: Any

    def solve(self, moves: Sequence[str]) -> Frontier | None:
        """The frontier, where plans are found without a table; `moves` are the actions that rules may prescribe."""
        return None

    def lift(self, plan: Plan) -> Plan:
        """A plan of the small thing as a plan of the world: its rules, patch and policy."""
        return plan

    def nearer(self, plans: Sequence[Plan]) -> Reduction | None:
        """The reduction learned again near the lifted plans; None if this one is good enough."""
        return None

    def judge(self, plans: Sequence[Plan], explain: Explain | None) -> tuple[Plan, ...]:
        """Lifted plans with what they bring in the world."""
        return tuple(plans)

    def conclude(self, solved: Frontier, plans: tuple[Plan, ...]) -> Frontier:
        """The frontier that was solved with the judged plans, told about the world."""
        return replace(solved, plans=plans)

    def notes(self, plans: Sequence[Plan]) -> tuple[Note, ...]:
        """What a reader must know about the way there and back."""
        return ()

    def assumptions(self) -> tuple[Assumption, ...]:
        """What the judged gains rest on."""
        return ()

    def places(self) -> dict[str, Rule]:
        """Places to plan in by name, where a rule says it better."""
        return {}


def refuse_with_rules(options: ImproveOptions) -> None:
    """Limits that count states do not bind plans that are lists of rules."""
    given = {"max_states": options.max_states, "change_cost": options.change_cost}
    name = next((name for name, value in given.items() if value is not None), None)
    if name is not None:
        raise InvalidOptionError(
            f"{name} does not go with max_rules where states have features: a rule changes every state that it covers. "
            "Hint: leave one of the two out, or give a budget"
        )
    if options.unit != "expected":
        raise InvalidOptionError(
            f"unit={options.unit!r} does not go with max_rules where states have features: plans are counted in rules. "
            "Hint: leave unit out; budget counts changed decisions per episode"
        )


def refuse_uncounted(options: ImproveOptions, what: str) -> None:
    """Limits that need the states of a table."""
    if options.unit != "expected":
        raise InvalidOptionError(f"unit='total' needs a table with equally likely starts; {what} has none")
    if options.change_cost is not None:
        raise InvalidOptionError(
            f"change_cost needs discrete states; {what} has none. Hint: leave it out, every changed decision counts 1"
        )


def refuse_pessimism(options: ImproveOptions) -> None:
    """Only a log has standard errors to subtract."""
    if options.pessimism:
        raise InvalidOptionError(f"pessimism must be 0 unless the world is a log; got {options.pessimism!r}")
