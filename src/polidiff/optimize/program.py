"""A linear or mixed-integer program as data, and what a solver can say about it.

.. math:: \\min_x \\; c^\\top x + c_0 \\quad \\text{s.t.} \\quad l \\le A x \\le u, \\; x_{low} \\le x \\le x_{high},
          \\; x_j \\in \\mathbb{Z} \\text{ for } j \\in J

Infeasible, unbounded, time limit and gap are facts about the world: they come back as data, never as an exception.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from scipy import sparse

from polidiff.records.arrays import AnyArray, BoolArray, FloatArray, read_only

Status: TypeAlias = Literal["optimal", "feasible", "infeasible", "unbounded", "unsolved"]
# "feasible": a limit was hit with a solution in hand; "unsolved": a limit was hit, or the solver gave up, without one.


@dataclass(frozen=True, eq=False)
class Program:
    """min (or max) objective · x + offset, subject to row_low ≤ matrix · x ≤ row_high and low ≤ x ≤ high."""

    objective: FloatArray  # (n,)
    matrix: sparse.csr_array  # (m, n)
    row_low: FloatArray  # (m,) -inf when open
    row_high: FloatArray  # (m,) +inf when open
    low: FloatArray  # (n,)
    high: FloatArray  # (n,)
    integer: BoolArray  # (n,) which variables must be whole numbers
    maximise: bool = False
    offset: float = 0.0

    @classmethod
    def of(
        cls,
        objective: AnyArray,
        matrix: Any,
        *,
        row_low: AnyArray | float = -np.inf,
        row_high: AnyArray | float = np.inf,
        low: AnyArray | float = 0.0,
        high: AnyArray | float = np.inf,
        integer: AnyArray | bool = False,
        maximise: bool = False,
        offset: float = 0.0,
    ) -> Program:
        """A program from anything that has the right shape; scalars are repeated.

        >>> Program.of([1.0, 1.0], [[1.0, 2.0]], row_low=3.0).row_high
        array([inf])
        """
        costs = np.asarray(objective, dtype=np.float64)
        rows = sparse.csr_array(matrix, dtype=np.float64)
        if rows.shape[1] != len(costs):
            raise ValueError(f"the matrix has {rows.shape[1]} columns for {len(costs)} variables")

        def spread(value: AnyArray | float, size: int) -> FloatArray:
            return np.asarray(read_only(np.broadcast_to(np.asarray(value, dtype=np.float64), (size,))))

        return cls(
            objective=costs,
            matrix=rows,
            row_low=spread(row_low, rows.shape[0]),
            row_high=spread(row_high, rows.shape[0]),
            low=spread(low, len(costs)),
            high=spread(high, len(costs)),
            integer=np.broadcast_to(np.asarray(integer, dtype=np.bool_), (len(costs),)),
            maximise=maximise,
            offset=offset,
        )

    def value(self, x: AnyArray) -> float:
        """Objective of a point, whether or not it is feasible."""
        return float(self.objective @ x) + self.offset

    def violation(self, x: AnyArray) -> float:
        """Largest amount by which a point breaks a row, a bound or integrality.

        >>> Program.of([1.0], [[2.0]], row_high=1.0, integer=True).violation(np.array([1.0]))
        1.0
        """
        rows = self.matrix @ x
        parts = [self.row_low - rows, rows - self.row_high, self.low - x, x - self.high]
        parts.append(np.abs(x - np.round(x))[self.integer])
        return max([0.0, *(float(part.max()) for part in parts if len(part))])


@dataclass(frozen=True)
class Limits:
    """When a solver may stop early. Wall-clock time is outside the promise "same input, same answer"."""

    time: float | None = None  # seconds
    nodes: int | None = None  # of branch and bound
    gap: float = 1e-6  # relative, at which an integer solution counts as optimal
    tolerance: float | None = None  # by which rows, bounds and integrality may be broken; the solver's 1e-6 by default


@dataclass(frozen=True, eq=False)
class Solution:
    """What the solver proved. `bound` is on the proven side of the optimum (below it when minimising)."""

    status: Status
    values: FloatArray | None = None  # (n,)
    objective: float | None = None  # of `values`
    bound: float | None = None
    duals: FloatArray | None = None  # (m,) change of the optimum per unit of each row's side; linear programs only
    reduced_costs: FloatArray | None = None  # (n,) linear programs only
    nodes: int = 0

    @property
    def gap(self) -> float | None:
        """|objective − bound| / max(|objective|, 1e-9), None without both.

        >>> Solution("feasible", objective=10.0, bound=9.0).gap
        0.1
        """
        if self.objective is None or self.bound is None:
            return None
        return abs(self.objective - self.bound) / max(abs(self.objective), 1e-9)
