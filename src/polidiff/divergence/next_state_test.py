r"""Do two policies lead apart? A question to a simulator, asked with common random numbers.

Two policies that choose at random mostly agree: only the probability that one moves from some actions to others can
lead apart. It is taken apart into pairs of actions (a, b) with the moved mass :math:`m_{ab}`, and

.. math:: \mathrm{TV}(T_b, T_e) \le \sum_{ab} m_{ab} \, P(\text{a and b land apart})

is compared with the tolerance. Both actions of a pair are tried from copies of the same state under the same luck, up
to eight times; a draw lands apart if the next states differ, or if some outcome gains another amount at once. For
policies without luck there is one pair of mass 1, and one draw apart in eight exceeds the default tolerance. Where a
hundred moves came out the same under two lucks, the world is taken to have none, and one draw stands for all.
Environments are copied one by one, at worst by playing an episode again up to the present: the work is bounded, and
what was not compared counts as apart.

The paper's own rule compares most probable next states and their probabilities. Both are counted in draws; a difference
of probabilities must exceed the tolerance by two standard errors.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from polidiff.records.arrays import AnyArray, BoolArray, FloatArray, IntArray
from polidiff.records.outcome import Outcome
from polidiff.worlds.rollouts import gain_of
from polidiff.worlds.steppers import Step, Stepper

SAME = 1e-9
MOST_COMPARISONS = 4_000  # in environments that are copied one by one
PAPERS_DRAWS = 32  # from which most probable next states are counted
STEADY = 100  # moves that came out the same under two lucks, and none that did not, where a world has no luck
MOST_REPLAYED = 40_000  # steps made again to come back to a state, where environments cannot be copied


class NextStateTest:
    """Compares next states of two policies; remembers how much was looked at."""

    draws = 8

    def __init__(
        self,
        outcomes: tuple[Outcome, ...],
        tolerance: float,
        *,
        side_by_side: bool,
        max_steps: int,
        share: float = 1.0,
        most_probable_only: bool = False,
    ) -> None:
        """Compare next states and what `outcomes` gain at once; `side_by_side` copies of all states cost little.

        Where copies are stepped one by one, comparisons take at most `max_steps`, of which `share` is for this test.
        `most_probable_only` is the paper's rule, which knows no outcomes.
        """
        self.outcomes = outcomes
        self.tolerance = tolerance
        self._compare = self._most_probable if most_probable_only else self._lead_apart
        self.side_by_side = side_by_side
        self.most_comparisons, self.most_replayed = int(MOST_COMPARISONS * share), int(MOST_REPLAYED * share)
        self.steps_left = max_steps * share
        self.asked = 0
        self.made = 0
        self.replayed = 0
        self.restore_mode = "model" if side_by_side else "none"
        self._known: dict[int, bool] = {}  # numbered states
        self._steady, self._lucky = 0, False

    def test(
        self,
        stepper: Stepper,
        running: IntArray,
        states: AnyArray,
        time: IntArray,
        current: FloatArray,
        proposed: FloatArray,
    ) -> BoolArray:
        """Whether policies with these probabilities (k, A) lead apart from the present states of episodes `running`.

        `time` (k,) tells how many decisions were made before, which a replay has to make again.
        """
        result = np.abs(current - proposed).sum(axis=1) / 2 > self.tolerance  # no policy moves states further apart
        rows = np.flatnonzero(result)
        self.asked += len(rows)
        self.restore_mode = stepper.restore_mode
        if self.side_by_side:
            self.made += len(rows)
        elif np.issubdtype(states.dtype, np.integer) and states.size == len(states):
            result[rows] = self._remembered(stepper, running[rows], states[rows], current[rows], proposed[rows])
            return result
        else:
            before = time[rows] if stepper.restore_mode == "replay" else np.zeros_like(rows)
            rows = rows[: self._affordable(before)]
            self.made += len(rows)
        if rows.size:
            result[rows] = self._compare(stepper, running[rows], states[rows], current[rows], proposed[rows])
        return result

    @property
    def _draws_now(self) -> int:
        return 1 if self._steady >= STEADY and not self._lucky else self.draws

    def _affordable(self, replays: IntArray) -> int:
        """How many episodes, from the first on, can still be compared, if a clone replays so many steps."""
        most = min(self.most_comparisons - self.made, self.steps_left // (2 * self._draws_now))
        cost = 2 * np.cumsum(replays[: max(0, int(most))])  # both actions, one draw
        few = int(np.searchsorted(cost, self.most_replayed - self.replayed, side="right"))
        self.replayed += int(cost[few - 1]) if few else 0
        return few

    def _remembered(
        self, stepper: Stepper, running: IntArray, states: AnyArray, current: FloatArray, proposed: FloatArray
    ) -> BoolArray:
        keys = states.ravel().astype(int).tolist()
        fresh = np.array(
            list({key: i for i, key in enumerate(keys) if key not in self._known}.values()), dtype=np.int64
        )
        if fresh.size:
            apart = self._compare(stepper, running[fresh], states[fresh], current[fresh], proposed[fresh])
            self._known.update({keys[i]: bool(one) for i, one in zip(fresh, apart, strict=True)})
        self.made += len(keys)
        return np.array([self._known[key] for key in keys], dtype=np.bool_)

    def _lead_apart(
        self, stepper: Stepper, running: IntArray, states: AnyArray, current: FloatArray, proposed: FloatArray
    ) -> BoolArray:
        apart = np.zeros(len(running))
        for a, b, mass in moved_mass(current, proposed):
            left = np.flatnonzero((mass > 0) & (apart <= self.tolerance))
            draws = self._draws_now
            first: list[AnyArray] = []  # where both actions led in the first draw
            for draw in range(draws):
                if not left.size:
                    break
                steps = [self._step(stepper, running[left], actions[left], draw) for actions in (a, b)]
                if draw == 0:
                    begun, first = left, [step.next_states for step in steps]
                elif draw == 1:
                    again = np.isin(begun, left)
                    self._lucky |= any(
                        not np.array_equal(one[again], step.next_states) for one, step in zip(first, steps, strict=True)
                    )
                    self._steady += len(left)
                lands_apart = self._lands_apart(states[left], (a[left], b[left]), (steps[0], steps[1]))
                apart[left] += mass[left] * lands_apart / draws
                left = left[apart[left] <= self.tolerance]
        return np.asarray(apart > self.tolerance)

    def _most_probable(
        self, stepper: Stepper, running: IntArray, states: AnyArray, current: FloatArray, proposed: FloatArray
    ) -> BoolArray:
        """Whether most probable next states differ, or their probabilities do."""
        arrived, chances = [], []
        for action in np.flatnonzero((current > 0).any(axis=0) | (proposed > 0).any(axis=0)):
            taken = np.full(len(running), action)
            ends = [self._arrivals(stepper, running, taken, draw) for draw in range(2)]
            if not np.array_equal(ends[0], ends[1]):  # the world has luck
                ends += [self._arrivals(stepper, running, taken, draw) for draw in range(2, PAPERS_DRAWS)]
            arrived += ends
            chances += [np.stack([current[:, action], proposed[:, action]]) / len(ends)] * len(ends)
        places, chance = np.stack(arrived, axis=1), np.stack(chances, axis=-1)  # (k, m, d), (2, k, m)
        apart = [_modes_differ(places[row], chance[:, row], self.tolerance) for row in range(len(running))]
        return np.array(apart, dtype=np.bool_)

    def _arrivals(self, stepper: Stepper, running: IntArray, actions: IntArray, draw: int) -> FloatArray:
        """(k, d) next states of one draw."""
        arrived = np.asarray(self._step(stepper, running, actions, draw).next_states, dtype=np.float64)
        return arrived.reshape(len(running), -1)

    def _step(self, stepper: Stepper, running: IntArray, actions: IntArray, draw: int) -> Step:
        self.steps_left -= len(running)
        copy = stepper.clone(running)
        reseed = getattr(copy, "reseed", None)
        if reseed is not None:
            reseed(draw)
        return copy.step(actions, np.arange(len(running)))

    def _lands_apart(self, states: AnyArray, actions: tuple[IntArray, IntArray], steps: tuple[Step, Step]) -> BoolArray:
        one, two = (np.asarray(step.next_states).reshape(len(states), -1).astype(np.float64) for step in steps)
        scale = SAME * (1 + np.maximum(np.abs(one), np.abs(two)))
        with np.errstate(invalid="ignore"):  # what is endless in both is alike
            apart = (np.abs(one - two) > scale).any(axis=1) | (steps[0].terminated != steps[1].terminated)
        for outcome in self.outcomes:
            gains = [gain_of(outcome, states, act, step) for act, step in zip(actions, steps, strict=True)]
            apart |= np.abs(np.asarray(gains[0]) - np.asarray(gains[1])) > SAME
        return np.asarray(apart)


def _modes_differ(places: FloatArray, chance: FloatArray, tolerance: float) -> bool:
    """The paper's rule for one state: `places` (m, d) are met with the chances (2, m) of the two policies."""
    near = np.abs(places[:, None] - places[None]) <= SAME * (1 + np.abs(places[:, None]))
    same: BoolArray = np.asarray(near.all(axis=2))
    mass = chance @ same  # (2, m) chance of being where each draw led
    modes = mass.argmax(axis=1)
    likely = mass.max(axis=1)
    error = float(np.sqrt((likely * (1 - likely)).clip(0).sum() / PAPERS_DRAWS))
    return bool(not same[modes[0], modes[1]] or abs(likely[0] - likely[1]) > tolerance + 2 * error)


def moved_mass(current: FloatArray, proposed: FloatArray) -> Iterator[tuple[IntArray, IntArray, FloatArray]]:
    """Probability (k, A) that moves from an action to another, in pairs (from, to, mass), the largest first.

    >>> [(int(a[0]), int(b[0]), float(m[0])) for a, b, m in moved_mass(np.array([[0.75, 0.25, 0.0]]), np.eye(3)[[1]])]
    [(0, 1, 0.75)]
    """
    rows = np.arange(len(current))
    loss, gain = np.maximum(current - proposed, 0.0), np.maximum(proposed - current, 0.0)
    while True:
        a, b = loss.argmax(axis=1), gain.argmax(axis=1)
        mass = np.minimum(loss[rows, a], gain[rows, b])
        if not (mass > SAME).any():
            return
        yield a, b, np.where(mass > SAME, mass, 0.0)
        loss[rows, a] -= mass
        gain[rows, b] -= mass
