"""Among plans with the same changes and return, the one that changes fewest states."""

from __future__ import annotations

import numpy as np

from polidiff.frontier.archive import Archive
from polidiff.frontier.local_search import neighbours
from polidiff.frontier.problem import FrontierProblem
from polidiff.frontier.values import ends_everywhere, fundamental
from polidiff.records.arrays import IntArray

WORK = 20_000_000_000  # plans times states cubed up to which ties are looked for


def fewest_states(problem: FrontierProblem, archive: Archive) -> Archive:
    """The archive with every plan replaced while a neighbour ties with it and changes fewer states.

    A change that does nothing, or that is free and gains nothing, is taken back this way.
    """
    if len(archive) * problem.n_states**3 > WORK:
        return archive
    choices = archive.choices.copy()
    for row in range(len(archive)):
        choices[row] = _fewer(problem, archive, row, choices[row].astype(np.int64))
    return Archive(archive.changes, archive.returns, choices, archive.tolerance)


def _fewer(problem: FrontierProblem, archive: Archive, row: int, choice: IntArray) -> IntArray:
    tolerance = archive.tolerance
    while ends_everywhere(problem, choice):
        around = neighbours(problem, choice[None])
        tied = around.valid[0] & (np.abs(around.changes[0] - archive.changes[row]) <= tolerance.changes)
        tied &= np.abs(around.returns[0] - archive.returns[row]) <= tolerance.returns
        best, count = choice, changed_states(problem, choice)
        for pair in np.flatnonzero(tied):
            other = choice.copy()
            other[problem.state[pair]] = pair
            if (fewer := changed_states(problem, other)) < count:
                best, count = other, fewer
        if best is choice:
            break
        choice = best
    return choice


def changed_states(problem: FrontierProblem, choice: IntArray) -> int:
    """How many of the states that a policy reaches it changes."""
    visits = problem.initial @ fundamental(problem, choice[None])[0]
    return int(((visits > 1e-12) & (choice != problem.base)).sum())
