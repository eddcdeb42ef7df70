"""Hand-made results at the edge of what a page must bear: hostile names, sixty regions, four hundred plans."""

from __future__ import annotations

import dataclasses
import math
from functools import cache

from polidiff.records.action import Action
from polidiff.records.explanation import Cell, Explanation, Picture, Region, Support, Verdict
from polidiff.records.outcome import Outcome
from polidiff.records.patch import Edit, Patch
from polidiff.records.plan import Baseline, Frontier, HullPoint, Ledger
from polidiff.records.rule import Rule
from tests.report.samples import box, frontier, plain, plan

HOSTILE = (
    "<script>window.hacked=1</script>",
    '"><img src=x onerror="window.hacked=1">',
    "rate\u202e10\u202c",
    "f" * 500,
    "💊👩‍⚕️ dose",
    "a.b[0]\\c'\"`|*_",
    "</script><script>window.hacked=1</script>",
    "{{ 7*7 }} ${7*7} &lt;b&gt;",
)


@cache
def hostile() -> Explanation:
    """Every name is an attack or a trap."""
    base = plain()
    feature = {"x": HOSTILE[0], "y": HOSTILE[5]}
    action = {"N": HOSTILE[1], "E": HOSTILE[2], "S": HOSTILE[4], "W": HOSTILE[6]}
    outcome = {"return": HOSTILE[0], "length": HOSTILE[3], "stay in the middle band": HOSTILE[7]}
    return rename(base, feature, action, outcome)


def rename(base: Explanation, feature: dict[str, str], action: dict[str, str], outcome: dict[str, str]) -> Explanation:
    """The result with other names for features, actions and outcomes."""
    swap = dataclasses.replace

    def rule(r: Rule | None) -> Rule | None:
        return None if r is None else Rule(tuple(swap(c, feature=feature[c.feature]) for c in r.conditions))

    def judged(v: Verdict) -> Verdict:
        return swap(v, outcome=outcome[v.outcome], note=HOSTILE[0])

    return swap(
        base,
        regions=tuple(
            swap(r, rule=rule(r.rule), current=action[r.current], proposed=action[r.proposed], swaps=())
            for r in base.regions
        ),
        sentences=tuple(swap(s, start=rule(s.start), verdicts=tuple(map(judged, s.verdicts))) for s in base.sentences),
        outcomes=tuple(Outcome(outcome[o.name], prefer=o.prefer, unit=HOSTILE[0]) for o in base.outcomes),
        verdicts=tuple(map(judged, base.verdicts)),
        worse_off=tuple(swap(w, outcome=outcome[w.outcome], start=rule(w.start)) for w in base.worse_off),
        tails=tuple(swap(t, outcome=outcome[t.outcome]) for t in base.tails),
        quality=swap(base.quality, completeness={outcome[k]: v for k, v in base.quality.completeness.items()}),
        world=swap(
            base.world,
            features=tuple(swap(f, name=feature[f.name]) for f in base.world.features),
            actions=tuple(Action(action[a.name]) for a in base.world.actions),
            facts={HOSTILE[6]: HOSTILE[0]},
        ),
        methods=swap(base.methods, inputs={HOSTILE[6]: HOSTILE[0]}, versions={HOSTILE[0]: HOSTILE[6]}),
        warnings=HOSTILE,
        pictures=tuple(swap(p, x=feature[p.x], y=feature[p.y]) for p in base.pictures),
    )


@cache
def hostile_frontier() -> Frontier:
    """Plans whose changes, units and baselines carry hostile names."""
    base = frontier()
    names = {name: HOSTILE[index] for index, name in enumerate(base.plans[0].outcomes)}
    return dataclasses.replace(
        base,
        plans=tuple(
            dataclasses.replace(
                p,
                outcomes={names[k]: v for k, v in p.outcomes.items()},
                patch=Patch(p.patch.edits, HOSTILE[:4], HOSTILE[4:6]),
            )
            for p in base.plans
        ),
        outcomes=tuple(Outcome(name) for name in names.values()),
        baselines=(Baseline(HOSTILE[0], ((1.0, 12.0),)),),
        ledger=Ledger(
            tuple(dataclasses.replace(e, change=HOSTILE[i]) for i, e in enumerate(base.ledger.entries)),
            HOSTILE[:3],
            base.ledger.running,
            True,
        ),
        warnings=HOSTILE,
    )


@cache
def huge(regions_told: int = 60) -> Explanation:
    """Sixty regions over a million visits on a fine grid."""
    base = plain()
    made = tuple(
        Region(
            f"S_{i}",
            box((i / 60, (i + 1) / 60), (0.1, 0.9)),
            "NESW"[i % 4],
            "ESWN"[i % 4],
            Support(1000, 900, 1 / 60),
            0.97,
            0.95,
        )
        for i in range(regions_told)
    )
    cells = tuple(
        Cell((i + 0.5) / 200, (j + 0.5) / 200, 25.0, f"S_{(i * 60) // 200}" if 20 <= j < 180 else None)
        for i in range(200)
        for j in range(200)
    )
    pictures = tuple(Picture("x", "y", 1 / 200, 1 / 200, cells, base.pictures[0].trajectories) for _ in range(6))
    told = tuple(
        dataclasses.replace(base.sentences[0], path=tuple(f"S_{(i + k) % 60}" for k in range(8)), share=1 / 40)
        for i in range(40)
    )
    return dataclasses.replace(base, regions=made, sentences=told, pictures=pictures)


@cache
def huge_frontier(plans: int = 400) -> Frontier:
    """Four hundred plans over sixty changes."""
    base = frontier()
    edits = tuple(Edit(box((i / 60, (i + 1) / 60), (0.1, 0.9)), i % 4, (i + 1) % 4) for i in range(60))
    whole = Patch(edits, tuple("NESW"), ("x", "y"))
    made = tuple(
        plan(i / 40, 9.9895 + 12 * math.sqrt(i / plans), i * 60 // plans, source=whole, proven=i % 3 > 0)
        for i in range(plans)
    )
    return dataclasses.replace(
        base, plans=made, hull=tuple(HullPoint(p.changes, p.expected_return + 0.1) for p in made[::5])
    )
