"""Do paths and groups of starts from a feature log hold in the world that wrote it?

Logs of feature worlds are explained; the proposed policy is then played in the world itself. Told are how far the
shares of episodes that meet a region, and of the path that a sentence tells, lie from the true ones, beside the shares
of the logged episodes; and how often the verdict of a group of starts has the wrong sign, and its interval misses the
truth.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.logs.feature_worlds import WORLDS, World, as_log, chances, play
from polidiff import explain
from polidiff.explanation.sentences import group_rules
from polidiff.journeys import met_regions
from polidiff.records.arrays import FloatArray
from polidiff.records.explanation import Explanation
from polidiff.records.rule import first_match

SEED = 2026
TRUE_EPISODES = 20_000


def rows(smoke: bool) -> Iterator[dict[str, Any]]:
    """One world with small logs; five with larger ones."""
    cells = [("clinic", 200, 40), *((name, 1000, 20) for name in ("clinic", "glucose", "stock", "dosing", "six"))]
    for name, episodes, logs in [("clinic", 200, 1)] if smoke else cells:
        yield measure(WORLDS[name], episodes, logs, seed=SEED)


def measure(world: World, episodes: int, logs: int, *, seed: int) -> dict[str, Any]:
    """All figures of one world."""
    policies = world.current, world.proposed
    true = [play(world, policy, TRUE_EPISODES, np.random.default_rng((seed, 1))) for policy in policies]
    apart, logged, paths, groups, silent, began = [], [], [], [], 0, time.process_time()
    for number in range(logs):
        rows = play(world, world.current, episodes, np.random.default_rng((seed, episodes, number)))

        def proposed(x: FloatArray) -> FloatArray:
            return chances(world.proposed(np.asarray(x, dtype=float)), world.n_actions)

        told = explain(as_log(world, rows), "log", proposed)
        silent += any("Not enough episodes" in text for text in told.warnings)
        ids, rules = [region.id for region in told.regions], [region.rule for region in told.regions]
        found = [_meets(part, rules) for part in (true[1], rows)]
        for sentence, group in zip(told.sentences, group_rules(told.sentences), strict=True):
            inside = group.covers(true[1].states[true[1].first])
            if sentence.start is None and sentence.meetings:
                shares = {meeting.region: meeting.share for meeting in sentence.meetings}
                apart += [abs(shares.get(k, 0.0) - m) for k, m in zip(ids, found[0][1].mean(axis=0), strict=True)]
                logged += list(np.abs(found[1][1].mean(axis=0) - found[0][1].mean(axis=0)))
            if sentence.path and inside.any():
                own = tuple(ids.index(k) for k in sentence.path)
                same = np.mean([own in counts for counts, here in zip(found[0][0], inside, strict=True) if here])
                paths.append(abs(sentence.path_share - float(same)))
            if sentence.start is not None and inside.any():
                groups.append(_verdict(told, sentence, true, inside))
    wrong, missed, decided = np.mean(groups, axis=0).round(3).tolist() if groups else (None, None, None)
    return {
        "world": world.name,
        "episodes": episodes,
        "logs": logs,
        "not enough to say": silent / logs,
        "meeting shares off": _mean(apart),
        "meeting shares of logged episodes off": _mean(logged),
        "path shares off": _mean(paths),
        "paths told": len(paths),
        "groups": len(groups),
        "groups decided": decided,
        "groups decided wrongly": wrong,
        "groups outside their interval": missed,
        "CPU s": round((time.process_time() - began) / logs, 2),
    }


def _mean(values: list[Any]) -> float | None:
    return round(float(np.mean(values)), 3) if values else None


def _meets(rows: Any, rules: list[Any]) -> tuple[Any, FloatArray]:
    region = first_match(rules, rows.states)
    paths, _, meets = met_regions(rows.episode, region, np.arange(rows.n_episodes), len(rules))
    return paths, meets


def _verdict(told: Explanation, sentence: Any, true: list[Any], inside: Any) -> tuple[bool, bool, bool]:
    """Whether a group's verdict is wrong, its interval misses the true effect, and it is decided."""
    ends = [np.bincount(rows.episode, rows.gains[:, 0])[inside].mean() for rows in true]
    effect, verdict = float(ends[1] - ends[0]), sentence.verdicts[0]
    wrong = (verdict.direction == "more" and effect < 0) or (verdict.direction == "less" and effect > 0)
    return wrong, not verdict.difference.contains(effect), verdict.direction in ("more", "less")
