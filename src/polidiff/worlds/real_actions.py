r"""Environments that take real numbers, told as a few choices.

Two policies are compared by the signed difference :math:`u_e(s) - u_b(s)` of what they do: choice 0 is what the current
policy does, every other choice is a direction and a size ("more torque by 0.3 to 0.8"), cut at quantiles of the
differences that both policies meet. Choice k moves :math:`u_b(s)` by the difference, kept within the bounds of k:

.. math:: u_k(s) = u_b(s) + \min(\max(u_e(s) - u_b(s), l_k), h_k)

so that the proposed policy, which takes the choice that its difference falls in, does exactly what it would do.
Plans choose among levels of each component, or do as now.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np

from polidiff.errors import InvalidPolicyError, InvalidWorldError
from polidiff.policies import PatchedPolicy, PolicyLike
from polidiff.policies.functions import CallablePolicy, ConstantPolicy, Discretised
from polidiff.policies.models import real_actions
from polidiff.policies.protocol import Candidates, Policy, top_actions
from polidiff.records.arrays import AnyArray, FloatArray, IntArray
from polidiff.records.patch import AS_NOW
from polidiff.streams import Stream
from polidiff.worlds.gymnasium.spaces import Choice, RealCodec
from polidiff.worlds.protocol import World
from polidiff.worlds.rollouts import roll_out
from polidiff.worlds.simulator import Simulator, constant

SEEN, MOST_SEEN = 10, 200  # episodes of each policy whose differences place the cuts; the most where they are short
ENOUGH = 2_000  # differences from which no more episodes are played for them
SMALL = 0.02  # of the range of what both policies do: a smaller difference counts as none
LEVELS = {1: 5, 2: 3, 3: 3}  # of each component, by how many there are


@dataclass(frozen=True, eq=False)
class RealPolicy:
    """What a policy does in real numbers (n, d), within the bounds of the environment."""

    policy: PolicyLike
    real: RealCodec

    @property
    def width(self) -> int:
        """How many numbers an action has."""
        return self.real.width

    def __call__(self, states: AnyArray) -> FloatArray:
        if callable(getattr(self.policy, "probabilities", None)):
            numbers = "pass a function or a model that gives the numbers"
            if isinstance(self.policy, PatchedPolicy):
                numbers = "a patch acts among choices; plan.policy, of the plan that it comes from, gives the numbers"
            raise InvalidPolicyError(
                f"the environment takes {self.width} real numbers; the policy gives probabilities of actions. Hint: "
                f"{numbers}, or choose levels: Simulator(env, actions=[…])"
            )
        answer = real_actions(self.policy, np.asarray(states), self.width, "the environment takes {} real numbers")
        return np.clip(answer, self.real.low, self.real.high)


def alone(world: World, policy: PolicyLike) -> tuple[World, PolicyLike]:
    """The world and a policy to be played in it, as it is."""
    if (levels := getattr(world, "levels", None)) is not None:
        return world, nearest(policy, levels)
    if not isinstance(world, Simulator) or (real := world.real) is None:
        return world, policy
    return world.with_choices((RealPolicy(policy, real),), ("its own",)), ConstantPolicy(0, 1)


def compared(
    world: World, current: PolicyLike, proposed: PolicyLike, *, seed: int
) -> tuple[World, PolicyLike, PolicyLike, tuple[str, ...]]:
    """The world with choices that tell two policies apart, both policies among these, and what to know about it."""
    if (levels := getattr(world, "levels", None)) is not None:
        note = f"Both policies are taken at the nearest of {len(levels)} levels."
        return world, nearest(current, levels), nearest(proposed, levels), (note,)
    if not isinstance(world, Simulator) or (real := world.real) is None:
        return world, current, proposed, ()
    old, new = (RealPolicy(policy, real) for policy in (current, proposed))
    seen = _differences(world, old, new, seed)
    bins = SignedBins.of(seen, world.component_names)
    moves = tuple(partial(_moved, old, new, low, high) for low, high in bins.bounds())
    place = world.with_choices((old, *moves), (AS_NOW, *bins.names))
    choose = CallablePolicy(lambda states: bins.of_rows(new(states) - old(states)), 1 + len(moves))
    least = ", ".join(f"{size:.2g} of {name}" for size, name in zip(bins.least, world.component_names, strict=True))
    note = f"Differences below {least} count as none, and the proposed policy is played without them."
    return place, ConstantPolicy(0, 1 + len(moves)), choose, (note,) if moves else ()


def planned(
    world: World, current: PolicyLike, candidates: Candidates
) -> tuple[World, PolicyLike, Candidates, tuple[str, ...]]:
    """The world with what plans may do: as now, as a candidate, or a level of each component; and a note on it."""
    if (levels := getattr(world, "levels", None)) is not None:
        note = f"The current policy is taken at the nearest of {len(levels)} levels."
        return world, nearest(current, levels), candidates and [nearest(c, levels) for c in candidates], (note,)
    if not isinstance(world, Simulator) or (real := world.real) is None:
        return world, current, candidates, ()
    old = RealPolicy(current, real)
    if candidates is not None:
        others = tuple(RealPolicy(candidate, real) for candidate in candidates)
        names = (AS_NOW, *(f"as candidate {k + 1}" for k in range(len(others))))
        count = len(names)
        place = world.with_choices((old, *others), names)
        return place, ConstantPolicy(0, count), [ConstantPolicy(1 + k, count) for k in range(len(others))], ()
    levels = _even_levels(real)
    parts = [zip(world.component_names, level.tolist(), strict=True) for level in levels]
    names = (*(", ".join(f"{name} {value:g}" for name, value in part) for part in parts), "unchanged")
    place = world.with_choices((*(partial(constant, level) for level in levels), old), names)
    return place, ConstantPolicy(len(levels), len(names)), None, ()


@dataclass(frozen=True, eq=False)
class InNumbers:
    """A policy over choices as a policy of the environment: the numbers (n, d) of the choice it takes."""

    chosen: Policy
    real: RealCodec  # with the choices

    def __call__(self, states: AnyArray) -> FloatArray:
        return self.real.numbers(top_actions(self.chosen.probabilities(states)), states)


def in_numbers(place: World, policy: Policy) -> Policy | InNumbers:
    """A policy of a world of choices, as one that the environment takes; of any other world, as it is."""
    choices: RealCodec | None = getattr(place, "choices", None)
    return policy if choices is None else InNumbers(policy, choices)


def nearest(policy: PolicyLike, levels: FloatArray) -> PolicyLike:
    """A policy in real numbers, a function, a model or one number per state, as the nearest of the levels (A, d).

    What chooses among the levels already, such as "log" or a table of probabilities, stays as it is.
    """
    if isinstance(policy, str) or callable(getattr(policy, "probabilities", None)):
        return policy
    if callable(policy) or callable(getattr(policy, "predict", None)):
        return Discretised(policy, levels)
    numbers = np.asarray(policy)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iuf" or levels.shape[1] != 1:
        return policy
    return np.asarray(np.abs(numbers[:, None] - levels.T).argmin(axis=1))


@dataclass(frozen=True, eq=False)
class SignedBins:
    """Directions and sizes of a difference (n, d); a component within `least` is the same."""

    least: FloatArray  # (d,)
    cuts: tuple[FloatArray, ...]  # of each component, ascending; the middle cell holds 0
    cells: IntArray  # (K, d) cell of each choice in each component
    names: tuple[str, ...]  # of the choices

    @classmethod
    def of(cls, rows: FloatArray, components: Sequence[str]) -> SignedBins:
        """Cut at the medians of what is more and of what is less; choices are the combinations that were met."""
        least = SMALL * np.maximum(np.abs(rows).max(axis=0), 1e-9) * 2
        halves = rows.shape[1] == 1
        cuts = tuple(_cuts(column, small, halves) for column, small in zip(rows.T, least, strict=True))
        codes = _codes(rows, cuts)
        middle = np.array([len(cut) // 2 for cut in cuts])
        met = np.unique(codes[(codes != middle).any(axis=1)], axis=0)
        names = tuple(_name(cell, codes, rows, middle, components) for cell in met)
        return cls(least, cuts, met.reshape(-1, rows.shape[1]), names)

    def bounds(self) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Least and largest difference (d,) of each choice."""
        for cell in self.cells:
            ends = [np.r_[-np.inf, cut, np.inf][[c, c + 1]] for cut, c in zip(self.cuts, cell, strict=True)]
            yield tuple(np.array(ends).T)

    def of_rows(self, rows: FloatArray) -> IntArray:
        """Choice of each difference: 0 where it is none, else that which most components fall in."""
        codes = _codes(rows, self.cuts)
        middle = np.array([len(cut) // 2 for cut in self.cuts])
        if not len(self.cells):
            return np.zeros(len(rows), dtype=np.int64)
        alike = (codes[:, None, :] == self.cells[None]).sum(axis=2)
        return np.where((codes == middle).all(axis=1), 0, 1 + alike.argmax(axis=1)).astype(np.int64)


def _cuts(column: FloatArray, least: float, halves: bool) -> FloatArray:
    more, less = column[column > least], column[column < -least]
    if not halves:
        return np.array([-least, least])
    far = 2 * np.abs(column).max() + 1.0  # a cut that nothing meets keeps 0 in the middle
    return np.array([_halving(less) if len(less) else -far, -least, least, _halving(more) if len(more) else far])


def _halving(sizes: FloatArray) -> float:
    """The median, or the next larger size where none lies below it: two sizes are two choices, however often met.

    >>> _halving(np.array([-0.4, -0.4, -0.1]))
    -0.1
    """
    middle = float(np.median(sizes))
    larger = sizes[sizes > middle]
    return middle if sizes.min() < middle or not len(larger) else float(larger.min())


def _codes(rows: FloatArray, cuts: Sequence[FloatArray]) -> IntArray:
    cells = [np.searchsorted(cut, column, side="right") for cut, column in zip(cuts, rows.T, strict=True)]
    return np.stack(cells, axis=1).astype(np.int64)


def _name(cell: IntArray, codes: IntArray, rows: FloatArray, middle: IntArray, components: Sequence[str]) -> str:
    """Such as "more torque by 0.3 to 0.8": the sizes are those that were met."""
    within = (codes == cell).all(axis=1)
    parts = []
    for j, component in enumerate(components):
        if cell[j] != middle[j]:
            low, high = np.sort(np.abs(rows[within, j]))[[0, -1]]
            size = f"{low:.2g}" if f"{low:.2g}" == f"{high:.2g}" else f"{low:.2g} to {high:.2g}"
            parts.append(f"{'more' if cell[j] > middle[j] else 'less'} {component} by {size}")
    return ", ".join(parts)


def _moved(old: Choice, new: Choice, low: FloatArray, high: FloatArray, states: AnyArray) -> FloatArray:
    before = old(states)
    return before + np.clip(new(states) - before, low, high)


def _differences(world: Simulator, old: RealPolicy, new: RealPolicy, seed: int) -> FloatArray:
    """Differences (N, d) where either policy gets."""
    both = world.with_choices((old, new), ("current", "proposed"))
    rows = _met(both, old, new, SEEN, (seed, Stream.EXPLORED_STATES))
    more = min(MOST_SEEN, SEEN * ENOUGH // len(rows)) - SEEN
    return rows if more <= 0 else np.concatenate([rows, _met(both, old, new, more, (seed, Stream.EXPLORED_STATES, 1))])


def _met(both: Simulator, old: RealPolicy, new: RealPolicy, episodes: int, seeds: tuple[int, ...]) -> FloatArray:
    rows = []
    for k in range(2):
        played = roll_out(both, ConstantPolicy(k, 2), episodes=episodes, seed=seeds, record=True, what="differences")
        assert played.visits is not None
        rows.append(new(played.visits.states) - old(played.visits.states))
    return np.concatenate(rows)


def _even_levels(real: RealCodec) -> FloatArray:
    low, high, width = real.low, real.high, real.width
    if width not in LEVELS or not np.isfinite([low, high]).all():
        raise InvalidWorldError(
            f"plans choose among levels; this environment takes {width} real numbers "
            f"{'without bounds ' if width in LEVELS else ''}and none are given. Hint: Simulator(env, actions=[…]) with "
            "one level per entry"
        )
    axes = [np.linspace(a, b, LEVELS[width]) for a, b in zip(low, high, strict=True)]
    return np.array(list(product(*axes)))
