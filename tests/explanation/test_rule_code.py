"""A patch as SQL and Python does what the patch does: the first rule that holds acts."""

import re
import sqlite3
from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from polidiff import TabularMDP, improve
from polidiff.cli.results import lines
from polidiff.explanation.rule_code import patch_python, patch_sql
from polidiff.policies import PatchedPolicy, as_policy, one_hot, rule_patch
from polidiff.records.parse import parse_rule
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
    assert len(patch.edits) == len(patch.joined) == 2
    assert list(patch_sql(patch)) == [
        "CASE",
        "  WHEN (\"x\" >= 2.0) THEN 'go'",
        "  WHEN TRUE THEN 'turn'",
        '  ELSE "action"  /* what the policy in use does */',
        "END",
    ]


def test_an_edit_that_keeps_leaves_chances_as_they_are():
    patch = Patch((Edit(Rule(), None, None), Edit(Rule(), 0, 1)), ("a", "b"), ("x",))
    mixed = np.array([[0.6, 0.4]])
    assert PatchedPolicy(as_policy(mixed), patch).probabilities(np.array([0])).tolist() == mixed.tolist()


def test_sql_speaks_of_the_columns_that_the_log_has():
    patch = rule_patch([(Rule((Condition("state", 0, values=("low",)),)), 1)], NAMES, ("state",))
    named = replace(patch, columns={"action": "drug given", "state": "pressure"})
    assert list(patch_sql(named)) == [
        "CASE", "  WHEN (\"pressure\" IN ('low')) THEN 'go'", '  ELSE "drug given"', "END",
    ]  # fmt: skip


LINE = r"\d+\. (?:otherwise, )?(.*?) (?:in (?:states? )?(.*?)|where (.*?)|everywhere(?: else)?)(?:, whatever follows)?"


def read(text, X, current):
    """(S,) what a reader of a patch's lines would do, line after line; states are called by their numbers."""
    said, open_ = np.array(current), np.ones(len(X), dtype=bool)
    for line in text:
        what, states, rule = re.fullmatch(LINE, line).groups()
        runs = [re.findall(r"\d+", part) for part in re.split(", | or ", states or "")]
        named = [state for run in runs if run for state in range(int(run[0]), int(run[-1]) + 1)]
        here = open_ & (np.isin(np.arange(len(X)), named) if states else True)
        here &= parse_rule(rule.replace("≤", "<=").replace("≥", ">="), ["u", "v"]).covers(X) if rule else True
        after, _, before = what.partition(" instead of ")
        before = before or (what.removesuffix(" stays") if what.endswith(" stays") else "stay, go or turn")
        here &= np.isin(current, [NAMES.index(name) for name in re.split(", | or ", before)])
        if after in NAMES:
            said[here] = NAMES.index(after)
        open_ &= ~here
    return said


@given(st.integers(0, 10_000))
@settings(max_examples=5)
def test_the_text_of_a_rule_plan_names_the_states_that_it_changes(seed):
    rng, n = np.random.default_rng(seed), 8
    moves = np.zeros((n, 3, n))
    moves[:-1] = 0.7 * rng.dirichlet(np.full(n, 0.3), (n - 1, 3))
    moves[:, :, -1] += 1 - moves.sum(axis=2)
    rewards = np.append(rng.normal(size=(n - 1, 3)).round(2), np.zeros((1, 3)), axis=0)
    X, current = np.array([[k % 4, k // 4] for k in range(n)], dtype=float), rng.integers(0, 3, n)
    world = TabularMDP(
        moves, rewards, np.append(np.full(n - 1, 1 / (n - 1)), 0), absorbing=[n - 1], actions=NAMES, features=X,
        feature_names=["u", "v"],
    )  # fmt: skip
    for plan in improve(world, current, max_rules=int(rng.integers(1, 4))).plans[1:]:
        done = plan.patch.apply(current).probabilities(np.arange(n)).argmax(axis=1)
        said = read(lines(plan.patch, "text"), X, current)
        assert said[:-1].tolist() == done[:-1].tolist()  # nothing is decided in the last


def test_a_rule_that_replaces_several_actions_names_the_states_of_all():
    edits = (Edit(Rule(), 0, 2, (0,)), Edit(Rule(), 1, 2, (1, 2)))
    assert lines(Patch(edits, NAMES, ("u",)), "text") == ["1. turn instead of stay or go in states 0 … 2"]


def test_a_rule_for_all_that_is_left_is_told_alike_as_text_and_sql():
    first = Edit(Rule((Condition("u", 0, low=1.0),)), None, 0, (1, 3))
    rest = Patch((first, Edit(Rule(), None, 1, (0, 2))), NAMES, ("u",))
    assert lines(rest, "text")[1] == "2. go everywhere else"
    assert lines(rest, "sql")[2] == "  WHEN TRUE THEN 'go'"
