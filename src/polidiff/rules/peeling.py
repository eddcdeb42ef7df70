"""Several classes by peeling: the smallest class against all others, then the next, the default class last.

Where boxes of several classes overlap, the one that lies on top should be peeled first: it is a whole box, the others
have holes. `cleanest_first` finds such an order.

At the stage of class c a row of that class earns its weight when covered, a row of a class still to come costs its
weight, a row of a class already told costs a share of it (`overlap_cost`), and any other row that earlier rules cover
counts for nothing: the list has already decided it.

In conjunctive normal form the same search describes what the class is not: the clauses found are those of the other
rows, each is denied, and the class is where all denials hold (Dash, Günlük and Wei 2018). What is left of the space is
cut into disjoint rules, so that both forms are read and matched alike.

How much a clause must explain is a property of the noise, so its cost is chosen by cross-validation: of costs from long
to short rules the largest whose mean held-out loss is within half a standard error of the least one, because between
equals the shorter rules are the better ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from polidiff.errors import InvalidOptionError
from polidiff.parallel import run_tasks
from polidiff.progress import Clock
from polidiff.records.arrays import AnyArray, FloatArray, IntArray
from polidiff.records.rule import Clause, Rule
from polidiff.rules.generate import GenerationOptions, generate, search
from polidiff.rules.grid import Grid, Problem, make_grid, make_problem
from polidiff.rules.lists import Kinds, Table, denied, first_matches, without
from polidiff.rules.proof import ProofOptions
from polidiff.rules.refine import Rows, keep_paying, refine, shorten_rules

COSTS = (5e-4, 1.5e-3, 4e-3, 0.01, 0.03)  # of a clause
PARTS = (COSTS[:2], COSTS[2:])  # about the same work: low costs make many rules
FOLDS = 5
MOST_ROWS = 8_000  # rows used to choose a cost; more would not change the choice
MOST_PIECES = 1_000  # disjoint rules that a conjunction of clauses may come to
CLEAN = 0.5  # of the weight of a class: what telling it may cost for it to be peeled early
ORDERING_ROWS = 4_000  # rows used to choose an order

Listed: TypeAlias = tuple[tuple[Rule, int], ...]  # with the class that each rule tells; first match wins


@dataclass(frozen=True, eq=False)
class Labelled:
    """Rows with their classes and weights."""

    table: Table
    truth: IntArray  # (n,) index of the class
    weight: FloatArray
    names: tuple[str, ...]  # of the classes

    def take(self, rows: AnyArray) -> Labelled:
        """Some of the rows."""
        return Labelled(self.table.take(rows), self.truth[rows], self.weight[rows], self.names)


@dataclass(frozen=True)
class PeelingOptions:
    """What the classifier's parameters mean to the stages; costs in the unit of the weights."""

    clause_cost: float
    literal_cost: float
    total: float  # weight of all rows
    overlap_cost: float
    max_bins: int
    max_samples: int
    refine: bool
    generation: GenerationOptions
    form: str = "dnf"  # or "cnf"


@dataclass(frozen=True, eq=False)
class Stage:
    """What was learned about one class; objective and bound in the unit of the weights."""

    label: int
    rules: tuple[Rule, ...]
    objective: float
    bound: float | None
    weight: float  # of the rows of the class that were still to be told
    message: str | None  # why there are no rules, None when there are
    clauses: tuple[Clause, ...] = ()  # "cnf": the class is where all of them hold and no rule before does


def peel(
    labelled: Labelled, order: Sequence[int], options: PeelingOptions, *, clock: Clock, rng: np.random.Generator
) -> tuple[Stage, ...]:
    """One stage for every class in `order`."""
    stages: list[Stage] = []
    for label in order:
        stages.append(_stage(labelled, stages, label, options, clock, rng))
    return tuple(stages)


def rules_of(stages: Sequence[Stage]) -> Listed:
    """The rules of all stages in their order, with the class that each tells."""
    return tuple((rule, stage.label) for stage in stages for rule in stage.rules)


def weight_told_wrong(labelled: Labelled, listed: Listed, default: int) -> float:
    """Weight of the rows whose class a decision list does not tell."""
    labels = np.array([*(label for _, label in listed), default])
    wrong = labels[first_matches(labelled.table, [rule for rule, _ in listed])] != labelled.truth
    return float(labelled.weight[wrong].sum())


def cleanest_first(
    labelled: Labelled, labels: Sequence[int], options: PeelingOptions, *, clock: Clock, rng: np.random.Generator
) -> list[int] | None:
    """An order of the classes: at each stage the one whose rules cost least for the weight that they tell.

    None where no class is a clean one, or time is up.
    """
    if len(labelled.truth) > ORDERING_ROWS:
        labelled = labelled.take(np.sort(rng.choice(len(labelled.truth), ORDERING_ROWS, replace=False)))
    left, stages = list(labels), list[Stage]()
    while len(left) > 1:
        trials = [_stage(labelled, stages, label, options, clock, rng) for label in left]
        prices = [stage.objective / max(stage.weight, 1e-300) for stage in trials]
        price, cleanest = min(zip(prices, trials, strict=True), key=lambda trial: trial[0])
        if clock.over() or (not stages and price > CLEAN):
            return None
        stages.append(cleanest)
        left.remove(cleanest.label)
    return [*(stage.label for stage in stages), *left]


def _denying(outside: Stage, table: Table, name: str) -> Stage:
    """The stage of a class, from the rules of what it is not."""
    kinds, pieces = Kinds.of(table.columns), [Rule()]
    for rule in outside.rules:
        pieces = [part for piece in pieces for part in without(piece, rule, kinds)]
        if len(pieces) > MOST_PIECES:
            raise InvalidOptionError(
                f"the clauses of class {name} come to more than {MOST_PIECES} disjoint rules. Hint: the "
                "disjunctive form (classifier='rules', form='dnf'), or a higher clause_cost"
            )
    message = None if pieces else f"No rules for class {name}: leaving it out costs less than telling it by clauses."
    clauses = tuple(denied(rule, kinds) for rule in outside.rules)
    return replace(outside, rules=tuple(pieces), clauses=clauses, message=message)


def stage_rows(labelled: Labelled, before: Sequence[Stage], label: int, options: PeelingOptions) -> Rows:
    """The rows that count at the stage of a class, given the stages before."""
    table, truth, weight = labelled.table, labelled.truth, labelled.weight
    earlier = np.isin(truth, [stage.label for stage in before])
    gain = np.where(truth == label, weight, np.where(earlier, -options.overlap_cost * weight, -weight))
    for stage in before:
        for rule in stage.rules:
            inside = table.inside(rule)
            gain[inside[~earlier[inside]]] = 0.0
    return Rows(table, gain)


def _stage(
    labelled: Labelled,
    before: Sequence[Stage],
    label: int,
    options: PeelingOptions,
    clock: Clock,
    rng: np.random.Generator,
) -> Stage:
    """What is learned about a class, after those of the stages before."""
    rows, name = stage_rows(labelled, before, label, options), labelled.names[label]
    if options.form == "dnf":
        return replace(_learn(rows, name, options, clock, rng), label=label)
    outside = _learn(Rows(rows.table, -rows.gain), name, options, clock, rng)
    return _denying(replace(outside, label=label), rows.table, name)


def _learn(rows: Rows, name: str, options: PeelingOptions, clock: Clock, rng: np.random.Generator) -> Stage:
    weight = float(rows.gain[rows.gain > 0].sum())
    if not weight:
        return Stage(-1, (), 0.0, 0.0, weight, _all_taken(name))
    sample = _sample(rows, options.max_samples, rng)
    grid, problem = _problem(sample, options)
    exact = len(sample.gain) == np.count_nonzero(rows.gain) and (grid.complete or not options.refine)
    asked = options.generation if exact else replace(options.generation, proof=ProofOptions(budget=0))
    chosen, bound = generate(problem, asked, clock)
    rules = tuple(grid.rule(mask) for mask in chosen)
    if options.refine:
        rules = refine(rows, rules, grid)
        rules = shorten_rules(sample, rules, literal_cost=options.literal_cost)
        rules = keep_paying(rows, rules, clause_cost=options.clause_cost, literal_cost=options.literal_cost)
    message = None if rules or options.generation.max_rules == 0 else _why_empty(problem, name, options)
    objective = stage_objective(rows, rules, options)
    return Stage(-1, rules, objective, bound if exact else None, weight, message)


def _problem(sample: Rows, options: PeelingOptions) -> tuple[Grid, Problem]:
    positive, weight = sample.gain > 0, np.abs(sample.gain)
    balance = np.where(positive, weight / weight[positive].sum(), weight / max(weight[~positive].sum(), 1e-300))
    grid = make_grid(sample.table, balance, options.max_bins)
    problem = make_problem(
        grid,
        grid.encode(sample.table),
        positive,
        weight,
        clause_cost=options.clause_cost,
        literal_cost=options.literal_cost,
    )
    return grid, problem


def _sample(rows: Rows, most: int, rng: np.random.Generator) -> Rows:
    """At most `most` rows, half of them positive where possible, their gains scaled to the same totals."""
    live = np.flatnonzero(rows.gain)
    if len(live) <= most:
        return rows if len(live) == len(rows.gain) else rows.take(live)
    chosen, factors = [], []
    for side in (np.flatnonzero(rows.gain > 0), np.flatnonzero(rows.gain < 0)):
        size = min(len(side), most // 2)
        chosen.append(np.sort(rng.choice(side, size, replace=False)) if size < len(side) else side)
        factors.append(np.full(size, len(side) / max(size, 1)))
    index = np.concatenate(chosen)
    chosen_rows = rows.take(index)
    return Rows(chosen_rows.table, chosen_rows.gain * np.concatenate(factors))


def stage_objective(rows: Rows, rules: Sequence[Rule], options: PeelingOptions) -> float:
    """Missed positives + negatives of every clause + costs, on all rows."""
    missed = rows.gain > 0
    total = 0.0
    for rule in rules:
        cover = rows.table.inside(rule)
        total -= float(np.minimum(rows.gain[cover], 0.0).sum())
        total += options.clause_cost + options.literal_cost * rule.literals
        missed[cover] = False
    return total + float(rows.gain[missed].sum())


def _all_taken(name: str) -> str:
    return (
        f"No rules for class {name}: rules of earlier classes cover all of its rows. Hint: lower clause_cost and "
        "literal_cost, so that those rules become narrower, or add features that tell the classes apart."
    )


def _why_empty(problem: Problem, name: str, options: PeelingOptions) -> str:
    """What the best single rule would earn and cost, and what to change."""
    free = search(problem := replace(problem, clause_cost=0.0, literal_cost=0.0), problem.gain, options.generation)
    if not len(free.values):
        return (
            f"No rules for class {name}: no conjunction of conditions holds more weight of it than of the other "
            "classes. Hint: add features that tell it apart, or give its rows more sample_weight."
        )
    total, earned = options.total, float(free.values[0]) / options.total
    literals = int(problem.grid.literals(free.masks[0]).sum())
    cost = (options.clause_cost + options.literal_cost * literals) / total
    factor = earned / cost / total / 2
    return (
        f"No rules for class {name}: the best single rule found explains {earned:.2g} of the weight and costs "
        f"{cost:.2g} (one clause, {literals} literals). Hint: clause_cost={options.clause_cost * factor:.1g} and "
        f"literal_cost={options.literal_cost * factor:.1g} would allow it."
    )


def choose_cost(
    rows: Labelled,
    options: Callable[[float, float], PeelingOptions],
    order: Sequence[int],
    *,
    default: int,
    clock: Clock,
    rng: np.random.Generator,
) -> float:
    """The cost of a clause; `options(cost, weight)` are those of a fold of so much weight. Tasks are independent."""
    used = np.flatnonzero(rows.weight > 0)
    if len(used) > MOST_ROWS:
        used = np.sort(rng.choice(used, MOST_ROWS, replace=False))
    folds = stratified_folds(rows.truth, used, rng)
    parts = [(rows.take(np.setdiff1d(used, fold)), rows.take(fold)) for fold in folds]
    own = iter(rng.spawn(len(PARTS) * len(parts)))
    tasks = [
        (train, test, [options(cost, float(train.weight.sum())) for cost in costs], order, default, clock, next(own))
        for costs in PARTS
        for train, test in parts
    ]
    answers = run_tasks(held_out_losses, tasks, what="choosing the cost of a rule")
    losses = [np.array(answers[k : k + len(parts)]).T for k in range(0, len(answers), len(parts))]
    return COSTS[shortest_of_the_best(np.ascontiguousarray(np.concatenate(losses)))]


def held_out_losses(
    train: Labelled,
    test: Labelled,
    options: Sequence[PeelingOptions],
    order: Sequence[int],
    default: int,
    clock: Clock,
    rng: np.random.Generator,
) -> list[float]:
    """For each of the options the share of held-out weight that is told wrong."""
    known = [label for label in order if (train.truth == label).any()]
    lists = (rules_of(peel(train, known, each, clock=clock, rng=rng)) for each in options)
    return [weight_told_wrong(test, listed, default) / float(test.weight.sum()) for listed in lists]


def stratified_folds(truth: IntArray, rows: IntArray, rng: np.random.Generator) -> list[IntArray]:
    """Rows dealt to folds class by class, in random order."""
    shuffled = rng.permutation(rows)
    dealt = shuffled[np.argsort(truth[shuffled], kind="stable")]
    return [np.sort(dealt[k::FOLDS]) for k in range(FOLDS) if len(dealt[k::FOLDS])]


def shortest_of_the_best(losses: FloatArray | Sequence[Sequence[float]]) -> int:
    """Index of the last row whose mean is within half a standard error of the least mean.

    >>> shortest_of_the_best([[0.2, 0.3], [0.1, 0.2], [0.11, 0.2], [0.4, 0.4]])
    2
    """
    table = np.asarray(losses)
    mean = table.mean(axis=1)
    best = int(mean.argmin())
    error = table[best].std(ddof=1) / np.sqrt(table.shape[1]) if table.shape[1] > 1 else 0.0
    return int(np.flatnonzero(mean <= mean[best] + error / 2)[-1])
