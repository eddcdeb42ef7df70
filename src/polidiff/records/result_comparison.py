"""The difference of two differences: what an older result said and a newer one does not, and the other way round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from polidiff.records.codec import schema
from polidiff.records.outcome import Interval, Outcome
from polidiff.records.rendering import Result, renderer

Status = Literal["new", "gone", "larger", "smaller", "same"]


@dataclass(frozen=True)
class DifferenceChange:
    """One change of decisions, or one group that loses, in the older and in the newer result."""

    status: Status
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

    @property
    def changed(self) -> bool:
        """Whether anything but figures within their intervals has changed."""
        statuses = [change.status for change in (*self.differences, *self.losers)]
        verdicts = [verdict.status for verdict in self.verdicts]
        return bool({*statuses, *verdicts} - {"same"}) or bool(self.assumptions)

    def __str__(self) -> str:
        text: str = renderer("comparison_text")(self)
        return text
