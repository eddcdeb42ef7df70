"""Plans as plain text, and what a plan does to each outcome against doing nothing."""

from __future__ import annotations

import math

from polidiff.explanation.advice import lasting
from polidiff.explanation.rule_code import joined_edits
from polidiff.explanation.said import Answer, Block, Said, blocks_of, closing
from polidiff.explanation.words import (
    MOST_NAMED,
    edit_words,
    in_order,
    interval_text,
    listing,
    names_states,
    place_text,
    rule_text,
    verdicts_text,
    worth_text,
)
from polidiff.records.explanation import Verdict, VerdictDirection
from polidiff.records.numbers import counted, interval_numbers, number, percent
from polidiff.records.outcome import Interval, Outcome
from polidiff.records.plan import Frontier, LedgerEntry, Plan
from polidiff.records.rule import overlap
from polidiff.records.suppression import suppressed

UNITS = {
    "expected": "changes per episode",
    "total": "changes, all starts",
    "states": "changed states",
    "rules": "rules (changes)",
}
TITLE = "Which changes pay most"


def render_frontier(frontier: Frontier) -> str:
    """The frontier as a table, the bound and the ledger."""
    return say_plans(suppressed(frontier)).text()


def say_plans(frontier: Frontier, answers: tuple[Answer, ...] = ()) -> Said:
    """What is said about plans; the table of them is part of the opening, as a terminal has no other."""
    opening = (frontier_headline(frontier), "", *_plan_rows(frontier))
    return Said(
        TITLE, opening, answers, blocks_of(_gains(frontier), _others(frontier), _ledger(frontier), *closing(frontier))
    )


def frontier_headline(frontier: Frontier) -> str:
    """How many plans there are or which one was sought, and what the best of them returns."""
    best = frontier.best
    if frontier.judged or (len(frontier.plans) == 1 and not best.proven):
        return _judged_head(frontier)
    now = frontier.plans[0]
    broken = ", which breaks what is to be kept" if now.breaks else ""
    what, proof, more = counted(len(frontier), "plan"), "all proven", ""
    if frontier.budget is not None:
        what, proof = f"The best plan within {number(frontier.budget)} {UNITS[frontier.unit]}:", "proven"
        more = " Plans with fewer changes were not sought."
    if not all(plan.proven for plan in frontier):
        proof = f"certified within {percent(frontier.gap)}"
    return (
        f"{what} from {returned(now.expected_return, frontier)} (current{broken}) to "
        f"{returned(best.expected_return, frontier)} "
        f"({interval_text(frontier.gain_of(best), outcome=objective(frontier))}), {proof}.{more}"
    )


def objective(frontier: Frontier) -> Outcome | None:
    """The outcome that plans improve; None where it is not one that is told."""
    return next((outcome for outcome in frontier.outcomes if outcome.name == frontier.objective), None)


def returned(value: float, frontier: Frontier) -> str:
    """What a plan returns, as people say the outcome that it improves."""
    natural = frontier.sign * value
    return f"{number(100 * natural)} %" if _says_percent(frontier) else number(natural, 6)


def _says_percent(frontier: Frontier) -> bool:
    outcome = objective(frontier)
    return outcome is not None and outcome.is_share


def plan_return(plan: Plan, frontier: Frontier) -> str:
    """What a plan returns, to no more digits than its interval carries; exact values tell plans apart."""
    value = plan.outcomes.get(frontier.objective or "")
    if value is None or not abs(value.estimate) / 1000 < value.width < math.inf:
        return returned(plan.expected_return, frontier)
    return interval_numbers(value.scaled(100.0))[0] + " %" if _says_percent(frontier) else interval_numbers(value)[0]


def gained(gain: Interval, frontier: Frontier) -> Interval:
    """A gain as the difference of the outcome that plans improve: below 0 where less of it is better."""
    return gain.scaled(frontier.sign)


def aim_text(frontier: Frontier) -> str:
    """What plans improve, and which way."""
    outcome = objective(frontier)
    if outcome is None or not frontier.world.recorded or outcome.name == "return":
        return frontier.aim
    return f"{outcome.name} ({'less' if frontier.sign < 0 else 'more'} is better)"


def _judged_head(frontier: Frontier) -> str:
    """Plans whose gains are estimates: the one that is surest to gain, or none."""
    best, now = frontier.best, plan_return(frontier.plans[0], frontier)
    aim = aim_text(frontier)
    named, brings = ("", "returns") if aim == frontier.aim else (f" for {aim}", "brings")
    if len(frontier.plans) == 1:
        return f"No plan{named} but the current policy, which {brings} {now}."
    if best.gain is None or best is frontier.plans[0]:
        return f"{len(frontier)} plans{named}; none is shown to gain over the current policy, which {brings} {now}."
    if not best.gain.low > 0:
        return (
            f"{len(frontier)} plans{named}; none is shown to gain over the current policy, which {brings} {now} and "
            f"breaks what is to be kept; of those that keep it, the surest {brings} {plan_return(best, frontier)} "
            f"({interval_text(gained(best.gain, frontier), outcome=objective(frontier))})."
        )
    if_so = lasting([best])
    guarded = "" if all(plan.kept for plan in frontier) or not best.kept else " that is shown to keep the guards"
    return (
        f"{len(frontier)} plans{named}; the surest to gain{guarded} {brings} {plan_return(best, frontier)} "
        f"instead of {now} "
        f"({interval_text(gained(best.gain, frontier), outcome=objective(frontier))}){if_so and ','}{if_so}."
    )


def _plan_rows(frontier: Frontier, limit: int = 20) -> list[str]:
    unit = UNITS[frontier.unit]
    proven = frontier.world.enumerated  # a bound in a table that was estimated proves nothing
    aim = frontier.objective if frontier.world.recorded and frontier.objective else "return"
    wide = max(10, len(aim))
    head = "" if not proven else f"{'bound':>10}  "
    rows = [f"{unit:>20}  {aim:>{wide}}  {head}change"]
    plans = list(frontier.plans)
    shown = plans if len(plans) <= limit else [plans[round(k * (len(plans) - 1) / (limit - 1))] for k in range(limit)]
    for plan in shown:
        cost = number(plan.changes)
        if frontier.unit == "rules":
            cost = f"{len(plan.rules)} ({cost})"
        bound = "" if not proven else f"{returned(plan.bound, frontier):>10}  "
        rows.append(f"{cost:>20}  {plan_return(plan, frontier):>{wide}}  {bound}{plan_words(plan)}")
    if len(shown) < len(plans):
        left = len(plans) - len(shown)
        rows.append(f"({counted(left, 'plan')} between these {'is' if left == 1 else 'are'} not shown)")
    return rows


def _gains(frontier: Frontier) -> Block:
    """What each plan gains, where other data than those that chose it say so."""
    gains = [(plan, plan.gain) for plan in frontier if plan.gain is not None and plan.patch.changing]
    level = "" if all(gain.exact for _, gain in gains) else f" ({percent(frontier.methods.level)} intervals)"
    what = "Gain over the current policy" if frontier.sign > 0 else f"{frontier.objective} against the current policy"
    told = [(_size_words(plan, frontier), gained(gain, frontier)) for plan, gain in gains]
    lines = tuple(f"{size}: {interval_text(gain, outcome=objective(frontier))}" for size, gain in told)
    return Block("gains", f"{what}, on data that did not choose the plan{level}", lines)


def _others(frontier: Frontier) -> Block:
    """What the best plan does to declared outcomes that it was not chosen for."""
    best = frontier.best
    verdicts = [v for v in plan_verdicts(frontier, best) if v.outcome not in (frontier.objective, "return")]
    known = {outcome.name for outcome in frontier.outcomes}
    told = [v for v in verdicts if v.outcome in known] if best is not frontier.plans[0] else []
    lines = (f"{verdicts_text(told, frontier.outcomes)}.",) if told else ()
    return Block("gains", "What the best plan also changes", lines)


def _size_words(plan: Plan, frontier: Frontier) -> str:
    if frontier.unit == "rules":
        return counted(len(plan.rules), "rule")
    count = number(plan.changes)
    return f"{count} changed decision{'s' * (count != '1')}"


def plan_words(plan: Plan, limit: int = 4) -> str:
    """What a plan changes, in one line."""
    if plan.rules:
        told = [f"{rule_text(entry.rule)}: {entry.deed}" for entry in plan.rules]
        return "; ".join(in_order([entry.rule for entry in plan.rules], told)) + exceptions_text(plan)
    edits = plan.patch.changing
    if not edits:
        return "nothing" + f" (breaks {listing(list(plan.breaks))})" * bool(plan.breaks)
    words = [f"{rule_text(e.rule)}: {edit_words((e,), plan.patch, short=True)}" for e in edits[:limit]]
    return "; ".join(words) + (f"; and {len(edits) - limit} more" if len(edits) > limit else "")


def exceptions_text(plan: Plan) -> str:
    """Where a plan does otherwise than its rules alone would say; many states are counted."""
    said = []
    for edits in joined_edits(plan.patch):
        rule, deed = edits[0].rule, edit_words(edits, plan.patch)
        if not any(rule == e.rule or (deed == e.deed and overlap(rule, e.rule)) for e in plan.rules):
            count = len(rule.conditions[0].values or ()) if names_states(rule) else 0
            said.append(f"{deed} {f'in {count} states' if count > MOST_NAMED else place_text(rule)}")
    return f" ({'; '.join(said)})" if said else ""


def _ledger(frontier: Frontier, limit: int = 10) -> Block:
    entries = frontier.ledger.entries if frontier.ledger is not None else ()
    where = ", in the table that chose the plans" if frontier.judged else ""
    less = f" in less {frontier.objective}" if frontier.sign < 0 else ""
    plan = valued_plan(frontier)[1]
    title = f"What each change is worth{less} (alone; added last to the {plan}; Shapley value{where})"
    told = [_ledger_line(entry, objective(frontier)) for entry in entries[:limit]]
    return Block("ledger", title, (*told, *ledger_rest(len(entries), limit)))


def ledger_rest(count: int, limit: int) -> tuple[str, ...]:
    """How many changes a ledger holds beyond those that are listed."""
    return (f"and {counted(count - limit, 'more change')}",) * (count > limit)


def valued_plan(frontier: Frontier) -> tuple[Plan | None, str]:
    """The plan whose changes the ledger values: the largest that it could, which need not be the one to choose."""
    best, last, order = frontier.best, frontier.plans[-1], frontier.ledger.order if frontier.ledger is not None else ()
    if frontier.judged:
        return last, "best plan" if best is last else "largest plan, which is not the best"
    if not order or len(order) >= len(best.patch.changing):
        return best, "best plan"
    plan = next((plan for plan in frontier.plans if len(plan.patch.changing) == len(order)), None)
    return plan, f"plan of {counted(len(order), 'change')}, which is not the best"


def _ledger_line(entry: LedgerEntry, outcome: Outcome | None) -> str:
    links = [f"needs {listing(list(entry.needs), 'or')}"] * bool(entry.needs)
    links += [f"conflicts with {listing(list(entry.conflicts))}"] * bool(entry.conflicts)
    place = "" if entry.state in entry.change else f" (where {entry.state})"
    worth = [worth_text(gain, outcome) for gain in (entry.alone, entry.removed, entry.shapley.estimate)]
    return f"{entry.change}{place}: {'; '.join([*worth, *links])}"


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
        lasts = plan.holds_up_to if name == frontier.objective and plan is not frontier.plans[0] else None
        verdicts.append(Verdict(name, direction, difference, difference, valence, before, after, holds_up_to=lasts))
    return tuple(verdicts)


def _difference(frontier: Frontier, plan: Plan, name: str) -> Interval:
    nothing = frontier.plans[0]
    if plan is nothing:
        return Interval.exactly(0.0)
    if name == frontier.objective and plan.gain is not None:
        return gained(plan.gain, frontier)
    before, after = nothing.outcomes[name], plan.outcomes[name]
    middle = after.estimate - before.estimate
    if before.exact and after.exact:
        return Interval.exactly(middle)
    return Interval(middle, after.low - before.high, after.high - before.low, min(before.level, after.level))
