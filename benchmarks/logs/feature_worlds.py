"""Worlds with features and several decisions whose truth can be simulated, for intervals from feature logs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import polars as pl

from polidiff import Log
from polidiff.records.arrays import FloatArray, IntArray
from polidiff.worlds.log_rows import LoggedRows

RANDOM = 0.3  # share of logged decisions taken at random


@dataclass(frozen=True)
class World:
    """A process of fixed length, a current and a proposed policy."""

    name: str
    n_actions: int
    horizon: int
    start: Callable[[int, np.random.Generator], FloatArray]
    step: Callable[[FloatArray, IntArray, np.random.Generator], tuple[FloatArray, FloatArray]]
    current: Callable[[FloatArray], IntArray]
    proposed: Callable[[FloatArray], IntArray]


def _glucose_step(x: FloatArray, a: IntArray, g: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    level, insulin = x.T
    active = 0.6 * insulin + np.array([0.0, 1.0, 2.0])[a]
    new = np.clip(level + 12 + g.gamma(2.0, 8.0, len(level)) - 14 * active + g.normal(0, 6, len(level)), 30, 400)
    cost = np.where(new < 70, 3.0, 0.0) + np.maximum(new - 140, 0) / 60
    return np.column_stack([new, active]), -cost


def _glucose_current(x: FloatArray) -> IntArray:
    return np.where(x[:, 0] > 220, 2, np.where(x[:, 0] > 150, 1, 0))


def _glucose_proposed(x: FloatArray) -> IntArray:
    return np.where((x[:, 0] > 180) & (x[:, 1] < 1.2), 2, _glucose_current(x))


def _stock_step(x: FloatArray, a: IntArray, g: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    stock, trend = x.T
    bought = np.array([0.0, 5.0, 10.0])[a]
    wanted = g.poisson(np.maximum(3 + 2 * trend, 0.2))
    on_hand = np.minimum(stock + bought, 40)
    sold = np.minimum(on_hand, wanted)
    left = on_hand - sold
    new = 0.8 * trend + g.normal(0, 0.5, len(trend))
    return np.column_stack([left, new]), 2.0 * sold - 0.15 * left - 0.9 * bought - 0.5 * (a > 0)


def _stock_current(x: FloatArray) -> IntArray:
    return np.where(x[:, 0] < 4, 2, 0)


def _stock_proposed(x: FloatArray) -> IntArray:
    return np.where((x[:, 0] < 8) & (x[:, 1] > 0.3), 2, _stock_current(x))


def _six_step(x: FloatArray, a: IntArray, g: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    right = a == np.where(x[:, 0] > 0.5, 2, np.where(x[:, 1] > 0, 1, 0))
    new = 0.85 * x + 0.5 * g.normal(size=x.shape)
    new[:, 0] += 0.2 * right - 0.1
    new[:, 2] -= 0.15 * (a == 2)
    return new, 0.5 * right + 0.3 * x[:, 0] - 0.2 * np.abs(x[:, 2]) + g.normal(0, 0.5, len(a))


def _six_current(x: FloatArray) -> IntArray:
    return np.where(x[:, 1] > 0.4, 1, 0)


def _six_proposed(x: FloatArray) -> IntArray:
    return np.where((x[:, 0] > 0.6) & (x[:, 3] < 1.0), 2, _six_current(x))


def _queue_step(x: FloatArray, a: IntArray, g: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    length, arrivals, wear = x.T
    served = g.poisson(np.array([2.0, 3.2, 4.6])[a] * (1 - 0.35 * wear))
    new = np.clip(length + g.poisson(arrivals) - served, 0, 60)
    state = np.column_stack([
        new,
        np.clip(arrivals + g.normal(0, 0.4, len(wear)), 0.5, 6),
        np.clip(wear + 0.06 * a - 0.05 + g.normal(0, 0.03, len(wear)), 0, 1),
    ])  # fmt: skip
    return state, -0.25 * new - np.array([0.0, 0.5, 1.1])[a] - (new > 20)


def _queue_current(x: FloatArray) -> IntArray:
    return np.where(x[:, 0] > 16, 2, np.where(x[:, 0] > 5, 1, 0))


def _queue_proposed(x: FloatArray) -> IntArray:
    return np.where(x[:, 0] + 1.5 * x[:, 1] > 8.5, 2, _queue_current(x))


def _ten_step(x: FloatArray, a: IntArray, g: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    right = a == np.where(x[:, 0] > 0.8, 2, np.where(x[:, 1] > 0, 1, 0))
    new = 0.8 * x + 0.6 * g.normal(size=x.shape)
    new[:, 0] += 0.25 * right
    return new, 0.8 * right + 0.5 * x[:, 0] - 0.3 * np.abs(x[:, 1]) + g.normal(0, 0.6, len(a))


def _ten_current(x: FloatArray) -> IntArray:
    return np.where(x[:, 1] > 0.5, 1, 0)


def _ten_proposed(x: FloatArray) -> IntArray:
    return np.where(x[:, 0] > 0.84, 2, _ten_current(x))


def _null_step(x: FloatArray, a: IntArray, g: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    new = 0.8 * x + 0.6 * g.normal(size=x.shape)
    return new, x[:, 0] + 0.5 * x[:, 1] + g.normal(0, 0.6, len(a))


def _dosing_step(x: FloatArray, a: IntArray, g: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    pressure, lactate, dose = x.T
    new_dose = 0.7 * dose + 0.5 * a
    new = pressure + 4.0 * new_dose - 0.15 * (pressure - 65) - 2.5 * lactate + g.normal(0, 3, len(a))
    burden = np.clip(0.9 * lactate + 0.02 * np.maximum(65 - new, 0) + 0.05 * new_dose + g.normal(0, 0.1, len(a)), 0, 5)
    return np.column_stack([new, burden, new_dose]), -0.05 * np.abs(new - 72) - 0.4 * burden - 0.1 * a


def _dosing_current(x: FloatArray) -> IntArray:
    return np.where(x[:, 0] < 58, 2, np.where(x[:, 0] < 68, 1, 0))


def _dosing_proposed(x: FloatArray) -> IntArray:
    return np.where((x[:, 0] < 64) & (x[:, 2] < 1.0), 2, _dosing_current(x))


def _offers_step(x: FloatArray, a: IntArray, g: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    taste, fatigue, spent = x.T
    chance = 1 / (1 + np.exp(-(0.8 * taste - 1.2 * fatigue + np.array([-1.5, -0.9, -0.4, 0.1])[a])))
    bought = g.random(len(a)) < chance
    tired = np.clip(0.7 * fatigue + np.array([0.0, 0.15, 0.3, 0.55])[a] + g.normal(0, 0.05, len(a)), 0, 3)
    state = np.column_stack([0.95 * taste + g.normal(0, 0.2, len(a)), tired, 0.8 * spent + bought])
    return state, bought * 3.0 - np.array([0.0, 0.3, 0.7, 1.4])[a]


def _offers_current(x: FloatArray) -> IntArray:
    return np.where(x[:, 0] > 0.5, 2, np.where(x[:, 0] > -0.5, 1, 0))


def _offers_proposed(x: FloatArray) -> IntArray:
    return np.where((x[:, 1] > 0.6) & (x[:, 0] > 0), 0, _offers_current(x))


def _relapse_step(x: FloatArray, a: IntArray, g: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    risk, age = x.T
    treated = np.where(a == 1, 0.45, 1.0)
    relapse = g.random(len(a)) < np.clip(0.04 * np.exp(0.6 * risk) * treated, 0, 0.9)
    new = 0.9 * risk + 0.8 * relapse - 0.1 * (a == 1) + g.normal(0, 0.3, len(a))
    return np.column_stack([new, age]), -10.0 * relapse - (0.4 + 0.3 * (age > 0.5)) * a


def _relapse_current(x: FloatArray) -> IntArray:
    return (x[:, 0] > 1.0).astype(np.int64)


def _relapse_proposed(x: FloatArray) -> IntArray:
    return (x[:, 0] > np.where(x[:, 1] > 0.5, 0.7, 0.2)).astype(np.int64)


def _clinic_step(x: FloatArray, a: IntArray, g: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    risk, age = x.T
    effect = np.where(age > 0.6, -0.8, 1.0)
    new = np.clip(risk - 0.25 * a + g.normal(0, 0.08, len(a)) + 0.05, 0, 1)
    return np.column_stack([new, age]), a * effect * (risk > 0.4) - risk + g.normal(0, 0.5, len(a))


def _clinic_current(x: FloatArray) -> IntArray:
    return (x[:, 0] > 0.8).astype(np.int64)


def _clinic_proposed(x: FloatArray) -> IntArray:
    return (x[:, 0] > 0.45).astype(np.int64)


WORLDS = {
    world.name: world
    for world in (
        World("glucose", 3, 10, lambda n, g: np.column_stack([g.normal(180, 40, n), g.uniform(0, 1, n)]),
              _glucose_step, _glucose_current, _glucose_proposed),
        World("stock", 3, 12, lambda n, g: np.column_stack([g.integers(0, 15, n), g.normal(0, 1, n)]).astype(float),
              _stock_step, _stock_current, _stock_proposed),
        World("six", 3, 15, lambda n, g: g.normal(size=(n, 6)), _six_step, _six_current, _six_proposed),
        World("queue", 3, 15,
              lambda n, g: np.column_stack([g.gamma(2, 3, n), g.uniform(1, 5, n), g.uniform(0, 1, n)]),
              _queue_step, _queue_current, _queue_proposed),
        World("ten", 3, 5, lambda n, g: g.normal(size=(n, 10)), _ten_step, _ten_current, _ten_proposed),
        World("nothing", 3, 8, lambda n, g: g.normal(size=(n, 4)), _null_step, _ten_current, _ten_proposed),
        World("dosing", 3, 12,
              lambda n, g: np.column_stack([g.normal(62, 6, n), g.gamma(2, 0.6, n), g.uniform(0, 0.5, n)]),
              _dosing_step, _dosing_current, _dosing_proposed),
        World("offers", 4, 8, lambda n, g: np.column_stack([g.normal(0, 1, n), g.uniform(0, 1, n), np.zeros(n)]),
              _offers_step, _offers_current, _offers_proposed),
        World("clinic", 2, 3, lambda n, g: np.column_stack([g.uniform(0, 1, n), g.uniform(0, 1, n)]),
              _clinic_step, _clinic_current, _clinic_proposed),
        World("relapse", 2, 10, lambda n, g: np.column_stack([g.normal(0, 1, n), g.uniform(0, 1, n)]),
              _relapse_step, _relapse_current, _relapse_proposed),
    )
}  # fmt: skip


def chances(top: IntArray, n_actions: int, noise: float = RANDOM) -> FloatArray:
    """(n, A) mostly the top action, else any."""
    table = np.full((len(top), n_actions), noise / n_actions)
    table[np.arange(len(top)), top] += 1 - noise
    return table


def play(world: World, policy: Callable[[FloatArray], IntArray], episodes: int, g: np.random.Generator) -> LoggedRows:
    """Episodes of a policy with noise, episode after episode."""
    x, states, actions, rewards = world.start(episodes, g), [], [], []
    for _ in range(world.horizon):
        table = chances(policy(x), world.n_actions)
        a = (g.random(episodes)[:, None] > np.cumsum(table, axis=1)[:, :-1]).sum(axis=1)
        new, r = world.step(x, a, g)
        states.append(x), actions.append(a), rewards.append(r)
        x = new
    n = episodes * world.horizon
    follow = np.arange(n) + 1
    follow[world.horizon - 1 :: world.horizon] = -1
    flat = [np.stack(part, axis=1).reshape((n, -1)) for part in (states, actions, rewards)]
    return LoggedRows(flat[0], flat[1][:, 0], np.repeat(np.arange(episodes), world.horizon), follow, flat[2], None)


def as_log(world: World, rows: LoggedRows) -> Log:
    """The log of a world, as a user would hand it in."""
    names = [f"x{j}" for j in range(rows.states.shape[1])]
    frame = pl.DataFrame({
        "episode": rows.episode, **dict(zip(names, rows.states.T, strict=True)), "action": rows.actions,
        "paid": rows.gains[:, 0], "ended": rows.follow == -1,
    })  # fmt: skip
    return Log(frame, state=names, action="action", episode="episode", reward="paid", terminated="ended",
               actions=world.n_actions)  # fmt: skip


@cache
def truth(world: World, episodes: int = 300_000) -> float:
    """The effect of the proposed policy: common random numbers would not help, so many episodes."""
    total = 0.0
    for part in range(max(1, episodes // 50_000)):
        for sign, policy in ((1, world.proposed), (-1, world.current)):
            total += sign * float(play(world, policy, 50_000, np.random.default_rng([1, part])).gains.sum()) / 50_000
    return total / max(1, episodes // 50_000)
