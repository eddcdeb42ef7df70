"""Tables of `docs/evidence/scale.md` and `robustness.md`."""

from __future__ import annotations

from benchmarks.evidence.table import Results, Table, took

SIDES = {
    "group-by": "group-by state, action, successor",
    "group-by that finds successors": "the same, finding successors",
    "group-by with halves": "the same table: with two blocks of episodes",
    "counts": "`Log(…)`: all checks, labels, starts, features, counts in two blocks",
    "study": "the whole study: counts, divergence, regions, verdicts",
}


def few_successors(results: Results) -> Table:
    """A study beside group-bys of the same rows, with few distinct transitions."""
    return _studies(results, "8 successors")


def many_successors(results: Results) -> Table:
    """A study beside group-bys of the same rows, with many distinct transitions."""
    return _studies(results, "160 successors")


def _studies(results: Results, name: str) -> Table:
    measured = results["studies"][name]
    head = (name, "wall, middle run (best, worst)", "CPU, best run", "peak memory", "study / this, middle", "best")
    rows = []
    for key, words in SIDES.items():
        side, ratio = measured[key], measured["ratios"].get(f"study / {key}")
        runs = side["all wall s"]
        rows.append([
            words,
            f"{side['middle wall s']:.1f} s ({min(runs):.1f}, {max(runs):.1f})",
            f"{side['cpu s']:.1f} s",
            f"{side['peak GB']:.1f} GB",
            f"{ratio['middle wall s']:.2f}" if ratio else "",
            f"{ratio['wall s']:.2f}" if ratio else "",
        ])  # fmt: skip
    return Table(head, rows)


def wide(results: Results) -> Table:
    """What many outcomes and many columns cost."""
    rows = [[case, f"{row['cpu s']:.1f} s", f"{row['peak GB']:.1f} GB"] for case, row in results["wide"].items()]
    return Table(("`explain` of a", "CPU", "peak memory"), rows)


def overhead(results: Results) -> Table:
    """What sending tasks costs beside their work."""
    rows = [
        [
            job,
            str(row["tasks"]),
            f"{row['work, CPU s']:.2f} s",
            f"{row['beside it: driver, CPU s'] + row['beside it: workers, CPU s']:.2f} s",
            f"{row['share']:.1%}".replace("%", " %"),
        ]
        for job, row in results["overhead"].items()
    ]
    return Table(("job", "tasks", "their work", "beside it", "share"), rows)


def doors(results: Results) -> Table:
    """Damaged input at every door that takes bytes or text."""
    head = ("door", "cases", "accepted", "refused", "failures found", "slowest case", "computing")
    rows = [
        [
            door,
            f"{row['cases']:,}",
            f"{row['accepted']:,}",
            f"{row['refused']:,}",
            str(sum(row["failures"].values())),
            f"{row['slowest case, seconds']:.2f} s" if "slowest case, seconds" in row else "–",
            f"{row['seconds of computing']:.1f} s" if "seconds of computing" in row else "–",
        ]
        for door, row in results["doors"].items()
    ]
    return Table(head, rows)


def installed(results: Results) -> Table:
    """Megabytes with all that is required, lightest first."""
    rows = [
        [f"**{name}**" if name == "polidiff" else name, f"{size:,.0f}", str(results["libraries"][name])]
        for name, size in sorted(results["whole"].items(), key=lambda entry: entry[1])
    ]
    return Table(("package with all that it requires", "MB", "libraries"), rows)


def weights(results: Results) -> str:
    """Which libraries are the weight, and what the heaviest saves."""
    heavy = [f"{name} {size:.0f} MB" for name, size in results["ours"].items() if size >= 10]
    spent = results["seconds of computing"]
    compared = (
        f"{took(spent['plain'][verb])} instead of {took(spent['compiled'][verb])} to {verb}"
        for verb in ("explain", "improve")
    )
    return f"Ours: {', '.join(heavy)}. Without compiled loops the log takes {' and '.join(compared)} (two rules).\n"


def linear_systems(results: Results) -> Table:
    """Seconds of every solver, and how many times the fastest ours took."""
    solvers = ("polidiff", "direct", "bicgstab", "gmres", "value iteration")
    rows = []
    for name, row in results["systems"].items():
        structure, _, size = name.rpartition(", ")
        seconds = [row[solver]["seconds"] if row[solver] else None for solver in solvers]
        cells = ["–" if one is None else took(one) for one in seconds]
        times = f"{seconds[0] / min(one for one in seconds if one is not None):.1f}" if seconds[0] else "–"
        rows.append([structure, f"{int(size):,}", *cells, times])
    return Table(("structure", "states", *solvers, "times the fastest"), rows)
