"""The solver's answers against enumeration, and its statuses as data."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from polidiff.optimize import GrowingProgram, Limits, Program, solve, solver


def random_cover(seed: int, *, rows: int = 6, columns: int = 8) -> Program:
    rng = np.random.default_rng(seed)
    matrix = (rng.random((rows, columns)) < 0.4).astype(float)
    matrix[:, 0] = 1.0
    return Program.of(rng.integers(1, 9, columns), matrix, row_low=1.0, high=1.0, integer=True)


@pytest.mark.parametrize("seed", range(8))
def test_an_integer_optimum_is_the_enumerated_one(seed: int) -> None:
    program = random_cover(seed)
    points = (np.array(point, dtype=float) for point in itertools.product((0, 1), repeat=len(program.objective)))
    best = min(program.value(point) for point in points if program.violation(point) == 0)
    answer = solve(program)
    assert answer.status == "optimal"
    assert answer.objective == pytest.approx(best)
    assert answer.bound == pytest.approx(best)


@pytest.mark.parametrize("seed", range(4))
def test_duals_price_the_rows_of_a_linear_program(seed: int) -> None:
    program = random_cover(seed)
    relaxed = Program.of(program.objective, program.matrix, row_low=1.0)
    answer = solve(relaxed)
    assert answer.duals is not None
    assert float(answer.duals.sum()) == pytest.approx(answer.objective)
    assert answer.bound is not None
    assert answer.bound <= solve(program).objective + 1e-9


def test_a_start_is_never_made_worse_by_a_limit() -> None:
    program = random_cover(3, rows=40, columns=30)
    start = np.zeros(30)
    start[0] = 1.0
    answer = solve(program, start=start, limits=Limits(time=0.0))
    assert answer.values is not None
    assert program.violation(answer.values) == 0
    assert answer.objective <= program.value(start)


def test_infeasible_and_unbounded_come_back_as_data() -> None:
    assert solve(Program.of([1.0], [[1.0]], row_low=2.0, high=1.0, integer=True)).status == "infeasible"
    assert solve(Program.of([1.0], [[1.0]], row_low=2.0, maximise=True)).status == "unbounded"
    assert solve(Program.of([1.0], [[1.0]], row_low=2.0, high=1.0)).values is None


def test_a_node_limit_leaves_a_bound_below_the_optimum() -> None:
    rng = np.random.default_rng(0)
    weights = rng.integers(20, 99, (8, 40)).astype(float)
    program = Program.of(
        rng.integers(20, 99, 40), weights, row_high=weights.sum(axis=1) / 2, high=1.0, integer=True, maximise=True
    )
    stopped = solve(program, limits=Limits(nodes=1))
    finished = solve(program, limits=Limits(gap=0.02))
    assert stopped.bound is not None
    assert finished.objective is not None
    assert stopped.bound >= finished.objective


def test_a_growing_program_agrees_with_one_built_at_once() -> None:
    rng = np.random.default_rng(1)
    matrix, costs = rng.random((5, 7)), rng.random(7)
    growing = GrowingProgram()
    growing.add_columns(costs[:4], low=0.0, high=10.0)
    growing.add_rows(matrix[:3, :4], row_low=1.0)
    growing.solve()
    growing.add_columns(costs[4:], low=0.0, high=10.0, matrix=matrix[:3, 4:])
    growing.add_rows(matrix[3:], row_low=1.0)
    whole = solve(Program.of(costs, matrix, row_low=1.0, high=10.0))
    assert growing.solve().objective == pytest.approx(whole.objective)
    growing.set_bounds(np.array([0, 1]), low=0.0, high=0.0)
    assert growing.solve().objective >= whole.objective - 1e-12
    growing.set_bounds(np.array([0, 1]), low=0.0, high=10.0)
    assert growing.solve().objective == pytest.approx(whole.objective)


def test_a_bound_that_a_known_point_contradicts_is_no_bound() -> None:
    """Seen with HiGHS on a 16x16 grid: it gave up, and its bound was 0 where a point worth 1.14 was known."""
    assert solver._beyond(0.0, 1.14, maximise=True) is None
    assert solver._beyond(0.0, -1.14, maximise=False) is None
    assert solver._beyond(1.15, 1.14, maximise=True) == 1.15
    assert solver._beyond(None, 1.14, maximise=True) is None
