"""Every value that should come out, and the comparison with what did.

Exact values agree to 1e-9. Simulated ones may be off by five standard errors of 10,000 episodes: the number of steps
varies by one with the start (standard deviation 0.5), and each step costs 0.001.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from polidiff.paper import metrics
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
from polidiff.records.plan import Frontier, Plan

Number = float | str
EXACT = 1e-9


@dataclass(frozen=True)
class Expected:
    """A value, how far off it may be, and what came."""

    id: str
    where: str  # in the paper
    quantity: str
    expected: Number
    find: Callable[[Runs], Number]
    tolerance: float = EXACT
    at_least: bool = False  # a bar to pass, not a number to meet
    got: Number = math.nan

    @property
    def ok(self) -> bool:
        """Whether what came is close enough."""
        if isinstance(self.got, str) or isinstance(self.expected, str):
            return self.got == self.expected
        if self.at_least:
            return bool(self.got >= self.expected - self.tolerance)
        return bool(abs(self.got - self.expected) <= self.tolerance)


def checked(runs: Runs, expected: Iterable[Expected]) -> tuple[Expected, ...]:
    """Every value with what came. What cannot be looked up (a plan, a sentence that is not there) is off, no error."""
    return tuple(replace(entry, got=_found(runs, entry)) for entry in expected)


def _found(runs: Runs, entry: Expected) -> Number:
    try:
        return entry.find(runs)
    except LookupError as missing:
        return f"missing: {missing}"


def expected_values() -> tuple[Expected, ...]:
    """All of them, in the order of the paper as far as possible."""
    parts = (_chain, _chain_plans, _log, _sentences, _navigation, _navigation_plans, _policy_iteration, _bars)
    return tuple(value for part in parts for value in part())


CHAIN_OUTCOMES = {"length": LENGTH, "visits": VISITS}
CHAIN_LENGTH = {"current": (8, 7, 7, 6, 5, 4, 4, 3, 2, 1, 1), "proposed": (10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 1)}
CHAIN_VISITS = {"current": (0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0), "proposed": (2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0)}
# κ -> changed states, gain summed over starts, mean return (printed to six digits)
CHAIN_PLANS = {0: ("", 0.0, 4.996636), 2: ("s1", 2.0, 5.178455), 6: ("s5", 18.0, 6.633), 8: ("s1, s5", 20.0, 6.814818)}
CURRENT_TOTAL = 54.963
STARTS = 11
EARLY, LATE = "s0, s1, s2, s3, s4, s5", "s6, s7, s8, s9, s10"


def _chain() -> Iterator[Expected]:
    what = "chain: diverging states (s0 is none)"
    yield Expected(
        "chain.diverging", "4.1", what, "s1, s5", lambda runs: _listed(r.id for r in runs.chain.plain.regions)
    )
    swap = "action 0 → action 1"
    yield Expected("chain.swaps", "4.1", "chain: swaps", swap, swaps)
    for short, table in (("length", CHAIN_LENGTH), ("visits", CHAIN_VISITS)):
        outcome = CHAIN_OUTCOMES[short]
        for policy, values in table.items():
            for start, value in zip(_starts(), values, strict=True):
                what, got = f"chain: {outcome} from {start}, {policy}", partial(from_start, policy, outcome, start)
                yield Expected(f"chain.{short}.{policy}.{start}", "4.3, figure 3", what, float(value), got)


def _starts() -> list[str]:
    return [f"s{number}" for number in range(STARTS)]


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)


def swaps(runs: Runs) -> str:
    """The pairs of actions where the chain's policies part."""
    return _listed(sorted({f"{region.current} → {region.proposed}" for region in runs.chain.plain.regions}))


def from_start(policy: str, outcome: str, start: str, runs: Runs) -> float:
    """An outcome of a policy from one start, exactly."""
    evaluation = runs.chain.current if policy == "current" else runs.chain.proposed
    return evaluation.per_start[outcome][start].estimate


def _chain_plans() -> Iterator[Expected]:
    what = "chain: costs κ of the plans"
    yield Expected("chain.costs", "5.1, figure 4", what, "0, 2, 6, 8", lambda runs: costs(runs.chain.frontier))
    for cost, (states, more, mean) in CHAIN_PLANS.items():
        key, here, where = f"chain.plan.{cost}", f"chain: κ = {cost}", "5.1, figures 4 and 6"
        yield Expected(f"{key}.states", where, f"{here}, changed states", states, partial(changed_at, "chain", cost))
        yield Expected(f"{key}.gain", where, f"{here}, gain summed over starts", more, partial(gain_at, cost))
        got = partial(return_at, cost)
        yield Expected(f"{key}.mean", where, f"{here}, mean return", mean, got, tolerance=5e-7)
    what = "chain: return of the current policy summed over starts"
    yield Expected("chain.total", "figure 6", what, CURRENT_TOTAL, lambda runs: return_at(0, runs) * STARTS)
    what = "chain: κ = 11 changes no more than κ = 8"
    yield Expected("chain.slack", "5.1", what, "s1, s5", partial(changed_at, "chain", 11))
    what = "chain: costs if s0 were no start (p0 = 1/10)"
    without = "0, 1, 5, 6"
    yield Expected("chain.tenth", "A.1", what, without, lambda runs: _listed(f"{c:g}" for c in runs.chain.without_s0))


def changed_at(task: str, budget: float, runs: Runs) -> str:
    """States or regions that the best plan within a budget changes."""
    return changed(frontier_of(runs, task).at(budget))


def changed_states(plan: Plan) -> tuple[int, ...]:
    """States of the chain that a plan changes, by number."""
    return tuple(sorted(state for edit in plan.patch.edits for state in edit.states or ()))


def return_at(budget: float, runs: Runs) -> float:
    """Mean return of the chain's best plan within a budget."""
    return runs.chain.frontier.at(budget).expected_return


def gain_at(budget: float, runs: Runs) -> float:
    """Return that it gains, summed over the starts."""
    return (return_at(budget, runs) - return_at(0, runs)) * STARTS


def _log() -> Iterator[Expected]:
    log = "chain, exploring log:"
    for policy in ("current", "proposed"):
        what = f"{log} largest error over starts, {policy}"
        yield Expected(f"log.error.{policy}", "figure 3", what, 0.0, partial(largest_error, policy))
    what = f"{log} share of intervals that hold the truth"
    yield Expected("log.covered", "figure 3", what, 1.0, lambda runs: share_covered(runs.exploring))
    for short, outcome in CHAIN_OUTCOMES.items():
        for key, words, starts, verdict in (("more", "with more", EARLY, 1), ("open", "left open", LATE, 0)):
            what, got = f"{log} starts {words}, {outcome}", partial(starts_with, outcome, verdict)
            yield Expected(f"log.{key}.{short}", "4.3", what, starts, got)
    what = "chain, log of the current policy alone: starts it cannot speak about"
    yield Expected("log.nothing", "4.3", what, EARLY, unknown_starts)


def largest_error(policy: str, runs: Runs) -> float:
    """Largest distance between estimate and truth over starts and outcomes."""
    truth, estimate = runs.exploring.truth[policy].per_start, runs.exploring.estimate[policy].per_start
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


def starts_with(outcome: str, verdict: int, runs: Runs) -> str:
    """Starts by the paper's rule: 1 where the current estimate lies below the proposed interval, 0 where inside."""
    old, new = (runs.exploring.estimate[policy].per_start[outcome] for policy in ("current", "proposed"))
    signs = {s: int(old[s].estimate < new[s].low) - int(old[s].estimate > new[s].high) for s in old}
    return _listed(start for start in _starts() if signs.get(start) == verdict)


def unknown_starts(runs: Runs) -> str:
    """Starts for which a log without exploration gives no estimate of the proposed policy."""
    lengths = runs.unexploring.estimate["proposed"].per_start[LENGTH]
    return _listed(start for start in _starts() if math.isnan(lengths[start].estimate))


def _sentences() -> Iterator[Expected]:
    what = "chain: sentences in the paper's style"
    yield Expected("text.4.4.count", "4.4", what, 7.0, lambda runs: float(len(runs.chain.paper.sentences)))
    for index, theirs in enumerate(SECTION_4_4):
        yield from _facts(f"text.4.4.{index + 1}", "4.4", f"chain: sentence {index + 1}", theirs, index)
    yield from _facts("text.6.2", "6.2", "navigation: sentence", SECTION_6_2, None)
    what = "chain: sentences by default, starts merged"
    yield Expected("text.default", "4.4", what, 3.0, lambda runs: float(len(runs.chain.plain.sentences)))
    for name, said in SECTION_7.items():
        yield Expected(f"text.7.{name.split()[0]}", "2 and 7", f"chain: {name}", said, partial(earlier_form, name))


def _facts(key: str, where: str, what: str, theirs: Printed, index: int | None) -> Iterator[Expected]:
    for short, words, fact in (
        ("starts", "starts", "starts"),
        ("steps", "regions and swaps", "told_steps"),
        ("directions", "directions", "directions"),
    ):
        got = partial(sentence_fact, index, fact)
        yield Expected(f"{key}.{short}", where, f"{what}, {words}", getattr(theirs, fact), got)


def sentence_fact(index: int | None, fact: str, runs: Runs) -> str:
    """A fact of one sentence of the chain; of the only sentence of the continuous task if `index` is None."""
    made = printed(runs.navigation.proposed_2)[0] if index is None else printed(runs.chain.paper)[index]
    return str(getattr(made, fact))


def earlier_form(name: str, runs: Runs) -> str:
    """What an earlier form of explanation says on the chain."""
    return runs.chain.paper.forms[name]


# policy -> reward, steps, stay
POLICIES = {
    "current": (9.9895, 11.5, 9.5),
    "proposed 1": (16.9915, 11.5, 7.5),
    "proposed 2": (21.9905, 12.5, 1.0),
}
REGIONS = {1: "S0, S2", 2: "S1, S3, S4"}
# κ -> changed regions, reward, stay
PLANS = {1: ("S1", 14.9885, 9.5), 2: ("S1, S3", 21.9895, 5.5), 3: ("S1, S3, S4", 21.9905, 1.0)}
SIMULATED_STAY = 5 * 0.5 / math.sqrt(10_000)
SIMULATED_RETURN = 0.001 * SIMULATED_STAY + EXACT


def _navigation() -> Iterator[Expected]:
    for policy, figures in POLICIES.items():
        for outcome, value in zip((REWARD, STEPS, STAY), figures, strict=True):
            key = f"navigation.{policy}.{outcome.split()[0]}".replace(" ", "-")
            what = f"navigation: {policy}, {outcome}"
            yield Expected(key, "figure 8", what, value, partial(exact, policy, outcome))
    for number, regions in REGIONS.items():
        what = f"navigation: regions of proposed {number}"
        yield Expected(f"navigation.regions.{number}", "figure 8", what, regions, partial(found_regions, number))
    yield Expected("navigation.optimum", "6.2", "navigation: proposed 2 is the optimum", "yes", is_optimum)
    what = "navigation: all actions everywhere leave a finite optimum"
    yield Expected("navigation.bounded", "A.2", what, "no", lambda runs: _yes(runs.navigation.bounded))


def _yes(holds: bool) -> str:
    return "yes" if holds else "no"


def exact(policy: str, outcome: str, runs: Runs) -> float:
    """A mean outcome, from the exact table."""
    return runs.navigation.exact[policy][outcome]


def found_regions(number: int, runs: Runs) -> str:
    """Regions in which a proposal differs from the current policy."""
    return regions_of(runs.navigation.proposed_1 if number == 1 else runs.navigation.proposed_2)


def is_optimum(runs: Runs) -> str:
    """Whether the best plan returns what the second proposal does."""
    return _yes(abs(exact("proposed 2", REWARD, runs) - exact("κ = 3", REWARD, runs)) <= EXACT)


def _navigation_plans() -> Iterator[Expected]:
    what = "navigation: costs κ of the plans"
    yield Expected(
        "navigation.costs", "5.2, figure 5", what, "0, 1, 2, 3", lambda runs: costs(runs.navigation.frontier)
    )
    for cost, (regions, reward, stay) in PLANS.items():
        key, here, where = f"navigation.plan.{cost}", f"navigation: κ = {cost}", "5.2, figures 5 and 6"
        got = partial(changed_at, "navigation", cost)
        yield Expected(f"{key}.regions", where, f"{here}, changed regions", regions, got)
        for outcome, value, off in ((REWARD, reward, SIMULATED_RETURN), (STAY, stay, SIMULATED_STAY)):
            part, what = f"{key}.{outcome.split()[0]}", f"{here}, {outcome}"
            yield Expected(part, where, what, value, partial(exact, f"κ = {cost}", outcome))
            played = partial(simulated, cost, outcome)
            yield Expected(f"{part}.simulated", where, f"{what}, simulated", value, played, tolerance=off)
    what = "navigation: κ = 2 collects less but stays longer than the optimum"
    yield Expected("navigation.remark", "6.3", what, "yes", collects_less_stays_longer)


def simulated(budget: float, outcome: str, runs: Runs) -> float:
    """What the best plan within a budget achieves in simulated episodes."""
    return runs.navigation.frontier.at(budget).outcomes[outcome].estimate


def collects_less_stays_longer(runs: Runs) -> str:
    """The paper's remark on why a user may prefer two changes."""
    two, best = runs.navigation.exact["κ = 2"], runs.navigation.exact["κ = 3"]
    return _yes(two[REWARD] < best[REWARD] and two[STAY] > best[STAY])


# What each reading of policy iteration passes through: costs on the chain, costs in the plane.
READINGS = {
    "policy iteration, all states": ("0, 8", "0, 2, 3"),
    "policy iteration, largest advantage": ("0, 6, 8", "0, 2, 3"),
    "policy iteration, largest gain": ("0, 6, 8", "0, 1, 2, 3"),
}
DOMINATED = 16.9915  # return of the first reading at two changes, where the frontier has 21.9895
MODEL_ERROR = 1e-4  # what the estimated model of the continuous task may add to a return


def _policy_iteration() -> Iterator[Expected]:
    where = "6.3, figure 6"
    for number, (name, by_task) in enumerate(READINGS.items(), start=1):
        for task, passed in zip(("chain", "navigation"), by_task, strict=True):
            key = f"pi.{number}.{task}"
            what, got = f"{task}: costs that {name} finds", partial(costs_found, task, name)
            yield Expected(key, where, what, passed, got)
            what = f"{task}: points of {name} above the frontier"
            yield Expected(f"{key}.above", where, what, 0.0, partial(points_above, task, name))
    what = "navigation: return of the first reading at two changes"
    yield Expected("pi.dominated", where, what, DOMINATED, first_reading_at_two, tolerance=MODEL_ERROR)


def frontier_of(runs: Runs, task: str) -> Frontier:
    """The frontier of one of the tasks."""
    return runs.chain.frontier if task == "chain" else runs.navigation.frontier


def costs_found(task: str, baseline: str, runs: Runs) -> str:
    """Costs of what a simpler method passes through."""
    return found_costs(frontier_of(runs, task), baseline)


def points_above(task: str, baseline: str, runs: Runs) -> float:
    """How many of a simpler method's points lie above the frontier."""
    frontier = frontier_of(runs, task)
    above = [v for cost, v in points(frontier, baseline) if v > frontier.at(cost).expected_return + MODEL_ERROR]
    return float(len(above))


def first_reading_at_two(runs: Runs) -> float:
    """What changing all states at once returns after two changes."""
    passed = points(runs.navigation.frontier, "policy iteration, all states")
    return {round(cost, 6): value for cost, value in passed}[2.0]


def _bars() -> Iterator[Expected]:
    for task in ("chain", "navigation"):
        for key, (what, bar, measure) in metrics.BARS.items():
            got = partial(metrics.measure_of, task, measure)
            yield Expected(f"bar.{task}.{key}", "7", f"{task}: {what}", bar, got, at_least=True)
    what = "chain: starts whose path is told rightly"
    yield Expected("bar.paths", "7", what, 1.0, lambda r: r.chain.plain.quality.path_fidelity or 0.0, at_least=True)
    what = "navigation: stability of the regions"
    yield Expected("bar.stability", "7", what, 0.9, lambda runs: runs.navigation.stability, at_least=True)
