"""Figures of the evidence pages, made of what was measured: ``python -m benchmarks.evidence`` writes them anew.

A page says ``<!-- figures: NAME -->`` and ``<!-- /figures -->``; what stands between them is made by the function of
that name from ``benchmarks/results/*.json``. A page cannot say what was not measured; a test fails when it is stale.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.evidence import explanations, frontier, logs, paragraphs, rules, scale
from benchmarks.evidence.table import Results, Table

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs" / "evidence"
BLOCK = re.compile(r"(<!-- figures: (?P<name>[^>]+?) -->\n).*?(<!-- /figures -->)", flags=re.DOTALL)
TABLES: dict[str, tuple[str, Callable[[Results], Table | str]]] = {
    "forms": ("explanations", explanations.forms),
    "forms in brief": ("explanations", explanations.forms_in_brief),
    "intensive care": ("explanations", explanations.intensive_care),
    "pages": ("explanations", explanations.pages),
    "environments": ("environments", explanations.environments),
    "played plans": ("played_plans", explanations.played_plans),
    "group verdicts": ("group_verdicts", explanations.group_verdicts),
    "frontier": ("frontier", frontier.questions),
    "grids": ("grids", frontier.grids),
    "storm": ("storm", frontier.storm),
    "storm arithmetic": ("storm", paragraphs.storm_arithmetic),
    "cartpole pairs": ("cartpole_pairs", paragraphs.cartpole_pairs),
    "delivered": ("delivered", paragraphs.delivered),
    "rules objective": ("rules", rules.objective),
    "rules accuracy": ("rules", rules.accuracy),
    "rules boxes": ("rules", rules.boxes),
    "learners": ("learners", rules.learners),
    "rule plans": ("rule_plans", rules.plans),
    "trees": ("trees", rules.trees),
    "rule plans held out": ("rule_plans", rules.held_out),
    "rule plans from logs": ("rule_plans", rules.from_logs),
    "logs believe": ("logs", logs.believe),
    "logs believe features": ("logs", logs.believe_features),
    "logs peers": ("logs", logs.peers),
    "logs curve": ("logs", logs.curve),
    "logs curve picture": ("logs", logs.curve_picture),
    "logs one step": ("logs", logs.one_step),
    "warfarin": ("one_step_plans", logs.warfarin),
    "warfarin promises": ("one_step_plans", logs.warfarin_promises),
    "logs cost": ("logs", logs.cost),
    "logs paths": ("logs", logs.paths),
    "logs promises": ("logs", logs.promises),
    "logs scores": ("logs", logs.scores),
    "logs coverage": ("logs", logs.coverage),
    "logs family": ("logs", logs.family),
    "real tables": ("real_tables", logs.real_tables),
    "scale few successors": ("scale", scale.few_successors),
    "scale many successors": ("scale", scale.many_successors),
    "scale overhead": ("scale", scale.overhead),
    "scale wide": ("scale", scale.wide),
    "fuzz": ("fuzz", scale.doors),
    "installed": ("install_size", scale.installed),
    "weights": ("install_size", scale.weights),
    "linear systems": ("linear_systems", scale.linear_systems),
}


@cache
def results(name: str) -> Any:
    """What a benchmark wrote."""
    return json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text(encoding="utf-8"))


def written(page: str) -> str:
    """The text of a page with its tables made anew."""

    def block(match: re.Match[str]) -> str:
        name, make = TABLES[match["name"]]
        return match[1] + str(make(results(name))) + match[3]

    return BLOCK.sub(block, page)
