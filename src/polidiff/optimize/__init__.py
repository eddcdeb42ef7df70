"""Linear and mixed-integer programs: records for the problem and its answer, and the one place a solver is called."""

from polidiff.optimize.solver import Clock, GrowingProgram, Limits, Program, Solution, Status, solve

__all__ = ["Clock", "GrowingProgram", "Limits", "Program", "Solution", "Status", "solve"]
