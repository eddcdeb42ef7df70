"""Everything that should come out: both tasks, the sentences, figure 6, and the bars of the measures."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from polidiff.paper import metrics
from polidiff.paper.chain_values import chain_values
from polidiff.paper.expectation import Expected, expect
from polidiff.paper.navigation_values import navigation_values
from polidiff.paper.runs import Runs
from polidiff.paper.sentences import SECTION_4_4, SECTION_6_2, SECTION_7, Printed, found_costs, points, printed
from polidiff.records.explanation import Explanation
from polidiff.records.plan import Frontier


def expected_values() -> tuple[Expected, ...]:
    """All of them, in the order of the paper as far as possible."""
    return (*chain_values(), *_sentences(), *navigation_values(), *_policy_iteration(), *_bars())


def _sentences() -> Iterator[Expected]:
    yield expect("text.4.4.count", "4.4", "chain: sentences in the paper's style", 7.0, count_sentences, "paper")
    for index, theirs in enumerate(SECTION_4_4):
        yield from _facts(f"text.4.4.{index + 1}", "4.4", f"chain: sentence {index + 1}", theirs, index)
    yield from _facts("text.6.2", "6.2", "navigation: sentence", SECTION_6_2, None)
    yield expect("text.default", "4.4", "chain: sentences by default, starts merged", 3.0, count_sentences, "plain")
    for name, said in SECTION_7.items():
        yield expect(
            f"text.7.{name.split()[0]}",
            "2 and 7",
            f"chain: {name}",
            said,
            lambda runs, n: runs.chain.paper.forms[n],
            name,
        )


def count_sentences(runs: Runs, style: str) -> float:
    """How many sentences the chain takes."""
    return float(len((runs.chain.paper if style == "paper" else runs.chain.plain).sentences))


def _facts(key: str, where: str, what: str, theirs: Printed, index: int | None) -> Iterator[Expected]:
    yield expect(f"{key}.starts", where, f"{what}, starts", theirs.starts, sentence_fact, index, "starts")
    yield expect(
        f"{key}.steps", where, f"{what}, regions and swaps", theirs.told_steps, sentence_fact, index, "told_steps"
    )
    yield expect(
        f"{key}.directions", where, f"{what}, directions", theirs.directions, sentence_fact, index, "directions"
    )


def sentence_fact(runs: Runs, index: int | None, fact: str) -> str:
    """A fact of one sentence of the chain; of the only sentence of the continuous task if `index` is None."""
    made = printed(runs.navigation.proposed_2)[0] if index is None else printed(runs.chain.paper)[index]
    return str(getattr(made, fact))


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
        for task, costs in zip(("chain", "navigation"), by_task, strict=True):
            key = f"pi.{number}.{task}"
            yield expect(key, where, f"{task}: costs that {name} finds", costs, costs_found, task, name)
            what = f"{task}: points of {name} above the frontier"
            yield expect(f"{key}.above", where, what, 0.0, points_above, task, name)
    what = "navigation: return of the first reading at two changes"
    yield expect("pi.dominated", where, what, DOMINATED, first_reading_at_two, tolerance=MODEL_ERROR)


def frontier_of(runs: Runs, task: str) -> Frontier:
    """The frontier of one of the tasks."""
    return runs.chain.frontier if task == "chain" else runs.navigation.frontier


def costs_found(runs: Runs, task: str, baseline: str) -> str:
    """Costs of what a simpler method passes through."""
    return found_costs(frontier_of(runs, task), baseline)


def points_above(runs: Runs, task: str, baseline: str) -> float:
    """How many of a simpler method's points lie above the frontier."""
    frontier = frontier_of(runs, task)
    above = [v for cost, v in points(frontier, baseline) if v > frontier.at(cost).expected_return + MODEL_ERROR]
    return float(len(above))


def first_reading_at_two(runs: Runs) -> float:
    """What changing all states at once returns after two changes."""
    passed = points(runs.navigation.frontier, "policy iteration, all states")
    return {round(cost, 6): value for cost, value in passed}[2.0]


def _bars() -> Iterator[Expected]:
    bars: tuple[tuple[str, str, float, Callable[[Explanation], float]], ...] = (
        ("f1", "F1 of the regions", 0.95, lambda explanation: explanation.quality.f1),
        ("complete", "least completeness", 0.95, metrics.least_completeness),
        ("forms", "least lead of a reader over those of other forms", 0.0, metrics.lead_over_other_forms),
        ("reader", "lead of a reader over one without explanation", 0.01, metrics.lead_over_nothing),
    )
    for task in ("chain", "navigation"):
        for key, what, bar, measure in bars:
            yield expect(f"bar.{task}.{key}", "7", f"{task}: {what}", bar, measure_of, task, measure, at_least=True)
    yield expect("bar.paths", "7", "chain: starts whose path is told rightly", 1.0, path_fidelity, at_least=True)
    yield expect("bar.stability", "7", "navigation: stability of the regions", 0.9, stability, at_least=True)


def measure_of(runs: Runs, task: str, measure: Callable[[Explanation], float]) -> float:
    """A measure of the explanation of one of the tasks."""
    return measure(metrics.explained(runs)[task])


def path_fidelity(runs: Runs) -> float:
    """Share of the chain's starts whose path is told rightly."""
    return runs.chain.plain.quality.path_fidelity or 0.0


def stability(runs: Runs) -> float:
    """Overlap of the regions over seeds."""
    return runs.navigation.stability
