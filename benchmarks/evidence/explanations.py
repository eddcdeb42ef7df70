"""Tables of `docs/evidence/explain.md`, `reproduction.md`, `icu_sepsis.md` and `report.md`."""

from __future__ import annotations

from benchmarks.evidence.table import Results, Table, by

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


def _share(number: float | None) -> str:
    return "–" if number is None else f"{number:.2f}"


def _percent(number: float | None) -> str:
    return "–" if number is None else f"{number:.0%}".replace("%", " %")
