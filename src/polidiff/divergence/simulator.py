"""Diverging states of a simulator, met by splitting roll-outs (Algorithm 1 of the paper, mended).

Episodes of both policies are played from common starts. Where a running episode meets a diverging state, a copy of it
takes the *other* policy's action and follows that policy from then on, up to `max_splits` times, so that every region
is met, each with both actions. The work is bounded: when the copies would cost more than their share of `max_steps`,
they are sampled and the share is reported.

Starts are dealt to groups of a fixed size. A group is a task with a seed and a share of `max_steps` of its own, so that
workers can play groups side by side; what they met is put together in the order of the groups.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import partial

import numpy as np

from polidiff.divergence import Decided, Divergence, decide, labelled
from polidiff.divergence.next_state_test import NextStateTest
from polidiff.options import ExplainOptions
from polidiff.parallel import run_tasks
from polidiff.policies import Policy, PolicyLike, drawn_from
from polidiff.policies.protocol import changed_decisions
from polidiff.records.arrays import AnyArray, BoolArray, FloatArray, IntArray
from polidiff.streams import Stream
from polidiff.worlds.protocol import policy_in
from polidiff.worlds.rollouts import is_stepped, start_stepper
from polidiff.worlds.simulator import Simulator
from polidiff.worlds.steppers import Stepper, joined

SLOW_WORLD = 3.0  # steps of all branches per step of the roots, in environments that are stepped one by one
WHY_SLOW = "episodes are stepped one by one, and splits may take twice their steps"
SHIFTS = 0.25  # comparisons where only a probability shifts, beside one where the action is another
BOTH = (0, 1)  # which policy a branch follows: current, proposed
PROBE = 32  # episodes of all groups together that are played to foresee what splitting costs
FEWEST_PROBED = 8  # of them in a group
FEWEST_STARTS, MOST_STARTS = 100, 1_000  # that are followed; the most in a model, and where episodes are short
FEWEST_FOLLOWED = 4_000  # decisions of both policies from these starts, below which more are followed


@dataclass(frozen=True, eq=False)
class Met:
    """States that branches met, and what both policies do there."""

    states: AnyArray
    current: IntArray  # most probable actions
    proposed: IntArray
    current_chance: FloatArray  # of these actions
    proposed_chance: FloatArray
    differs: BoolArray
    episode: IntArray
    step: IntArray  # decisions made before
    depth: IntArray  # splits behind it
    changed: FloatArray  # chance that the proposed policy's own episode decides otherwise there


def _side_by_side(parts: Sequence[Met]) -> Met:
    return Met(*(np.concatenate([getattr(part, column.name) for part in parts]) for column in fields(Met)))


@dataclass(frozen=True, eq=False)
class Group:
    """What the branches of one group of starts have met, and how much was looked at."""

    met: Met
    starts: int
    counts: Counter[str]
    restore_mode: str
    limited_by: str  # what keeps splits from being followed all


@dataclass(frozen=True, eq=False)
class _Branch:
    """Episodes that follow one policy from where they are; the first action may be forced."""

    stepper: Stepper
    running: IntArray  # those of the stepper's n episodes that still run
    episode: IntArray  # (n,) the start they came from
    time: IntArray  # (n,) decisions made before
    follows: int  # 0 current, 1 proposed
    depth: int  # splits behind it


class _Splitter:
    def __init__(
        self,
        world: Simulator,
        policies: tuple[Policy, Policy],
        options: ExplainOptions,
        seed: tuple[int, ...],
        share: float,
    ) -> None:
        self.world, self.policies, self.options, self.seed, self.share = world, policies, options, seed, share
        papers_rule = options.style == "paper"
        outcomes = () if papers_rule else world.outcomes
        self.apart, self.shifted = (
            NextStateTest(
                outcomes,
                options.transition_tolerance,
                side_by_side=world.is_model,
                max_steps=options.max_steps,
                share=part,
                most_probable_only=papers_rule,
            )
            for part in (share, SHIFTS * share)
        )
        self.met: list[Met] = []
        # steps, branches "cut" at the horizon, splits "offered" and "taken"
        self.counts: Counter[str] = Counter()

    def meet(self, branch: _Branch, running: IntArray, states: AnyArray, time: int, chances: list[FloatArray]) -> Met:
        """What both policies do in the present states of a branch, by their chances (k, A) of actions."""
        decided, before = decide(*chances), branch.time[running] + time
        swapped = decided.current != decided.proposed
        shifted = ~swapped & decided.differ(self.options.policy_tolerance)
        differs = np.zeros(len(states), dtype=np.bool_)
        for test, part in ((self.apart, swapped), (self.shifted, shifted)):
            at = np.flatnonzero(part)
            if at.size:
                both = (table[at] for table in chances)
                differs[at] = test.test(branch.stepper, running[at], states[at], before[at], *both)
        depth = np.full(len(states), branch.depth)
        episode = branch.episode[running]
        own = branch.follows and not branch.depth
        changed = changed_decisions(*chances) if own else np.zeros(len(states))
        met = Met(states, decided.current, decided.proposed, *decided.chances, differs, episode, before, depth, changed)
        self.met.append(met)
        self.counts["steps"] += len(states)
        return met

    def play(self, branch: _Branch, *, share: float) -> list[_Branch]:
        """Play a branch to its end; split off a sampled `share` of the diverging states it meets."""
        stepper, follows, running = branch.stepper, branch.follows, branch.running
        children: list[_Branch] = []
        states = np.array(stepper.states)[running]
        rng = np.random.default_rng((*self.seed, branch.depth, follows, 99))
        for time in range(self.world.horizon):
            chances = [policy.probabilities(states) for policy in self.policies]
            met = self.meet(branch, running, states, time, chances)
            split = np.flatnonzero(met.differs & (met.current != met.proposed))
            if branch.depth < self.options.max_splits:
                self.counts["offered"] += len(split)
            split = split[rng.random(len(split)) < share]
            if split.size:
                children.append(self._split_off(branch, running, met, split))
            if self.options.style == "paper":  # Algorithm 1 performs the most probable action
                actions = met.proposed if follows else met.current
            else:
                actions = drawn_from(chances[follows], partial(_luck, rng, len(states)))
            step = stepper.step(actions, running)
            alive = ~(step.terminated | step.truncated)
            running, states = running[alive], step.next_states[alive]
            if not running.size:
                break
        self.counts["cut"] += len(running)
        return _joined(children)

    def _split_off(self, branch: _Branch, running: IntArray, met: Met, split: IntArray) -> _Branch:
        """Copies of the episodes `split` that have just taken the other policy's action."""
        child = branch.stepper.clone(running[split])
        other = (met.current if branch.follows else met.proposed)[split]
        step = child.step(other, np.arange(len(split)))
        self.counts["taken"] += len(split)
        alive = np.flatnonzero(~(step.terminated | step.truncated))
        return _Branch(child, alive, met.episode[split], met.step[split] + 1, 1 - branch.follows, branch.depth + 1)

    def group(self, starts: int, limited_by: str) -> Group:
        """All that was met."""
        tests = (self.apart, self.shifted)
        counts = self.counts + Counter(asked=sum(t.asked for t in tests), made=sum(t.made for t in tests))
        mode = next((test.restore_mode for test in tests if test.asked), tests[0].restore_mode)
        return Group(_side_by_side(self.met), starts, counts, mode, limited_by)


def _luck(rng: np.random.Generator, count: int) -> FloatArray:
    return rng.random(count)


def _joined(branches: list[_Branch]) -> list[_Branch]:
    """The branches side by side, if any of them still runs."""
    alive = [branch for branch in branches if branch.running.size]
    if not alive:
        return []
    offsets = np.cumsum([0, *(len(branch.episode) for branch in alive[:-1])])
    running = np.concatenate([branch.running + offset for branch, offset in zip(alive, offsets, strict=True)])
    episode, time = (np.concatenate([getattr(branch, name) for branch in alive]) for name in ("episode", "time"))
    stepper = joined([branch.stepper for branch in alive])
    return [_Branch(stepper, running, episode, time, alive[0].follows, alive[0].depth)]


def find_divergence(
    world: Simulator,
    current: PolicyLike,
    proposed: PolicyLike,
    options: ExplainOptions,
    *,
    unsure: BoolArray | None = None,
) -> Divergence:
    """Compare two policies on the states that either reaches, alone or taking turns."""
    policies = (policy_in(world, current), policy_in(world, proposed))
    options = replace(options, classifier=None)  # a learner of the user's is not sent to workers
    count = options.starts or (MOST_STARTS if world.is_model else FEWEST_STARTS)
    groups = _play_groups(world, policies, options, range(0, count, world.split_chunk), count)
    followed = sum(int(np.count_nonzero(group.met.depth == 0)) for group in groups)
    wanted = min(MOST_STARTS, count * min(FEWEST_FOLLOWED, options.max_steps // 4) // followed)
    if options.starts is None and wanted > count:  # short episodes: more of them
        groups += _play_groups(world, policies, options, range(count, wanted, world.split_chunk), wanted)
        count = wanted
    cuts = np.cumsum([0, *(group.starts for group in groups[:-1])])
    met = [replace(group.met, episode=group.met.episode + cut) for group, cut in zip(groups, cuts, strict=True)]
    return _assemble(world, _side_by_side(met), groups, count)


def _play_groups(
    world: Simulator,
    policies: tuple[Policy, Policy],
    options: ExplainOptions,
    cuts: range,
    count: int,
) -> list[Group]:
    """Groups of starts from each of the `cuts` on, up to `count` starts, which share the work."""
    sizes = [min(cuts.step, count - cut) for cut in cuts]
    seeds: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
        ((options.seed, Stream.SPLITS_OF_GROUP, k), (options.seed, Stream.STARTS_OF_GROUP, k))
        for k in (cut // cuts.step for cut in cuts)
    ]
    if count <= cuts.step:
        seeds = [((options.seed, Stream.SPLITS), (options.seed, Stream.SPLIT_STARTS))]
    tasks = [
        (world, policies, options, size, size / sum(sizes), *pair) for size, pair in zip(sizes, seeds, strict=True)
    ]
    return run_tasks(play_group, tasks, what="splitting roll-outs", quick=not is_stepped(world))


def play_group(
    world: Simulator,
    policies: tuple[Policy, Policy],
    options: ExplainOptions,
    count: int,
    portion: float,
    seed: tuple[int, ...],
    starts: tuple[int, ...],
) -> Group:
    """Episodes of both policies from `count` common starts, with their copies; `portion` is its share of the work."""
    splitter = _Splitter(world, policies, options, seed, portion)
    everyone, zero = np.arange(count), np.zeros(count, dtype=np.int64)
    level = [_Branch(start_stepper(world, count, starts), everyone, everyone, zero, k, 0) for k in BOTH]
    price, length = _price_of_splitting(splitter, level[0])
    most = int(options.max_steps * portion)
    slow = math.inf if world.is_model else SLOW_WORLD * 2 * count * length
    limit, limited_by = int(min(slow, most)), WHY_SLOW if slow < most else "max_steps"
    for depth in range(options.max_splits + 1):
        levels_left = options.max_splits - depth
        children: list[_Branch] = []
        for branch in level:
            room = max(0, limit - splitter.counts["steps"]) / (2 * levels_left) if levels_left else 0.0
            cost = price * len(branch.running)
            share = min(1.0, room / cost) if cost > 0 else float(levels_left > 0)
            children += splitter.play(branch, share=share)
        level = children
    return splitter.group(count, limited_by)


def _price_of_splitting(splitter: _Splitter, root: _Branch) -> tuple[float, float]:
    """Steps that splitting everywhere would cost per episode (diverging states met times length), and the length."""
    probe = _Splitter(splitter.world, splitter.policies, splitter.options, splitter.seed, splitter.share)
    probe.shifted.most_comparisons = 0  # episodes split where the action is another
    few = np.arange(min(len(root.episode), max(FEWEST_PROBED, int(PROBE * splitter.share))))
    branch = _Branch(root.stepper.clone(few), few, root.episode[few], root.time[few], root.follows, 0)
    probe.play(branch, share=0.0)
    length = probe.counts["steps"] / len(few)
    return probe.counts["offered"] / len(few) * length, length


def _assemble(world: Simulator, met: Met, groups: list[Group], count: int) -> Divergence:
    counts = sum((group.counts for group in groups), Counter[str]())
    root = met.depth == 0
    weight = np.where(root, 0.5 / max(1, root.sum()), 0.5 / max(1, (~root).sum()))
    facts: dict[str, str | float | int] = {
        "visited states": len(met.states),
        "episodes": 2 * count,
        "splits": counts["taken"],
        "share of splits followed": counts["taken"] / counts["offered"] if counts["offered"] else 1.0,
        "splits limited by": groups[0].limited_by,
        "draws per comparison of next states": NextStateTest.draws,
        "share of comparisons made": counts["made"] / counts["asked"] if counts["asked"] else 1.0,
        "restore mode": groups[0].restore_mode,
        "branches cut at the horizon": counts["cut"],
    }
    return labelled(
        Decided(met.current, met.proposed, (met.current_chance, met.proposed_chance)),
        met.differs,
        world.actions,
        met.changed,
        states=met.states,
        features=world.features_of(met.states),
        weight=weight / weight.sum(),
        judged=root / root.sum(),
        episode=met.episode,
        first=met.step.astype(float),
        facts=facts,
    )
