"""Lists of rules beside optimal decision trees: what do both return, what is proven, how fast, and how much is read?

dtPAYNT (CAV 2025) finds the best tree of depth d; needs ``pip install paynt`` and the extra ``storm``, and is skipped
where it is missing. Our lists have at most 2^d - 1 rules and then one action for the rest, the best one for all states,
each in turn where several are best alone: once with at most as many comparisons as the tree has (2^d - 1), once with as
many as it takes. Each gets the same seconds on one thread; time is that of the processor, without starting Storm (about
two seconds). Both sides look at the clock on the wall: their limits are stretched by how much slower than the processor
it runs just then, on a machine that other work shares. ``python -m benchmarks.trees`` runs the lists alone once more,
beside the trees of the run before.
"""

from __future__ import annotations

import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.trees.tables import TABLES
from polidiff import TabularMDP, improve
from polidiff.evaluation.exact import ExactEvaluator, best_policy
from polidiff.policies import one_hot

DEPTHS = (2,)
SECONDS = 20
MOST = 20.0  # times that limits are stretched at most


def run(smoke: bool) -> dict[str, Any]:
    """Every table at every depth; the smallest one in a smoke run."""
    names = ["FrozenLake 4x4"] if smoke else list(TABLES)
    return {"seconds": SECONDS, "rows": [row(name, depth) for depth in DEPTHS for name in names]}


def row(name: str, depth: int, seconds: int = SECONDS) -> dict[str, Any]:
    """One table at one depth."""
    world = TABLES[name]()
    facts = {
        "table": name,
        "states": world.n_states,
        "actions": world.n_actions,
        "depth": depth,
        "one action": max(single_actions(world)),
        "optimum": best_policy(world).expected_return,
        "tree": tree(world, depth, seconds),
        **lists(world, depth, seconds),
    }
    print({key: facts[key] for key in ("table", "tree", "list")}, file=sys.stderr, flush=True)
    return facts


def value_of(world: TabularMDP, actions: np.ndarray) -> float:
    """Exact return of a policy."""
    evaluator = ExactEvaluator(world, one_hot(np.where(world.absorbing, 0, actions), world.n_actions))
    return float(world.initial @ np.nan_to_num(evaluator.values(world.rewards)))


def single_actions(world: TabularMDP) -> list[float]:
    """What each action returns that is taken everywhere."""
    return [value_of(world, np.full(world.n_states, action)) for action in range(world.n_actions)]


def lists(world: TabularMDP, depth: int, seconds: int) -> dict[str, Any]:
    """Our side of a row."""
    return {
        "list, as many comparisons": best_list(world, depth, seconds, 2**depth - 1),
        "list": best_list(world, depth, seconds, None),
    }


def best_list(world: TabularMDP, depth: int, seconds: int, comparisons: int | None) -> dict[str, Any]:
    """The best list over the actions for the rest that are best alone, which share the time."""
    single = single_actions(world)
    rests = np.flatnonzero(np.array(single) >= max(single) - 1e-9 * (1 + abs(max(single))))
    found = [rules(world, int(rest), depth, seconds / len(rests), comparisons) for rest in rests]
    best, bound = max(found, key=lambda one: one["return"]), max(one["bound"] for one in found)
    proven = bool(bound - best["return"] < 1e-9 * (1 + abs(bound)))
    spent = round(sum(one["cpu seconds"] for one in found), 2)
    return {**best, "bound": bound, "proven": proven, "cpu seconds": spent}


def rules(world: TabularMDP, rest: int, depth: int, seconds: float, comparisons: int | None) -> dict[str, Any]:
    """The best list of at most 2^d - 1 rules with one action for the rest."""
    time_limit = seconds * stretch()
    began = time.process_time()
    current, limits = np.full(world.n_states, rest), {"max_rules": 2**depth - 1, "max_literals": comparisons}
    frontier = improve(world, current, gap=0.0, time_limit=time_limit, **limits)
    best, most = max(frontier, key=lambda plan: plan.expected_return), 2**depth - 1
    bound = max(float(frontier.stats[f"bound with {k} rules"]) for k in range(most + 1))
    return {
        "return": best.expected_return,
        "bound": bound,
        "proven": bool(bound - best.expected_return < 1e-9 * (1 + abs(bound))),
        "rules": len(best.rules),
        "comparisons": best.literals,
        "cpu seconds": round(time.process_time() - began, 2),
    }


def stretch() -> float:
    """Seconds on the wall that one of the processor takes just now, from 1 to `MOST`."""
    wall, began = time.perf_counter(), time.process_time()
    while time.process_time() - began < 0.3:
        np.linalg.inv(np.eye(60) + 0.001)
    return min(MOST, max(1.0, (time.perf_counter() - wall) / (time.process_time() - began)))


def tree(world: TabularMDP, depth: int, seconds: int) -> dict[str, Any]:
    """The best tree that dtPAYNT finds."""
    paynt = shutil.which("paynt", path=str(Path(sys.executable).parent))
    if paynt is None:
        return {"skipped": "paynt is not installed"}
    lift = max(0.0, -float(world.rewards.min()))
    with tempfile.TemporaryDirectory() as folder:
        paid_for_ever(world, lift).to_prism(Path(folder) / "sketch.templ")
        (Path(folder) / "sketch.props").write_text('R{"return"}max=? [F "end"]\n', encoding="utf-8")
        limit = round(seconds * stretch())
        command = [paynt, folder, "--tree-depth", str(depth), "--timeout", str(limit)]
        began = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=3 * limit + 60, check=False)
        except subprocess.TimeoutExpired:
            return {"skipped": f"no answer within {3 * limit + 60} s"}
        took = round(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - began, 2)
    told = done.stdout + done.stderr
    value, spent = re.search(r"tree has value (\S+)", told), re.search(r"synthesis time: (\S+) s", told)
    inner, explored = re.search(r"with (\d+) decision nodes", told), re.search(r"explored: (\d+) %", told)
    if value is None:
        return {"skipped": told.strip().splitlines()[-1][-200:], "cpu seconds": took}
    return {
        "return": float(value[1]) - lift / (1 - world.discount),
        "proven": explored is not None and explored[1] == "100",
        "comparisons": int(inner[1]) if inner else 0,
        "cpu seconds": took,
        "synthesis seconds": float(spent[1]) if spent else None,
    }


def paid_for_ever(world: TabularMDP, lift: float) -> TabularMDP:
    """The same table with every step paid `lift` more, also after its end: Storm maximises rewards of at least 0.

    Every policy then returns lift / (1 - discount) more.
    """
    if lift == 0:
        return world
    ends = np.flatnonzero(world.absorbing)
    moves = world.transitions.tolil()
    for state in ends:
        moves[state * world.n_actions : (state + 1) * world.n_actions, state] = 1.0
    stacked = moves.tocsr()
    return TabularMDP(
        [stacked[a :: world.n_actions] for a in range(world.n_actions)], world.rewards + lift, world.initial,
        absorbing=np.zeros(world.n_states, dtype=bool), actions=[a.name for a in world.actions],
        features=world.features, feature_names=world.feature_names, discount=world.discount,
    )  # fmt: skip
