"""Plans judged by playing: fresh episodes, with the same luck for every plan and for the current policy."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from polidiff.evaluation.monte_carlo import mean_interval
from polidiff.policies import Policy, top_actions
from polidiff.records.arrays import FloatArray
from polidiff.records.plan import Plan
from polidiff.surrogates.record import Explain
from polidiff.worlds.protocol import aim
from polidiff.worlds.rollouts import Visits, roll_out
from polidiff.worlds.simulator import Simulator


@dataclass(frozen=True, eq=False)
class PairedEpisodes:
    """Where plans are played."""

    world: Simulator
    current: Policy
    episodes: int
    seed: tuple[int, ...]
    level: float

    @cached_property
    def before(self) -> FloatArray:
        """(episodes, M) outcomes of the current policy."""
        return self.play(self.current)[0]

    def play(self, policy: Policy) -> tuple[FloatArray, Visits]:
        """Outcomes of each episode and its decisions."""
        played = roll_out(self.world, policy, episodes=self.episodes, seed=self.seed, record=True, what="plan")
        assert played.visits is not None
        return played.totals, played.visits

    def changes(self, visits: Visits) -> float:
        """Decisions per episode that are not the current policy's."""
        top = top_actions(self.current.probabilities(visits.states))
        return float((top != visits.actions).sum() / self.episodes)

    def judge(self, plan: Plan, explain: Explain | None) -> Plan:
        """The plan, which says what its table expects, with what its policy's episodes bring."""
        world, current, policy = self.world, self.current, plan.policy
        totals, visits = self.play(policy)
        main, _ = aim(world)
        outcomes = {o.name: mean_interval(totals[:, m], self.level) for m, o in enumerate(world.outcomes)}
        value = outcomes[world.outcomes[main].name].estimate
        changing = bool(plan.patch.edits)
        return replace(
            plan,
            changes=self.changes(visits) if changing else 0.0,
            expected_return=value,
            outcomes=outcomes,
            bound=value + (plan.bound - plan.expected_return),
            proven=False,
            gain=mean_interval(totals[:, main] - self.before[:, main], self.level) if changing else None,
            model_gap=plan.expected_return - value,
            _explain=None if explain is None else (lambda: explain(world, current, policy)),
        )
