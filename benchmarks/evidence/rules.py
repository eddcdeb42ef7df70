"""Tables of `docs/evidence/rules.md` and `rule_plans.md`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.evidence.table import Results, Table, by, share
from polidiff.options import CLASSIFIERS

LEARNERS = ("polidiff", "AIX360", "RIPPER", "FIGS", "tree")
PEERS = ("regions of the optimum", "tree fitted to the optimum", "single states")
PEERS_IN_SHORT = ("regions of the optimum", "fitted tree", "single states")


def objective(results: Results) -> Table:
    """Objective and time beside AIX360 at the same deciles and costs."""
    head = ("set", "cost", "AIX360", "polidiff", "highest ratio", "time ratio, median (least)")
    cells = by(sorted(results["objective"]["cells"], key=lambda cell: -cell["cost"]), "set")
    rows = [
        [
            name,
            " / ".join(_bare(cell["cost"]) for cell in row),
            " / ".join(f"{cell['theirs']:.4f}".lstrip("0") for cell in row),
            " / ".join(f"{cell['ours']:.4f}".lstrip("0") for cell in row),
            " / ".join(f"{cell['highest']:.3f}" for cell in row),
            " / ".join(f"{cell['speed']:.0f} ({cell['slowest']:.0f})" for cell in row),
        ]
        for name, row in cells.items()
    ]
    return Table(head, rows)


def accuracy(results: Results) -> Table:
    """Test accuracy ± standard deviation over splits, rules / literals."""
    rows = []
    for name, cells in by(results["accuracy"]["cells"], "set").items():
        of = {cell["learner"]: cell for cell in cells}
        rows.append([name, *(_accuracy(of[learner]) if learner in of else "–" for learner in LEARNERS)])
    return Table(("set", *LEARNERS), rows)


def learners(results: Results) -> Table:
    """F1 of each learner's regions, its rules and comparisons, on the paper's continuous task and beyond."""
    names = [name for name in CLASSIFIERS if name in results]
    tasks = list(results[names[0]])

    def cell(figures: Mapping[str, Any]) -> str:
        if "left out" in figures:
            return "–"
        return f"{share(figures['F1'])} ({figures['rules']:g} / {figures['comparisons']:g}), {figures['seconds']:.1f} s"

    return Table(("learner", *tasks), [[name, *(cell(results[name][task]) for task in tasks)] for name in names])


def boxes(results: Results) -> Table:
    """Planted boxes: what is found of them."""
    head = ("planted", "IoU", "boxes with exact features", "bounds within 20/n", "rules", "tuned tree's IoU (rules)")
    rows = []
    for kind, cells in sorted(by(results["boxes"]["cells"], "kind").items()):
        of = {cell["learner"]: cell for cell in cells}
        ours, tree = of["polidiff"], of["tree"]
        rows.append([
            kind,
            _spread(ours["iou"]),
            f"{ours['found'][0]:.3f}",
            f"{ours['bounds within 20/n'][0]:.3f}",
            f"{ours['rules'][0]:.1f}",
            f"{_spread(tree['iou'])} ({tree['rules'][0]:.0f})",
        ])  # fmt: skip
    return Table(head, rows)


def plans(results: Results) -> Table:
    """Share of the gap between the current policy and the optimum, for each number of rules."""
    head = ("case (states)", "K", "ours", "bound", *PEERS_IN_SHORT, "literals", "changes", "s")
    return Table(head, [row for name, case in results["cases"].items() for row in _case(name, case)])


def _case(name: str, case: Mapping[str, Any]) -> Iterator[Sequence[str]]:
    for k, ours in enumerate(case["share"]):
        first = k == 0
        yield (
            f"{name} ({case['states']:,})" if first else "",
            str(k + 1),
            f"**{share(ours)}**{', proven' if case['proven'][k] else ''}",
            share(case["bound"][k]),
            *(share(case["peers"][peer][k]) for peer in PEERS),
            str(case["literals"][k]),
            f"{case['changes'][k]:.4g}",
            f"{case['cpu_seconds']:.2f}" if first else "",
        )


def trees(results: Results) -> Table:
    """Lists of at most 2^d - 1 rules beside the best trees of depth d: return, comparisons, processor seconds."""
    head = ("table", "states × actions", "d", "one action", "optimum", "tree of depth d",
            "list, at most 2^d − 1 comparisons", "list, at most 2^d − 1 rules")  # fmt: skip
    rows = [
        [
            row["table"],
            f"{row['states']} × {row['actions']}",
            str(row["depth"]),
            f"{row['one action']:.4g}",
            f"{row['optimum']:.4g}",
            *(_solved(row.get(side)) for side in ("tree", "list, as many comparisons", "list")),
        ]
        for row in results["rows"]
    ]
    return Table(head, rows)


def _solved(side: Results | None) -> str:
    if side is None or side.get("return") is None:
        return "–"
    proven = " (proven)" if side["proven"] else ""
    return f"{side['return']:.4g}{proven}, {side['comparisons']}, {side['cpu seconds']:.1f} s"


def held_out(results: Results) -> Table:
    """Mean share of the gap over worlds that chose no setting, at 1, 2, 3 and 4 rules."""
    rows = [
        [
            f"{name} ({worlds['worlds']})",
            " ".join(share(number) for number in worlds["mean_share"]),
            *(" ".join(share(number) for number in worlds["mean_share_of_peers"][peer]) for peer in PEERS),
        ]
        for name, worlds in results["held_out_worlds"].items()
    ]
    return Table(("family (worlds)", "ours", *PEERS_IN_SHORT), rows)


def from_logs(results: Results) -> Table:
    """What plans from logs promise beside what they bring."""
    head = (
        "K",
        "true gain",
        "raw counts ÷ true",
        "shrunk rows ÷ true",
        "promised ÷ true (s.e.)",
        "intervals that hold",
    )
    rows = [
        [
            k,
            f"{row['true_gain']:.4f}",
            f"{row['raw_over_true']:.1f}",
            f"{row['shrunk_over_true']:.2f}",
            f"{row['promised_over_true']:.2f} ({row['promised_over_true_se']:.2f})",
            f"{row['covered']:.2f}",
        ]
        for k, row in results["logs"]["by_rules"].items()
    ]
    return Table(head, rows)


def _accuracy(cell: Mapping[str, Any]) -> str:
    return f"{_spread(cell['accuracy'])}, {cell['rules'][0]:.1f} / {cell['literals'][0]:.0f}"


def _spread(pair: Sequence[float]) -> str:
    return f"{share(pair[0])} ± {pair[1]:.3f}".replace("± 0.", "± .")


def _bare(number: float) -> str:
    return f"{number:g}".lstrip("0")
