"""The parts of column generation, each against its definition."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polidiff.compiled import loops
from polidiff.rules.generate import BeamOptions, beam, polish
from polidiff.rules.grid import Grid, Problem, make_grid, make_problem, readable_bound
from polidiff.rules.kernels import ascend, best_cells, literals, narrow, offer
from polidiff.rules.lists import as_table, best_order
from polidiff.rules.master import Cover, Master, improve
from polidiff.rules.proof import enumerate_clauses


def small_problem(seed: int, *, n: int = 40, missing: bool = False) -> Problem:
    """Two numbers on four values and one feature with three categories."""
    rng = np.random.default_rng(seed)
    X = np.empty((n, 3), dtype=object)
    X[:, 0], X[:, 1], X[:, 2] = rng.integers(0, 4, n), rng.integers(0, 4, n), rng.choice(["a", "b", "c"], n)
    if missing:
        X[rng.random(n) < 0.2, 0] = None
        X[rng.random(n) < 0.2, 2] = None
    table = as_table(X)
    grid = make_grid(table, np.ones(n), 10)
    positive = rng.random(n) < 0.4
    return make_problem(grid, grid.encode(table), positive, np.ones(n), clause_cost=1.0, literal_cost=0.5)


def all_masks(grid: Grid) -> np.ndarray:
    """Every clause on a small grid, dominated ones too."""
    choices = []
    for axis in grid.axes:
        segments = []
        for cells in itertools.product((False, True), repeat=axis.cells):
            values = np.flatnonzero(cells[: axis.values])
            whole = axis.cuts is None or not len(values) or values[-1] - values[0] + 1 == len(values)
            if any(cells) and whole:
                segments.append(np.r_[cells, np.zeros(grid.full.shape[1] - axis.cells, dtype=bool)].astype(bool))
        choices.append(segments)
    return np.array([np.stack(masks) for masks in itertools.product(*choices)])


def clause_values(problem: Problem, prices: np.ndarray, masks: np.ndarray) -> np.ndarray:
    """Value of each clause under the prices, row by row."""
    return problem.covers(masks) @ prices - problem.clause_prices(masks)


@loops
def best(gains, j, axes, cost, cells):  # type: ignore[no-untyped-def]
    """Best cells of a feature, as other kernels see them: what they earn."""
    return best_cells(gains, j, axes, cost, cells)


@loops
def counted(cells, j, axes):  # type: ignore[no-untyped-def]
    """Literals of a feature, as other kernels see them."""
    return literals(cells, j, axes)


@given(seed=st.integers(0, 10_000), cost=st.sampled_from([0.0, 0.3, 2.0]))
def test_no_segment_is_better_than_the_best_interval(seed: int, cost: float) -> None:
    rng = np.random.default_rng(seed)
    grid = make_grid(as_table(np.arange(6.0)[:, None]), np.ones(6), 10)
    gains = rng.integers(-3, 4, (1, 6)).astype(float)
    mask = np.zeros((1, 6), dtype=bool)
    told = best(gains, 0, grid.layout, cost, mask)

    def worth(cells: np.ndarray) -> float:
        return float(gains[0, cells].sum() - cost * ((not cells[0]) + (not cells[-1])))

    runs = [(np.arange(6) >= a) & (np.arange(6) <= b) for a in range(6) for b in range(a, 6)]
    assert told == pytest.approx(worth(mask[0]))
    assert told == pytest.approx(max(worth(run) for run in runs))


@given(seed=st.integers(0, 10_000), cost=st.sampled_from([0.0, 0.3, 2.0]))
def test_no_set_of_categories_and_no_choice_with_missing_values_is_better_than_the_best_cells(
    seed: int, cost: float
) -> None:
    problem = small_problem(3, missing=True)
    gains = np.random.default_rng(seed).integers(-3, 4, problem.grid.full.shape).astype(float)
    for j in range(3):
        mask = np.zeros(gains.shape, dtype=bool)
        told = best(gains, j, problem.grid.layout, cost, mask)
        clause = problem.grid.full.copy()
        clause[j] = mask[j]
        count = problem.grid.literals(clause)[j]
        assert told == pytest.approx(gains[j, mask[j]].sum() - cost * count)
        assert counted(clause, j, problem.grid.layout) == count
        worth = []
        for cells in itertools.product((False, True), repeat=int(problem.grid.full[j].sum())):
            values = np.flatnonzero(cells[: problem.grid.values[j]])
            if any(cells) and (not problem.grid.layout[j, 2] or not len(values) or np.ptp(values) + 1 == len(values)):
                clause[j, : len(cells)] = cells
                worth.append(gains[j, clause[j]].sum() - cost * problem.grid.literals(clause)[j])
        if max(worth) > 0 and (problem.grid.layout[j, 2] or (gains[j, problem.grid.full[j]] > 0).any()):
            assert told >= max(worth) - (cost if problem.grid.layout[j, 1] else 0.0) - 1e-9


@pytest.mark.parametrize("seed", range(20))
def test_no_clause_to_add_drop_or_swap_helps_an_improved_choice(seed: int) -> None:
    rng = np.random.default_rng(seed)
    most = None if seed % 2 else 3
    cover = Cover((rng.random((12, 9)) < 0.3).astype(float), rng.random(12), rng.random(9) / 2, most)
    begun = rng.random(9) < 0.2
    chosen = improve(cover, begun)
    assert cover.value(chosen) <= cover.value(begun)
    for out, into in itertools.product(range(-1, 9), repeat=2):
        other = chosen.copy()
        if out >= 0:
            other[out] = False
        if into >= 0:
            other[into] = True
        if most is None or other.sum() <= most:
            assert cover.value(other) >= cover.value(chosen) - 1e-7


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_enumeration_finds_the_best_clause_and_all_useful_ones_above_the_threshold(seed: int, missing: bool) -> None:
    problem = small_problem(seed, missing=missing)
    values = clause_values(problem, problem.gain, all_masks(problem.grid))
    found = enumerate_clauses(problem, problem.gain, threshold=-2.0, budget=100_000)
    assert found.open is None
    np.testing.assert_allclose(found.values, clause_values(problem, problem.gain, found.masks))
    if values.max() > -2.0:
        assert found.values.max() == pytest.approx(values.max())
    cut = enumerate_clauses(problem, problem.gain, threshold=-2.0, budget=5)
    assert cut.open is not None
    assert cut.open >= values.max()


@pytest.mark.parametrize("seed", range(5))
def test_polish_never_lowers_a_value_and_literals_match_the_rule(seed: int) -> None:
    problem = small_problem(seed, missing=True)
    prices = problem.gain
    clauses = beam(problem, prices, BeamOptions(enriched=4, valued=2, depth=3))
    np.testing.assert_allclose(clauses.values, clause_values(problem, prices, clauses.masks))
    for mask, value in zip(clauses.masks, clauses.values, strict=True):
        assert polish(problem, prices, mask[None]).values[0] >= value - 1e-9
    together = polish(problem, prices, clauses.masks)
    assert together.values.max() == pytest.approx(
        max(polish(problem, prices, m[None]).values[0] for m in clauses.masks)
    )
    for mask in all_masks(problem.grid)[::7]:
        assert problem.grid.literals(mask).sum() == problem.grid.rule(mask).literals


@pytest.mark.parametrize("seed", range(5))
def test_the_merged_master_has_the_optimum_of_the_plain_one(seed: int) -> None:
    from scipy.optimize import linprog

    problem = small_problem(seed)
    rng = np.random.default_rng(seed)
    masks = all_masks(problem.grid)
    chosen = masks[rng.choice(len(masks), 30, replace=False)]
    master = Master(problem)
    for some in np.split(chosen, [1, 4, 15]):
        assert master.add(some) == len(some)
        master.solve()
    cover = problem.covers(master.masks)[:, : problem.positives].T.astype(float)
    np.testing.assert_array_equal(master.cover(None).mass.sum(), problem.weight[: problem.positives].sum())
    A = np.hstack([cover, np.eye(problem.positives)])
    plain = linprog(np.r_[master.costs, problem.weight[: problem.positives]], A_ub=-A, b_ub=-np.ones(len(A)))
    assert master.solve().objective == pytest.approx(plain.fun)
    assert master.add(chosen[:3]) == 0


def test_equal_rows_are_merged_whatever_their_order() -> None:
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (50, 2)).astype(float)
    positive = rng.random(50) < 0.5
    order = rng.permutation(50)
    problems = []
    for rows in (np.arange(50), order):
        table = as_table(X[rows])
        grid = make_grid(table, np.ones(50), 10)
        problems.append(
            make_problem(grid, grid.encode(table), positive[rows], np.ones(50), clause_cost=1, literal_cost=1)
        )
    np.testing.assert_array_equal(problems[0].codes, problems[1].codes)
    np.testing.assert_array_equal(problems[0].weight, problems[1].weight)
    assert problems[0].rows < 20
    assert problems[0].weight.sum() == 50


@given(st.floats(-1e6, 1e6, allow_nan=False), st.floats(1e-6, 1e3))
def test_a_readable_bound_lies_in_the_gap(below: float, width: float) -> None:
    above = below + width
    bound = readable_bound(below, above)
    assert below < bound <= above


def test_loops_are_compiled_once_for_all_kinds_of_features() -> None:
    for problem in (small_problem(0), small_problem(1, missing=True), small_problem(2, n=300)):
        prices = problem.gain
        found = beam(problem, prices, BeamOptions())
        polish(problem, prices, found.masks)
        prices[::3] = 0.0
        polish(problem, prices, beam(problem, prices, BeamOptions(valued=0, shares=())).masks)
    assert [len(kernel.signatures) for kernel in (narrow, offer, ascend)] == [1, 1, 1]


@given(seed=st.integers(0, 10_000))
@settings(max_examples=30, deadline=None)
def test_the_chosen_order_tells_no_less_right_than_the_given_one_and_no_single_move_helps(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rules, rows = int(rng.integers(2, 6)), 40
    cover, told = rng.random((rules, rows)) < 0.4, rng.integers(0, 3, rules)
    truth, weight = rng.integers(0, 3, rows), rng.random(rows)

    def right(order: list[int]) -> float:
        first = np.vstack([cover[order], np.ones((1, rows), dtype=bool)]).argmax(axis=0)
        return float(weight[np.array([*told[order], 0])[first] == truth].sum())

    order = best_order(cover, told, truth, weight, 0)
    assert sorted(order) == list(range(rules))
    assert right(order) >= right(list(range(rules))) - 1e-12
    for rule in order:
        rest = [k for k in order if k != rule]
        assert all(right([*rest[:k], rule, *rest[k:]]) <= right(order) + 1e-9 for k in range(rules))
