"""What should come out of the chain: who diverges, outcomes from every start, the frontier, and what a log tells."""

from __future__ import annotations

import math
from collections.abc import Iterator

from polidiff.paper.expectation import Expected, expect
from polidiff.paper.runs import LENGTH, VISITS, Logged, Runs
from polidiff.paper.sentences import changed, costs

CHAIN_LENGTH = {"current": (8, 7, 7, 6, 5, 4, 4, 3, 2, 1, 1), "proposed": (10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 1)}
CHAIN_VISITS = {"current": (0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0), "proposed": (2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0)}
# κ -> changed states, gain summed over starts, mean return (printed to six digits)
CHAIN_PLANS = {0: ("", 0.0, 4.996636), 2: ("s1", 2.0, 5.178455), 6: ("s5", 18.0, 6.633), 8: ("s1, s5", 20.0, 6.814818)}
CURRENT_TOTAL = 54.963
STARTS = 11
EARLY, LATE = "s0, s1, s2, s3, s4, s5", "s6, s7, s8, s9, s10"


def chain_values() -> Iterator[Expected]:
    """All of them."""
    yield expect("chain.diverging", "4.1", "chain: diverging states (s0 is none)", "s1, s5", diverging)
    yield expect("chain.swaps", "4.1", "chain: swaps", "action 0 → action 1", swaps)
    yield from _outcomes()
    yield from _frontier()
    yield from _from_log()


def diverging(runs: Runs) -> str:
    """The diverging states."""
    return ", ".join(region.id for region in runs.chain.plain.regions)


def swaps(runs: Runs) -> str:
    """The pairs of actions found there."""
    return ", ".join(sorted({f"{region.current} → {region.proposed}" for region in runs.chain.plain.regions}))


def _outcomes() -> Iterator[Expected]:
    for short, outcome, table in (("length", LENGTH, CHAIN_LENGTH), ("visits", VISITS, CHAIN_VISITS)):
        for policy, values in table.items():
            for number, value in enumerate(values):
                start = f"s{number}"
                what = f"chain: {outcome} from {start}, {policy}"
                key = f"chain.{short}.{policy}.{start}"
                yield expect(key, "4.3, figure 3", what, float(value), from_start, policy, outcome, start)


def from_start(runs: Runs, policy: str, outcome: str, start: str) -> float:
    """An outcome of a policy from one start, exactly."""
    evaluation = runs.chain.current if policy == "current" else runs.chain.proposed
    return evaluation.per_start[outcome][start].estimate


def _frontier() -> Iterator[Expected]:
    yield expect("chain.costs", "5.1, figure 4", "chain: costs κ of the plans", "0, 2, 6, 8", plan_costs)
    for cost, (states, more, mean) in CHAIN_PLANS.items():
        key, here, where = f"chain.plan.{cost}", f"chain: κ = {cost}", "5.1, figures 4 and 6"
        yield expect(f"{key}.states", where, f"{here}, changed states", states, changed_at, cost)
        yield expect(f"{key}.gain", where, f"{here}, gain summed over starts", more, gain_at, cost)
        yield expect(f"{key}.mean", where, f"{here}, mean return", mean, return_at, cost, tolerance=5e-7)
    what = "chain: return of the current policy summed over starts"
    yield expect("chain.total", "figure 6", what, CURRENT_TOTAL, current_total)
    yield expect("chain.slack", "5.1", "chain: κ = 11 changes no more than κ = 8", "s1, s5", changed_at, 11)
    yield expect("chain.tenth", "A.1", "chain: costs if s0 were no start (p0 = 1/10)", "0, 1, 5, 6", costs_without_s0)


def plan_costs(runs: Runs) -> str:
    """Costs of the plans."""
    return costs(runs.chain.frontier)


def changed_at(runs: Runs, budget: float) -> str:
    """States that the best plan within a budget changes."""
    return changed(runs.chain.frontier.at(budget))


def gain_at(runs: Runs, budget: float) -> float:
    """Return that it gains, summed over the starts."""
    plans = runs.chain.frontier
    return (plans.at(budget).expected_return - plans[0].expected_return) * STARTS


def return_at(runs: Runs, budget: float) -> float:
    """Its mean return."""
    return runs.chain.frontier.at(budget).expected_return


def current_total(runs: Runs) -> float:
    """Return of the current policy, summed over the starts."""
    return runs.chain.frontier[0].expected_return * STARTS


def costs_without_s0(runs: Runs) -> str:
    """Costs of the plans under the other reading of the starts."""
    return ", ".join(f"{cost:g}" for cost in runs.chain.without_s0)


def _from_log() -> Iterator[Expected]:
    log = "chain, exploring log:"
    for policy in ("current", "proposed"):
        what = f"{log} largest error over starts, {policy}"
        yield expect(f"log.error.{policy}", "figure 3", what, 0.0, largest_error, policy)
    yield expect("log.covered", "figure 3", f"{log} share of intervals that hold the truth", 1.0, covered)
    for short, outcome in (("length", LENGTH), ("visits", VISITS)):
        yield expect(f"log.more.{short}", "4.3", f"{log} starts with more, {outcome}", EARLY, starts_with, outcome, 1)
        yield expect(f"log.open.{short}", "4.3", f"{log} starts left open, {outcome}", LATE, starts_with, outcome, 0)
    what = "chain, log of the current policy alone: starts it cannot speak about"
    yield expect("log.nothing", "4.3", what, EARLY, unknown_starts)


def largest_error(runs: Runs, policy: str) -> float:
    """Largest distance between estimate and truth over starts and outcomes."""
    truth, estimate = runs.exploring.truth[policy].per_start, runs.exploring.estimate[policy].per_start
    return max(abs(estimate[o][s].estimate - true.estimate) for o, by in truth.items() for s, true in by.items())


def covered(runs: Runs) -> float:
    """Share of the intervals of the exploring log that hold the true value."""
    return share_covered(runs.exploring)


def share_covered(logged: Logged) -> float:
    """Share of the intervals, over policies, outcomes and starts, that hold the true value."""
    held = [
        interval.contains(logged.truth[policy].per_start[outcome][start].estimate)
        for policy, evaluation in logged.estimate.items()
        for outcome, by in evaluation.per_start.items()
        for start, interval in by.items()
    ]
    return sum(held) / len(held)


def starts_with(runs: Runs, outcome: str, verdict: int) -> str:
    """Starts by the paper's rule: 1 where the current estimate lies below the proposed interval, 0 where inside."""
    old, new = (runs.exploring.estimate[policy].per_start[outcome] for policy in ("current", "proposed"))
    signs = {s: int(old[s].estimate < new[s].low) - int(old[s].estimate > new[s].high) for s in old}
    return ", ".join(start for start in sorted(signs, key=_number_of) if signs[start] == verdict)


def unknown_starts(runs: Runs) -> str:
    """Starts for which a log without exploration gives no estimate of the proposed policy."""
    lengths = runs.unexploring.estimate["proposed"].per_start[LENGTH]
    return ", ".join(start for start in sorted(lengths, key=_number_of) if math.isnan(lengths[start].estimate))


def _number_of(start: str) -> int:
    return int(start.removeprefix("s"))
