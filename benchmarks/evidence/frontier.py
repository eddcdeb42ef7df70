"""The table of `docs/evidence/frontier.md`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.evidence.table import Results, Table, took


def questions(results: Results) -> Table:
    """Rows in the order of the questions; a section that a file lacks is left out."""
    rows = []
    for section, (question, ours, beside) in QUESTIONS.items():
        for row in results.get(section, []):
            case = f"{row['case']} (seed {row['seed']})" if "seed" in row else row["case"]
            rows.append([question, case, ours(row), beside(row)])
    return Table(("question", "case", "ours", "beside it"), rows)


def grids(results: Results) -> Table:
    """Slippery grids: one budget beside linear programs and SCIP, then a larger one and whole frontiers."""
    rows = [["one budget", row["case"], _grid_budget(row), _lp_and_scip(row)] for row in results["one budget"]]
    rows += [["one budget", row["case"], _limited(row), ""] for row in results["one budget, large"]]
    rows += [["whole frontier", row["case"], _limited(row), ""] for row in results["whole frontier"]]
    return Table(("question", "case", "ours", "LP + SCIP"), rows)


def _grid_budget(row: dict[str, Any]) -> str:
    proof = "proven" if row["proven"] else f"gap {row['gap']:.2%}"
    return f"{row['return']:.5f}, {proof}, {took(row['seconds'])}, {row['nodes']:,} nodes"


def _lp_and_scip(row: dict[str, Any]) -> str:
    peer = row["LP + SCIP"]
    if "seconds" not in peer:
        return str(peer["note"])
    seconds, found = peer["seconds for visits"] + peer["seconds"], peer.get("evaluated")
    told = "no plan" if found is None else f"{found[1]:.5f}"
    return f"{told}, {peer['status']}, {took(seconds)}: {seconds / row['seconds']:.1f}×"


def _limited(row: dict[str, Any]) -> str:
    ended = "" if row["gap"] == 0 else f" (limit {row['limit']:g} s)"
    return f"{row['proven']:,} of {row['plans']:,} plans proven, gap {row['gap']:.3%}, {took(row['seconds'])}{ended}"


def storm(results: Results) -> Table:
    """Public models of the verification community, explained and improved."""
    rows = [
        [
            f"`{row['model']}`",
            f"`{row['property']}`".replace("|", "\\|"),
            f"{row['states']:,}",
            f"{abs(row['current']):.4g} → {row['optimum']:.4g}",
            str(row["regions"]),
            f"{row['plans']}, {row['proven']}",
            f"{row['gap']:.1%}",
        ]
        for row in results["models"]
    ]
    return Table(("model", "asked", "states", "worst → best", "regions", "plans, proven", "gap"), rows)


def _plans(row: dict[str, Any]) -> str:
    return f"{row['plans']:,} plans, gap {row['gap']:.2%}, {took(row['seconds'])}, {row['nodes']:,} nodes"


def _proof(row: dict[str, Any]) -> str:
    proven = f"proven {row['proven']} of {row['plans']}" if "plans" in row else f"{row['proven']} proven"
    return f"{proven}, {took(row['seconds'])}, {row['nodes']:,} nodes"


def _whole_or_budgets(row: dict[str, Any]) -> str:
    return _plans(row) if "plans" in row else _proof(row)


def _hull(row: dict[str, Any]) -> str:
    return f"{row['vertices']} vertices, {row['pivots']} pivots, {took(row['seconds'])}"


def _swept(row: dict[str, Any]) -> str:
    low, high = row["spread of seconds"]
    return f"{_plans(row)} ({took(low)} to {took(high)})"


def _sweep(row: dict[str, Any]) -> str:
    same = "same points" if row["same points"] else f"not the same points (sweep: {row['sweep end']})"
    nearer = row["points nearer than the sweep's step"]
    same += f", but for {nearer} nearer than its step" if nearer else ""
    return f"HiGHS sweep {took(row['sweep seconds'])}, {same}: {row['ratio']:.0f}×"


def _solvers(row: dict[str, Any]) -> str:
    return ", ".join(
        f"{name} {took(row[name]['seconds'])} ({row[name]['status']})" if "seconds" in row[name] else f"no {name}"
        for name in ("HiGHS", "SCIP")
    )


def _certified(row: dict[str, Any]) -> str:
    return f"{_plans(row)}, {row['transitions']:,} transitions, peak {row['peak megabytes before and after'][1]} MB"


def _optimum(row: dict[str, Any]) -> str:
    return f"{took(row['seconds'])}, return {row['return']:.4f}"


def _others(row: dict[str, Any]) -> str:
    return "; ".join(
        f"{name} {took(row[name]['seconds'])}" if "seconds" in row[name] else f"{name}: {row[name]['note']}"
        for name in ("quantecon", "pymdptoolbox")
        if name in row
    )


def _budget(row: dict[str, Any]) -> str:
    one = row["one budget"]
    return f"one budget {'proven' if one['proven'] else 'not proven'} in {took(one['seconds'])}"


def _first(row: dict[str, Any]) -> str:
    return f"{took(row['cold'])} with nothing compiled, {took(row['warm'])} with kernels on disk"


def _nothing(row: dict[str, Any]) -> str:
    return ""


Text = Callable[[dict[str, Any]], str]
QUESTIONS: dict[str, tuple[str, Text, Text]] = {
    "whole frontier against the sweep": ("whole frontier, proven", _swept, _sweep),
    "whole frontier": ("whole frontier, proven", _plans, _nothing),
    "single budget": ("one budget, proven", _proof, _solvers),
    "single budget, large": ("one budget, proven", _proof, _nothing),
    "hull": ("exact hull", _hull, _nothing),
    "changed states": ("few changed states", _plans, _nothing),
    "certified": ("certified frontier", _certified, _nothing),
    "unconstrained optimum": ("unconstrained optimum", _optimum, _others),
    "other tables": ("other tables", _plans, _budget),
    "ICU-Sepsis": ("ICU-Sepsis", _whole_or_budgets, _nothing),
    "first call": ("first call of a process (wall time)", _first, _nothing),
}
