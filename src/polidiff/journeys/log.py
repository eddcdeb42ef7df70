r"""What episodes meet, from a log.

Where states are labels, the proposed policy is followed in the model that verdicts rest on, which is a table, of states
that know some of the past where that matters; where episodes end because of their length, for as many decisions. Where
states are features it is followed in the log's own moves: an episode goes on as it was logged for as long as the
proposed policy would have decided so, which it does with chance :math:`\min(1, \pi_e / \pi_b)` at the logged action;
else another action is drawn, from what :math:`\pi_e` has above :math:`\pi_b`, and the episode goes on as that of one of
the nearest logged cases with that action (after Fonteneau et al. 2013, model-free Monte Carlo). No weights of whole
episodes are needed, which would soon rest on a few.
Where no case is near, the shares of the logged episodes are told, and that they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.spatial import cKDTree

from polidiff.evaluation.log import EstimatedComparison, RowsComparison
from polidiff.evaluation.scores.difference import MOST_CUT
from polidiff.evaluation.verdicts import StartOutcomes
from polidiff.journeys import Journeys, Meetings, met_regions, table
from polidiff.records.arrays import BoolArray, FloatArray, IntArray
from polidiff.records.rule import Rule, first_match
from polidiff.streams import Stream
from polidiff.worlds.shards.transition_counts import CUT

if TYPE_CHECKING:
    from polidiff.worlds.log import Log

FEWEST = 50  # logged episodes of either half
REPEATS = 4  # episodes that are followed from each logged start
NEAREST = 5  # cases of which one is gone on with
TOO_FAR = 0.6  # of the distance between any two cases with the action: nearer ones are alike
LONGER = 3  # times as long as the longest logged episode, at most
READ_OFF = "Shares of episodes are those of the logged episodes, in which the current policy acted."


def follow(
    log: Log,
    comparison: EstimatedComparison | RowsComparison,
    rules: Sequence[Rule],
    *,
    seed: int,
    episodes: int,
) -> Journeys | Meetings:
    """Episodes of the proposed policy in the estimated model, or in the moves of logged ones."""
    if isinstance(comparison, EstimatedComparison):
        return table.follow(
            comparison.place, comparison, rules, seed=seed, episodes=episodes, followed=comparison.followed
        )
    coverage = comparison.coverage(rules)
    first = np.array([coverage.typical_first(k) for k in range(len(rules))])
    logged = Meetings(coverage.episodes / max(1, log.check.episodes), first, comparison.one_step)
    if comparison.one_step or not rules or comparison.second is not None:
        return logged if comparison.one_step else replace(logged, notes=(READ_OFF,))
    return _followed(comparison, rules, logged)


def _followed(comparison: RowsComparison, rules: Sequence[Rule], logged: Meetings) -> Meetings:
    decisions, rows = comparison.scored.decisions, comparison.world.rows
    states = rows.states[decisions.order]
    region, starts, totals = first_match(list(rules), states), states[decisions.first], _totals(comparison)
    judging = comparison.judging[rows.episode[decisions.order[decisions.first]]]
    parts = [np.flatnonzero(half) for half in (~judging, judging)]
    cut = (decisions.follow == CUT).sum() > MOST_CUT * len(judging)
    halves, scores = [], []
    for number, part in enumerate(parts):
        rng = np.random.default_rng((comparison.seed, Stream.TABLE_PATHS, number))
        episode, at, far = follow_moves(comparison, np.isin(decisions.episode, part), rng)
        if cut or len(part) < FEWEST or far > TOO_FAR:
            unsaid = "Not enough episodes to say which paths the proposed policy takes."
            return replace(logged, notes=(unsaid, READ_OFF))
        paths, first_met, meets = met_regions(episode, region[at], np.repeat(np.arange(len(part)), REPEATS), len(rules))
        weight = np.full(len(part), 1 / len(part))
        halves.append(Journeys(starts[part], weight, paths, first_met, meets, ()))
        scores.append(StartOutcomes(starts[part], weight, totals[0][part], totals[1][part], False, "scores"))
    share, size = (np.concatenate([getattr(half, name) for half in halves]) for name in ("meets", "first_met"))
    with np.errstate(invalid="ignore"):
        first = (share * np.nan_to_num(size)).sum(axis=0) / share.sum(axis=0)
    note = (
        "Paths and shares are those of the proposed policy, followed in the log's own moves: where it decides "
        "otherwise, an episode goes on as that of a case alike that was decided so. Groups of starts are formed on "
        "half of the episodes and judged on the others."
    )
    first = np.where(np.isnan(first), np.inf, first)
    return Meetings(share.mean(axis=0), first, False, (halves[0], halves[1]), (scores[0], scores[1]), (note,))


def follow_moves(
    comparison: RowsComparison, use: BoolArray, rng: np.random.Generator
) -> tuple[IntArray, IntArray, float]:
    """Episodes of the proposed policy in the moves of some decisions (n,).

    Returns episode and decision of each visit, episode after episode, and how far away the cases are that are gone on
    with, as a share of the distance between any two with the action (the median).
    """
    decisions, follow = comparison.scored.decisions, comparison.scored.decisions.follow
    chances, cases = comparison.scored.chances.table, _Cases(comparison, use)
    table = comparison.scored.policy(comparison.given[1])
    table = chances if table is None else table
    here = np.repeat(np.flatnonzero(decisions.first & use), REPEATS)
    episode, visits, far = np.arange(len(here)), [], [np.zeros(0)]
    for _ in range(LONGER * (int(decisions.step.max()) + 1)):
        visits.append((episode, here))
        own = decisions.actions[here]
        as_logged = rng.random(len(here)) * chances[here, own] <= table[here, own]
        beyond = np.maximum(table[here] - chances[here], 0.0)
        drawn = rng.random(len(here))[:, None] * beyond.sum(axis=1, keepdims=True) > np.cumsum(beyond, axis=1)
        action = np.where(as_logged, own, np.minimum(drawn.sum(axis=1), table.shape[1] - 1))
        other = np.flatnonzero(action != own)
        gone_on = here.copy()
        gone_on[other], distance = cases.near(here[other], action[other], rng)
        far.append(distance)
        after = follow[gone_on]
        episode, here = episode[after >= 0], after[after >= 0]
        if not len(here):
            break
    all_episodes, all_visits = (np.concatenate([part[k] for part in visits]) for k in (0, 1))
    order, distances = np.argsort(all_episodes, kind="stable"), np.concatenate(far)
    return all_episodes[order], all_visits[order], float(np.median(distances)) if len(distances) else 0.0


class _Cases:
    """Logged decisions by action, to find those that are near."""

    def __init__(self, comparison: RowsComparison, use: BoolArray) -> None:
        decisions = comparison.scored.decisions
        x = np.column_stack([decisions.x, decisions.step])
        self.x = (x - x.mean(axis=0)) / np.maximum(x.std(axis=0), 1e-9)
        self.rows = [np.flatnonzero(use & (decisions.actions == a)) for a in range(decisions.n_actions)]
        self.trees = [cKDTree(self.x[rows]) if len(rows) else None for rows in self.rows]

    def near(self, here: IntArray, action: IntArray, rng: np.random.Generator) -> tuple[IntArray, FloatArray]:
        """For each decision one of the nearest with the action, and how far it is beside any other with it."""
        nearest, far = here.copy(), np.ones(len(here))
        for a, (rows, tree) in enumerate(zip(self.rows, self.trees, strict=True)):
            asked = np.flatnonzero(action == a)
            if tree is None or not len(asked):
                continue
            number, index = rng.integers(0, min(NEAREST, len(rows)), len(asked)), np.arange(len(asked))
            queried = tree.query(self.x[here[asked]], k=range(1, min(NEAREST, len(rows)) + 1))
            distance, place = (np.asarray(part)[index, number] for part in queried)
            nearest[asked] = rows[place.astype(np.int64)]
            other = rows[rng.integers(0, len(rows), len(asked))]
            typical = float(np.median(np.linalg.norm(self.x[here[asked]] - self.x[other], axis=1)))
            far[asked] = distance / max(typical, 1e-12)
        return nearest, far


def _totals(comparison: RowsComparison) -> list[FloatArray]:
    """(episodes, M) what the current and the proposed policy bring, as scores of each logged episode."""
    scored = comparison.scored
    rows = [scored.observed + scored.scores(scored.policy(p)).rows for p in comparison.given]
    begin = np.flatnonzero(scored.decisions.first)
    return [np.add.reduceat(part, begin, axis=0) for part in rows]
