"""What the slider shows: every plan as text and numbers, each change told once and referred to by number."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from polidiff.errors import PolidiffError
from polidiff.explanation.advice import advise
from polidiff.explanation.change_numbers import Numbering
from polidiff.explanation.plan_text import (
    LOSES,
    UNNUMBERED,
    aim_text,
    change_texts,
    gain_cell,
    gain_head,
    gained,
    ledger_rest,
    linked,
    objective,
    plan_return,
    plan_verdicts,
    ranked_changes,
    returned,
)
from polidiff.explanation.region_places import losers
from polidiff.explanation.said import tone_of
from polidiff.explanation.text import acts_the_same, start_text, unit_text, worse_off_text
from polidiff.explanation.verdict_words import verdicts_text
from polidiff.explanation.words import (
    bare_bounds,
    bounds_text,
    changes_numbers,
    estimate_text,
    named_with_unit,
    worth_text,
)
from polidiff.records.explanation import Explanation, Sentence
from polidiff.records.numbers import counted, number, percent, with_unit
from polidiff.records.outcome import Outcome
from polidiff.records.plan import Frontier, Plan
from polidiff.records.suppression import suppressed
from polidiff.report.charts.frontier import (
    largest_differences,
    plan_box_rows,
    plan_boxes,
    plan_difference_rows,
    plan_spans,
)
from polidiff.report.charts.outcomes import READINGS
from polidiff.report.charts.regions import Span, telling_pair
from polidiff.report.charts.theme import Row, drawable
from polidiff.report.names import label, shown
from polidiff.report.tables import Table
from polidiff.report.view import Card

Figures: TypeAlias = list[str | float | None]  # of one outcome: texts, then numbers of its bar
MOST_BYTES = 150_000
MOST_COLUMNS = 6  # outcomes in the table of plans
MOST_ENTRIES = 60  # of the ledger
MOST_SENTENCES = 6
MOST_LOSING = 3  # groups that are named
TWO_GAINS = (
    "Where these differences and the gain above disagree, go by the gain: it was measured on data that did not choose "
    "the plan."
)
CHOSEN_HERE = "The log that chose these rules flatters them in every group: explain the patch on another log."
DOT_BYTES = 55  # of one plan in the chart of all plans


@dataclass(frozen=True)
class PlansView:
    """The plans of a slider and what each shows."""

    plans: tuple[Plan, ...]  # those that fit, in order
    pair: tuple[str, str] | None  # features of the picture of changes
    spans: tuple[Span, Span] | None  # and their ranges
    payload: Row  # what the page's script reads
    start: int  # the plan shown first
    left_out: int
    numbering: Numbering


def plans_view(frontier: Frontier, numbering: Numbering = UNNUMBERED, room: int = MOST_BYTES) -> PlansView:
    """As many plans as fit into `room` bytes; the first and the last always do."""
    plans = frontier.plans
    pair = telling_pair((rule for plan in plans for rule in plan_boxes(plan)), frontier.world.features)
    spans = plan_spans(frontier, pair) if pair is not None else None
    payload = _payload(frontier, pair, spans, numbering)
    keep = _fitting(payload, room)
    chosen = frontier.knee
    knee = next(place for place, plan in enumerate(plans) if plan is chosen)
    payload["plans"] = _stepwise([payload["plans"][index] for index in keep])
    payload["costs"] = [payload["costs"][index] for index in keep]
    shown_plans = tuple(plans[index] for index in keep)
    first = min(range(len(keep)), key=lambda place: abs(keep[place] - knee))
    return PlansView(shown_plans, pair, spans, payload, first, len(plans) - len(keep), numbering)


def _fitting(payload: Row, room: int) -> list[int]:
    """Which plans fit, thinned evenly; the first and the last always stay."""
    entries = payload["plans"]
    left = room - size_of({**payload, "plans": []})
    keep = list(range(len(entries)))
    while len(keep) > 2 and size_of(_stepwise([entries[k] for k in keep])) + DOT_BYTES * len(keep) > left:
        inner = keep[1:-1]
        keep = [keep[0], *(index for place, index in enumerate(inner) if place % 5 < 4 and len(inner) > 4), keep[-1]]
    return keep


def _stepwise(entries: list[Row]) -> list[Row]:
    """Each plan's changes as what leaves and what joins those of the plan before, where that gives the same order."""
    before: list[int] = []
    steps = []
    for entry in entries:
        after = entry["e"]
        out, new = sorted(set(before) - set(after)), [number for number in after if number not in set(before)]
        same = [number for number in before if number in set(after)] + new == after
        steps.append({**{k: v for k, v in entry.items() if k != "e"}, "-": out, "+": new} if same else entry)
        before = after
    return steps


def size_of(data: object) -> int:
    """Bytes of some data on the page."""
    return len(json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode()) + 1


def _payload(
    frontier: Frontier, pair: tuple[str, str] | None, spans: tuple[Span, Span] | None, numbering: Numbering
) -> Row:
    sentences: dict[str, int] = {}  # sentence -> number
    details: dict[str, int] = {}
    boxes: dict[int, Row] = {}
    plans = []
    outcomes = {outcome.name: outcome for outcome in frontier.outcomes}
    largest = largest_differences(frontier) if frontier.plans else {}
    for plan in frontier.plans:
        texts = [shown(text) for text in change_texts(plan, numbering)]
        numbers = [sentences.setdefault(text, len(sentences)) for text in texts]
        if pair is not None and spans is not None:
            for row in plan_box_rows(plan, pair, spans, texts, numbering.of(plan)):
                boxes[numbers[row["k"]]] = {k: row[k] for k in ("x", "x2", "y", "y2", "n", "f")}
        plans.append(_plan_entry(plan, frontier, numbers, details, _outcome_entries(plan, frontier, largest)))
    return {
        "changes": list(sentences),
        "details": list(details),
        "boxes": boxes,
        "shares": [point.share for point in frontier.plans[-1].adoption] if frontier.plans else [],
        "names": [label(name, 30) for name in largest],
        "asked": [shown(name) for name in largest],
        "costs": [_short(frontier.cost(plan)) for plan in frontier.plans],
        "readings": list(READINGS),
        "share": (aim := objective(frontier)) is not None and aim.is_share,
        "units": [unit_behind(outcomes.get(name)) for name in largest],
        "ones": [with_unit("1", unit_behind(outcomes.get(name)))[1:] for name in largest],
        "plans": plans,
    }


def _outcome_entries(plan: Plan, frontier: Frontier, largest: dict[str, float]) -> list[Figures]:
    """Of each outcome: value and difference in words, reading, the value that guards ask, and the length of its bar."""
    rows = plan_difference_rows(plan, frontier, largest)
    entries = zip(outcome_rows_table(plan, frontier).rows, plan_verdicts(frontier, plan), strict=True)
    shown = [
        [*texts[1:], READINGS.index(tone_of(verdict)), _short(plan.outcomes[verdict.outcome].estimate)]
        for texts, verdict in entries
    ]
    return [[*entry, _short(row["d"])] for entry, row in zip(shown, rows, strict=False)] + shown[len(rows) :]


def unit_behind(outcome: Outcome | None) -> str:
    """What stands behind a difference of an outcome in a picture: percentage points in short."""
    if outcome is not None and outcome.is_share:
        return " pp"
    return f" {shown(outcome.unit)}" if outcome is not None and outcome.unit else ""


def _plan_entry(
    plan: Plan, frontier: Frontier, numbers: list[int], details: dict[str, int], outcomes: list[Figures]
) -> Row:
    cards = plan_cards(plan, frontier)
    entry = {
        "k": [card.value for card in cards],
        "d": [details.setdefault(card.detail, len(details)) for card in cards],
        "e": numbers,
        "o": outcomes,
        "a": [_short(frontier.sign * point.expected_return) for point in plan.adoption],
    }
    notes_shown = [*plan.warnings, *(f"shown to compare with: it breaks {text}" for text in plan.breaks)]
    entry |= {"w": [shown(line) for line in notes_shown]} if notes_shown else {}
    return entry | ({"x": [shown(line) for line in plan.sentences]} if plan.sentences else {})


def _short(value: float) -> float | None:
    return drawable(float(f"{value:.5g}"))


def plan_cards(plan: Plan, frontier: Frontier) -> tuple[Card, ...]:
    """What a plan costs and what it gains; with its interval where the gain was judged."""
    gain = bounds_text(gained(frontier.gain_of(plan), frontier), objective(frontier), difference=True)
    reached = f"{'gain' if frontier.sign > 0 else 'change'} {gain}"
    if plan is frontier.plans[0]:
        reached = "as now"
    elif plan.share is not None and plan.gain is None:
        reached = f"{percent(plan.share)} of what is possible"
    return _cost_card(plan, frontier), Card(aim_text(frontier), plan_return(plan, frontier), reached)


def _cost_card(plan: Plan, frontier: Frontier) -> Card:
    if frontier.unit == "rules":
        (size, between), how = changes_numbers(plan), frontier.world.discounted
        changed = f"{size} {how}changed decision{'s' * (size != '1')} per episode{between and f', {between}'}"
        changed = f"{percent(plan.changes)} of decisions change" if frontier.world.one_step else changed
        return Card("rules", str(len(plan.rules)), changed)
    count = len(plan.rules) or len(plan.patch.changing)
    return Card(unit_text(frontier.world, frontier.unit), number(plan.changes), f"{counted(count, 'change')} to read")


def outcome_rows_table(plan: Plan, frontier: Frontier) -> Table:
    """Outcomes of one plan beside those of doing nothing."""
    outcomes = {outcome.name: outcome for outcome in frontier.outcomes}
    rows = tuple(
        (
            named_with_unit(verdict.outcome, outcomes.get(verdict.outcome)),
            _plan_value(plan, frontier, verdict.outcome),
            bare_bounds(verdict.difference, outcomes.get(verdict.outcome), difference=True),
        )
        for verdict in plan_verdicts(frontier, plan)
    )
    return Table(("outcome", "with this plan", "difference to the current policy"), rows)


def _plan_value(plan: Plan, frontier: Frontier, name: str) -> str:
    """What a plan brings of one outcome; what plans improve in digits that tell plans apart."""
    value = plan.outcomes[name]
    if name == frontier.objective and value.width <= abs(value.estimate) / 1000:
        return returned(frontier.sign * value.estimate, frontier).removesuffix(" %")
    return bare_bounds(value, next((outcome for outcome in frontier.outcomes if outcome.name == name), None))


def plans_table(plans: Sequence[Plan], frontier: Frontier) -> Table:
    """One row per plan, one column per outcome; beyond the first few, outcomes stand with the chosen plan."""
    outcomes = {outcome.name: outcome for outcome in frontier.outcomes}
    names = list(plans[0].outcomes)[:MOST_COLUMNS] if plans else []
    counts = frontier.unit not in ("rules", "states")  # which are what there is to read
    rows = tuple(
        (
            str(frontier.number(plan)),
            number(frontier.cost(plan)),
            *gain_cell(plan, frontier),
            *(_plan_value(plan, frontier, name) for name in names),
            *(str(len(plan.rules) or len(plan.patch.changing)),) * counts,
        )
        for plan in plans
    )
    heads = [named_with_unit(name, outcomes.get(name)) for name in names]
    behind = ("places",) * counts
    return Table(("plan", unit_text(frontier.world, frontier.unit), *gain_head(frontier), *heads, *behind), rows)


def proofs_table(plans: Sequence[Plan], frontier: Frontier) -> Table:
    """How far each plan may be from the best of its size."""
    rows = tuple(
        (
            number(frontier.cost(plan)),
            returned(plan.expected_return, frontier),
            returned(plan.bound, frontier),
            "proven" if plan.proven else percent(plan.gap),
        )
        for plan in plans
    )
    return Table((unit_text(frontier.world, frontier.unit), frontier.aim, "no plan returns more than", "gap"), rows)


def plan_sentences(plan: Plan, frontier: Frontier) -> tuple[str, ...]:
    """What the plan does from where, against the current policy; nothing where no world is at hand to explain it in.

    Where it tells another gain than the frontier, it says which to go by.
    What it changes stands beside it: regions of this explanation have numbers of their own, not those of the page.
    """
    if plan.sentences or plan.patch.chosen_on or not plan.explainable or not plan.patch.changing:
        return plan.sentences or (CHOSEN_HERE,) * bool(plan.patch.chosen_on)
    try:
        explanation = suppressed(plan.explanation)
    except PolidiffError:
        return ()
    sentences = [
        f"{start_text(explanation, sentence)}: {_effect_text(explanation, sentence)}."
        for sentence in explanation.sentences[:MOST_SENTENCES]
    ]
    losing = [entry for entry in losers(explanation) if entry.start is not None]
    worse = [f"{LOSES}{worse_off_text(explanation, entry)}." for entry in losing[:MOST_LOSING]]
    if len(losing) > MOST_LOSING:
        worse.append(f"{LOSES}{counted(len(losing) - MOST_LOSING, 'further group')}.")
    gain, aim = gained(frontier.gain_of(plan), frontier), objective(frontier)
    told = [verdict.difference for verdict in explanation.verdicts if verdict.outcome == frontier.objective]
    apart = any(estimate_text(one, aim, difference=True) != estimate_text(gain, aim, difference=True) for one in told)
    return (*sentences, *worse, *(TWO_GAINS,) * apart, f"What now: {advise(explanation).sentence}")


def _effect_text(explanation: Explanation, sentence: Sentence) -> str:
    same = acts_the_same(explanation, sentence)
    return "nothing changes" if same else verdicts_text(sentence.verdicts, explanation.outcomes)


def explained(frontier: Frontier) -> Frontier:
    """The frontier with the plan to look at first and the best one explained in words."""
    if not frontier.plans:
        return frontier
    sentences_of = {id(plan): plan_sentences(plan, frontier) for plan in (frontier.knee, frontier.best)}
    plans = tuple(replace(plan, sentences=sentences_of.get(id(plan), plan.sentences)) for plan in frontier.plans)
    return replace(frontier, plans=plans)


def ledger_table(frontier: Frontier, numbering: Numbering = UNNUMBERED) -> Table:
    """What each change is worth, and which others it leans on."""
    entries = ranked_changes(frontier)
    outcome, names = objective(frontier), numbering.among(entries[:MOST_ENTRIES])
    rows = tuple(
        (
            numbering.named(entry),
            bounds_text(entry.shapley, outcome, difference=True),
            worth_text(entry.alone, outcome),
            worth_text(entry.removed, outcome),
            *linked(entry, names),
        )
        for entry in entries[:MOST_ENTRIES]
    )
    rest = tuple((text, "", "", "", "", "") for text in ledger_rest(len(entries), MOST_ENTRIES))
    return Table(("change", "fair share", "alone", "added last", "needs", "conflicts with"), rows + rest)
