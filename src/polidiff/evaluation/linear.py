r"""Solving :math:`(I - \gamma P)\, V = g` and its transpose, dense or sparse, to a checked residual."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import linalg, sparse
from scipy.sparse import linalg as sparse_linalg

from polidiff.records.arrays import FloatArray

DENSE_UP_TO = 1500
RESIDUAL = 1e-12


def solver(moves: sparse.csr_array, discount: float) -> Callable[[FloatArray, bool], FloatArray]:
    r"""A function (right-hand side, transposed) → solution of :math:`(I - \gamma P) V = g`.

    Small systems are factorised once by LAPACK. Larger ones go through BiCGSTAB or GMRES, column by column,
    which need no fill-in on graphs without structure; where neither reaches the residual a sparse factorisation takes
    over.
    """
    size = moves.shape[0]
    if size <= DENSE_UP_TO:
        factors = linalg.lu_factor(np.eye(size) - discount * moves.toarray(), check_finite=False)
        return lambda g, transposed: np.asarray(
            linalg.lu_solve(factors, g, trans=1 if transposed else 0, check_finite=False)
        )
    system = sparse.csr_array(sparse.eye_array(size, format="csr") - discount * moves)
    factorised: list[Any] = []

    def solve(g: FloatArray, transposed: bool) -> FloatArray:
        matrix = sparse.csr_array(system.T) if transposed else system
        columns = [_iterate(matrix, column) for column in np.atleast_2d(g.T)]
        if any(column is None for column in columns):
            if not factorised:
                factorised.append(sparse_linalg.splu(sparse.csc_array(system)))
            return np.asarray(factorised[0].solve(g, "T" if transposed else "N"))
        return np.stack([c for c in columns if c is not None], axis=1).reshape(g.shape)

    return solve


def _iterate(matrix: sparse.csr_array, g: FloatArray) -> FloatArray | None:
    norm = float(np.linalg.norm(g))
    if norm == 0.0:
        return np.zeros_like(g)
    unit = g / norm  # both methods give up on small right-hand sides by absolute tests
    methods: list[tuple[Any, int]] = [(sparse_linalg.bicgstab, 2000), (sparse_linalg.gmres, 20)]
    for method, rounds in methods:
        solution, _ = method(matrix, unit, rtol=RESIDUAL, atol=0.0, maxiter=rounds)
        if np.isfinite(solution).all() and np.linalg.norm(matrix @ solution - unit) <= 10 * RESIDUAL:
            return np.asarray(solution * norm)
    return None
