"""The figures of a page: a chart to draw, one line that says what it shows, and the same numbers as a table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from polidiff.explanation.plan_text import change_texts, returned, valued_plan
from polidiff.explanation.said import most_telling
from polidiff.explanation.text import unit_text
from polidiff.explanation.words import bounds_text
from polidiff.records.explanation import Explanation, Picture
from polidiff.records.numbers import counted, number, percent
from polidiff.records.plan import Frontier, Plan
from polidiff.report import plans as plan_texts
from polidiff.report import tables
from polidiff.report.charts import frontier as frontier_charts
from polidiff.report.charts import outcomes, regions, shows_strip
from polidiff.report.charts.theme import PAGE, Chart, Spec, finished
from polidiff.report.names import label, shown

MOST_PICTURES = 4
FIRST_CELLS, FURTHER_CELLS = 900, 250
MOST_TABLE_ROWS = 100
MOST_OUTCOMES = 6
MODEL = "Computed in the small table that chose the plans; the gains above are measured on other data."
ONLY_THESE = "Drawn are the changes that speak about these two features and no other; the list above has all."
FAIR = "Bars: the fair share of each change, the mean of what it adds over all orders of adopting them."
NOT_IN_IT = "For changes that are not in the plan, the chart shows what adding them would do."
BARS = "The longest bar of an outcome is the largest difference that any plan makes to it."


@dataclass(frozen=True)
class Figure:
    """One picture of a page."""

    id: str
    title: str
    summary: str  # read out instead of the picture
    specs: tuple[tuple[str, Spec], ...]  # (name in the list of choices, chart); the first is drawn
    table: tables.Table | None  # None where a table of the page's own has the numbers
    note: str = ""


def explanation_figures(explanation: Explanation) -> dict[str, list[Figure]]:
    """Figures by section."""
    return {
        "where": [*_region_figures(explanation), *_graph_figures(explanation)],
        "order": list(_path_figures(explanation)),
        "outcomes": list(_outcome_figures(explanation)),
        "quality": list(_quality_figures(explanation)),
    }


def _figure(id: str, title: str, summary: str, chart: Chart, table: tables.Table | None, note: str = "") -> Figure:
    return Figure(id, title, summary, (("", _spec(chart, summary)),), table, note)


def _spec(chart: Chart, summary: str) -> Spec:
    # tests hold every chart against the schema; doing so for each page would be half of its time
    spec: Spec = finished(chart, PAGE, description=shown(summary), width="container").to_dict(validate=False)
    return spec


@cache
def page_config() -> Spec:
    """The settings that all charts of a page share, sent once."""
    import altair as alt

    spec: Spec = finished(alt.Chart(alt.InlineData(values=[])).mark_point(), PAGE, description="").to_dict()
    config: Spec = spec["config"]
    return config


def _region_figures(explanation: Explanation) -> Iterator[Figure]:
    pictures = explanation.pictures[:MOST_PICTURES]
    if pictures:
        regions_in_all = counted(len(explanation.regions), "region")
        summary = f"{regions_in_all} in which the policies differ, over {_pair(pictures[0])}."
        fine = [FIRST_CELLS, *[FURTHER_CELLS] * MOST_PICTURES]
        charts = [regions.regions_chart(explanation, PAGE, picture=k, most=fine[k]) for k in range(len(pictures))]
        specs = [(_pair(picture), _spec(chart, summary)) for picture, chart in zip(pictures, charts, strict=True)]
        seen = "Grey: visits mostly outside all regions. Colour: mostly in one with this change. Stronger: more."
        note = seen + _outlines(explanation)
        yield Figure("regions", "Regions", summary, tuple(specs), None, note)
    if shows_strip(explanation):
        summary = "What both policies do, decision by decision, from a few shared starts."
        steps = outcomes.strip_rows(explanation)[:MOST_TABLE_ROWS]
        spans = [(str(row["i"] + 1), str(row["j"])) for row in steps]
        rows = tuple(
            (row["g"], " to ".join(dict.fromkeys(span)), row["a"]) for row, span in zip(steps, spans, strict=True)
        )
        table = tables.Table(("episode", "decisions", "action"), rows)
        yield _figure("strip", "A few episodes", summary, outcomes.strip_chart(explanation, PAGE), table)
        return
    drawn = [index for index, picture in enumerate(pictures) if picture.trajectories or picture.proposed_trajectories]
    if drawn:
        picture = pictures[drawn[0]]
        summary = f"Episodes of the current and the proposed policy from the same starts, over {_pair(picture)}."
        chart = regions.trajectories_chart(explanation, PAGE, picture=drawn[0])
        table = _trajectory_table(picture)
        yield _figure("trajectories", "A few episodes", summary, chart, table)


def _outlines(explanation: Explanation) -> str:
    """What outlines show; some rules speak about more than the two features of a picture, and have none there."""
    pictures = explanation.pictures[:MOST_PICTURES]
    outlined = [set(r.rule.features) <= {p.x, p.y} for r in explanation.regions for p in pictures]
    if not any(outlined):
        return ""
    return f" Outlines: the rules{'' if all(outlined) else ' that speak about these two features and no other'}."


def _pair(picture: Picture) -> str:
    return f"{label(picture.x)} × {label(picture.y)}"


def _trajectory_table(picture: Picture) -> tables.Table:
    rows = tuple(
        (policy, str(len(path)), _point(path[0]), _point(path[-1]))
        for policy, group in (("current", picture.trajectories), ("proposed", picture.proposed_trajectories))
        for path in group[: regions.MOST_PAIRS]
        if path
    )
    return tables.Table(("policy", "states passed", "first", "last"), rows)


def _point(point: tuple[float, float]) -> str:
    return f"({number(point[0], 3)}, {number(point[1], 3)})"


def _graph_figures(explanation: Explanation) -> Iterator[Figure]:
    if outcomes.draws_graph(explanation):
        states = len(outcomes.layout(explanation.graph))
        summary = f"{counted(states, 'state')} and the moves between them under both policies."
        rows = tuple(
            (arrow.source, arrow.target, arrow.policy, percent(arrow.probability))
            for arrow in explanation.graph[:MOST_TABLE_ROWS]
        )
        table = tables.Table(("from", "to", "policy", "probability"), rows)
        chart = outcomes.graph_chart(explanation, PAGE)
        note = "Orange: the states of the regions below."
        yield _figure("graph", "States and moves", summary, chart, table, note)


def _path_figures(explanation: Explanation) -> Iterator[Figure]:
    paths = {sentence.path for sentence in explanation.sentences if sentence.path}
    if len(paths) > 1 and max(map(len, paths)) > 1:
        summary = "The order in which each group meets the regions."
        rows = tuple(
            (
                f"Group {number}",
                " → ".join(sentence.path) or ("no path is typical" if sentence.meetings else "no change"),
                "–" if sentence.meetings else percent(sentence.path_share),
            )
            for number, sentence in enumerate(explanation.sentences, start=1)
        )
        table = tables.Table(("group", "regions in order", "episodes on this path"), rows)
        chart = outcomes.paths_chart(explanation, PAGE)
        yield _figure("paths", "In which order", summary, chart, table)


def _outcome_figures(explanation: Explanation) -> Iterator[Figure]:
    if len(explanation.sentences) < 2 and all(verdict.difference.exact for verdict in explanation.verdicts):
        return  # one number each, which the table has
    for index, verdict in enumerate(most_telling(explanation.verdicts)[:MOST_OUTCOMES]):
        of = next((outcome for outcome in explanation.outcomes if outcome.name == verdict.outcome), None)
        difference = bounds_text(verdict.difference, of, difference=True)
        where = f"over all {explanation.world.starts}"
        summary = f"{verdict.outcome}: proposed minus current is {difference} {where}, {verdict.direction}."
        chart = outcomes.outcome_chart(explanation, PAGE, outcome=verdict.outcome)
        table = tables.group_table(explanation, verdict.outcome)
        yield _figure(f"outcome-{index}", verdict.outcome, summary, chart, table)


def _quality_figures(explanation: Explanation) -> Iterator[Figure]:
    if len(explanation.tradeoff) > 1:
        summary = "How well a number of rules describes the difference."
        rows = tuple(
            (str(point.rules), str(point.literals), f"{point.f1:.3f}", "chosen" if point.chosen else "")
            for point in explanation.tradeoff
        )
        table = tables.Table(("rules", "comparisons to read", "F1", ""), rows)
        chart = outcomes.tradeoff_chart(explanation, PAGE)
        yield _figure("tradeoff", "More rules, a better description?", summary, chart, table)


def frontier_figures(frontier: Frontier, plans: plan_texts.PlansView) -> dict[str, list[Figure]]:
    """Figures by section; all but the ledger and the proofs follow the slider."""
    return {
        "frontier": [_plans_figure(frontier, plans)],
        "effect": [_effect_figure(frontier, plans.plans[plans.start])],
        "plan": list(_plan_figures(frontier, plans)),
        "ledger": list(_ledger_figures(frontier, plans)),
        "proofs": [_proofs_figure(frontier, plans)] if frontier.world.enumerated else [],
    }


def _plans_figure(frontier: Frontier, plans: plan_texts.PlansView) -> Figure:
    chart = frontier_charts.plans_chart(frontier, PAGE, plans=plans.plans, picked=plans.start)
    offered, unit = counted(len(frontier.plans) - 1, "plan"), unit_text(frontier.world, frontier.unit)
    summary = f"{frontier.aim} of {offered} against {unit}."
    return _figure("plans", "What changes buy", summary, chart, None)


def _proofs_figure(frontier: Frontier, plans: plan_texts.PlansView) -> Figure:
    every = -(-len(plans.plans) // MOST_TABLE_ROWS)
    chart = frontier_charts.frontier_chart(frontier, PAGE, plans=plans.plans[::every], picked=plans.start // every)
    summary = "How far each plan may be from the best of its size, and what simpler methods find."
    table = plan_texts.proofs_table(plans.plans[:MOST_TABLE_ROWS], frontier)
    note = "Filled dots are proven best for their size; dashed: no policy, mixed or not, lies above."
    return _figure("frontier", "Bounds and simpler methods", summary, chart, table, note)


def _effect_figure(frontier: Frontier, plan: Plan) -> Figure:
    summary = "Differences of outcomes between the chosen plan and the current policy."
    chart = frontier_charts.plan_outcomes_chart(frontier, PAGE, plan=plan)
    table = plan_texts.outcome_rows_table(plan, frontier)
    return _figure("plan-outcomes", "What this plan does", summary, chart, table, BARS)


def _plan_figures(frontier: Frontier, plans: plan_texts.PlansView) -> Iterator[Figure]:
    plan = plans.plans[plans.start]
    texts, numbers = change_texts(plan, plans.numbering), plans.numbering.of(plan)
    if plans.pair is not None and plans.spans is not None:
        rows = frontier_charts.plan_box_rows(plan, plans.pair, plans.spans, texts, numbers)
        chart = frontier_charts.plan_boxes_chart(PAGE, plans.pair, plans.spans, rows)
        summary = f"Where the chosen plan changes decisions, over {label(plans.pair[0])} × {label(plans.pair[1])}."
        changes = tables.Table(("change",), tuple((text,) for text in texts))
        rules = [rule for each in plans.plans for rule in frontier_charts.plan_boxes(each)]
        note = "" if all(regions.is_drawn(rule, plans.pair) for rule in rules) else ONLY_THESE
        yield _figure("plan-boxes", "Where this plan acts", summary, chart, changes, note)
    if plan.adoption:
        summary = f"{frontier.aim} when the changes of the chosen plan are followed only some of the time."
        chart = frontier_charts.adoption_chart(frontier, PAGE, points=plan.adoption)
        rows_told = tuple((percent(p.share), returned(p.expected_return, frontier)) for p in plan.adoption)
        table = tables.Table(("followed", frontier.aim), rows_told)
        yield _figure("plan-adoption", "If only some follow it", summary, chart, table, model_note(frontier))


def model_note(frontier: Frontier) -> str:
    """What must be said of figures that were not judged, where gains are."""
    return MODEL if frontier.judged else ""


def _ledger_figures(frontier: Frontier, plans: plan_texts.PlansView) -> Iterator[Figure]:
    ledger, numbering = frontier.ledger, plans.numbering
    if ledger is None or not ledger.entries:
        return
    how, note = "computed over all subsets" if ledger.exact else "sampled", model_note(frontier)
    valued, words = valued_plan(frontier)
    plan = f"the {words}" if valued is None else f"plan {frontier.number(valued)}"
    summary = f"What each of {counted(len(ledger.entries), 'change')} is worth alone and in {plan}; fair shares {how}."
    chart = frontier_charts.ledger_chart(frontier, PAGE, numbering)
    table, title = plan_texts.ledger_table(frontier, numbering), f"What each change is worth in {plan}"
    beside = [entry for entry in ledger.entries if ledger.order and entry.change not in ledger.order]
    full_note = " ".join(filter(None, [FAIR, note, NOT_IN_IT * bool(beside)]))
    yield _figure("ledger", title, summary, chart, table, full_note)
    if ledger.order:
        summary = f"{frontier.aim} after each change of {plan}, in the best order to adopt."
        steps = frontier_charts.order_rows(frontier, numbering)
        values = ["never ends" if row["r"] is None else returned(frontier.sign * row["r"], frontier) for row in steps]
        rows = tuple((str(row["i"]), row["n"], value) for row, value in zip(steps, values, strict=True))
        table = tables.Table(("step", "change", frontier.aim), rows[:MOST_TABLE_ROWS])
        chart, title = frontier_charts.order_chart(frontier, PAGE, numbering), f"In which order to adopt {plan}"
        yield _figure("order", title, summary, chart, table, note)
