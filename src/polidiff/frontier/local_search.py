"""Pareto local search: from every plan found, all plans that differ in one decision.

One factorisation prices every neighbour of a plan (`visits.neighbours`). On random tables this finds nearly all of the
exact frontier; branch and bound then supplies the proof.

Of plans with the same changes and return, `fewest_states` takes the one that changes fewest states.
"""

from __future__ import annotations

import numpy as np

from polidiff.frontier.problem import FrontierProblem
from polidiff.frontier.staircase import Archive
from polidiff.frontier.visits import fundamental, neighbours
from polidiff.progress import Clock
from polidiff.records.arrays import BoolArray, FloatArray, IntArray

BATCH_NUMBERS = 2_000_000  # numbers held at once in the expected visits of a batch
WORK = 20_000_000_000  # plans times states cubed up to which ties are looked for


def local_search(
    problem: FrontierProblem,
    archive: Archive,
    clock: Clock,
    *,
    low: float = -np.inf,
    high: float = np.inf,
    most: int = 4000,
) -> Archive:
    """Expand plans with `low` ≤ changes ≤ `high` until none is new, at most `most` of them."""
    seen = set[bytes]()
    size = max(1, min(64, BATCH_NUMBERS // max(1, problem.n_states**2 + 4 * problem.n_pairs)))
    while len(seen) < most and not clock.over():
        inside = np.flatnonzero((archive.changes >= low) & (archive.changes <= high))[::-1]
        fresh = [i for i in inside if archive.choices[i].tobytes() not in seen][: min(size, most - len(seen))]
        if not fresh:
            break
        batch = archive.choices[fresh].astype(np.int64)
        seen.update(choice.tobytes() for choice in archive.choices[fresh])
        archive = archive.with_points(*_promising(problem, archive, batch, low, high))
    return archive


def _promising(
    problem: FrontierProblem, archive: Archive, batch: IntArray, low: float, high: float
) -> tuple[FloatArray, FloatArray, IntArray]:
    around = neighbours(problem, batch)
    window = around.valid & (around.changes >= low) & (around.changes <= high)
    plan, pair = np.nonzero(window)
    changes, returns = around.changes[plan, pair], around.returns[plan, pair]
    better = archive.improves(changes, returns) | archive.ties(changes, returns)[0]
    plan, pair = plan[better], pair[better]
    choices = batch[plan]
    choices[np.arange(len(plan)), problem.state[pair]] = pair
    return changes[better], returns[better], choices


def fewest_states(problem: FrontierProblem, archive: Archive, clock: Clock) -> Archive:
    """The archive with every plan replaced while a neighbour ties with it and changes fewer states.

    A change that does nothing, or that is free and gains nothing, is taken back this way, as far as there is time.
    """
    if not 0 < len(archive) * problem.n_states**3 <= WORK:
        return archive
    choices = archive.choices.copy()
    rows = np.flatnonzero(problem.ending(choices).all(axis=1))
    size = max(1, BATCH_NUMBERS // max(1, problem.n_states**2 + 4 * problem.n_pairs))
    for batch in np.split(rows, range(size, len(rows), size)):
        if clock.left() <= 0:
            break
        tied = _tied(problem, archive, batch, choices[batch].astype(np.int64))
        for row in batch[tied.any(axis=1)]:
            choices[row] = _fewer(problem, archive, row, choices[row].astype(np.int64))
    return archive.renumbered(choices)


def _tied(problem: FrontierProblem, archive: Archive, rows: IntArray, choices: IntArray) -> BoolArray:
    """(b, pairs) the neighbours with the changes and the return of a plan."""
    around, tolerance = neighbours(problem, choices), archive.tolerance
    tied = around.valid & (np.abs(around.changes - archive.changes[rows, None]) <= tolerance.changes)
    return np.asarray(tied & (np.abs(around.returns - archive.returns[rows, None]) <= tolerance.returns))


def _fewer(problem: FrontierProblem, archive: Archive, row: int, choice: IntArray) -> IntArray:
    while problem.ends(choice):
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
