"""Tables of `docs/evidence/explain.md`, `environments.md`, `reproduction.md`, `icu_sepsis.md` and `report.md`."""

from __future__ import annotations

from benchmarks.evidence.table import Results, Table, by, share

EXAM = ("action right", "right where changed", "direction right", "choice right")
IN_BRIEF = {
    "polidiff": "this method",
    "paths and immediate effects": "paths and immediate effects (van der Waa et al.)",
    "states visited": "states that only one policy visits (van der Waa et al.)",
    "outcomes only": "outcomes only (Sukkerd et al.)",
    "complete policy": "the whole proposed policy as a tree",
    "none": "no explanation",
}


def forms(results: Results) -> Table:
    """What a reader of each form foretells."""
    rows = [
        [row["task"], row["form"], str(row["words"]), str(row["rules"]), *(_share(row[question]) for question in EXAM)]
        for row in results["forms"]
    ]
    return Table(("task", "form", "words", "rules", *EXAM), rows)


def forms_in_brief(results: Results) -> Table:
    """The same for the paper's two tasks, chain / navigation."""
    head = ("form", "words", "actions foretold where changed", "directions foretold")
    papers = [row for row in results["forms"] if row["task"] in ("chain", "navigation")]
    rows = [
        [
            IN_BRIEF[form],
            " / ".join(str(row["words"]) for row in both),
            " / ".join(_percent(row["right where changed"]) for row in both),
            " / ".join(_percent(row["direction right"]) for row in both),
        ]
        for form, both in by(papers, "form").items()
    ]
    return Table(head, rows)


def intensive_care(results: Results) -> Table:
    """What three policies achieve in the model, exactly."""
    rows = [
        [
            row["policy"],
            f"{row['survival']:.4f}",
            f"{row['length of stay']:.1f}",
            f"{row['fluid given']:.1f}",
            f"{row['vasopressor given']:.2f}",
            f"{row['SOFA summed over the stay']:.1f}",
        ]
        for row in results["intensive care"]
    ]
    return Table(("policy", "survival", "stay, hours", "fluid levels", "vasopressor levels", "SOFA summed"), rows)


def pages(results: Results) -> Table:
    """Sizes of pages and the time to write them."""
    rows = [
        [f"{row['result']}, {kind}", f"{row[kind]['MB']:.1f} MB", f"{row[kind]['CPU s']:.1f} s of one core"]
        for row in results["pages"]
        for kind in ("explanation", "plans")
    ]
    return Table(("result", "page", "time to write"), rows)


def environments(results: Results) -> Table:
    """Rules beside trees of the same size, and what a user's script answers."""
    head = (
        "environment", "features", "swaps", "F1 of 3 / 6 rules", "tree, as many leaves", "tree, as many comparisons",
        "script: F1 it says", "regions", "CPU s",
    )  # fmt: skip
    kinds = ("F1 of {} rules", "F1 of a tree with {} such leaves", "F1 of a tree with the comparisons of {} rules")
    rows = [
        [
            row["environment"],
            str(row["features"]),
            str(row["swaps"]),
            *(" / ".join(share(row[kind.format(size)]) for size in (3, 6)) for kind in kinds),
            share(row["F1 that it says"]),
            str(row["regions that it tells"]),
            f"{row['CPU s of the script']:.0f}",
        ]
        for row in results["environments"]
    ]
    return Table(head, rows)


def group_verdicts(results: Results) -> Table:
    """How often something that is told of groups of starts is wrong."""
    head = ("environment", "episodes", "repetitions", "groups", "some interval misses", "some direction wrong",
            "one interval by itself misses")  # fmt: skip
    rows = [
        [
            row["environment"],
            str(row["episodes"]),
            str(row["repetitions"]),
            f"{row['groups']:.1f}",
            *(share(row[key]) for key in
              ("an interval misses", "a verdict is wrong", "one interval by itself misses")),
        ]
        for row in results["group verdicts"]
    ]  # fmt: skip
    return Table(head, rows)


def played_plans(results: Results) -> Table:
    """Plans played again: what is promised, and whether fresh episodes agree."""
    rows = [
        [
            name,
            str(len(runs)),
            str(sum(run["plans"] for run in runs)),
            str(sum(run["inside"] for run in runs)),
            str(sum(run["inside"] == run["plans"] for run in runs)),
            str(sum(bool(run["says"]) for run in runs)),
            f"{sum(run['CPU s'] for run in runs) / len(runs):.0f}",
        ]
        for name, runs in by(results["played plans"], "environment").items()
    ]
    head = ("environment", "runs", "plans", "of these inside", "runs with all inside", "runs without a gain", "CPU s")
    return Table(head, [*rows, ["all", *(str(sum(int(row[k]) for row in rows)) for k in range(1, 6)), ""]])


def _share(number: float | None) -> str:
    return "–" if number is None else f"{number:.2f}"


def _percent(number: float | None) -> str:
    return "–" if number is None else f"{number:.0%}".replace("%", " %")
