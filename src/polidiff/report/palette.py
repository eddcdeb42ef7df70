"""Colours, once for files that stand alone and once for the page.

Blue is the current policy and orange the proposed one (Okabe and Ito's set, told apart by colour-blind readers). On the
page a colour is a CSS variable, so charts follow dark mode and print without being drawn again.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Palette:
    """The colours of a chart."""

    ink: str
    soft: str  # labels and axes
    line: str  # grid lines
    muted: str  # marks that are not the point
    current: str
    proposed: str
    better: str
    worse: str
    swaps: tuple[str, ...]  # one for each kind of swap, in order
    surface: str
    font: str = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif"


PAPER = Palette(
    ink="#1b2733",
    soft="#52606d",
    line="#e3e8ee",
    muted="#b6c0cb",
    current="#0072B2",
    proposed="#D55E00",
    better="#007a5a",
    worse="#b3261e",
    swaps=("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"),
    surface="#ffffff",
)

PAGE = Palette(
    ink="var(--ink)",
    soft="var(--soft)",
    line="var(--line)",
    muted="var(--muted)",
    current="var(--current)",
    proposed="var(--proposed)",
    better="var(--better)",
    worse="var(--worse)",
    swaps=tuple(f"var(--swap-{index})" for index in range(6)),
    surface="transparent",
)
