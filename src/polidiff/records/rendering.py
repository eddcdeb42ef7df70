"""Functions that work on records but live to the right of them, found when first called.

Records import nothing from later stages. ``str(explanation)`` and ``plan.save("x.html")`` still have to reach the
text and the report, so a record asks for them here by name.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

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
