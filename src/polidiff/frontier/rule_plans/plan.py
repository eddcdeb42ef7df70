"""From rule lists to plans: rules over features, edits, and every figure worked out again in the world itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from polidiff.evaluation.exact import ExactEvaluator
from polidiff.frontier.rule_plans.lists import Problem, Scored
from polidiff.policies import as_policy, one_hot, top_actions
from polidiff.policies.protocol import PolicyLike
from polidiff.records.arrays import AnyArray, BoolArray, FloatArray, IntArray
from polidiff.records.outcome import Interval
from polidiff.records.patch import Edit, Patch
from polidiff.records.plan import Plan, PlanRule
from polidiff.records.rule import Condition, Rule
from polidiff.rules.cell_grid import RuleList
from polidiff.worlds.tabular import TabularMDP

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
    for before, after in _pairs(top, choice, here):
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


def _pairs(top: IntArray, choice: IntArray, here: BoolArray) -> list[tuple[int, int]]:
    return sorted({(int(a), int(b)) for a, b in zip(top[here], choice[here], strict=True)})


def _check(scored: Scored, total: float) -> None:
    if abs(scored.expected_return - total) > DISAGREEMENT * (1 + abs(total)):
        raise RuntimeError(
            f"the search claims a return of {scored.expected_return:.9g} for a plan that evaluates to {total:.9g}; the "
            "table is too badly conditioned"
        )
