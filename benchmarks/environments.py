"""Differences of policies in environments, told by rules and by trees of the same size.

Policies are networks that were shown what two hand-written drivers do, so that borders are slanted and rounded as those
of trained agents are. Rules are `describe`'s; a tree is the best of scikit-learn's with as many leaves that name a
difference, or as many comparisons on the way to them, grown on the same visits with and without balanced classes. Both
are judged on episodes that neither has seen: another seed, new starts. A user's script of a few lines (`script`) then
explains the same pair in a fresh process.

::

    python -m benchmarks environments  # with gymnasium[box2d], highway-env and mo-gymnasium
    python -m benchmarks.environments merge-v0 Pendulum-v1  # these rows, each kept as soon as it is there
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import joblib
import numpy as np
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.tree import DecisionTreeClassifier

from benchmarks.rows import keep_row
from polidiff import Simulator, as_policy, load
from polidiff.divergence import Divergence, find_divergence
from polidiff.options import ExplainOptions
from polidiff.records.explanation import Explanation
from polidiff.records.rule import first_match
from polidiff.regions.describe import (
    MOST_RULES,
    as_pairs,
    best_told,
    describe,
    fidelity,
    held_out_visits,
    rule_lists,
    visits_of,
)
from polidiff.rules.learners import as_learner
from polidiff.worlds.real_actions import compared
from polidiff.worlds.rollouts import roll_out

SHOWN = 30  # episodes that a network is shown
LONGEST, ON_A_ROAD = 200, 10  # decisions of an episode
LEAVES = (2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 32, 48)
AT = (3, 6)  # rules
STEPS, DRIVEN = 10_000, 1_000  # decisions that a script may play; fewer where a step moves a whole road
ROADS = ("highway", "merge", "roundabout")

Driver = Callable[[Any], Any]  # observations (n, d) -> actions


def _cart(lean: float) -> Driver:
    return lambda x: (x[:, 2] + 0.4 * x[:, 3] + lean * (x[:, 0] + x[:, 1]) > 0).astype(int)


def _acrobot(swing: float) -> Driver:
    return lambda x: np.where(x[:, 5] + swing * x[:, 1] > 0.3, 2, np.where(x[:, 5] + swing * x[:, 1] < 0.1, 0, 1))


def _cards(stand: int) -> Driver:
    return lambda x: ((x[:, 0] < stand) | ((x[:, 2] > 0) & (x[:, 0] < 18) & (x[:, 1] > 8))).astype(int)


def _car(idle: float) -> Driver:
    return lambda x: np.where(np.abs(x[:, 1]) < idle, 1, np.where(x[:, 1] + 0.01 * (x[:, 0] + 0.5) > 0, 2, 0))


def _lander(calm: float) -> Driver:
    def fly(x: Any) -> Any:
        angle = np.clip(x[:, 0] * 0.5 + x[:, 2], -0.4, 0.4)
        turn = (angle - x[:, 4]) * 0.5 - x[:, 5]
        lift = (0.55 * np.abs(x[:, 0]) - x[:, 1]) * 0.5 - calm * x[:, 3]
        return np.where(
            (lift > np.abs(turn)) & (lift > 0.05), 2, np.where(turn < -0.05, 3, np.where(turn > 0.05, 1, 0))
        )

    return fly


def _traffic(near: float, left_first: bool) -> Driver:
    """Overtake what is near, on the lane that is free; 25 numbers, five vehicles of presence, x, y, vx, vy."""

    def drive(x: Any) -> Any:
        others = x.reshape(len(x), 5, 5)[:, 1:]
        ahead, beside, here = others[:, :, 1], others[:, :, 2], others[:, :, 0] > 0
        gap = np.where(here & (np.abs(beside) < 0.12) & (ahead > 0), ahead, 1.0).min(axis=1)
        free = [~(here & (np.abs(beside - side) < 0.12) & (np.abs(ahead) < 0.12)).any(axis=1) for side in (-0.25, 0.25)]
        first, second = (0, 1) if left_first else (1, 0)
        change = np.where(free[first], 2 * first, np.where(free[second], 2 * second, 4))
        return np.where(gap < near, change, np.where(gap > 2 * near, 3, 1))

    return drive


def _gather(gold_first: bool) -> Driver:
    """To the gold or the gem, then home; four numbers: row, column, gold and gem in hand."""
    treasure, carried = ((0, 2), 2) if gold_first else ((1, 4), 3)

    def walk(x: Any) -> Any:
        aim = np.where(x[:, [carried]] > 0, (4, 2), treasure)
        down, right = (aim - x[:, :2]).T
        return np.where(right > 0, 3, np.where(right < 0, 2, np.where(down > 0, 1, 0)))

    return walk


def _torque(gain: float) -> Driver:
    return lambda x: np.clip(-gain * x[:, 1:2] - 0.5 * x[:, 2:3], -2, 2)


def _engines(calm: float) -> Driver:
    return lambda x: np.stack([-calm * x[:, 3] - x[:, 1], x[:, 4] + x[:, 5] - 0.3 * x[:, 0]], axis=1)


def _legs(stride: float) -> Driver:
    return lambda x: np.stack([stride * x[:, 9], -x[:, 6], stride * x[:, 4], -x[:, 11]], axis=1)


CASES: dict[str, tuple[Driver, Driver, int]] = {  # drivers, and starts that are followed
    "CartPole-v1": (_cart(0.0), _cart(0.3), 40),
    "Acrobot-v1": (_acrobot(0.0), _acrobot(1.5), 16),
    "LunarLander-v3": (_lander(0.5), _lander(0.9), 16),
    "Blackjack-v1": (_cards(17), _cards(13), 400),
    "highway-fast-v0": (_traffic(0.1, True), _traffic(0.2, False), 12),
    "MountainCar-v0": (_car(0.0), _car(0.01), 20),
    "merge-v0": (_traffic(0.1, True), _traffic(0.2, False), 12),
    "roundabout-v0": (_traffic(0.1, True), _traffic(0.2, False), 8),
    "Pendulum-v1": (_torque(4.0), _torque(8.0), 16),
    "LunarLanderContinuous-v3": (_engines(0.8), _engines(1.6), 16),
    "resource-gathering-v0": (_gather(True), _gather(False), 40),
    "BipedalWalker-v3": (_legs(1.0), _legs(2.0), 6),
}


def run(smoke: bool = False) -> dict[str, Any]:
    """One row per environment."""
    if smoke:
        return {"environments": [_row("CartPole-v1", _cart(0.0), _cart(0.3), 6)]}
    return {"environments": list(_rows(tuple(CASES)))}


def _rows(names: Sequence[str]) -> Iterator[dict[str, Any]]:
    warnings.filterwarnings("ignore")
    import_module("highway_env")  # these register their environments
    import_module("mo_gymnasium")
    return (_row(name, *CASES[name]) for name in names)


def _row(name: str, one: Driver, other: Driver, starts: int) -> dict[str, Any]:
    world = Simulator(name, horizon=_horizon(name))
    networks = [_shown(world, driver, starts) for driver in (one, other)]
    answered = _answered(name, networks)
    world, *policies = compared(world, *networks, seed=0)[:3]
    begin, options = time.process_time(), ExplainOptions(starts=starts)
    if name.startswith(ROADS):
        options = ExplainOptions(starts=starts, max_steps=DRIVEN)
    seen = find_divergence(world, *policies, options)
    found = time.process_time() - begin
    described = describe(seen, world.actions, world.feature_names, has_features=True)
    spent = time.process_time() - begin
    fresh = find_divergence(world, *policies, replace(options, max_splits=0, seed=1))
    return {
        "environment": name,
        "features": seen.features.shape[1],
        "swaps": len(seen.swaps),
        "decisions that differ": round(float(seen.judged[seen.diverging].sum()), 3),
        **_against_trees(seen, fresh, world.feature_names),
        "told in rules": len(described.regions),
        "CPU s to find": round(found, 1),
        "CPU s to tell": round(spent - found, 1),
        **answered,
    }


def _horizon(name: str) -> int:
    return ON_A_ROAD if name.startswith(ROADS) else LONGEST


def script(name: str) -> str:
    """What a user types."""
    road = name.startswith(ROADS)
    library = "highway_env" if road else "mo_gymnasium" if name.startswith("resource") else "gymnasium"
    return f"""import {library}
import joblib
from polidiff import Simulator, explain

current, proposed = joblib.load("current.joblib"), joblib.load("proposed.joblib")
world = Simulator("{name}", horizon={_horizon(name)})
told = explain(world, current, proposed, max_steps={DRIVEN if road else STEPS})
print(told)
told.save("difference.json")
"""


def _answered(name: str, networks: list[Any]) -> dict[str, Any]:
    """What the script answers in a process of its own, and what that costs."""
    with TemporaryDirectory() as folder:
        for network, file in zip(networks, ("current", "proposed"), strict=True):
            joblib.dump(network, Path(folder) / f"{file}.joblib")
        begin = _of_children()
        command = [sys.executable, "-W", "ignore", "-c", script(name)]
        subprocess.run(command, cwd=folder, check=True, env={**os.environ}, stdout=subprocess.DEVNULL)
        spent, told = _of_children() - begin, load(Path(folder) / "difference.json")
    assert isinstance(told, Explanation)
    verdict = told.verdicts[0]
    return {
        "lines of the script": len([line for line in script(name).splitlines() if line]),
        "CPU s of the script": round(spent, 1),
        "F1 that it says": round(told.quality.f1, 3),
        "regions that it tells": len(told.regions),
        "what it says": f"{verdict.direction} {verdict.outcome}",
        "in doubt": [doubt.name for doubt in told.assumptions if doubt.alarming],
    }


def _of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _shown(world: Simulator, driver: Driver, starts: int) -> Any:
    """A network of 32 units that was shown what a driver does."""
    real = world.real is not None
    if real:
        place = world.with_choices((driver,), ("its own",))
        policy: Any = as_policy(lambda x: np.zeros(len(x), dtype=int), n_actions=1)
    else:
        place, policy = world, as_policy(driver, n_actions=world.n_actions)
    few = SHOWN // 3 if world.env.startswith(ROADS) else max(SHOWN, starts)
    visits = roll_out(place, policy, episodes=few, seed=(7,), record=True).visits
    assert visits is not None
    X = visits.states.reshape(len(visits.states), -1)
    kind = MLPRegressor if real else MLPClassifier
    passes = max(40, 100_000 // len(X))
    network = kind(hidden_layer_sizes=(32,), max_iter=passes, random_state=0)
    return network.fit(X, np.squeeze(driver(X)))


def _against_trees(seen: Divergence, fresh: Divergence, names: tuple[str, ...]) -> dict[str, Any]:
    visits, label = visits_of(seen, as_pairs(seen)), _same_swaps(seen, fresh)
    fit = ~held_out_visits(seen.episode, 0)
    trees = _trees(seen, fit, fresh, label)
    row: dict[str, Any] = {}
    for size in AT:
        ways, *_ = rule_lists(visits.take(fit), as_learner(), names, MOST_RULES, 0, wanted=size)
        lists, points = best_told(ways, visits.take(~fit), size)
        listed = lists[int(np.argmax([point.f1 for point in points[: size + 1]]))]  # as `max_rules` chooses it
        match = first_match([rule for rule, _ in listed], fresh.features)
        ours = fidelity(np.array([*(k for _, k in listed), 0])[match], label, fresh.judged).f1
        literals = sum(rule.literals for rule, _ in listed)
        row[f"F1 of {size} rules"] = round(ours, 3)
        row[f"comparisons in {size} rules"] = literals
        row[f"F1 of a tree with {size} such leaves"] = round(max(f1 for leaves, _, f1 in trees if leaves <= size), 3)
        row[f"F1 of a tree with the comparisons of {size} rules"] = round(
            max(f1 for _, c, f1 in trees if c <= literals), 3
        )
    return row


def _same_swaps(seen: Divergence, fresh: Divergence) -> Any:
    """Labels of the fresh visits, numbered as those that were seen; a swap that is new has a number of its own."""

    def key(swap: Any) -> Any:
        return swap.current, swap.proposed, swap.shift is not None and swap.shift.proposed > swap.shift.current

    known = {key(swap): k + 1 for k, swap in enumerate(seen.swaps)}
    numbers = [0, *(known.get(key(swap), len(known) + 1) for swap in fresh.swaps)]
    return np.array(numbers)[fresh.label]


def _trees(seen: Divergence, fit: Any, fresh: Divergence, label: Any) -> list[tuple[int, int, float]]:
    """Leaves that name a difference, comparisons on the way to them, and F1 on fresh visits, of each tree."""
    rows = [(0, 0, 0.0)]
    for balance in (None, "balanced"):
        for leaves in LEAVES:
            tree = DecisionTreeClassifier(max_leaf_nodes=leaves, class_weight=balance, random_state=0)
            tree.fit(seen.features[fit], seen.label[fit], sample_weight=seen.weight[fit] / seen.weight[fit].mean())
            inner, left, right = tree.tree_, tree.tree_.children_left, tree.tree_.children_right
            depth = np.zeros(inner.node_count, dtype=int)
            for node in np.flatnonzero(left >= 0):
                depth[[left[node], right[node]]] = depth[node] + 1
            naming = (left < 0) & (tree.classes_[inner.value[:, 0].argmax(axis=1)] > 0)
            f1 = fidelity(tree.predict(fresh.features), label, fresh.judged).f1
            rows.append((int(naming.sum()), int(depth[naming].sum()), f1))
    return rows


if __name__ == "__main__":
    for row in _rows(sys.argv[1:] or tuple(CASES)):
        keep_row("environments", "environments", row, ("environment",))
