"""What a patch says as code and text, without its lists of states, is the plan."""

from __future__ import annotations

import sqlite3
from typing import Any

import numpy as np
import pytest

from polidiff import improve
from polidiff.explanation.plan_text import change_texts
from polidiff.explanation.rule_code import patch_python, patch_sql
from polidiff.records.patch import Patch
from polidiff.worlds.tabular import TabularMDP

from .conftest import random_grid, some_policy

FREEZES = ("row = 1", "column < 2", "row >= 2 and column = 1")


def by_python(patch: Patch, rows: list[dict[str, Any]]) -> list[str]:
    code = "\n".join(patch_python(patch))
    found = []
    for row in rows:
        names = dict(row)
        exec(code, {}, names)
        found.append(names["action"])
    return found


def by_sql(patch: Patch, rows: list[dict[str, Any]]) -> list[str]:
    base = sqlite3.connect(":memory:")
    base.execute('CREATE TABLE rows ("row" REAL, "column" REAL, "state" TEXT, "action" TEXT)')
    base.executemany("INSERT INTO rows VALUES (:row, :column, :state, :action)", rows)
    return [action for (action,) in base.execute(f"SELECT {' '.join(patch_sql(patch))} FROM rows")]


def deciding(world: TabularMDP, current: np.ndarray) -> tuple[np.ndarray, list[dict[str, Any]]]:
    states, names = np.flatnonzero(~world.absorbing), [action.name for action in world.actions]
    features = world.features_of(states)
    rows = [
        {"row": float(x), "column": float(y), "state": world.states[s], "action": names[current[s]]}
        for s, (x, y) in zip(states, features, strict=True)
    ]
    return states, rows


@pytest.mark.parametrize("allow", [1.0, 0.7])
@pytest.mark.parametrize("seed", range(6))
def test_the_code_of_a_patch_is_the_plan(seed: int, allow: float) -> None:
    world = random_grid(seed, allow=allow)
    current = some_policy(world, seed)
    states, rows = deciding(world, current)
    frontier = improve(world, current, max_rules=2, freeze=FREEZES[seed % 3])
    assert len(frontier) > 1
    for plan in frontier:
        wanted = [world.actions[a].name for a in plan.policy.probabilities(states).argmax(axis=1)]
        assert by_python(plan.patch, rows) == by_sql(plan.patch, rows) == wanted


def test_what_is_frozen_is_said_by_its_condition_only_where_a_rule_reaches_it() -> None:
    world = random_grid(0)
    current = some_policy(world, 0)
    for freeze in ("row = 1", "column < 2"):
        for plan in improve(world, current, max_rules=1, freeze=freeze).plans[1:]:
            held = [edit for edit in plan.patch.edits if edit.holds_back]
            (told,) = plan.rules
            reached = any(told.rule.covers(world.features[[s]])[0] for edit in held for s in edit.states or ())
            assert bool(held) == reached
            assert all(edit.rule.features[0] in freeze for edit in held)


def test_states_frozen_by_a_mask_are_named() -> None:
    world = random_grid(3)
    current = some_policy(world, 3)
    states, rows = deciding(world, current)
    free = improve(world, current, max_rules=1).plans[-1]
    mask = np.zeros(world.n_states, dtype=bool)
    mask[free.patch.changing[0].states[0]] = True
    plan = improve(world, current, max_rules=1, freeze=mask).plans[-1]
    wanted = [world.actions[a].name for a in plan.policy.probabilities(states).argmax(axis=1)]
    assert by_python(plan.patch, rows) == by_sql(plan.patch, rows) == wanted


def test_the_page_of_a_plan_says_what_is_frozen() -> None:
    world = random_grid(0)
    plans = improve(world, some_policy(world, 0), max_rules=2, freeze="row = 1").plans[1:]
    held = [any(edit.holds_back and edit.rule.features == ("row",) for edit in plan.patch.edits) for plan in plans]
    assert any(held)
    assert ["nothing changes where row is 1" in change_texts(plan)[-1] for plan in plans] == held
