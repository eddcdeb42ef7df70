"""What a log gives the estimators: numbered states (or cells of features), counts, starts, and policies as tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from polidiff.errors import InvalidPolicyError
from polidiff.evaluation.logged.advice import COLUMN, advice_policy
from polidiff.evaluation.logged.behaviour import estimate_behaviour, logged_shares
from polidiff.evaluation.logged.counts import HALVES, Counts, count_log
from polidiff.policies import Policy, TablePolicy, as_policy
from polidiff.records.arrays import FloatArray, IntArray

if TYPE_CHECKING:
    from polidiff.worlds.log import Log

LOG = "log"  # the policy that wrote the log, whatever it was


@dataclass(frozen=True, eq=False)
class CountedLog:
    """A log, counted."""

    counts: Counts
    names: tuple[str, ...]  # of the states or cells
    start_state: IntArray  # (n_starts,) state of each logged start
    start_episodes: IntArray  # (n_starts,)
    average: Callable[[Any], FloatArray]  # policy -> (S, A) probabilities
    row_state: Callable[[], IntArray]  # state or cell of every logged row that is held

    def table(self, policy: Any) -> FloatArray:
        """Probabilities (S, A) of a policy; of "log", the logged shares."""
        if isinstance(policy, str) and policy == LOG:
            return logged_shares(self.counts.edges.visits)
        return self.average(policy)


def counted_log(
    log: Log,
    policies: Sequence[Any] = (),
    regions: Sequence[Any] = (),
    *,
    seed: int = 0,
    blocks: int = HALVES,
) -> CountedLog:
    """A log counted over its states, or over cells fitted to policies and regions if its states are features.

    Two blocks of episodes are there since the log was read; more of them show over how many episodes a pair is spread.
    """
    if not log.discrete:
        from polidiff.evaluation.logged.cells import count_cells_of

        return count_cells_of(log, policies, regions, seed=seed)
    counts = count_log(log, blocks=blocks)
    starts = log.starts.astype(np.int64)
    return CountedLog(
        counts, log.states, starts, log.start_counts, lambda p: state_table(log, p), lambda: log.rows.states
    )


def logged_policy(log: Log, *, seed: int = 0) -> Policy:
    """The policy that wrote the log: from the counts where states are discrete, so that no row is held in memory."""
    if not log.discrete:
        return estimate_behaviour(log, seed=seed).policy
    counts = count_log(log, blocks=HALVES)
    visits = np.zeros((counts.n_states, counts.n_actions))
    np.add.at(visits, (counts.state, counts.action), counts.count)
    return TablePolicy(logged_shares(visits))


def state_table(log: Log, policy: Any) -> FloatArray:
    """Probabilities (S, A) of a policy over discrete states."""
    chosen = as_log_policy(log, policy)
    table = np.asarray(chosen.probabilities(np.arange(log.n_states)), dtype=np.float64)
    if table.shape != (log.n_states, log.n_actions):
        raise InvalidPolicyError(
            f"a policy for this log must give shape {(log.n_states, log.n_actions)}; it gave {table.shape}"
        )
    return table


def as_log_policy(log: Log, policy: Any) -> Any:
    """A policy over the log's actions; one with more actions than the log knows is told how to declare them."""
    if getattr(policy, "kind", None) == "log":
        from polidiff.evaluation.logged.second_log import policy_behind

        return policy_behind(log, policy)
    if isinstance(policy, str) and policy.startswith(COLUMN):
        return advice_policy(log, policy.removeprefix(COLUMN))
    width = getattr(policy, "n_actions", None) if not isinstance(policy, np.ndarray) else None
    if isinstance(policy, np.ndarray) and policy.ndim == 2:
        width = policy.shape[1]
    elif isinstance(policy, np.ndarray) and policy.ndim == 1 and policy.size and policy.dtype.kind in "iuf":
        width = max(int(policy.max()) + 1, log.n_actions)
    if width is not None and not callable(policy) and width > log.n_actions:
        raise InvalidPolicyError(
            f"the policy takes action {log.n_actions}, the log knows {log.n_actions} actions (0 to "
            f"{log.n_actions - 1}). Hint: Log(..., actions={width}) declares actions that nobody has tried"
        )
    return as_policy(policy, actions=log.actions)
