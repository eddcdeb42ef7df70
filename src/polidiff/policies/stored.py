"""The JSON form of a policy: a table, or a base with a patch.

::

    {"schema": "polidiff/policy", "version": 1, "table": [[1.0, 0.0], …]}
    {"schema": "polidiff/policy", "version": 1, "base": "model.onnx" or a table, "patch": {…}}
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from polidiff.errors import InvalidPolicyError
from polidiff.files import write_whole
from polidiff.policies.patched import PatchedPolicy
from polidiff.policies.tables import TablePolicy
from polidiff.records.arrays import AnyArray
from polidiff.records.codec import encode, from_dict
from polidiff.records.patch import Patch

SCHEMA = "polidiff/policy"


def save_policy(policy: Any, path: str | os.PathLike[str], *, n_states: int | None = None) -> Path:
    """Write a policy over the states of a table, `n_states` of them unless it is a table itself."""
    base = policy
    while isinstance(base, PatchedPolicy):
        base = base.base
    count = len(base.table) if isinstance(base, TablePolicy) else n_states
    if count is None:
        raise InvalidPolicyError(
            f"only policies over a table can be written as JSON; got {type(base).__name__}. Hint: save the patch, and "
            "keep the model in its own file"
        )
    table = encode(policy.probabilities(np.arange(count)))
    document = {"schema": SCHEMA, "version": 1, "table": table}
    return write_whole(path, json.dumps(document, allow_nan=False) + "\n")


def from_stored(data: dict[str, Any], path: Path, *, trust: bool = False) -> Any:
    """The table or policy whose JSON form was read from `path`; a base named there lies beside it."""
    if data.get("schema") == "polidiff/patch":
        raise InvalidPolicyError(
            f"{path.name} is a patch, which needs a policy to change. Hint: polidiff patch apply {path.name} POLICY"
        )
    if data.get("schema") != SCHEMA or data.get("version") != 1:
        raise InvalidPolicyError(
            f"{path.name} must hold a {SCHEMA} of version 1; it holds {data.get('schema')!r}, version "
            f"{data.get('version')!r}"
        )
    if "table" in data:
        return _table(data["table"], path)
    if "base" not in data or "patch" not in data:
        raise InvalidPolicyError(f"{path.name} must hold a table, or a base and a patch; it has {sorted(data)}")
    inner, patch = _base(data["base"], path, trust), from_dict(data["patch"])
    if not isinstance(patch, Patch):
        raise InvalidPolicyError(f"the patch of {path.name} must be one; it is a {type(patch).__name__.lower()}")
    if patch.edits and len(patch.actions) != inner.n_actions:
        raise InvalidPolicyError(
            f"the patch of {path.name} names {len(patch.actions)} actions; its base has {inner.n_actions}"
        )
    return PatchedPolicy(inner, patch)


def _base(base: Any, path: Path, trust: bool) -> Any:
    """The policy that is patched: a table, or a file beside the patched policy that is not patched itself."""
    from polidiff.policies.adapters import as_policy
    from polidiff.policies.files import read_object

    if not isinstance(base, str):
        return as_policy(_table(base, path))
    place = path.parent / base
    if place.suffix.lower() == ".json":
        found = read_object(place, trust=trust)
        if isinstance(found, dict) and "base" in found:
            raise InvalidPolicyError(f"the base of {path.name} must be a table or a model; {base!r} is patched itself")
    return as_policy(place, trust=trust)


def _table(rows: Any, path: Path) -> AnyArray:
    try:
        return np.asarray(rows, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InvalidPolicyError(f"the table of {path.name} must hold rows of numbers of the same length") from None
