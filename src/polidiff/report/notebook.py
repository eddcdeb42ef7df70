"""Results that show themselves in a notebook: the page in a frame of its own, the text beside it."""

from __future__ import annotations

import html
from typing import Any

from polidiff.report.page import page_html

HEIGHT = 720


def mimebundle(record: Any) -> dict[str, str]:
    """Text for terminals, and the page in a frame that may run its scripts and nothing else."""
    page = html.escape(page_html(record), quote=True)
    frame = (
        f'<iframe sandbox="allow-scripts" srcdoc="{page}" title="polidiff result" width="100%" height="{HEIGHT}" '
        'style="border:1px solid #d5dbe2;border-radius:8px"></iframe>'
    )
    return {"text/plain": str(record), "text/html": frame}
