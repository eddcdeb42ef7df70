"""A problem in which every state can leave: one more pair per state, *exit*, that ends the episode at a loss.

Where some policies never end, every set of fixed decisions then has a completion that ends, found on the graph. A bound
that uses an exit is still a bound, because exits only add policies, and a completion that uses one is no plan.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from polidiff.frontier.hull import Hull
from polidiff.frontier.problem import FrontierProblem
from polidiff.records.arrays import BoolArray, IntArray

EXIT = -1  # action number of an exit pair
EXITS = 1e-10  # probability of leaving through an exit above which a policy is no plan


@dataclass(frozen=True, eq=False)
class Widened:
    """A problem with exits, and how its pairs are numbered."""

    problem: FrontierProblem
    narrower: FrontierProblem
    number: IntArray  # (pairs of the narrower problem,) their number in the wider one

    def narrow(self, choices: IntArray) -> IntArray:
        """Policies in the numbers of the narrower problem; where no plan goes, an exit becomes any pair."""
        back = self.narrower.first[self.problem.state]
        back[self.number] = np.arange(len(self.number))
        return np.asarray(back[choices])


def widen(problem: FrontierProblem, hull: Hull) -> Widened:
    """The problem with one more pair per state, the last one, if some policy never ends; else as it is."""
    count = problem.n_states
    if problem.always_ends:
        return Widened(problem, problem, np.arange(problem.n_pairs))
    penalty = 10.0 * (1.0 + float(np.abs(hull.returns).max()) + float(np.abs(problem.reward).max()) * count)
    order = np.argsort(np.concatenate([problem.state, np.arange(count)]), kind="stable")
    number = np.argsort(order)[: problem.n_pairs]
    stacked = sparse.vstack([problem.transitions, sparse.csr_matrix((count, count))]).tocsr()
    wider = replace(
        problem,
        transitions=stacked[order],
        reward=np.append(problem.reward, np.full(count, -penalty))[order],
        cost=np.append(problem.cost, np.zeros(count))[order],
        state=np.append(problem.state, np.arange(count))[order],
        action=np.append(problem.action, np.full(count, EXIT))[order],
        leaks=np.append(problem.leaks, np.ones(count, dtype=np.bool_))[order],
        guards=np.concatenate([problem.guards, np.zeros((len(problem.guards), count))], axis=1)[:, order],
        base=np.where(problem.base >= 0, number[np.maximum(problem.base, 0)], -1),
    )
    return Widened(wider, problem, number)


def made_to_end(problem: FrontierProblem, choice: IntArray, fixed: BoolArray) -> IntArray | None:
    """A policy made to end by exits in states that would stay for ever; None where fixed decisions alone do."""
    ends = problem.ending(choice[None])[0]
    if ends.all():
        return choice
    choice = np.where(ends | fixed, choice, problem.first[1:] - 1)
    return choice if problem.ends(choice) else None
