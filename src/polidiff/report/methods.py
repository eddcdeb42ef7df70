"""How a result was made, in a paragraph and a table."""

from __future__ import annotations

from polidiff.records.explanation import Methods, WorldSummary
from polidiff.report.view import Table, percent

WORLDS = {"table": "a known table", "simulator": "a simulator", "log": "a log of past decisions"}


def methods_text(methods: Methods, world: WorldSummary) -> str:
    """The paragraph that a reviewer looks for."""
    together = f"over all {methods.family} comparisons together" if methods.family > 1 else "for the one comparison"
    sure = "" if methods.evaluation == "exact" else f" Intervals hold at {percent(methods.level)} {together}."
    return (
        f"The world is {WORLDS[world.kind]}. Outcomes: {methods.evaluation}.{sure} Two policies differ in a state when "
        f"their actions (or probabilities, beyond {methods.policy_tolerance:g}) differ and the next states do too "
        f"(total variation beyond {methods.transition_tolerance:g}), or an outcome differs at once. "
        f"Seed {methods.seed}."
    )


def methods_table(methods: Methods, world: WorldSummary) -> Table:
    """Facts of the world, versions and hashes of inputs."""
    rows = [(name, str(value)) for name, value in world.facts.items()]
    rows += [("actions", ", ".join(action.name for action in world.actions[:30]) + (" …" * (len(world.actions) > 30)))]
    rows += [(f"version of {name}", version) for name, version in methods.versions.items()]
    rows += [(f"input {name}", digest) for name, digest in methods.inputs.items()]
    return Table(("fact", "value"), tuple(rows))
