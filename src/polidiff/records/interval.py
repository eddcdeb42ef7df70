"""An estimate with the range that is compatible with what was seen."""

from __future__ import annotations

from dataclasses import dataclass


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

    def contains(self, value: float) -> bool:
        """Whether `value` is within the bounds."""
        return self.low <= value <= self.high

    def scaled(self, factor: float) -> Interval:
        """The interval of `factor` times the quantity."""
        low, high = (self.low, self.high) if factor >= 0 else (self.high, self.low)
        return Interval(self.estimate * factor, low * factor, high * factor, self.level)
