"""What a policy achieves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from polidiff.records.assumption import Assumption
from polidiff.records.codec import Json, schema, to_dict
from polidiff.records.interval import Interval


@schema("evaluation", 1)
@dataclass(frozen=True)
class Evaluation:
    """Expected outcomes of a policy over the start distribution, and from each start where that is possible."""

    outcomes: Mapping[str, Interval]  # outcome name -> expected sum over an episode
    per_start: Mapping[str, Mapping[str, Interval]]  # outcome name -> start name -> interval; empty if starts have none
    method: str  # "exact", "exact, horizon 100", "10000 simulated episodes", …
    truncated: float  # share of episodes cut at the horizon
    details: Mapping[str, float] = field(default_factory=dict)  # episodes, length, …
    assumptions: tuple[Assumption, ...] = ()  # what is said of a log rests on

    def to_dict(self) -> dict[str, Json]:
        """The JSON form."""
        return to_dict(self)
