"""Conditions, guards and cases as people write them, as nobody writes them, and read back from what they mean."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from polidiff.errors import PolidiffError
from polidiff.records.parse import parse_case, parse_guard, parse_rule, parse_rules
from polidiff.records.rule import Condition, Rule
from tests.fuzz.judge import FailureError, check_message

FEATURES = ("x", "y", "blood pressure", "3rd", "or not", "current", 'say "hi"', "<b>", "f" * 300)
_SIGNS = ("<", "<=", ">", ">=", "=", "==", "!=", "≤", "≥", "{", "}", "(", ")", ",", "+", "-", "−", "'", '"')
_NUMBERS = ("0", "1", "-2.5", "1e5", "1e999", "-1e-400", "−3", "nan", "inf", "٣", ".5", "5.", "1_0", "0x10", "1e", "-0")
_WORDS = (
    "and",
    "or",
    "is",
    "not",
    "missing",
    "in",
    "current",
    "a.b",
    "9" * 400,
    "\n",
    "\t",
    "\u202e",
    "\x00",
    ";",
    "#",
)
_CODE = ("__import__('os')", "{{7*7}}", "${7*7}", "eval(1)", "1;DROP TABLE x")

_pieces = st.sampled_from((*FEATURES, *_SIGNS, *_NUMBERS, *_WORDS, *_CODE))
_spaced = st.lists(_pieces, max_size=14).map(" ".join)
_tight = st.lists(_pieces, max_size=8).map("".join)
_long = st.tuples(_pieces, st.sampled_from((" ", "", " and ", ",")), st.integers(2, 3_000)).map(
    lambda parts: parts[1].join([parts[0]] * parts[2])
)
_numbers = st.sampled_from(_NUMBERS) | st.floats(allow_nan=False, allow_infinity=False).map(repr)
_quoted = st.sampled_from(FEATURES).map(lambda name: quoted(name))
_proper = st.one_of(
    st.tuples(_quoted, st.sampled_from(("<", "<=", ">", ">=", "=", "≤", "≥")), _numbers).map(" ".join),
    st.tuples(_numbers, st.sampled_from(("<", "<=")), _quoted, st.sampled_from(("<", "<=")), _numbers).map(" ".join),
    st.tuples(_quoted, st.lists(_numbers | st.just("word") | st.just("'a b'"), min_size=1, max_size=3)).map(
        lambda parts: f"{parts[0]} in {{{', '.join(parts[1])}}}"
    ),
    st.tuples(_quoted, st.sampled_from(("is missing", "is not missing", "= 'word'"))).map(" ".join),
    st.tuples(_quoted, st.just("<= current +"), _numbers).map(" ".join),
)
_sentences = st.tuples(st.lists(_proper, min_size=1, max_size=4), st.sampled_from((" and ", " or ", ", "))).map(
    lambda parts: parts[1].join(parts[0])
)
texts = st.one_of(_sentences, _sentences, _spaced, _tight, st.text(max_size=40), _long)


def enter_text(text: str, folder: Path) -> None:
    """Through all four readers; a rule that is read is written out, read again, and must be the same."""
    refused = []
    for parse in (parse_rules, parse_rule, parse_guard, parse_case):
        try:
            read: Any = parse(text, FEATURES)
        except PolidiffError as error:
            check_message(str(error))
            refused.append(error)
            continue
        for rule in read if parse is parse_rules else [read] if parse is parse_rule else []:
            _read_back(rule)
    if len(refused) == 4:
        raise refused[0]


def _read_back(rule: Rule) -> None:
    rule.covers({name: np.array([0.0, 1.0, np.nan]) for name in FEATURES})
    rule.covers({name: np.array(["word", "0", ""]) for name in FEATURES})
    text = " and ".join(written_condition(condition) for condition in rule.conditions)
    if parse_rule(text, FEATURES) != rule:
        raise FailureError("a rule that is not read back as it was", text)


def written_condition(condition: Condition) -> str:
    """A condition as text that means exactly it."""
    name, low, high = quoted(condition.feature), condition.low, condition.high
    if condition.values is not None and not condition.values:
        return f"{name} is missing"
    if condition.values is not None:
        return f"{name} in {{{', '.join(quoted(v) if isinstance(v, str) else repr(v) for v in condition.values)}}}"
    if low == -np.inf:
        return f"{name} < {high!r}" if high < np.inf else f"{name} is not missing"
    return f"{low!r} <= {name}" + (f" < {high!r}" if high < np.inf else "")


def quoted(name: str) -> str:
    """A name in the quotes that it does not hold."""
    return f"'{name}'" if '"' in name else f'"{name}"'
