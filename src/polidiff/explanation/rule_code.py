"""Rules and patches as Python and SQL.

In a patch the first edit that holds acts, and its code keeps that order: ``if … elif …``, ``CASE WHEN``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from keyword import iskeyword
from types import MappingProxyType

from polidiff.explanation.words import in_order
from polidiff.records.patch import Edit, Patch
from polidiff.records.rule import Rule

NO_NAMES: Mapping[str, str] = MappingProxyType({})


def patch_lines(patch: Patch) -> list[str]:
    """What a patch changes, one line per rule; the first that holds acts."""
    from polidiff.explanation.plan_text import edits_sentence

    rules = [edits[0].rule for edits in patch.joined]
    texts = in_order(rules, [edits_sentence(edits, patch) for edits in patch.joined])
    return [f"{number}. {text}" for number, text in enumerate(texts, 1)] or ["no changes"]


def rule_python(rule: Rule) -> str:
    """A rule as a Python expression over named variables.

    >>> from polidiff.records.rule import Condition
    >>> rule_python(Rule((Condition("map", 0, high=55.0),)))
    '(map < 55.0)'
    >>> rule_python(Rule((Condition("class", 0, low=2.0),)))  # a word of the language is no variable
    "(2.0 <= row['class'])"
    """
    parts = []
    for c in rule.conditions:
        plain = c.feature.isidentifier() and not iskeyword(c.feature)
        name = c.feature if plain else f"row[{c.feature!r}]"
        if c.values is not None:
            inside = f"{name} in {c.values!r}" if c.values else "False"
        else:
            low = f"{c.low!r} <= " if math.isfinite(c.low) else ""
            high = f" < {c.high!r}" if math.isfinite(c.high) else ""
            inside = f"{low}{name}{high}" if low or high else f"{name} == {name}"
        parts.append(f"({inside} or {name} != {name})" if c.missing else f"({inside})")
    return " and ".join(parts) or "True"


def rule_sql(rule: Rule, columns: Mapping[str, str] = NO_NAMES) -> str:
    """A rule as an SQL predicate; `columns` are names of features in the table that is asked.

    >>> from polidiff.records.rule import Condition
    >>> rule_sql(Rule((Condition("y", 1, low=0.2, high=0.3),)))
    '("y" >= 0.2 AND "y" < 0.3)'
    """
    parts = []
    for c in rule.conditions:
        name = _sql_name(columns.get(c.feature, c.feature))
        if c.values is not None:
            inside = f"{name} IN ({', '.join(_sql_value(v) for v in c.values)})" if c.values else "FALSE"
        else:
            bounds = [f"{name} >= {c.low!r}"] * math.isfinite(c.low) + [f"{name} < {c.high!r}"] * math.isfinite(c.high)
            inside = " AND ".join(bounds) or f"{name} IS NOT NULL"
        parts.append(f"({inside} OR {name} IS NULL)" if c.missing else f"({inside})")
    return " AND ".join(parts) or "TRUE"


def patch_python(patch: Patch) -> Iterator[str]:
    """A patch as statements that change `action`, what the policy in use would do; one line per rule."""
    word = "if"
    for edits in patch.joined:
        edit, tests = edits[0], [rule_python(edits[0].rule)]
        if names := _replaced(edits, patch):
            tests.append(f"action in {names!r}")
        acts = "pass" if edit.holds_back else f"action = {patch.swap(edit)[1]!r}"
        yield f"{word} {' and '.join(tests)}: {acts}{_drawn(edit, '#')}"
        word = "elif"


def patch_sql(patch: Patch) -> Iterator[str]:
    """A patch as an expression over what the policy in use would do, in the log's own columns; one line per rule."""
    action = _sql_name(patch.columns.get("action", "action"))
    if not patch.edits:
        yield action
        return
    yield "CASE"
    for edits in patch.joined:
        edit, tests = edits[0], [rule_sql(edits[0].rule, patch.columns)]
        if names := _replaced(edits, patch):
            tests.append(f"{action} IN ({', '.join(map(_sql_value, names))})")
        acts = action if edit.holds_back else _sql_value(patch.swap(edit)[1])
        yield f"  WHEN {' AND '.join(tests)} THEN {acts}{_drawn(edit, '--')}"
    yield f"  ELSE {action}{'' if 'action' in patch.columns else '  /* what the policy in use does */'}"
    yield "END"


def _replaced(edits: tuple[Edit, ...], patch: Patch) -> tuple[str, ...]:
    """What the policy must do for a rule to act; empty where it acts whatever that is."""
    if edits[0].replaces is None:
        return ()
    named = {patch.swap(edit)[0] for edit in edits}
    return () if named == set(patch.actions) else tuple(name for name in patch.actions if name in named)


def _drawn(edit: Edit, comment: str) -> str:
    """What code without luck cannot do, said behind it."""
    if edit.shift is None or edit.shift.proposed == 1.0:
        return ""
    return f"  {comment} with probability {edit.shift.proposed:.4g} only"


def _sql_name(column: str) -> str:
    return '"' + column.replace('"', '""') + '"'


def _sql_value(value: str | float | int | bool) -> str:
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else repr(value)
