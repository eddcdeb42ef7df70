"""Which version this is, and those of what computes results."""

from __future__ import annotations

__version__ = "0.1.0"
LIBRARIES = ("numpy", "scipy", "highspy", "scikit-learn", "polars", "numba")


def versions() -> dict[str, str]:
    """Versions of what computed a result."""
    import platform
    from importlib import metadata

    used = {name: metadata.version(name) for name in LIBRARIES}
    return {"polidiff": __version__, "python": platform.python_version(), **used}
