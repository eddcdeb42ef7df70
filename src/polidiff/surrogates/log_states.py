r"""A log with discrete states as a table: plans over decisions that were tried often enough.

One half of the episodes chooses: its model offers only pairs seen at least `min_support` times. The other half judges
every plan with the careful interval, so that the winner is not judged by the rows that made it win; `model_gap` is what
the choosing half promised beyond what the judging half sees. With `pessimism` z the choosing half maximises a lower
bound: every decision's reward less z standard errors of what follows it. Rules are searched in a model whose rows are
shrunk (`choosing_half`) instead: a row is drawn towards the mean row of its state,

.. math:: \tilde P(s' \mid s, a) = \frac{n(s, a)\, \hat P(s' \mid s, a) + \tau\, \hat P(s' \mid s)}{n(s, a) + \tau}

A search over many plans finds the rows that are good by luck; a shrunk row is only as far from its state's other rows
as its count supports. Rewards and outcomes shrink alike. The strength :math:`\tau` is the one under which each logged
move is most probable given all the others of the log (leave one out); where every decision ends its episode, the one
under which others foretell best what a decision brings.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from polidiff.errors import ImproperPolicyError
from polidiff.evaluation.exact import ExactEvaluator
from polidiff.evaluation.logged.counted_log import CountedLog, counted_log
from polidiff.evaluation.logged.counts import BLOCKS, Edges
from polidiff.evaluation.logged.plan import (
    MIN_SUPPORT,
    choose_and_judge,
    estimated_world,
    often_seen,
    supported_world,
)
from polidiff.options import ImproveOptions
from polidiff.policies import TablePolicy, one_hot, top_actions
from polidiff.policies.protocol import TIE, Candidates, PolicyLike
from polidiff.records.arrays import BoolArray, FloatArray
from polidiff.records.numbers import counted, interval_numbers, signed
from polidiff.records.plan import Frontier, Plan
from polidiff.surrogates.log_halves import LogHalves
from polidiff.surrogates.record import Note, frozen_states, least_records, split_support
from polidiff.surrogates.table import (
    Surrogate,
    chance_costs,
    mixed_patch,
    rebuilt,
    taken_actions,
    with_current,
    with_edits,
)
from polidiff.worlds.log import Log
from polidiff.worlds.protocol import aim
from polidiff.worlds.tabular import TabularMDP

if TYPE_CHECKING:
    from polidiff.options import Freeze


MOST_JUDGED = 60
STRENGTHS = (1.0, 3.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 2000.0)


@dataclass(frozen=True, eq=False, kw_only=True)
class LoggedStates(LogHalves, Surrogate):
    """The model of the choosing half, and the half that judges."""

    now: FloatArray  # (S, A) chances of the current policy, in the whole log
    plain: TabularMDP | None = None  # the model as it was counted, where the table's rewards are lowered

    def lift(self, plan: Plan) -> Plan:
        """The policy over the log's states; what a lowered reward chose, with what it returns as counted.

        What partial adoption does is left out: only the half that chose the plan has told it.
        """
        plan = replace(plan, adoption=(), warnings=() if plan.adoption else plan.warnings)
        if self.plain is not None:
            promised = _return(self.plain, plan.policy.table)
            plan = replace(plan, expected_return=promised, bound=max(plan.bound, promised))
        policy = TablePolicy(with_edits(self.halves.judging.table(self.current), plan))
        return replace(plan, policy=policy, patch=mixed_patch(plan.patch, self.now, self.world.actions))

    def judge(self, plans: Sequence[Plan]) -> tuple[Plan, ...]:
        """Plans as the other half sees them; the smaller ones, unless they are lists of rules."""
        return super().judge(plans if self.by_rules else plans[:MOST_JUDGED])

    def notes(self, plans: Sequence[Plan]) -> tuple[Note, ...]:
        """What plans rest on."""
        return (f"Plans use only decisions seen at least {self.least} times in one half of the log; the other half "
                "judges them.",)  # fmt: skip


@dataclass(frozen=True, eq=False, kw_only=True)
class LoggedStateRules(LoggedStates):
    """The shrunk model of the choosing half, for rules about the features of states."""

    chosen: ChoosingHalf

    def conclude(self, solved: Frontier, plans: tuple[Plan, ...]) -> Frontier:
        """The log in place of its model, with what the choosing half promised."""
        promises = self.chosen.promises(solved)
        frontier = super().conclude(solved, plans)
        return replace(
            frontier,
            warnings=(*_curse(frontier, promises), *frontier.warnings),
            stats={**solved.stats, "strength of shrinking": self.chosen.strength, **promises},
        )

    def notes(self, plans: Sequence[Plan]) -> tuple[Note, ...]:
        """What rules rest on."""
        behind = (
            "" if self.min_support is None else f", rules only about {self.min_support:.3g} of the decisions or more"
        )
        return (
            f"Rules use only decisions seen at least {self.least} times in one half of the log{behind}; its rows are "
            f"shrunk by {self.chosen.strength:g} decision{'s' * (self.chosen.strength != 1)}. The other half judges.",
        )


def _curse(frontier: Frontier, promises: dict[str, float]) -> tuple[str, ...]:
    """How much the half that chose the last plan flatters it, in the unit and with the sign of the gains told."""
    plan = frontier.plans[-1]
    if plan.gain is None:
        return ()
    share = any(outcome.name == frontier.objective and outcome.is_share for outcome in frontier.outcomes)
    natural = frontier.sign * (100 if share else 1)
    said = [
        f"{signed(natural * promises[key])} with its rows {'as counted' if way == 'raw' else way}"
        for way in ("raw", "shrunk")
        if (key := f"gain said by the choosing half with {len(plan.rules)} rules, {way}") in promises
    ]
    verb = "gains" if frontier.sign > 0 else f"changes {frontier.objective} by"
    unit = " percentage points" * share
    return (
        f"The half that chose the plan of {counted(len(plan.rules), 'rule')} says that it {verb} {', '.join(said)}; "
        f"the other half says {interval_numbers(plan.gain.scaled(natural), signs=True)[0]}{unit}.",
    )


def reduce_states(log: Log, current: PolicyLike, candidates: Candidates, options: ImproveOptions) -> LoggedStates:
    """The model of the choosing half, offering what it has tried often enough."""
    least = least_records(options.min_support, MIN_SUPPORT)
    counted = counted_log(log, (current,), seed=options.seed, blocks=BLOCKS)
    halves = choose_and_judge(counted)
    model = supported_world(log, halves.choosing, min_support=least, pessimism=options.pessimism)
    plain = supported_world(log, halves.choosing, min_support=least) if options.pessimism else None
    visits, now = halves.choosing.counts.edges.visits, halves.choosing.table(current)
    seen = np.vstack([visits > 0, np.ones((2, log.n_actions), dtype=np.bool_)])
    table = seen_part(seen, now, visits, np.append(visits.sum(axis=1) > 0, [False, False]))
    mixed = bool(((table.max(axis=1) < 1 - TIE) | ~model.allowed[np.arange(len(table)), top_actions(table)]).any())
    whole = estimated_world(log, halves.choosing)
    often = np.vstack([often_seen(halves.choosing, least), np.zeros((2, log.n_actions), dtype=np.bool_)])
    offered = None if candidates is None else _supported(model, halves.choosing, candidates)
    return LoggedStates(
        world=log,
        table=with_current(model, table, whole, often) if mixed else model,
        base=np.full(model.n_states, log.n_actions) if mixed else top_actions(table),
        offered=None if offered is None else np.pad(offered, ((0, 0), (0, int(mixed)))),
        cost=chance_costs(options.change_cost, table) if mixed else None,
        frozen=options.freeze,
        current=current,
        halves=halves,
        now=counted.table(current),
        least=least,
        options=options,
        plain=with_current(plain, table, whole, often) if mixed and plain is not None else plain,
    )


def reduce_state_rules(
    log: Log, current: PolicyLike, candidates: Candidates, options: ImproveOptions
) -> LoggedStateRules:
    """The shrunk model of the choosing half."""
    share, least = split_support(options.min_support, MIN_SUPPORT)
    counted = counted_log(log, (current,), seed=options.seed, blocks=BLOCKS)
    halves = choose_and_judge(counted)
    chosen = choosing_half(log, halves.choosing, current, least, options.freeze)
    return LoggedStateRules(
        world=log,
        table=chosen.model,
        base=chosen.current,
        by_rules=True,
        offered=chosen.offered
        if candidates is None
        else chosen.offered
        & taken_actions([top_actions(halves.choosing.table(candidate)) for candidate in candidates], chosen.model),
        frozen=chosen.frozen,
        min_support=share,
        current=current,
        halves=halves,
        now=counted.table(current),
        least=least,
        options=options,
        chosen=chosen,
    )


def _supported(model: TabularMDP, half: CountedLog, candidates: Sequence[PolicyLike]) -> BoolArray:
    """(S + 2, A) the most probable supported action of each candidate."""
    ends = np.ones((2, model.n_actions)) / model.n_actions
    tables = [np.vstack([half.table(candidate), ends]) for candidate in candidates]
    return taken_actions([top_actions(np.where(model.allowed, table + 1.0, 0.0)) for table in tables], model)


@dataclass(frozen=True, eq=False)
class ChoosingHalf:
    """What the choosing half of a log knows, as tables."""

    raw: TabularMDP  # rows as counted
    model: TabularMDP  # rows shrunk
    current: FloatArray  # (S + 2, A) the policy in use
    offered: BoolArray  # (S + 2, A) pairs that rules may prescribe
    frozen: BoolArray  # (S + 2,) never met, or kept by the user
    strength: float

    def promises(self, solved: Frontier) -> dict[str, float]:
        """What the choosing half says a plan gains, with shrunk and with raw rows: the winner's curse in figures."""
        said: dict[str, float] = {}
        base = _return(self.raw, self.current)
        for plan in solved.plans[1:]:
            table, rules = with_edits(self.current, plan), len(plan.rules)
            said[f"gain said by the choosing half with {rules} rules, shrunk"] = (
                plan.expected_return - solved.current_return
            )
            try:
                raw = _return(self.raw, table) - base
            except ImproperPolicyError:  # counts without shrinking may hold loops that nobody was seen to leave
                continue
            said[f"gain said by the choosing half with {rules} rules, raw"] = raw
        return said


def choosing_half(log: Log, half: CountedLog, current: PolicyLike, least: int, freeze: Freeze) -> ChoosingHalf:
    """What one half of a log knows."""
    visits = half.counts.edges.visits
    met = np.append(visits.sum(axis=1) > 0, [False, False])
    raw = _with_features(estimated_world(log, half), met)
    strength = best_strength(half.counts.edges, outcome=aim(log)[0])
    often = np.array(supported_world(log, half, min_support=least).allowed)
    often[:-2] &= visits >= least
    frozen = ~met | frozen_states(freeze, raw.feature_names, raw.features_of(np.arange(raw.n_states)))
    model = shrunk(raw, visits, strength)
    table = seen_part(model.allowed, half.table(current), visits, met)
    return ChoosingHalf(raw, model, table, often, frozen, strength)


def seen_part(seen: BoolArray, table: FloatArray, visits: FloatArray, met: BoolArray) -> FloatArray:
    """The policy on what the half has seen: its seen actions, or the most frequent one where it has none."""
    whole = np.vstack([table, np.zeros((2, table.shape[1]))])
    whole = np.where(seen, whole, 0.0)
    usual = one_hot(np.append(visits.argmax(axis=1), [0, 0]), table.shape[1])
    mass = whole.sum(axis=1, keepdims=True)
    return np.where((mass > 0) & met[:, None], whole / np.maximum(mass, 1e-300), usual)


def _with_features(world: TabularMDP, met: BoolArray) -> TabularMDP:
    """The table with the features of a met state lent to states that the half never met; nothing changes there."""
    filled = copy.copy(world)
    if world.features is not None and met.any() and not met.all():
        features = np.array(world.features)
        features[~met] = features[np.flatnonzero(met)[0]]
        filled.features = features
    return filled


def _return(world: TabularMDP, table: FloatArray) -> float:
    return float(ExactEvaluator(world, table).totals(world.rewards))


def best_strength(edges: Edges, *, outcome: int = 0) -> float:
    """The strength with the largest leave-one-out likelihood of the logged moves, or of one outcome if all end."""
    if (edges.to == edges.n_states).all():
        return min(STRENGTHS, key=lambda strength: left_out_error(edges, strength, outcome))
    return max(STRENGTHS, key=lambda strength: left_out_likelihood(edges, strength))


def left_out_likelihood(edges: Edges, strength: float) -> float:
    """Mean logarithm of the chance that each move has under the shrunk rows of all other moves.

    Moves that nothing else in their state foretells are left out: no strength makes them possible; 0 without others.
    """
    width = edges.n_states + 1
    links, link = np.unique(edges.state * width + edges.to, return_inverse=True)
    of_state = np.bincount(link, edges.count, len(links))[link] - 1
    state = edges.state_visits[edges.state] - 1
    pair = edges.pair_visits[edges.row] - 1
    with_state = of_state > 0
    mean = of_state[with_state] / state[with_state]
    chance = (np.maximum(edges.count[with_state] - 1, 0) + strength * mean) / (pair[with_state] + strength)
    return float(edges.count[with_state] @ np.log(chance)) / max(float(edges.count[with_state].sum()), 1.0)


def left_out_error(edges: Edges, strength: float, outcome: int) -> float:
    """Summed squared error of what each decision adds, foretold by the shrunk rows of all other decisions."""
    totals, squares = edges.sums[:, outcome], edges.squares[:, outcome]
    all_of_state = np.bincount(edges.state, totals, edges.n_states)[edges.state]
    others = edges.state_visits[edges.state] - 1
    pull = np.divide(strength, others, out=np.zeros(len(others)), where=others > 0)
    weight = edges.count - 1 + strength
    own, rest = 1 + (1 + pull) / weight, (totals + pull * all_of_state) / weight
    return float((own**2 * squares - 2 * own * rest * totals + edges.count * rest**2)[others > 0].sum())


def shrunk(world: TabularMDP, visits: FloatArray, strength: float) -> TabularMDP:
    """The table with the rows of pairs seen `visits` (S, A) times drawn towards their state's mean row.

    Pairs that were never seen in a state that was met are not allowed.
    """
    seen = np.zeros((world.n_states, world.n_actions))
    seen[: len(visits)] = visits
    total = seen.sum(axis=1, keepdims=True)
    share = np.where(total > 0, seen / np.maximum(total, 1.0), 0.0)
    own = np.where(seen > 0, seen / (seen + strength), 1.0)

    def drawn(table: FloatArray) -> FloatArray:
        mean = (share * np.where(seen > 0, table, 0.0)).sum(axis=1, keepdims=True)
        return np.where(seen > 0, own * table + (1 - own) * mean, table)

    mean = world.policy_moves(share)
    moves = [
        sparse.csr_array(
            sparse.diags_array(own[:, action]) @ world.transitions[action :: world.n_actions]
            + sparse.diags_array(1 - own[:, action]) @ mean
        )
        for action in range(world.n_actions)
    ]
    tables = [drawn(world.outcome_table(outcome)) for outcome in world.outcomes]
    allowed = np.where(total > 0, seen > 0, world.allowed)
    return rebuilt(world, moves, drawn(world.rewards), tables, actions=world.actions, allowed=allowed)
