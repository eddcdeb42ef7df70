"""Functions that work on records but live to the right of them, found when first called.

Records import nothing from later stages. ``str(explanation)`` and ``plan.save("x.html")`` still have to reach the
text and the report, so a record asks for them here by name.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from polidiff.errors import InvalidOptionError
from polidiff.records.codec import Json, to_dict

RENDERERS = {
    "text": "polidiff.explanation.text:render",
    "frontier_text": "polidiff.explanation.text:render_frontier",
    "comparison_text": "polidiff.report.comparison:render_comparison",
    "case": "polidiff.explanation.case:answer_case",
    "apply_patch": "polidiff.policies.patched:apply_patch",
    "undo_patch": "polidiff.policies.patched:undo_patch",
    "chart": "polidiff.report.charts:chart",
    "notebook": "polidiff.report.page:mimebundle",
    ".json": "polidiff.records.codec:save_json",
    ".html": "polidiff.report.page:save_page",
    ".md": "polidiff.report.markdown:save_markdown",
    ".png": "polidiff.report.charts:save_picture",
    ".svg": "polidiff.report.charts:save_picture",
}


def renderer(name: str) -> Callable[..., Any]:
    """The function behind a name."""
    module, function = RENDERERS[name].split(":")
    there: Callable[..., Any] = getattr(import_module(module), function)
    return there


class Result:
    """What every result can do: be turned into JSON, written to a file, and shown in a notebook."""

    def to_dict(self) -> dict[str, Json]:
        """The JSON form."""
        return to_dict(self)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write as .json, .html or .md, or as a picture (.png, .svg) where there is one, by the ending of the name."""
        suffix = Path(path).suffix.lower()
        if not suffix or suffix not in RENDERERS:
            known = ", ".join(key for key in RENDERERS if key.startswith("."))
            raise InvalidOptionError(f"a result is saved as one of {known}; got {os.fspath(path)!r}")
        written: Path = renderer(suffix)(self, path)
        return written

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        shown: dict[str, str] = renderer("notebook")(self)
        return shown

    def _repr_html_(self) -> str:
        return self._repr_mimebundle_()["text/html"]
