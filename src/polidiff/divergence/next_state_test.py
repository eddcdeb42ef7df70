"""Do two actions lead apart? A question to a simulator, asked with common random numbers.

Both actions are tried from copies of the same state under the same luck, up to eight times. The share of draws that
land apart, or that pay at once a different amount of some outcome, is compared with the tolerance. One draw apart in
eight exceeds the default tolerance, so most states need a single draw. Environments are copied one by one, at worst by
playing an episode again up to the present: the work is bounded, and what was not compared counts as apart.
"""

from __future__ import annotations

import numpy as np

from polidiff.records.arrays import AnyArray, BoolArray, IntArray
from polidiff.records.outcome import Outcome
from polidiff.worlds.rollouts import gain_of
from polidiff.worlds.steppers import Step, Stepper

SAME = 1e-9
MOST_COMPARISONS = 4_000  # in environments that are copied one by one
MOST_REPLAYED = 40_000  # steps made again to come back to a state, where environments cannot be copied


class NextStateTest:
    """Compares next states of two actions; remembers how much was looked at."""

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
        self._known: dict[tuple[int, int, int], bool] = {}

    def test(
        self, stepper: Stepper, running: IntArray, states: AnyArray, time: IntArray, a: IntArray, b: IntArray
    ) -> BoolArray:
        """Whether actions `a` and `b` lead apart from the present states of the episodes `running`.

        `time` (k,) tells how many decisions were made before, which a replay has to make again.
        """
        self.asked += len(running)
        self.restore_mode = stepper.restore_mode
        if self.side_by_side:
            self.made += len(running)
            return self._compare(stepper, running, states, a, b)
        if np.issubdtype(states.dtype, np.integer) and states.size == len(states):
            return self._remembered(stepper, running, states, a, b)
        result = np.ones(len(running), dtype=np.bool_)
        few = np.arange(self._affordable(time if stepper.restore_mode == "replay" else np.zeros_like(time)))
        if few.size:
            self.made += len(few)
            result[few] = self._compare(stepper, running[few], states[few], a[few], b[few])
        return result

    def _affordable(self, replays: IntArray) -> int:
        """How many episodes, from the first on, can still be compared, if a clone replays so many steps."""
        cost = 2 * np.cumsum(replays[: max(0, self.most_comparisons - self.made)])  # both actions, one draw
        few = int(np.searchsorted(cost, self.most_replayed - self.replayed, side="right"))
        self.replayed += int(cost[few - 1]) if few else 0
        return few

    def _remembered(self, stepper: Stepper, running: IntArray, states: AnyArray, a: IntArray, b: IntArray) -> BoolArray:
        keys = list(zip(states.ravel().astype(int).tolist(), a.tolist(), b.tolist(), strict=True))
        fresh = [i for i, key in enumerate(keys) if key not in self._known]
        fresh = list({keys[i]: i for i in fresh}.values())
        if fresh:
            at = np.array(fresh)
            found = self._compare(stepper, running[at], states[at], a[at], b[at])
            self._known.update({keys[i]: bool(apart) for i, apart in zip(fresh, found, strict=True)})
        self.made += len(keys)
        return np.array([self._known[key] for key in keys], dtype=np.bool_)

    def _compare(self, stepper: Stepper, running: IntArray, states: AnyArray, a: IntArray, b: IntArray) -> BoolArray:
        apart = np.zeros(len(running))
        left = np.arange(len(running))
        for draw in range(self.draws):
            steps = [self._step(stepper, running[left], actions[left], draw) for actions in (a, b)]
            apart[left] += self._lands_apart(states[left], (a[left], b[left]), (steps[0], steps[1]))
            left = np.flatnonzero(apart / self.draws <= self.tolerance)
            if not left.size:
                break
        return np.asarray(apart / self.draws > self.tolerance)

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
