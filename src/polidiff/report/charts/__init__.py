"""One definition for each picture, for notebooks, the page and PNG and SVG files, drawn without a browser."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from polidiff.errors import InvalidOptionError
from polidiff.files import write_whole
from polidiff.records.explanation import Explanation
from polidiff.records.plan import Frontier
from polidiff.records.suppression import released
from polidiff.report.charts.theme import PAPER, Chart, Palette

Drawer: TypeAlias = Callable[..., Chart]


def chart(record: Explanation | Frontier, which: str, palette: Palette = PAPER) -> Chart:
    """A chart object of one aspect of a result.

    Parameters
    ----------
    record : Explanation or Frontier
    which : str
        One of `charts_of(record)`: "regions", "trajectories", "strip", "graph", "paths", "outcomes", "tradeoff";
        "frontier", "plan", "ledger", "order", "adoption".
    """
    from polidiff.report.charts.theme import WIDTH, finished

    record = released(record)
    drawers = charts_of(record)
    if which not in drawers:
        offered = ", ".join(drawers) or "none"
        raise InvalidOptionError(f"this result has no chart {which!r}; it has: {offered}")
    width = None if which == "outcomes" else WIDTH
    return finished(drawers[which](record, palette), palette, description=DESCRIPTIONS[which], width=width)


DESCRIPTIONS = {
    "regions": "Where the two policies act differently",
    "trajectories": "Episodes of both policies from the same starts",
    "strip": "What both policies do, decision by decision, from the same starts",
    "graph": "Moves between states under both policies",
    "paths": "In which order the differences are met",
    "outcomes": "Differences of outcomes, proposed minus current",
    "tradeoff": "How well a number of rules describes the difference",
    "frontier": "What changes buy: what plans improve against number of changes",
    "plan": "What the best plan does to outcomes",
    "ledger": "What each change is worth",
    "order": "Return after each change in the best order to adopt",
    "adoption": "Return when the changes are followed only some of the time",
}


def charts_of(record: Explanation | Frontier) -> dict[str, Drawer]:
    """The charts that a result has enough to draw, by name, the most telling first."""
    if isinstance(record, Explanation):
        return _explanation_charts(record)
    if isinstance(record, Frontier):
        return _frontier_charts(record)
    raise InvalidOptionError(f"charts are drawn of an explanation or a frontier; got {type(record).__name__}")


def _explanation_charts(record: Explanation) -> dict[str, Drawer]:
    from polidiff.report.charts import outcomes, regions

    offered: dict[str, tuple[Drawer, bool]] = {
        "regions": (regions.regions_chart, bool(record.pictures)),
        "graph": (outcomes.graph_chart, outcomes.draws_graph(record)),
        "outcomes": (outcomes.outcomes_chart, bool(record.verdicts)),
        "paths": (outcomes.paths_chart, any(s.path for s in record.sentences) and not record.world.one_step),
        "strip": (outcomes.strip_chart, shows_strip(record)),
        "trajectories": (
            regions.trajectories_chart,
            any(p.trajectories for p in record.pictures) and not shows_strip(record),
        ),
        "tradeoff": (outcomes.tradeoff_chart, len(record.tradeoff) > 1),
    }
    return {name: draw for name, (draw, possible) in offered.items() if possible}


def shows_strip(record: Explanation) -> bool:
    """Whether decisions over time tell more than lines over two features do."""
    parting = any(pair.current != pair.proposed for pair in record.episodes)
    return parting and len(record.world.features) > 2


def _frontier_charts(record: Frontier) -> dict[str, Drawer]:
    from polidiff.report.charts import frontier

    offered: dict[str, tuple[Drawer, bool]] = {
        "frontier": (frontier.frontier_chart, bool(record.plans)),
        "plan": (frontier.plan_outcomes_chart, bool(record.plans)),
        "ledger": (frontier.ledger_chart, record.ledger is not None and bool(record.ledger.entries)),
        "order": (frontier.order_chart, record.ledger is not None and bool(record.ledger.order)),
        "adoption": (frontier.adoption_chart, bool(record.plans) and bool(record.best.adoption)),
    }
    return {name: draw for name, (draw, possible) in offered.items() if possible}


SCALE = 2.0  # dots per unit of a PNG


def save_picture(record: Explanation | Frontier, path: str | os.PathLike[str], which: str | None = None) -> Path:
    """Write one chart of a result; by default its most telling one."""
    return write_whole(path, picture(record, which, Path(path).suffix.lower()))


def picture(record: Explanation | Frontier, which: str | None = None, suffix: str = ".png") -> bytes:
    """One chart of a result as the bytes of a PNG or SVG file."""
    name = which if which is not None else next(iter(charts_of(record)), None)
    if name is None:
        raise InvalidOptionError("this result has nothing to draw. Hint: save it as .md or .html")
    return rendered(chart(record, name), suffix)


def rendered(drawn: Chart, suffix: str) -> bytes:
    """A chart object as the bytes of a PNG or SVG file."""
    import vl_convert

    spec = drawn.to_dict(validate=False)  # as in `figures`
    if suffix == ".svg":
        return str(vl_convert.vegalite_to_svg(spec)).encode()
    return bytes(vl_convert.vegalite_to_png(spec, scale=SCALE))
