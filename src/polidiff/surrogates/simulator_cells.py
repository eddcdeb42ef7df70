r"""Played episodes: how many, a table over cells that is estimated from them, and plans judged by them.

Between cells the current policy acts. Each episode assigns a choice to every cell at random, so that every pair (cell,
choice) is seen and an episode behaves as one deterministic plan would (section 5.2 and appendix C of the paper,
mended). The total of rewards and outcomes until the next cell belongs to the pair,

.. math:: \hat T(k' \mid k, c) = \frac{n(k, c, k')}{n(k, c)}, \qquad \hat R(k, c) = \frac{\sum r_{k,c:k'}}{n(k, c)},

what happens before the first cell belongs to a start of its own, and staying in a cell is a self-loop.

Work is counted in decisions, shared out before anything is played: an environment whose episodes last ten thousand
steps gets few of them. A time limit buys fewer decisions, by the pace of the first episodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from operator import add
from time import perf_counter

import numpy as np

from polidiff.evaluation.simulator import default_episodes
from polidiff.evaluation.verdicts import mean_changes, mean_interval, rare_events
from polidiff.options import ImproveOptions
from polidiff.parallel import run_tasks
from polidiff.policies import PatchedPolicy, Policy, changed_decisions, choose
from polidiff.progress import Clock
from polidiff.records.action import Action
from polidiff.records.arrays import AnyArray, BoolArray, FloatArray, IntArray
from polidiff.records.numbers import number, percent
from polidiff.records.outcome import Assumption, Interval
from polidiff.records.patch import Patch
from polidiff.records.plan import Plan
from polidiff.streams import Stream
from polidiff.surrogates.table import Surrogate
from polidiff.worlds.protocol import aim
from polidiff.worlds.rollouts import (
    GainCounter,
    Rollouts,
    is_stepped,
    joined_rollouts,
    roll_out,
    start_stepper,
)
from polidiff.worlds.simulator import Simulator
from polidiff.worlds.tabular import TabularMDP

OTHERS = 3  # states of a table behind its cells: no cell, the end, the start
STEPS, MODEL_STEPS = 800_000, 4_000_000  # decisions, one by one or side by side in a model
TRIED = 10  # episodes that tell how long others last
BEGINNING = 10  # decisions that take as long as beginning an episode
STRAYING, FEWEST_STEPS = 20, 200  # times the usual length, and decisions, that an exploring episode may last
MANY = 200  # episodes that explore, at least, where they would last very long
OF_THE_TIME = 0.6  # that playing may take; the search has the rest
PACED = 0.01  # of the time: where episodes take less, ten times as many tell the pace


@dataclass(frozen=True, eq=False)
class CellCounts:
    """What was seen of every pair; mergeable by addition."""

    moves: FloatArray  # (K, C, K + 1) next cell, the last column is the end
    gains: FloatArray  # (K, C, M) sums of outcomes until the next cell
    first: FloatArray  # (K + 1,) first cell met, the last entry is none
    offset: FloatArray  # (M,) sums before the first cell
    episodes: int

    def __add__(self, other: CellCounts) -> CellCounts:
        return CellCounts(*(getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__))


@dataclass(frozen=True, eq=False)
class Assigned:
    """How episodes choose: in a cell by their assignment, elsewhere as the current policy does."""

    world: Simulator
    current: Policy
    cell_of: Callable[[AnyArray], IntArray]  # cell of each state, −1 outside
    draw: Callable[[int, np.random.Generator], IntArray]  # (episodes, K) choices
    as_now: IntArray  # (K,) the choice of each cell that leaves the current policy as it is; others are actions
    n_choices: int
    cut_is_end: bool  # whether an episode that was cut counts as ended
    horizon: int  # decisions after which episodes are cut


def count_assigned(game: Assigned, *, episodes: int, seed: tuple[int, ...], what: str) -> tuple[CellCounts, FloatArray]:
    """What was seen, and the outcomes (episodes, M) of each episode."""
    size = game.world.chunk
    sizes = [min(size, episodes - cut) for cut in range(0, episodes, size)]
    tasks = [(game, n, (*seed, k)) for k, n in enumerate(sizes)]
    counts, totals = zip(*run_tasks(_count_chunk, tasks, what=what, quick=not is_stepped(game.world)), strict=True)
    return reduce(add, counts), np.concatenate(totals)


@dataclass(eq=False)
class _Tally:
    """Counts of episodes that are under way."""

    counter: GainCounter
    counts: CellCounts
    before: IntArray = field(init=False)  # (episodes,) cell of the last pair, −1 before the first
    taken: IntArray = field(init=False)  # (episodes,) its choice
    since: FloatArray = field(init=False)  # (episodes, M) totals when it began

    def __post_init__(self) -> None:
        self.before = np.full(self.counts.episodes, -1)
        self.taken = np.zeros(self.counts.episodes, dtype=np.int64)
        self.since = np.zeros_like(self.counter.totals)

    def arrive(self, episodes: IntArray, here: IntArray) -> None:
        """Close the pair that led here: a cell, or the end."""
        counts, totals = self.counts, self.counter.totals
        new = self.before[episodes] < 0
        fresh, old = episodes[new], episodes[~new]
        pair = (self.before[old], self.taken[old])
        np.add.at(counts.first, here[new], 1.0)
        counts.offset[:] += totals[fresh].sum(axis=0)
        np.add.at(counts.moves, (*pair, here[~new]), 1.0)
        np.add.at(counts.gains, pair, totals[old] - self.since[old])
        self.since[episodes] = totals[episodes]

    def end(self, episodes: IntArray) -> None:
        """Close the pairs of episodes that are over."""
        self.arrive(episodes, np.full(len(episodes), len(self.counts.moves)))

    def begin(self, episodes: IntArray, cell: IntArray, choice: IntArray) -> None:
        """Open a pair in a cell."""
        self.arrive(episodes, cell)
        self.before[episodes], self.taken[episodes] = cell, choice


def _count_chunk(game: Assigned, count: int, seed: tuple[int, ...]) -> tuple[CellCounts, FloatArray]:
    world = game.world
    assigned = game.draw(count, np.random.default_rng((*seed, 1)))
    stepper, counter = start_stepper(world, count, seed), GainCounter(world, count)
    tally = _Tally(counter, _nothing_yet(game, count, counter.totals.shape[1]))
    running, states = np.arange(count), np.array(stepper.states)
    luck = np.random.default_rng((*seed, 2))
    for _ in range(game.horizon):
        cell = game.cell_of(states)
        actions = np.array(choose(game.current, states, lambda: luck.random(len(states))))  # noqa: B023
        inside = np.flatnonzero(cell >= 0)
        choice = assigned[running[inside], cell[inside]]
        tally.begin(running[inside], cell[inside], choice)
        actions[inside] = np.where(choice == game.as_now[cell[inside]], actions[inside], choice)
        step = stepper.step(actions, running)
        counter.add(states, actions, step, running)
        over = step.terminated | step.truncated
        tally.end(running[over if game.cut_is_end else step.terminated])
        running, states = running[~over], step.next_states[~over]
        if not running.size:
            break
    if game.cut_is_end:
        tally.end(running)
    return tally.counts, counter.totals


def _nothing_yet(game: Assigned, episodes: int, outcomes: int) -> CellCounts:
    n_cells = len(game.as_now)
    shape = (n_cells, game.n_choices)
    return CellCounts(
        np.zeros((*shape, n_cells + 1)),
        np.zeros((*shape, outcomes)),
        np.zeros(n_cells + 1),
        np.zeros(outcomes),
        episodes,
    )


def played_table(
    world: Simulator,
    counts: CellCounts,
    allowed: BoolArray,
    actions: Sequence[Action | str],
    states: Sequence[str],
    *,
    discount: float = 1.0,
) -> TabularMDP:
    """The estimated table: cells, a place for episodes that meet none, the end, and what comes before the first cell.

    `allowed` (K, C) says which choices each cell offers; `states` names the cells. Between two cells an episode goes
    on with the chance `discount`.
    """
    cells, choices = counts.gains.shape[:2]
    end, start = cells + 1, cells + 2
    visits = counts.moves.sum(axis=2)
    seen = np.maximum(visits, 1.0)[:, :, None]
    ended = np.where(visits > 0, counts.moves[:, :, cells] / seen[:, :, 0], 1.0)
    moves = np.zeros((cells + OTHERS, choices, cells + OTHERS))
    moves[:cells, :, :cells] = discount * counts.moves[:, :, :cells] / seen
    moves[start, :, : cells + 1] = counts.first / counts.first.sum()
    moves[:cells, :, end] = ended + (1 - discount) * (1 - ended)
    moves[cells, :, end] = 1.0
    gains = np.zeros((cells + OTHERS, choices, counts.gains.shape[2]))
    gains[:cells] = counts.gains / seen
    gains[start] = counts.offset / counts.episodes
    main, _ = aim(world)
    return TabularMDP(
        moves,
        gains[:, :, main],
        np.arange(cells + OTHERS) == start,
        absorbing=[end],
        actions=actions,
        states=[*states, "no region", "end", "start"],
        allowed=np.vstack([allowed, np.broadcast_to(np.arange(choices) == choices - 1, (OTHERS, choices))]),
        outcomes=[replace(o, of=gains[:, :, m], range=None) for m, o in enumerate(world.outcomes) if m != main],
        return_name=world.outcomes[main].name,
    )


@dataclass(frozen=True, eq=False)
class PlayEffort:
    """How many decisions may be played in all."""

    steps: float
    length: float  # decisions of an episode of the current policy
    full: int  # episodes beyond which more would hardly tell more
    clock: Clock
    usual: float  # decisions that would be played without a time limit

    def exploring(self, share: float, most: float, horizon: int) -> tuple[int, int]:
        """Episodes that only explore, and after how many decisions they are cut: some random choices never end."""
        longest = max(FEWEST_STEPS, round(min(STRAYING * self.length, share * self.steps / MANY)))
        return self.episodes(share, most, length=min(self.length, longest)), min(longest, horizon)

    def episodes(self, share: float, most: float = 1.0, *, length: float | None = None) -> int:
        """Episodes that a share of the work pays for, at most `most` times `full`."""
        paid = share * self.steps / (BEGINNING + (self.length if length is None else length))
        return int(np.clip(paid, TRIED, most * self.full))


def effort_for(world: Simulator, current: Policy, *, time_limit: float | None, seed: int) -> PlayEffort:
    """What may be played, from the length of a few episodes and, under a time limit, from their pace."""
    clock = Clock(time_limit)
    usual, full = MODEL_STEPS if world.is_model else STEPS, default_episodes(world)
    seconds, first = _timed(world, current, TRIED, seed)
    pace, episodes = seconds / _work(first), TRIED
    while time_limit is not None and episodes < full and seconds < PACED * time_limit:  # many at once are faster
        episodes *= 10
        seconds, played = _timed(world, current, episodes, seed)
        pace = seconds / _work(played)
    steps = usual if time_limit is None else int(min(usual, OF_THE_TIME * max(clock.left(), 0.0) / pace))
    return PlayEffort(steps, float(first.lengths.mean()), full, clock, usual)


def _timed(world: Simulator, current: Policy, episodes: int, seed: int) -> tuple[float, Rollouts]:
    begin, seeds = perf_counter(), (seed, Stream.EXPLORED_STATES, 1)
    played = roll_out(world, current, episodes=episodes, seed=seeds, what="first episodes")
    return perf_counter() - begin, played


def _work(played: Rollouts) -> float:
    return float(played.lengths.sum() + len(played.lengths) * BEGINNING)


@dataclass(frozen=True, eq=False)
class PairedEpisodes:
    """Where plans are played."""

    world: Simulator
    current: Policy
    effort: PlayEffort
    share: float  # of the effort, for one policy
    seed: tuple[int, ...]
    level: float
    most: float = 1.0  # times as many episodes as usual
    family: int = 1  # plans whose gains must hold together
    gains: dict[str, FloatArray] = field(default_factory=dict)  # of judged plans, by episode

    @cached_property
    def before(self) -> FloatArray:
        """(episodes, M) outcomes of the current policy."""
        return self.play(self.current).totals

    def play(self, policy: Policy) -> Rollouts:
        """A few episodes, and as many more as their length allows; the first n are the same luck for every policy."""
        first = self._roll_out(policy, TRIED, 0) if not self.world.is_model else None
        length = None if first is None else float(first.lengths.mean())
        more = self.effort.episodes(self.share, self.most, length=length)
        if first is None:
            return self._roll_out(policy, more, 0)
        return joined_rollouts([first, self._roll_out(policy, more - TRIED, 1)]) if more > TRIED else first

    def _roll_out(self, policy: Policy, episodes: int, wave: int) -> Rollouts:
        return roll_out(
            self.world, policy, episodes=episodes, seed=(*self.seed, wave), record=True, what="episodes of a plan"
        )

    def changes(self, policy: Policy, played: Rollouts) -> Interval:
        """Changed decisions per episode that a policy played."""
        assert played.visits is not None
        tables = (one.probabilities(played.visits.states) for one in (self.current, policy))
        return mean_changes(played.visits.episode, changed_decisions(*tables), len(played.totals), self.level)

    def judge(self, plan: Plan) -> Plan:
        """The plan, which says what its table expects, with what its policy's episodes bring."""
        world, policy = self.world, plan.policy
        changing = bool(plan.patch.edits)
        played = self.play(policy) if changing else None
        totals = self.before if played is None else played.totals
        main, _ = aim(world)
        outcomes = {o.name: mean_interval(totals[:, m], self.level) for m, o in enumerate(world.outcomes)}
        value = outcomes[world.outcomes[main].name].estimate
        pairs = min(len(totals), len(self.before))
        together = 1 - (1 - self.level) / self.family
        gains = totals[:pairs, main] - self.before[:pairs, main]
        counted = None if played is None else self.changes(policy, played)
        changes = 0.0 if counted is None else counted.estimate
        if changing:
            self.gains[f"the gain of the plan with {number(changes)} changed decisions"] = gains
        gain = mean_interval(gains, together)
        return replace(
            plan,
            changes=changes,
            changes_interval=counted,
            expected_return=value,
            outcomes=outcomes,
            bound=value + (plan.bound - plan.expected_return),
            proven=False,
            gain=replace(gain, level=self.level) if changing else None,
            model_gap=plan.expected_return - value,
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class PlayedCells(Surrogate):
    """A table over cells that episodes were played in, and episodes that judge."""

    world: Simulator
    current: Policy
    counts: CellCounts
    options: ImproveOptions
    effort: PlayEffort
    gains: dict[str, FloatArray] = field(default_factory=dict)  # of judged plans, by episode

    def with_patch(self, plan: Plan, patch: Patch) -> Plan:
        """A plan over cells as edits of the current policy."""
        return replace(plan, patch=patch, policy=PatchedPolicy(self.current, patch), proven=False)

    def episodes(self, share: float, stream: Stream, *, most: float = 1.0, family: int = 1) -> PairedEpisodes:
        """Episodes for a share of the effort."""
        seed, level = (self.options.seed, stream), self.options.level
        return PairedEpisodes(
            self.world, self.current, self.effort, share, seed, level, most=most, family=family, gains=self.gains
        )

    def hurried(self) -> tuple[str, ...]:
        """That a time limit paid for fewer decisions than are played without one."""
        share = self.effort.steps / self.effort.usual
        return (f"The time limit paid for {percent(share)} of the decisions that are played without one.",) * (
            share < 1
        )

    def assumptions(self) -> tuple[Assumption, ...]:
        """What the episodes that judge may not have met."""
        return rare_events(self.gains)
