"""Which column plays which part, checked against the table before any row is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from polidiff.errors import InvalidLogError, InvalidOutcomeError
from polidiff.records.outcome import Outcome

DONE = ("done", "dones", "is_done", "finished")


@dataclass(frozen=True)
class Columns:
    """The columns of a log; one row per decision."""

    state: tuple[str, ...]  # one name if states are discrete, else the features that are the state
    discrete: bool
    action: str
    episode: str | None  # None: every row is an episode of one decision
    step: str | None  # None: rows are in order
    reward: str | None
    terminated: str | None  # None: no episode ends
    truncated: str | None
    probability: str | None  # of the logged action under the policy that wrote the log
    features: tuple[str, ...]  # what rules speak about
    gains: tuple[str | float, ...]  # per outcome: its column, or what every decision adds

    @property
    def used(self) -> tuple[str, ...]:
        """Every column that is read."""
        single = (self.action, self.episode, self.step, self.terminated, self.truncated, self.probability, self.reward)
        gains = [gain for gain in self.gains if isinstance(gain, str)]
        names = [*self.state, *(name for name in single if name is not None), *self.features, *gains]
        return tuple(dict.fromkeys(names))


def check_columns(
    schema: pl.Schema,
    *,
    state: str | Sequence[str],
    action: str,
    episode: str | None,
    step: str | None,
    reward: str | None,
    terminated: str | None,
    truncated: str | bool | None,
    probability: str | None,
    features: Sequence[str] | None,
    outcomes: Sequence[Outcome],
) -> Columns:
    """The parts that columns play; an error names the first column that is missing or of the wrong type."""
    discrete = isinstance(state, str)
    states = (state,) if isinstance(state, str) else tuple(state)
    if not states:
        raise InvalidLogError("state must name a column, or a list of columns for features; got an empty list")
    if step is not None and episode is None:
        raise InvalidLogError(f"step={step!r} needs episode=, the column that tells which decisions belong together")
    _check_endings(schema, episode, terminated, truncated)
    columns = Columns(
        state=states,
        discrete=discrete,
        action=action,
        episode=episode,
        step=step,
        reward=reward,
        terminated=terminated,
        truncated=truncated if isinstance(truncated, str) else None,
        probability=probability,
        features=tuple(features) if features is not None else (() if discrete else states),
        gains=tuple(_gain(outcome) for outcome in outcomes),
    )
    missing = [name for name in columns.used if name not in schema]
    if missing:
        raise InvalidLogError(
            f"the log must have column {missing[0]!r} ({len(missing)} of {len(columns.used)} named columns are "
            f"missing); it has {list(schema.names())[:20]}"
        )
    _check_types(schema, columns)
    return columns


def _check_endings(
    schema: pl.Schema, episode: str | None, terminated: str | None, truncated: str | bool | None
) -> None:
    if episode is None:
        return
    lone = next((name for name in DONE if name in schema), None)
    question = (
        "does it mark that the process ended (terminated) or that the record was cut (truncated)? Name both columns, "
        "or say truncated=False if no episode was cut: a cut taken for an end makes every outcome too small"
    )
    if terminated is None and truncated is None:
        if lone is not None:
            raise InvalidLogError(f"column {lone!r} does not say how episodes end: {question}")
        raise InvalidLogError(
            "a log of episodes must say how they end: give terminated= (the process ended) and, where records were "
            "cut, truncated="
        )
    if terminated is not None and terminated.lower() in DONE and truncated is None:
        raise InvalidLogError(f"terminated={terminated!r} names a column that may mean either: {question}")


def _gain(outcome: Outcome) -> str | float:
    if isinstance(outcome.of, str):
        return outcome.of
    if not callable(outcome.of) and np.ndim(outcome.of) == 0:
        return float(np.asarray(outcome.of, dtype=np.float64))
    raise InvalidOutcomeError(
        f"outcome {outcome.name!r} of a log must be a column name, or a number that every decision adds. Hint: write "
        "what a decision adds into a column"
    )


def _check_types(schema: pl.Schema, columns: Columns) -> None:
    gains = [gain for gain in columns.gains if isinstance(gain, str)]
    for name in (columns.probability, columns.reward, *gains):
        if name is not None and not (schema[name].is_numeric() or schema[name] == pl.Boolean):
            raise InvalidLogError(f"column {name!r} must hold numbers; it holds {schema[name]}")
    for name in (columns.terminated, columns.truncated):
        if name is not None and not (schema[name] == pl.Boolean or schema[name].is_integer()):
            raise InvalidLogError(f"column {name!r} must hold true or false (or 0 and 1); it holds {schema[name]}")
    labels = (columns.action, columns.state[0]) if columns.discrete else (columns.action,)
    for name in labels:
        if schema[name].is_float() or schema[name].is_nested():
            raise InvalidLogError(
                f"column {name!r} must hold whole numbers or text; it holds {schema[name]}. Hint: "
                + ("state=[...] takes measurements as features" if name in columns.state else "bin doses into levels")
            )
    for name in columns.features:
        if schema[name].is_nested():
            raise InvalidLogError(f"feature {name!r} must hold numbers or text; it holds {schema[name]}")
    if columns.step is not None and not (schema[columns.step].is_numeric() or schema[columns.step].is_temporal()):
        raise InvalidLogError(f"column {columns.step!r} must hold numbers or times; it holds {schema[columns.step]}")
