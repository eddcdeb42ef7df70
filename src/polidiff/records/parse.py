"""Conditions, guards and cases written by people: ``map < 55 and lactate >= 4``, ``mortality <= current + 0.01``.

One small grammar for `freeze`, `keep`, `what-if` and `case`, which also takes rules as our own text prints them. Names
with spaces are quoted. An error names the column where reading stopped. Nothing is ever evaluated as code.

::

    rules      = rule {"or" rule}
    rule       = "everywhere" | condition {("and" | ",") condition}
    condition  = number ("<" | "<=") name ["<" | "<=" number] | name comparison number
               | name ("=" | "==" | "in") values | name "is" ["not"] "missing" | name ["not"] "measured"
               | name "is" value {("," | "or") value} | "(" condition "or not measured)"
    guard      = name comparison (number | "current" [("+" | "-") number])
    case       = name "=" (value | "missing") {"," name "=" (value | "missing")}
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from polidiff.errors import ParseError
from polidiff.records.numbers import GROUPS
from polidiff.records.rule import Condition, Rule

_TOKEN = re.compile(
    r"\s*(?:(?P<quoted>\"[^\"]*\"|'[^']*')|(?P<number>[+\-−]?(?:\d+(?:\u202f\d{3})*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w.]))"
    r"|(?P<operator><=|>=|==|!=|≤|≥|[<>={},+\-−()])|(?P<word>current(?=[+\-−])|[^\s<>=≤≥{},()\"']+))"
)
_SAME = {"≤": "<=", "≥": ">=", "==": "="}
_MINUS = "−"  # as our own text writes it
MAX_TEXT = 10_000
Values: TypeAlias = Mapping[str, Sequence[str]]  # feature -> the words it may be, none for numbers; absent if not known
ANY: Values = MappingProxyType({})
LONGEST_ALIKE = 200  # characters of names that are searched for one like a slip; comparing longer ones takes too long
MOST_ALIKE = 2_000


@dataclass(frozen=True)
class Guard:
    """A floor or cap on an outcome, absolute or relative to the current policy."""

    outcome: str
    sense: Literal["<=", ">="]
    value: float  # the limit, or what is added to the current policy's value
    relative: bool
    text: str

    @property
    def sign(self) -> float:
        """1 for a cap, −1 for a floor."""
        return 1.0 if self.sense == "<=" else -1.0


@dataclass(frozen=True)
class _Token:
    kind: str  # "name" (quoted), "word", "number", "operator", "end"
    text: str
    column: int  # from 1


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = list(_tokens(text))
        self.position = 0

    @property
    def next(self) -> _Token:
        return self.tokens[self.position]

    def take(self) -> _Token:
        token = self.next
        self.position = min(self.position + 1, len(self.tokens) - 1)
        return token

    def takes(self, *texts: str) -> bool:
        taken = self.next.kind in ("operator", "word") and self.next.text.lower() in texts
        if taken:
            self.take()
        return taken

    def fail(self, expected: str, token: _Token | None = None) -> ParseError:
        at = self.next if token is None else token
        came = "the end" if at.kind == "end" else repr(at.text)
        return ParseError(f"expected {expected}; came {came}", text=self.text, column=at.column)

    def ends(self, expected: str) -> None:
        if self.next.kind != "end":
            raise self.fail(expected)

    def number(self) -> float:
        sign = -1.0 if self.takes("-", _MINUS) else 1.0
        if self.next.kind != "number":
            raise self.fail("a number")
        token = self.take()
        value = sign * float(token.text.replace(_MINUS, "-").replace(GROUPS, ""))
        if math.isinf(value):
            raise self.fail("a number below 1.8e308", token)
        return value

    def name(self, known: Sequence[str], what: str) -> str:
        """The longest run of words that is a known name, or a quoted one."""
        token = self.next
        if token.kind == "name":
            self.take()
            return self._known(token.text, known, what, token)
        words: list[str] = []
        ends: list[tuple[str, int]] = []
        longest = max((name.count(" ") + 1 for name in known), default=1)
        while (
            len(words) < longest
            and self.next.kind in ("word", "number")
            and (words or self.next.kind == "word" or self.next.text in known)
        ):
            words.append(self.take().text)
            if " ".join(words) in known:
                ends.append((" ".join(words), self.position))
        if ends:
            name, self.position = ends[-1]
            return name
        if not words:
            raise self.fail(f"the name of {what}", token)
        runs = [" ".join(words[: count + 1]) for count in range(len(words))]
        alike = next((run for run in reversed(runs) if name_like(run, known)), runs[0])
        return self._known(alike, known, what, token)

    def _known(self, name: str, known: Sequence[str], what: str, token: _Token) -> str:
        if name in known:
            return name
        some = offered(known)
        near = name_like(name, some) or next((other for other in some if other.startswith(name)), None)
        listed = ", ".join(map(repr, some[:8]))
        hint = f"; did you mean {near!r}?" if near else f" (known: {listed})" * bool(listed)
        raise ParseError(f"{name!r} is not the name of {what}{hint}", text=self.text, column=token.column)


class Known(tuple[str, ...]):
    """Names that are known, of which only some are told to whoever mistypes one: of a log those that many have."""

    often: Callable[[], Collection[str]]

    @classmethod
    def of(cls, names: Iterable[str], often: Callable[[], Collection[str]]) -> Known:
        """The names, and how to find those that may be told."""
        known = cls(names)
        known.often = often
        return known

    def __reduce__(self) -> tuple[Any, ...]:
        """Without the world that was asked: a policy takes its names to other processes."""
        return Known.of, (tuple(self), frozenset(self.often()).copy)


def offered(known: Sequence[str]) -> list[str]:
    """Names that may be told to whoever mistypes one.

    >>> offered(Known.of(["map", "RARE"], lambda: {"map"})), offered(("map", "lactate"))
    (['map'], ['map', 'lactate'])
    """
    often = known.often() if isinstance(known, Known) else known
    return [name for name in known if name in often]


def name_like(word: str, known: Sequence[str]) -> str | None:
    """The known name most like a word, None if there is none.

    >>> name_like("lactat", ["map", "lactate"])
    'lactate'
    """
    if len(word) > LONGEST_ALIKE:
        return None
    short = [name for name in known if len(name) <= LONGEST_ALIKE][:MOST_ALIKE]
    return next(iter(difflib.get_close_matches(word, short, n=1)), None)


def parse_rules(text: str, feature_names: Sequence[str], values: Values = ANY) -> tuple[Rule, ...]:
    """Rules joined by "or"; a word that a feature cannot be, as far as `values` are known, is a slip.

    >>> [len(rule.conditions) for rule in parse_rules("x < 0.3 and y >= 0.2 or x >= 0.9", ["x", "y"])]
    [2, 1]
    """
    reader = _Reader(text)
    rules = [_rule(reader, feature_names, values)]
    while reader.takes("or"):
        rules.append(_rule(reader, feature_names, values))
    reader.ends("'and', 'or' or the end")
    return tuple(rules)


def parse_rule(text: str, feature_names: Sequence[str], values: Values = ANY) -> Rule:
    """One conjunction of conditions.

    >>> parse_rule("0.2 <= y < 0.3", ["x", "y"]).conditions[0].low
    0.2
    """
    reader = _Reader(text)
    rule = _rule(reader, feature_names, values)
    reader.ends("'and' or the end")
    return rule


def parse_guard(text: str, outcome_names: Sequence[str]) -> Guard:
    """A limit on an outcome.

    >>> parse_guard("mortality<=current+0.01", ["mortality"]).value
    0.01
    """
    reader = _Reader(text)
    name = reader.name(outcome_names, "an outcome")
    operator = _SAME.get(reader.next.text, reader.next.text)
    if reader.next.kind != "operator" or operator not in ("<=", ">=", "<", ">"):
        raise reader.fail("<= or >=")
    reader.take()
    relative = reader.takes("current")
    value = 0.0
    if relative and reader.next.kind != "end":
        if reader.next.kind == "number" or reader.takes("+"):
            value = reader.number()
        elif reader.takes("-", _MINUS):
            value = -reader.number()
    elif not relative:
        value = reader.number()
    reader.ends("the end")
    return Guard(name, "<=" if operator.startswith("<") else ">=", value, relative, text.strip())


def parse_guards(keep: str | Guard | Sequence[str | Guard], outcome_names: Sequence[str]) -> tuple[Guard, ...]:
    """Limits on outcomes, as texts or as guards.

    >>> [guard.sense for guard in parse_guards("mortality<=current", ["mortality"])]
    ['<=']
    """
    entries = (keep,) if isinstance(keep, (str, Guard)) else keep
    return tuple(entry if isinstance(entry, Guard) else parse_guard(entry, outcome_names) for entry in entries)


def parse_case(text: str, feature_names: Sequence[str], values: Values = ANY) -> dict[str, float | str]:
    """Values of features; NaN for what is missing, unless that is a word the feature may be.

    >>> parse_case("map=60, lactate=missing", ["map", "lactate"])
    {'map': 60.0, 'lactate': nan}
    """
    reader = _Reader(text)
    case: dict[str, float | str] = {}
    while True:
        name = reader.name(feature_names, "a feature")
        if not reader.takes("=", "=="):
            raise reader.fail("'='")
        absent = "missing" not in values.get(name, ()) and reader.takes("missing")
        case[name] = math.nan if absent else _value(reader, name, values)
        if not reader.takes(",", "and"):
            break
    reader.ends("',' or the end")
    return case


def _rule(reader: _Reader, names: Sequence[str], values: Values) -> Rule:
    if "everywhere" not in names and reader.takes("everywhere"):
        return Rule()
    conditions = [_condition(reader, names, values)]
    while reader.takes("and", ","):
        conditions.append(_condition(reader, names, values))
    return Rule(tuple(conditions))


def _condition(reader: _Reader, names: Sequence[str], values: Values) -> Condition:
    if reader.takes("("):
        condition = _condition(reader, names, values)
        if not (reader.takes("or") and reader.takes("not") and reader.takes("measured") and reader.takes(")")):
            raise reader.fail("'or not measured)'")
        return replace(condition, missing=True)
    if reader.next.kind == "number" and reader.next.text not in names:
        low = reader.number()
        operator = _comparison(reader, ("<", "<="))
        name = reader.name(names, "a feature")
        low = low if operator == "<=" else math.nextafter(low, math.inf)
        high = math.inf
        if reader.next.text in ("<", "<=", "≤"):
            operator = _comparison(reader, ("<", "<="))
            place = reader.next
            high = _upper(operator, reader.number())
            if high <= low:
                raise reader.fail("a bound above the lower one", place)
        return Condition(name, list(names).index(name), low, high)
    name = reader.name(names, "a feature")
    column = list(names).index(name)
    unknown = Condition(name, column, values=(), missing=True)
    if reader.takes("measured"):
        return Condition(name, column)
    if reader.takes("not"):
        if not reader.takes("measured"):
            raise reader.fail("'measured'")
        return unknown
    if reader.takes("is"):
        before, negated = reader.position, reader.takes("not")
        if "missing" not in values.get(name, ()) and reader.takes("missing"):
            return Condition(name, column) if negated else unknown
        reader.position = before
        return Condition(name, column, values=_listed(reader, name, values))
    if reader.takes("in"):
        return Condition(name, column, values=_set(reader, name, values))
    operator = _comparison(reader, ("<", "<=", ">", ">=", "="))
    if operator == "=":
        return Condition(name, column, values=(_value(reader, name, values),))
    bound = reader.number()
    if operator.startswith("<"):
        return Condition(name, column, high=_upper(operator, bound))
    return Condition(name, column, low=bound if operator == ">=" else math.nextafter(bound, math.inf))


def _upper(operator: str, bound: float) -> float:
    return bound if operator == "<" else math.nextafter(bound, math.inf)


def _comparison(reader: _Reader, allowed: tuple[str, ...]) -> str:
    token = reader.next
    operator = _SAME.get(token.text, token.text)
    if token.kind != "operator" or operator not in allowed:
        raise reader.fail(" or ".join(allowed))
    reader.take()
    return operator


def _set(reader: _Reader, feature: str, known: Values) -> tuple[float | str, ...]:
    if not reader.takes("{", "("):
        raise reader.fail("'{'")
    values = [_value(reader, feature, known)]
    while reader.takes(","):
        values.append(_value(reader, feature, known))
    if not reader.takes("}", ")"):
        raise reader.fail("',' or '}'")
    return tuple(values)


def _listed(reader: _Reader, feature: str, known: Values) -> tuple[float | str, ...]:
    """Values as they are read aloud: a, b or c; behind the last of them "or" and "," go on with another condition."""
    values = [_value(reader, feature, known)]
    while reader.next.text in (",", "or"):
        before = reader.position
        reader.take()
        value = None
        with suppress(ParseError):
            value = _value(reader, feature, known)
        if value is None or reader.next.text in ("<", "<=", "≤", ">", ">=", "≥", "=", "==", "is", "in", "measured"):
            reader.position = before
            break
        values.append(value)
    return tuple(values)


def _value(reader: _Reader, feature: str, known: Values) -> float | str:
    if words := known.get(feature):
        return reader.name(words, f"a value of {feature!r}")
    if feature in known:
        return reader.number()
    if reader.next.kind in ("number", "operator"):
        return reader.number()
    if reader.next.kind == "end":
        raise reader.fail("a value")
    return reader.take().text


def _tokens(text: str) -> list[_Token]:
    if not isinstance(text, str):
        raise ParseError("expected text", text=repr(text)[:80], column=1)
    if len(text) > MAX_TEXT:
        raise ParseError(f"expected at most {MAX_TEXT} characters; came {len(text)}", text=text[:40] + "…", column=1)
    tokens, position = [], 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            if not text[position:].strip():
                break
            column = position + 1 + len(text[position:]) - len(text[position:].lstrip())
            raise ParseError(f"cannot read {text[column - 1]!r}", text=text, column=column)
        kind = str(match.lastgroup)
        column = match.start(kind) + 1
        content = match.group(kind)
        tokens.append(_Token("name", content[1:-1], column) if kind == "quoted" else _Token(kind, content, column))
        position = match.end()
    return [*tokens, _Token("end", "", len(text) + 1)]
