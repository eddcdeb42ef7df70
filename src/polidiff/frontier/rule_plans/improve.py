"""`improve_with_rules`: the best plans of at most K readable rules, with what no such plan can exceed.

How much a plan depends on the table: search again in tables that could as well have been the true one.

The overlap of two plans is the share of the visits changed by either that both change in the same way. A known
table is perturbed by a tenth.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from polidiff._version import __version__
from polidiff.errors import InfeasibleError, UnboundedReturnError
from polidiff.evaluation.exact import ExactEvaluator, best_policy, policy_table
from polidiff.frontier.rule_plans.certificate import Bound, certify
from polidiff.frontier.rule_plans.lists import Feasible, Problem, RuleList, Scored, Support
from polidiff.frontier.rule_plans.model import choice_model
from polidiff.frontier.rule_plans.moves import MoveSet, resolve_moves
from polidiff.frontier.rule_plans.plan import Frame, keeping, make_plan, plan_table
from polidiff.frontier.rule_plans.request import Request
from polidiff.frontier.rule_plans.search import Landmarks, default_options, landmarks, scaled, search
from polidiff.frontier.rule_plans.seeds import admissible, baselines, imitations
from polidiff.frontier.setting import guard_limits
from polidiff.frontier.table import summary
from polidiff.optimize import Clock
from polidiff.parallel import one_blas_thread, run_tasks
from polidiff.policies.protocol import PolicyLike
from polidiff.progress import report
from polidiff.records.arrays import BoolArray, FloatArray
from polidiff.records.explanation import Methods
from polidiff.records.plan import Frontier, Plan
from polidiff.records.rule import Rule
from polidiff.rules.cell_grid import Grid, grid_of_states
from polidiff.surrogates.record import frozen_rules, frozen_states
from polidiff.worlds.tabular import TabularMDP

STRENGTH = 0.1
STOPPED = "stopped by the time limit"


def perturbed(world: TabularMDP, rng: np.random.Generator, strength: float = STRENGTH) -> TabularMDP:
    """The table with every transition probability scaled by about ± `strength` and rows summing to 1 again."""
    moves = world.transitions.copy()
    moves.data = moves.data * np.exp(strength * rng.standard_normal(len(moves.data)))
    sums = np.asarray(moves.sum(axis=1)).ravel()
    moves = sparse.csr_array(sparse.diags_array(1 / np.where(sums > 0, sums, 1.0)) @ moves)
    return TabularMDP(
        [moves[action :: world.n_actions] for action in range(world.n_actions)],
        world.rewards, world.initial, absorbing=world.absorbing, actions=world.actions, features=world.features,
        feature_names=world.feature_names, allowed=world.allowed, discount=world.discount,
    )  # fmt: skip


def overlaps(
    world: TabularMDP, problem: Problem, best: Sequence[Scored], *, draws: int, rng: np.random.Generator
) -> tuple[float | None, ...]:
    """Mean overlap of each plan with the plan of the same size found in perturbed tables."""
    tables = [plan_table(problem, scored.rules) for scored in best]
    visits = [ExactEvaluator(world, table).visits() for table in tables]
    given = (problem.moves, problem.cells, problem.max_conditions, problem.max_literals, problem.feasible,
             problem.finder.support)  # fmt: skip
    tasks = [(perturbed(world, rng), *given, len(best) - 1) for _ in range(draws)]
    shares: list[list[float]] = [[] for _ in best]
    for found in run_tasks(plans_again, tasks, what="stability"):
        for k, table in enumerate(found):
            share = _overlap(problem.moves.current, tables[k], table, visits[k])
            if share is not None:
                shares[k].append(share)
    return tuple(float(np.mean(found)) if found else None for found in shares)


def plans_again(
    world: TabularMDP,
    moves: MoveSet,
    cells: Grid,
    max_conditions: int,
    max_literals: int | None,
    feasible: Feasible | None,
    support: Support | None,
    most: int,
) -> list[FloatArray]:
    """Policies (S, A) of the plans of 0 to `most` rules that a shorter search finds in a table."""
    problem = Problem.of(
        moves, cells, choice_model(world, moves), max_conditions, max_literals, feasible, support
    )  # fmt: skip
    options = scaled(default_options(problem.model.size, len(cells.sizes)), 0.5)
    return [plan_table(problem, scored.rules) for scored in search(problem, landmarks(problem), most, options=options)]


def _overlap(current: FloatArray, one: FloatArray, other: FloatArray, visits: FloatArray) -> float | None:
    changed = [np.abs(table - current).max(axis=1) > 1e-9 for table in (one, other)]
    either = float(visits[changed[0] | changed[1]].sum())
    same = changed[0] & changed[1] & (np.abs(one - other).max(axis=1) < 1e-9)
    return float(visits[same].sum()) / either if either > 0 else None


@one_blas_thread()
def improve_with_rules(world: TabularMDP, current: PolicyLike, *, max_rules: int, **options: Any) -> Frontier:
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
    **options
        Fields of `Request`.

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
    best = _searched(problem, marks, copies, request, clock)
    proofs = certify(problem, marks, best, gap=request.gap, nodes=request.node_limit, clock=clock)
    _check_feasible(proofs, request, world, current)
    return _frontier(world, current, request, problem, marks, copies, proofs, stopped=clock.stopped)


def _problem(world: TabularMDP, current: PolicyLike, request: Request) -> Problem:
    table = policy_table(world, current)
    visits = ExactEvaluator(world, table).visits()
    cells = request.grid
    if cells is None:
        cells = grid_of_states(world.features, world.feature_names, ~world.absorbing, visits, cuts=request.cuts)
    frozen = frozen_states(request.freeze, world.feature_names, world.features_of(np.arange(world.n_states)))
    moves = resolve_moves(
        world, table, request.moves, fallback=request.fallback, frozen=frozen, offered=request.offered
    )
    keeps = keeping(world, guard_limits(world, table, request.keep), request.budget)
    model = choice_model(world, moves)
    support = _support(request.min_support, visits)
    kept = None if support is None else Support(support.weight[model.states], support.least)
    return Problem.of(moves, cells, model, request.max_conditions, request.max_literals, keeps, kept)


def _support(least: float | None, visits: FloatArray) -> Support | None:
    """What a box needs behind it, in weights of all states (S,)."""
    if least is None:
        return None
    if least < 1:
        return Support(visits / visits.sum(), least)
    return Support(np.ones(len(visits)), least)


def _searched(
    problem: Problem, marks: Landmarks, copies: dict[str, list[RuleList]], request: Request, clock: Clock
) -> tuple[Scored, ...]:
    """The best list found of each size, from lists by imitation on; at most three fifths of the time go here."""
    seeds = [admissible(problem, marks, rules) for lists in copies.values() for rules in lists]
    hunt = clock.share(0.6)
    best = search(problem, marks, request.max_rules, seeds=seeds, options=request.search, clock=hunt)
    clock.stopped |= hunt.stopped
    return best


def _check_feasible(proofs: Sequence[Bound], request: Request, world: TabularMDP, current: PolicyLike) -> None:
    if any(np.isfinite(proof.best.expected_return) for proof in proofs):
        return
    limits = guard_limits(world, policy_table(world, current), request.keep)
    least = [(limit.text, best_policy(world, -limit.gains).expected_return) for limit in limits]
    best = " and ".join(f"{value if '>' in text else -value:.6g} for {text!r}" for text, value in least)
    raise InfeasibleError(
        f"no plan of at most {request.max_rules} rules was found that keeps {' and '.join(text for text, _ in least)}; "
        f"the best that any policy reaches is {best}. Hint: loosen it, or allow more rules"
    )


def _frontier(
    world: TabularMDP,
    current: PolicyLike,
    request: Request,
    problem: Problem,
    marks: Landmarks,
    copies: dict[str, list[RuleList]],
    proofs: Sequence[Bound],
    *,
    stopped: bool,
) -> Frontier:
    frame, warnings = _frame(world, current, problem, marks, request)
    limits = (STOPPED,) if stopped else ()
    plans = _plans(frame, request, marks, proofs, limits)
    return Frontier(
        plans=plans,
        hull=(),
        baselines=baselines(problem, marks, copies, request.max_rules),
        ledger=None,
        gap=max(plan.gap for plan in plans),
        unit="rules",
        outcomes=world.outcomes,
        current_return=marks.current.expected_return,
        optimum=marks.ceiling,
        world=summary(world),
        methods=Methods("plain", request.level, 0.0, 0.0, request.seed, 0, "exact", {"polidiff": __version__}),
        warnings=(*warnings, *limits),
        stats=_stats(problem, marks, frame, proofs),
        context=problem,
    )


def _plans(
    frame: Frame, request: Request, marks: Landmarks, proofs: Sequence[Bound], limits: tuple[str, ...]
) -> tuple[Plan, ...]:
    """A plan for every number of rules that gains over fewer."""
    best = [proof.best for proof in proofs]
    rng = np.random.default_rng(request.seed)
    stable = overlaps(frame.world, frame.problem, best, draws=request.stability, rng=rng)
    return tuple(
        make_plan(frame, scored, proof.value, stability=stable[k], warnings=limits)
        for k, (scored, proof) in enumerate(zip(best, proofs, strict=True))
        if np.isfinite(scored.expected_return)
        and (k == 0 or scored.expected_return > best[k - 1].expected_return + marks.tolerance)
    )


def _frame(
    world: TabularMDP, current: PolicyLike, problem: Problem, marks: Landmarks, request: Request
) -> tuple[Frame, tuple[str, ...]]:
    optimum, warnings = marks.ceiling, tuple[str, ...]()
    try:
        optimum = best_policy(world).expected_return
    except UnboundedReturnError as error:
        warnings = (f"share is of the best use of these moves, because over all actions {error}",)
    frame = Frame(
        world, current, problem, marks.current.expected_return, optimum, marks.span, request.explain,
        *(() if request.grid is not None else _told_frozen(world, request)),
    )  # fmt: skip
    return frame, warnings


def _told_frozen(world: TabularMDP, request: Request) -> tuple[tuple[Rule, ...], BoolArray]:
    """The conditions that were frozen, and the states (S,) whose features are known and which decide."""
    held = request.freeze if request.held is None else request.held
    features = world.features_of(np.arange(world.n_states))
    frozen, asked = (frozen_states(freeze, world.feature_names, features) for freeze in (request.freeze, held))
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
