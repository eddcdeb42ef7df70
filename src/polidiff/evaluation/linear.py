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

    Small systems are factorised once by LAPACK. Larger ones go through BiCGSTAB, column by column, which needs no
    fill-in on graphs without structure; where it does not reach the residual a sparse factorisation takes over.
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
    scale = float(np.abs(g).max(initial=0.0))
    if scale == 0.0:
        return np.zeros_like(g)
    norm = float(np.linalg.norm(g))
    solution, _ = sparse_linalg.bicgstab(matrix, g, rtol=RESIDUAL, atol=0.0, maxiter=2000)
    if not np.isfinite(solution).all() or np.linalg.norm(matrix @ solution - g) > 10 * RESIDUAL * norm:
        return None
    return np.asarray(solution)
