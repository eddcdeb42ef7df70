r"""Every value that should come out, and the comparison with what did.

Exact values agree to 1e-9. Simulated ones may be off by five standard errors of 10,000 episodes: the number of steps
varies by one with the start (standard deviation 0.5), and each step costs 0.001. What is not there at all (a plan, a
sentence) is off, no error.

How good each form of explanation and each frontier is are measures that the paper names but does not take. The area
under a return-against-cost curve is that of its staircase above the current return,

.. math:: A = \int_0^{c_{max}} \max_{c_i \le c} (J_i - J_0)\, dc,

and a method's share is its area over the frontier's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from polidiff.paper.runs import LENGTH, REWARD, STAY, STEPS, VISITS, Logged, Runs
from polidiff.paper.sentences import (
    SECTION_4_4,
    SECTION_6_2,
    SECTION_7,
    Printed,
    changed,
    costs,
    found_costs,
    points,
    printed,
    regions_of,
)
from polidiff.records.explanation import Explanation, FormScore
from polidiff.records.numbers import percent
from polidiff.records.plan import Frontier, Plan
from polidiff.report.tables import Table

Number = float | str
EXACT = 1e-9


@dataclass(frozen=True)
class Value:
    """A value that is expected, what came, and how far off it may be."""

    id: str
    where: str  # in the paper
    quantity: str
    expected: Number
    got: Number
    tolerance: float = EXACT
    at_least: bool = False  # a bar to pass, not a number to meet

    @property
    def ok(self) -> bool:
        """Whether what came is close enough."""
        if isinstance(self.got, str) or isinstance(self.expected, str):
            return self.got == self.expected
        if self.at_least:
            return bool(self.got >= self.expected - self.tolerance)
        return bool(abs(self.got - self.expected) <= self.tolerance)


def checked_values(runs: Runs) -> tuple[Value, ...]:
    """All of them, in the order of the paper as far as possible."""
    parts = (_chain, _chain_plans, _log, _sentences, _navigation, _navigation_plans, _policy_iteration, _bars)
    return tuple(value for part in parts for value in part(runs))


CHAIN_OUTCOMES = {"length": LENGTH, "visits": VISITS}
CHAIN_LENGTH = {"current": (8, 7, 7, 6, 5, 4, 4, 3, 2, 1, 1), "proposed": (10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 1)}
CHAIN_VISITS = {"current": (0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0), "proposed": (2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0)}
# κ -> changed states, gain summed over starts, mean return (printed to six digits)
CHAIN_PLANS = {0: ("", 0.0, 4.996636), 2: ("s1", 2.0, 5.178455), 6: ("s5", 18.0, 6.633), 8: ("s1, s5", 20.0, 6.814818)}
CURRENT_TOTAL = 54.963
STARTS = tuple(f"s{number}" for number in range(11))
EARLY, LATE = ", ".join(STARTS[:6]), ", ".join(STARTS[6:])


def _chain(runs: Runs) -> Iterator[Value]:
    regions = runs.chain.plain.regions
    diverging = _listed(region.id for region in regions)
    yield Value("chain.diverging", "4.1", "chain: diverging states (s0 is none)", "s1, s5", diverging)
    swaps = _listed(sorted({f"{region.current} → {region.proposed}" for region in regions}))
    yield Value("chain.swaps", "4.1", "chain: swaps", "action 0 → action 1", swaps)
    evaluations = {"current": runs.chain.current, "proposed": runs.chain.proposed}
    for short, table in (("length", CHAIN_LENGTH), ("visits", CHAIN_VISITS)):
        outcome = CHAIN_OUTCOMES[short]
        for policy, values in table.items():
            per_start = evaluations[policy].per_start[outcome]
            for start, value in zip(STARTS, values, strict=True):
                key, what = f"chain.{short}.{policy}.{start}", f"chain: {outcome} from {start}, {policy}"
                yield Value(key, "4.3, figure 3", what, float(value), per_start[start].estimate)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)


def _chain_plans(runs: Runs) -> Iterator[Value]:
    frontier, count = runs.chain.frontier, len(STARTS)
    yield Value("chain.costs", "5.1, figure 4", "chain: costs κ of the plans", "0, 2, 6, 8", costs(frontier))
    now = frontier.at(0).expected_return
    for cost, (states, gain, mean) in CHAIN_PLANS.items():
        key, here, where = f"chain.plan.{cost}", f"chain: κ = {cost}", "5.1, figures 4 and 6"
        plan = frontier.at(cost)
        yield Value(f"{key}.states", where, f"{here}, changed states", states, changed(plan))
        gained = (plan.expected_return - now) * count
        yield Value(f"{key}.gain", where, f"{here}, gain summed over starts", gain, gained)
        yield Value(f"{key}.mean", where, f"{here}, mean return", mean, plan.expected_return, tolerance=5e-7)
    what = "chain: return of the current policy summed over starts"
    yield Value("chain.total", "figure 6", what, CURRENT_TOTAL, now * count)
    what = "chain: κ = 11 changes no more than κ = 8"
    yield Value("chain.slack", "5.1", what, "s1, s5", changed(frontier.at(11)))
    what, fewer = "chain: costs if s0 were no start (p0 = 1/10)", _listed(f"{c:g}" for c in runs.chain.without_s0)
    yield Value("chain.tenth", "A.1", what, "0, 1, 5, 6", fewer)


def changed_states(plan: Plan) -> tuple[int, ...]:
    """States of the chain that a plan changes, by number."""
    return tuple(sorted(state for edit in plan.patch.edits for state in edit.states or ()))


def _log(runs: Runs) -> Iterator[Value]:
    log, exploring = "chain, exploring log:", runs.exploring
    for policy in ("current", "proposed"):
        what = f"{log} largest error over starts, {policy}"
        yield Value(f"log.error.{policy}", "figure 3", what, 0.0, largest_error(exploring, policy))
    what = f"{log} share of intervals that hold the truth"
    yield Value("log.covered", "figure 3", what, 1.0, share_covered(exploring))
    for short, outcome in CHAIN_OUTCOMES.items():
        signs = start_signs(exploring, outcome)
        for key, words, starts, sign in (("more", "with more", EARLY, 1), ("open", "left open", LATE, 0)):
            got = _listed(start for start in STARTS if signs.get(start) == sign)
            yield Value(f"log.{key}.{short}", "4.3", f"{log} starts {words}, {outcome}", starts, got)
    what = "chain, log of the current policy alone: starts it cannot speak about"
    lengths = runs.unexploring.estimate["proposed"].per_start[LENGTH]
    unknown = _listed(start for start in STARTS if math.isnan(lengths[start].estimate))
    yield Value("log.nothing", "4.3", what, EARLY, unknown)


def largest_error(logged: Logged, policy: str) -> float:
    """Largest distance between estimate and truth over starts and outcomes."""
    truth, estimate = logged.truth[policy].per_start, logged.estimate[policy].per_start
    return max(abs(estimate[o][s].estimate - true.estimate) for o, by in truth.items() for s, true in by.items())


def share_covered(logged: Logged) -> float:
    """Share of the intervals, over policies, outcomes and starts, that hold the true value."""
    held = [
        interval.contains(logged.truth[policy].per_start[outcome][start].estimate)
        for policy, evaluation in logged.estimate.items()
        for outcome, by in evaluation.per_start.items()
        for start, interval in by.items()
    ]
    return sum(held) / len(held)


def start_signs(logged: Logged, outcome: str) -> dict[str, int]:
    """Starts by the paper's rule: 1 where the current estimate lies below the proposed interval, 0 where inside."""
    old, new = (logged.estimate[policy].per_start[outcome] for policy in ("current", "proposed"))
    return {s: int(old[s].estimate < new[s].low) - int(old[s].estimate > new[s].high) for s in old}


def _sentences(runs: Runs) -> Iterator[Value]:
    made, paper, plain = printed(runs.chain.paper), runs.chain.paper, runs.chain.plain
    yield Value("text.4.4.count", "4.4", "chain: sentences in the paper's style", 7.0, float(len(paper.sentences)))
    for number, theirs in enumerate(SECTION_4_4, start=1):
        ours = made[number - 1] if number <= len(made) else None
        yield from _facts(f"text.4.4.{number}", "4.4", f"chain: sentence {number}", theirs, ours)
    yield from _facts("text.6.2", "6.2", "navigation: sentence", SECTION_6_2, printed(runs.navigation.proposed_2)[0])
    what = "chain: sentences by default, starts merged"
    yield Value("text.default", "4.4", what, 3.0, float(len(plain.sentences)))
    for name, said in SECTION_7.items():
        got = paper.forms.get(name, MISSING)
        yield Value(f"text.7.{name.split()[0]}", "2 and 7", f"chain: {name}", said, got)


MISSING = "missing"


def _facts(key: str, where: str, what: str, theirs: Printed, ours: Printed | None) -> Iterator[Value]:
    facts = {"starts": "starts", "told_steps": "regions and swaps", "directions": "directions"}
    for fact, words in facts.items():
        short, got = fact.removeprefix("told_"), str(getattr(ours, fact, MISSING))
        yield Value(f"{key}.{short}", where, f"{what}, {words}", getattr(theirs, fact), got)


# policy -> reward, steps, stay
POLICIES = {
    "current": (9.9895, 11.5, 9.5),
    "proposed 1": (16.9915, 11.5, 7.5),
    "proposed 2": (21.9905, 12.5, 1.0),
}
# κ -> changed regions, reward, stay
PLANS = {1: ("S1", 14.9885, 9.5), 2: ("S1, S3", 21.9895, 5.5), 3: ("S1, S3, S4", 21.9905, 1.0)}
SIMULATED_STAY = 5 * 0.5 / math.sqrt(10_000)
SIMULATED_RETURN = 0.001 * SIMULATED_STAY + EXACT


def _navigation(runs: Runs) -> Iterator[Value]:
    task = runs.navigation
    for policy, figures in POLICIES.items():
        for outcome, value in zip((REWARD, STEPS, STAY), figures, strict=True):
            key = f"navigation.{policy}.{outcome.split()[0]}".replace(" ", "-")
            what, got = f"navigation: {policy}, {outcome}", task.exact[policy][outcome]
            yield Value(key, "figure 8", what, value, got)
    for number, regions, made in ((1, "S0, S2", task.proposed_1), (2, "S1, S3, S4", task.proposed_2)):
        what = f"navigation: regions of proposed {number}"
        yield Value(f"navigation.regions.{number}", "figure 8", what, regions, regions_of(made))
    optimal = abs(task.exact["proposed 2"][REWARD] - _of_plan(runs, 3, REWARD)) <= EXACT
    yield Value("navigation.optimum", "6.2", "navigation: proposed 2 is the optimum", "yes", _yes(optimal))
    what = "navigation: all actions everywhere leave a finite optimum"
    yield Value("navigation.bounded", "A.2", what, "no", _yes(task.bounded))


def _yes(holds: bool) -> str:
    return "yes" if holds else "no"


def _of_plan(runs: Runs, cost: int, outcome: str) -> float:
    """A mean outcome of the plan of a cost in the continuous task, from the exact table; NaN without that plan."""
    return runs.navigation.exact.get(f"κ = {cost}", {}).get(outcome, math.nan)


def _navigation_plans(runs: Runs) -> Iterator[Value]:
    frontier = runs.navigation.frontier
    what = "navigation: costs κ of the plans"
    yield Value("navigation.costs", "5.2, figure 5", what, "0, 1, 2, 3", costs(frontier))
    for cost, (regions, reward, stay) in PLANS.items():
        key, here, where = f"navigation.plan.{cost}", f"navigation: κ = {cost}", "5.2, figures 5 and 6"
        plan = frontier.at(cost)
        yield Value(f"{key}.regions", where, f"{here}, changed regions", regions, changed(plan))
        for outcome, value, off in ((REWARD, reward, SIMULATED_RETURN), (STAY, stay, SIMULATED_STAY)):
            part, what = f"{key}.{outcome.split()[0]}", f"{here}, {outcome}"
            yield Value(part, where, what, value, _of_plan(runs, cost, outcome))
            simulated = plan.outcomes[outcome].estimate
            yield Value(f"{part}.simulated", where, f"{what}, simulated", value, simulated, tolerance=off)
    what = "navigation: κ = 2 collects less but stays longer than the optimum"
    less = _of_plan(runs, 2, REWARD) < _of_plan(runs, 3, REWARD)
    longer = _of_plan(runs, 2, STAY) > _of_plan(runs, 3, STAY)
    yield Value("navigation.remark", "6.3", what, "yes", _yes(less and longer))


# What each reading of policy iteration passes through: costs on the chain, costs in the plane.
READINGS = {
    "policy iteration, all states": ("0, 8", "0, 2, 3"),
    "policy iteration, largest advantage": ("0, 6, 8", "0, 2, 3"),
    "policy iteration, largest gain": ("0, 6, 8", "0, 1, 2, 3"),
}
DOMINATED = 16.9915  # return of the first reading at two changes, where the frontier has 21.9895
MODEL_ERROR = 1e-4  # what the estimated model of the continuous task may add to a return


def _policy_iteration(runs: Runs) -> Iterator[Value]:
    where, frontiers = "6.3, figure 6", {"chain": runs.chain.frontier, "navigation": runs.navigation.frontier}
    for number, (name, by_task) in enumerate(READINGS.items(), start=1):
        for (task, frontier), passed in zip(frontiers.items(), by_task, strict=True):
            key, what = f"pi.{number}.{task}", f"{task}: costs that {name} finds"
            yield Value(key, where, what, passed, found_costs(frontier, name))
            above = [v for c, v in points(frontier, name) if v > frontier.at(c).expected_return + MODEL_ERROR]
            what = f"{task}: points of {name} above the frontier"
            yield Value(f"{key}.above", where, what, 0.0, float(len(above)))
    returns = {round(c, 6): value for c, value in points(frontiers["navigation"], "policy iteration, all states")}
    what = "navigation: return of the first reading at two changes"
    yield Value("pi.dominated", where, what, DOMINATED, returns.get(2.0, math.nan), tolerance=MODEL_ERROR)


def _bars(runs: Runs) -> Iterator[Value]:
    for task, explanation in explained(runs).items():
        for key, (what, bar, measure) in BARS.items():
            yield Value(f"bar.{task}.{key}", "7", f"{task}: {what}", bar, measure(explanation), at_least=True)
    what, paths = "chain: starts whose path is told rightly", runs.chain.plain.quality.path_fidelity or 0.0
    yield Value("bar.paths", "7", what, 1.0, paths, at_least=True)
    what = "navigation: stability of the regions"
    yield Value("bar.stability", "7", what, 0.9, runs.navigation.stability, at_least=True)


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
        (
            "10 return gained per rule, best plan",
            *(_share((f.best.expected_return - f[0].expected_return) / len(f.best.patch)) for f in frontiers),
        ),
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
