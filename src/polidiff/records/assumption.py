"""What a verdict from a log rests on: one assumption, how it was tested, and what follows if it does not hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Status: TypeAlias = Literal["held", "doubtful", "failed", "not testable"]


@dataclass(frozen=True)
class Assumption:
    """One thing that must be true of a log for its verdicts to be.

    >>> Assumption("drift", "early against late episodes", "held", "p = .40", "none", 0.4).alarming
    False
    """

    name: str  # "history", "drift", "overlap", "propensities", "independence", "cut episodes", …
    tested: str  # how, in words; "" where it cannot be
    status: Status
    detail: str  # what was seen, with numbers
    consequence: str  # what it means for the verdicts
    p_value: float | None = None  # None where the check is no test

    @property
    def alarming(self) -> bool:
        """Whether what was seen speaks against it."""
        return self.status in ("doubtful", "failed")
