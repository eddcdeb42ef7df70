"""How much memory there is, so that work that would not fit is refused before it begins."""

from __future__ import annotations

from pathlib import Path


def free_memory() -> float | None:
    """Bytes that can still be had; None where nobody says."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(1024.0 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration, ValueError, IndexError):
        return None
