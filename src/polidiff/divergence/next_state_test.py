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
STEADY = 100  # moves that came out the same under two lucks, and none that did not, where a world has no luck
MOST_REPLAYED = 40_000  # steps made again to come back to a state, where environments cannot be copied


class NextStateTest:
    """Compares next states of two policies; remembers how much was looked at."""

    draws = 8

    def __init__(
        self, outcomes: tuple[Outcome, ...], tolerance: float, *, side_by_side: bool, share: float = 1.0
    ) -> None:
        """Compare next states and what `outcomes` gain at once; `side_by_side` copies of all states cost little."""
        self.outcomes = outcomes
        self.tolerance = tolerance
        self.side_by_side = side_by_side
        self.most_comparisons, self.most_replayed = int(MOST_COMPARISONS * share), int(MOST_REPLAYED * share)
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

    def _affordable(self, replays: IntArray) -> int:
        """How many episodes, from the first on, can still be compared, if a clone replays so many steps."""
        cost = 2 * np.cumsum(replays[: max(0, self.most_comparisons - self.made)])  # both actions, one draw
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

    def _compare(
        self, stepper: Stepper, running: IntArray, states: AnyArray, current: FloatArray, proposed: FloatArray
    ) -> BoolArray:
        apart = np.zeros(len(running))
        for a, b, mass in moved_mass(current, proposed):
            left = np.flatnonzero((mass > 0) & (apart <= self.tolerance))
            draws = 1 if self._steady >= STEADY and not self._lucky else self.draws
            first: AnyArray | None = None  # where the first draw led
            for draw in range(draws):
                if not left.size:
                    break
                steps = [self._step(stepper, running[left], actions[left], draw) for actions in (a, b)]
                if draw == 0:
                    first = np.zeros((len(running), *steps[0].next_states.shape[1:]), steps[0].next_states.dtype)
                    first[left] = steps[0].next_states
                elif draw == 1 and first is not None:
                    self._lucky |= not np.array_equal(first[left], steps[0].next_states)
                    self._steady += len(left)
                lands_apart = self._lands_apart(states[left], (a[left], b[left]), (steps[0], steps[1]))
                apart[left] += mass[left] * lands_apart / draws
                left = left[apart[left] <= self.tolerance]
        return np.asarray(apart > self.tolerance)

    def _step(self, stepper: Stepper, running: IntArray, actions: IntArray, draw: int) -> Step:
        copy = stepper.clone(running)
        reseed = getattr(copy, "reseed", None)
        if reseed is not None:
            reseed(draw)
        return copy.step(actions, np.arange(len(running)))

    def _lands_apart(self, states: AnyArray, actions: tuple[IntArray, IntArray], steps: tuple[Step, Step]) -> BoolArray:
        one, two = (np.asarray(step.next_states).reshape(len(states), -1).astype(np.float64) for step in steps)
        scale = SAME * (1 + np.maximum(np.abs(one), np.abs(two)))
        apart = (np.abs(one - two) > scale).any(axis=1) | (steps[0].terminated != steps[1].terminated)
        for outcome in self.outcomes:
            gains = [gain_of(outcome, states, act, step) for act, step in zip(actions, steps, strict=True)]
            apart |= np.abs(np.asarray(gains[0]) - np.asarray(gains[1])) > SAME
        return np.asarray(apart)


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
