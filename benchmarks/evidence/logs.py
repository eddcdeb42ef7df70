"""Tables of `docs/evidence/logs.md`."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.evidence.table import Results, Table, by, side_by_side, took

BELIEVE = (
    ("cover", "cover", 2),
    ("width / truth", "width / truth", 2),
    ("decided", "decided", 2),
    ("wrong sign", "wrong sign", 2),
    ("without a doubt shown", "wrong sign, no doubt", 2),
    ("any test alarms", "any test alarms", 2),
    ("truth inside at true Γ", "truth inside at true strength", 2),
    ("Γ that verdicts hold up to", "median holds up to", 2),
)
FAMILY = ("one by one", "Bonferroni", "max-T", "calibrated max-T")


def believe(results: Results) -> Table:
    """Worlds with known truth, a row each; a number for each size of log."""
    worlds = by(results["believe"], "world").items()
    sizes = side_by_side(sorted({row["episodes"] for row in results["believe"]}), 0)
    head = [f"world ({sizes} episodes)", *(title for title, _, _ in BELIEVE)]
    rows = [
        [world, *(side_by_side([row[key] for row in measured], digits) for _, key, digits in BELIEVE)]
        for world, measured in worlds
    ]
    return Table(head, rows)


def scores(results: Results) -> Table:
    """Feature worlds: cover; width over the effect; decided rightly / wrongly, beside estimates written by hand."""
    ways = ("scores", "PDIS", "WIS", "DR")
    rows = [
        [f"{row['world']} ({row['logs']})", *(_decided(row[way]) for way in ways)]
        for row in results["scores"]["features"]
    ]
    return Table(("world (logs)", *ways), rows)


def _decided(way: Results) -> str:
    return f"{way['cover']:.2f}; {way['width to effect']:.1f}; {way['right']:.2f} / {way['wrong']:.2f}"


def coverage(results: Results) -> Table:
    """How often intervals of one policy and of the difference hold the truth."""
    head = (
        "task, episodes (repetitions)",
        "plug-in cover / width",
        "careful cover (s.e.) / width",
        "difference cover / width",
        "unknown, one start / family",
        "sign errors / family-wise",
        "unsupported",
    )
    rows = [
        [
            _task(row),
            f"{row['plug-in cover']:.3f} / {row['plug-in width']:.4f}",
            f"{row['careful cover']:.3f} ({row['careful cover s.e.']:.4f}) / {row['careful width']:.4f}",
            f"{row['difference cover']:.3f} / {row['difference width']:.4f}",
            f"{row['unknown']:.2f} / {row['family unknown']:.2f}",
            f"{row['sign errors']:.4f} / {row['family-wise error']:.3f}",
            f"{row['unsupported']:.3f}",
        ]
        for row in results["coverage"]
    ]
    return Table(head, rows)


def family(results: Results) -> Table:
    """How often anything is called different where nothing is, under four corrections."""
    rows = [
        [
            f"{row['episodes']:,} ({row['repetitions']})",
            *(
                f"{row[f'{way}: any called different']:.3f} ({row[f'{way}: s.e.']:.3f}) / "
                f"{row[f'{way}: width against Bonferroni']:.2f}"
                for way in FAMILY
            ),
        ]
        for row in results["family"]
    ]
    return Table(("episodes (repetitions)", *FAMILY), rows)


def bandit(results: Results) -> Table:
    """Click rates of one policy from the other's log, in percent."""
    head = ("campaign, policy from the log of", "its own log", "careful", "WIS", "effective decisions")
    rows = [
        [
            f"{row['campaign']}, {row['policy']} from {row['log of']}",
            *(_percent(row[key]) for key in ("own log, click rate", "careful", "WIS")),
            f"{row['effective decisions']:,.0f}",
        ]
        for row in results["open bandit"]
    ]
    return Table(head, rows)


def _task(row: Results) -> str:
    unknown = "" if row["logging policy known"] else ", logging policy not known"
    return f"{row['task']}{unknown} {row['episodes']:,} ({row['repetitions']})"


def _percent(interval: Sequence[float]) -> str:
    value, *bounds = (100 * number for number in interval)
    return f"{value:.2f} ({bounds[0]:.2f} to {bounds[1]:.2f})" if bounds else f"{value:.2f} (no interval)"


def real_tables(results: Results) -> Table:
    """Tables as they lie on disk: what init found, how long both commands took, and the effect beside others."""
    head = (
        "table (from)",
        "rows",
        "flags",
        "action, outcome",
        "kept from afterwards",
        "CPU",
        "told",
        "mean",
        "IPW",
        "AIPW",
    )
    return Table(head, [_table(row) for row in results["tables"]])


def _table(row: Results) -> list[str]:
    right = [name for name, there in (("action", row["action found"]), ("outcome", row["outcome found"])) if not there]
    kept = ", ".join(row["from afterwards in the state"]) or "none"
    told = f"{row['told']:.3g} ({row['low']:.3g} to {row['high']:.3g})"
    others = [f"{row['mean']:.3g}", f"{row['ipw']:.3g}", f"{row['aipw']:.3g} ± {1.96 * row['aipw s.e.']:.2g}"]
    found = "found" if not right else f"{' and '.join(right)} wrong"
    seconds = took(row["init s"] + row["explain s"])
    return [f"{row['table']} ({row['from']})", str(row["rows"]), str(row["flags"]), found, kept, seconds, told, *others]
