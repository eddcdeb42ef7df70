"""Region records: support, precision and recall, what each change does; and the patch of who follows them exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from polidiff.divergence import MOSTLY, RISES, Divergence
from polidiff.evaluation.comparison import Achieved, Comparison, RegionChanges
from polidiff.explanation.groups import distinct_rows
from polidiff.explanation.words import MOST_LISTED, other_parts
from polidiff.options import ExplainOptions
from polidiff.records.action import Action, Direction, Often, Shift, Swap
from polidiff.records.arrays import BoolArray, FloatArray, IntArray
from polidiff.records.explanation import ActionSupport, Region, Support, SwapShare
from polidiff.records.outcome import Assumption, Interval
from polidiff.records.patch import Edit, Patch
from polidiff.records.rule import Rule, change_key, overlap_any
from polidiff.regions.describe import Described, fidelity_intervals

MOST_EFFECTS = 12  # regions whose own effect is measured


@dataclass(frozen=True, eq=False)
class Difference:
    """Where two policies part, told as regions, and what is asked about it."""

    comparison: Comparison
    divergence: Divergence
    described: Described
    achieved: Achieved
    ids: tuple[str, ...]  # of the regions
    regions: tuple[Region, ...]  # in the order they are matched
    patch: Patch
    options: ExplainOptions
    chosen: Assumption | None  # that the log itself chose what it is to judge


def region_ids(described: Described, order: IntArray) -> tuple[str, ...]:
    """Names of regions: the state itself where a region is one state, else S1, S2 … in the order they are printed."""
    ids = [""] * len(described.regions)
    for rank, k in enumerate(order):
        values = described.regions[k].rule.conditions[0].values if described.regions[k].rule.conditions else None
        single = values is not None and len(values) == 1 and described.regions[k].rule.features == ("state",)
        ids[k] = str(values[0]) if single and values is not None else f"S{rank + 1}"
    return tuple(ids)


def printed_order(places: Sequence[Sequence[Rule]], wanted: Sequence[int]) -> IntArray:
    """Places in the order wanted, but none before one that overlaps it and is matched first.

    So the first printed place that covers a state is the one that every share was counted with.

    >>> from polidiff.records.rule import Condition
    >>> x = [Rule((Condition("x", 0, high=h),)) for h in (1.0, 2.0)]
    >>> printed_order([[x[0]], [x[1]], [Rule((Condition("x", 0, low=5.0),))]], [1, 2, 0]).tolist()
    [2, 0, 1]
    """
    left, order = list(wanted), []
    while left:
        free = next(k for k in left if not any(j < k and overlap_any(places[j], places[k]) for j in left))
        left.remove(free)
        order.append(free)
    return np.array(order, dtype=np.int64)


def with_effects(
    comparison: Comparison, regions: tuple[Region, ...], length: float, options: ExplainOptions
) -> tuple[Region, ...]:
    """The regions with what each does by itself, the most visited first; visits are of episodes of a mean `length`."""
    visited = [k for k, region in enumerate(regions) if region.support.share > 0]
    asked = sorted(visited, key=lambda k: -regions[k].support.share)[:MOST_EFFECTS]
    changes = RegionChanges(tuple(region.rule for region in regions), tuple(asked))
    effects = comparison.region_effects(
        changes, level=options.level, length=length, max_steps=options.max_steps, seed=options.seed
    )
    return tuple(replace(region, effect=effects.get(k)) for k, region in enumerate(regions))


def region_records(
    comparison: Comparison, described: Described, divergence: Divergence, ids: tuple[str, ...], options: ExplainOptions
) -> tuple[Region, ...]:
    """Records of all regions, in the order they are matched."""
    where, label = described.region_of(divergence.features), described.labels.label
    supports = comparison.support(described.rules) or tuple(
        _support(divergence, where == k) for k in range(len(described.regions))
    )
    records = []
    for k, region in enumerate(described.regions):
        inside, such = where == k, label == region.label
        weight, precision, recall = _fidelity(described, divergence, inside, such)
        states = divergence.states[inside]
        support, pairs = supports[k], _pairs(divergence, inside, weight)
        if not support.actions:
            support = replace(support, actions=_mixed(comparison, divergence, region.swap, inside & such))
        record = Region(
            id=ids[k],
            key=change_key(region.rule, region.swap.current, region.swap.proposed),
            rule=region.rule,
            current=region.swap.current,
            proposed=region.swap.proposed,
            support=support,
            precision=precision,
            recall=recall,
            shift=_whole_shift(divergence, region.swap, inside & such, support),
            direction=_with_parts(region.swap.direction, pairs, comparison.world.actions),
            swaps=pairs,
            states=comparison.names(states[:MOST_LISTED]),
            action_values=comparison.action_values(states, weight[inside], k, seed=options.seed),
            merged=region.merged,
            intervals=_intervals(comparison, described, divergence, inside, such, options.level),
        )
        records.append(record)
    return tuple(records)


def _with_parts(direction: Direction | None, pairs: Sequence[SwapShare], actions: Sequence[Action]) -> Direction | None:
    return direction and replace(direction, also=tuple(other_parts(direction, pairs, actions)))


def _fidelity(
    described: Described, divergence: Divergence, inside: BoolArray, such: BoolArray
) -> tuple[FloatArray, float, float]:
    """Weights of visits, the share of those `inside` that are `such` changes, and of such changes that lie inside."""
    judge = described.held_out if described.held_out.any() else np.ones(len(inside), dtype=np.bool_)
    weight = divergence.judged if divergence.judged[inside & judge].sum() > 0 else divergence.weight
    right, covered = inside & judge & such, float(weight[inside & judge].sum())
    base = (
        divergence.judged if divergence.judged[judge & such].sum() > 0 else divergence.weight
    )  # one for all of a swap
    changed = float(base[judge & such].sum())
    precision = float(weight[right].sum()) / covered if covered > 0 else 1.0
    return weight, precision, float(base[right].sum()) / changed if changed > 0 else 1.0


def _intervals(
    comparison: Comparison,
    described: Described,
    divergence: Divergence,
    inside: BoolArray,
    such: BoolArray,
    level: float,
) -> dict[str, Interval]:
    """Of precision and recall, as far as played visits that made no rules tell them."""
    rows = described.held_out
    if not rows.any() or not comparison.shows_episodes or not divergence.sampled:
        return {}
    parts = inside[rows], such[rows], (inside & such)[rows]
    intervals = fidelity_intervals(*parts, divergence.judged[rows], divergence.episode[rows], level)
    return {name: intervals[name] for name in ("precision", "recall")}


def _support(divergence: Divergence, inside: BoolArray) -> Support:
    """Distinct states in a region, and the episodes they belong to; the states of a table are visited by none."""
    played = (divergence.episode >= 0).any()
    states = distinct_rows(divergence.features[inside]) if played else int(inside.sum())
    episodes = int(np.unique(divergence.episode[inside]).size) if played else states
    return Support(states, episodes, float(divergence.judged[inside].sum()))


def _mixed(comparison: Comparison, divergence: Divergence, swap: Swap, rows: BoolArray) -> tuple[ActionSupport, ...]:
    """How often each action is taken over these visits, where a policy does not do there what its swap names."""
    names = [action.name for action in comparison.place.actions]
    if not rows.any() or not comparison.shows_episodes or swap.direction is not None:
        return ()
    weight = divergence.judged if divergence.judged[rows].sum() > 0 else divergence.weight
    old, new = (
        np.average(policy.probabilities(divergence.states[rows]), axis=0, weights=weight[rows])
        for policy in (comparison.current, comparison.proposed)
    )
    if swap.shift is None and min(old[names.index(swap.current)], new[names.index(swap.proposed)]) >= MOSTLY:
        return ()
    return tuple(
        ActionSupport(*entry) for entry in zip(names, [0] * len(names), old.tolist(), new.tolist(), strict=True)
    )


def _whole_shift(divergence: Divergence, swap: Swap, rows: BoolArray, support: Support) -> Shift | None:
    """How often an action is chosen, with others that are chosen more often as well."""
    shift = _counted_shift(swap, support) or _own_shift(divergence, swap, rows)
    if shift is None or shift.proposed >= MOSTLY or shift.proposed < shift.current:
        return shift
    actions = [Often(entry.action, entry.current, entry.proposed) for entry in support.actions]
    risen = [one for one in actions if one.action != swap.proposed and one.proposed - one.current > RISES]
    return replace(shift, also=tuple(risen))


def _counted_shift(swap: Swap, support: Support) -> Shift | None:
    """How often an action is chosen in a region, as counted in a log; None where it was not counted or is another."""
    taken = next((entry for entry in support.actions if entry.action == swap.current), None)
    return None if swap.shift is None or taken is None else Shift(taken.current, taken.proposed)


def _own_shift(divergence: Divergence, swap: Swap, rows: BoolArray) -> Shift | None:
    """The chances of an action before and after, over these visits; those of its swap where there are none."""
    if swap.shift is None or not rows.any():
        return swap.shift
    weight = divergence.judged if divergence.judged[rows].sum() > 0 else divergence.weight
    current, proposed = (float(np.average(chance[rows], weights=weight[rows])) for chance in divergence.chances)
    return Shift(current, proposed)


def _pairs(divergence: Divergence, inside: BoolArray, weight: FloatArray) -> tuple[SwapShare, ...]:
    mass = np.bincount(divergence.label[inside], weights=weight[inside], minlength=len(divergence.swaps) + 1)
    total = mass.sum()
    order = [k for k in np.argsort(-mass, kind="stable") if k > 0 and mass[k] > 0]
    return tuple(
        SwapShare(divergence.swaps[k - 1].current, divergence.swaps[k - 1].proposed, float(mass[k] / total))
        for k in order[:10]
    )


def patch_of(comparison: Comparison, described: Described, divergence: Divergence) -> Patch:
    """One edit per region and pair of actions; a direction is patched with the most frequent target of each action."""
    world = comparison.place
    names = tuple(action.name for action in world.actions)
    where = described.region_of(divergence.features)
    edits: list[Edit] = []
    for k, region in enumerate(described.regions):
        inside = (where == k) & divergence.diverging
        shift = _own_shift(divergence, region.swap, inside & (described.labels.label == region.label))
        if region.swap.direction is None:
            pairs = [(names.index(region.swap.current), names.index(region.swap.proposed))]
        else:
            pairs = _frequent_targets(divergence, inside, len(names))
        for current, proposed in pairs:
            matching = divergence.states[(where == k) & (divergence.current == current)]
            states = comparison.edited_states(matching, proposed)
            edits.append(Edit(region.rule, current, proposed, states, shift))
    return Patch(tuple(edits), names, world.feature_names, comparison.patch_features)


def _frequent_targets(divergence: Divergence, inside: BoolArray, count: int) -> list[tuple[int, int]]:
    key = divergence.current[inside] * count + divergence.proposed[inside]
    mass = np.bincount(key, weights=divergence.weight[inside], minlength=count * count).reshape(count, count)
    np.fill_diagonal(mass, 0.0)
    return [(int(a), int(mass[a].argmax())) for a in np.flatnonzero(mass.sum(axis=1) > 0)]
