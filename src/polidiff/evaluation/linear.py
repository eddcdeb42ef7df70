r"""Solving :math:`(I - \gamma P)\, V = g` and its transpose, dense or sparse, to a checked residual."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from scipy import linalg, sparse
from scipy.sparse import linalg as sparse_linalg

from polidiff.records.arrays import FloatArray, IntArray

DENSE_UP_TO = 1500
RESIDUAL = 1e-12
NARROW = 64  # places from the diagonal within which a factorisation stays small, whatever the size
FLAT = 2.0  # times the root of the number of states: how far entries lie in a grid of two dimensions, once reordered
FIRST, MORE = 20, 400  # steps of an iteration before a reordering is tried, and before fill-in is let in
SOON = 5  # times the first steps, within which an iteration must be likely to end, or a reordering is tried

Solve = Callable[[FloatArray, bool], FloatArray]


def solver(moves: Any, discount: float) -> Solve:
    r"""A function (right-hand side, transposed) → solution of :math:`(I - \gamma P) V = g`, P an array or sparse.

    Small systems are factorised once by LAPACK, and so are sparse ones without much fill-in to fear: those whose
    entries lie near the diagonal, as they come or, after a few steps of iteration that did not suffice, reordered
    (Cuthill and McKee): lines, bands and plane grids, but neither cubes nor random tables. Those go through BiCGSTAB,
    column by column (a block of columns leaves the cache and takes twice as long); where that is slow with an
    incomplete factorisation of bounded fill-in before it, and where even that does not reach the residual the whole
    factorisation takes over.
    """
    size = moves.shape[0]
    if size <= DENSE_UP_TO:
        dense = -discount * (moves if isinstance(moves, np.ndarray) else moves.toarray())
        dense.flat[:: size + 1] += 1.0
        factors = linalg.lu_factor(dense, check_finite=False, overwrite_a=True)
        return lambda g, transposed: np.asarray(
            linalg.lu_solve(factors, g, trans=1 if transposed else 0, check_finite=False)
        )
    system = sparse.csr_array(sparse.eye_array(size, format="csr") - discount * moves)
    return _factorised(system) if _width(system) <= NARROW else _Iterated(system)


def _width(system: sparse.csr_array, place: IntArray | None = None) -> int:
    """How far from the diagonal entries lie, at most, as they come or at other places (n,)."""
    at = np.arange(system.shape[0]) if place is None else place
    return int(np.abs(np.repeat(at, np.diff(system.indptr)) - at[system.indices]).max(initial=0))


def _factorised(system: sparse.csr_array) -> Solve:
    """No row has more beside the diagonal than on it, so that pivots on the diagonal are safe, which halves fill-in."""
    factors: Any = sparse_linalg.splu(
        sparse.csc_array(system), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True}
    )
    return lambda g, transposed: np.asarray(factors.solve(g, "T" if transposed else "N"))


class _Iterated:
    """Solves by iteration for as long as that pays, and remembers what took its place."""

    def __init__(self, system: sparse.csr_array) -> None:
        self.system = system
        self.direct: Solve | None = None

    def __call__(self, g: FloatArray, transposed: bool) -> FloatArray:
        matrix = sparse.csr_array(self.system.T) if transposed else self.system
        columns = np.atleast_2d(g.T)
        solutions = np.empty(columns.shape)
        for index, column in enumerate(columns):
            solution = None if self.direct is not None else self._column(matrix, column, transposed)
            if solution is None:
                self.direct = self.direct or _factorised(self.system)
                return self.direct(g, transposed)
            solutions[index] = solution
        return np.ascontiguousarray(solutions.T).reshape(g.shape)

    def _column(self, matrix: sparse.csr_array, g: FloatArray, transposed: bool) -> FloatArray | None:
        norm = float(np.linalg.norm(g))
        if norm == 0.0:
            return np.zeros_like(g)
        unit = g / norm  # the methods give up on small right-hand sides by absolute tests
        solution, rest = _steps(matrix, unit, None, FIRST)
        if rest**SOON > RESIDUAL and self.flat:
            return None
        if rest > RESIDUAL:
            solution, rest = _steps(matrix, unit, solution, MORE)
        if rest > 10 * RESIDUAL:
            solution, rest = _steps(matrix, unit, None, MORE, self.incomplete(transposed))
        return solution * norm if rest <= 10 * RESIDUAL else None

    @cached_property
    def flat(self) -> bool:
        """Whether a reordering brings all entries near the diagonal."""
        order = sparse.csgraph.reverse_cuthill_mckee(self.system)
        return _width(self.system, np.argsort(order)) <= max(2 * NARROW, FLAT * np.sqrt(len(order)))

    @cached_property
    def _factors(self) -> Any:  # whose stubs forget the second argument of `solve`
        return sparse_linalg.spilu(sparse.csc_array(self.system), drop_tol=1e-4, fill_factor=10)

    def incomplete(self, transposed: bool) -> sparse_linalg.LinearOperator:
        """About the inverse, from a factorisation of bounded fill-in."""
        kind = "T" if transposed else "N"
        return sparse_linalg.LinearOperator(self.system.shape, lambda g: self._factors.solve(g, kind))


def _steps(
    matrix: sparse.csr_array,
    g: FloatArray,
    begin: FloatArray | None,
    most: int,
    inverse: sparse_linalg.LinearOperator | None = None,
) -> tuple[FloatArray, float]:
    """At most so many steps of BiCGSTAB towards a right-hand side of length 1; where it got, and what is left."""
    solution, _ = sparse_linalg.bicgstab(matrix, g, begin, rtol=RESIDUAL, atol=0.0, maxiter=most, M=inverse)
    rest = float(np.linalg.norm(matrix @ solution - g)) if np.isfinite(solution).all() else np.inf
    return np.asarray(solution), rest
