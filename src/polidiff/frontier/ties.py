"""Among plans with the same changes and return, the one that changes fewest states."""

from __future__ import annotations

import numpy as np

from polidiff.frontier.archive import Archive
from polidiff.frontier.local_search import neighbours
from polidiff.frontier.problem import FrontierProblem
from polidiff.frontier.values import always_ends, ends_everywhere, fundamental
from polidiff.records.arrays import BoolArray, IntArray

WORK = 20_000_000_000  # plans times states cubed up to which ties are looked for
BATCH_NUMBERS = 2_000_000  # numbers held at once in the expected visits of a batch


def fewest_states(problem: FrontierProblem, archive: Archive) -> Archive:
    """The archive with every plan replaced while a neighbour ties with it and changes fewer states.

    A change that does nothing, or that is free and gains nothing, is taken back this way.
    """
    if len(archive) * problem.n_states**3 > WORK:
        return archive
    choices = archive.choices.copy()
    rows = np.arange(len(archive))
    if not always_ends(problem):
        rows = np.array([row for row in rows if ends_everywhere(problem, choices[row])], dtype=np.int64)
    size = max(1, BATCH_NUMBERS // max(1, problem.n_states**2 + 4 * problem.n_pairs))
    for batch in np.split(rows, range(size, len(rows), size)):
        tied = _tied(problem, archive, batch, choices[batch].astype(np.int64))
        for row in batch[tied.any(axis=1)]:
            choices[row] = _fewer(problem, archive, row, choices[row].astype(np.int64))
    return Archive(archive.changes, archive.returns, choices, archive.tolerance)


def _tied(problem: FrontierProblem, archive: Archive, rows: IntArray, choices: IntArray) -> BoolArray:
    """(b, pairs) the neighbours with the changes and the return of a plan."""
    around, tolerance = neighbours(problem, choices), archive.tolerance
    tied = around.valid & (np.abs(around.changes - archive.changes[rows, None]) <= tolerance.changes)
    return np.asarray(tied & (np.abs(around.returns - archive.returns[rows, None]) <= tolerance.returns))


def _fewer(problem: FrontierProblem, archive: Archive, row: int, choice: IntArray) -> IntArray:
    while ends_everywhere(problem, choice):
        tied = _tied(problem, archive, np.array([row]), choice[None])[0]
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
