"""Where copies of an environment come from: an id, a factory, or an instance that can be copied.

Copies are kept and used again, because making one is slow. The wrappers that `gymnasium.make` adds to check its users
are taken off; the time limit among them becomes a number that the stepper counts itself.

A second copy is brought into the state of a running one in three ways, tried in this order and verified by stepping
copy and original side by side:

``state``
    ``get_state()`` and ``set_state(state)`` of the environment, with its random generator.
``copy``
    A deep copy.
``replay``
    A fresh environment, reset with the same seed and moved by the same actions.
"""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from importlib.metadata import entry_points
from typing import NoReturn

import numpy as np

from polidiff.errors import InvalidWorldError, MissingExtraError, RestoreError
from polidiff.records.arrays import AnyArray
from polidiff.worlds.gymnasium.spaces import (
    ActionCodec,
    Choice,
    Env,
    EnvAction,
    EnvLike,
    ObservationCodec,
    RealCodec,
    action_codec,
    observation_codec,
)

CHECKING_WRAPPERS = {"TimeLimit", "OrderEnforcing", "PassiveEnvChecker"}
OF_THE_VECTOR = {"num_envs", "vectorization_mode", "vector_kwargs", "wrappers"}
STATIC = ("P", "initial_state_distrib", "observation_space", "action_space", "spec", "metadata")
MOVES_BEFORE = 3
MOVES_AFTER = 6
SEED = 20_260_101


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
        return find_restore(self)

    def choosing(self, choices: tuple[Choice, ...]) -> EnvSource:
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


@cache  # looking through all installed packages takes 15 ms, and a roll-out makes hundreds of copies
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


@dataclass(eq=False)
class Running:
    """An environment in the middle of an episode, with what led there."""

    env: Env
    seed: int
    steps: int = 0
    actions: list[EnvAction] = field(default_factory=list)  # as the environment took them, where they are kept

    def moved(self, action: EnvAction, *, kept: bool) -> None:
        """Count a step."""
        self.steps += 1
        if kept:
            self.actions.append(action)

    def twin(self, env: Env) -> Running:
        """A copy of the environment, as far as this one."""
        return Running(env, self.seed, self.steps, list(self.actions))


@dataclass(frozen=True, eq=False)
class Restore:
    """How to bring a second copy of an environment into the state of a running one."""

    mode: str  # "state", "copy", "replay", or "none" if it cannot be done
    twin: Callable[[Running], Env]


def find_restore(source: EnvSource) -> Restore:
    """The first way that gives a copy which goes on as the original does."""
    ways: dict[str, Callable[[Running], Env]] = {
        "state": lambda running: _by_state(source, running),
        "copy": lambda running: copied(running.env),
        "replay": lambda running: _by_replay(source, running),
    }
    failures: dict[str, str] = {}
    for mode, way in ways.items():
        problem = _first_problem(source, way)
        if problem is None:
            return Restore(mode, way)
        failures[mode] = problem
    return Restore("none", lambda running: _refuse(source, failures))


def _refuse(source: EnvSource, failures: dict[str, str]) -> NoReturn:
    name = type(source.example.unwrapped).__name__
    tried = "; ".join(f"{mode}: {problem}" for mode, problem in failures.items())
    raise RestoreError(
        f"the state of {name} cannot be restored ({tried}). Hint: give it get_state() and set_state(state), make it "
        "deep-copyable, or let reset(seed=...) fix all its randomness (self.np_random)"
    )


def _by_state(source: EnvSource, running: Running) -> Env:
    env = running.env
    if env is not env.unwrapped:
        raise RestoreError("wrappers have state of their own")
    if not (callable(getattr(env, "get_state", None)) and callable(getattr(env, "set_state", None))):
        raise RestoreError("no get_state and set_state")
    other = source.take()
    other.reset(seed=running.seed)
    other.set_state(deepcopy(env.get_state()))
    if getattr(env, "_np_random", None) is not None:
        other.np_random = deepcopy(env.np_random)
    return other


def _by_replay(source: EnvSource, running: Running) -> Env:
    other = source.take()
    other.reset(seed=running.seed)
    for action in running.actions:
        other.step(action)
    return other


def _first_problem(source: EnvSource, way: Callable[[Running], Env]) -> str | None:
    original = source.take()
    rng = np.random.default_rng(SEED)
    try:
        original.reset(seed=SEED)
        moves = source.actions.decode(rng.integers(source.actions.count, size=MOVES_BEFORE + MOVES_AFTER))
        running = Running(original, SEED)
        for action in moves[:MOVES_BEFORE]:
            running.moved(action, kept=True)
            if any(original.step(action)[2:4]):
                original.reset(seed=SEED)
                running.actions.clear()
        return _first_difference(source, original, way(running), moves[MOVES_BEFORE:])
    except Exception as error:
        return _line(error) or type(error).__name__


def _first_difference(source: EnvSource, original: Env, twin: Env, moves: list[EnvAction]) -> str | None:
    """Moves the original to its end first, then the copy, so that shared state shows."""
    expected = _trail(source, original, moves)
    restored = _trail(source, twin, moves)
    for time, (one, other) in enumerate(zip(expected, restored, strict=False)):
        if not np.array_equal(one, other, equal_nan=True):
            return f"the restored environment differs after {time + 1} steps"
    return None if len(expected) == len(restored) else "the restored environment ends at another time"


def _trail(source: EnvSource, env: Env, moves: list[EnvAction]) -> list[AnyArray]:
    trail = []
    for action in moves:
        observation, reward, terminated, truncated, _ = env.step(action)
        row = source.observations.rows([observation]).ravel().astype(np.float64)
        trail.append(np.concatenate([row, np.ravel(reward), [float(terminated), float(truncated)]]))
        if terminated or truncated:
            break
    return trail
