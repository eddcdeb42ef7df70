"""What policies achieve, from a log of past decisions.

Where states are labels, the story is told in the model that the log supports (Algorithm 3 of the paper): where the
policies part and which regions follow each other. What that does to outcomes is never read in the model: each verdict
is the log's careful interval, with the share of the proposed policy's episodes that meet decisions nobody has tried.
Where states are features there are no moves to follow a policy in, and only the log itself speaks.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from polidiff.evaluation.assumptions.log_checks import UNSEEN, overlap_check, rare_action_check
from polidiff.evaluation.comparison import Achieved, Comparison, Effects, GroupVerdicts, RegionChanges
from polidiff.evaluation.exact import ExactEvaluator
from polidiff.evaluation.logged.bounds import bound_policy, value_bounds
from polidiff.evaluation.logged.compare import StateJudge, as_interval, by_units, logged_effects, targets
from polidiff.evaluation.logged.counted_log import RuleCoverage, counted_log, cover_all_rows
from polidiff.evaluation.logged.counts import count_rows
from polidiff.evaluation.logged.judge import Question, assess, mended_counts
from polidiff.evaluation.logged.model import Starts, group_starts
from polidiff.evaluation.logged.named import evaluate_by, judge_by
from polidiff.evaluation.logged.plan import estimated_world
from polidiff.evaluation.logged.policies import (
    as_log_policy,
    changed_rows,
    is_log,
    is_logs,
    logging_policy,
)
from polidiff.evaluation.logged.second_log import counted_together, judge_logs, policy_behind
from polidiff.evaluation.scores.difference import MOST_UNSUPPORTED
from polidiff.evaluation.scores.propensity import CHANCE
from polidiff.evaluation.scores.scored_log import ScoredLog, scored_log, value_intervals
from polidiff.evaluation.scores.verdicts import ScoreJudge, score_effects
from polidiff.evaluation.table import Followed, TableComparison
from polidiff.options import ESTIMATORS, EvaluateOptions
from polidiff.policies import Policy, TablePolicy, changed_decisions, one_hot
from polidiff.policies.protocol import PolicyLike, PolicyPair
from polidiff.records.arrays import AnyArray, BoolArray, FloatArray, IntArray
from polidiff.records.explanation import ActionSupport, Arrow, Support, WorldSummary
from polidiff.records.numbers import counted, number
from polidiff.records.outcome import Evaluation, Interval
from polidiff.records.rule import GroupRules, Rule, first_match
from polidiff.streams import Stream
from polidiff.worlds.log_check import action_people, label_coverage, log_summary
from polidiff.worlds.shards.transition_counts import CUT, END
from polidiff.worlds.tabular import TabularMDP

if TYPE_CHECKING:
    from polidiff.worlds.log import Log

ALMOST_ONE = 0.999  # discount that keeps estimated loops without exit finite while regions are looked for


def evaluate(log: Log, policy: PolicyLike, options: EvaluateOptions) -> Evaluation:
    """Expected outcomes with careful intervals, and the other estimators beside them."""
    if options.evaluation is not None:
        judged = evaluate_by(options.evaluation, log, policy, level=options.level, seed=options.seed)
    else:
        judged = evaluate_log(log, policy, level=options.level, seed=options.seed)
    small = _small_starts(log, options.min_group)
    per_start = {o: {s: i for s, i in by.items() if s not in small} for o, by in judged.per_start.items()}
    return replace(judged, per_start=per_start)


def _small_starts(log: Log, least: int) -> set[str]:
    """Starts that too few people have, and one more where the total less the others would tell of these few."""
    if not log.discrete or least <= 1:
        return set()
    begins, people = log.rows.states[log.rows.first], log.rows.person[log.rows.first]
    behind = sorted((len(np.unique(people[begins == start])), log.states[start]) for start in np.unique(begins))
    small = [count for count, _ in behind if count < least]
    return {name for _, name in behind[: len(small) + (0 < sum(small) < least)]}


def evaluate_log(log: Log, policy: PolicyLike, *, level: float = 0.95, seed: int = 0) -> Evaluation:
    """Expected outcomes of a policy over the logged starts and from each of them, under the careful rule.

    Parameters
    ----------
    policy : policy, or "log"
        "log" is the policy that wrote the log.
    """
    judged = (_by_states if log.discrete else _by_rows)(log, policy, level=level, seed=seed)
    reason = None if is_logs(policy) else assess(log).reason
    if reason is not None:
        outcomes, per_start = _only_ranges(log, judged.outcomes), judged.per_start.items()
        judged = replace(judged, outcomes=outcomes, method=f"{judged.method}; only ranges are known, since {reason}",
                         per_start={name: _only_ranges(log, by, name) for name, by in per_start})  # fmt: skip
    details = {"rows": float(log.check.rows), "episodes": float(log.check.episodes), **judged.details}
    cut, assumptions = log.check.cut / max(log.check.episodes, 1), (*assess(log).assumptions, *judged.assumptions)
    return replace(judged, truncated=cut, details=details, assumptions=assumptions)


def _only_ranges(log: Log, intervals: Mapping[str, Interval], outcome: str | None = None) -> dict[str, Interval]:
    """Intervals by the name of their outcome, or all of one outcome, that span what is declared to be possible."""
    ranges = {o.name: o.range or (-math.inf, math.inf) for o in log.outcomes}
    ends = {name: ranges[outcome or name] for name in intervals}
    return {name: replace(one, low=ends[name][0], high=ends[name][1]) for name, one in intervals.items()}


def _by_states(log: Log, policy: PolicyLike, *, level: float, seed: int) -> Evaluation:
    """Everyone, and each start on its own, in the careful model."""
    counted = mended_counts(log, counted_log(log))
    target, *_ = targets(counted, policy, policy, np.random.default_rng(seed))
    edges, ranges, begun = counted.counts.edges, [outcome.range for outcome in log.outcomes], counted.start_state
    everyone = group_starts(None, begun, counted.start_episodes, edges.n_states)
    each = np.zeros((len(begun), edges.n_states))
    each[np.arange(len(begun)), begun] = 1.0
    behind = np.append(everyone.episodes, np.full(len(begun), np.inf))
    starts = Starts(np.vstack([everyone.weights, each]), behind)
    judged = bound_policy(edges, target, starts, ranges, discount=log.discount)
    bounds = [value_bounds(judged, k, 1 - level) for k in range(len(ranges))]
    whole = by_units(log, judged, [[as_interval(one, g, level) for g in range(1 + len(begun))] for one in bounds])
    details = {
        **({"episodes drawn": float(log.rows.n_episodes)} if log.sampled else {}),
        "unsupported": float(judged.unsupported[0]),
        "states in loops": float((judged.model.loops & (edges.state_visits > 0)).sum()),
    }
    return Evaluation(
        outcomes={outcome.name: groups[0] for outcome, groups in zip(log.outcomes, whole, strict=True)},
        per_start={
            outcome.name: {counted.names[s]: one for s, one in zip(begun, alone, strict=True)}
            for outcome, (_, *alone) in zip(log.outcomes, whole, strict=True)
        },
        method=f"careful model of {number(log.check.episodes)} logged {log.check.noun}s",
        truncated=0.0,
        details=details,
        assumptions=(overlap_check(judged.unsupported[:1], np.array([float(log.check.episodes)]), log.check.noun),),
    )


def _by_rows(log: Log, policy: PolicyLike, *, level: float, seed: int) -> Evaluation:
    """Expected outcomes from scores of the rows."""
    scored = scored_log(log, policy, seed=seed)
    outcomes, scores = value_intervals(scored, policy, level=level)
    unsupported = float(scores.unsupported.mean())
    details = {
        **({"episodes scored": float(scored.episodes)} if scored.episodes < log.check.episodes else {}),
        "unsupported": unsupported,
        "changed decisions per episode": scores.changes,
    }
    overlap = rare_action_check(unsupported, MOST_UNSUPPORTED)
    return Evaluation(outcomes, {}, _by_scores(scored), truncated=0.0, details=details, assumptions=(overlap,))


def compare(
    log: Log, current: PolicyLike, proposed: PolicyLike, *, seed: int = 0
) -> EstimatedComparison | RowsComparison:
    """Two policies over what a log holds; "log" is the one that wrote it, another log the one that wrote that."""
    second = proposed if is_log(proposed) and is_logs(current) else None
    if is_log(proposed):
        proposed = policy_behind(log, proposed, seed=seed)
    if not log.discrete:
        return RowsComparison(log, (current, proposed), seed=seed, second=second)
    current = current if second is None else logging_policy(log)
    return EstimatedComparison(log, (current, proposed), seed=seed, second=second)


class EstimatedComparison(TableComparison):
    """Two policies followed in the model that a log with labelled states supports, judged by the log alone."""

    world: Log
    shows_episodes = False
    estimators = ESTIMATORS

    def __init__(self, log: Log, given: PolicyPair, *, seed: int, second: Log | None = None) -> None:
        """`second`: the log that the proposed policy wrote, where the current one wrote the first."""
        self.counted, self.given, self.second = counted_log(log, given, seed=seed), given, second
        if second is not None:
            self.counted = counted_together(log, second, self.counted)
        old, new = (_padded(self.counted.table(policy)) for policy in self.given)
        model = _finite(estimated_world(log, self.counted), (old, new))
        rows = np.append(self.counted.counts.edges.state_visits, [0, 0])  # nothing is decided at the end and beyond
        by_chance = CHANCE / np.sqrt(np.maximum(rows, 1)) if is_logs(given[0]) else 0.0
        super().__init__(model, TablePolicy(old, by_chance), TablePolicy(new))
        self.world, self.people = log, float(log.check.people or log.check.episodes)

    def judge(
        self, groups: Sequence[GroupRules], *, level: float, seed: int, evaluation: str | None = None
    ) -> GroupVerdicts:
        """Careful intervals for groups of logged starts."""
        if evaluation is not None:
            masks = _starting_in(self.world, groups)
            return judge_by(evaluation, self.world, self.given, masks, level=level, counted=self.counted, seed=seed)
        if self.second is not None:
            return _side_by_side(self.world, self.second, groups, level)
        features = self.world.features_of(self.world.starts)
        masks = [group.covers(features) for group in groups]
        verdicts = StateJudge(self.world, Question(*self.given, masks, level, seed=seed), self.counted).judged()
        check, loops = self.world.check, verdicts.loops
        said = [f"The log has {check.gaps_told}."] * bool(check.gaps) + list(verdicts.warnings)
        if loops:
            such = f": {loops[0]!r}" if len(loops) == 1 else f", such as {loops[0]!r}"
            said.append(f"In the estimated moves no episode ends from {counted(len(loops), 'state')}{such}.")
        method = f"judged by a model of the moves in {counted(check.episodes, f'logged {check.noun}')}"
        return replace(verdicts, method=method, warnings=tuple(said))

    @cached_property
    def followed(self) -> Followed | None:
        """The model that verdicts rest on, to follow episodes in, where that is not the model of states alone.

        Where episodes end because of their length, the end of a last decision tells nothing about an earlier one.
        """
        rows, deepened = assess(self.world).rows, assess(self.world).deepened
        if rows is None or deepened is None or self.second is not None:
            return None
        steps, original = deepened.steps, deepened.original[:: deepened.steps]
        label, timed_out = deepened.rows.states // steps, (rows.step == steps - 1) & (rows.follow == END) & (steps > 1)
        rows = replace(rows, states=label, follow=np.where(timed_out, CUT, rows.follow))
        counts = count_rows(rows, label, len(original), self.world.n_actions, blocks=1)
        numbered = replace(self.counted, counts=counts, names=tuple(map(str, range(len(original)))))
        begins = np.zeros(self.world.n_states, dtype=np.int64)
        begins[original[label[rows.first]]] = label[rows.first]
        beyond = len(begins) + np.arange(2)  # "end" and "unknown"
        shown = np.append(original, beyond)
        proposed = TablePolicy(self.proposed.probabilities(shown))
        return Followed(estimated_world(self.world, numbered), proposed, begins, shown, steps if steps > 1 else None)

    def unsure(self, tolerance: float) -> BoolArray:
        """States in which some action is tried too rarely to tell; all where an outcome comes by chance or never came.

        That a next state was not met in n tries leaves it a chance of up to 3 / n.
        """
        edges, (old, new) = self.counted.counts.edges, (policy.table for policy in (self.current, self.proposed))
        few = _padded(edges.visits) * tolerance < UNSEEN
        return np.asarray((few & (old != new)).any(axis=1) | edges.drawn)

    def support(self, rules: Sequence[Rule]) -> tuple[Support, ...]:
        """Logged decisions in each region, and the distinct people that they belong to."""
        visits = self.counted.counts.edges.visits
        region = first_match(list(rules), self.world.features_of(np.arange(len(visits))))
        rows, episodes = label_coverage(self.world, region, len(rules))
        people = action_people(self.world, region, len(rules))
        untried = (self.counted.table(self.given[1]) * (visits == 0)).sum(axis=1)
        found = []
        for k in range(len(rules)):
            weight = np.where(region == k, visits.sum(axis=1), 0.0)
            beyond = float(weight @ untried / weight.sum()) if weight.any() else 1.0
            states, share = int(np.count_nonzero(weight)), float(rows[k] / self.world.check.rows)
            taken = [weight @ self.counted.table(policy) / max(weight.sum(), 1.0) for policy in self.given]
            actions = _action_support(self.world, people[k], *taken)
            found.append(Support(states, int(episodes[k]), share, beyond, actions))
        return tuple(found)

    def summary(self, seen: AnyArray, facts: Mapping[str, str | float | int]) -> WorldSummary:
        """The model's summary, with the rows and episodes behind it."""
        recorded, model = log_summary(self.world), super().summary(seen, facts)
        return replace(recorded, facts={**recorded.facts, **model.facts})

    def region_effects(
        self, changes: RegionChanges, *, level: float, length: float, max_steps: int, seed: int
    ) -> Effects:
        """Judged by the log alone, as the whole is."""
        return logged_effects(self.world, self.given, changes, counted=self.counted, level=level, seed=seed)

    def moves(self) -> tuple[Arrow, ...]:
        """None: estimated moves may be those of a single person."""
        return ()


def _action_support(log: Log, people: IntArray, old: FloatArray, new: FloatArray) -> tuple[ActionSupport, ...]:
    """Each action of a region with the people who got it and its chances (A,)."""
    both = zip(log.actions, people, old, new, strict=True)
    return tuple(ActionSupport(action.name, int(n), float(b), float(e)) for action, n, b, e in both)


class RowsComparison(Comparison):
    """Two policies over the rows of a log whose states are features."""

    shows_episodes = False
    estimators = ESTIMATORS

    def __init__(self, log: Log, given: PolicyPair, *, seed: int, second: Log | None = None) -> None:
        self.world: Log = log
        self.place: Log = log
        self.people = float(log.check.people or log.check.episodes)
        self.given, self.seed, self.second = given, seed, second
        self._rules: tuple[Rule, ...] = ()
        self._coverage: RuleCoverage | None = None

    @property
    def policies(self) -> PolicyPair:
        """As they were given."""
        return self.given

    @property
    def one_step(self) -> bool:
        """Whether every episode is a single decision."""
        return self.world.check.rows == self.world.check.episodes

    @cached_property
    def scored(self) -> ScoredLog:
        """The rows with the chances of their actions."""
        return scored_log(self.world, self.given[0], seed=self.seed)

    def coverage(self, rules: Sequence[Rule]) -> RuleCoverage:
        """How often rules are met in all rows, each where it is the first to cover."""
        if self._coverage is None or tuple(rules) != self._rules:
            self._rules, self._coverage = tuple(rules), cover_all_rows(self.world, rules)
        return self._coverage

    def achieved(self, diverging: BoolArray, *, length: float, max_steps: int, level: float, seed: int) -> Achieved:
        """Only how many decisions change: no start is known by itself."""
        rows, (old, new) = self.world.rows, self._chances
        changed = changed_rows(rows.actions, old, new) if is_logs(self.given[0]) else changed_decisions(old, new)
        return Achieved(None, None, float(changed.sum() / max(1, rows.n_episodes)))

    def judge(
        self, groups: Sequence[GroupRules], *, level: float, seed: int, evaluation: str | None = None
    ) -> GroupVerdicts:
        """Intervals from scores for everyone, and for the decisions in a region where each is an episode."""
        log = self.world
        masks = self._members(groups)
        if evaluation is not None:
            return judge_by(evaluation, log, self.given, masks, level=level, seed=seed)
        if self.second is not None:
            return _side_by_side(log, self.second, groups, level)
        judged = ScoreJudge(log, Question(*self.given, masks, level), self.scored).judged()
        if log.sampled:  # who is told comes from all rows, what is told of them from those that are held
            judged = replace(judged, episodes=self._episodes(groups, judged.episodes))
        return replace(
            judged, method=_by_scores(self.scored), warnings=(*log.notes, *self.scored.notes, *judged.warnings)
        )

    def _members(self, groups: Sequence[GroupRules]) -> list[BoolArray]:
        """(episodes,) masks of groups of starts; no rules: everyone.

        Where each episode is one decision, a group is a region; else its members are those that did not form it.
        """
        starts = self.world.starts
        if self.one_step:
            region, everyone = first_match(list(self._rules), starts), np.ones(len(starts), dtype=np.bool_)
            return [region == self._rules.index(group.rules[0]) if group.rules else everyone for group in groups]
        return [
            mask & self.judging if group.rules else mask
            for group, mask in zip(groups, _starting_in(self.world, groups), strict=True)
        ]

    def _episodes(self, groups: Sequence[GroupRules], held: FloatArray) -> FloatArray:
        """(groups,) episodes of the whole log, where only some of its rows are held."""
        counted = self.coverage(self._rules).rows if self.one_step else None
        return np.array([
            float(self.world.check.episodes) if not group.rules
            else float(n if counted is None else counted[self._rules.index(group.rules[0])])
            for group, n in zip(groups, held, strict=True)
        ])  # fmt: skip

    @cached_property
    def judging(self) -> BoolArray:
        """(episodes,) a half of the people, who judge groups of starts that the others formed."""
        rows = self.world.rows
        person = np.unique(rows.person[rows.first], return_inverse=True)[1]
        order = np.random.default_rng((self.seed, Stream.FORMING)).permutation(int(person.max(initial=0)) + 1)
        return np.asarray(order[person] % 2 == 1)

    def support(self, rules: Sequence[Rule]) -> tuple[Support, ...]:
        """Rows and people of the whole log in each region."""
        coverage, total = self.coverage(rules), self.world.check.rows
        actions = [()] * len(rules) if self.world.sampled else self._taken(rules)
        both = zip(coverage.rows, coverage.people, actions, strict=True)
        return tuple(Support(int(rows), int(met), float(rows / total), None, taken) for rows, met, taken in both)

    def _taken(self, rules: Sequence[Rule]) -> list[tuple[ActionSupport, ...]]:
        """For each region, how often each action is taken there."""
        rows, log = self.world.rows, self.world
        region, (old, new) = first_match(list(rules), rows.states), self._chances
        done = one_hot(rows.actions, log.n_actions)
        old = done if is_logs(self.given[0]) else old
        parts = []
        for k in range(len(rules)):
            inside = region == k
            pairs = np.unique(np.column_stack([rows.person[inside], rows.actions[inside]]), axis=0)
            people = np.bincount(pairs[:, 1], minlength=log.n_actions)
            count = max(1, int(inside.sum()))
            parts.append(_action_support(log, people, old[inside].sum(axis=0) / count, new[inside].sum(axis=0) / count))
        return parts

    @cached_property
    def _chances(self) -> tuple[FloatArray, FloatArray]:
        """(n, A) chances of the current and of the proposed policy in every row."""
        policies = [as_log_policy(self.world, policy, seed=self.seed) for policy in self.given]
        old, new = (np.asarray(policy.probabilities(self.world.rows.states), dtype=np.float64) for policy in policies)
        return old, new

    def region_effects(
        self, changes: RegionChanges, *, level: float, length: float, max_steps: int, seed: int
    ) -> Effects:
        """Judged by scores of the rows, as the whole is."""
        return score_effects(self.scored, self.given, changes, level=level)

    def summary(self, seen: AnyArray, facts: Mapping[str, str | float | int]) -> WorldSummary:
        """Rows and episodes, and the ranges of features that many reach."""
        return log_summary(self.world)


def _starting_in(log: Log, groups: Sequence[GroupRules]) -> list[BoolArray]:
    """Masks (episodes,) of those that begin in each group."""
    features = log.features_of(log.rows.states[log.rows.first])
    return [group.covers(features) for group in groups]


def _side_by_side(log: Log, second: Log, groups: Sequence[GroupRules], level: float) -> GroupVerdicts:
    return judge_logs(log, second, _starting_in(log, groups), _starting_in(second, groups), level=level)


def _by_scores(scored: ScoredLog) -> str:
    """How verdicts are made, and from how much of the log."""
    episodes, scored_episodes = scored.log.check.episodes, scored.episodes
    part = "" if scored_episodes == episodes else f"{number(scored_episodes)} of "
    behind = f"{part}{counted(episodes, f'logged {scored.decisions.noun}')}"
    chances = scored.chances
    known = "as recorded" if scored.decisions.probability is not None else "those of the current policy"
    source = known if chances.known else "estimated"
    return f"doubly robust scores of {behind}, cross-fitted (chances of actions {source})"


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


def acting(world: Log, policy: PolicyLike, *, seed: int = 0) -> Policy:
    """A policy as one that edits can be made to; the estimate of who wrote the log."""
    return as_log_policy(world, policy, seed=seed)
