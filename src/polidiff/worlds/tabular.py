"""A decision process written out as a table: every state, every action, every move."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import sparse

from polidiff.errors import InvalidOutcomeError, InvalidWorldError
from polidiff.options import Setting
from polidiff.records.action import Action, ActionNames, as_actions, checked_names
from polidiff.records.arrays import AnyArray, FloatArray, IntArray, object_column, read_only
from polidiff.records.outcome import Outcome, called_gains
from polidiff.worlds import checks
from polidiff.worlds.protocol import check_discount, with_return

if TYPE_CHECKING:
    from polidiff.worlds.gymnasium.spaces import EnvLike


class TabularMDP:
    r"""A known Markov decision process :math:`(S, A, T, R, p_0)` with absorbing states :math:`S_T`.

    Parameters
    ----------
    transitions : array (S, A, S) or sequence of A sparse (S, S) matrices
        :math:`T(s' \mid s, a)`. Rows of absorbing states and of actions that are not allowed do not count.
    rewards : array (S, A)
        :math:`R(s, a)`, the expected reward of a decision; none is paid at absorbing states.
    initial : array (S,)
        :math:`p_0`.
    absorbing : array (S,) of bool, or indices
        States that end an episode.
    actions, states : names, optional
        An action may be a mapping of ordered components to levels.
    features : array (S, d), optional
        What rules speak about; without it a rule names states.
    allowed : array (S, A) of bool, optional
        Which actions exist where.
    discount : float
        1 for plain sums.
    outcomes, return_name, include_return, return_range
        What `explain` and `evaluate` tell about, beside the return; a return within (0, 1) is told in percent.

    Examples
    --------
    >>> world = TabularMDP(np.array([[[0.0, 1.0]], [[0.0, 1.0]]]), [[2.0], [0.0]], [1.0, 0.0], absorbing=[1])
    >>> world.n_states, world.n_actions, [o.name for o in world.outcomes]
    (2, 1, ['return'])
    """

    kind: Literal["table"] = "table"
    notes: tuple[str, ...] = ()  # what every result must say of this world

    def __init__(
        self,
        transitions: checks.Transitions,
        rewards: npt.ArrayLike,
        initial: npt.ArrayLike,
        *,
        absorbing: npt.ArrayLike,
        actions: ActionNames | None = None,
        states: Sequence[str] | None = None,
        features: npt.ArrayLike | None = None,
        feature_names: Sequence[str] | None = None,
        allowed: npt.ArrayLike | None = None,
        discount: float = 1.0,
        outcomes: Sequence[Outcome] = (),
        return_name: str = "return",
        include_return: bool = True,
        return_range: tuple[float, float] | None = None,
    ) -> None:
        stacked, self.n_states, self.n_actions = checks.stacked_transitions(transitions)
        self.absorbing = read_only(checks.check_absorbing(absorbing, self.n_states))
        self.allowed = read_only(checks.check_allowed(allowed, self.absorbing, self.n_actions))
        decides = self.allowed & ~self.absorbing[:, None]
        checks.check_transitions(stacked, decides)
        self.transitions = sparse.csr_array(stacked.multiply(decides.reshape(-1, 1)))  # (S·A, S), row s·A + a
        self.transitions.eliminate_zeros()  # no moves where nothing is decided
        self.rewards = read_only(
            np.where(decides, checks.check_shape("rewards", rewards, (self.n_states, self.n_actions)), 0.0)
        )
        self.initial = read_only(checks.check_initial(initial, self.n_states))
        if self.absorbing[self.initial > 0].all():
            raise InvalidWorldError(
                f"a table needs a start in which something is decided; all {np.count_nonzero(self.initial)} are "
                "absorbing. Hint: absorbing marks where an episode has ended"
            )
        self.discount = check_discount(discount)
        self.actions: tuple[Action, ...] = as_actions(actions, self.n_actions)
        self._states = None if states is None else checked_names("state", states, self.n_states)
        self.features, self.feature_names = _feature_table(features, feature_names, self.n_states)
        self.return_outcome, self.outcomes = with_return(
            outcomes, return_name, include_return, of=self.rewards, range_=return_range
        )

    @cached_property
    def states(self) -> tuple[str, ...]:
        """Names of the states."""
        return self._states if self._states is not None else tuple(f"s{s}" for s in range(self.n_states))

    @property
    def told_outcomes(self) -> tuple[Outcome, ...]:
        """The outcomes, the return among them: plans are told with it, because it is what they improve."""
        return self.outcomes if self.return_outcome in self.outcomes else (self.return_outcome, *self.outcomes)

    @cached_property
    def cumulative(self) -> FloatArray:
        """Running sum over all entries of `transitions`, for sampling rows by inversion."""
        return np.asarray(np.cumsum(self.transitions.data))

    @property
    def has_features(self) -> bool:
        """Whether rules can speak about features; else they name states."""
        return self.features is not None

    @property
    def starts(self) -> IntArray:
        """States in which an episode may begin."""
        return np.flatnonzero(self.initial > 0)

    def features_of(self, states: AnyArray) -> AnyArray:
        """Feature rows of the given state indices; without features, one column of state names."""
        index = np.asarray(states, dtype=np.int64).ravel()
        return object_column([self.states[s] for s in index]) if self.features is None else self.features[index]

    def known_features(self) -> AnyArray | None:
        """Features (S, d) of all states."""
        return self.features_of(np.arange(self.n_states))

    def policy_moves(self, table: FloatArray) -> sparse.csr_array:
        r"""Next-state probabilities under a policy, :math:`P_\pi(s, s') = \sum_a \pi(a \mid s)\, T(s' \mid s, a)`."""
        weights = np.where(self.allowed, table, 0.0)
        if (weights.max(axis=1) == 1).all():
            rows = np.arange(self.n_states) * self.n_actions + weights.argmax(axis=1)
            return sparse.csr_array(self.transitions[rows])
        rows_of = np.repeat(np.arange(self.n_states), self.n_actions)
        mix = sparse.csr_array(
            (weights.ravel(), (rows_of, np.arange(weights.size))), shape=(self.n_states, weights.size)
        )
        mixed = sparse.csr_array(mix @ self.transitions)
        mixed.eliminate_zeros()
        return mixed

    def outcome_table(self, outcome: Outcome) -> FloatArray:
        """What each decision adds to an outcome in expectation, (S, A); 0 at absorbing states."""
        decides = self.allowed & ~self.absorbing[:, None]
        of = outcome.of
        if isinstance(of, str):
            raise InvalidOutcomeError(
                f"outcome {outcome.name!r} reads {of!r}, which a table does not have. Hint: give an (S, A) array or a "
                "function g(states, actions, next_states)"
            )
        if callable(of):
            values = self._expected_over_moves(outcome)
        else:
            array = np.asarray(of, dtype=np.float64)
            if array.shape == (self.n_states,):
                array = array[:, None]
            try:
                values = np.broadcast_to(array, decides.shape)
            except ValueError:
                raise InvalidOutcomeError(
                    f"outcome {outcome.name!r} must be an array {decides.shape} or ({self.n_states},); "
                    f"got shape {array.shape}"
                ) from None
        values = np.where(decides, values, 0.0)
        bad = np.argwhere(~(np.abs(values) <= checks.LARGEST))
        if bad.size:
            raise InvalidOutcomeError(
                f"outcome {outcome.name!r} must be finite, within ±{checks.LARGEST:g}; at {self.states[bad[0][0]]}, "
                f"{self.actions[bad[0][1]].name} it is {values[tuple(bad[0])]}"
            )
        return values

    def _expected_over_moves(self, outcome: Outcome) -> FloatArray:
        moves = sparse.coo_array(self.transitions)
        states, chosen = np.divmod(moves.row.astype(np.int64), self.n_actions)
        values = called_gains(outcome, states, chosen, moves.col.astype(np.int64))
        expected = np.bincount(moves.row, weights=moves.data * values, minlength=self.n_states * self.n_actions)
        return np.asarray(expected.reshape(self.n_states, self.n_actions), dtype=np.float64)

    @classmethod
    def from_gymnasium(cls, env: EnvLike, **options: Setting) -> TabularMDP:
        """The exact table of an environment with a ``P`` attribute (FrozenLake, Taxi, CliffWalking, …)."""
        from polidiff.worlds.gymnasium import describe, table_of

        world, limit = cls(**{**table_of(env), **options}), describe(env)["horizon"]
        if limit is not None:
            world.notes = (f"The environment stops after {limit} steps; its exact table, used here, does not.",)
        return world

    @classmethod
    def from_prism(
        cls,
        source: str | Path,
        objective: str,
        *,
        constants: Mapping[str, float] | str | None = None,
        **options: Setting,
    ) -> TabularMDP:
        """The table of a model in the PRISM language, built by Storm (extra ``storm``).

        Parameters
        ----------
        source : path
            An ``mdp`` or ``dtmc``. Its variables become features, its other reward structures outcomes.
        objective : str
            ``Rmax=? [F "done"]``, ``Pmax=? [F "done"]`` or ``Pmax=? [safe U "done"]``, with max or min: where an
            episode ends and what it returns (with min, the negative).
        constants : mapping or text, optional
            Values of constants that the model leaves open, such as ``{"N": 3}``.
        **options
            What else `TabularMDP` takes, in place of what the model says.
        """
        from polidiff.worlds.prism import table_of

        return cls(**{**table_of(source, objective, constants), **options})

    def to_prism(self, path: str | Path | None = None) -> str:
        """The table as a model in the PRISM language, also written to `path` if one is given.

        The label ``"end"`` holds where episodes end, so that the return is ``R{"return"}=? [F "end"]``.

        Examples
        --------
        >>> world = TabularMDP(np.array([[[0.0, 1.0]], [[0.0, 1.0]]]), [[2.0], [0.0]], [1.0, 0.0], absorbing=[1])
        >>> print(world.to_prism().split("endmodule")[0])
        mdp
        <BLANKLINE>
        module table
          state : [0..1] init 0;
          [action_0] state=0 -> 1.0:(state'=1);
          [] (state=1) -> true;
        <BLANKLINE>
        """
        from polidiff.worlds.prism import prism_text

        text = prism_text(self)
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text


Transition: TypeAlias = tuple[int, int, int, float]  # action, state, next state, probability


def move_matrices(moves: Sequence[Transition], n_actions: int, n_states: int) -> list[sparse.csr_array]:
    """One matrix (S, S) per action from moves; those between the same states are added."""
    action, state, target, chance = map(np.array, zip(*moves, strict=True))
    shape = (n_states, n_states)
    return [
        sparse.csr_array((chance[own], (state[own], target[own])), shape=shape)
        for own in (action == number for number in range(n_actions))
    ]


def _feature_table(
    features: npt.ArrayLike | None, names: Sequence[str] | None, count: int
) -> tuple[AnyArray | None, tuple[str, ...]]:
    if features is None:
        if names is not None:
            raise InvalidWorldError("feature_names without features. Hint: give features= as an (S, d) array")
        return None, ("state",)
    table = checks.as_table("features", features)
    if table.ndim != 2 or len(table) != count:
        raise InvalidWorldError(f"features must have shape ({count}, d); got {table.shape}")
    named = [f"x{j}" for j in range(table.shape[1])] if names is None else names
    given = checked_names("feature", named, table.shape[1])
    return read_only(checks.check_features(table, given)), given
