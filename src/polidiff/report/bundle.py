"""The chart library as one script, made once and kept.

Making it takes seconds, so it is cached beside other caches of the user, under the version of the library that made it.
"""

from __future__ import annotations

import contextlib
import os
import sys
from functools import cache
from importlib.metadata import version
from pathlib import Path

from polidiff.errors import PolidiffError
from polidiff.files import write_whole


@cache
def chart_script() -> str:
    """Vega, Vega-Lite and Vega-Embed, wrapped so that only `vegaEmbed` reaches the page."""
    import vl_convert

    kept = _cache_folder() / f"charts-{version('vl-convert-python')}.js"
    with contextlib.suppress(OSError, UnicodeDecodeError):
        text = kept.read_text(encoding="utf-8")
        if text.endswith(_LAST):
            return text
    text = f"(()=>{{{_safe(vl_convert.javascript_bundle('window.vegaEmbed=vegaEmbed;'))}}}){_LAST}"
    with contextlib.suppress(OSError, PolidiffError):
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_whole(kept, text)
    return text


_LAST = "();\n"


def _safe(script: str) -> str:
    """No end of script inside the script."""
    return script.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _cache_folder() -> Path:
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or str(Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = str(Path.home() / "Library" / "Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "polidiff"
