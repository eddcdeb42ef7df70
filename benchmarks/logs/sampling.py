r"""The counts of a simulated log, drawn without playing one episode after another.

Episodes that stand in the same state are exchangeable: of the :math:`n_t(s)` that stand in s after t steps, those that
take a and land in s' are multinomial,

.. math:: n_t(s, \cdot, \cdot) \sim \operatorname{Mult}\bigl(n_t(s),\ \pi_b(a \mid s)\, T(s' \mid s, a)\bigr),

so counts over states have exactly the distribution of counted episodes, at a cost that hardly grows with their number.
Where a state has very many possible moves, episodes are drawn one by one from the cumulative chances instead.
"""

from __future__ import annotations

import numpy as np

from benchmarks.logs.tasks import Task
from polidiff.evaluation.logged.counts import Counts
from polidiff.evaluation.logged.model import Starts
from polidiff.records.arrays import FloatArray, IntArray
from polidiff.records.outcome import Outcome
from polidiff.worlds.log_converters import simulated_frame
from polidiff.worlds.log_rows import LoggedRows
from polidiff.worlds.shards.transition_counts import CUT, END
from polidiff.worlds.tabular import TabularMDP

MANY_MOVES = 64


class CountSampler:
    """What repetitions of one task share."""

    def __init__(self, task: Task) -> None:
        self.task = task
        world = task.world
        moves = world.transitions.tocoo()
        state, action = np.divmod(moves.row, world.n_actions)
        chance = task.logging[state, action] * moves.data
        keep = (chance > 0) & ~world.absorbing[state]
        state, action, to, chance = state[keep], action[keep], moves.col[keep].astype(np.int64), chance[keep]
        order = np.lexsort((-chance, state))  # likely moves first: the draw of a row stops when none is left
        self.state, self.action, self.to = state[order], action[order], to[order]
        self.begin = np.searchsorted(self.state, np.arange(world.n_states))
        width = int(np.diff(np.append(self.begin, len(order))).max())
        total = np.bincount(self.state, chance[order], world.n_states)
        share = chance[order] / total[self.state]
        running = np.cumsum(share)
        before = np.concatenate(([0.0], running))[self.begin]
        self.cumulative = self.state + np.minimum(running - before[self.state], 1.0)
        self.chances = np.zeros((world.n_states, width if width <= MANY_MOVES else 0))
        if width <= MANY_MOVES:
            self.chances[self.state, np.arange(len(order)) - self.begin[self.state]] = share
        self.last = np.append(self.begin[1:], len(order)) - 1
        self.gains = np.column_stack([self._gain(outcome) for outcome in world.outcomes])

    def _gain(self, outcome: Outcome) -> FloatArray:
        if callable(outcome.of):
            drawn = np.asarray(outcome.of(self.state, self.action, self.to), dtype=np.float64)
            return np.broadcast_to(drawn, self.state.shape).copy()
        gain: FloatArray = self.task.world.outcome_table(outcome)[self.state, self.action]
        return gain

    def edge_counts(self, episodes: int, rng: np.random.Generator) -> tuple[IntArray, FloatArray]:
        """How often each move (s, a, s') was made, and how many episodes begin in each state."""
        world = self.task.world
        begun = rng.multinomial(episodes, world.initial)
        made = np.zeros(len(self.state), dtype=np.int64)
        standing = np.where(world.absorbing, 0, begun)
        for _ in range(self.task.horizon):
            here = np.flatnonzero(standing)
            if not here.size:
                return made, begun.astype(np.float64)
            edge, times = self._moves(here, standing[here], rng)
            made[edge] += times
            standing = np.bincount(self.to[edge], times, world.n_states).astype(np.int64)
            standing[world.absorbing] = 0
        raise RuntimeError(f"episodes of {self.task.name} outlive {self.task.horizon} steps")

    def _moves(self, here: IntArray, standing: IntArray, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
        """Distinct moves made from the states `here` by those standing there, and how often."""
        if self.chances.shape[1]:
            drawn = rng.multinomial(standing, self.chances[here])
            row, place = np.nonzero(drawn)
            return self.begin[here[row]] + place, drawn[row, place]
        each = np.repeat(here, standing)
        found = np.searchsorted(self.cumulative, each + rng.random(len(each)), side="right")
        times = np.bincount(np.minimum(found, self.last[each]), minlength=len(self.state))
        edge = np.flatnonzero(times)
        return edge, times[edge]

    def counts(self, episodes: int, rng: np.random.Generator) -> Counts:
        """One simulated log, in one block."""
        world = self.task.world
        made, begun = self.edge_counts(episodes, rng)
        seen = np.flatnonzero(made)
        order = np.lexsort((self._ends(seen), self.action[seen], self.state[seen]))
        seen = seen[order]
        count, gains = made[seen].astype(np.float64), self.gains[seen]
        return Counts(
            n_states=world.n_states,
            n_actions=world.n_actions,
            n_blocks=1,
            block=np.zeros(len(seen), dtype=np.int64),
            state=self.state[seen],
            action=self.action[seen],
            to=self._ends(seen),
            count=count,
            sums=count[:, None] * gains,
            squares=count[:, None] * gains**2,
            starts=begun[None],
        )

    def _ends(self, edges: IntArray) -> IntArray:
        return np.where(self.task.world.absorbing[self.to[edges]], self.task.world.n_states, self.to[edges])


def simulated_rows(
    world: TabularMDP, table: FloatArray, episodes: int, *, horizon: int = 10_000, rng: np.random.Generator
) -> LoggedRows:
    """`simulated_frame` as rows in memory, without the checks that a log from outside needs."""
    frame = simulated_frame(world, table, episodes, horizon=horizon, rng=rng)
    ended, episode = frame["terminated"].to_numpy(), frame["episode"].to_numpy()
    last = np.append(np.diff(episode) > 0, True)
    follow = np.where(ended, END, np.where(last, CUT, np.arange(len(ended)) + 1))
    gains = np.column_stack([frame[outcome.name].to_numpy() for outcome in world.outcomes])
    number = np.cumsum(np.diff(episode, prepend=-1) > 0) - 1
    return LoggedRows(frame["state"].to_numpy(), frame["action"].to_numpy(), number, follow, gains, None)


def each_state(n_states: int) -> Starts:
    """Every state as a start of its own."""
    return Starts(np.eye(n_states), np.full(n_states, np.inf))
