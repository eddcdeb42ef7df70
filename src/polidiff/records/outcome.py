"""What people care about, what a policy achieves of it, and what that estimate rests on."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from polidiff.errors import InvalidOutcomeError
from polidiff.records.action import repeated
from polidiff.records.arrays import AnyArray, FloatArray, as_numbers
from polidiff.records.codec import Document, renderer, schema

Preference: TypeAlias = Literal["more", "less"] | None
OutcomeOf: TypeAlias = npt.ArrayLike | Callable[..., npt.ArrayLike] | str
LARGEST = float(np.finfo(np.float64).max)
_AFTER_NOUN = re.compile(r" (?:of|per|on|in|to|at|for|with|without|from|off|under|over)\b.*", re.DOTALL)
_UNCOUNTED = frozenset(("costs", "savings", "earnings", "emissions", "proceeds", "news", "gas", "bias"))
Status: TypeAlias = Literal["held", "doubtful", "failed", "not testable"]


@dataclass(frozen=True, eq=False)
class Outcome:
    """A sum over the decisions of an episode.

    Parameters
    ----------
    name : str
        How the outcome is called in text and files.
    of : array (S, A), callable ``g(states, actions, next_states)``, column name, or ``"info:key"``
        What one decision adds. Never evaluated at terminal states.
    prefer : {"more", "less"} or None
        Which direction is better; None when neither is.
    margin : float
        Differences within ± margin per episode count as the same.
    more, less : str, optional
        Phrases for the two directions ("longer stay", "shorter stay").
    unit : str, optional
        Printed behind numbers.
    range : (float, float), optional
        Smallest and largest possible value per episode, from any state on.

    Examples
    --------
    >>> Outcome("length", 1.0, prefer="less", more="longer trajectory").phrase("more")
    'longer trajectory'
    >>> Outcome("length", 1.0).phrase("less"), Outcome("steps in balance", 1.0).phrase("less")
    ('less length', 'fewer steps in balance')
    """

    name: str
    of: OutcomeOf = field(metadata={"json": False}, default=0.0)
    prefer: Preference = field(default=None, kw_only=True)
    margin: float = field(default=0.0, kw_only=True)
    more: str | None = field(default=None, kw_only=True)
    less: str | None = field(default=None, kw_only=True)
    unit: str | None = field(default=None, kw_only=True)
    range: tuple[float, float] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise InvalidOutcomeError(f"an outcome needs a name; got {self.name!r}. Hint: Outcome('length', of=...)")
        if not (self.prefer is None or (isinstance(self.prefer, str) and self.prefer in ("more", "less"))):
            raise InvalidOutcomeError(
                f"prefer of outcome {self.name!r} must be 'more', 'less' or None; got {self.prefer!r}"
            )
        if not isinstance(self.margin, Real) or not 0 <= self.margin <= LARGEST:
            raise InvalidOutcomeError(f"margin of outcome {self.name!r} must be at least 0; got {self.margin!r}")
        for part, given in (("more", self.more), ("less", self.less), ("unit", self.unit)):
            if not isinstance(given, str | None):
                raise InvalidOutcomeError(f"{part} of outcome {self.name!r} must be a text; got {given!r:.80}")
        if not isinstance(self.of, str) and not callable(self.of) and as_numbers(self.of) is None:
            raise InvalidOutcomeError(
                f"outcome {self.name!r} must be numbers, a function, or the name of a column; got {self.of!r:.80}"
            )
        if self.range is not None:
            bounds = tuple(self.range) if isinstance(self.range, Sequence) or np.ndim(self.range) == 1 else ()
            pair = len(bounds) == 2 and all(isinstance(bound, Real) for bound in bounds)
            low, high = (min(max(bound, -np.inf), np.inf) for bound in bounds) if pair else (0.0, 0.0)
            if not low < high or LARGEST < max(abs(low), abs(high)) < np.inf:
                raise InvalidOutcomeError(f"range of outcome {self.name!r} must be (low, high); got {self.range!r}")
            object.__setattr__(self, "range", (float(low), float(high)))

    @property
    def is_share(self) -> bool:
        """Whether it lies between 0 and 1 and has no unit of its own, so that people say it in percent."""
        return self.range == (0.0, 1.0) and self.unit is None

    @property
    def counted(self) -> bool:
        """Whether its name is a plural, so that there are fewer and not less of it."""
        noun = _AFTER_NOUN.sub("", self.name.strip()).split()[-1].casefold()
        plural = noun.endswith("s") and not noun.endswith(("ss", "us", "is")) and noun not in _UNCOUNTED
        return plural or noun in ("people", "children", "women", "men")

    def phrase(self, direction: Literal["more", "less"]) -> str:
        """The words for one direction."""
        own = self.more if direction == "more" else self.less
        word = "fewer" if direction == "less" and self.counted else direction
        return own if own is not None else f"{word} {self.name}"

    def valence(self, direction: str) -> Literal["better", "worse"] | None:
        """Whether a direction is better or worse; None if neither, or if there is no direction.

        >>> Outcome("cost", 1.0, prefer="less").valence("more")
        'worse'
        """
        if self.prefer is None or direction not in ("more", "less"):
            return None
        return "better" if direction == self.prefer else "worse"


def called_gains(outcome: Outcome, states: AnyArray, actions: AnyArray, next_states: AnyArray) -> FloatArray:
    """What each decision adds to an outcome that is a function, (k,) or one number for all."""
    assert callable(outcome.of)
    gains = np.asarray(outcome.of(states, actions, next_states), dtype=np.float64)
    if gains.shape not in ((), (len(states),)):
        raise InvalidOutcomeError(
            f"outcome {outcome.name!r} must return one number per decision; for {len(states)} decisions it "
            f"returned shape {gains.shape}"
        )
    return gains


def check_outcomes(outcomes: Iterable[Outcome]) -> tuple[Outcome, ...]:
    """The outcomes as a tuple, each name used once."""
    several = isinstance(outcomes, Iterable) and getattr(outcomes, "ndim", 1) > 0
    result: tuple[Any, ...] = tuple(outcomes) if several else (outcomes,)
    for other in result:
        if not isinstance(other, Outcome):
            raise InvalidOutcomeError(
                f"outcomes must be Outcome objects; got {type(other).__name__}. Hint: Outcome('name', of=...)"
            )
    twice = repeated([outcome.name for outcome in result])
    if twice is not None:
        raise InvalidOutcomeError(
            f"outcome names must be unique; {twice!r} is used twice. Hint: rename one, or set return_name= if it "
            "clashes with the return."
        )
    return result


@dataclass(frozen=True)
class Interval:
    """An estimate, and bounds that hold with probability `level`.

    An exact quantity has ``low == estimate == high`` and level 1.

    >>> Interval(1.0, 0.5, 1.5, 0.95).contains(0.7)
    True
    """

    estimate: float
    low: float
    high: float
    level: float  # probability that the bounds hold, 1 if exact

    @classmethod
    def exactly(cls, value: float) -> Interval:
        """The interval of a quantity that is known.

        >>> Interval.exactly(3.0).exact
        True
        """
        return cls(float(value), float(value), float(value), 1.0)

    @property
    def exact(self) -> bool:
        """Whether the quantity was computed, not estimated."""
        return self.level == 1.0 and self.low == self.high

    @property
    def width(self) -> float:
        """Distance between the bounds."""
        return self.high - self.low

    def spanning(self, *others: Interval) -> Interval:
        """The same estimate, with bounds that also hold those of others.

        >>> Interval(1.0, 0.5, 1.5, 0.95).spanning(Interval(0.5, 0.0, 1.0, 0.95))
        Interval(estimate=1.0, low=0.0, high=1.5, level=0.95)
        """
        lows, highs = zip(*((one.low, one.high) for one in (self, *others)), strict=True)
        return Interval(self.estimate, min(lows), max(highs), self.level)

    def contains(self, value: float) -> bool:
        """Whether `value` is within the bounds."""
        return self.low <= value <= self.high

    def plus(self, other: Interval) -> Interval:
        """The interval of the sum with another quantity, however the two go together."""
        return Interval(self.estimate + other.estimate, self.low + other.low, self.high + other.high, self.level)

    def scaled(self, factor: float) -> Interval:
        """The interval of `factor` times the quantity."""
        low, high = (self.low, self.high) if factor >= 0 else (self.high, self.low)
        return Interval(self.estimate * factor, low * factor, high * factor, self.level)


@dataclass(frozen=True)
class Assumption:
    """One thing that must be true of a log for its verdicts to be.

    >>> Assumption("drift", "early against late episodes", "held", "p = .40", "none", 0.4).alarming
    False
    """

    name: str  # "history", "drift", "overlap", "propensities", "independence", "cut episodes", …
    tested: str  # how, in words; "" where it cannot be
    status: Status
    detail: str  # what was seen, with numbers
    consequence: str  # what it means for the verdicts
    p_value: float | None = None  # None where the check is no test

    @property
    def alarming(self) -> bool:
        """Whether what was seen speaks against it."""
        return self.status in ("doubtful", "failed")


@schema("evaluation", 1)
@dataclass(frozen=True)
class Evaluation(Document):
    """Expected outcomes of a policy over the start distribution, and from each start where that is possible."""

    outcomes: Mapping[str, Interval]  # outcome name -> expected sum over an episode
    per_start: Mapping[str, Mapping[str, Interval]]  # outcome name -> start name -> interval; empty if starts have none
    method: str  # "exact", "exact, horizon 100", "10000 simulated episodes", …
    truncated: float  # share of episodes cut at the horizon
    details: Mapping[str, float] = field(default_factory=dict)  # episodes, length, …
    assumptions: tuple[Assumption, ...] = ()  # what is said of a log rests on

    def __str__(self) -> str:
        return renderer("evaluation_text")(self)
