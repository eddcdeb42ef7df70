"""The proposed policy of a study: a policy of its own, or the current one with a patch or a few rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from polidiff.cli.loading import load_policy
from polidiff.cli.main import near_miss
from polidiff.cli.study import Study
from polidiff.errors import InvalidStudyError


def load_policies(study: Study, world: Any, *, trust: bool = False) -> tuple[Any, Any]:
    """Current and proposed."""
    current = load_policy(study, "current", world, trust=trust)
    policies = study.section("policies")
    proposed = policies.get("proposed")
    if "rules" in policies:
        if proposed is not None:
            raise InvalidStudyError(f"{study.source} names both a proposed policy and rules; give one of them")
        return current, ruled_by(policies["rules"], current, world)
    if isinstance(proposed, str) and _is_patch(study.file(proposed)):
        return current, patched_by(study.file(proposed), current, world)
    return current, load_policy(study, "proposed", world, trust=trust)


def ruled_by(texts: Sequence[str], current: Any, world: Any) -> Any:
    """The current policy, except where rules such as "age < 35: coupon" say what to do; the first that holds wins."""
    from polidiff.policies import PatchedPolicy, rule_patch
    from polidiff.records.parse import parse_rules

    names = [action.name for action in world.actions]
    rules = []
    for text in texts:
        where, colon, action = (part.strip() for part in text.rpartition(":"))
        named = next((name for name in (action, f"action {action}") if name in names), None)  # 3 is short for action 3
        if not colon or named is None:
            got = f"there is no action {action!r}{near_miss(action, names)}" if colon else f"got {text!r}"
            raise InvalidStudyError(f'a rule reads "condition: action", such as "age < 35: {names[0]}"; {got}')
        rules += [(rule, names.index(named)) for rule in parse_rules(where, world.feature_names)]
    return PatchedPolicy(current, rule_patch(rules, names, world.feature_names, world.features_of))


def patched_by(path: Path, current: Any, world: Any) -> Any:
    """The current policy with the edits of a patch that was saved before."""
    from polidiff.api import load
    from polidiff.policies import apply_patch

    return apply_patch(replace(load(path), features=world.features_of), current)


def _is_patch(path: Path) -> bool:
    if path.suffix != ".json" or not path.is_file():
        return False
    with path.open("rb") as file:
        return b'"polidiff/patch"' in file.read(100)
