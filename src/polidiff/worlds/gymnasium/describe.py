"""What a world needs to know about an environment before the first step, with the names that everybody knows.

The exact table of an environment that carries one: ``P[s][a] = [(probability, next state, reward, done), …]``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from polidiff.errors import InvalidWorldError
from polidiff.options import Setting
from polidiff.records.arrays import AnyArray, BoolArray, FloatArray
from polidiff.worlds.checks import reachable_from
from polidiff.worlds.gymnasium.source import as_source, peeled
from polidiff.worlds.gymnasium.spaces import Env, EnvLike, RealCodec
from polidiff.worlds.tabular import Transition, move_matrices

_CART = ("position", "velocity", "angle", "angular velocity")
_LANDER = (
    "x",
    "height",
    "x velocity",
    "vertical velocity",
    "angle",
    "angular velocity",
    "left leg down",
    "right leg down",
)

FEATURES: dict[str, tuple[str, ...]] = {
    "CartPoleEnv": _CART,
    "CartPoleVectorEnv": _CART,
    "MountainCarEnv": ("position", "velocity"),
    "Continuous_MountainCarEnv": ("position", "velocity"),
    "AcrobotEnv": ("cos angle 1", "sin angle 1", "cos angle 2", "sin angle 2", "velocity 1", "velocity 2"),
    "PendulumEnv": ("cos angle", "sin angle", "angular velocity"),
    "LunarLander": _LANDER,
    "BlackjackEnv": ("player sum", "dealer card", "usable ace"),
}

ACTIONS: dict[str, tuple[str, ...]] = {
    "CartPoleEnv": ("push left", "push right"),
    "CartPoleVectorEnv": ("push left", "push right"),
    "MountainCarEnv": ("push left", "coast", "push right"),
    "AcrobotEnv": ("torque -1", "torque 0", "torque +1"),
    "LunarLander": ("nothing", "left engine", "main engine", "right engine"),
    "BlackjackEnv": ("stick", "hit"),
    "FrozenLakeEnv": ("left", "down", "right", "up"),
    "CliffWalkingEnv": ("up", "right", "down", "left"),
    "TaxiEnv": ("south", "north", "east", "west", "pick up", "drop off"),
}


COMPONENTS: dict[str, tuple[str, ...]] = {
    "PendulumEnv": ("torque",),
    "Continuous_MountainCarEnv": ("push",),
    "LunarLander": ("main engine", "side engine"),
    "BipedalWalker": ("hip 1", "knee 1", "hip 2", "knee 2"),
}
END = "end"


MoveTable: TypeAlias = Mapping[int, Mapping[int, Sequence[tuple[float, int, float, bool]]]]
# state, action → (p, next, reward, end)


def known_names(env: Env, names: dict[str, tuple[str, ...]], count: int) -> tuple[str, ...] | None:
    """The names for an environment, by its class or a parent of it; None if there are none or their number differs."""
    for cls in type(env.unwrapped).__mro__:
        known = names.get(cls.__name__)
        if known is not None:
            return known if len(known) == count else None
    return None


def describe(origin: EnvLike) -> dict[str, Setting]:
    """Number and names of actions, names of features, time limit, and whether observations are numbers of states.

    Returns
    -------
    dict
        ``real`` and ``components`` (bounds and names of numbers that the environment takes, else None), ``n_actions``,
        ``actions`` (names, mappings of levels, or None), ``feature_names``, ``horizon`` (None without a
        time limit), ``categorical`` (whether observations are state indices), ``numbered`` (what these stand for, names
        and values, where that is known) and ``source``, which keeps copies of the environment between batches.
    """
    source = as_source(origin)
    env, actions, observations = source.example, source.actions, source.observations
    spec = getattr(env, "spec", None)
    real = actions if isinstance(actions, RealCodec) else None
    width = 0 if real is None else real.width
    core, bare = env.unwrapped, peeled(env)[0] is env.unwrapped  # a wrapper may number states in another way
    plain = ("action",) if width == 1 else tuple(f"action {j}" for j in range(width))
    return {
        "real": real,
        "components": known_names(env, COMPONENTS, width) or plain or None,
        "n_actions": actions.count,
        "actions": actions.names or (known_names(env, ACTIONS, actions.count) if real is None else ("its own",)),
        "feature_names": known_names(env, FEATURES, len(observations.names)) or observations.names,
        "horizon": source.time_limit or getattr(spec, "max_episode_steps", None),
        "categorical": observations.index,
        "numbered": natural_features(core, int(core.observation_space.n)) if observations.index and bare else None,
        "source": source,
    }


def table_of(origin: EnvLike) -> dict[str, Setting]:
    """Keyword arguments for `TabularMDP` from an environment, id or factory.

    An episode ends on arrival at a state that is entered with ``done``. A state that can also be entered, or started
    in, without it cannot end the episode by itself: moves that end there go to one extra absorbing state "end".
    A time limit is not part of the table.
    """
    env = as_source(origin).example.unwrapped
    table = _checked_table(env)
    n_states, n_actions = len(table), len(table[0])
    initial = _initial(env, n_states)
    passed = _passed_through(table, initial)
    moves: list[Transition] = []
    rewards = np.zeros((n_states + 1, n_actions))
    absorbing = np.zeros(n_states + 1, dtype=np.bool_)
    for state, action, probability, next_state, reward, done in _entries(table):
        target = n_states if done and passed[next_state] else next_state
        absorbing[target] |= done
        moves.append((action, state, target, probability))
        rewards[state, action] += probability * reward
    size = n_states + int(absorbing[n_states])
    described = _descriptions(env, n_states, size)
    return {
        "transitions": move_matrices(moves, n_actions, size),
        "rewards": rewards[:size],
        "initial": np.concatenate([initial, np.zeros(size - n_states)]),
        "absorbing": absorbing[:size],
        "actions": known_names(env, ACTIONS, n_actions),
        **described,
    }


def _checked_table(env: Env) -> MoveTable:
    name = type(env).__name__
    table = getattr(env, "P", None)
    if table is None:
        raise InvalidWorldError(
            f"{name} has no table P of its transitions. Hint: use Simulator(env), which plays episodes"
        )
    if getattr(env, "fickle_passenger", False):
        raise InvalidWorldError(
            f"{name} with a fickle passenger acts otherwise than its table P says. Hint: use Simulator(env)"
        )
    return table


def _initial(env: Env, n_states: int) -> FloatArray:
    given = getattr(env, "initial_state_distrib", None)
    if given is None:
        raise InvalidWorldError(
            f"{type(env).__name__} has a table P but no initial_state_distrib, so where episodes begin is not known. "
            "Hint: set env.unwrapped.initial_state_distrib to an array of probabilities"
        )
    initial = np.asarray(given, dtype=np.float64).ravel()
    if initial.shape != (n_states,):
        raise InvalidWorldError(f"initial_state_distrib must have {n_states} entries; got {initial.size}")
    return initial


def _entries(table: MoveTable) -> Iterator[tuple[int, int, float, int, float, bool]]:
    for state in range(len(table)):
        for action in range(len(table[0])):
            for probability, next_state, reward, done in table[state][action]:
                if probability > 0:
                    yield state, action, float(probability), int(next_state), float(reward), bool(done)


def _passed_through(table: MoveTable, initial: FloatArray) -> BoolArray:
    """States in which an episode that began at a start may go on."""
    ways = [(0, state, to, chance) for state, _, chance, to, _, done in _entries(table) if not done]
    return reachable_from(move_matrices(ways, 1, len(table))[0], initial > 0) if ways else initial > 0


def _descriptions(env: Env, n_states: int, size: int) -> dict[str, Setting]:
    """Names and features of the states, where the environment has natural ones."""
    features = natural_features(env, n_states)
    if features is None:
        return {"states": [*(f"s{s}" for s in range(n_states)), END]} if size > n_states else {}
    names, rows = features
    states = [", ".join(f"{name} {value}" for name, value in zip(names, row, strict=True)) for row in rows.tolist()]
    if size > n_states:
        states.append(END)
        rows = np.vstack([rows, np.full(rows.shape[1], -1)])
    return {"states": states, "features": rows, "feature_names": names}


def natural_features(env: Env, n_states: int) -> tuple[tuple[str, ...], AnyArray] | None:
    """Names and values (S, d) of what numbered states stand for, such as row and column, where that is known."""
    kinds = {cls.__name__ for cls in type(env).__mro__}
    index = np.arange(n_states)
    if "FrozenLakeEnv" in kinds:
        return ("row", "column"), np.stack(np.divmod(index, env.ncol), axis=1)
    if "CliffWalkingEnv" in kinds:
        return ("row", "column"), np.stack(np.divmod(index, env.shape[1]), axis=1)
    if "TaxiEnv" in kinds:
        rows = np.array([list(env.decode(state)) for state in range(n_states)])
        return ("taxi row", "taxi column", "passenger", "destination"), rows
    return None
