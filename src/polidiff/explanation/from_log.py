"""Explaining from a log with discrete states: told in the estimated model, judged by the log alone.

Where the policies part and which regions follow each other is read in the model that the log supports (Algorithm 3 of
the paper and roll-outs in the estimated moves). What that does to outcomes is never read in the model: each verdict is
the log's careful interval, with the share of the proposed policy's episodes that meet decisions nobody has tried.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np

from polidiff.divergence.table import divergence_in_table
from polidiff.evaluation.exact import ExactEvaluator
from polidiff.evaluation.logged.compare import LogComparison, compare_log
from polidiff.evaluation.logged.counted_log import CountedLog, counted_log
from polidiff.evaluation.logged.plan import estimated_world
from polidiff.explanation.compose import Evidence, compose
from polidiff.explanation.judge import judge_table
from polidiff.options import ExplainOptions
from polidiff.policies import TablePolicy, top_actions
from polidiff.records.arrays import BoolArray, FloatArray
from polidiff.records.explanation import Explanation, Region, Sentence, WorldSummary, WorseOff
from polidiff.records.rule import Rule, covers_any
from polidiff.worlds.log import Log
from polidiff.worlds.tabular import TabularMDP

ALMOST_ONE = 0.999  # discount that keeps estimated loops without exit finite while regions are looked for


def explain_log(log: Log, current: Any, proposed: Any, options: ExplainOptions) -> Explanation:
    """Regions and paths from the estimated model; verdicts, support and unknowns from the log."""
    counted = counted_log(log, (current, proposed), seed=options.seed)
    old, new = (_padded(counted.table(policy)) for policy in (current, proposed))
    model = _finite(estimated_world(log, counted=counted), (old, new))
    judged = judge_table(model, old, new)
    differs = 1.0 - new[np.arange(len(new)), top_actions(old)]
    changes = float(ExactEvaluator(model, new).visits() @ np.where(model.absorbing, 0.0, differs))
    evidence = Evidence(divergence_in_table(model, old, new, options.divergence), judged, judged, changes)
    told = compose(model, TablePolicy(old), TablePolicy(new), evidence, options)
    return _judged_by_log(log, counted, told, (current, proposed), options)


def _padded(table: FloatArray) -> FloatArray:
    """The policy with rows for the states "end" and "unknown", where nothing is decided."""
    rest = np.zeros((2, table.shape[1]))
    rest[:, 0] = 1.0
    return np.vstack([table, rest])


def _finite(model: TabularMDP, tables: tuple[FloatArray, FloatArray]) -> TabularMDP:
    """The model as it is, or slightly discounted where a policy would stay in an estimated loop for ever."""
    if all(ExactEvaluator(model, table).ends[model.starts].all() for table in tables):
        return model
    softer = copy.copy(model)
    softer.discount = min(model.discount, ALMOST_ONE)
    return softer


def _judged_by_log(
    log: Log, counted: CountedLog, told: Explanation, policies: tuple[Any, Any], options: ExplainOptions
) -> Explanation:
    features = log.features_of(log.starts)
    groups = [_mask(_rules(sentence), features) for sentence in told.sentences]
    losing = [_mask([] if entry.start is None else [entry.start], features) for entry in told.worse_off]
    masks = [*groups, np.ones(len(features), dtype=np.bool_), *losing]
    found = compare_log(log, *policies, masks, level=options.level, counted=counted, seed=options.seed)
    shown = len(groups)
    sentences = tuple(_with_verdicts(sentence, found, k, log) for k, sentence in enumerate(told.sentences))
    return replace(
        told,
        sentences=sentences,
        verdicts=found.verdicts[shown],
        worse_off=_confirmed(told.worse_off, found, shown + 1),
        tails=(),
        regions=tuple(_supported(region, told, counted, policies[1]) for region in told.regions),
        outcomes=log.outcomes,
        world=_summary(log, told),
        methods=replace(
            told.methods,
            evaluation=f"careful intervals from {log.check.episodes} logged episodes",
            family=found.family,
        ),
        warnings=(*told.warnings, *found.warnings, *_loop_warning(found)),
        graph=(),
        sample=(),
        pictures=tuple(replace(p, trajectories=(), proposed_trajectories=()) for p in told.pictures),
    )


def _rules(sentence: Sentence) -> list[Rule]:
    return [] if sentence.start is None else [sentence.start, *sentence.also]


def _mask(rules: list[Rule], features: Any) -> BoolArray:
    return covers_any(rules, features) if rules else np.ones(len(features), dtype=np.bool_)


def _with_verdicts(sentence: Sentence, found: LogComparison, k: int, log: Log) -> Sentence:
    support = replace(
        sentence.support, episodes=round(float(found.episodes[k])), unsupported=float(found.unsupported[k])
    )
    share = float(found.episodes[k]) / max(1, int(log.start_counts.sum()))
    return replace(sentence, verdicts=found.verdicts[k], support=support, share=share)


def _confirmed(entries: tuple[WorseOff, ...], found: LogComparison, first: int) -> tuple[WorseOff, ...]:
    """Groups that the model calls worse off and the log's own interval confirms."""
    kept = []
    for k, entry in enumerate(entries):
        verdict = next(v for v in found.verdicts[first + k] if v.outcome == entry.outcome)
        if verdict.valence == "worse":
            kept.append(replace(entry, difference=verdict.difference))
    return tuple(kept)


def _supported(region: Region, told: Explanation, counted: CountedLog, proposed: Any) -> Region:
    """The region with the share of its visits whose proposed action nobody has tried."""
    world = told.context[0]
    visits = counted.counts.edges.visits
    inside = region.rule.covers(world.features_of(np.arange(len(visits)))) & (visits.sum(axis=1) > 0)
    if not inside.any():
        return replace(region, support=replace(region.support, unsupported=1.0))
    weight = visits[inside].sum(axis=1)
    untried = (counted.table(proposed)[inside] * (visits[inside] == 0)).sum(axis=1)
    episodes = min(region.support.episodes, int(weight.sum()))
    return replace(
        region,
        support=replace(region.support, episodes=episodes, unsupported=float(weight @ untried / weight.sum())),
    )


def _summary(log: Log, told: Explanation) -> WorldSummary:
    facts = {"rows": log.check.rows, "episodes": log.check.episodes, **told.world.facts}
    return replace(told.world, kind="log", facts=facts)


def _loop_warning(found: LogComparison) -> tuple[str, ...]:
    if not found.loops:
        return ()
    return (f"in the estimated moves {len(found.loops)} states cannot leave a loop, {found.loops[0]} first.",)
