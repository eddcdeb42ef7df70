"""`improve_with_rules`: the best plans of at most K readable rules, with what no such plan can exceed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from polidiff.errors import InfeasibleError, UnboundedReturnError
from polidiff.evaluation.exact import ExactEvaluator, best_policy, policy_table
from polidiff.frontier.rule_plans.certificate import Bound, certify
from polidiff.frontier.rule_plans.lists import Problem, Scored, Support
from polidiff.frontier.rule_plans.model import choice_model
from polidiff.frontier.rule_plans.moves import resolve_moves
from polidiff.frontier.rule_plans.plan import Frame, make_plan
from polidiff.frontier.rule_plans.search import Landmarks, landmarks, search
from polidiff.frontier.rule_plans.seeds import admissible, baselines, imitations
from polidiff.frontier.setting import Limit, broken_limits, guard_limits
from polidiff.frontier.table import exactly, summary
from polidiff.options import ImproveOptions
from polidiff.progress import Clock, report
from polidiff.records.arrays import BoolArray, FloatArray, IntArray
from polidiff.records.plan import Frontier, Plan
from polidiff.records.rule import Rule
from polidiff.rules.cell_grid import RuleList, grid_of_states
from polidiff.surrogates.record import frozen_rules, frozen_states
from polidiff.surrogates.table import Surrogate
from polidiff.worlds.tabular import TabularMDP

if TYPE_CHECKING:
    from polidiff.options import Freeze

CUTS = 63  # cells of a many-valued feature; features of few values are cut everywhere
STOPPED = "stopped by the time limit"


def improve_with_rules(surrogate: Surrogate, options: ImproveOptions) -> Frontier:
    r"""Maximise the exact return over lists of at most K rules (box of conditions, move), first match wins.

    .. math:: \max_{(b_1, m_1), \dots, (b_K, m_K)} J(\pi), \qquad
              \pi(s) = m_{\min\{k \,:\, s \in b_k,\, m_k \text{ possible in } s\}}(s), \text{ else } \pi_b(s)

    The table's states have features; the frontier has a plan for every number of rules up to K that gains.
    """
    world, clock = surrogate.table, Clock(options.time_limit)
    table, most = policy_table(world, surrogate.base), int(options.max_rules or 0)
    limits = guard_limits(world, table, options.keep)
    problem = _problem(surrogate, table, limits, options)
    marks = landmarks(problem)
    report("rules", 0.0, f"ceiling of these moves: {marks.ceiling:.6g}")
    copies = imitations(problem, marks, most, options.seed) if most else {}
    best = _searched(problem, marks, copies, most, clock)
    proofs = certify(problem, marks, best, gap=options.gap, nodes=surrogate.node_limit, clock=clock)
    if not any(np.isfinite(proof.best.expected_return) for proof in proofs):
        raise InfeasibleError(_not_kept(world, limits, most))
    frame, warnings = _frame(surrogate, problem, marks, options)
    stopped = (STOPPED,) if clock.stopped else ()
    plans = _plans(frame, marks, proofs)
    if plans[0].rules:  # the current policy breaks a limit
        now = make_plan(frame, marks.current, marks.current.expected_return)
        plans = (replace(now, breaks=broken_limits(world, table, limits)), *plans)
    if limits:
        plans = tuple(replace(plan, share=None) for plan in plans)  # how far limits let a plan go is not worked out
    return Frontier(
        plans=plans,
        hull=(),
        baselines=baselines(problem, marks, copies, most),
        ledger=None,
        gap=max(plan.gap for plan in plans),
        unit="rules",
        outcomes=world.told_outcomes,
        current_return=marks.current.expected_return,
        optimum=marks.ceiling,
        world=summary(world),
        methods=exactly(options),
        warnings=(*warnings, *stopped),
        stats=_stats(problem, marks, frame, proofs),
        context=problem,
    )


def _problem(surrogate: Surrogate, table: FloatArray, limits: Sequence[Limit], options: ImproveOptions) -> Problem:
    world, visits = surrogate.table, ExactEvaluator(surrogate.table, table).visits()
    cells = surrogate.grid
    if cells is None:
        cells = grid_of_states(world.features, world.feature_names, ~world.absorbing, visits, cuts=CUTS)
    frozen = frozen_states(surrogate.frozen, world.feature_names, world.features_of(np.arange(world.n_states)))
    fallback = "keep" if surrogate.where else options.fallback
    moves = resolve_moves(world, table, options.moves, fallback=fallback, frozen=frozen, offered=surrogate.offered)
    model = choice_model(world, moves, [limit.gains for limit in limits])
    support = _support(surrogate.min_support, visits, model.states)
    most = [limit.most for limit in limits]
    return Problem.of(
        moves, cells, model, options.max_conditions, options.max_literals, most, options.budget, support
    )  # fmt: skip


def _support(least: float | None, visits: FloatArray, states: IntArray) -> Support | None:
    """What a box needs behind it: a share of the visits, or so many states."""
    if least is None:
        return None
    return Support((visits / visits.sum() if least < 1 else np.ones(len(visits)))[states], least)


def _searched(
    problem: Problem, marks: Landmarks, copies: dict[str, list[RuleList]], most: int, clock: Clock
) -> tuple[Scored, ...]:
    """The best list found of each size, from lists by imitation on; at most three fifths of the time go here."""
    seeds = [admissible(problem, marks, rules) for lists in copies.values() for rules in lists]
    hunt = clock.share(0.6)
    best = search(problem, marks, most, seeds=seeds, clock=hunt)
    clock.stopped |= hunt.stopped
    return best


def _not_kept(world: TabularMDP, limits: Sequence[Limit], most: int) -> str:
    reached = [best for best in (_best_reached(world, limit) for limit in limits) if best]
    best = f"; the best that any policy reaches is {' and '.join(reached)}" if reached else ""
    kept = " and ".join(limit.text for limit in limits)
    rules = f"{most} rule{'' if most == 1 else 's'}"
    return f"no plan of at most {rules} was found that keeps {kept}{best}. Hint: loosen it, or allow more rules"


def _best_reached(world: TabularMDP, limit: Limit) -> str:
    """The best value of what a guard limits, in words; none where a loop makes it as good as one likes."""
    try:
        value = best_policy(world, -limit.gains).expected_return
    except UnboundedReturnError:
        return ""
    return f"{(value if '>' in limit.text else -value) + 0.0:.6g} for {limit.text!r}"


def _plans(frame: Frame, marks: Landmarks, proofs: Sequence[Bound]) -> tuple[Plan, ...]:
    """A plan for every number of rules that gains over fewer."""
    returns = [-np.inf, *(proof.best.expected_return for proof in proofs)]
    return tuple(
        make_plan(frame, proof.best, proof.value)
        for before, proof in zip(returns, proofs, strict=False)
        if proof.best.expected_return > before + (marks.tolerance if proof is not proofs[0] else 0.0)
    )


def _frame(
    surrogate: Surrogate, problem: Problem, marks: Landmarks, options: ImproveOptions
) -> tuple[Frame, tuple[str, ...]]:
    world, optimum, warnings = surrogate.table, marks.ceiling, tuple[str, ...]()
    try:
        optimum = best_policy(world).expected_return
    except UnboundedReturnError as error:
        warnings = (f"share is of the best use of these moves, because over all actions {error}",)
    frame = Frame(
        world, surrogate.base, problem, marks.current.expected_return, optimum, marks.span,
        *(() if surrogate.grid is not None else _frozen(surrogate, options.freeze)),
    )  # fmt: skip
    return frame, warnings


def _frozen(surrogate: Surrogate, held: Freeze) -> tuple[tuple[Rule, ...], BoolArray]:
    """The conditions that the user froze, and the states (S,) whose features are known and which decide."""
    world = surrogate.table
    features = world.features_of(np.arange(world.n_states))
    frozen, asked = (frozen_states(freeze, world.feature_names, features) for freeze in (surrogate.frozen, held))
    rules = () if isinstance(held, np.ndarray) else frozen_rules(held, world.feature_names)
    return rules, ~world.absorbing & ~(frozen & ~asked)


def _stats(problem: Problem, marks: Landmarks, frame: Frame, proofs: Sequence[Bound]) -> dict[str, float | int | str]:
    return {
        "ceiling of the moves": marks.ceiling,
        "optimum of all actions": frame.optimum,
        "moves": len(problem.row),
        "states with a choice": problem.model.size,
        "lists valued exactly": len(problem.evaluated),
        "nodes": sum(proof.nodes for proof in proofs),
        **{f"bound with {k} rules": proof.value for k, proof in enumerate(proofs)},
        **{f"bound with {k} rules from": proof.how for k, proof in enumerate(proofs)},
        **{f"bound with {k} rules on the cuts": p.on_cuts for k, p in enumerate(proofs) if p.on_cuts is not None},
    }
