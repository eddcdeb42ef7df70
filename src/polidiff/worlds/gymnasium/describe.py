"""What a world needs to know about an environment before the first step, with the names that everybody knows."""

from __future__ import annotations

from polidiff.options import Setting
from polidiff.worlds.gymnasium.source import as_source
from polidiff.worlds.gymnasium.spaces import Env, EnvLike, RealCodec

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


def known_names(env: Env, names: dict[str, tuple[str, ...]], count: int) -> tuple[str, ...] | None:
    """The names for an environment, by its class or a parent of it; None if there are none or their number differs."""
    for cls in type(env.unwrapped).__mro__:
        known = names.get(cls.__name__)
        if known is not None:
            return known if len(known) == count else None
    return None


def _components(env: Env, width: int) -> tuple[str, ...]:
    plain = ("action",) if width == 1 else tuple(f"action {j}" for j in range(width))
    return known_names(env, COMPONENTS, width) or plain


def describe(origin: EnvLike) -> dict[str, Setting]:
    """Number and names of actions, names of features, time limit, and the kind of observation.

    Returns
    -------
    dict
        ``real`` and ``components`` (bounds and names of numbers that the environment takes, else None), ``n_actions``,
        ``actions`` (names, mappings of levels, or None), ``feature_names``, ``horizon`` (None without a
        time limit), ``kind`` ("index", "box" or "mixed"), ``categorical`` (whether observations are state indices) and
        ``source``, which keeps copies of the environment between batches.
    """
    source = as_source(origin)
    env, actions, observations = source.example, source.actions, source.observations
    spec = getattr(env, "spec", None)
    real = actions if isinstance(actions, RealCodec) else None
    return {
        "real": real,
        "components": None if real is None else _components(env, real.width),
        "n_actions": actions.count,
        "actions": actions.names or (known_names(env, ACTIONS, actions.count) if real is None else ("its own",)),
        "feature_names": known_names(env, FEATURES, len(observations.names)) or observations.names,
        "horizon": source.time_limit or getattr(spec, "max_episode_steps", None),
        "kind": observations.kind,
        "categorical": observations.kind == "index",
        "source": source,
    }
