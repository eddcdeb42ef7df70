"""What a world needs to know about an environment before the first step."""

from __future__ import annotations

from typing import Any

from polidiff.worlds.gymnasium.names import ACTIONS, FEATURES, known_names
from polidiff.worlds.gymnasium.source import as_source


def describe(origin: Any) -> dict[str, Any]:
    """Number and names of actions, names of features, time limit, and the kind of observation.

    Returns
    -------
    dict
        ``n_actions``, ``actions`` (names, mappings of levels, or None), ``feature_names``, ``horizon`` (None without a
        time limit), ``kind`` ("index", "box" or "mixed"), ``categorical`` (whether observations are state indices) and
        ``source``, which keeps copies of the environment between batches.
    """
    source = as_source(origin)
    env, actions, observations = source.example, source.actions, source.observations
    spec = getattr(env, "spec", None)
    return {
        "n_actions": actions.count,
        "actions": actions.names or known_names(env, ACTIONS, actions.count),
        "feature_names": known_names(env, FEATURES, len(observations.names)) or observations.names,
        "horizon": source.time_limit or getattr(spec, "max_episode_steps", None),
        "kind": observations.kind,
        "categorical": observations.kind == "index",
        "source": source,
    }
