"""Linear and mixed-integer programs: records for the problem and its answer, and the one place a solver is called."""

from polidiff.optimize.solver import GrowingProgram, Limits, Program, Solution, Status, solve

__all__ = ["GrowingProgram", "Limits", "Program", "Solution", "Status", "solve"]
