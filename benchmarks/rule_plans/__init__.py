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
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from polidiff.domains import frozen_lake, icu_sepsis, inventory, navigation, queues
from polidiff.frontier.rule_plans import improve_with_rules
from polidiff.records.plan import Frontier
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
        {"max_rules": 3, "moves": inventory.order_up_to(list(range(4, 25))), "fallback": "nearest"},
    ),
    "inventory, order q": (stock_case, {"max_rules": 3}),
    "queues, 10093 states": (lambda: queue_case(57), {"max_rules": 3}),
    "ICU-Sepsis, strict levels": (lambda: icu_case("all"), {"max_rules": 6, **STRICT}),
    "ICU-Sepsis, levels where allowed": (lambda: icu_case("all"), {"max_rules": 6, "moves": "levels"}),
    "ICU-Sepsis, bedside features, strict levels": (lambda: icu_case("bedside"), {"max_rules": 6, **STRICT}),
    "ICU-Sepsis, one rule of two conditions": (
        lambda: icu_case("all"),
        {"max_rules": 1, "max_conditions": 2, "cuts": 15, **STRICT},
    ),
}
SMOKE = ("FrozenLake 8x8", "navigation", "queues, 769 states")


def run(smoke: bool = False) -> dict[str, Any]:
    """Every case once, each with what its peers reach at equal K."""
    names = SMOKE if smoke else tuple(CASES)
    with threadpool_limits(1):
        rows = {name: measure(*CASES[name]) for name in names}
    lost = [(name, peer, k) for name, row in rows.items() for peer, k in row["worse_than_peer"]]
    return {
        "settings": {"seed": 0, "threads": 1, "smoke": smoke},
        "versions": {
            "python": platform.python_version(),
            **{n: version(n) for n in ("numpy", "scipy", "scikit-learn")},
        },
        "cases": rows,
        "cells_worse_than_a_peer": lost,
    }


def measure(make: Callable[[], tuple[TabularMDP, np.ndarray]], options: dict[str, Any]) -> dict[str, Any]:
    """One case: shares, bounds and lengths of the plans by number of rules, and the peers."""
    world, current = make()
    began, wall = time.process_time(), time.perf_counter()
    frontier = improve_with_rules(world, current, **options)
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
