"""`improve_with_rules`: the best plans of at most K readable rules, with what no such plan can exceed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from polidiff._version import __version__
from polidiff.errors import InfeasibleError, InvalidOptionError, UnboundedReturnError
from polidiff.evaluation.exact import ExactEvaluator, policy_table
from polidiff.evaluation.optimum import best_policy
from polidiff.frontier.clock import Clock
from polidiff.frontier.rule_plans.cells import make_cells
from polidiff.frontier.rule_plans.certificate import certify
from polidiff.frontier.rule_plans.lists import Problem, Scored
from polidiff.frontier.rule_plans.model import choice_model
from polidiff.frontier.rule_plans.moves import Fallback, Move, resolve_moves
from polidiff.frontier.rule_plans.plan import Frame, keeping, make_plan
from polidiff.frontier.rule_plans.search import Landmarks, SearchOptions, landmarks, search
from polidiff.frontier.rule_plans.seeds import admissible, baselines, imitations
from polidiff.frontier.rule_plans.stability import overlaps
from polidiff.frontier.setting import frozen_states, guard_limits
from polidiff.frontier.table import summary
from polidiff.progress import report
from polidiff.records.explanation import Methods
from polidiff.records.plan import Frontier, Plan
from polidiff.worlds.tabular import TabularMDP


@dataclass(frozen=True)
class Request:
    """What was asked for, checked."""

    max_rules: int
    max_conditions: int = 3
    max_literals: int | None = None
    moves: str | Sequence[Move] = "actions"
    fallback: Fallback = "keep"
    keep: Any = ()
    freeze: Any = ()
    cuts: int = 63
    gap: float = 1e-3
    time_limit: float | None = None
    node_limit: int | None = None
    stability: int = 0
    level: float = 0.95
    seed: int = 0
    search: SearchOptions | None = None
    explain: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        for name, least in (("max_rules", 0), ("max_conditions", 1), ("cuts", 1), ("stability", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
                raise InvalidOptionError(f"{name} must be a whole number of at least {least}; got {value!r}")
        for name in ("max_literals", "node_limit"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, (int, np.integer)) or value < 0):
                raise InvalidOptionError(f"{name} must be None or a whole number of at least 0; got {value!r}")
        if not (isinstance(self.gap, (int, float)) and 0 <= self.gap < np.inf):
            raise InvalidOptionError(f"gap must be a number of at least 0; got {self.gap!r}")
        if self.time_limit is not None and not self.time_limit > 0:
            raise InvalidOptionError(f"time_limit must be None or seconds above 0; got {self.time_limit!r}")


def improve_with_rules(world: TabularMDP, current: Any, *, max_rules: int, **options: Any) -> Frontier:
    r"""Maximise the exact return over lists of at most K rules (box of conditions, move), first match wins.

    .. math:: \max_{(b_1, m_1), \dots, (b_K, m_K)} J(\pi), \qquad
              \pi(s) = m_{\min\{k \,:\, s \in b_k,\, m_k \text{ possible in } s\}}(s), \text{ else } \pi_b(s)

    Parameters
    ----------
    world : TabularMDP
        A table whose states have features; it may be the model of a log, with `allowed` for the supported pairs.
    current : policy or table
        The policy in use.
    max_rules : int
        K. The frontier has a plan for every number of rules up to K that gains.
    max_conditions, max_literals : int
        Most conditions (features) of a rule; most comparisons of a plan.
    moves : {"actions", "levels"} or list of Move
        What a rule may prescribe; "keep" is always among it, for exceptions.
    fallback : {"keep", "nearest"}
        Where a move is impossible the rule does not act, or the nearest offered level is taken.
    keep : guards
        Outcomes that a plan must keep, such as ``"mortality<=current"``; bounds hold with or without them.
    freeze : conditions, rules or mask
        Where nothing may change.
    cuts : int
        Cells of a many-valued feature; features of few values are cut everywhere.
    gap : float
        The certificate stops this close to the plan, as a share of the range.
    time_limit : float, optional
        Seconds. Without it limits count nodes, and the same input gives the same plans.
    node_limit : int, optional
        Relaxations of the branch and bound per number of rules; by default fewer the larger the table.
    stability : int
        How many perturbed tables to search again, for `Plan.stability`; 0 leaves it None.
    seed : int
        For trees, rules by imitation and perturbed tables.
    search : SearchOptions, optional
        How hard to look.
    level, explain
        Noted in the result; what `Plan.explanation` calls.

    Examples
    --------
    >>> from polidiff.domains import frozen_lake
    >>> frontier = improve_with_rules(frozen_lake.world(4), frozen_lake.current(4), max_rules=1)
    >>> [(len(plan.rules), round(plan.expected_return, 3), plan.proven) for plan in frontier]
    [(0, 0.038, True), (1, 0.111, True)]
    """
    request = Request(max_rules=max_rules, **options)
    clock = Clock(request.time_limit)
    problem = _problem(world, current, request)
    marks = landmarks(problem)
    report("rules", 0.0, f"ceiling of these moves: {marks.ceiling:.6g}")
    copies = imitations(problem, marks, request.max_rules, request.seed) if request.max_rules else {}
    seeds = [admissible(problem, marks, rules) for lists in copies.values() for rules in lists]
    hunt = clock.share(0.6)
    best = search(problem, marks, request.max_rules, seeds=seeds, options=request.search, clock=hunt)
    proofs = certify(problem, marks, best, gap=request.gap, nodes=request.node_limit, clock=clock)
    best = tuple(proof.best for proof in proofs)
    _check_feasible(best, request)
    frame, warnings = _frame(world, current, problem, marks, request.explain)
    rng = np.random.default_rng(request.seed)
    stable = overlaps(world, problem, best, draws=request.stability, rng=rng)
    limits = ("stopped by the time limit",) if hunt.stopped or clock.stopped else ()
    plans = [
        make_plan(frame, scored, proof.value, stability=stable[k], warnings=limits)
        for k, (scored, proof) in enumerate(zip(best, proofs, strict=True))
        if np.isfinite(scored.expected_return)
        and (k == 0 or scored.expected_return > best[k - 1].expected_return + marks.tolerance)
    ]
    return Frontier(
        plans=tuple(plans),
        hull=(),
        baselines=baselines(problem, marks, copies, request.max_rules),
        ledger=None,
        gap=max(plan.gap for plan in plans),
        unit="rules",
        outcomes=world.outcomes,
        current_return=marks.current.expected_return,
        optimum=marks.ceiling,
        world=summary(world),
        methods=_methods(request),
        warnings=(*warnings, *limits),
        stats=_stats(problem, marks, frame, proofs, plans),
        context=problem,
    )


def _problem(world: TabularMDP, current: Any, request: Request) -> Problem:
    table = policy_table(world, current)
    visits = ExactEvaluator(world, table).visits()
    cells = make_cells(world, visits, cuts=request.cuts)
    frozen = frozen_states(world, request.freeze)
    moves = resolve_moves(world, table, request.moves, fallback=request.fallback, frozen=frozen)
    keeps = keeping(world, guard_limits(world, table, request.keep))
    return Problem.of(moves, cells, choice_model(world, moves), request.max_conditions, request.max_literals, keeps)


def _check_feasible(best: Sequence[Scored], request: Request) -> None:
    if not any(np.isfinite(scored.expected_return) for scored in best):
        raise InfeasibleError(
            f"no plan of at most {request.max_rules} rules was found that keeps {', '.join(map(str, request.keep))}. "
            "Hint: loosen the guard, or allow more rules"
        )


def _frame(
    world: TabularMDP, current: Any, problem: Problem, marks: Landmarks, explain: Callable[..., Any] | None
) -> tuple[Frame, tuple[str, ...]]:
    now = marks.current.expected_return
    try:
        return Frame(world, current, problem, now, best_policy(world).expected_return, marks.span, explain), ()
    except UnboundedReturnError as error:
        warning = f"share is of the best use of these moves, because over all actions {error}"
        return Frame(world, current, problem, now, marks.ceiling, marks.span, explain), (warning,)


def _stats(
    problem: Problem, marks: Landmarks, frame: Frame, proofs: Sequence[Any], plans: Sequence[Plan]
) -> dict[str, float | int | str]:
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


def _methods(request: Request) -> Methods:
    return Methods("plain", request.level, 0.0, 0.0, request.seed, 0, "exact", {"polidiff": __version__})
