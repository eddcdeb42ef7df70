"""A table in Markdown, and how its numbers are written."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

Results: TypeAlias = Mapping[str, Any]  # what a benchmark wrote, as JSON


@dataclass(frozen=True)
class Table:
    """Rows of cells under a head."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]

    def __str__(self) -> str:
        head, *rows = (f"| {' | '.join(cells)} |\n" for cells in (self.head, *self.rows))
        return head + "|---" * len(self.head) + "|\n" + "".join(rows)


def took(seconds: float) -> str:
    """A time as people say it.

    >>> took(0.0123), took(4.2)
    ('12 ms', '4.2 s')
    """
    return f"{1000 * seconds:.0f} ms" if seconds < 0.9995 else f"{seconds:.1f} s"


def share(number: float) -> str:
    """A share with three digits and no leading zero.

    >>> share(0.58349), share(1.0)
    ('.583', '1')
    """
    return "1" if number > 0.9995 else f"{number:.3f}".lstrip("0")


def side_by_side(numbers: Iterable[float | None], digits: int) -> str:
    """Numbers of one row for several sizes; nothing where none was measured.

    >>> side_by_side([0.5, None], 2), side_by_side([None], 1)
    ('0.50 / –', '')
    """
    texts = ["–" if number is None else "∞" if number == math.inf else f"{number:.{digits}f}" for number in numbers]
    return " / ".join(texts) if any(text != "–" for text in texts) else ""


def by(rows: Iterable[Mapping[str, Any]], key: str) -> dict[str, list[Mapping[str, Any]]]:
    """Rows with the same value of `key` together, in the order of their first."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(row[key], []).append(row)
    return groups
