"""Explaining from a log whose states are feature rows: every row is compared, the log alone judges.

Regions are learned on half of the logged episodes and counted on the other half. Which regions an episode meets is
read off the logged episodes themselves, because a log of features has no moves to follow the proposed policy in; the
text says so. Where every episode is one decision there is nothing to follow: each region is a segment with verdicts of
its own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from polidiff.divergence.record import Divergence, label_swaps
from polidiff.evaluation.logged.behaviour import estimate_behaviour
from polidiff.evaluation.logged.compare import LogComparison, compare_log
from polidiff.evaluation.logged.counted_log import LOG, CountedLog, as_log_policy, counted_log
from polidiff.evaluation.logged.cross_check import cross_check
from polidiff.evaluation.logged.rule_coverage import RuleCoverage
from polidiff.explanation.patching import patch_of
from polidiff.explanation.quality import length_of, swap_accuracy
from polidiff.explanation.regions import region_records
from polidiff.explanation.segments import losing_segments, segments
from polidiff.explanation.summary import features_seen, methods_record, within
from polidiff.options import ExplainOptions
from polidiff.policies import top_actions
from polidiff.records.arrays import IntArray
from polidiff.records.explanation import Explanation, Meeting, Quality, Region, Sentence, Support, WorldSummary
from polidiff.regions.describe import Described, describe
from polidiff.regions.fidelity import fidelity
from polidiff.worlds.log import Log

READ_OFF = "Shares of episodes are those of the logged episodes, in which the current policy acted."
CELLS = "States are judged in cells of similar ones; what a cell hides can make an interval of a small log too narrow."


def explain_rows(log: Log, current: Any, proposed: Any, options: ExplainOptions) -> Explanation:
    """Regions over logged rows, with verdicts from the log."""
    divergence = divergence_in_rows(log, current, proposed, options)
    described = describe(
        divergence, log.actions, log.feature_names, has_features=True, max_rules=options.max_rules, seed=options.seed
    )
    where, rules = described.region_of(divergence.features), [region.rule for region in described.regions]
    one_step = log.check.rows == log.check.episodes
    counted = counted_log(
        log, (current, proposed), rules if one_step else [], seed=options.seed, history=True, rules=rules
    )
    assert counted.coverage is not None
    meetings, order = _meetings(counted.coverage, log.check.episodes)
    ids = tuple(f"S{int(np.flatnonzero(order == k)[0]) + 1}" for k in range(len(order)))
    regions = _counted(region_records(log, described, divergence, ids, None), counted.coverage, log)
    by_id = {region.id: region for region in regions}
    in_order = tuple(by_id[ids[k]] for k in order)
    groups = [np.ones(len(counted.start_state), dtype=np.bool_)]
    if one_step and counted.start_region is not None:
        groups += [counted.start_region == k + 1 for k in order]
    found = compare_log(log, current, proposed, groups, level=options.level, counted=counted, seed=options.seed)
    if one_step and in_order:
        sentences = segments(in_order, found)
    else:
        support = Support(log.check.rows, log.check.episodes, 1.0, float(found.unsupported[0]))
        told = tuple(Meeting(ids[k], *meetings[k]) for k in order)
        sentences = (Sentence(None, 1.0, (), 0.0, found.verdicts[0], support, meetings=told),)
    return Explanation(
        regions=in_order,
        sentences=sentences,
        changes=float(divergence.diverging.sum() / max(1, log.rows.n_episodes)),
        outcomes=log.outcomes,
        verdicts=found.verdicts[0],
        worse_off=losing_segments(sentences),
        tails=(),
        patch=patch_of(log, described, divergence),
        quality=_quality(divergence, described, where, regions, sentences),
        tradeoff=described.tradeoff,
        world=WorldSummary(
            "log",
            log.actions,
            within(features_seen(divergence.features, log.feature_names), counted.coverage.low, counted.coverage.high),
            {"rows": log.check.rows, "episodes": log.check.episodes},
        ),
        methods=methods_record(options, f"careful intervals from {log.check.episodes} logged episodes", found.family),
        warnings=(*log.notes, *found.warnings)
        if one_step
        else (*log.notes, READ_OFF, CELLS, *found.warnings, *_doubts(log, proposed, found, counted)),
    )


def _doubts(log: Log, proposed: Any, found: LogComparison, counted: CountedLog) -> tuple[str, ...]:
    """Outcomes for which the doubly robust estimate of the proposed policy lies apart from the model's interval.

    Episodes of one decision need no such check: weighted by the shares of its cells, a cell's mean is the same mean.
    """
    told = {verdict.outcome: verdict.proposed for verdict in found.verdicts[0] if verdict.proposed is not None}
    checked = cross_check(log, proposed, model=told, counted=counted, by_cells=True)
    return tuple(f"Proposed policy, {text}" for text in checked.warnings) if checked.shown else ()


def divergence_in_rows(log: Log, current: Any, proposed: Any, options: ExplainOptions) -> Divergence:
    """Where the policies part among the logged rows; "log" as a policy stands for the estimated behaviour."""
    rows = log.rows
    policies = [
        estimate_behaviour(log, seed=options.seed).policy if isinstance(p, str) and p == LOG else as_log_policy(log, p)
        for p in (current, proposed)
    ]
    old, new = (np.asarray(policy.probabilities(rows.states)) for policy in policies)
    a_b = top_actions(old)
    a_e = top_actions(new, prefer=a_b)
    index = np.arange(len(a_b))
    p_b, p_e = old[index, a_b], new[index, a_e]
    differs = (a_b != a_e) | (np.abs(p_b - p_e) > options.divergence.policy_tolerance)
    label, swaps = label_swaps(differs, a_b, a_e, (p_b, p_e), tuple(action.name for action in log.actions))
    share = np.full(len(a_b), 1 / len(a_b))
    start = np.flatnonzero(rows.first)
    return Divergence(
        states=rows.states,
        features=np.asarray(rows.states),
        label=label,
        swaps=swaps,
        current=a_b,
        proposed=a_e,
        weight=share,
        judged=share,
        episode=rows.episode,
        first=(index - start[rows.episode]).astype(float),
        facts={"rows compared": len(a_b)},
    )


def _meetings(seen: RuleCoverage, episodes: int) -> tuple[list[tuple[float, float]], IntArray]:
    """Share of logged episodes that meet each region and when it is typically first met; regions in that order.

    Regions that are met at the same time follow each other by size.
    """
    shares = seen.episodes / max(1, episodes)
    firsts = np.array([seen.typical_first(k) for k in range(len(shares))])
    return list(zip(shares.tolist(), firsts.tolist(), strict=True)), np.lexsort((-shares, firsts))


def _counted(regions: tuple[Region, ...], seen: RuleCoverage, log: Log) -> tuple[Region, ...]:
    """Regions with the rows and episodes of the whole log behind them."""
    return tuple(
        replace(
            region, support=replace(region.support, states=int(rows), episodes=int(met), share=rows / log.check.rows)
        )
        for region, rows, met in zip(regions, seen.rows, seen.episodes, strict=True)
    )


def _quality(
    divergence: Divergence,
    described: Described,
    where: IntArray,
    regions: tuple[Region, ...],
    sentences: tuple[Sentence, ...],
) -> Quality:
    rows = described.held_out if described.held_out.any() else np.ones(len(where), dtype=np.bool_)
    told = np.array([*(region.label for region in described.regions), 0])[where]
    truth = described.telling.label
    found = fidelity(told[rows], truth[rows], divergence.judged[rows])
    unknown = [verdict.direction == "unknown" for sentence in sentences for verdict in sentence.verdicts]
    return Quality(
        precision=found.precision,
        recall=found.recall,
        f1=found.f1,
        swap_accuracy=swap_accuracy(told[rows], truth[rows], divergence.judged[rows]),
        completeness={},
        path_fidelity=None,
        path_distance=None,
        length=length_of(regions, sentences),
        abstained=sum(unknown) / max(1, len(unknown)),
    )
