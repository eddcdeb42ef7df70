"""The problem as branch and bound sees it: with exits where some policies never end."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from polidiff.frontier.archive import Archive
from polidiff.frontier.completion import with_exits
from polidiff.frontier.hull import Hull
from polidiff.frontier.problem import FrontierProblem
from polidiff.frontier.values import always_ends
from polidiff.records.arrays import IntArray


@dataclass(frozen=True, eq=False)
class Widened:
    """A problem with exits, and how its pairs are numbered."""

    problem: FrontierProblem
    narrower: FrontierProblem
    number: IntArray  # (pairs of the narrower problem,) their number in the wider one

    def widen(self, archive: Archive) -> Archive:
        """An archive in the numbers of the wider problem."""
        return Archive(archive.changes, archive.returns, self.number[archive.choices], archive.tolerance)

    def narrow(self, archive: Archive) -> Archive:
        """An archive in the numbers of the narrower problem; where no plan goes, an exit becomes any pair."""
        back = self.narrower.first[self.problem.state]
        back[self.number] = np.arange(len(self.number))
        return Archive(archive.changes, archive.returns, back[archive.choices], archive.tolerance)


def widen(problem: FrontierProblem, hull: Hull) -> Widened:
    """The problem with exits if some policy never ends, else as it is."""
    if always_ends(problem):
        return Widened(problem, problem, np.arange(problem.n_pairs))
    scale = float(np.abs(hull.returns).max()) + float(np.abs(problem.reward).max()) * problem.n_states
    wider, number = with_exits(problem, 10.0 * (1.0 + scale))
    return Widened(wider, problem, number)
