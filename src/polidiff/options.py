"""The options of each verb, declared once: name, type, default, what it is for, and which values it takes.

A record here is the source of the defaults of the Python function, of the keys of a study file and of the flags of the
command line. A new option is one line here, an argument of the function in `api.py`, and its use.
"""

from __future__ import annotations

import dataclasses
import math
import numbers
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, get_args

from polidiff.errors import InvalidOptionError

if TYPE_CHECKING:
    from polidiff.records.arrays import BoolArray, FloatArray
    from polidiff.records.parse import Guard
    from polidiff.records.rule import Rule

    Keep: TypeAlias = str | Sequence[str | Guard]  # guards such as "mortality<=current"
    Freeze: TypeAlias = str | Rule | Sequence[str | Rule] | BoolArray  # conditions, or a mask of states
    Moves: TypeAlias = str | Sequence[object]  # "actions", "levels", or a list of moves
    Classifier: TypeAlias = str | object  # a name, or an estimator of scikit-learn's kind with readable rules
    ChangeCost: TypeAlias = float | FloatArray  # one for all, per action (A,), or per state and action (S, A)

Setting: TypeAlias = Any  # the value of an option, as its record declares it
Unit: TypeAlias = Literal["expected", "total"]
Style: TypeAlias = Literal["plain", "paper"]
Estimator: TypeAlias = Literal["model bootstrap", "importance sampling", "fitted q"]
Limit: TypeAlias = tuple[str, Callable[[Setting], bool]]  # what a value must be, in words and as a test


@dataclass(frozen=True)
class Kind:
    """What a value of a study file may be."""

    words: str
    accepts: Callable[[Setting], bool]


def _number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= math.inf  # not NaN


def _whole(most: int) -> Callable[[object], bool]:
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most


def _texts(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, str) for item in value)


TEXT = Kind("a text in quotes", lambda v: isinstance(v, str) and bool(v.strip()))
TEXTS = Kind("a list of texts", _texts)
TEXT_OR_TEXTS = Kind("a text or a list of texts", lambda v: TEXT.accepts(v) or _texts(v))
TEXT_OR_ANY_TEXTS = Kind(TEXT_OR_TEXTS.words, lambda v: v == [] or TEXT_OR_TEXTS.accepts(v))
NUMBER = Kind("a number", _number)
FINITE = Kind("a number below 1.8e308", lambda v: _number(v) and abs(v) <= sys.float_info.max)
COUNT = Kind("a whole number from 0 to 2³¹ − 1", _whole(2**31 - 1))
SEED = Kind("a whole number from 0 to 2¹²⁸", _whole(2**128))
FLAG = Kind("true or false", lambda v: isinstance(v, bool))


def is_whole(value: Setting) -> bool:
    """Whether it is a whole number of Python or numpy, for counting: 2.0 is none."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def is_number(value: object) -> bool:
    """Whether Python or numpy calls it a number; True and False are none."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _count(least: int, below: int = 2**31) -> Limit:
    return (
        f"a whole number of at least {least}",
        lambda value: is_whole(value) and least <= value < below,
    )


def check_count(name: str, value: Setting) -> None:
    """An error unless a setting is a whole number of at least 1, or not given."""
    words, holds = _count(1)
    if value is not None and not holds(value):
        raise InvalidOptionError(f"{name} must be {words}; got {value!r}")


def _among(choices: Sequence[str]) -> Callable[[Setting], bool]:
    return lambda value: isinstance(value, str) and value in choices


def _texts_or(what: str, method: str, mask: str | None = None) -> Limit:
    """One text or record, known by what it has, several of them, or a row of values in their place."""

    def one(value: object) -> bool:
        return isinstance(value, str) or hasattr(value, method)

    def holds(value: Setting) -> bool:
        several = isinstance(value, (list, tuple)) and all(map(one, value))
        return several or one(value) or (mask is not None and getattr(value, mask, 0) == 1)

    return what, holds


def _fits(value: object) -> bool:
    return callable(getattr(value, "fit", None)) and not isinstance(value, type)


CLASSIFIERS = ("rules", "rules cnf", "tree", "wittgenstein", "imodels", "pystreed", "pycontree")
ESTIMATORS: tuple[str, ...] = get_args(Estimator)
ESTIMATES: Limit = ("one of " + ", ".join(map(repr, ESTIMATORS)), _among(ESTIMATORS))
JUDGED_BY = f"Estimator that judges a log: {', '.join(ESTIMATORS[:-1])} or {ESTIMATORS[-1]}."
LEARNS: Limit = (
    "one of " + ", ".join(map(repr, CLASSIFIERS)) + ", or an estimator with fit",
    lambda value: value in CLASSIFIERS if isinstance(value, str) else _fits(value),
)

MIN_GROUP = "Smallest group of a log that any output shows."
LEVEL: Limit = ("between 0 and 1, such as 0.95", lambda value: is_number(value) and 0 < value < 1)
SHARE: Limit = ("at least 0 and below 1", lambda value: is_number(value) and 0 <= value < 1)
AT_LEAST_0: Limit = ("at least 0", lambda value: is_number(value) and value >= 0)
SECONDS: Limit = ("None or seconds above 0", lambda value: is_number(value) and value > 0)
SUPPORT: Limit = (
    "a whole number of at least 1 (a count) or a share below 1",
    lambda value: is_number(value) and (0 < value < 1 or (value >= 1 and value % 1 == 0)),
)
CHANGES: Limit = ("a number of changes, 0 or more", AT_LEAST_0[1])


KEPT = 'Such as "mortality<=current+0.01"; repeat.'
GUARDS = _texts_or("a guard such as 'mortality<=current', or a list of guards", "sense")
PLACES = _texts_or("a condition such as 'map<55', a rule, a list of these, or a mask of states", "covers", "ndim")
MOVES: Limit = ("'actions', 'levels' or a list of moves", lambda value: isinstance(value, (str, list, tuple)))
WORDS: Limit = ("a text", lambda value: isinstance(value, str))
YES_OR_NO: Limit = ("True or False", FLAG.accepts)
COSTS: Limit = (
    "a number, or numbers by action or by state and action",
    lambda value: is_number(value) or isinstance(value, (list, tuple)) or hasattr(value, "dtype"),
)


@dataclass(frozen=True)
class Declared:
    """What the doors need to know of an option beside its name, type and default."""

    kind: Kind
    help: str  # one line
    limit: Limit | None = None
    choices: tuple[str, ...] = ()
    metavar: str | None = None
    section: str | None = None  # of the study file, where it is not the verb's own
    only: Literal["python", "study"] | None = None  # an option that the other doors cannot say


def option(default: Setting, kind: Kind, help: str, **more: Setting) -> Setting:
    """A field of a record of options; of choices, without another limit, it must be one."""
    choices = more.get("choices", ())
    if choices and "limit" not in more:
        more["limit"] = (" or ".join(map(repr, choices)), _among(choices))
    return field(default=default, metadata={"declared": Declared(kind, help, **more)})


class Options:
    """A record of options: its values are checked when it is made; what is None by default may be None."""

    section = ""  # of the study file

    @classmethod
    def among(cls, arguments: Mapping[str, Setting]) -> Self:
        """The options of a verb among the arguments that its function was called with."""
        return cls(**{name: arguments[name] for name, _, _ in declarations(cls)})

    def __post_init__(self) -> None:
        for name, default, declared in declarations(type(self)):
            value = getattr(self, name)
            if declared.limit is None or (value is None and default is None) or declared.limit[1](value):
                continue
            raise InvalidOptionError(f"{name} must be {declared.limit[0]}; got {value!r:.200}")


def declarations(verb: type[Options]) -> Iterator[tuple[str, Setting, Declared]]:
    """Name, default and declaration of each option of a verb."""
    for declared in dataclasses.fields(verb):  # type: ignore[arg-type]
        yield declared.name, declared.default, declared.metadata["declared"]


def study_section(verb: type[Options]) -> dict[str, Kind]:
    """The keys that a verb's own section of a study may hold."""
    return {
        name: declared.kind
        for name, _, declared in declarations(verb)
        if declared.section is None and declared.only != "python"
    }


@dataclass(frozen=True)
class ExplainOptions(Options):
    """How `explain` looks for the difference and tells it."""

    section = "options"

    level: float = option(0.95, NUMBER, "Of all intervals together.", limit=LEVEL)
    max_rules: int | None = option(None, COUNT, "Tell the difference in at most so many rules.", limit=_count(1))
    policy_tolerance: float = option(0.1, NUMBER, "Smaller shifts of probability do not count.", limit=SHARE)
    transition_tolerance: float = option(0.1, NUMBER, "Smaller effects on what comes next do not count.", limit=SHARE)
    max_splits: int = option(2, COUNT, "Depth at which both policies are followed.", limit=_count(0))
    max_steps: int = option(1_000_000, COUNT, "Most simulated decisions.", limit=_count(1))
    starts: int | None = option(None, COUNT, "Starts to follow.", limit=_count(1))
    seed: int = option(0, SEED, "Same seed, same bytes.", limit=_count(0, 2**128 + 1))
    style: Style = option("plain", TEXT, "Words of the text.", choices=("plain", "paper"))
    min_group: int = option(10, COUNT, MIN_GROUP, limit=_count(1))
    classifier: Classifier | None = option(
        None,
        TEXT,
        "Learner of the regions: rules, rules cnf, tree, or a package.",
        choices=CLASSIFIERS,
        limit=LEARNS,
        metavar="NAME",
    )
    evaluation: Estimator | None = option(None, TEXT, JUDGED_BY, choices=ESTIMATORS, limit=ESTIMATES, metavar="NAME")


@dataclass(frozen=True)
class ImproveOptions(Options):
    """What a plan may change, what it must keep, and how hard to look."""

    section = "improve"

    budget: float | None = option(None, NUMBER, "Most changed decisions.", limit=CHANGES)
    unit: Unit = option("expected", TEXT, "Per episode, or summed over starts.", choices=("expected", "total"))
    max_states: int | None = option(None, COUNT, "Most changed states.", limit=_count(0))
    max_rules: int | None = option(None, COUNT, "Most rules to read.", limit=_count(0))
    max_conditions: int = option(3, COUNT, "Most conditions in a rule.", limit=_count(1))
    max_literals: int | None = option(None, COUNT, "Most comparisons in all rules.", limit=_count(0))
    moves: Moves = option("actions", TEXT, "What a rule may do.", limit=MOVES)
    fallback: str = option("keep", TEXT, "What happens where a move is impossible.", limit=WORDS)
    min_support: float | None = option(
        None, NUMBER, "Fewest records behind a change, or (below 1) share of visits behind a rule.", limit=SUPPORT
    )
    keep: Keep = option((), TEXT_OR_TEXTS, KEPT, metavar="GUARD", limit=GUARDS)
    freeze: Freeze = option(
        (), TEXT_OR_TEXTS, 'Never change where this holds, such as "map<55"; repeat.', metavar="RULE", limit=PLACES
    )
    change_cost: ChangeCost | None = option(
        None, NUMBER, "What a change counts, by state and action.", limit=COSTS, only="python"
    )
    gap: float = option(1e-3, NUMBER, "How far from proven best is good enough.", limit=AT_LEAST_0)
    time_limit: float | None = option(None, NUMBER, "Seconds; gives up same seed, same bytes.", limit=SECONDS)
    level: float = option(0.95, NUMBER, "Of intervals.", limit=LEVEL, section="options")
    seed: int = option(0, SEED, "Same seed, same bytes.", limit=_count(0, 2**128 + 1), section="options")
    pessimism: float = option(
        0.0, FINITE, "Choose in a log by the estimate less so many standard errors.", limit=AT_LEAST_0
    )
    min_group: int = option(10, COUNT, MIN_GROUP, limit=_count(1), section="options")


@dataclass(frozen=True)
class EvaluateOptions(Options):
    """How `evaluate` measures; the command line shows what policies achieve with `explain`."""

    horizon: int | None = option(None, COUNT, "Decisions per episode.", limit=_count(1), only="python")
    level: float = option(0.95, NUMBER, "Of intervals.", limit=LEVEL, only="python")
    seed: int = option(0, SEED, "Same seed, same bytes.", limit=_count(0, 2**128 + 1), only="python")
    episodes: int | None = option(None, COUNT, "Episodes to play.", limit=_count(1), only="python")
    evaluation: Estimator | None = option(None, TEXT, JUDGED_BY, limit=ESTIMATES, only="python")
    min_group: int = option(10, COUNT, MIN_GROUP, limit=_count(1), only="python")


@dataclass(frozen=True)
class CheckOptions(Options):
    """What a release must hold to pass."""

    section = "check"

    max_changes: float | None = option(None, NUMBER, "Most changed decisions per episode.", limit=CHANGES)
    keep: Keep = option((), TEXT_OR_TEXTS, KEPT, metavar="GUARD", limit=GUARDS)
    allow_unknown: bool = option(False, FLAG, "Do not fail where an effect is unknown.", limit=YES_OR_NO)
