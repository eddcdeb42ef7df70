"""What a plan does to each outcome, against doing nothing."""

from __future__ import annotations

from polidiff.records.explanation import Verdict, VerdictDirection
from polidiff.records.outcome import Interval
from polidiff.records.plan import Frontier, Plan


def plan_verdicts(frontier: Frontier, plan: Plan) -> tuple[Verdict, ...]:
    """One verdict per outcome that the frontier declares.

    The gain was judged as a difference. Other outcomes that were estimated have an interval for either policy, and
    theirs is the wider one that both allow.
    """
    outcomes = {outcome.name: outcome for outcome in frontier.outcomes}
    verdicts = []
    for name, after in plan.outcomes.items():
        outcome, before = outcomes.get(name), frontier.plans[0].outcomes[name]
        difference = _difference(frontier, plan, name)
        margin = 0.0 if outcome is None else outcome.margin
        direction: VerdictDirection = "unknown"
        if difference.low > margin or difference.high < -margin:
            direction = "more" if difference.low > margin else "less"
        elif difference.low >= -margin and difference.high <= margin:
            direction = "same"
        valence = outcome.valence(direction) if outcome is not None else None
        verdicts.append(Verdict(name, direction, difference, difference, valence, before, after))
    return tuple(verdicts)


def _difference(frontier: Frontier, plan: Plan, name: str) -> Interval:
    nothing = frontier.plans[0]
    if plan is nothing:
        return Interval.exactly(0.0)
    if name == frontier.objective and plan.gain is not None:
        return plan.gain
    before, after = nothing.outcomes[name], plan.outcomes[name]
    middle = after.estimate - before.estimate
    if before.exact and after.exact:
        return Interval.exactly(middle)
    return Interval(middle, after.low - before.high, after.high - before.low, min(before.level, after.level))
