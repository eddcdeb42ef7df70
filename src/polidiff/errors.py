"""Everything polidiff raises on purpose.

::

    PolidiffError
    ├── InvalidInputError (also a ValueError)   what the user handed in cannot be used
    │   ├── InvalidWorldError                   transitions, rewards, starts, environments
    │   ├── InvalidPolicyError                  tables, callables, files that hold a policy
    │   ├── InvalidOutcomeError                 outcome definitions
    │   ├── InvalidOptionError                  budgets, levels, tolerances, limits
    │   ├── ParseError                          conditions, guards and cases written as text
    │   ├── InvalidLogError                     tables of past decisions
    │   ├── InvalidResultError                  result and patch files
    │   └── InvalidStudyError                   study files
    ├── ImproperPolicyError                     a policy that never ends from some start
    ├── UnboundedReturnError                    a loop that pays for ever
    ├── InfeasibleError                         no plan satisfies the guards
    ├── RestoreError                            a simulator whose state cannot be restored
    ├── PatchMismatchError                      an edit whose "from" action is not what the policy does
    ├── UntrustedFileError                      a file that runs code when loaded
    ├── WorkersLostError                        workers that die again and again
    └── MissingExtraError (also an ImportError) an optional library that is not installed

A message says what was expected, what came, where first, and a way out, in one line. What is worth knowing but stops
nothing is a `PolidiffWarning`.
"""

from __future__ import annotations

import unicodedata

LONGEST = 1_000  # characters of a message: names from data may be endless
AROUND = 40  # characters of a text shown on each side of the place where reading stopped


class PolidiffError(Exception):
    """Base of all errors raised on purpose; the message is one line, whatever the names it quotes hold."""

    def __init__(self, message: str = "") -> None:
        super().__init__(_one_line(str(message)))


class InvalidInputError(PolidiffError, ValueError):
    """What the user handed in cannot be used."""


class InvalidWorldError(InvalidInputError):
    """A table, environment or model that is not a decision process."""


class InvalidPolicyError(InvalidInputError):
    """An object that is not a policy over the world's actions."""


class InvalidOutcomeError(InvalidInputError):
    """An outcome that cannot be evaluated."""


class InvalidOptionError(InvalidInputError):
    """An option outside its range."""


class InvalidLogError(InvalidInputError):
    """A table of past decisions that cannot be read as episodes."""


class InvalidResultError(InvalidInputError):
    """A result or patch file that is damaged or of an unknown version."""


class InvalidStudyError(InvalidInputError):
    """A study file with a wrong key or value."""


class ParseError(InvalidInputError):
    """Text that is not a condition, guard or case; `column` is where reading stopped (from 1)."""

    def __init__(self, message: str, *, text: str, column: int) -> None:
        super().__init__(f"{message} at column {column} of {_around(text, column)}")
        self.text = text
        self.column = column


class ImproperPolicyError(PolidiffError):
    """A policy that never reaches an absorbing state from some start."""


class UnboundedReturnError(PolidiffError):
    """A reachable loop pays for ever, so no policy is best."""


class InfeasibleError(PolidiffError):
    """No plan satisfies the guards."""


class RestoreError(PolidiffError):
    """The state of a simulator cannot be restored."""


class PatchMismatchError(PolidiffError):
    """An edit expects another action than the one the policy takes."""


class UntrustedFileError(PolidiffError):
    """Loading the file would run code that it contains."""


class WorkersLostError(PolidiffError):
    """The workers of an engine die again and again, or cannot be sent their work."""


class MissingExtraError(PolidiffError, ImportError):
    """An optional library is not installed."""

    def __init__(self, library: str, extra: str) -> None:
        super().__init__(f"{library} is needed here and is not installed. Hint: pip install 'polidiff[{extra}]'")
        self.library = library
        self.extra = extra


def _one_line(message: str) -> str:
    """The message without line ends and control characters, cut in the middle if it is endless."""
    text = message if message.isprintable() else "".join(map(_visible, message))
    if len(text) <= LONGEST:
        return text
    return f"{text[: LONGEST * 2 // 3]} … {text[-LONGEST // 3 :]}"


def _visible(character: str) -> str:
    if character.isspace():
        return " "
    if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Cn"):
        return character.encode("unicode_escape").decode()
    return character


def _around(text: str, column: int) -> str:
    """The text, or the part of it around a column, in quotes."""
    if len(text) <= 4 * AROUND:
        return repr(text)
    start, end = max(column - 1 - AROUND, 0), column - 1 + AROUND
    return f"{'…' * (start > 0)}{text[start:end]!r}{'…' * (end < len(text))}"


class PolidiffWarning(UserWarning):
    """Worth knowing, in one line."""


class SkippedRowsWarning(PolidiffWarning):
    """Part of a log could not be read and was left out."""


class ChangedInputWarning(PolidiffWarning):
    """A file is not what it was when a work folder was begun."""
