"""Names of actions and of observed quantities in the tasks everybody knows."""

from __future__ import annotations

from typing import Any

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


def known_names(env: Any, names: dict[str, tuple[str, ...]], count: int) -> tuple[str, ...] | None:
    """The names for an environment, by its class or a parent of it; None if there are none or their number differs."""
    for cls in type(env.unwrapped).__mro__:
        found = names.get(cls.__name__)
        if found is not None:
            return found if len(found) == count else None
    return None
