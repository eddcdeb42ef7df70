"""What a reviewer looks for: assumptions, how true the text is, the method and its facts."""

from __future__ import annotations

from polidiff.records.explanation import Explanation, Methods, WorldSummary
from polidiff.records.outcome import Assumption
from polidiff.report.view import Table, percent


def assumptions_table(assumptions: tuple[Assumption, ...]) -> Table:
    """What verdicts from a log rest on, and how each was tested."""
    rows = tuple((a.name, a.status, a.detail, a.consequence, a.tested) for a in assumptions)
    return Table(("assumption", "status", "what was seen", "what follows", "how it was tested"), rows)


def quality_table(explanation: Explanation) -> Table:
    """How true the text is, measured on visits that did not make it."""
    quality = explanation.quality
    rows = [
        ("precision of the rules", percent(quality.precision)),
        ("recall of the rules", percent(quality.recall)),
        ("F1", f"{quality.f1:.3f}"),
        ("right pair of actions named", percent(quality.swap_accuracy)),
        *((f"difference recovered: {name}", percent(share)) for name, share in quality.completeness.items()),
        ("told path is the typical path", percent(quality.path_fidelity)),
        ("verdicts left unknown", percent(quality.abstained)),
        ("words", str(quality.length.words)),
    ]
    if quality.stability is not None:
        rows.append(("stability over resamples", f"{quality.stability:.2f}"))
    return Table(("measure", "value"), tuple(rows))


def forms_table(explanation: Explanation) -> Table:
    """This text against other ways of telling the difference."""
    rows = tuple(
        (
            form.form,
            str(form.length.words),
            percent(form.action_accuracy),
            percent(form.changed_accuracy),
            percent(form.direction_accuracy),
            percent(form.choice_accuracy),
        )
        for form in explanation.quality.forms
    )
    return Table(("form", "words", "action predicted", "where changed", "direction", "right choice"), rows)


WORLDS = {"table": "a known table", "simulator": "a simulator", "log": "a log of past decisions"}


def methods_text(methods: Methods, world: WorldSummary) -> str:
    """The paragraph that a reviewer looks for."""
    together = f"over all {methods.family} comparisons together" if methods.family > 1 else "for the one comparison"
    sure = "" if methods.evaluation == "exact" else f" Intervals hold at {percent(methods.level)} {together}."
    return (
        f"The world is {WORLDS[world.kind]}. Outcomes: {methods.evaluation}.{sure} Two policies differ in a state when "
        f"their actions (or probabilities, beyond {methods.policy_tolerance:g}) differ and the next states do too "
        f"(total variation beyond {methods.transition_tolerance:g}), or an outcome differs at once. "
        f"{f'Regions are learned by {methods.classifier}. ' if methods.classifier else ''}Seed {methods.seed}."
    )


def methods_table(methods: Methods, world: WorldSummary) -> Table:
    """Facts of the world, versions and hashes of inputs."""
    rows = [(name, str(value)) for name, value in world.facts.items()]
    rows += [("actions", ", ".join(action.name for action in world.actions[:30]) + (" …" * (len(world.actions) > 30)))]
    rows += [(f"version of {name}", version) for name, version in methods.versions.items()]
    rows += [(f"input {name}", digest) for name, digest in methods.inputs.items()]
    return Table(("fact", "value"), tuple(rows))
