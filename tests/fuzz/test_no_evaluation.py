"""Text from data is never run: what could run text is called nowhere, or only behind `trust`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import polidiff

PACKAGE = Path(polidiff.__file__).parent
MODULES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))
BUILT_IN = {"eval", "exec", "compile", "__import__"}
METHODS = {"literal_eval", "from_string", "read_pickle"}
LOADERS = {"pickle", "cPickle", "dill", "marshal", "shelve", "yaml", "subprocess", "code", "ctypes"}
TRUSTED = {"policies/files.py": {"joblib", "torch"}}  # what `read_object` calls only if `trust` is given
# names that are constants, or one of the three kinds of world
BY_NAME = {
    "cli/main.py",
    "records/codec.py",
    "__init__.py",
    "policies/files.py",
    "policies/models.py",
    "rules/learners.py",
    "worlds/protocol.py",
}


def calls(module: str) -> Iterator[tuple[str, str]]:
    """Object and name of every call in a file: ("re", "compile"), ("", "eval")."""
    tree = ast.parse((PACKAGE / module).read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield "", node.func.id
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield ast.unparse(node.func.value), node.func.attr


def imports(module: str) -> set[str]:
    """Top names of everything a file imports."""
    tree = ast.parse((PACKAGE / module).read_text(encoding="utf-8"))
    whole = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    parts = {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    return {name.split(".")[0] for name in whole | parts}


def test_nothing_that_runs_text_is_called():
    for module in MODULES:
        called = set(calls(module))
        assert not {name for owner, name in called if name in (METHODS if owner else BUILT_IN)}, module
        assert not called & {("os", "system"), ("os", "popen")}, module


def test_nothing_that_unpickles_is_imported_or_called_without_trust():
    for module in MODULES:
        assert not imports(module) & LOADERS, module
        loads = {owner for owner, name in calls(module) if name == "load" and owner in ("joblib", "torch")}
        assert loads <= TRUSTED.get(module, set()), module
        assert "allow_pickle=True" not in (PACKAGE / module).read_text(encoding="utf-8"), module


def test_modules_are_imported_by_name_only_where_the_name_is_ours_or_trusted():
    found = {module for module in MODULES if any(name == "import_module" for _, name in calls(module))}
    assert found == BY_NAME | {"cli/loading.py"}  # there behind `trust`, or one of our domains
