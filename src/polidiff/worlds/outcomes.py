"""The outcomes that a world tells about: the user's, and the return."""

from __future__ import annotations

from collections.abc import Sequence

from polidiff.records.outcome import Outcome, OutcomeOf, check_outcomes


def with_return(
    outcomes: Sequence[Outcome], return_name: str, include_return: bool, *, of: OutcomeOf
) -> tuple[Outcome, tuple[Outcome, ...]]:
    """The return as an outcome, and all outcomes that are told (the return first, unless left out)."""
    total = Outcome(return_name, of, prefer="more")
    told = (total, *outcomes) if include_return else tuple(outcomes)
    return total, check_outcomes(told)
