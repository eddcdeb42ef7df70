"""What should come out of the continuous task: its policies, the regions where they differ, the plans.

Simulated values may be off by five standard errors of 10,000 episodes: the number of steps varies by one with the start
(standard deviation 0.5), and each step costs 0.001.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from polidiff.paper.expectation import EXACT, Expected, expect, yes
from polidiff.paper.runs import REWARD, STAY, STEPS, Runs
from polidiff.paper.sentences import changed, costs, regions_of

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


def navigation_values() -> Iterator[Expected]:
    """All of them."""
    yield from _policies()
    yield from _plans()


def _policies() -> Iterator[Expected]:
    for policy, figures in POLICIES.items():
        for outcome, value in zip((REWARD, STEPS, STAY), figures, strict=True):
            key = f"navigation.{policy}.{outcome.split()[0]}".replace(" ", "-")
            yield expect(key, "figure 8", f"navigation: {policy}, {outcome}", value, exact, policy, outcome)
    for number, regions in REGIONS.items():
        what = f"navigation: regions of proposed {number}"
        yield expect(f"navigation.regions.{number}", "figure 8", what, regions, found_regions, number)
    yield expect("navigation.optimum", "6.2", "navigation: proposed 2 is the optimum", "yes", is_optimum)
    what = "navigation: all actions everywhere leave a finite optimum"
    yield expect("navigation.bounded", "A.2", what, "no", bounded)


def exact(runs: Runs, policy: str, outcome: str) -> float:
    """A mean outcome, from the exact table."""
    return runs.navigation.exact[policy][outcome]


def found_regions(runs: Runs, number: int) -> str:
    """Regions in which a proposal differs from the current policy."""
    return regions_of(runs.navigation.proposed_1 if number == 1 else runs.navigation.proposed_2)


def is_optimum(runs: Runs) -> str:
    """Whether the best plan returns what the second proposal does."""
    return yes(abs(exact(runs, "proposed 2", REWARD) - exact(runs, "κ = 3", REWARD)) <= EXACT)


def bounded(runs: Runs) -> str:
    """Whether stepping back and forth through a reward is ruled out."""
    return yes(runs.navigation.bounded)


def _plans() -> Iterator[Expected]:
    yield expect("navigation.costs", "5.2, figure 5", "navigation: costs κ of the plans", "0, 1, 2, 3", plan_costs)
    for cost, (regions, reward, stay) in PLANS.items():
        key, here, where = f"navigation.plan.{cost}", f"navigation: κ = {cost}", "5.2, figures 5 and 6"
        yield expect(f"{key}.regions", where, f"{here}, changed regions", regions, changed_at, cost)
        for outcome, value, off in ((REWARD, reward, SIMULATED_RETURN), (STAY, stay, SIMULATED_STAY)):
            short, what = outcome.split()[0], f"{here}, {outcome}"
            yield expect(f"{key}.{short}", where, what, value, exact, f"κ = {cost}", outcome)
            simulation = f"{key}.{short}.simulated"
            yield expect(simulation, where, f"{what}, simulated", value, simulated, cost, outcome, tolerance=off)
    what = "navigation: κ = 2 collects less but stays longer than the optimum"
    yield expect("navigation.remark", "6.3", what, "yes", collects_less_stays_longer)


def plan_costs(runs: Runs) -> str:
    """Costs of the plans."""
    return costs(runs.navigation.frontier)


def changed_at(runs: Runs, budget: float) -> str:
    """Regions that the best plan within a budget changes."""
    return changed(runs.navigation.frontier.at(budget))


def simulated(runs: Runs, budget: float, outcome: str) -> float:
    """What that plan achieves in simulated episodes."""
    return runs.navigation.frontier.at(budget).outcomes[outcome].estimate


def collects_less_stays_longer(runs: Runs) -> str:
    """The paper's remark on why a user may prefer two changes."""
    two, best = runs.navigation.exact["κ = 2"], runs.navigation.exact["κ = 3"]
    return yes(two[REWARD] < best[REWARD] and two[STAY] > best[STAY])
