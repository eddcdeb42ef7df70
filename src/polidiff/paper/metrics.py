r"""How good each form of explanation is, and each frontier: the measures that the paper names but does not take.

The area under a return-against-cost curve is that of its staircase above the current return,

.. math:: A = \int_0^{c_{max}} \max_{c_i \le c} (J_i - J_0)\, dc,

and a method's share is its area over the frontier's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from polidiff.paper.runs import Runs
from polidiff.records.explanation import Explanation, FormScore
from polidiff.records.numbers import percent
from polidiff.records.plan import Frontier, Plan
from polidiff.report.tables import Table

OWN = "polidiff"
FORM_NAMES = {
    OWN: "this method",
    "paths and immediate effects": "paths and immediate effects (van der Waa et al.)",
    "states visited": "states that only one policy visits (van der Waa et al.)",
    "outcomes only": "outcomes only (Sukkerd et al.)",
    "complete policy": "the whole proposed policy as a tree",
    "none": "no explanation",
}


def explained(runs: Runs) -> dict[str, Explanation]:
    """The two explanations that are measured."""
    return {"chain": runs.chain.plain, "navigation": runs.navigation.proposed_2}


def measured(runs: Runs) -> Table:
    """What is measured once per task; areas are shares of the frontier's."""
    explanations, quality = tuple(explained(runs).values()), [e.quality for e in explained(runs).values()]
    frontiers = (runs.chain.frontier, runs.navigation.frontier)
    rows = [
        ("1 precision of the regions", *(_share(q.precision) for q in quality)),
        ("1 recall of the regions", *(_share(q.recall) for q in quality)),
        ("1 F1", *(_share(q.f1) for q in quality)),
        ("2 swaps told rightly", *(_share(q.swap_accuracy) for q in quality)),
        ("3 least completeness over outcomes", *(_share(least_completeness(e)) for e in explanations)),
        ("4 starts whose path is told rightly", *(_share(q.path_fidelity) for q in quality)),
        ("4 mean edit distance of paths", *(_share(q.path_distance) for q in quality)),
        ("5 verdicts left open", *(_share(q.abstained) for q in quality)),
        ("9 stability of regions (Jaccard)", "exact", _share(runs.navigation.stability)),
        ("10 return gained per rule, best plan", *(_share(gain_per_rule(f)) for f in frontiers)),
        *(
            (f"10 area of {b.name}", *(_share(area_share(f, b.name)) for f in frontiers))
            for b in frontiers[0].baselines
        ),
        ("11 model gap of the best plan", *(model_gap(f.best, f) for f in frontiers)),
        (
            "12 least gain of any part of the best plan",
            *(f"{r.worst_subset:+.4f}" for r in (runs.chain, runs.navigation)),
        ),
        ("12 least gain when followed now and then", *(f"{least_adopted(f):+.4f}" for f in frontiers)),
    ]
    return Table(("measure", "chain", "navigation"), tuple(rows))


def forms_table(explanation: Explanation) -> Table:
    """Length of each form, and how its reader does."""
    rows = tuple(
        (
            FORM_NAMES.get(form.form, form.form),
            *(str(n) for n in (form.length.sentences, form.length.rules, form.length.literals, form.length.words)),
            *map(percent, (form.action_accuracy, form.changed_accuracy, form.direction_accuracy, form.choice_accuracy)),
        )
        for form in explanation.quality.forms
    )
    exam = ("actions foretold", "where changed", "directions foretold", "better policy picked")
    return Table(("form", "sentences", "rules", "comparisons", "words", *exam), rows)


def _share(value: float | None) -> str:
    return "—" if value is None else f"{value:.3f}"


def least_completeness(explanation: Explanation) -> float:
    """Of the outcomes that differ, the least share that the patch recovers."""
    return min(share for share in explanation.quality.completeness.values() if share is not None)


def gain_per_rule(frontier: Frontier) -> float:
    """Return gained by the best plan, for each of its rules."""
    return (frontier.best.expected_return - frontier[0].expected_return) / len(frontier.best.patch)


def area_share(frontier: Frontier, baseline: str) -> float:
    """Area under what a simpler method finds, over the area under the frontier."""
    points = next(one.points for one in frontier.baselines if one.name == baseline)
    plans = [(plan.changes, plan.expected_return) for plan in frontier]
    limit = max(changes for changes, _ in plans) + 1.0  # one step beyond the last plan, so that the optimum counts
    return staircase(points, limit) / staircase(plans, limit)


def staircase(points: Sequence[tuple[float, float]], limit: float) -> float:
    """Area between the best return within each cost and the return at no cost.

    >>> staircase([(0.0, 1.0), (1.0, 3.0)], 2.0)
    2.0
    """
    area, best = 0.0, points[0][1]
    ends = [*(changes for changes, _ in points[1:]), limit]
    for (_, value), begin, end in zip(points, (p[0] for p in points), ends, strict=True):
        best = max(best, value)
        area += (best - points[0][1]) * (end - begin)
    return area


def model_gap(plan: Plan, frontier: Frontier) -> str:
    """Return in the estimated model less return in the world, over the range of the frontier."""
    if plan.model_gap is None:
        return "exact"
    return f"{abs(plan.model_gap) / (frontier.best.expected_return - frontier[0].expected_return):.1e}"


def least_adopted(frontier: Frontier) -> float:
    """Least gain along the adoption curve of the best plan, where anyone follows it at all."""
    nobody, *others = sorted(frontier.best.adoption, key=lambda point: point.share)
    return min(point.expected_return for point in others) - nobody.expected_return


def lead_over_other_forms(explanation: Explanation) -> float:
    """Least lead of this method's reader over the readers of other forms: actions foretold, then directions."""
    own, *others = sorted(explanation.quality.forms, key=lambda form: form.form != OWN)
    return min(min(_lead(own, other)) for other in others)


def lead_over_nothing(explanation: Explanation) -> float:
    """Lead over a reader without explanation, in actions foretold."""
    scores = {form.form: form for form in explanation.quality.forms}
    return scores[OWN].action_accuracy - scores["none"].action_accuracy


def _lead(own: FormScore, other: FormScore) -> list[float]:
    measures = ("action_accuracy", "direction_accuracy", "choice_accuracy")
    pairs = [(getattr(own, measure), getattr(other, measure)) for measure in measures]
    return [mine - theirs for mine, theirs in pairs if mine is not None and theirs is not None]


BARS: dict[str, tuple[str, float, Callable[[Explanation], float]]] = {  # key -> words, least value, measure
    "f1": ("F1 of the regions", 0.95, lambda explanation: explanation.quality.f1),
    "complete": ("least completeness", 0.95, least_completeness),
    "forms": ("least lead of a reader over those of other forms", 0.0, lead_over_other_forms),
    "reader": ("lead of a reader over one without explanation", 0.01, lead_over_nothing),
}
