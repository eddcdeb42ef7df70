"""One definition for each picture, for notebooks, the page and files."""

from __future__ import annotations

from typing import Any

from polidiff.errors import InvalidOptionError
from polidiff.records.explanation import Explanation
from polidiff.records.plan import Frontier
from polidiff.report.palette import PAPER, Palette


def chart(record: Any, which: str, palette: Palette = PAPER) -> Any:
    """A chart object of one aspect of a result.

    Parameters
    ----------
    record : Explanation or Frontier
    which : str
        One of `charts_of(record)`: "regions", "trajectories", "graph", "paths", "outcomes", "tradeoff"; "frontier",
        "plan", "ledger", "order", "adoption".
    """
    from polidiff.report.charts.theme import WIDTH, finished

    drawers = charts_of(record)
    if which not in drawers:
        offered = ", ".join(drawers) or "none"
        raise InvalidOptionError(f"this result has no chart {which!r}; it has: {offered}")
    width = None if which == "outcomes" else WIDTH
    return finished(drawers[which](record, palette), palette, description=DESCRIPTIONS[which], width=width)


DESCRIPTIONS = {
    "regions": "Where the two policies act differently",
    "trajectories": "Episodes of both policies",
    "graph": "Moves between states under both policies",
    "paths": "In which order the differences are met",
    "outcomes": "Differences of outcomes, proposed minus current",
    "tradeoff": "How well a number of rules describes the difference",
    "frontier": "Expected return against number of changes",
    "plan": "What the best plan does to outcomes",
    "ledger": "What each change is worth",
    "order": "Return after each change in the best order to adopt",
    "adoption": "Return when the changes are followed only some of the time",
}


def charts_of(record: Any) -> dict[str, Any]:
    """The charts that a result has enough to draw, by name, the most telling first."""
    if isinstance(record, Explanation):
        return _explanation_charts(record)
    if isinstance(record, Frontier):
        return _frontier_charts(record)
    raise InvalidOptionError(f"charts are drawn of an explanation or a frontier; got {type(record).__name__}")


def _explanation_charts(record: Explanation) -> dict[str, Any]:
    from polidiff.report.charts import outcomes, paths, regions

    offered = {
        "regions": (regions.regions_chart, bool(record.pictures)),
        "graph": (paths.graph_chart, bool(record.graph)),
        "outcomes": (outcomes.outcomes_chart, bool(record.verdicts)),
        "paths": (paths.paths_chart, any(s.path for s in record.sentences) and not record.world.one_step),
        "trajectories": (regions.trajectories_chart, any(p.trajectories for p in record.pictures)),
        "tradeoff": (outcomes.tradeoff_chart, len(record.tradeoff) > 1),
    }
    return {name: draw for name, (draw, possible) in offered.items() if possible}


def _frontier_charts(record: Frontier) -> dict[str, Any]:
    from polidiff.report.charts import frontier

    offered = {
        "frontier": (frontier.frontier_chart, bool(record.plans)),
        "plan": (frontier.plan_outcomes_chart, bool(record.plans)),
        "ledger": (frontier.ledger_chart, record.ledger is not None and bool(record.ledger.entries)),
        "order": (frontier.order_chart, record.ledger is not None and bool(record.ledger.order)),
        "adoption": (frontier.adoption_chart, bool(record.plans) and bool(record.best.adoption)),
    }
    return {name: draw for name, (draw, possible) in offered.items() if possible}
