"""Small logs of every kind, drawn anew from fixed seeds, for `benchmarks.answers`.

States with labels (from random worlds, a frozen lake, cells of a walk), with and without features, cut and not, with
probabilities; states of measurements, some with words and missing values; and decisions of a single step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import polars as pl

from polidiff import Log, Outcome
from polidiff.domains import frozen_lake, navigation


@dataclass(frozen=True, eq=False)
class LogCase:
    """A log, two policies over its states, and what is asked of plans."""

    log: Log
    current: Any
    proposed: Any
    keep: str  # a guard on an outcome
    freeze: str  # a condition on states
    state: Any = None  # one that is asked about


@dataclass(frozen=True, eq=False)
class Model:
    """A world of states with labels that plays many episodes at once."""

    moves: np.ndarray  # (S, A, S) chances
    rewards: np.ndarray  # (S, A)
    initial: np.ndarray  # (S,)
    ends: np.ndarray  # (S,) bool

    @property
    def n_actions(self) -> int:
        """How many actions there are."""
        return self.moves.shape[1]

    def reset(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """States in which episodes begin."""
        return rng.choice(len(self.initial), size=count, p=self.initial)

    def step(self, states: np.ndarray, actions: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
        """Next states, rewards, and where the episode has ended."""
        drawn = rng.random(len(states))[:, None]
        after = (self.moves[states, actions].cumsum(axis=1) < drawn).sum(axis=1).clip(max=len(self.ends) - 1)
        return after, self.rewards[states, actions], self.ends[after]


class Walk:
    """Positions in a square that move a tenth east, north or south until x > 0.95; arriving in a box pays."""

    n_actions = 3
    boxes: ClassVar = {(1, 0): 4.0, (2, 1): 3.0, (0, 3): 5.0, (5, 3): 7.0}

    def reset(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Uniform over the lower left tenth."""
        return rng.uniform(0.0, 0.1, size=(count, 2))

    def step(self, states: np.ndarray, actions: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
        """A tenth on, what that pays, and whether the goal is reached."""
        after = states + 0.1 * np.array([(1, 0), (0, 1), (0, -1)])[actions]
        ended = after[:, 0] > 0.95
        paid = [self.boxes.get(tuple(cell), -0.001) for cell in np.floor(after * 10 + 1e-9).astype(int)]
        return after, np.where(ended, 10.0, paid), ended


class Ward:
    """Patients with a pressure and a severity: strong treatment raises a low pressure and costs; 0 to 1 both."""

    n_actions = 2

    def reset(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Uniform."""
        return rng.uniform(size=(count, 2))

    def step(self, states: np.ndarray, actions: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
        """A new pressure, the reward, and who left."""
        push = np.where(states[:, 0] < 0.4, 0.25, -0.1) * actions - 0.15 * (states[:, 1] - 0.5)
        after = np.clip(states + np.column_stack([push, np.zeros(len(push))]) + rng.normal(0, 0.05, states.shape), 0, 1)
        return after, (after[:, 0] > 0.5) - 0.1 * actions, rng.random(len(states)) < 0.3


def random_model(states: int, actions: int, seed: int) -> Model:
    """Sparse random moves towards the last state, which ends the episode."""
    rng = np.random.default_rng(seed)
    moves = rng.dirichlet(np.full(states, 0.4), size=(states, actions))
    moves[..., -1] += 0.15
    initial = np.append(rng.dirichlet(np.ones(states - 1)), 0.0)
    rewards = rng.integers(0, 4, size=(states, actions)).astype(float)
    return Model(moves / moves.sum(axis=2, keepdims=True), rewards, initial, np.arange(states) == states - 1)


def lake_model() -> Model:
    """Gymnasium's slippery lake of four by four cells."""
    import gymnasium

    table = gymnasium.make("FrozenLake-v1").unwrapped.P
    moves, rewards, ends = np.zeros((16, 4, 16)), np.zeros((16, 4)), np.zeros(16, dtype=bool)
    for state, action in np.ndindex(16, 4):
        for chance, after, reward, ended in table[state][action]:
            moves[state, action, after] += chance
            rewards[state, action] += chance * reward
            ends[after] |= ended
    return Model(moves, rewards, np.eye(16)[0], ends)


def written(model: Any, chances: Callable[[Any], Any], episodes: int, seed: int, longest: int = 40) -> pl.DataFrame:
    """Rows of episodes in which actions are drawn with `chances` (n, A); cut after `longest` decisions."""
    rng = np.random.default_rng(seed)
    states, alive, parts = model.reset(episodes, rng), np.arange(episodes), []
    for step in range(longest):
        chance = np.asarray(chances(states))
        actions = (chance.cumsum(axis=1) < rng.random(len(chance))[:, None]).sum(axis=1).clip(max=model.n_actions - 1)
        after, rewards, ended = model.step(states, actions, rng)
        columns = {"s": states} if states.ndim == 1 else {f"x{j}": states[:, j] for j in range(states.shape[1])}
        facts = {"a": actions, "r": rewards, "end": ended, "cut": ~ended & (step == longest - 1)}
        drawn = {"p": chance[np.arange(len(actions)), actions], "cost": (actions > 0).astype(float)}
        parts.append(pl.DataFrame({"e": alive, "t": np.full(len(alive), step), **columns, **facts, **drawn}))
        states, alive = after[~ended], alive[~ended]
    return pl.concat(parts).sort("e", "t")


def even(actions: int) -> Callable[[Any], Any]:
    """Every action equally often."""
    return lambda states: np.full((len(states), actions), 1 / actions)


def mostly(policy: Callable[[Any], Any], actions: int, exploring: float) -> Callable[[Any], Any]:
    """What a policy does, or with a chance of `exploring` any action."""
    return lambda states: (1 - exploring) * np.eye(actions)[policy(states)] + exploring / actions


COST = Outcome("cost", "cost", prefer="less", more="a higher cost", less="a lower cost", range=(0, 40))
LENGTH = Outcome("length", 1.0, margin=0.05, unit="decisions")
STEPS = {"action": "a", "episode": "e", "step": "t", "reward": "r", "terminated": "end", "truncated": "cut"}


def random_log() -> LogCase:
    """Numbered states without features, every action equally often."""
    frame = written(random_model(6, 2, 1), even(2), 500, 11)
    log = Log(frame, state="s", outcomes=[COST, LENGTH], return_range=(0, 60), **STEPS)
    count = frame["s"].n_unique()
    return LogCase(log, np.zeros(count, int), np.ones(count, int), "cost<=current+1", "state = 1")


def truncated_log() -> LogCase:
    """Named states and actions, cut after four decisions."""
    frame = written(random_model(8, 3, 2), even(3), 600, 12, longest=4)
    names = pl.format("place {}", pl.col("s")), pl.col("a").replace_strict({0: "wait", 1: "go", 2: "call"})
    log = Log(frame.with_columns(s=names[0], a=names[1]), state="s", outcomes=[COST], **STEPS)
    places = np.arange(frame["s"].n_unique())
    return LogCase(log, places % 3, (places + 1) % 3, "cost<=current", "state = 'place 1'")


def probability_log() -> LogCase:
    """Features of states, probabilities of actions, a discount."""
    frame = written(random_model(9, 2, 3), mostly(lambda states: states % 2, 2, 0.5), 500, 13)
    frame = frame.with_columns(size=pl.col("s") % 3, weight=pl.col("s") * 1.5)
    log = Log(frame, state="s", features=["size", "weight"], probability="p", discount=0.95, **STEPS)
    current = np.arange(frame["s"].n_unique()) % 2
    return LogCase(log, current, 1 - current, "return>=current", "weight > 6")


def worded_states_log() -> LogCase:
    """Discrete states with a number and a word each."""
    frame = written(random_model(12, 3, 4), even(3), 450, 14)
    word = (pl.col("s") % 4).replace_strict({0: "red", 1: "green", 2: "blue", 3: "grey"})
    log = Log(frame.with_columns(colour=word, size=pl.col("s") // 4), state="s", features=["colour", "size"],
              outcomes=[COST, LENGTH], **STEPS)  # fmt: skip
    current = np.zeros(frame["s"].n_unique(), int)
    return LogCase(log, current, np.arange(len(current)) % 3, "cost<=current+0.5", "colour = red")


def lake_log() -> LogCase:
    """The lake with row and column, cut after thirty decisions."""
    frame = written(lake_model(), even(4), 500, 15, longest=30)
    log = Log(frame.with_columns(row=pl.col("s") // 4, column=pl.col("s") % 4), state="s", states=16, actions=4,
              features=["row", "column"], outcomes=[LENGTH], **STEPS)  # fmt: skip
    return LogCase(log, frozen_lake.current(4), np.tile([1, 2], 8), "length<=current+1", "row < 1")


def cell_log() -> LogCase:
    """The walk seen as cells of tenths, without features."""
    frame = written(Walk(), mostly(navigation.current, 3, 0.3), 300, 16)
    cell = pl.format("{}.{}", (pl.col("x0") * 10).floor().cast(int), (pl.col("x1") * 10).floor().cast(int))
    frame = frame.with_columns(cell=cell)
    log = Log(frame, state="cell", actions=list(navigation.ACTIONS), outcomes=[COST], **STEPS)
    current = np.zeros(frame["cell"].n_unique(), int)
    return LogCase(log, current, current + 1, "cost<=current+2", "state = '0.0'")


def walk_log() -> LogCase:
    """The walk as positions: two numbers, several outcomes."""
    frame = written(Walk(), mostly(navigation.current, 3, 0.25), 220, 17)
    frame = frame.with_columns(stay=((pl.col("x1") >= 0.2) & (pl.col("x1") < 0.3)).cast(float))
    stay = Outcome("stay", "stay", prefer="more", range=(0, 60))
    log = Log(frame, state=["x0", "x1"], actions=list(navigation.ACTIONS), outcomes=[stay, COST], **STEPS)
    return LogCase(log, navigation.current, navigation.proposed_2, "stay>=current-1", "x1 > 0.35", [0.05, 0.25])


def ward_frame(episodes: int, seed: int, longest: int) -> pl.DataFrame:
    """Patients with a ward as a word; pressure and word are missing here and there."""
    frame = written(Ward(), even(2), episodes, seed, longest).rename({"x0": "pressure", "x1": "severity"})
    rng = np.random.default_rng(seed + 1)
    lost, silent = rng.random((2, frame.height)) < [[0.15], [0.1]]
    ward = np.array(["north", "south", "icu"])[np.digitize(frame["severity"], [0.3, 0.7])]
    words = np.array(["mild", "strong"])[frame["a"]]
    marks = {"a": words, "ward": ward, "lost": lost, "silent": silent}
    return frame.with_columns(**{name: pl.Series(values) for name, values in marks.items()}).with_columns(
        pressure=pl.when(~pl.col("lost")).then("pressure"), ward=pl.when(~pl.col("silent")).then("ward")
    )


def low_pressure(states: Any) -> np.ndarray:
    """Strong where the pressure (first column) is below 0.4."""
    return np.array([value is not None and float(value) < 0.4 for value in np.asarray(states)[:, 0]], dtype=int)


def mild(states: Any) -> np.ndarray:
    """The first action everywhere."""
    return np.zeros(len(states), dtype=int)


def ward_log() -> LogCase:
    """Words and missing values, cut after six decisions."""
    frame = ward_frame(400, 18, 6)
    log = Log(frame, state=["pressure", "severity", "ward"], outcomes=[COST, LENGTH], **STEPS)
    state = {"pressure": 0.2, "severity": 0.8, "ward": "icu"}
    return LogCase(log, mild, low_pressure, "cost<=current+1", "ward = icu", state)


def numbers_log() -> LogCase:
    """Missing numbers, probabilities, nothing cut."""
    log = Log(ward_frame(350, 19, 60), state=["pressure", "severity"], probability="p", **STEPS)
    return LogCase(log, mild, low_pressure, "return>=current", "severity > 0.8", {"pressure": 0.1, "severity": 0.5})


def offers(count: int, seed: int) -> pl.DataFrame:
    """One decision per customer: a coupon or a call pays for some; incomes and channels are missing at times."""
    rng = np.random.default_rng(seed)
    age, income, offer = rng.integers(18, 80, count), rng.normal(50, 15, count), rng.integers(0, 3, count)
    channel = rng.choice(np.array(["web", "shop", None], dtype=object), count, p=[0.5, 0.4, 0.1])
    chance = 0.2 + 0.3 * ((offer == 1) & (age < 40)) + 0.2 * ((offer == 2) & (channel == "shop"))
    facts = {"age": age, "income": np.where(rng.random(count) < 0.1, np.nan, income), "a": offer, "p": 1 / 3}
    words = [pl.Series("channel", channel.tolist(), dtype=pl.String), pl.Series("segment", age // 20)]
    names = pl.col("a").replace_strict({0: "none", 1: "coupon", 2: "call"})
    bought = {"r": (rng.random(count) < chance).astype(float), "cost": (offer > 0).astype(float)}
    return pl.DataFrame({**facts, **bought}).with_columns(*words, names, pl.col("income").fill_nan(None))


def young(states: Any) -> np.ndarray:
    """A coupon below an age of 40 (first column)."""
    names = sorted(("none", "coupon", "call"))
    return np.where(np.asarray(states)[:, 0].astype(float) < 40, names.index("coupon"), names.index("none"))


def nothing(states: Any) -> np.ndarray:
    """No offer."""
    return np.full(len(states), sorted(("none", "coupon", "call")).index("none"))


ONE_STEP = {"action": "a", "reward": "r"}
PRICE = Outcome("cost", "cost", prefer="less", range=(0, 1))


def offer_log() -> LogCase:
    """One-step decisions with numbers, several outcomes."""
    log = Log(offers(1500, 20), state=["age", "income"], outcomes=[PRICE], return_range=(0, 1), **ONE_STEP)
    return LogCase(log, nothing, young, "cost<=current+0.3", "age > 70", {"age": 30, "income": 40.0})


def worded_offer_log() -> LogCase:
    """One-step decisions with words, missing values and probabilities."""
    log = Log(offers(1500, 21), state=["age", "income", "channel"], probability="p", outcomes=[PRICE], **ONE_STEP)
    return LogCase(log, nothing, young, "cost<=current+0.3", "channel = web")


def segment_log() -> LogCase:
    """One-step decisions in a few discrete states."""
    frame = offers(1000, 22)
    log = Log(frame, state="segment", outcomes=[PRICE], **ONE_STEP)
    current = np.full(frame["segment"].n_unique(), 2)
    return LogCase(log, current, current - 1, "cost<=current+0.4", "state = 0")


LOGS: dict[str, Callable[[], LogCase]] = {
    "random_states": random_log,
    "truncated": truncated_log,
    "probabilities": probability_log,
    "worded_states": worded_states_log,
    "lake": lake_log,
    "cells": cell_log,
    "walk": walk_log,
    "ward": ward_log,
    "missing_numbers": numbers_log,
    "offers": offer_log,
    "worded_offers": worded_offer_log,
    "segments": segment_log,
}
