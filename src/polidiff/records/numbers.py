"""Numbers as people read them: one rule for digits, wherever a sentence, a table or a warning is written."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import partial
from itertools import pairwise

from polidiff.records.outcome import Interval

DIGITS = 4  # of a number that is exact, and the most of one beside its interval
GROUPS = "\u202f"  # between thousands, from five digits on: 2012 may be a year

_HEAD = re.compile(r"[a-z]+(?=$| (?:of|per|on|in|to|at|for|with|without)\b)")  # of a unit: the noun that is counted


def number(value: float, digits: int = DIGITS, places: int | None = None) -> str:
    """A number rounded for reading, to significant digits or, where asked for, to decimal places; never 1e+04.

    >>> number(0.19999998), number(21.9905), number(-0.0001), number(12345.6), number(2012.0)
    ('0.2', '21.99', '−0.0001', '12\u202f346', '2012')
    >>> number(413.2, places=-1)
    '410'
    """
    if math.isnan(value):
        return "unknown"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value == 0:
        return "0"
    if places is None:
        places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    value = round(value, places)
    grouping = "," if abs(value) >= 10_000 else ""
    text = f"{value:{grouping}.{max(0, min(places, 12))}f}".replace(",", GROUPS)
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return ("0" if text in ("-0", "0", "") else text).replace("-", "−")


def counted(count: int, noun: str) -> str:
    """A number with its noun, in the singular where it is one.

    >>> counted(1, "rule"), counted(2, "person"), counted(1200, "people"), counted(12000, "episode")
    ('1 rule', '2 people', '1200 people', '12\u202f000 episodes')
    """
    noun = "person" if noun == "people" else noun
    plural = "people" if noun == "person" else f"{noun}s"
    return f"{number(count)} {noun if count == 1 else plural}"


def percent(share: float | None) -> str:
    """A share in percent, never rounded to all or nothing; a dash where there is none.

    >>> percent(0.5), percent(0.9999), percent(0.005), percent(1.0), percent(None)
    ('50 %', '>99 %', '<1 %', '100 %', '–')
    """
    if share is None:
        return "–"
    if not math.isfinite(100 * share):
        return "unknown"
    rounded = round(100 * share)
    if rounded == 0 < share:
        return "<1 %"
    return ">99 %" if rounded == 100 and share < 1 - 1e-12 else f"{rounded} %"


def share_text(share: float | None, interval: Interval | None = None) -> str:
    """A share in percent, with the whole percents between which it lies where it was counted in a sample.

    >>> share_text(1.0, Interval(1.0, 0.774, 1.0, 0.95)), share_text(0.5)
    ('100 % [77–100 %]', '50 %')
    """
    if interval is None:
        return percent(share)
    return f"{percent(share)} [{math.floor(100 * interval.low)}–{math.ceil(100 * interval.high)} %]"


def signed(value: float, places: int | None = None) -> str:
    """A number with its sign, for differences.

    >>> signed(2.0), signed(-0.5), signed(0.0)
    ('+2', '−0.5', '±0')
    """
    text = number(value, places=places)
    return "±0" if text == "0" else text if text.startswith("−") or math.isnan(value) else f"+{text}"


def interval_numbers(interval: Interval, *, signs: bool = False) -> tuple[str, str, str]:
    """Estimate, low and high, to no more digits than the width of the interval carries.

    >>> interval_numbers(Interval(4.893, 4.244, 5.541, 0.95), signs=True)
    ('+4.9', '+4.2', '+5.5')
    >>> interval_numbers(Interval(413.2, -375.1, 1202.4, 0.95))
    ('400', '−400', '1200')
    >>> interval_numbers(Interval(9.98949, 9.98948, 9.9895, 0.95))  # too narrow to be seen
    ('9.989', '9.989', '9.989')
    >>> interval_numbers(Interval(5.273, -40.0, 4980.0, 0.95), signs=True)  # neither 0 nor 10
    ('+5', '−40', '+4980')
    """
    places = _places(interval)
    write = partial(signed if signs else number, places=places)
    estimate = write(interval.estimate)
    if places is not None and abs(interval.estimate) > interval.width / 10_000:
        first = -math.floor(math.log10(abs(interval.estimate)))  # the place of its first digit, which is always told
        estimate = (signed if signs else number)(interval.estimate, places=max(places, first))
    if places is not None and interval.width < 10.0**-places:
        return estimate, estimate, estimate
    return estimate, write(interval.low), write(interval.high)


def same_places(intervals: Sequence[Interval]) -> list[str]:
    """Estimates that are read beside each other, all to the places of the coarsest; none rounded to nothing.

    >>> same_places([Interval(10.05, 9.57, 10.53, 0.95), Interval(14.94, 14.4, 15.5, 0.95)])
    ['10.1', '14.9']
    >>> same_places([Interval.exactly(0.00012), Interval.exactly(31.5)])
    ['0.00012', '31.5']
    """
    known = [
        _finest(abs(one.estimate)) if (places := _places(one)) is None else places
        for one in intervals
        if one.estimate and math.isfinite(one.estimate)
    ]
    coarsest = min(known, default=None)
    texts = [number(one.estimate, places=coarsest) for one in intervals]
    return [text if text != "0" else interval_numbers(one)[0] for text, one in zip(texts, intervals, strict=True)]


def telling_digits(values: Sequence[float]) -> int:
    """Significant digits, at least those of any exact number, that tell the nearest two values apart; at most six.

    >>> telling_digits([4.99664, 5.17845, 6.81482]), telling_digits([9.98949, 21.9895, 21.9905])
    (4, 6)
    """
    ordered = sorted(values)
    most = max(map(abs, ordered), default=0.0)
    apart = [later - one for one, later in pairwise(ordered) if later - one > 1e-6 * most]
    return min(6, max([DIGITS, *(1 + math.ceil(math.log10(most / gap)) for gap in apart)]))


def _finest(value: float) -> int:
    """Decimal places of as many digits as an exact number is told with."""
    return max(0, DIGITS - 1 - math.floor(math.log10(value)))


def _places(interval: Interval) -> int | None:
    """Decimal places of two digits of the width; more where a bound would be rounded to nothing.

    None for what is exact or has no width: then digits are counted.
    """
    low, high = interval.low, interval.high
    if not 0 < interval.width < math.inf:
        return None
    finest = _finest(max(abs(low), abs(high)))
    places = 1 - math.floor(math.log10(interval.width))
    while places < finest and any(value and not round(value, places) for value in (low, high)):
        places += 1
    return min(places, finest)


def with_unit(text: str, unit: str) -> str:
    """A number in front of its unit, which is in the singular behind one.

    >>> with_unit("−1", " steps"), with_unit("9.5 → 1", " percentage points"), with_unit("1", " ms")
    ('−1 step', '9.5 → 1 percentage point', '1 ms')
    >>> with_unit("1", " hours on pressors"), with_unit("1", " injuries"), with_unit("1.5", " hours")
    ('1 hour on pressors', '1 injury', '1.5 hours')
    """
    if text == number(math.nan):
        return text
    one = text.rsplit(" ", 1)[-1].lstrip("+−") == "1"
    return text + (_HEAD.sub(lambda word: _singular(word[0]), unit, count=1) if one else unit)


def _singular(noun: str) -> str:
    if noun.endswith("ies"):
        return f"{noun[:-3]}y"
    if noun.endswith(("sses", "xes", "ches", "shes")):
        return noun[:-2]
    return noun[:-1] if len(noun) > 3 and noun[-1] == "s" and noun[-2] not in "sui" else noun
