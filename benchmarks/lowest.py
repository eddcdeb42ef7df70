"""The lowest versions that pyproject.toml allows, one requirement a line: ``python -m benchmarks.lowest > FILE``."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

EXTRAS = ("gym", "icu", "pandas")  # what the cases of benchmarks.answers need


def lowest(path: Path = Path("pyproject.toml")) -> Iterator[str]:
    """Each dependency at the first release that is allowed, with the newest mend of it."""
    project = tomllib.loads(path.read_text(encoding="utf-8"))["project"]
    declared = [
        *project["dependencies"],
        *(line for extra in EXTRAS for line in project["optional-dependencies"][extra]),
    ]
    for line in dict.fromkeys(declared):
        name, version = re.match(r"([\w-]+)>=([\d.]+)", line).groups()  # type: ignore[union-attr]
        yield f"{name}=={version}.*"


if __name__ == "__main__":
    print("\n".join(lowest()))
