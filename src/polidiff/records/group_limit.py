"""How large a group must be to be told of, and which names may then be told."""

from __future__ import annotations

import re
from dataclasses import dataclass

from polidiff.records.explanation import Explanation, Support, WorldSummary
from polidiff.records.plan import Frontier
from polidiff.records.rule import Rule

UNSHOWN = "a place that too few have met to be named"
QUOTED = re.compile(r"(?<!\w)(?:'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\")")


@dataclass(frozen=True)
class Limit:
    """How many people a group must have, and what is known about names."""

    least: int
    people: float  # of the whole log; episodes, where it does not know people
    world: WorldSummary
    plain: frozenset[str]  # names that may be quoted: of actions, outcomes, features, and of states that many met
    told: frozenset[str] = frozenset()  # actions that may be named
    known: frozenset[str] = frozenset()  # regions that are shown
    gone: frozenset[Rule] = frozenset()  # places of those that are not
    quoted: re.Pattern[str] = QUOTED  # a name; whole, where it may be told and holds quotes itself
    grown: bool = False  # whether the result was made with a smaller limit

    def enough(self, count: float) -> bool:
        """Whether so many may be shown."""
        return count >= self.least - 1e-9

    @property
    def episodes(self) -> float:
        """Of the whole log, of which one person may have several."""
        return float(self.world.facts.get("episodes", self.people))

    def decisions(self, support: Support) -> float:
        """In a region; of several by one person each is one, so a share of them is no share of people."""
        return _decisions(support, self.world)

    def names(self, feature: str, value: object) -> bool:
        """Whether a category or state may be named; without counts, there is nothing against it."""
        people = self.world.people.get(feature)
        return people is None or people.get(str(value), 0) >= self.least

    def states(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """States by name, where it is known how many met each."""
        return tuple(name for name in names if "state" in self.world.people and self.names("state", name))

    def text(self, text: str) -> str:
        """A remark without the names of states and cells that too few have met."""
        return self.quoted.sub(lambda m: m[0] if (m[1] or m[2] or m[0]) in self.plain else UNSHOWN, text)

    def action(self, name: str) -> str:
        """The name of an action, or words in place of one that too few took."""
        if name in self.told:
            return name
        names = [action.name for action in self.world.actions]
        return f"an action that few took ({names.index(name) if name in names else name})"


def _decisions(support: Support, world: WorldSummary) -> float:
    return max(support.episodes, support.share * float(world.facts.get("rows", 0)))


def actions_told(record: Explanation | Frontier, least: int) -> frozenset[str]:
    """Actions that may be named: nobody took them, enough did, or a policy gives them to enough.

    Others than those who get it have a decision each at least, which leaves so many people as get it for certain.
    Plans do not say how many get what they change, but what they give was tried often enough to be offered.
    """
    world = record.world
    told = {action.name for action in world.actions if not 0 < world.takers.get(action.name, 0) < least}
    if isinstance(record, Frontier):
        edits = ((plan.patch, edit) for plan in record.plans for edit in plan.patch.changing)
        return frozenset(told | {patch.swap(edit)[1] for patch, edit in edits})
    for support in (region.support for region in record.regions):
        others, decisions = support.episodes - least + 0.5, _decisions(support, world)
        given = ((entry.action, max(entry.current, entry.proposed)) for entry in support.actions)
        told |= {action for action, share in given if (1 - share) * decisions < others}
    return frozenset(told)
