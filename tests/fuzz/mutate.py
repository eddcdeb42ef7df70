"""Valid documents made wrong: trees with a branch cut, swapped or replaced, and bytes flipped, cut or repeated."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

HOSTILE = (
    "<script>window.hacked=1</script>",
    '"><img src=x onerror="window.hacked=1">',
    "{{ 7*7 }}{% for x in range(9) %}{{ x }}{% endfor %}",
    "${7*7} #{7*7} <%= 7*7 %>",
    "__import__('os').system('touch hacked')",
    "'; DROP TABLE stays; --",
    "\x1b[2J\x1b]0;hacked\x07\x9b31m",
    "a\nimport os",
    "rate\u202e10\u202c\u2066\u200f",
    "\ud800",
    "\x00",
    "f" * 5_000,
    "💊👩‍⚕️ dose",
    "a.b[0]\\c'\"`|*_ $t &amp;",
    "=cmd|' /C calc'!A0",
    "%s %n {0} {x!r:>{y}}",
    "../../../../etc/passwd",
    "~nobody-here/x",
)
NUMBERS = (
    0, 1, -1, 2, 7, 255, 2**31, 2**53 + 1, 2**63, -(2**63) - 1, 2**64, 10**30, 10**400, -(10**400),
    0.0, -0.0, 0.5, 1e-320, 1e308, -1e308, 1.0000000000000002, math.nan, math.inf, -math.inf,
)  # fmt: skip
WORDS = (
    "",
    " ",
    "nan",
    "inf",
    "-inf",
    "0",
    "1e999",
    "true",
    "null",
    "state",
    "return",
    "more",
    "log",
    "polidiff/patch",
)


def deep(depth: int) -> Any:
    """Lists in lists."""
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


JUNK: tuple[Any, ...] = (
    None, True, False, *NUMBERS, *WORDS, *HOSTILE, [], {}, [[]], [None], [0.5, "x"], {"a": 1}, {"": {}}, deep(60),
    list(range(300)), [[1.0, 2.0], [3.0]], {"schema": "polidiff/patch", "version": 1},
)  # fmt: skip
values = st.sampled_from(JUNK).map(copy.deepcopy)
names = st.sampled_from((*HOSTILE, *WORDS)) | st.text(max_size=12)


def paths(tree: Any, here: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Every place in a tree, the whole of it last."""
    entries = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, entry in entries:
        yield from paths(entry, (*here, key))
    yield here


def at(tree: Any, path: tuple[str | int, ...]) -> Any:
    """What stands at a place."""
    for key in path:
        tree = tree[key]
    return tree


@st.composite
def mutated(draw: st.DrawFn, tree: Any, most: int = 3) -> Any:
    """The tree with one to `most` changes; each cuts, replaces, renames, repeats, wraps or moves a branch."""
    holder = [copy.deepcopy(tree)]
    gentle = draw(st.integers(0, 2)) > 0  # most cases keep the shape, and so get past the first check
    for _ in range(draw(st.integers(1, most))):
        places = [path for path in paths(holder[0]) if not gentle or not isinstance(at(holder[0], path), (dict, list))]
        if not places:
            break
        path = (0, *places[draw(st.integers(0, len(places) - 1))])
        change = _like if gentle else _CHANGES[draw(st.sampled_from(sorted(_CHANGES)))]
        change(draw, holder, path)
        if not holder:
            return None
    return holder[0]


def _cut(draw: st.DrawFn, holder: list[Any], path: tuple[str | int, ...]) -> None:
    del at(holder, path[:-1])[path[-1]]


def _replace(draw: st.DrawFn, holder: list[Any], path: tuple[str | int, ...]) -> None:
    at(holder, path[:-1])[path[-1]] = draw(values)


def _like(draw: st.DrawFn, holder: list[Any], path: tuple[str | int, ...]) -> None:
    """Another value of the same kind: what types alone do not refuse."""
    before = at(holder, path)
    if isinstance(before, bool):
        after: Any = not before
    elif isinstance(before, (int, float)):
        after = draw(st.sampled_from(NUMBERS) | st.integers(-3, 40) | st.floats(width=32))
    elif isinstance(before, str):
        after = draw(names)
    elif isinstance(before, list):
        after = before[: draw(st.integers(0, len(before)))]
    elif isinstance(before, dict):
        after = {draw(names): entry for entry in before.values()}
    else:
        after = draw(values)
    at(holder, path[:-1])[path[-1]] = after


def _rename(draw: st.DrawFn, holder: list[Any], path: tuple[str | int, ...]) -> None:
    parent = at(holder, path[:-1])
    if isinstance(parent, dict):
        parent[draw(names)] = parent.pop(path[-1])
    else:
        parent.reverse()


def _repeat(draw: st.DrawFn, holder: list[Any], path: tuple[str | int, ...]) -> None:
    entry = at(holder, path)
    if isinstance(entry, list) and entry:
        entry.extend(copy.deepcopy(entry[:1]) * draw(st.integers(1, 50)))
    else:
        at(holder, path[:-1])[path[-1]] = [entry, copy.deepcopy(entry)]


def _wrap(draw: st.DrawFn, holder: list[Any], path: tuple[str | int, ...]) -> None:
    parent = at(holder, path[:-1])
    parent[path[-1]] = {draw(names): parent[path[-1]]} if draw(st.booleans()) else [parent[path[-1]]]


def _move(draw: st.DrawFn, holder: list[Any], path: tuple[str | int, ...]) -> None:
    places = list(paths(holder[0]))
    other = places[draw(st.integers(0, len(places) - 1))]
    at(holder, path[:-1])[path[-1]] = copy.deepcopy(at(holder[0], other))


_CHANGES = {
    "cut": _cut, "like": _like, "like again": _like, "move": _move, "rename": _rename, "repeat": _repeat,
    "replace": _replace, "wrap": _wrap,
}  # fmt: skip


@st.composite
def damaged(draw: st.DrawFn, content: bytes) -> bytes:
    """Bytes flipped, cut off, taken out, put in or repeated, in one to four places."""
    data = bytearray(content)
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, max(len(data) - 1, 0)))
        length = draw(st.sampled_from((1, 1, 2, 4, 8, 64)))
        how = draw(st.sampled_from(("flip", "flip", "cut", "out", "in", "twice", "zero", "ones")))
        if how == "flip" and data:
            data[start] ^= 1 << draw(st.integers(0, 7))
        elif how == "cut":
            del data[start:]
        elif how == "out":
            del data[start : start + length]
        elif how == "in":
            data[start:start] = draw(st.binary(min_size=1, max_size=8))
        elif how == "twice":
            data[start:start] = data[start : start + length] * 3
        else:
            data[start : start + length] = (b"\0" if how == "zero" else b"\xff") * length
    return bytes(data)


def mostly_whole(contents: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """One case in five with damaged bytes."""
    return st.integers(0, 4).flatmap(lambda luck: contents.flatmap(damaged) if luck == 4 else contents)


def as_json(tree: Any) -> bytes:
    """A tree as JSON, with NaN and infinity as Python writes them."""
    return json.dumps(tree).encode()
