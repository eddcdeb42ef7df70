"""How much do at most K rules recover, how sure is it, and what do simpler ways recover with as many rules?

Measured stage: `polidiff.frontier.rule_plans.improve_with_rules`, from a table and a current policy to plans with
bounds. Share is (return − current) / (optimum over all actions − current). Each case runs on one thread; time is that
of the process, so that other work on the machine does not count. Peers at equal K: the regions of the optimum
(`RuleClassifier`), trees fitted to the optimum (scikit-learn, best of three weightings, only changing leaves count),
and single states changed greedily; their rules may have any number of conditions.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterable
from functools import partial
from importlib.metadata import version
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.rule_plans import generated, logs, simulators
from benchmarks.rule_plans.orders import order_up_to
from polidiff.domains import frozen_lake, icu_sepsis, inventory, navigation, queues
from polidiff.frontier.rule_plans import improve_with_rules
from polidiff.options import ImproveOptions
from polidiff.records.plan import Frontier
from polidiff.surrogates import Surrogate
from polidiff.worlds.tabular import TabularMDP


def navigation_world() -> tuple[TabularMDP, np.ndarray]:
    """The paper's navigation as a table: the current action and east everywhere, north also at (0, 0.2)."""
    table = navigation.table()
    current = np.asarray(navigation.current(table.features))
    allowed = np.zeros((table.n_states, table.n_actions), dtype=bool)
    allowed[np.arange(table.n_states), current] = True
    allowed[:, navigation.EAST] = True
    x, y = navigation.tenths(table.features)
    allowed[(x == 0) & (y == 2), navigation.NORTH] = True
    world = TabularMDP(
        table.transitions.toarray().reshape(table.n_states, table.n_actions, table.n_states), table.rewards,
        table.initial, absorbing=table.absorbing, actions=table.actions, features=table.features,
        feature_names=table.feature_names, allowed=allowed,
    )  # fmt: skip
    return world, current


def queue_case(room: int) -> tuple[TabularMDP, np.ndarray]:
    return queues.world(room), queues.current(room)


def icu_case(features: str) -> tuple[TabularMDP, np.ndarray]:
    return icu_sepsis.world(features), icu_sepsis.current()  # type: ignore[arg-type]


def stock_case() -> tuple[TabularMDP, np.ndarray]:
    return inventory.world(), inventory.current()


STRICT = {"moves": "levels", "fallback": "nearest"}
Case = tuple[Callable[[], tuple[TabularMDP, np.ndarray]], dict[str, Any]]
CASES: dict[str, Case] = {
    "FrozenLake 8x8": (lambda: (frozen_lake.world(8), frozen_lake.current(8)), {"max_rules": 2, "gap": 0.0}),
    "FrozenLake 4x4": (lambda: (frozen_lake.world(4), frozen_lake.current(4)), {"max_rules": 4, "gap": 0.0}),
    "navigation": (navigation_world, {"max_rules": 2, "gap": 0.0}),
    "queues, 769 states": (lambda: queue_case(15), {"max_rules": 3}),
    "inventory, order up to": (
        stock_case,
        {"max_rules": 3, "moves": order_up_to(list(range(4, 25))), "fallback": "nearest"},
    ),
    "inventory, order q": (stock_case, {"max_rules": 3}),
    "queues, 10093 states": (lambda: queue_case(57), {"max_rules": 3}),
    "ICU-Sepsis, strict levels": (lambda: icu_case("all"), {"max_rules": 6, **STRICT}),
    "ICU-Sepsis, levels where allowed": (lambda: icu_case("all"), {"max_rules": 6, "moves": "levels"}),
    "ICU-Sepsis, bedside features, strict levels": (lambda: icu_case("bedside"), {"max_rules": 6, **STRICT}),
    "ICU-Sepsis, strict levels, search alone": (lambda: icu_case("all"), {"max_rules": 6, "gap": 1.0, **STRICT}),
    "ICU-Sepsis, one rule of two conditions": (
        lambda: icu_case("all"),
        {"max_rules": 1, "max_conditions": 2, "cuts": 15, **STRICT},
    ),
}
SMOKE = ("FrozenLake 8x8", "navigation", "queues, 769 states")
HELD_OUT = range(100, 110)  # seeds of generated worlds
LOGS = range(16)  # seeds of logs; others were used while the shrinking was written


def run(smoke: bool = False) -> dict[str, Any]:
    """Every case once, each with what its peers reach at equal K; generated worlds; logs; simulators."""
    with threadpool_limits(1):
        rows = {name: _told(name, measure(*CASES[name])) for name in (SMOKE if smoke else CASES)}
        made = held_out(HELD_OUT[:1] if smoke else HELD_OUT)
        small = small_worlds(HELD_OUT[:1] if smoke else HELD_OUT, nodes=50 if smoke else 3000)
        learned = logs.study(LOGS[:1] if smoke else LOGS, 1000 if smoke else 10_000)
        played = simulators.study(("navigation",) if smoke else tuple(simulators.CASES))
    return assembled(smoke, rows, made, small, learned, played)


def assembled(smoke: bool, rows: dict[str, Any], *parts: dict[str, Any]) -> dict[str, Any]:
    """All parts with the settings they share."""
    names = ("held_out_worlds", "small_worlds_four_rules", "logs", "simulators")
    return {
        "settings": {"seed": 0, "threads": 1, "smoke": smoke},
        "versions": {
            "python": platform.python_version(),
            **{n: version(n) for n in ("numpy", "scipy", "scikit-learn")},
        },
        "cases": rows,
        "cells_worse_than_a_peer": [(name, *cell) for name, row in rows.items() for cell in row["worse_than_peer"]],
        **dict(zip(names, parts, strict=True)),
    }


def _told(name: str, row: dict[str, Any]) -> dict[str, Any]:
    print(f"  {name}: {row['share']} in {row['cpu_seconds']} s", flush=True)
    return row


def held_out(seeds: range) -> dict[str, Any]:
    """Shares on generated worlds at K = 1 … 4, and every cell in which a peer is better."""
    found: dict[str, Any] = {}
    for kind, make in generated.KINDS.items():
        rows = [measure(partial(make, seed), {"max_rules": 4, "node_limit": 0}) for seed in seeds]
        names = list(rows[0]["peers"])
        found[kind] = {
            "worlds": len(rows),
            "cells": sum(len(row["share"]) * len(names) for row in rows),
            "mean_share": [
                round(float(np.mean(column)), 3) for column in zip(*(r["share"] for r in rows), strict=True)
            ],
            "mean_share_of_peers": {
                name: [round(float(np.mean(c)), 3) for c in zip(*(r["peers"][name] for r in rows), strict=True)]
                for name in names
            },
            "worse_than_peer": [
                (seed, *cell) for seed, row in zip(seeds, rows, strict=True) for cell in row["worse_than_peer"]
            ],
        }
        print(f"  held out, {kind}: {found[kind]['mean_share']}", flush=True)
    return found


def _means(rows: Iterable[list[float]]) -> list[float]:
    return [round(float(np.mean(column)), 3) for column in zip(*rows, strict=True)]


def small_worlds(seeds: range, nodes: int) -> dict[str, Any]:
    """Lakes of 25 states and two features: how often four rules are proven best, and in what time."""
    rows = [
        measure(partial(generated.lake, seed, 5), {"max_rules": 4, "gap": 0.0, "node_limit": nodes}) for seed in seeds
    ]
    return {
        "worlds": len(rows),
        "proven_by_rules": _means(row["proven"] for row in rows),
        "share": [row["share"] for row in rows],
        "bound": [row["bound"] for row in rows],
        "cpu_seconds": [row["cpu_seconds"] for row in rows],
    }


def measure(make: Callable[[], tuple[TabularMDP, np.ndarray]], options: dict[str, Any]) -> dict[str, Any]:
    """One case: shares, bounds and lengths of the plans by number of rules, and the peers."""
    world, current = make()
    given = ImproveOptions(**{name: value for name, value in options.items() if name != "node_limit"})
    surrogate = Surrogate(world=world, table=world, base=current, node_limit=options.get("node_limit"))
    began, wall = time.process_time(), time.perf_counter()
    frontier = improve_with_rules(surrogate, given)
    seconds, waited = time.process_time() - began, time.perf_counter() - wall
    sizes = range(1, options["max_rules"] + 1)
    plans = [frontier.at(k) for k in sizes]
    peers = {
        baseline.name: [round(share_of(frontier, value), 4) for _, value in baseline.points[1:]]
        for baseline in frontier.baselines
    }
    ours = [round(share_of(frontier, plan.expected_return), 4) for plan in plans]
    return {
        "states": world.n_states,
        "share": ours,
        "bound": [round(share_of(frontier, float(frontier.stats[f"bound with {k} rules"])), 4) for k in sizes],
        "bound_on_the_cuts": [on_cuts(frontier, k) for k in sizes],
        "proven": [plan.proven for plan in plans],
        "literals": [plan.literals for plan in plans],
        "changes": [round(plan.changes, 2) for plan in plans],
        "applicable": [None if plan.applicable is None else round(plan.applicable, 3) for plan in plans],
        "ceiling": round(share_of(frontier, frontier.optimum), 4),
        "peers": peers,
        "worse_than_peer": [
            (peer, k + 1) for peer, found in peers.items() for k in range(len(ours)) if found[k] > ours[k]
        ],
        "rules": [f"{rule.move}: {_words(rule)}" for rule in frontier.best.rules],
        "cpu_seconds": round(seconds, 2),
        "wall_seconds": round(waited, 2),
    }


def share_of(frontier: Frontier, value: float) -> float:
    """The way from the current return to the optimum of all actions."""
    reach = float(frontier.stats["optimum of all actions"]) - frontier.current_return
    return (value - frontier.current_return) / reach


def on_cuts(frontier: Frontier, k: int) -> float | None:
    """The bound that holds for rules on the cuts of many-valued features, where it is another one."""
    value = frontier.stats.get(f"bound with {k} rules on the cuts")
    return None if value is None else round(share_of(frontier, float(value)), 4)


def _words(rule: Any) -> str:
    return " and ".join(f"{c.low:g} <= {c.feature} < {c.high:g}" for c in rule.rule.conditions) or "always"
