"""Two policies in one world: what every later stage may ask, whatever the kind of world.

Each kind answers in a module of its own (`table`, `simulator`, `log`). Where a kind cannot know something it says so
with an absent answer, and the stages leave that part out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from polidiff.errors import InvalidOptionError
from polidiff.evaluation.verdicts import StartOutcomes, as_unknown
from polidiff.policies import Policy
from polidiff.policies.protocol import FeaturesOf, PolicyLike, PolicyPair
from polidiff.records.arrays import AnyArray, BoolArray, FloatArray, IntArray
from polidiff.records.explanation import Arrow, RegionEffect, Support, Verdict, WorldSummary
from polidiff.records.outcome import Assumption, Interval
from polidiff.records.patch import Patch
from polidiff.records.rule import GroupRules, Rule, covers_any
from polidiff.worlds.protocol import World

Values = Mapping[str, float]  # outcome or action -> number
Intervals = Mapping[str, Interval]  # outcome -> interval
Effects = Mapping[int, RegionEffect]  # of regions by their place among the rules


@dataclass(frozen=True, eq=False)
class GroupVerdicts:
    """What the proposed policy does to each outcome for each group of starts, and what is not known."""

    verdicts: tuple[tuple[Verdict, ...], ...]  # per group, per outcome
    unsupported: FloatArray  # (groups,) chance that an episode of the proposed policy meets what nobody has tried
    episodes: FloatArray  # (groups,) logged episodes that begin in the group
    family: int  # comparisons over which the level holds (Bonferroni)
    loops: tuple[str, ...] = ()  # states that cannot leave an estimated loop under the proposed policy
    warnings: tuple[str, ...] = ()
    method: str = ""
    assumptions: tuple[Assumption, ...] = ()  # on which the verdicts rest, each with how it was tested
    people: IntArray | None = None  # (groups,) distinct people behind the episodes; None: every episode is another's

    def behind(self, group: int) -> int:
        """People that stand behind a group of starts."""
        return round(float(self.episodes[group])) if self.people is None else int(self.people[group])


@dataclass(frozen=True, eq=False)
class Achieved:
    """What both policies achieve, start by start; nothing where a world shows no start by itself."""

    forming: StartOutcomes | None  # forms groups of starts
    judged: StartOutcomes | None  # judges them; the same where it is exact
    changes: float  # expected changed decisions per episode
    changes_interval: Interval | None = None  # where they were counted in played episodes


@dataclass(frozen=True)
class RegionChanges:
    """Changes by region, the first rule that covers a state naming its region, and those whose effect is asked for."""

    rules: tuple[Rule, ...]
    asked: tuple[int, ...]  # the most visited first

    def covers(self, features: AnyArray, k: int) -> BoolArray:
        """Which rows lie in region k."""
        return self.rules[k].covers(features) & ~covers_any(self.rules[:k], features)

    def effects(
        self, features: AnyArray, current: FloatArray, proposed: FloatArray, judge: Callable[[FloatArray], Intervals]
    ) -> Effects:
        """What each change asked for does alone, and all but it: policies (n, A) over feature rows, each judged."""
        effects = {}
        for k in self.asked:
            inside = self.covers(features, k)[:, None]
            alone, without = np.where(inside, proposed, current), np.where(inside, current, proposed)
            effects[k] = RegionEffect(judge(alone), judge(without))
        return effects

    def strict(self, level: float, outcomes: int) -> float:
        """The level of one interval if all of them are to hold together (Bonferroni): alone and without, each."""
        return 1 - (1 - level) / max(1, 2 * len(self.asked) * outcomes)


def check_estimator(evaluation: str | None, known: tuple[str, ...]) -> None:
    """An error if an estimator is named where outcomes are computed or played."""
    if evaluation is not None and evaluation not in known:
        raise InvalidOptionError(
            f"evaluation={evaluation!r} judges a log of past decisions; here outcomes are exact or played, and need no "
            "estimator. Hint: leave evaluation out"
        )


class Comparison:
    """Two policies in a world. What is not overridden is not known."""

    world: World  # what was asked about
    place: World  # where the policies are followed: the world, or the model that a log supports
    current: Policy  # in that place
    proposed: Policy
    estimators: tuple[str, ...] = ()  # that may be asked for by name
    shows_episodes: bool = True  # whether single states and episodes may be shown; never those of a log
    people: float = math.inf  # behind all starts; endless where nobody is

    @property
    def policies(self) -> PolicyPair:
        """Both, as they are looked for where they part."""
        return self.current, self.proposed

    def unsure(self, tolerance: float) -> BoolArray | None:
        """(S,) states of the place in which actions that seem to do the same may not; None where it is known."""
        return None

    def achieved(self, diverging: BoolArray, *, length: float, max_steps: int, level: float, seed: int) -> Achieved:
        """Outcomes from every start; `diverging` visits were found in episodes of a mean `length`."""
        raise NotImplementedError

    def summary(self, seen: AnyArray, facts: Mapping[str, str | float | int]) -> WorldSummary:
        """What a result says about the world, given feature rows that were visited."""
        raise NotImplementedError

    def judge(
        self, groups: Sequence[GroupRules], *, level: float, seed: int, evaluation: str | None = None
    ) -> GroupVerdicts | None:
        """Verdicts for groups of starts where a model of the world told the story.

        None where the start outcomes judge themselves. `evaluation` is one of the `estimators`.
        """
        return None

    def support(self, rules: Sequence[Rule]) -> tuple[Support, ...] | None:
        """What stands behind each rule, the first that covers a state; None where the visits themselves say so."""
        return None

    def names(self, states: AnyArray) -> tuple[str, ...]:
        """Names of states; none where states have no names."""
        return ()

    def edited_states(self, states: AnyArray, action: int) -> tuple[int, ...] | None:
        """Those of the states in which an edit may put an action; None where rules alone say where it acts."""
        return None

    @property
    def patch_features(self) -> FeaturesOf | None:
        """How a patch reads features of states; None where it lists states."""
        return self.place.features_of

    def action_values(self, states: AnyArray, weight: FloatArray, region: int, *, seed: int) -> Mapping[str, Values]:
        """Outcome -> action -> expected sum from the states of a region on, if the proposed policy follows."""
        return {}

    def immediate_effects(
        self, states: AnyArray, current: IntArray, proposed: IntArray, diverging: BoolArray
    ) -> Values:
        """What the swaps of some states add to each outcome at once; 0 where no state can be set."""
        return {outcome.name: 0.0 for outcome in self.place.outcomes}

    def mean_outcomes(self, policy: Policy, judged: StartOutcomes, *, seed: int) -> FloatArray | None:
        """(M,) what another policy achieves from the judged starts; None where it never ends."""
        return None

    def region_effects(
        self, changes: RegionChanges, *, level: float, length: float, max_steps: int, seed: int
    ) -> Effects:
        """What each of some changes does alone, and all but it; episodes have a mean `length`."""
        return {}

    def moves(self) -> tuple[Arrow, ...]:
        """Moves of both policies, if there are few."""
        return ()

    def find_state(self, given: npt.ArrayLike) -> tuple[AnyArray, str]:
        """A state as the policies see it (1, …), and what it is called."""
        return np.asarray(given)[None], str(np.asarray(given))

    def observation(self, values: Sequence[object]) -> AnyArray | None:
        """A state (1, d) made of feature values; None where features are not what policies see."""
        return None

    def expected_from(self, state: AnyArray) -> tuple[tuple[float, float], ...] | None:
        """Per outcome what both policies bring from a state on; None where that is not known."""
        return None


CHOSEN = "chosen beforehand"  # the assumption that rules were not chosen on the log that judges them


def chosen_on(world: World, *policies: PolicyLike) -> Assumption | None:
    """That a policy carries a patch whose edits `improve` chose on the very rows of this log; None if none does.

    A log with other rows, even a few, or with other columns as its state, counts as other data.
    """
    patches = [patch for policy in policies if isinstance(patch := getattr(policy, "patch", None), Patch)]
    here = [patch for patch in patches if patch.chosen_on and patch.chosen_on == getattr(world, "fingerprint", "")]
    if not here:
        return None
    judged = f"; improve judged them on rows that did not choose them: {here[0].judged}" if here[0].judged else ""
    detail = f"these rules were chosen on this very log, so the log flatters them{judged}"
    return Assumption(CHOSEN, "the log's fingerprint in the patch", "failed", detail, "Judge them on another log.")


def undecided(judged: GroupVerdicts, chosen: Assumption, everyone: int) -> GroupVerdicts:
    """What a log says about rules that it chose itself: nothing that is decided; to all together it is said in full."""
    short = chosen.detail.split(";")[0]
    verdicts = tuple(
        tuple(
            replace(
                as_unknown(replace(verdict, note=None), chosen.detail if group == everyone else short),
                holds_up_to=None,
                rests_on=None,
            )
            for verdict in row
        )
        for group, row in enumerate(judged.verdicts)
    )
    return replace(judged, verdicts=verdicts, assumptions=(chosen, *judged.assumptions))
