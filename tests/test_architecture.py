"""The direction of imports, read from the source: a stage imports from stages on its left only."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import polidiff
from polidiff.records.codec import RENDERERS

PACKAGE = Path(polidiff.__file__).parent
ORDER = (
    ("_version", "errors", "files", "progress", "parallel", "streams", "compiled"),
    ("records",),
    ("options",),
    ("policies",),
    ("worlds",),
    ("optimize",),
    ("evaluation",),
    ("rules",),
    ("divergence",),
    ("regions",),
    ("journeys",),
    ("surrogates",),
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
    "stormpy": ("worlds/prism.py",),
}

WORLDS = {"TabularMDP", "Simulator", "Log"}
KINDS = {"table", "simulator", "log"}
KNOW_WORLDS = {"worlds", "policies", "domains", "paper"}  # they are worlds, or make them
MAKES_WORLDS = "cli/loading.py"  # from a study file
PER_KIND_FOLDERS = {"tables", "simulated", "logged", "scores"}  # helpers of one kind of world
SAYS_WHICH = "records/explanation.py"  # what a result tells about its world
ON_TABLES = {  # exact values and planners: they work on a table, whatever world it stands for
    "evaluation/exact.py",
    "frontier/rule_plans/improve.py",
    "frontier/rule_plans/model.py",
    "frontier/rule_plans/moves.py",
    "frontier/setting.py",
}


@cache
def parsed(module: str) -> ast.Module:
    """The syntax tree of a file."""
    return ast.parse((PACKAGE / module).read_text(encoding="utf-8"))


def imported(module: str) -> Iterator[tuple[int, str]]:
    """Line and full name of everything a file imports, inside functions too."""
    for node in ast.walk(parsed(module)):
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


def test_every_module_belongs_to_a_stage():
    assert [module for module in INSIDE if stage_of(module) not in RANK] == []


def test_a_stage_imports_from_its_left_only():
    wrong = [
        f"{module}:{line} imports {name}, which lies to its right"
        for module in INSIDE
        for line, name in imported(module)
        if name.startswith("polidiff.")
        and RANK.get(stage_of(name.removeprefix("polidiff.")), 0) > RANK[stage_of(module)]
    ]
    assert wrong == []


def test_a_library_is_known_at_one_edge_only():
    strangers = [
        f"{module}:{line} imports {name}"
        for module in MODULES
        for line, name in imported(module)
        if name.split(".")[0] in EDGES and not module.startswith(EDGES[name.split(".")[0]])
    ]
    assert strangers == []


def mentions_of_a_kind(module: str) -> Iterator[tuple[int, str]]:
    """Where a file names a kind of world: imports its class, or asks a world which kind it is."""
    for node in ast.walk(parsed(module)):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("polidiff."):
            yield from ((node.lineno, alias.name) for alias in node.names if alias.name in {*WORLDS, "is_log"})
        elif isinstance(node, ast.Attribute) and node.attr in ("discrete", "is_model"):
            yield node.lineno, f".{node.attr}"
        elif isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            if any(isinstance(side, ast.Attribute) and side.attr == "kind" for side in sides):
                named = [c.value for side in sides for c in ast.walk(side) if isinstance(c, ast.Constant)]
                yield from ((node.lineno, f".kind == {value!r}") for value in named if value in KINDS)


def may_name_a_kind(module: str) -> bool:
    """What knows worlds by trade, the files named after a kind, and the one place of each stage that chooses."""
    stage, *folders, name = module.split("/") if "/" in module else ("", module)
    return (
        stage in KNOW_WORLDS
        or module in (MAKES_WORLDS, SAYS_WHICH)
        or name == "__init__.py"
        or name.removesuffix(".py").split("_")[0] in KINDS
        or bool(PER_KIND_FOLDERS & set(folders))
    )


def test_no_kind_of_world_is_named_outside_its_own_modules():
    named = [
        f"{module}:{line} names {what}"
        for module in MODULES
        if not may_name_a_kind(module)
        for line, what in mentions_of_a_kind(module)
        if not (module in ON_TABLES and what == "TabularMDP")
    ]
    assert named == []
    assert {module for module in ON_TABLES if not [*mentions_of_a_kind(module)]} == set()  # none is listed in vain


def test_records_import_no_stage():
    names = {name for module in MODULES if module.startswith("records/") for _, name in imported(module)}
    ours = {name for name in names if name.startswith("polidiff.")}
    assert {stage_of(name.removeprefix("polidiff.")) for name in ours} <= {"records", *ORDER[0]}


def test_what_records_find_when_called_is_there():
    for place in RENDERERS.values():
        module, function = place.split(":")
        assert callable(getattr(import_module(module), function)), place


def test_no_module_outgrows_one_sitting():
    lengths = {module: len((PACKAGE / module).read_text(encoding="utf-8").splitlines()) for module in MODULES}
    assert {module: length for module, length in lengths.items() if length > 450} == {}


def test_no_function_outgrows_a_screen():
    long = []
    for module in MODULES:
        for node in ast.walk(parsed(module)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                body = [item for item in node.body if not _is_docstring(item)]
                length = node.end_lineno - body[0].lineno + 1 if body and node.end_lineno else 0
                if length > 60:
                    long.append(f"{module}:{node.lineno} {node.name} has {length} lines")
    assert long == []


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
