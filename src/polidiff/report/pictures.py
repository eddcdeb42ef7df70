"""Charts as PNG and SVG files, drawn without a browser."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from polidiff.errors import InvalidOptionError
from polidiff.files import write_whole
from polidiff.report.charts import chart, charts_of

SCALE = 2.0  # dots per unit of a PNG


def save_picture(record: Any, path: str | os.PathLike[str], which: str | None = None) -> Path:
    """Write one chart of a result; by default its most telling one."""
    return write_whole(path, picture(record, which, Path(path).suffix.lower()))


def picture(record: Any, which: str | None = None, suffix: str = ".png") -> bytes:
    """One chart of a result as the bytes of a PNG or SVG file."""
    name = which if which is not None else next(iter(charts_of(record)), None)
    if name is None:
        raise InvalidOptionError("this result has nothing to draw. Hint: save it as .md or .html")
    return rendered(chart(record, name), suffix)


def rendered(drawn: Any, suffix: str) -> bytes:
    """A chart object as the bytes of a PNG or SVG file."""
    import vl_convert

    spec = drawn.to_dict()
    if suffix == ".svg":
        return str(vl_convert.vegalite_to_svg(spec)).encode()
    return bytes(vl_convert.vegalite_to_png(spec, scale=SCALE))
