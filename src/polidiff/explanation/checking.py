"""Gates for a release: what must hold before a proposed policy may pass."""

from __future__ import annotations

import math

from polidiff.evaluation.comparison import CHOSEN
from polidiff.explanation.text import unit_text
from polidiff.explanation.words import interval_text
from polidiff.options import CheckOptions
from polidiff.records.explanation import Explanation, Verdict
from polidiff.records.numbers import number
from polidiff.records.outcome import Outcome
from polidiff.records.parse import Guard, parse_guards
from polidiff.records.plan import CheckResult
from polidiff.records.suppression import suppressed


def check_explanation(explanation: Explanation, options: CheckOptions) -> CheckResult:
    """Reasons against the proposed policy; none, and it passes."""
    reasons: list[str] = []
    checked: list[str] = []
    unjudged: tuple[str, ...] = ()
    told = suppressed(explanation)  # the true number decides, and no more is said than a page says
    if options.max_changes is not None:
        most, unit = number(options.max_changes), unit_text(told.world)
        checked.append(f"at most {most} {unit}")
        if explanation.changes > options.max_changes + 1e-9:
            reasons.append(f"{number(told.changes)} {unit}; allowed {most}")
    by_name = {verdict.outcome: verdict for verdict in told.verdicts}
    outcomes = {outcome.name: outcome for outcome in told.outcomes}

    def figures(verdict: Verdict) -> str:
        known = not math.isnan(verdict.difference.estimate)
        shown = interval_text(verdict.difference, outcome=outcomes.get(verdict.outcome))
        return shown if known else verdict.note or "nothing is known of it"

    for guard in parse_guards(options.keep, list(by_name)):
        checked.append(guard.text)
        reason = _broken(guard, by_name[guard.outcome], outcomes.get(guard.outcome))
        if reason:
            reasons.append(reason)
    if not options.allow_unknown:
        checked.append("no outcome is unknown")
        unknown = [v for v in told.verdicts if v.direction == "unknown"]
        reasons += [f"the effect on {v.outcome} is unknown ({figures(v)})" for v in unknown]
    if options.keep or not options.allow_unknown:
        reasons += [a.detail for a in told.assumptions if a.name == CHOSEN and a.alarming]
    if not options.keep:
        judged = [outcome.name for outcome in explanation.outcomes if outcome.prefer is not None]
        unjudged = tuple(outcome.name for outcome in explanation.outcomes if outcome.prefer is None)
        if judged:
            checked.append(f"{'none of ' + ', '.join(judged) if unjudged else 'no outcome'} gets worse over all starts")
        worse = [v for v in told.verdicts if v.valence == "worse"]
        reasons += [f"{v.outcome} gets worse ({figures(v)})" for v in worse]
    return CheckResult(not reasons, tuple(reasons), tuple(checked), unjudged)


def _broken(guard: Guard, verdict: Verdict, outcome: Outcome | None) -> str | None:
    """Why a guard does not hold; the bound of the interval decides, not the estimate."""
    interval = verdict.difference if guard.relative else verdict.proposed
    if interval is None:
        return f"{guard.text}: {guard.outcome} was not measured"
    edge = interval.high if guard.sense == "<=" else interval.low
    holds = edge <= guard.value + 1e-9 if guard.sense == "<=" else edge >= guard.value - 1e-9
    if holds:
        return None
    what = "difference to current" if guard.relative else "value"
    other = interval.low if guard.sense == "<=" else interval.high
    within = other <= guard.value if guard.sense == "<=" else other >= guard.value
    said = "is not shown to hold" if within else "does not hold"
    return f"{guard.text} {said}: {what} {interval_text(interval, difference=guard.relative, outcome=outcome)}"
