"""Starts that share a path and verdicts, told as rules over starts (h_exp of the paper).

Groups are formed on other roll-outs than those that judge them. Where rules cannot tell the groups apart, because luck
and not the start decides the path, one group with its most frequent path is the honest answer.
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable
from dataclasses import dataclass, replace

import numpy as np

from polidiff.journeys.record import Journeys, Path
from polidiff.records.arrays import AnyArray, BoolArray, IntArray
from polidiff.records.rule import Condition, Rule, covers_any

SMALLEST_SHARE = 0.02
MOST_GROUPS = 6
TOLD_APART = 0.9
TYPICAL = 0.2  # share above which a path is told as the path


@dataclass(frozen=True, eq=False)
class StartGroup:
    """Some starts; no rules: all of them."""

    rules: tuple[Rule, ...]
    members: IntArray  # indices into the journeys

    def covers(self, features: AnyArray) -> BoolArray:
        """Which starts belong to the group."""
        return covers_any(self.rules, features) if self.rules else np.ones(len(features), dtype=np.bool_)


def form_groups(
    journeys: Journeys,
    signs: IntArray | None,
    names: tuple[str, ...],
    *,
    has_features: bool,
    max_rules: int | None,
    seed: int,
    apart: bool = False,
) -> tuple[StartGroup, ...]:
    """Group starts by (path, directions of outcomes).

    `signs` (n, M) are the directions of the differences from each start where these are known. With `apart`, every
    start that meets a difference is a group of its own (the paper's printing).
    """
    keys: list[Hashable] = [
        (journeys.modal(k), None if signs is None else tuple(signs[k].tolist())) for k in range(len(journeys.paths))
    ]
    if apart:
        keys = [(key, journeys.names[k] if journeys.modal(k) else None) for k, key in enumerate(keys)]
    order: dict[Hashable, list[int]] = {}
    for k, key in enumerate(keys):
        order.setdefault(key, []).append(k)
    everything = (StartGroup((), np.arange(len(keys))),)
    if len(order) == 1:
        return everything
    if not has_features:
        return tuple(_named_group(journeys, members) for members in order.values()) if len(order) <= 50 else everything
    return _described_groups(journeys, list(order.values()), names, max_rules, seed) or everything


def _named_group(journeys: Journeys, members: list[int]) -> StartGroup:
    values = tuple(journeys.features[k, 0] for k in members)
    return StartGroup((Rule((Condition("state", 0, values=values),)),), np.array(members))


def _described_groups(
    journeys: Journeys, classes: list[list[int]], names: tuple[str, ...], max_rules: int | None, seed: int
) -> tuple[StartGroup, ...]:
    kept = [members for members in classes if journeys.weight[members].sum() >= SMALLEST_SHARE][:MOST_GROUPS]
    if len(kept) < 2 or (max_rules is not None and len(kept) > max_rules):
        return ()
    label = np.zeros(len(journeys.weight), dtype=np.int64)
    for k, members in enumerate(kept):
        label[members] = k + 1
    groups = []
    for k in range(len(kept)):
        rules = _rules_for(journeys, label == k + 1, names, seed)
        if not rules:
            return ()
        groups.append(StartGroup(rules, np.flatnonzero(covers_any(rules, journeys.features))))
    told = np.zeros(len(label), dtype=np.int64)
    for k, group in reversed(list(enumerate(groups))):
        told[group.covers(journeys.features)] = k + 1
    right = float(journeys.weight[told == label].sum())
    return tuple(groups) if right >= TOLD_APART else ()


def _rules_for(journeys: Journeys, inside: BoolArray, names: tuple[str, ...], seed: int) -> tuple[Rule, ...]:
    from polidiff.rules import RuleClassifier, RuleWarning

    model = RuleClassifier(
        default_class=False, random_state=seed, max_rules=2, clause_cost=0.01, literal_cost=0.003, proof_budget=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuleWarning)
        model.fit(journeys.features, inside, sample_weight=journeys.weight)
    return tuple(
        Rule(tuple(replace(condition, feature=names[condition.column]) for condition in rule.conditions))
        for rule, _ in model.decision_list_
    )


def typical_path(shares: dict[Path, float]) -> Path | None:
    """The most frequent path, if it is frequent enough to stand for the group."""
    path = next(iter(shares), ())
    return path if shares.get(path, 0.0) > TYPICAL else None
