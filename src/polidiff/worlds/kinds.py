"""One answer per kind of world: a stage declares a question, and a module named after the kind answers it.

A stage folder holds `table.py`, `simulator.py` and `log.py`, each with a function of the same name. The module of a
kind is imported when a world of that kind is first asked about: a table never loads a log's data frame library.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Concatenate, ParamSpec, TypeVar, get_args

from polidiff.worlds.protocol import Kind, World

P = ParamSpec("P")
T = TypeVar("T")
Question = Callable[Concatenate[World, P], T]


def by_kind(question: Question[P, T]) -> Question[P, T]:
    """The question, answered by the function of its name in the module of its folder named after the world's kind."""
    folder, name = question.__module__, question.__name__

    @wraps(question)
    def answered(world: World, /, *args: P.args, **kwargs: P.kwargs) -> T:
        assert world.kind in get_args(Kind), "what is imported by name is ours"
        answer: Question[P, T] = getattr(import_module(f"{folder}.{world.kind}"), name)
        return answer(world, *args, **kwargs)

    return answered
