"""`improve_with_rules`: the best plans of at most K readable rules, with what no such plan can exceed.

From rule lists to plans: rules over features, edits, and every figure worked out again in the world itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from polidiff.errors import InfeasibleError, UnboundedReturnError
from polidiff.evaluation.exact import ExactEvaluator, best_policy, policy_table
from polidiff.frontier.hull import OutOfTimeError, check_time
from polidiff.frontier.rule_plans.certificate import Bound, certify
from polidiff.frontier.rule_plans.lists import Problem, Scored, Support
from polidiff.frontier.rule_plans.model import choice_model
from polidiff.frontier.rule_plans.moves import resolve_moves
from polidiff.frontier.rule_plans.search import Landmarks, landmarks, search
from polidiff.frontier.rule_plans.seeds import admissible, baselines, imitations
from polidiff.frontier.setting import Limit, broken_limits, guard_limits
from polidiff.frontier.table import exactly, summary
from polidiff.options import ImproveOptions
from polidiff.policies import as_policy, one_hot, top_actions
from polidiff.policies.protocol import PolicyLike
from polidiff.progress import Clock, report
from polidiff.records.arrays import AnyArray, BoolArray, FloatArray, IntArray
from polidiff.records.outcome import Interval
from polidiff.records.patch import Edit, Patch
from polidiff.records.plan import Frontier, Plan, PlanRule
from polidiff.records.rule import Condition, Rule
from polidiff.rules.cell_grid import RuleList, grid_of_states
from polidiff.surrogates.record import frozen_rules, frozen_states
from polidiff.surrogates.table import Surrogate
from polidiff.worlds.tabular import TabularMDP

if TYPE_CHECKING:
    from polidiff.options import Freeze

CUTS = 63  # cells of a many-valued feature; features of few values are cut everywhere
STOPPED = "stopped by the time limit"
EARLIER = "the time limit leaves out what earlier methods find"
COPYING = 0.5  # of the time, in which lists that imitate the optimum are learned
HUNTING = 0.6  # of what is left then, in which lists are searched; the rest is for their proof


def improve_with_rules(surrogate: Surrogate, options: ImproveOptions, clock: Clock | None = None) -> Frontier:
    r"""Maximise the exact return over lists of at most K rules (box of conditions, move), first match wins.

    .. math:: \max_{(b_1, m_1), \dots, (b_K, m_K)} J(\pi), \qquad
              \pi(s) = m_{\min\{k \,:\, s \in b_k,\, m_k \text{ possible in } s\}}(s), \text{ else } \pi_b(s)

    The table's states have features; the frontier has a plan for every number of rules up to K that gains.
    """
    world, clock = surrogate.table, clock or Clock(options.time_limit)
    table, most = policy_table(world, surrogate.base), int(options.max_rules or 0)
    limits = guard_limits(world, table, options.keep)
    problem = _problem(surrogate, table, limits, options)
    marks = landmarks(problem)
    report("rules", 0.0, f"ceiling of these moves: {marks.ceiling:.6g}")
    copying = clock.share(COPYING)
    copies = imitations(problem, marks, most, options.seed, copying) if most else {}
    hunt = clock.share(HUNTING)
    best = _searched(problem, marks, copies, most, hunt)
    proofs = certify(problem, marks, best, gap=options.gap, nodes=surrogate.node_limit, clock=clock)
    if not any(np.isfinite(proof.best.expected_return) for proof in proofs):
        raise InfeasibleError(_not_kept(world, limits, most))
    frame, warnings = _frame(surrogate, problem, marks, options, clock)
    late = (EARLIER,) if copying.stopped or clock.over() else ()
    clock.stopped |= copying.stopped or hunt.stopped
    stopped = (STOPPED, *late) if clock.stopped else ()
    plans = _plans(frame, marks, proofs)
    if plans[0].rules:  # the current policy breaks a limit
        now = make_plan(frame, marks.current, marks.current.expected_return)
        plans = (replace(now, breaks=broken_limits(world, table, limits)), *plans)
    if limits:
        plans = tuple(replace(plan, share=None) for plan in plans)  # how far limits let a plan go is not worked out
    return Frontier(
        plans=plans,
        hull=(),
        baselines=() if late else baselines(problem, marks, copies, most),
        ledger=None,
        gap=max(plan.gap for plan in plans) if not clock.stopped else _open(marks, proofs),
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
    """The best list found of each size, from lists by imitation on."""
    seeds = [admissible(problem, marks, rules) for lists in copies.values() for rules in lists]
    return search(problem, marks, most, seeds=seeds, clock=clock)


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


def _open(marks: Landmarks, proofs: Sequence[Bound]) -> float:
    """The largest gap over all numbers of rules: a search that was stopped may have found no list of some.

    Where none that keeps the limits is known, against the current policy.
    """
    known = (proof.best.expected_return for proof in proofs)
    now = marks.current.expected_return
    hidden = max(p.value - (best if np.isfinite(best) else now) for p, best in zip(proofs, known, strict=True))
    return max(0.0, hidden) / marks.span if marks.span > marks.tolerance else 0.0


def _frame(
    surrogate: Surrogate, problem: Problem, marks: Landmarks, options: ImproveOptions, clock: Clock
) -> tuple[Frame, tuple[str, ...]]:
    world, optimum, warnings = surrogate.table, marks.ceiling, tuple[str, ...]()
    try:
        check_time(clock)
        optimum = best_policy(world).expected_return
    except OutOfTimeError:
        warnings = ("share is of the best use of these moves: the time limit leaves out the best over all actions",)
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


PROVEN = 1e-9
DISAGREEMENT = 1e-6


@dataclass(frozen=True, eq=False)
class Frame:
    """What all plans of a frontier are measured by."""

    world: TabularMDP
    current: PolicyLike  # as the user gave it
    problem: Problem
    current_return: float
    optimum: float  # of all actions
    span: float  # from the current return to the best use of the moves
    held: tuple[Rule, ...] = ()  # conditions that the user froze
    told: BoolArray | None = None  # (S,) states about which rules must tell the truth; None: not about its features


def make_plan(frame: Frame, scored: Scored, bound: float) -> Plan:
    """The plan of a rule list, evaluated exactly in the world."""
    world = frame.world
    acts = acting(frame.problem, scored.rules)
    table = plan_table(frame.problem, scored.rules)
    evaluator = ExactEvaluator(world, table)
    visits = evaluator.visits()
    gains = [world.rewards, *(world.outcome_table(outcome) for outcome in world.told_outcomes)]
    total, *others = evaluator.totals(np.stack(gains, axis=2)).tolist()
    _check(scored, total)
    gap = max(0.0, bound - total) / frame.span if frame.span > 1e-12 * max(1.0, abs(total)) else 0.0
    rules = _told(frame, scored.rules, acts, visits)
    patch = _patch(frame, scored.rules, acts)
    policy = patch.apply(as_policy(frame.current, n_actions=world.n_actions, n_states=world.n_states))
    reach = frame.optimum - frame.current_return
    return Plan(
        changes=float(visits @ (0.5 * np.abs(table - frame.problem.moves.current).sum(axis=1))),
        expected_return=total,
        outcomes={o.name: Interval.exactly(v) for o, v in zip(world.told_outcomes, others, strict=True)},
        patch=patch,
        bound=max(bound, total),
        gap=gap,
        proven=gap < PROVEN,
        rules=rules,
        literals=scored.literals,
        share=(total - frame.current_return) / reach if reach > 0 else None,
        applicable=_overall(frame, scored.rules, visits),
        policy=policy,
    )


def acting(problem: Problem, rules: RuleList) -> list[BoolArray]:
    """(S,) for each rule the states of the world in which it decides."""
    left = np.ones(problem.cells.size, dtype=np.bool_)
    found = []
    for move, box in rules:
        here = left & problem.cells.covers(box) & (problem.moves.choice[move] >= 0)
        found.append(here)
        left &= ~here
    return found


def plan_table(problem: Problem, rules: RuleList) -> FloatArray:
    """(S, A) probabilities of the policy that follows the rules."""
    table = np.array(problem.moves.current)
    n_actions = table.shape[1]
    for (move, _), here in zip(rules, acting(problem, rules), strict=True):
        at = np.flatnonzero(here & (problem.moves.choice[move] < n_actions))
        table[at] = one_hot(problem.moves.choice[move][at], n_actions)
    return table


def _told(frame: Frame, rules: RuleList, acts: list[BoolArray], visits: FloatArray) -> tuple[PlanRule, ...]:
    problem = frame.problem
    moves, rules_told = problem.moves, []
    left = ~frame.world.absorbing
    for index, ((move, box), here) in enumerate(zip(rules, acts, strict=True)):
        inside = left & problem.cells.covers(box)
        weight = visits if visits[inside].sum() > 0 else np.ones_like(visits)
        mass = float(weight[inside].sum())
        states = np.arange(len(visits))
        changed = moves.changed[states, np.maximum(moves.choice[move], 0)]
        rest = rules[:index] + rules[index + 1 :]
        rules_told.append(
            PlanRule(
                rule=problem.cells.rule(box),
                move=moves.names[move],
                applicable=float(weight[here].sum()) / mass if mass > 0 else 0.0,
                changes=float((visits * changed)[here].sum()),
                without=float(problem.value(rest)[0]),
            )
        )
        left = left & ~here
    return tuple(rules_told)


def _overall(frame: Frame, rules: RuleList, visits: FloatArray) -> float | None:
    """Share of the visits in any of the boxes in which the first move that is due is possible."""
    due = np.zeros(len(visits), dtype=np.bool_)
    done = np.zeros(len(visits), dtype=np.bool_)
    for move, box in rules:
        fresh = frame.problem.cells.covers(box) & ~due & ~frame.world.absorbing
        due |= fresh
        done |= fresh & (frame.problem.moves.choice[move] >= 0)
    mass = float(visits[due].sum())
    return float(visits[done].sum()) / mass if mass > 0 else None


def _patch(frame: Frame, rules: RuleList, acts: list[BoolArray]) -> Patch:
    """Edits whose rules alone, first match wins, say the plan: what they would do beyond it is excepted first."""
    world, problem = frame.world, frame.problem
    edits: list[Edit] = []
    wanted = np.full(world.n_states, world.n_actions)
    for index, ((move, box), here) in enumerate(zip(rules, acts, strict=True)):
        choice = problem.moves.choice[move]
        later = [problem.cells.covers(behind) for _, behind in rules[index + 1 :]]
        rule, kept = problem.cells.rule(box), here & (choice == world.n_actions)
        if (kept & np.any(later, axis=0)).any():
            edits += [_stays(rule, here)] if kept[here].all() else _edits(frame, rule, choice, kept)
        edits += _edits(frame, rule, choice, here & ~kept)
        wanted[here] = choice[here]
    excepted = [] if frame.told is None else _exceptions(frame, edits, wanted, frame.told)
    return Patch((*excepted, *edits), tuple(action.name for action in world.actions), world.feature_names)


def _edits(frame: Frame, rule: Rule, choice: IntArray, here: BoolArray) -> list[Edit]:
    """What a rule does in the states where it acts, by what it replaces."""
    current, n_actions = frame.problem.moves.current, frame.world.n_actions
    top, certain = top_actions(current), current.max(axis=1) > 1 - PROVEN
    edits = []
    for before, after in sorted(set(zip(top[here].tolist(), choice[here].tolist(), strict=True))):
        states = np.flatnonzero(here & (top == before) & (choice == after))
        made_certain = before == after and not certain[states].all()
        proposed = before if after == n_actions else after
        edits.append(Edit(rule, None if made_certain else before, proposed, tuple(states.tolist())))
    return edits


def _exceptions(frame: Frame, edits: Sequence[Edit], wanted: IntArray, told: BoolArray) -> list[Edit]:
    """Where the rules of edits cover states in which the plan does otherwise: what was frozen, then states by name."""
    world, held = frame.world, []
    features = world.features_of(np.arange(world.n_states))
    beyond = told & _differs(frame, _expressed(frame, edits, features), wanted)
    for rule in frame.held:
        here = beyond & rule.covers(features)
        if here.any():
            held.append(_stays(rule, here))
        beyond &= ~here
    for action in np.unique(wanted[beyond]):
        here = beyond & (wanted == action)
        names = tuple(world.states[state] for state in np.flatnonzero(here))
        rule = Rule((Condition("state", 0, values=names),))
        held += [_stays(rule, here)] if action == world.n_actions else _edits(frame, rule, wanted, here)
    return held


def _stays(rule: Rule, here: BoolArray) -> Edit:
    return Edit(rule, None, None, tuple(np.flatnonzero(here).tolist()))


def _expressed(frame: Frame, edits: Sequence[Edit], features: AnyArray) -> IntArray:
    """(S,) what the rules of edits say without their lists of states; the number of actions stands for "as now"."""
    current = frame.problem.moves.current
    top, mixed = top_actions(current), bool((current.max(axis=1) <= 1 - PROVEN).any())
    said, open_ = np.full(len(top), frame.world.n_actions), np.ones(len(top), dtype=np.bool_)
    for edit in edits:
        here = open_ & edit.rule.covers(features)
        if edit.current is not None and (edit.holds_back or not mixed):  # of a mixed policy any action is replaced
            here &= top == edit.current
        said[here] = frame.world.n_actions if edit.holds_back else edit.proposed
        open_ &= ~here
    return said


def _differs(frame: Frame, said: IntArray, wanted: IntArray) -> BoolArray:
    current = frame.problem.moves.current
    own = np.where(current.max(axis=1) > 1 - PROVEN, top_actions(current), frame.world.n_actions)
    here, there = (np.where(choice == frame.world.n_actions, own, choice) for choice in (said, wanted))
    return np.asarray(here != there)


def _check(scored: Scored, total: float) -> None:
    if abs(scored.expected_return - total) > DISAGREEMENT * (1 + abs(total)):
        raise RuntimeError(
            f"the search claims a return of {scored.expected_return:.9g} for a plan that evaluates to {total:.9g}; the "
            "table is too badly conditioned"
        )
