"""A world that can be stepped: a Gymnasium environment, or a vectorised model."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Literal

import numpy as np

from polidiff.errors import InvalidInputError, InvalidWorldError
from polidiff.options import Setting, check_count
from polidiff.records.action import Action, ActionNames, as_actions, listed
from polidiff.records.arrays import AnyArray, FloatArray, object_column
from polidiff.records.outcome import Outcome
from polidiff.worlds.checks import check_features
from polidiff.worlds.protocol import with_return
from polidiff.worlds.steppers import Model, ModelStepper, Stepper

if TYPE_CHECKING:
    from polidiff.worlds.gymnasium.spaces import Choice, EnvLike, RealCodec


REWARD = "reward"
STATE_NUMBER = ("state number",)
LONGEST = 10_000


class Simulator:
    """A world in which episodes can be played.

    Parameters
    ----------
    env : Gymnasium environment, id or factory; or a vectorised model
        A model has ``n_actions``, ``reset(count, rng)`` and ``step(states, actions, rng)``.
    horizon : int, optional
        Sums run over the first `horizon` decisions; by default the environment's own limit, else 10,000.
    actions : names or levels, optional
        A name per action. An environment that takes real numbers may be given names of these, or levels to choose
        among, (A,) or (A, d); without levels policies are compared by what they do more or less.
    features : callable, optional
        From a batch of observations to what rules speak about (n, d); by default the observation itself.
    feature_names : sequence of str, optional
        Names of the features.
    outcomes, return_name, include_return
        What `explain` and `evaluate` tell about, beside the return.

    Examples
    --------
    >>> from polidiff import evaluate
    >>> from polidiff.domains.navigation import NavigationModel, current
    >>> world = Simulator(NavigationModel(), feature_names=["x", "y"])
    >>> world.n_actions, evaluate(world, current, episodes=200).outcomes["return"].low > 0
    (3, True)
    """

    kind: Literal["simulator"] = "simulator"
    notes: tuple[str, ...] = ()

    def __init__(
        self,
        env: EnvLike | Model,
        *,
        horizon: int | None = None,
        actions: ActionNames | None = None,
        features: Callable[[AnyArray], AnyArray] | None = None,
        feature_names: Sequence[str] | None = None,
        outcomes: Sequence[Outcome] = (),
        return_name: str = "return",
        include_return: bool = True,
    ) -> None:
        check_count("horizon", horizon)
        self.env = env
        is_model = all(hasattr(env, name) for name in ("n_actions", "reset", "step"))
        self.is_model = is_model and not hasattr(env, "action_space")
        described = _described(env, self.is_model)
        self._source: EnvLike = described.get("source", env)  # keeps copies of an environment for the next batch
        self.n_actions = int(described["n_actions"])
        self.real: RealCodec | None = described.get("real")  # bounds of an environment that takes real numbers
        self.component_names: tuple[str, ...] = described.get("components") or ()
        self.levels: FloatArray | None = None  # (A, d) among which these are chosen
        self.choices: RealCodec | None = None  # the same, where each depends on the state
        if self.real is not None and actions is not None:
            actions = self._real_actions(actions, self.real)
        self.actions: tuple[Action, ...] = as_actions(
            actions if actions is not None else described.get("actions"), self.n_actions
        )
        self.horizon = int(horizon) if horizon is not None else int(described.get("horizon") or LONGEST)
        self._features = features
        known: tuple[str, ...] = ()
        self.rows: AnyArray | None = None  # (S, d) what numbered states stand for
        numbered = described.get("numbered") if features is None else None
        if numbered is not None and (feature_names is None or len(feature_names) == len(numbered[0])):
            known, self.rows = numbered
        names = feature_names if feature_names is not None else known or described.get("feature_names")
        self._names = None if names is None else tuple(map(str, listed("feature_names", names)))
        self.categorical = bool(described.get("categorical", False)) and features is None and not known
        self.return_outcome, self.outcomes = with_return(outcomes, return_name, include_return, of=REWARD)

    def _real_actions(self, given: ActionNames, real: RealCodec) -> ActionNames | None:
        """Names of the components of a real action, or levels (A,) or (A, d) to choose among."""
        if all(isinstance(name, str) for name in given):
            if len(given) != real.width:
                raise InvalidWorldError(f"the environment takes {real.width} numbers; {len(given)} names are given")
            self.component_names = tuple(str(name) for name in given)
            return None
        try:
            levels = np.array(given, dtype=np.float64).reshape(len(given), real.width)
        except (TypeError, ValueError):
            raise InvalidWorldError(
                f"the environment takes {real.width} real numbers; actions must name them, or list levels of "
                f"shape (levels, {real.width})"
            ) from None
        outside = np.flatnonzero(((levels < real.low) | (levels > real.high)).any(axis=1))
        if outside.size or len(levels) < 2:
            raise InvalidWorldError(
                f"at least two levels must lie between {real.low} and {real.high}; "
                f"{f'level {outside[0]} is {levels[outside[0]]}' if outside.size else 'one is given'}"
            )
        self.levels, self.n_actions = levels, len(levels)
        self._source = self._source.choosing(tuple(partial(constant, level) for level in levels))
        return [dict(zip(self.component_names, level.tolist(), strict=True)) for level in levels]

    def with_choices(self, choices: Sequence[Choice], names: Sequence[str]) -> Simulator:
        """The same world, where actions are choices among real numbers, functions of states (n, …) to (n, d)."""
        world = copy(self)
        world._source, world.real = self._source.choosing(tuple(choices)), None
        world.choices = world._source.actions
        world.n_actions, world.actions = len(choices), as_actions(list(names), len(choices))
        return world

    @property
    def chunk(self) -> int:
        """How many episodes run side by side."""
        return 8192 if self.is_model else 512

    @property
    def split_chunk(self) -> int:
        """How many starts are one task of the splitting roll-outs, each of which plays many copies."""
        return 1000 if self.is_model else 25

    def stepper(self, count: int, seed: tuple[int, ...], info_keys: Sequence[str] = ()) -> Stepper:
        """`count` episodes at their start."""
        if self.is_model:
            return ModelStepper.start(self.env, count, seed)
        from polidiff.worlds.gymnasium import GymnasiumStepper

        seeds = np.random.SeedSequence(seed).generate_state(count)
        return GymnasiumStepper.start(self._source, seeds.astype(np.int64), info_keys=tuple(info_keys))

    @property
    def has_features(self) -> bool:
        """Whether rules speak about features; else they name states."""
        return not self.categorical

    def with_numbers(self) -> Simulator:
        """The same world, whose rules speak about the numbers of states that nothing else is known of."""
        if not self.categorical:
            return self
        world = copy(self)
        world._names, world.categorical, world._features = STATE_NUMBER, False, _as_column
        return world

    @property
    def sees_features(self) -> bool:
        """Whether an observation is its features, so that one can be made from the other."""
        return self._features is None and not self.categorical and self.rows is None

    def numbered_as(self, values: Sequence[object]) -> AnyArray | None:
        """The number (1,) of the state that stands for these features; None where there is none, or several."""
        if self.rows is None or len(values) != self.rows.shape[1]:
            return None
        found = np.flatnonzero((self.rows == np.array(values, dtype=np.float64)).all(axis=1))
        return found if len(found) == 1 else None

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of what rules speak about."""
        if self._names is None:
            states = self.stepper(1, (0,)).states
            self._names = tuple(f"x{j}" for j in range(self._raw_features(states).shape[1]))
        return self._names

    def features_of(self, states: AnyArray) -> AnyArray:
        """What rules speak about, (n, d)."""
        rows = self._raw_features(states)
        if self._names is not None and rows.shape[1] != len(self._names):
            raise InvalidWorldError(
                f"expected {len(self._names)} features {list(self._names)}; the features have {rows.shape[1]} columns"
            )
        return check_features(rows, self.feature_names)

    def known_features(self) -> AnyArray | None:
        """None: what can be met is not known."""
        return None

    def _raw_features(self, states: AnyArray) -> AnyArray:
        batch = np.asarray(states)
        if self.rows is not None:
            index = batch.ravel().astype(np.int64)
            if (off := index[(index < 0) | (index >= len(self.rows))]).size:
                raise InvalidInputError(f"states are numbered from 0 to {len(self.rows) - 1}; got {off[0]}")
            return np.asarray(self.rows[index], dtype=np.float64)
        if self._features is None:
            if self.categorical:
                return object_column([f"s{int(s)}" for s in batch.ravel()])
            return batch.reshape(len(batch), math.prod(batch.shape[1:])).astype(np.float64)
        rows = np.asarray(self._features(batch))
        if rows.ndim != 2 or len(rows) != len(batch):
            raise InvalidWorldError(
                f"features must map {len(batch)} observations to ({len(batch)}, d); it gave shape {rows.shape}"
            )
        return rows


def constant(level: FloatArray, states: AnyArray) -> FloatArray:
    """The same numbers (n, d) in every state."""
    return np.broadcast_to(level, (len(states), len(level)))


def _as_column(states: AnyArray) -> AnyArray:
    return np.asarray(states, dtype=np.float64).reshape(-1, 1)


def _described(env: EnvLike | Model, is_model: bool) -> dict[str, Setting]:
    if is_model:
        return {name: getattr(env, name, None) for name in ("n_actions", "actions", "feature_names", "horizon")}
    from polidiff.worlds.gymnasium import describe

    return describe(env)
