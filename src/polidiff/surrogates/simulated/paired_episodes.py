"""How much is played, and plans judged by playing: fresh episodes, with the same luck for every plan.

Work is counted in decisions, shared out before anything is played: an environment whose episodes last ten thousand
steps gets few of them. A time limit buys fewer decisions, by the pace of the first episodes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from time import perf_counter

import numpy as np

from polidiff.evaluation.monte_carlo import mean_interval
from polidiff.evaluation.simulator import default_episodes
from polidiff.optimize import Clock
from polidiff.policies import Policy, top_actions
from polidiff.records.arrays import FloatArray
from polidiff.records.plan import Plan
from polidiff.streams import Stream
from polidiff.surrogates.record import Explain
from polidiff.worlds.protocol import aim
from polidiff.worlds.rollouts import Rollouts, Visits, joined_rollouts, roll_out
from polidiff.worlds.simulator import Simulator

STEPS, MODEL_STEPS = 800_000, 4_000_000  # decisions, one by one or side by side in a model
TRIED = 10  # episodes that tell how long others last
BEGINNING = 10  # decisions that take as long as beginning an episode
STRAYING, FEWEST_STEPS = 20, 200  # times the usual length, and decisions, that an exploring episode may last
MANY = 200  # episodes that explore, at least, where they would last very long
OF_THE_TIME = 0.6  # that playing may take; the search has the rest


@dataclass(frozen=True, eq=False)
class Effort:
    """How many decisions may be played in all."""

    steps: float
    length: float  # decisions of an episode of the current policy
    full: int  # episodes beyond which more would hardly tell more
    clock: Clock

    def exploring(self, share: float, most: float, horizon: int) -> tuple[int, int]:
        """Episodes that only explore, and after how many decisions they are cut: some random choices never end."""
        longest = max(FEWEST_STEPS, round(min(STRAYING * self.length, share * self.steps / MANY)))
        return self.episodes(share, most, length=min(self.length, longest)), min(longest, horizon)

    def episodes(self, share: float, most: float = 1.0, *, length: float | None = None) -> int:
        """Episodes that a share of the work pays for, at most `most` times `full`."""
        paid = share * self.steps / (BEGINNING + (self.length if length is None else length))
        return int(np.clip(paid, TRIED, most * self.full))


def effort_for(world: Simulator, current: Policy, *, time_limit: float | None, seed: int) -> Effort:
    """What may be played, from the length of a few episodes and, under a time limit, from their pace."""
    clock, begin = Clock(time_limit), perf_counter()
    played = roll_out(world, current, episodes=TRIED, seed=(seed, Stream.EXPLORED_STATES, 1), what="first episodes")
    pace = (perf_counter() - begin) / (played.lengths.sum() + TRIED * BEGINNING)
    steps = MODEL_STEPS if world.is_model else STEPS
    if time_limit is not None:
        steps = int(min(steps, OF_THE_TIME * time_limit / pace))
    return Effort(steps, float(played.lengths.mean()), default_episodes(world), clock)


@dataclass(frozen=True, eq=False)
class PairedEpisodes:
    """Where plans are played."""

    world: Simulator
    current: Policy
    effort: Effort
    share: float  # of the effort, for one policy
    seed: tuple[int, ...]
    level: float
    most: float = 1.0  # times as many episodes as usual

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

    def changes(self, visits: Visits | None, episodes: int) -> float:
        """Decisions per episode that are not the current policy's."""
        assert visits is not None
        top = top_actions(self.current.probabilities(visits.states))
        return float((top != visits.actions).sum() / episodes)

    def judge(self, plan: Plan, explain: Explain | None) -> Plan:
        """The plan, which says what its table expects, with what its policy's episodes bring."""
        world, current, policy = self.world, self.current, plan.policy
        changing = bool(plan.patch.edits)
        played = self.play(policy) if changing else None
        totals = self.before if played is None else played.totals
        main, _ = aim(world)
        outcomes = {o.name: mean_interval(totals[:, m], self.level) for m, o in enumerate(world.outcomes)}
        value = outcomes[world.outcomes[main].name].estimate
        pairs = min(len(totals), len(self.before))
        gain = mean_interval(totals[:pairs, main] - self.before[:pairs, main], self.level)
        return replace(
            plan,
            changes=0.0 if played is None else self.changes(played.visits, len(totals)),
            expected_return=value,
            outcomes=outcomes,
            bound=value + (plan.bound - plan.expected_return),
            proven=False,
            gain=gain if changing else None,
            model_gap=plan.expected_return - value,
            _explain=None if explain is None else (lambda: explain(world, current, policy)),
        )
