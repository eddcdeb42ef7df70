"""Why a verdict is unknown, in words: the state and the action that nobody has tried, or too few episodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from polidiff.evaluation.logged.careful import NO_MASS, Judged
from polidiff.records.outcome import Outcome

if TYPE_CHECKING:
    from polidiff.worlds.log import Log


def why_unknown(log: Log, names: tuple[str, ...], pair: tuple[Judged, Judged], group: int, outcome: Outcome) -> str:
    """One sentence, naming what would help most."""
    for judged, who in zip(pair, ("proposed", "current"), strict=True):
        mass = float(judged.unsupported[group])
        if mass > NO_MASS:
            said = f"{_place(log, names, judged, group)}; {mass:.0%} of the {who} policy's episodes meet such a gap"
            if outcome.range is None:
                return f"{said}, and {outcome.name!r} has no declared range that would bound it"
            return said
    episodes = pair[0].starts.episodes[group]
    behind = "" if np.isinf(episodes) else f" from {episodes:.0f} episodes of this group"
    return f"the log has every decision that is needed, but too few of them to tell{behind}: the interval includes 0"


def _place(log: Log, names: tuple[str, ...], judged: Judged, group: int) -> str:
    """The largest gap that a group meets."""
    asks = judged.asks[group]
    state = int(asks.argmax())
    others = int((asks > NO_MASS).sum()) - 1
    more = f" (and in {others} more {'state' if others == 1 else 'states'})" if others else ""
    edges = judged.model.edges
    if edges.state_visits[state] == 0:
        return f"no decision in {names[state]!r} is followed up in the log{more}"
    if judged.model.loops[state]:
        return f"the log shows no way to an end from {names[state]!r}{more}"
    untried = judged.target.rest[state] * (edges.visits[state] == 0)
    return f"nobody has tried {log.actions[int(untried.argmax())].name!r} in {names[state]!r}{more}"
