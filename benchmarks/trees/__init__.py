"""Lists of rules beside optimal decision trees: what do both return, what is proven, how fast, and how much is read?

dtPAYNT (CAV 2025) finds the best tree of depth d; needs ``pip install paynt`` and the extra ``storm``, and is skipped
where it is missing. Our lists have at most 2^d - 1 rules and then one action for the rest, the best one for all states,
each in turn where several are best alone: once with at most as many comparisons as the tree has (2^d - 1), once with as
many as it takes. Each gets the same seconds on one thread; time is that of the processor, without starting and reading
the model (what a tree of depth 0 takes). Both sides look at the clock on the wall: their limits are stretched by how
much slower than the processor it runs just then, on a machine that other work shares. Trees of depth 3 follow where the
best tree of depth 2 is proven and falls short of the optimum.
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

DEPTH = 2
SECONDS = 20
MOST = 20.0  # times that limits are stretched at most
ATTEMPTS = 3  # of dtPAYNT, where it got less than this share of its seconds
ENOUGH = 0.75
LONGEST = 1800.0  # seconds on the wall after which the benchmark gives up


def run(smoke: bool) -> dict[str, Any]:
    """Every table, those with a proven tree below the optimum deeper as well; the smallest one in a smoke run."""
    rows = [row(name, DEPTH) for name in (["FrozenLake 4x4"] if smoke else TABLES)]
    deeper = [] if smoke else [done["table"] for done in rows if _falls_short(done)]
    return {"seconds": SECONDS, "rows": rows + [row(name, DEPTH + 1) for name in deeper]}


def _falls_short(done: dict[str, Any]) -> bool:
    best = done["optimum"]
    return bool(done["tree"].get("proven") and done["tree"]["return"] < best - 1e-4 * (1 + abs(best)))


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
    print(facts, file=sys.stderr, flush=True)
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
    """The best tree that dtPAYNT finds; it is asked again where others left it too little of the processor."""
    paynt = shutil.which("paynt", path=str(Path(sys.executable).parent))
    if paynt is None:
        return {"skipped": "paynt is not installed"}
    lift = max(0.0, -float(world.rewards.min()))
    limit = seconds * stretch()
    with tempfile.TemporaryDirectory() as folder:
        paid_for_ever(world, lift).to_prism(Path(folder) / "sketch.templ")
        (Path(folder) / "sketch.props").write_text('R{"return"}max=? [F "end"]\n', encoding="utf-8")
        starting = _spent([paynt, folder, "--tree-depth", "0"])[0]
        for _ in range(ATTEMPTS):
            took, told = _spent([paynt, folder, "--tree-depth", str(depth), "--timeout", str(round(limit))])
            took -= starting
            proven = "explored: 100 %" in told
            if proven or took >= ENOUGH * seconds:
                break
            limit *= seconds / max(took, 1.0)
    value, inner = re.search(r"tree has value (\S+)", told), re.search(r"with (\d+) decision nodes", told)
    if value is None:
        return {"skipped": told.strip().splitlines()[-1][-200:], "cpu seconds": round(took, 2)}
    return {
        "return": float(value[1]) - lift / (1 - world.discount),
        "proven": proven,
        "comparisons": int(inner[1]) if inner else 0,
        "cpu seconds": round(max(took, 0.0), 2),
    }


def _spent(command: list[str]) -> tuple[float, str]:
    """Processor seconds of a command, and what it says."""
    began = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST, check=False)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - began, done.stdout + done.stderr


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
