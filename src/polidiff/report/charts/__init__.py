"""One definition for each picture, for notebooks, the page and PNG and SVG files, drawn without a browser."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from polidiff.errors import InvalidOptionError
from polidiff.files import write_whole
from polidiff.records.explanation import Explanation
from polidiff.records.plan import Frontier
from polidiff.records.suppression import released
from polidiff.report.charts.theme import PAPER, Chart, Palette
from polidiff.report.names import shown

Drawer: TypeAlias = Callable[..., Chart]
LIMITS = ("labelLimit", "titleLimit")  # of the length of texts, in pixels


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
    from polidiff.report.charts import frontier, outcomes, regions

    offered: dict[str, tuple[Drawer, bool]]
    if isinstance(record, Explanation):
        strip, lines = shows_strip(record), any(picture.trajectories for picture in record.pictures)
        met = any(sentence.path for sentence in record.sentences)
        offered = {
            "regions": (regions.regions_chart, bool(record.pictures)),
            "graph": (outcomes.graph_chart, outcomes.draws_graph(record)),
            "outcomes": (outcomes.outcomes_chart, bool(record.verdicts)),
            "paths": (outcomes.paths_chart, met and not record.world.one_step),
            "strip": (outcomes.strip_chart, strip),
            "trajectories": (regions.trajectories_chart, lines and not strip),
            "tradeoff": (outcomes.tradeoff_chart, len(record.tradeoff) > 1),
        }
    elif isinstance(record, Frontier):
        plans, ledger = bool(record.plans), record.ledger
        offered = {
            "frontier": (frontier.frontier_chart, plans),
            "plan": (frontier.plan_outcomes_chart, plans),
            "ledger": (frontier.ledger_chart, ledger is not None and bool(ledger.entries)),
            "order": (frontier.order_chart, ledger is not None and bool(ledger.order)),
            "adoption": (frontier.adoption_chart, plans and bool(record.best.adoption)),
        }
    else:
        raise InvalidOptionError(f"charts are drawn of an explanation or a frontier; got {type(record).__name__}")
    return {name: draw for name, (draw, possible) in offered.items() if possible}


def shows_strip(record: Explanation) -> bool:
    """Whether decisions over time tell more than lines over two features do."""
    parting = any(pair.current != pair.proposed for pair in record.episodes)
    return parting and len(record.world.features) > 2


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
    spec = _writable(spec, whole=any(letter > "\uffff" for letter in json.dumps(spec, ensure_ascii=False)))
    if suffix == ".svg":
        return str(vl_convert.vegalite_to_svg(spec)).encode()
    return bytes(vl_convert.vegalite_to_png(spec, scale=SCALE))


def _writable(spec: Any, *, whole: bool) -> Any:
    """A chart whose texts an SVG file may hold: a control character would end the process that draws it.

    With `whole` texts: a cut may go through a letter of two halves, such as 💊, and nothing is drawn.
    """
    if isinstance(spec, dict):
        return {key: 0 if whole and key in LIMITS else _writable(entry, whole=whole) for key, entry in spec.items()}
    if isinstance(spec, list):
        return [_writable(entry, whole=whole) for entry in spec]
    return shown(spec) if isinstance(spec, str) else spec
