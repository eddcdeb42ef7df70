"""A patch as SQL and Python does what the patch does: the first rule that holds acts."""

import sqlite3

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from polidiff.explanation.rule_code import joined_edits, patch_python, patch_sql
from polidiff.policies import PatchedPolicy, as_policy, one_hot, rule_patch
from polidiff.records.patch import Edit, Patch
from polidiff.records.rule import Condition, Rule

NAMES = ("stay", "go", "turn")
GRID = np.array([[x, y] for x in range(4) for y in range(4)], dtype=float)


@st.composite
def boxes(draw):
    feature = draw(st.integers(0, 1))
    low, high = sorted((draw(st.integers(0, 4)), draw(st.integers(0, 4))))
    return Rule((Condition("xy"[feature], feature, low=float(low), high=float(high)),))


@st.composite
def patches(draw):
    actions = st.none() | st.integers(0, 2)
    edits = []
    for rule in draw(st.lists(boxes(), min_size=1, max_size=4)):
        current = draw(actions)
        edits.append(Edit(rule, current, current if draw(st.booleans()) else draw(st.integers(0, 2))))
    return Patch(tuple(edits), NAMES, ("x", "y"))


def done(patch, top):
    base = as_policy(lambda rows: one_hot(np.full(len(rows), top), 3), n_actions=3)
    return [NAMES[a] for a in PatchedPolicy(base, patch).probabilities(GRID).argmax(axis=1)]


@given(patches(), st.integers(0, 2))
def test_the_code_of_a_patch_acts_as_the_patch(patch, top):
    expression, statements = "\n".join(patch_sql(patch)), "\n".join(patch_python(patch))
    table = sqlite3.connect(":memory:")
    table.execute('CREATE TABLE t (x REAL, y REAL, "action" TEXT)')
    table.executemany("INSERT INTO t VALUES (?, ?, ?)", [(x, y, NAMES[top]) for x, y in GRID.tolist()])
    assert [row[0] for row in table.execute(f"SELECT {expression} FROM t")] == done(patch, top)
    said = []
    for x, y in GRID.tolist():
        names = {"x": x, "y": y, "action": NAMES[top]}
        exec(statements, names)
        said.append(names["action"])
    assert said == done(patch, top)


def test_two_rules_are_two_lines():
    patch = rule_patch([(Rule((Condition("x", 0, low=2.0),)), 1), (Rule(), 2)], NAMES, ("x", "y"))
    assert len(patch.edits) == len(joined_edits(patch)) == 2
    assert list(patch_sql(patch)) == [
        "CASE", "  WHEN (\"x\" >= 2.0) THEN 'go'", "  WHEN TRUE THEN 'turn'", '  ELSE "action"', "END",
    ]  # fmt: skip


def test_an_edit_that_keeps_leaves_chances_as_they_are():
    patch = Patch((Edit(Rule(), None, None), Edit(Rule(), 0, 1)), ("a", "b"), ("x",))
    mixed = np.array([[0.6, 0.4]])
    assert PatchedPolicy(as_policy(mixed), patch).probabilities(np.array([0])).tolist() == mixed.tolist()
