"""Small random worlds, policies, rules and patches for laws."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import strategies as st
from scipy import sparse

from polidiff.records.action import Shift
from polidiff.records.patch import Edit, Patch
from polidiff.records.rule import Condition, Rule
from polidiff.worlds import TabularMDP

SEEDS = st.integers(0, 2**32 - 1)
NAMES = ("x", "y", "blood pressure", "3rd", "or not")


def random_arrays(seed: int, *, leak: float = 0.1) -> dict[str, np.ndarray]:
    """Arrays of a table of 3 to 9 states and 1 to 3 actions; every decision may end the episode."""
    rng = np.random.default_rng(seed)
    n_states, n_actions = int(rng.integers(3, 10)), int(rng.integers(1, 4))
    moves = rng.dirichlet(np.full(n_states, 0.4), size=(n_states, n_actions)) * (1 - leak)
    moves[rng.random(moves.shape) < 0.3] = 0.0
    moves[:, :, -1] += 1 - moves.sum(axis=2)
    initial = rng.dirichlet(np.ones(n_states)) * (rng.random(n_states) < 0.7)
    initial[-1] = 0.0
    initial[0] += 1e-3
    return {
        "transitions": moves,
        "rewards": rng.normal(size=(n_states, n_actions)),
        "initial": initial / initial.sum(),
        "absorbing": np.arange(n_states) == n_states - 1,
    }


@st.composite
def arrays_of_worlds(draw: st.DrawFn) -> dict[str, np.ndarray]:
    """Arrays for `TabularMDP`, last state absorbing."""
    return random_arrays(draw(SEEDS))


@st.composite
def worlds_with_policies(draw: st.DrawFn) -> tuple[TabularMDP, np.ndarray]:
    """A table and the probabilities (S, A) of a policy, deterministic in half of the cases."""
    world = TabularMDP(**random_arrays(draw(SEEDS)), discount=draw(st.sampled_from([1.0, 1.0, 0.9])))
    rng = np.random.default_rng(draw(SEEDS))
    table = rng.dirichlet(np.ones(world.n_actions), size=world.n_states)
    if draw(st.booleans()):
        table = np.eye(world.n_actions)[table.argmax(axis=1)]
    return world, table


@st.composite
def pairs_of_tables(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Two deterministic policies (S,) over the same states."""
    size = draw(st.integers(1, 12))
    actions = st.lists(st.integers(0, 3), min_size=size, max_size=size)
    return np.array(draw(actions)), np.array(draw(actions))


def as_sparse(transitions: np.ndarray) -> list[sparse.csr_array]:
    """One (S, S) matrix per action."""
    return [sparse.csr_array(transitions[:, action]) for action in range(transitions.shape[1])]


bounds = st.floats(-1e6, 1e6, allow_nan=False).map(lambda value: value + 0.0)  # no negative zero
words = st.text(st.characters(categories=("L", "N")), min_size=1, max_size=6)


@st.composite
def conditions(draw: st.DrawFn) -> Condition:
    """Bounds on one side or both, values, missing or measured."""
    column = draw(st.integers(0, len(NAMES) - 1))
    name = NAMES[column]
    kind = draw(st.sampled_from(["low", "high", "both", "number", "word", "words", "missing", "measured"]))
    if kind == "low":
        return Condition(name, column, low=draw(bounds))
    if kind == "high":
        return Condition(name, column, high=draw(bounds))
    if kind == "both":
        low = draw(bounds)
        return Condition(name, column, low, low + draw(st.floats(0.001, 1e3)))
    if kind == "number":
        return Condition(name, column, values=(draw(bounds),))
    if kind == "word":
        return Condition(name, column, values=(draw(words),))
    if kind == "words":
        return Condition(name, column, values=tuple(draw(st.lists(words, min_size=2, max_size=4))))
    return Condition(name, column, values=(), missing=True) if kind == "missing" else Condition(name, column)


rules = st.lists(conditions(), min_size=1, max_size=4).map(lambda parts: Rule(tuple(parts)))


@st.composite
def patches(draw: st.DrawFn) -> Patch:
    """Edits by rule or by state, some of them shifts."""
    shares = st.floats(0, 1)
    edits = []
    for rule in draw(st.lists(rules, max_size=4)):
        states = draw(st.none() | st.lists(st.integers(0, 50), max_size=3).map(tuple))
        shift = draw(st.none() | st.builds(Shift, shares, shares))
        edits.append(Edit(rule, draw(st.integers(0, 3)), draw(st.integers(0, 3)), states, shift))
    return Patch(tuple(edits), ("a", "b", "c", "d"), NAMES)


def condition_text(condition: Condition) -> str:
    """A condition as the parser's grammar writes it."""
    name = f'"{condition.feature}"'
    if condition.values is not None:
        if condition.missing:
            return f"{name} is missing"
        values = [f"'{value}'" if isinstance(value, str) else repr(value) for value in condition.values]
        return f"{name} = {values[0]}" if len(values) == 1 else f"{name} in {{{', '.join(values)}}}"
    low, high = condition.low, condition.high
    if math.isfinite(low) and math.isfinite(high):
        return f"{low!r} <= {name} < {high!r}"
    if math.isfinite(low):
        return f"{name} >= {low!r}"
    return f"{name} < {high!r}" if math.isfinite(high) else f"{name} is not missing"
