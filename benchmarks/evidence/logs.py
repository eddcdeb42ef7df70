"""Tables of `docs/evidence/logs.md`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

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
RIGHT_PEERS = ("where the better is right", "decided where a peer is right", 2)
FEATURES = "features: "
WAYS = ("PDIS", "WIS", "DR")  # written by hand
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")
DASHES = ("", 'stroke-dasharray="6 3"', 'stroke-dasharray="2 3"', 'stroke-dasharray="8 3 2 3"')
FAMILY = ("one by one", "Bonferroni", "max-T", "calibrated max-T")


def believe(results: Results) -> Table:
    """Worlds with known truth and labelled states, a row each; a number for each size of log."""
    return _believed([row for row in results["believe"] if not row["world"].startswith(FEATURES)], BELIEVE)


def believe_features(results: Results) -> Table:
    """The same for worlds whose states are features."""
    measured = [row for row in results["believe"] if row["world"].startswith(FEATURES)]
    return _believed(measured, (*BELIEVE[:3], RIGHT_PEERS, *BELIEVE[3:6], BELIEVE[7]))


def _believed(measured: Sequence[Results], columns: Sequence[tuple[str, str, int]]) -> Table:
    measured = sorted(measured, key=lambda row: row["episodes"])
    worlds = by(measured, "world").items()
    sizes = side_by_side(sorted({row["episodes"] for row in measured}), 0)
    head = [f"world ({sizes} episodes)", *(title for title, _, _ in columns)]
    rows = [
        [world, *(side_by_side([row[key] for row in measured], digits) for _, key, digits in columns)]
        for world, measured in worlds
    ]
    return Table(head, rows)


def peers(results: Results) -> Table:
    """Cover; width over the truth; decided wrongly, beside estimates written by hand, at 1,000 episodes."""
    ways, rows = WAYS, []
    for row in results["believe"]:
        if row["episodes"] == 1000 and "peers" in row:
            own = f"{row['cover']:.2f}; {row['width / truth']:.1f}; {row['wrong sign']:.2f}"
            others = [row["peers"][way] for way in ways]
            told = [f"{way['cover']:.2f}; {way['width / truth']:.1f}; {way['wrong']:.2f}" for way in others]
            spent = side_by_side([row["CPU s"], sum(way["CPU s"] for way in others)], 3)
            rows.append([f"{row['world']} ({row['repetitions']})", own, *told, spent])
    return Table(("world (logs)", "polidiff", *ways, "CPU s, ours / all three"), rows)


def curve(results: Results) -> Table:
    """Share of logs with a verdict / with a wrong one, the stricter the further down; every world and size alike."""
    ways, (own, *others) = WAYS, _curves(results)
    rows = []
    for k in range(max(len(own), len(others[0]))):
        strict = f"Γ ≥ {own[k, 0]:.3g}" if k < len(own) else ""
        apart = f"{others[0][k, 0]:.3g} s.e." if k < len(others[0]) else ""
        cells = [f"{part[k, 1]:.2f} / {part[k, 2]:.3f}" if k < len(part) else "" for part in (own, *others)]
        rows.append([strict, cells[0], apart, *cells[1:]])
    return Table(("a verdict must withstand", "polidiff", "estimates must lie from 0", *ways), rows)


def _curves(results: Results) -> list[Any]:
    """Per way, ours first: strictness, share of logs with a verdict, share with a wrong one."""
    measured = [row for row in results["believe"] if "curve" in row]
    peers = [[row["peers"][way]["curve"] for row in measured] for way in WAYS]
    return [np.mean(part, axis=0) for part in ([row["curve"] for row in measured], *peers)]


def curve_picture(results: Results) -> str:
    """The same, drawn: share of logs with a verdict to the right, share with a wrong one upwards."""
    left, width, base, height, top = 60, 480, 250, 220, 0.4
    lines = [f'<svg viewBox="0 0 640 {base + 50}" role="img" aria-label="Share of logs decided and decided wrongly" '
             'font-family="sans-serif" font-size="12" fill="currentColor">']  # fmt: skip
    for share in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0):
        x = left + width * share
        lines.append(f'<text x="{x:.0f}" y="{base + 18}" text-anchor="middle">{share:.0%}</text>')
    for share in (0.0, 0.1, 0.2, 0.3, 0.4):
        y = base - height * share / top
        lines.append(f'<text x="{left - 8}" y="{y + 4:.0f}" text-anchor="end">{share:.0%}</text>')
        lines.append(f'<path d="M{left} {y:.0f}h{width}" stroke="currentColor" stroke-opacity="0.2"/>')
    for name, colour, dash, points in zip(("polidiff", *WAYS), COLOURS, DASHES, _curves(results), strict=True):
        places = [(left + width * told, base - height * wrong / top) for _, told, wrong in points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        lines.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2" {dash}/>')
        lines += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in places]
        x, y = max(places)
        lines.append(f'<text x="{x + 8:.0f}" y="{y + 4:.0f}" fill="{colour}">{name}</text>')
    lines.append(f'<text x="{left + width / 2:.0f}" y="{base + 40}" text-anchor="middle">logs with a verdict</text>')
    lines.append(f'<text x="{left}" y="14">logs with a wrong verdict</text></svg>')
    return "\n".join(lines) + "\n"


def cost(results: Results) -> Table:
    """CPU seconds of the judge alone, of all tests, and of all strengths Γ."""
    rows = [
        [f"{row['log']}, {row['rows']:,} rows, {row['verdicts decided']} verdicts decided",
         *(f"{row[key]:.2f}" for key in ("judge s", "tests s", "strengths s", "ratio"))]
        for row in results["cost of doubt"]
    ]  # fmt: skip
    return Table(("log", "judge", "tests", "strengths Γ", "tests and Γ / judge"), rows)


def paths(results: Results) -> Table:
    """Paths and groups of starts from feature logs, against the world that wrote them."""
    keys = ("meeting shares off", "meeting shares of logged episodes off", "path shares off", "groups",
            "groups decided", "groups decided wrongly", "groups outside their interval")  # fmt: skip
    rows = [
        [f"{row['world']}, {row['episodes']:,} episodes ({row['logs']})", *(_number(row[key]) for key in keys)]
        for row in results["paths"]
    ]
    return Table(("world (logs)", *keys), rows)


def promises(results: Results) -> Table:
    """Gains that plans of two rules from feature logs promise, beside what they gain when they are played."""
    keys = ("plans", "promise kept", "inside the interval", "shown to gain", "shown and losing",
            "mean promise of those shown", "mean truth of those shown", "cpu s per log")  # fmt: skip
    rows = [[f"{row['world']} ({row['logs']})", *(_number(row[key]) for key in keys)] for row in results["promises"]]
    return Table(("world (logs)", *keys), rows)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


def scores(results: Results) -> Table:
    """Feature worlds: cover; width over the effect; decided rightly / wrongly, beside estimates written by hand."""
    ways = ("scores", "PDIS", "WIS", "DR")
    rows = [
        [f"{row['world']} ({row['logs']})", *(_decided(row[way]) for way in ways)]
        for row in results["scores"]["features"]
    ]
    return Table(("world (logs)", *ways), rows)


def one_step(results: Results) -> Table:
    """One decision per row, chances estimated: cover; width over that of scores with the true nuisances."""
    worlds = by(results["scores"]["one step"], "world")
    sizes = sorted({row["rows"] for row in results["scores"]["one step"]})
    rows = []
    for world, measured in worlds.items():
        at = {row["rows"]: row for row in measured}
        told = [
            f"{at[n]['cover']:.3f}; {at[n]['width to oracle']:.2f} ({at[n]['logs']})" if n in at else "" for n in sizes
        ]
        rows.append([world, *told])
    return Table(("world", *(f"{n:,} rows (logs)" for n in sizes)), rows)


def warfarin(results: Results) -> Table:
    """Mean outcome on rows not logged: plans of one, three and four rules, exact trees of as many leaves or more."""
    rows = []
    for split in results["warfarin"]:
        rules, trees = split["rules"], split["STreeD"]
        figures = [rules["1"], trees["1"]["value"], rules["3"], trees["2"]["value"], rules["4"], trees["3"]["value"]]
        cost = f"{split['seconds']:.1f} / {sum(tree['seconds'] for tree in trees.values()):.2f}"
        rows.append([f"{split['logging']}, {split['split']}", *(f"{v:.3f}" for v in figures),
                     f"{split['standard error']:.3f}", cost])  # fmt: skip
    return Table(
        ("logging, split", "1 rule", "depth 1", "3 rules", "depth 2", "4 rules", "depth 3", "s.e.", "CPU s"), rows
    )


def warfarin_promises(results: Results) -> str:
    """How often promises of plans hold on logs drawn anew."""
    found, own = results["promises on bootstrap logs"], results["own world"]
    return (
        f"On {found['logs']:.0f} logs drawn with replacement from the random kind, plans of one and two rules gain at "
        f"least the low end of what they promise in {found['promise kept']:.2f} of the logs, and lie inside the "
        f"interval in {found['inside the interval']:.2f}; mean promise {found['mean promise']:.3f}, mean truth "
        f"{found['mean truth']:.3f}. On {own['logs']:.0f} logs of a world of our own (1,000 rows, eight features) they "
        f"hold in {own['promise kept']:.2f}.\n"
    )


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


def _task(row: Results) -> str:
    unknown = "" if row["logging policy known"] else ", logging policy not known"
    return f"{row['task']}{unknown} {row['episodes']:,} ({row['repetitions']})"


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
