"""What is said about plans: what each does to outcomes against doing nothing, and the five answers by the first one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from polidiff.explanation.advice import conditions, weigh_up
from polidiff.explanation.change_numbers import Numbering, number_changes
from polidiff.explanation.said import Answer, Block, Said, blocks_of, closing, in_doubt, judged_effect
from polidiff.explanation.text import people_text, unit_text
from polidiff.explanation.verdict_words import verdicts_text
from polidiff.explanation.words import (
    MOST_NAMED,
    amounts_text,
    bare_bounds,
    edit_words,
    few,
    in_order,
    interval_text,
    listing,
    named_with_unit,
    names_states,
    names_text,
    place_text,
    rule_text,
    worth_text,
)
from polidiff.records.explanation import Explanation, Verdict, VerdictDirection
from polidiff.records.numbers import counted, interval_numbers, number, percent, telling_digits
from polidiff.records.outcome import Interval, Outcome
from polidiff.records.patch import Edit, Patch
from polidiff.records.plan import Frontier, LedgerEntry, Plan
from polidiff.records.rule import overlap
from polidiff.records.suppression import suppressed

TITLE = "Which changes pay most"
LOSES = "Worse off: "  # how a line about a group that loses begins
UNNUMBERED = Numbering()
MOST_TOLD = 3  # changes on the first screen


def render_frontier(frontier: Frontier, above: Explanation | None = None) -> str:
    """The frontier as a table, the bound and the ledger; changes have the numbers of an explanation told above it."""
    told = suppressed(frontier)
    return say_plans(told, number_changes(above and suppressed(above), told), answered=False).text()


def say_plans(frontier: Frontier, numbering: Numbering, *, answered: bool = True) -> Said:
    """What is said about plans; the table of them is part of the opening, as a terminal has no other.

    Where answered, with the five answers and the changes of the plan to look at first.
    """
    opening = (frontier_headline(frontier), "", *_plan_rows(frontier))
    blocks = (_others(frontier), _ledger(frontier, numbering), *closing(frontier))
    if not answered or not frontier.plans:
        return Said(TITLE, opening, (), blocks_of(*blocks))
    changes = Block("groups", "What the plan to look at first changes", change_texts(frontier.knee, numbering))
    return Said(TITLE, opening, plan_answers(frontier), blocks_of(changes, *blocks))


def frontier_headline(frontier: Frontier) -> str:
    """How many plans there are or which one was sought, and what the best of them returns."""
    best = frontier.best
    if frontier.judged or len(frontier.plans) == 1:
        return _judged_head(frontier)
    now = frontier.plans[0]
    broken = ", which breaks what is to be kept" if now.breaks else ""
    named = _for_what(frontier)
    offered = len(frontier.plans) - 1
    what, proof, more = f"{counted(offered, 'plan')}{named}:", "all proven" if offered > 1 else "proven", ""
    if frontier.budget is not None:
        unit = unit_text(frontier.world, frontier.unit, short=True)
        what, proof = f"The best plan{named} within {number(frontier.budget)} {unit}:", "proven"
        more = " Plans with fewer changes were not sought."
    if not all(plan.proven for plan in frontier):
        proof = f"certified within {percent(frontier.gap)}"
    return (
        f"{what} from {returned(now.expected_return, frontier)} (current{broken}) to "
        f"{returned(best.expected_return, frontier)} ({gain_text(frontier.gain_of(best), frontier)}), {proof}.{more}"
    )


def objective(frontier: Frontier) -> Outcome | None:
    """The outcome that plans improve; None where it is not one that is told."""
    return next((outcome for outcome in frontier.outcomes if outcome.name == frontier.objective), None)


def returned(value: float, frontier: Frontier) -> str:
    """What a plan returns, as people say the outcome that it improves, in digits that tell plans apart."""
    natural = frontier.sign * value
    digits = telling_digits([plan.expected_return for plan in frontier.plans])
    return f"{number(100 * natural, digits)} %" if _says_percent(frontier) else number(natural, digits)


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


def gain_text(gain: Interval, frontier: Frontier) -> str:
    """A gain in words, in the unit of the outcome that plans improve."""
    return interval_text(gained(gain, frontier), outcome=objective(frontier))


def aim_text(frontier: Frontier) -> str:
    """What plans improve, and which way."""
    outcome = objective(frontier)
    if outcome is None or not frontier.world.recorded or outcome.name == "return":
        return frontier.aim
    return f"{outcome.name} ({'less' if frontier.sign < 0 else 'more'} is better)"


def _for_what(frontier: Frontier) -> str:
    """The outcome that plans improve, where it has a name of its own."""
    return "" if frontier.objective in ("", "return") else f" for {aim_text(frontier)}"


def _judged_head(frontier: Frontier) -> str:
    """Plans whose gains are estimates: the one that is surest to gain, or none."""
    best, now = frontier.best, plan_return(frontier.plans[0], frontier)
    named = _for_what(frontier)
    brings = "brings" if named else "returns"
    offered = len(frontier.plans) - 1
    if not offered:
        within = "" if frontier.budget is None else f" within the budget of {number(frontier.budget)}"
        return f"No plan{named}{within} but the current policy, which {brings} {now}."
    plans, none = f"{counted(offered, 'plan')}{named}", "none is" if offered > 1 else "it is not"
    unshown = f"{plans}; {none} shown to gain over the current policy, which {brings} {now}"
    if best.gain is None or best is frontier.plans[0]:
        return f"{unshown}."
    if not best.gain.low > 0:
        kept = "of those that keep it, the surest" if offered > 1 else "this one keeps it and"
        return (
            f"{unshown} and breaks what is to be kept; {kept} {brings} {plan_return(best, frontier)} "
            f"({gain_text(best.gain, frontier)})."
        )
    if_so = conditions(frontier, [best])
    guarded = "" if all(plan.kept for plan in frontier) or not best.kept else " that is shown to keep the guards"
    surest = f"the surest to gain{guarded}" if offered > 1 else "it"
    return (
        f"{plans}; {surest} {brings} {plan_return(best, frontier)} instead of {now} "
        f"({gain_text(best.gain, frontier)}){if_so and ','}{if_so}."
    )


def _plan_rows(frontier: Frontier, limit: int = 20) -> list[str]:
    """A table of plans: number, cost, return, what was judged or no plan passes, and the changes."""
    plans = list(enumerate(frontier.plans))
    shown = plans if len(plans) <= limit else [plans[round(k * (len(plans) - 1) / (limit - 1))] for k in range(limit)]
    proven = frontier.world.enumerated  # a bound in a table that was estimated proves nothing
    unit = unit_text(frontier.world, frontier.unit, short=True)
    rows = [("plan", unit, frontier.aim, *gain_head(frontier), *("bound",) * proven)]
    for place, plan in shown:
        bound = (returned(plan.bound, frontier),) * proven
        changes = number(plan.changes) if plan.changes_interval is None else bare_bounds(plan.changes_interval)
        cost = f"{len(plan.rules)} ({changes})" if frontier.unit == "rules" else changes
        rows.append((str(place), cost, plan_return(plan, frontier), *gain_cell(plan, frontier), *bound))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    words = ["change", *(plan_words(plan) for _, plan in shown)]
    lines = [
        "  ".join([*(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True)), text])
        for row, text in zip(rows, words, strict=True)
    ]
    left = len(plans) - len(shown)
    more = [f"({counted(left, 'plan')} between these {'is' if left == 1 else 'are'} not shown)"] if left else []
    return [*lines, *more, *_judged_how(frontier)]


def gain_head(frontier: Frontier) -> tuple[str, ...]:
    """The heading of gains that other data than those that chose the plans have judged, where they are judged so."""
    what = "gain" if frontier.sign > 0 else "difference"
    return (named_with_unit(what, objective(frontier), difference=True),) * frontier.judged


def gain_cell(plan: Plan, frontier: Frontier) -> tuple[str, ...]:
    """The gain of a plan under that heading."""
    gain = gained(frontier.gain_of(plan), frontier)
    told = bare_bounds(gain, objective(frontier), difference=True) if plan is not frontier.plans[0] else ""
    return (told,) * frontier.judged


def _judged_how(frontier: Frontier) -> list[str]:
    """On which data gains were judged, and at which level."""
    if not any(plan.gain is not None and plan.patch.changing for plan in frontier.plans):
        return []
    level = f", with {percent(frontier.methods.level)} intervals"
    exact = all(plan.gain.exact for plan in frontier.plans if plan.gain is not None)
    gains = "Gains" if frontier.sign > 0 else "Differences"
    return [f"{gains} over the current policy are from data that did not choose the plan{level * (not exact)}."]


def _others(frontier: Frontier) -> Block:
    """What the best plan does to declared outcomes that it was not chosen for."""
    best = frontier.best
    verdicts = [v for v in plan_verdicts(frontier, best) if v.outcome not in (frontier.objective, "return")]
    lines = (f"{verdicts_text(verdicts, frontier.outcomes)}.",) * bool(verdicts and best is not frontier.plans[0])
    return Block("gains", "What the best plan also changes", lines)


def plan_words(plan: Plan, limit: int = 4) -> str:
    """What a plan changes, in one line."""
    if plan.rules:
        rule_words = [f"{rule_text(entry.rule)}: {entry.deed}" for entry in plan.rules]
        return "; ".join(in_order([entry.rule for entry in plan.rules], rule_words)) + exceptions_text(plan)
    edits = plan.patch.changing
    if not edits:
        return "nothing" + f" (breaks {listing(list(plan.breaks))})" * bool(plan.breaks)
    words = [f"{rule_text(e.rule)}: {edit_words((e,), plan.patch, short=True)}" for e in edits[:limit]]
    return "; ".join(words) + (f"; and {len(edits) - limit} more" if len(edits) > limit else "")


def exceptions_text(plan: Plan) -> str:
    """Where a plan does otherwise than its rules, if it has any, alone would say; many states are counted."""
    said = []
    for edits in plan.patch.joined if plan.rules else ():
        rule, deed = edits[0].rule, edit_words(edits, plan.patch)
        if not any(rule == e.rule or (deed == e.deed and overlap(rule, e.rule)) for e in plan.rules):
            count = len(rule.conditions[0].values or ()) if names_states(rule) else 0
            said.append(f"{deed} {f'in {count} of these states' if count > MOST_NAMED else place_text(rule)}")
    return f" ({'; '.join(said)})" if said else ""


def ranked_changes(frontier: Frontier) -> list[LedgerEntry]:
    """The changes of the ledger, the one that is worth most first."""
    entries = frontier.ledger.entries if frontier.ledger is not None else ()
    return sorted(entries, key=lambda entry: -entry.shapley.estimate)


def _ledger(frontier: Frontier, numbering: Numbering, limit: int = 10) -> Block:
    entries = ranked_changes(frontier)
    where = ", in the table that chose the plans" if frontier.judged else ""
    less = f" in less {frontier.objective}" if frontier.sign < 0 else ""
    plan = valued_plan(frontier)[1]
    title = f"What each change is worth{less} (alone; added last to the {plan}; Shapley value{where})"
    names = numbering.among(entries[:limit])
    lines = [_ledger_line(entry, objective(frontier), names) for entry in entries[:limit]]
    new = numbering.new(entries[:limit])
    are = "are offered changes, but no regions" if len(new) > 1 else "is an offered change, but no region"
    beside = (f"{few(new)} {are} of the difference above",) * bool(new)
    return Block("ledger", title, (*lines, *ledger_rest(len(entries), limit), *beside))


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


def _ledger_line(entry: LedgerEntry, outcome: Outcome | None, names: Mapping[str, str]) -> str:
    """One change, with what it is worth and how it goes with others, which have `names`."""
    needs, conflicts = linked(entry, names)
    links = [f"needs {needs}"] * bool(needs) + [f"conflicts with {conflicts}"] * bool(conflicts)
    place = "" if entry.state in entry.change else f" (where {entry.state})"
    name = names.get(entry.change, entry.change)
    before = f"{name}: " if name != entry.change else ""
    worth = [worth_text(gain, outcome) for gain in (entry.alone, entry.removed, entry.shapley.estimate)]
    return f"{before}{entry.change}{place}: {'; '.join([*worth, *links])}"


def linked(entry: LedgerEntry, names: Mapping[str, str]) -> tuple[str, str]:
    """What a change needs, of which one will do, and what it conflicts with, by the names that others have."""
    needs, conflicts = ([names.get(other, other) for other in others] for others in (entry.needs, entry.conflicts))
    return few(needs, "or"), few(conflicts)


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


def change_texts(plan: Plan, numbering: Numbering = UNNUMBERED) -> tuple[str, ...]:
    """The changes of a plan as sentences, behind their numbers: its rules where it has them, else its edits."""
    changes, numbers = plan.rules or plan.patch.changing, numbering.of(plan)
    texts = [f"{rule.deed} {place_text(rule.rule)}" for rule in plan.rules]
    texts = texts or [edits_sentence((edit,), plan.patch) for edit in plan.patch.changing]
    texts = in_order([change.rule for change in changes], texts)
    texts[-1:] = [text + exceptions_text(plan) for text in texts[-1:]]
    return tuple(f"{number}: {text}" if number else text for number, text in zip(numbers, texts, strict=True))


def edits_sentence(edits: Sequence[Edit], patch: Patch) -> str:
    """Edits that do the same in the same place: "E instead of N where 0.2 ≤ y < 0.3"."""
    return f"{edit_words(edits, patch)} {_edits_place(edits)}" + ", whatever follows" * edits[0].holds_back


def _edits_place(edits: Sequence[Edit]) -> str:
    rule, states = edits[0].rule, sorted({state for edit in edits for state in edit.states or ()})
    if rule.conditions or not states or edits[0].current is None:  # whatever was done there: nothing is left out
        return place_text(rule)
    return f"in state{'s' * (len(states) != 1)} {names_text([str(state) for state in states])}"


def plan_answers(frontier: Frontier) -> tuple[Answer, ...]:
    """The same questions about plans, answered by the plan to look at first."""
    plan = frontier.knee
    if plan is frontier.plans[0]:
        return (
            Answer("What now?", "No change is worth it on this evidence."),
            Answer("What changes?", "Nothing: the current policy stays."),
            Answer("Is it better?", _no_gain(frontier)),
            Answer("For whom worse?", "For nobody, as nothing changes."),
            _proof(frontier, plan),
        )
    verdicts, starts = plan_verdicts(frontier, plan), frontier.world.starts
    groups = [line.removeprefix(LOSES) for line in plan.sentences if line.startswith(LOSES)]
    looked_for = bool(plan.sentences) and not plan.patch.chosen_on
    losing = [f"some {starts}"] * bool(groups) if looked_for else None
    advice = weigh_up(frontier, verdicts, losing, f"plan {frontier.number(plan)}")
    worse = [verdict.outcome for verdict in verdicts if verdict.valence == "worse"]
    unknown = [verdict.outcome for verdict in verdicts if verdict.direction == "unknown"]
    lost = f"On average over all {starts} it is worse on {few(worse)}" if worse else "No outcome gets worse on average"
    spared: tuple[str, ...] = ()
    if groups:
        lost += f". Some {starts} lose: {groups[0]}" + " Further groups are named below." * bool(groups[1:])
        spared = (f"Some {starts} lose by it: keep the current policy for them.",) * (advice.kind != "adopt a part")
    else:
        lost += "." if looked_for else "; whether some groups lose was not looked at."
    if unknown:
        lost += f" What it does to {few(unknown)} is not known."
    return (
        Answer("What now?", advice.sentence, (knee_text(frontier), *spared, *advice.reasons)),
        Answer("What changes?", _plan_changes(plan)),
        Answer("Is it better?", judged_effect(frontier, verdicts)),
        Answer("For whom worse?", lost),
        _proof(frontier, plan),
    )


def _no_gain(frontier: Frontier) -> str:
    """What the plan that promises most would gain, where none is shown to gain."""
    judged = [plan.gain for plan in frontier.plans[1:] if plan.gain is not None and math.isfinite(plan.gain.estimate)]
    if not judged:
        return "No plan is better than the current policy."
    most = max(judged, key=lambda gain: gain.estimate)
    change = gain_text(most, frontier)
    sought = len(frontier.plans) - 1
    plans = "the estimate for the only plan" if sought == 1 else f"the best estimate of {sought} plans"
    return f"Not known: {plans} is {change}, for {frontier.aim}."


def _plan_changes(plan: Plan) -> str:
    """The first few changes of a plan, each as what is done where."""
    texts = change_texts(plan)
    more = len(texts) - MOST_TOLD
    text = "; ".join(texts[:MOST_TOLD]) + exceptions_text(plan) * (more > 0)
    return f"{text[0].upper()}{text[1:]}" + (f"; {counted(more, 'further change')} below." if more > 0 else ".")


def knee_text(frontier: Frontier) -> str:
    """Why the page opens on the plan that it opens on."""
    knee, best = frontier.knee, frontier.best
    if best is frontier.plans[0]:
        return "No plan is shown to gain over the current policy."
    if frontier.plans[0].breaks and not frontier.gain_of(best).low > 0:
        most = "is the surest" if frontier.judged else "returns most"
        return f"The current policy breaks what is to be kept; of the plans that keep it, this one {most}."
    if knee is best:
        if len(frontier.plans) == 2:
            return f"It is the only plan{' and shown to gain' * frontier.judged}."
        if not frontier.judged:
            return "It gains most."
        guarded = best.kept and not all(plan.kept for plan in frontier)
        return f"It is the surest to gain{' that is shown to keep the guards' if guarded else ''}."
    now = frontier.plans[0].expected_return
    gains = abs(knee.expected_return - now), abs(best.expected_return - knee.expected_return)
    width = frontier.gain_of(best).width  # of gains that were judged: no digits that the data do not carry
    up_to, more = amounts_text([Interval(g, g - width / 2, g + width / 2, 1.0) for g in gains], objective(frontier))
    cost, most = number(frontier.cost(knee)), number(frontier.cost(best))
    unit = unit_text(frontier.world, frontier.unit)
    unit = unit.replace("decisions", "decision") if most == "1" else unit
    verb, to = ("add", "to") if frontier.sign > 0 else ("take", "from")
    first = f"the first of {most} {unit} {verb}s" if cost == "1" else f"the first {cost} of {most} {unit} {verb}"
    return f"Further changes pay less: {first} {up_to} {to} {frontier.aim}, the rest {more}."


def _proof(frontier: Frontier, plan: Plan) -> Answer:
    counts = "rules" if frontier.unit == "rules" else "changes"
    if frontier.judged:
        level, world = percent(frontier.methods.level), frontier.world
        sure = f"In {level} of such studies the gain lies in its interval; it was measured on data that did not choose "
        sure += f"the plan, from the records of {people_text(world)}." if world.recorded else "the plan."
    elif plan.proven:
        sure = f"Exact, and proven the best for its number of {counts}."
    else:
        sure = f"Its return may be up to {percent(plan.gap)} of the range from the best for its number of {counts}."
    return Answer("How sure is that?", f"{sure}{in_doubt(frontier)}")
