"""Moves: what a rule may prescribe.

A move names, for every state, the action to take there: an action by name, one component of an ordered action set to a
level, that component's next offered level up or down, a level that depends on the state ("order up to 34"), or what is
done now ("keep", for exceptions). Where the action is not allowed the move is impossible, or, with
``fallback="nearest"``, the nearest offered level takes its place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from polidiff.errors import InvalidOptionError
from polidiff.policies import top_actions
from polidiff.records.action import Action
from polidiff.records.arrays import AnyArray, BoolArray, FloatArray, IntArray
from polidiff.worlds.tabular import TabularMDP

if TYPE_CHECKING:
    from polidiff.options import Moves

KEEP = "keep"


@dataclass(frozen=True, eq=False)
class Move:
    """One thing a rule may prescribe; made by `action`, `level`, `step`, `aim` or `keep`.

    >>> Move.level("pressor", 2).name, Move.step("fluid", +1).name, Move.action("north").name
    ('pressor to 2', 'next fluid up', 'north')
    """

    name: str
    action_name: str | None = None
    component: str | None = None
    wanted: npt.ArrayLike | Callable[[AnyArray], npt.ArrayLike] | None = (
        None  # level, one per state, or function of features
    )
    direction: int = 0  # +1 next offered level up, -1 down

    @classmethod
    def action(cls, name: str) -> Move:
        """Take the action of that name."""
        return cls(name, action_name=name)

    @classmethod
    def level(cls, component: str, level: float) -> Move:
        """Set one component of the current action to a level, the others as now."""
        return cls(f"{component} to {level:g}", component=component, wanted=level)

    @classmethod
    def step(cls, component: str, direction: int) -> Move:
        """The next offered level of one component, up (+1) or down (-1), the others as now."""
        if direction not in (1, -1):
            raise InvalidOptionError(f"direction of a move must be +1 or -1; got {direction!r}")
        return cls(f"next {component} {'up' if direction > 0 else 'down'}", component=component, direction=direction)

    @classmethod
    def aim(cls, name: str, component: str, wanted: npt.ArrayLike | Callable[[AnyArray], npt.ArrayLike]) -> Move:
        """A level that depends on the state: one number per state, or a function of the features (S, d)."""
        return cls(name, component=component, wanted=wanted)

    @classmethod
    def keep(cls) -> Move:
        """What is done now: an exception to the rules behind it."""
        return cls(KEEP)


@dataclass(frozen=True, eq=False)
class MoveSet:
    """Moves as the actions of a decision process.

    The choice A (one past the last action) stands for the current policy's own, possibly mixed, decision.
    """

    names: tuple[str, ...]
    choice: IntArray  # (M, S) action, A for "as now", -1 where the move is impossible
    changed: FloatArray  # (S, A + 1) probability that the decision differs from the current policy's
    current: FloatArray  # (S, A) probabilities of the current policy


def actions_only(moves: Moves, actions: Sequence[Action], where: str) -> list[Move]:
    """Moves to actions; doing as now is always possible. Levels and aims need a current action, which no cell has."""
    if isinstance(moves, str) and moves == "actions":
        return [Move.action(action.name) for action in actions]
    given = () if isinstance(moves, str) else tuple(moves)
    listed = [move for move in given if isinstance(move, Move) and (move.action_name or move.name == KEEP)]
    if not listed or len(listed) < len(given):
        raise InvalidOptionError(
            f"rules in {where} prescribe actions; got moves={moves!r}. Hint: moves='actions', or Move.action(name)"
        )
    return listed


def resolve_moves(
    world: TabularMDP,
    current: FloatArray,
    moves: Moves,
    *,
    fallback: str = "keep",
    frozen: BoolArray | None = None,
    offered: BoolArray | None = None,
) -> MoveSet:
    """The choice of every move in every state; "keep" is always among the moves.

    `offered` (S, A) says which actions a rule may prescribe where, besides what the world allows.
    """
    listed = _listed(world, moves)
    may = world.allowed if offered is None else world.allowed & offered
    top = top_actions(current)
    sure = current.max(axis=1) > 1 - 1e-12
    open_ = ~world.absorbing if frozen is None else ~(world.absorbing | frozen)
    rows = [_targets(world, move, top, fallback, may) for move in listed]
    choice = np.stack([np.where(open_, row, -1) for row in rows])
    if isinstance(moves, str):
        some = np.flatnonzero((choice >= 0).any(axis=1))
        listed, choice = [listed[k] for k in some], choice[some]
    _check_possible(listed, choice)
    choice = np.where((choice == top) & sure, world.n_actions, choice)
    keep = np.where(open_, world.n_actions, -1)
    changed = np.hstack([1.0 - current, np.zeros((world.n_states, 1))])
    names = (*(move.name for move in listed), KEEP)
    return MoveSet(names, np.vstack([choice, keep[None]]).astype(np.int64), changed, current)


def _listed(world: TabularMDP, moves: Moves) -> list[Move]:
    if isinstance(moves, str):
        if moves == "actions":
            return [Move.action(action.name) for action in world.actions]
        if moves == "levels":
            return _level_moves(world)
        raise InvalidOptionError(f"moves must be 'actions', 'levels' or a list of Move; got {moves!r}")
    odd = next((move for move in moves if not isinstance(move, Move)), None)
    if odd is not None:
        raise InvalidOptionError(f"moves must be Move objects; got {type(odd).__name__}. Hint: Move.action('north')")
    listed = [move for move in moves if isinstance(move, Move) and move.name != KEEP]
    if not listed:
        raise InvalidOptionError("moves must hold a move other than 'keep'. Hint: moves='actions'")
    names = [move.name for move in listed]
    twice = next((name for index, name in enumerate(names) if name in names[:index]), None)
    if twice is not None:
        raise InvalidOptionError(f"names of moves must be unique; {twice!r} is used twice")
    return listed


def _level_moves(world: TabularMDP) -> list[Move]:
    components = list(world.actions[0].levels)
    if not components:
        raise InvalidOptionError(
            "moves='levels' needs actions with ordered components; these have names only. Hint: give actions such as "
            "{'fluid': 2, 'pressor': 0}, or moves='actions'"
        )
    levels = {c: sorted({action.levels[c] for action in world.actions}) for c in components}
    return [Move.level(c, level) for c in components for level in levels[c]]


def _targets(world: TabularMDP, move: Move, top: IntArray, fallback: str, may: BoolArray) -> IntArray:
    if fallback not in ("keep", "nearest"):
        raise InvalidOptionError(f"fallback must be 'keep' or 'nearest'; got {fallback!r}")
    if move.action_name is not None:
        return _action_targets(world, move.action_name, fallback, may)
    return _component_targets(world, move, top, fallback, may)


def _action_targets(world: TabularMDP, name: str, fallback: str, may: BoolArray) -> IntArray:
    names = [action.name for action in world.actions]
    if name not in names:
        raise InvalidOptionError(f"no action is called {name!r}; the actions are {', '.join(names[:12])}")
    index = names.index(name)
    exact = np.where(may[:, index], index, -1)
    if fallback == "keep" or not world.actions[index].levels:
        return exact
    levels = np.array([list(action.levels.values()) for action in world.actions])
    distance = np.abs(levels - levels[index]).sum(axis=1)
    return _nearest(np.broadcast_to(distance, may.shape), may)


def _component_targets(world: TabularMDP, move: Move, top: IntArray, fallback: str, may: BoolArray) -> IntArray:
    level, same = _component(world, str(move.component), top)
    now = level[top]
    offered = may & same
    if move.direction:
        ahead = (level[None, :] - now[:, None]) * move.direction
        distance = np.where(ahead > 0, ahead, np.inf)
        best = _nearest(distance, offered & (ahead > 0))
        return np.where(best < 0, top, best) if fallback == "nearest" else best
    distance = np.abs(level[None, :] - _wanted_levels(world, move)[:, None])
    exact = _nearest(distance, offered & (distance < 1e-9))
    if fallback == "keep":
        return exact
    moved = 1e-6 * np.abs(level[None, :] - now[:, None])  # of two equally near levels, the one nearer to now
    return _nearest(distance + moved, offered)


def _component(world: TabularMDP, component: str, top: IntArray) -> tuple[FloatArray, BoolArray]:
    """Level of each action (A,), and which actions share the other components with the current one (S, A)."""
    components = list(world.actions[0].levels)
    if component not in components:
        raise InvalidOptionError(
            f"no component of the actions is called {component!r}; they have {components or 'no components'}"
        )
    levels = np.array([[action.levels[c] for c in components] for action in world.actions])
    which = components.index(component)
    others = np.delete(levels, which, axis=1)
    return levels[:, which], (others[None, :, :] == others[top][:, None, :]).all(axis=2)


def _wanted_levels(world: TabularMDP, move: Move) -> FloatArray:
    wanted = move.wanted(np.asarray(world.features)) if callable(move.wanted) else move.wanted
    levels = np.asarray(wanted, dtype=np.float64)
    try:
        return np.broadcast_to(levels, (world.n_states,))
    except ValueError:
        raise InvalidOptionError(
            f"move {move.name!r} must want one level, or one for each of {world.n_states} states; got shape "
            f"{levels.shape}"
        ) from None


def _nearest(distance: FloatArray, offered: BoolArray) -> IntArray:
    ranked = np.where(offered, distance, np.inf)
    best = ranked.argmin(axis=1)
    return np.where(np.isfinite(ranked.min(axis=1)), best, -1).astype(np.int64)


def _check_possible(listed: Sequence[Move], choice: IntArray) -> None:
    none = np.flatnonzero(~(choice >= 0).any(axis=1))
    if none.size:
        raise InvalidOptionError(
            f"a move must be possible in some state; {listed[none[0]].name!r} is allowed in none ({none.size} of "
            f"{len(listed)} moves). Hint: leave it out, unfreeze states, or use fallback='nearest'"
        )
