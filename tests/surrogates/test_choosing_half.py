"""What the half that chose a plan says of it, beside the half that judges."""

from __future__ import annotations

from dataclasses import replace

import pytest

from polidiff.records.outcome import Interval, Outcome
from polidiff.surrogates.log_states import _curse
from tests.report.samples import frontier


@pytest.mark.parametrize(
    ("prefer", "says"),
    [
        (
            "more",
            "it gains +7.396 with its rows as counted, +7 with its rows shrunk; the other half says +4 percentage",
        ),
        (
            "less",
            "it changes fall by −7.396 with its rows as counted, −7 with its rows shrunk; the other half says −4 ",
        ),
    ],
)
def test_gains_of_both_halves_have_the_unit_and_the_sign_of_the_gains_told(prefer, says):
    record = frontier()
    judged = replace(record.plans[-1], rules=(), gain=Interval(0.04, 0.01, 0.07, 0.95))
    record = replace(
        record, plans=(judged,), outcomes=(Outcome("fall", range=(0, 1), prefer=prefer),), objective="fall"
    )
    promises = {
        f"gain said by the choosing half with 0 rules, {way}": gain
        for way, gain in (("raw", 0.07396), ("shrunk", 0.07))
    }
    (note,) = _curse(record, promises)
    assert says in note
    assert note.endswith(" percentage points.")
