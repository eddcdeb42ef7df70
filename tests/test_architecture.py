"""The direction of imports, read from the source: a stage imports from stages on its left only."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

import polidiff
from polidiff.records.doors import DOORS

PACKAGE = Path(polidiff.__file__).parent
ORDER = (
    ("_version", "errors", "files", "progress", "engines", "parallel", "streams", "compiled"),
    ("records",),
    ("policies",),
    ("worlds",),
    ("optimize",),
    ("evaluation",),
    ("rules",),
    ("divergence",),
    ("regions",),
    ("explanation",),
    ("frontier",),
    ("domains",),
    ("api",),
    ("report",),
    ("paper",),
    ("cli",),
)
RANK = {stage: rank for rank, stages in enumerate(ORDER) for stage in stages}
MODULES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))
INSIDE = [module for module in MODULES if module not in ("__init__.py", "__main__.py")]

# The library named on the left is mentioned by the files on the right and by no other file.
EDGES = {
    "gymnasium": ("worlds/gymnasium/", "domains/navigation_env.py"),
    "highspy": ("optimize/",),
    "numba": ("compiled.py",),
    "altair": ("report/", "paper/figures/"),
    "vl_convert": ("report/",),
    "click": ("cli/",),
    "icu_sepsis": ("domains/",),
}


def imported(module: str) -> Iterator[tuple[int, str]]:
    """Line and full name of everything a file imports, inside functions too."""
    tree = ast.parse((PACKAGE / module).read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}:{node.lineno} uses a relative import"
            yield node.lineno, str(node.module)
            if node.module == "polidiff":
                yield from ((node.lineno, f"polidiff.{alias.name}") for alias in node.names)


def stage_of(name: str) -> str:
    return name.removesuffix(".py").replace("/", ".").split(".")[0]


def test_the_reader_of_imports_sees_those_inside_functions():
    assert "polidiff.worlds.log" in {name for _, name in imported("worlds/__init__.py")}


@pytest.mark.parametrize("module", INSIDE)
def test_every_module_belongs_to_a_stage_and_imports_from_its_left_only(module):
    here = stage_of(module)
    assert here in RANK, f"{module} belongs to no stage"
    for line, name in imported(module):
        if not name.startswith("polidiff."):
            continue
        there = stage_of(name.removeprefix("polidiff."))
        if there in RANK and there != here:
            assert RANK[there] <= RANK[here], f"{module}:{line} imports {name}, which lies to its right"


@pytest.mark.parametrize("library", EDGES)
def test_a_library_is_known_at_one_edge_only(library):
    strangers = [
        f"{module}:{line}"
        for module in MODULES
        for line, name in imported(module)
        if name.split(".")[0] == library and not module.startswith(EDGES[library])
    ]
    assert strangers == []


def test_records_import_no_stage():
    names = {name for module in MODULES if module.startswith("records/") for _, name in imported(module)}
    ours = {name for name in names if name.startswith("polidiff.")}
    assert {stage_of(name.removeprefix("polidiff.")) for name in ours} <= {"records", *ORDER[0]}


@pytest.mark.parametrize("name", DOORS)
def test_a_door_of_the_records_opens(name):
    module, function = DOORS[name].split(":")
    if module.startswith("polidiff.report.") and find_spec(module) is None:
        pytest.skip(f"{module} is not part of this build")
    assert callable(getattr(import_module(module), function))


def test_no_module_outgrows_one_sitting():
    lengths = {module: len((PACKAGE / module).read_text(encoding="utf-8").splitlines()) for module in MODULES}
    assert {module: length for module, length in lengths.items() if length > 450} == {}


def test_no_function_outgrows_a_screen():
    long = []
    for module in MODULES:
        for node in ast.walk(ast.parse((PACKAGE / module).read_text(encoding="utf-8"))):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                body = [item for item in node.body if not _is_docstring(item)]
                length = node.end_lineno - body[0].lineno + 1 if body and node.end_lineno else 0
                if length > 60:
                    long.append(f"{module}:{node.lineno} {node.name} has {length} lines")
    assert long == []


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
