"""Where copies of an environment come from: an id, a factory, or an instance that can be copied.

Copies are kept and used again, because making one is slow. The wrappers that `gymnasium.make` adds to check its users
are taken off; the time limit among them becomes a number that the stepper counts itself.
"""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from functools import cached_property
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

import numpy as np

from polidiff.errors import InvalidWorldError, MissingExtraError
from polidiff.records.arrays import AnyArray, FloatArray
from polidiff.worlds.gymnasium.spaces import (
    ActionCodec,
    Env,
    EnvLike,
    ObservationCodec,
    RealCodec,
    action_codec,
    observation_codec,
)

if TYPE_CHECKING:
    from polidiff.worlds.gymnasium.restore import Restore


CHECKING_WRAPPERS = {"TimeLimit", "OrderEnforcing", "PassiveEnvChecker"}
OF_THE_VECTOR = {"num_envs", "vectorization_mode", "vector_kwargs", "wrappers"}
STATIC = ("P", "initial_state_distrib", "observation_space", "action_space", "spec", "metadata")


class EnvSource:
    """Copies of one environment, with what all of them share.

    Parameters
    ----------
    origin : str, environment or callable
        An id, an instance (never stepped itself, only copied), or a function that makes one.
    """

    def __init__(self, origin: EnvLike, choices: RealCodec | None = None) -> None:
        self.origin = origin
        self.choices = choices
        self._free: list[Env] = []

    def __reduce__(self) -> tuple[object, ...]:
        return EnvSource, (self.origin, self.choices)

    @cached_property
    def _make(self) -> Callable[[], Env]:
        return _maker(self.origin)

    @cached_property
    def example(self) -> Env:
        """An environment with all its wrappers, to look at."""
        return self._make()

    @cached_property
    def is_vector(self) -> bool:
        """Whether the environment steps many episodes at once and cannot be taken apart."""
        return is_vector(self.example)

    @cached_property
    def time_limit(self) -> int | None:
        """After how many steps an episode is cut off, if the environment was made with a limit."""
        return peeled(self.example)[1]

    @cached_property
    def observations(self) -> ObservationCodec:
        """From observations to rows."""
        env = self.example
        return observation_codec(env.single_observation_space if self.is_vector else env.observation_space)

    @cached_property
    def actions(self) -> ActionCodec | RealCodec:
        """From action indices to what the environment takes."""
        if self.choices is not None:
            return self.choices
        env = self.example
        return action_codec(env.single_action_space if self.is_vector else env.action_space)

    @cached_property
    def restore(self) -> Restore:
        """How the state of a running environment is restored, found out once."""
        from polidiff.worlds.gymnasium.restore import find_restore

        return find_restore(self)

    def choosing(self, choices: tuple[Callable[[AnyArray], FloatArray], ...]) -> EnvSource:
        """The same environment, whose actions are choices among real numbers."""
        actions = self.actions
        assert isinstance(actions, RealCodec)
        return EnvSource(self.origin, replace(actions, choices=choices))

    def take(self) -> Env:
        """A copy without checking wrappers, used before or new."""
        return self._free.pop() if self._free else peeled(self._make())[0]

    def give_back(self, envs: list[Env]) -> None:
        """Keep copies that are no longer needed."""
        self._free.extend(envs)


def as_source(origin: EnvLike) -> EnvSource:
    """The source of an id, factory or instance; a source is returned as it is."""
    return origin if isinstance(origin, EnvSource) else EnvSource(origin)


def is_vector(env: Env) -> bool:
    """Whether an environment steps many episodes at once."""
    return hasattr(env, "single_action_space") and hasattr(env, "num_envs")


def peeled(env: Env) -> tuple[Env, int | None]:
    """The environment without outer checking wrappers, and the time limit that they carried."""
    limit: int | None = None
    while type(env).__name__ in CHECKING_WRAPPERS and hasattr(env, "env"):
        own = getattr(env, "_max_episode_steps", None) if type(env).__name__ == "TimeLimit" else None
        limit = own if limit is None else min(limit, own or limit)
        env = env.env
    return env, limit


def copied(env: Env) -> Env:
    """A copy with its own state and luck; tables and spaces, which never change, are shared."""
    core = env.unwrapped
    memo = {id(part): part for part in (getattr(core, name, None) for name in STATIC) if part is not None}
    generator = getattr(core, "_np_random", None)
    if isinstance(generator, np.random.Generator):
        memo[id(generator)] = _same_luck(generator)
    return deepcopy(env, memo)


def _same_luck(generator: np.random.Generator) -> np.random.Generator:
    """A generator in the same state, ten times faster than a deep copy."""
    bits = type(generator.bit_generator)(0)
    bits.state = generator.bit_generator.state
    return np.random.Generator(bits)


def made(env_id: str, **options: object) -> Env:
    """The environment registered under an id; an unknown id is answered with its nearest neighbours."""
    try:
        import gymnasium
    except ImportError:
        raise MissingExtraError("gymnasium", "gym") from None
    if isinstance(env_id, str):
        _register_namespace(env_id)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*is out of date", category=DeprecationWarning)
            return gymnasium.make(env_id, disable_env_checker=True, **options)
    except gymnasium.error.DependencyNotInstalled as error:
        raise InvalidWorldError(f"environment {env_id!r} needs a library that is not installed: {error}") from None
    except (gymnasium.error.Error, ModuleNotFoundError) as error:
        near = near_misses(env_id, list(gymnasium.registry))
        hint = f"did you mean {', '.join(near)}?" if near else "import the package that registers it first"
        raise InvalidWorldError(f"{env_id!r} is not a registered environment ({_line(error)}). Hint: {hint}") from None


def _register_namespace(env_id: str) -> None:
    """Let the installed package that declares the namespace of an id register its environments."""
    namespace = env_id.rpartition("/")[0]
    if namespace and ":" not in env_id:
        for entry in entry_points(group="gymnasium.envs", name=namespace):
            entry.load()()


def near_misses(env_id: str, known: list[str]) -> list[str]:
    """Registered ids of the same name and another version, then those spelled alike.

    >>> near_misses("Taxi-v3", ["Taxi-v4", "TaxiLong-v0", "CartPole-v1"])
    ['Taxi-v4']
    >>> near_misses("cartpole-v1", ["Taxi-v4", "CartPole-v1"])
    ['CartPole-v1']
    """
    name = env_id.rpartition("-v")[0] or env_id
    versions = [other for other in known if other.rpartition("-v")[0] == name]
    if versions:
        return versions
    lower = {other.lower(): other for other in known}
    return [lower[match] for match in difflib.get_close_matches(env_id.lower(), list(lower), n=3, cutoff=0.6)]


def _maker(origin: EnvLike) -> Callable[[], Env]:
    if isinstance(origin, str):
        return lambda: made(origin)
    if isinstance(origin, type):
        return lambda: _checked(origin())
    if is_vector(origin):
        return _part_maker(origin)
    if callable(getattr(origin, "step", None)) and callable(getattr(origin, "reset", None)):
        return _copier(origin)
    if callable(origin):
        return lambda: _checked(origin())
    raise InvalidWorldError(
        f"expected a Gymnasium environment, an id or a factory; got {type(origin).__name__}. Hint: 'CartPole-v1', "
        "or lambda: MyEnv()"
    )


def _part_maker(vector: Env) -> Callable[[], Env]:
    """How one environment of a vector is made; where the vector does not tell, how the vector is copied."""
    functions = getattr(vector, "env_fns", None)
    if isinstance(functions, (list, tuple)) and functions:
        return lambda: _made_by(functions[0], vector)
    parts = getattr(vector, "envs", None)
    return _copier(parts[0]) if isinstance(parts, (list, tuple)) and parts else lambda: deepcopy(vector)


def _made_by(function: Callable[[], Env], vector: Env) -> Env:
    try:
        return function()
    except TypeError:  # in Gymnasium 1.0 `make_vec` adds its own options to those that the function has kept
        spec = getattr(vector, "spec", None)
        if spec is None:
            raise
        env = made(spec.id, **{name: value for name, value in spec.kwargs.items() if name not in OF_THE_VECTOR})
        for wrapper in spec.kwargs.get("wrappers", ()):
            env = wrapper(env)
        return env


def _copier(env: Env) -> Callable[[], Env]:
    if not hasattr(env, "action_space") or not hasattr(env, "observation_space"):
        raise InvalidWorldError(
            f"an environment needs action_space and observation_space; {type(env).__name__} has not both. Hint: a "
            "vectorised model needs n_actions, reset(count, rng) and step(states, actions, rng)"
        )
    try:
        template = copied(env)
    except Exception as error:
        spec = getattr(env, "spec", None)
        if spec is None:
            raise InvalidWorldError(
                f"{type(env).__name__} cannot be copied ({_line(error)}) and has no spec. Hint: give a factory, "
                "lambda: MyEnv(), instead of an instance"
            ) from None
        return lambda: made(spec)
    return lambda: copied(template)


def _checked(env: Env) -> Env:
    if not (hasattr(env, "step") and hasattr(env, "reset")):
        raise InvalidWorldError(f"the factory must return an environment; it returned {type(env).__name__}")
    return env


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())
