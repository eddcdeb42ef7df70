"""Names from data, made safe to show: what is invisible becomes visible, what is endless gets an end."""

from __future__ import annotations

import unicodedata
from functools import lru_cache

LONGEST_LABEL = 40
_TAKEN = {
    "constructor", "toString", "toLocaleString", "valueOf", "hasOwnProperty", "isPrototypeOf", "propertyIsEnumerable",
    "__proto__", "__defineGetter__", "__defineSetter__", "__lookupGetter__", "__lookupSetter__",
}  # fmt: skip
_JOINERS = {"\u200d", "\ufe0f"}  # emoji are sequences held together by these


@lru_cache(maxsize=4096)
def shown(text: str) -> str:
    """`text` with control characters and direction marks written out.

    A right-to-left override in a name would turn around the words that follow it on the page.

    >>> shown("dose\\u202e10")
    'dose⟨U+202E⟩10'
    >>> shown("a\\nb")
    'a b'
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_shown_character, text))


def shown_lines(text: str) -> str:
    """`text` for a terminal: its lines stay, and nothing in it moves the cursor or turns words around.

    >>> shown_lines("a\\x1b[2J\\nb")
    'a⟨U+001B⟩[2J\\nb'
    """
    return "\n".join(map(shown, text.split("\n")))


def _shown_character(character: str) -> str:
    if character in "\n\r\t":
        return " "
    if character in _JOINERS:
        return character
    none = ord(character) & 0xFFFE == 0xFFFE  # stands for no character, and XML may not hold it
    if none or unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp"):
        return f"⟨U+{ord(character):04X}⟩"
    return character


def label(text: str, longest: int = LONGEST_LABEL) -> str:
    """`text` for an axis or a legend, cut with an ellipsis.

    Charts look names up in JavaScript objects, where some names are taken before anything is put in; an invisible
    joiner behind such a name makes it another one.

    >>> label("x" * 50, 5)
    'xxxx…'
    """
    safe = shown(text)
    cut = safe if len(safe) <= longest else safe[: longest - 1] + "…"
    return f"{cut}\u2060" if cut in _TAKEN else cut
