"""Do our proofs stand before a model checker's exact arithmetic, and are its models explained and improved?

Needs the extra ``storm``. Small tables go through `TabularMDP.to_prism`: every policy of a table is valued by Storm in
rational numbers, and no policy may beat the frontier. The five models ship with stormpy.
"""

from __future__ import annotations

import tempfile
import time
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from polidiff import Outcome, TabularMDP, explain, improve
from polidiff.evaluation.exact import best_policy
from polidiff.explanation.words import rule_text, swap_text

TABLES = 20
CLOSE = 1e-9  # relative: what floating point may differ by
MODELS = [  # file, property, constants, seconds that improve may take
    ("coin2.nm", 'R{"steps"}min=? [F "finished"]', {"K": 2}, 20.0),
    ("coin2.nm", 'Pmin=? [F "finished" & "all_coins_equal_1"]', {"K": 2}, 20.0),
    ("csma2-2.nm", 'Rmin=? [F "all_delivered"]', None, 20.0),
    ("wlan0_collide.nm", 'Pmax=? [F "twoCollisions"]', {"COL": 2, "TRANS_TIME_MAX": 10}, 20.0),
    ("firewire.nm", 'R{"time"}min=? [F "elected"]', {"delay": 3, "fast": 0.5}, 20.0),
]


def run(smoke: bool) -> dict[str, Any]:
    """Twenty tables and five models; one of each in a smoke run, nothing without Storm."""
    try:
        import stormpy
    except ImportError:
        return {"skipped": "stormpy is not installed"}
    folder = Path(stormpy.__file__).parent / "examples" / "files" / "mdp"
    take = slice(0, 1) if smoke else slice(None)
    tables = [checked(seed) for seed in range(TABLES)[take]]
    return {
        "stormpy": stormpy.__version__,
        "exact arithmetic": {
            "tables": len(tables),
            "policies valued by Storm": sum(row["policies"] for row in tables),
            "plans": sum(row["plans"] for row in tables),
            "largest relative difference of a plan": max(row["difference"] for row in tables),
            "policies above the frontier": sum(row["above"] for row in tables),
        },
        "models": [model(folder / name, *rest) for name, *rest in MODELS[take]],
    }


def small_table(seed: int) -> tuple[TabularMDP, np.ndarray]:
    """Three or four states and an end, two or three actions, probabilities in twelfths; some discounted, some not."""
    rng = np.random.default_rng([3, seed])
    states, actions = int(rng.integers(3, 5)), int(rng.integers(2, 4))
    moves = np.zeros((states + 1, actions, states + 1))
    for state in range(states):
        for action in range(actions):
            moves[state, action] = rng.multinomial(11, np.full(states + 1, 1 / (states + 1))) / 12
            moves[state, action, states] += 1 / 12  # every policy ends
    moves[states, :, states] = 1
    rewards = rng.integers(-9, 10, (states + 1, actions)) / 4
    rewards[states] = 0
    initial = np.append(rng.multinomial(10, np.full(states, 1 / states)) / 10, 0.0)
    discount = [1.0, 0.9][seed % 2]
    world = TabularMDP(moves, rewards, initial, absorbing=[states], discount=discount)
    return world, rng.integers(0, actions, states + 1)


def exact_values(world: TabularMDP, base: np.ndarray, policy: np.ndarray) -> tuple[Fraction, Fraction]:
    """Expected changes and return of a policy in rational numbers, by Storm."""
    import stormpy

    only = np.arange(world.n_actions) == policy[:, None]
    changed = Outcome("changes", (np.arange(world.n_actions) != base[:, None]).astype(float))
    chain = TabularMDP(
        [world.transitions[a :: world.n_actions] for a in range(world.n_actions)], world.rewards, world.initial,
        absorbing=world.absorbing, allowed=only, discount=world.discount, outcomes=[changed],
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "chain.prism"
        path.write_text(chain.to_prism().replace("mdp", "dtmc", 1), encoding="utf-8")
        program = stormpy.parse_prism_program(str(path))
    model = stormpy.build_model[stormpy.Rational](program)
    asked = [stormpy.parse_property(f'R{{"{name}"}}=? [F "end"]', program) for name in ("changes", "return")]
    values = [stormpy.model_checking(model, one).get_value(model.initial_states[0]) for one in asked]
    return Fraction(str(values[0])), Fraction(str(values[1]))


def checked(seed: int) -> dict[str, Any]:
    """All policies of a small table against its frontier."""
    world, base = small_table(seed)
    frontier = improve(world, base)
    size = 1.0 + max(abs(plan.expected_return) for plan in frontier)
    difference = 0.0
    for plan in frontier:
        changes, value = exact_values(world, base, np.asarray(plan.policy.table).argmax(axis=1))
        difference = max(
            difference, abs(float(changes) - plan.changes), abs(float(value) - plan.expected_return) / size
        )
    count, above = 0, 0
    for choice in product(range(world.n_actions), repeat=world.n_states - 1):
        changes, value = exact_values(world, base, np.array([*choice, 0]))
        best = max(plan.expected_return for plan in frontier if plan.changes <= float(changes) + CLOSE)
        above += float(value) > best + CLOSE * size
        count += 1
    proven = all(plan.proven for plan in frontier)
    return {"policies": count, "plans": len(frontier), "difference": difference, "above": above, "proven": proven}


def model(path: Path, objective: str, constants: dict[str, Any] | None, limit: float | None) -> dict[str, Any]:
    """A model beside Storm's optimum: explained against its optimum, improved from its worst policy."""
    import stormpy

    world = TabularMDP.from_prism(path, objective, constants=constants)
    best = best_policy(world)
    program = stormpy.parse_prism_program(str(path), prism_compatibility=True)
    asked = stormpy.parse_property(objective, program)
    if constants:
        program, (asked,) = stormpy.instantiate_constants(program, constants, [asked])
    built = stormpy.build_model[stormpy.Rational](program, [asked])
    storm = stormpy.model_checking(built, asked).get_value(built.initial_states[0])
    current = best_policy(world, -world.rewards).actions
    began = time.process_time()
    explanation = explain(world, current, best.actions)
    told = time.process_time() - began
    first = explanation.regions[0]
    frontier = improve(world, current, time_limit=limit)
    return {
        "model": path.name,
        "property": objective,
        "states": world.n_states,
        "optimum": abs(best.expected_return),
        "Storm's optimum": float(Fraction(str(storm))),
        "current": frontier.current_return,
        "regions": len(explanation.regions),
        "first region": f"{swap_text(first)} where {rule_text(first.rule)}",
        "explain seconds": round(told, 2),
        "plans": len(frontier),
        "proven": sum(plan.proven for plan in frontier),
        "gap": frontier.gap,
        "improve seconds": round(time.process_time() - began - told, 2),
    }
