"""Where nothing may change, from conditions as text, rules, or a mask of states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from polidiff.errors import InvalidOptionError
from polidiff.records.arrays import AnyArray, BoolArray
from polidiff.records.parse import parse_rules
from polidiff.records.rule import Rule, covers_any


def frozen_rules(freeze: Any, names: Sequence[str]) -> tuple[Rule, ...]:
    """Where nothing may change, as rules over features.

    >>> [rule.features for rule in frozen_rules("x < 1 or y >= 2", ("x", "y"))]
    [('x',), ('y',)]
    """
    if isinstance(freeze, np.ndarray):
        raise InvalidOptionError("freeze must be conditions on features here, such as 'age < 18'; got a mask of states")
    rules: list[Rule] = []
    for entry in (freeze,) if isinstance(freeze, (str, Rule)) else freeze:
        rules += parse_rules(entry, tuple(names)) if isinstance(entry, str) else [entry]
    return tuple(rules)


def frozen_states(freeze: Any, names: Sequence[str], features: AnyArray) -> BoolArray:
    """(S,) states of a table, with these features (S, d), where nothing may change."""
    if isinstance(freeze, np.ndarray):
        mask = np.asarray(freeze, dtype=np.bool_)
        if mask.shape != (len(features),):
            raise InvalidOptionError(f"freeze as a mask must have shape ({len(features)},); got {mask.shape}")
        return mask
    rules = frozen_rules(freeze, names)
    return covers_any(rules, features) if rules else np.zeros(len(features), dtype=np.bool_)
