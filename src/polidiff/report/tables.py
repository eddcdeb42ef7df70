"""Tables of a result: outcomes, regions, what each change does, and what a reviewer looks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from polidiff.explanation.region_places import outside
from polidiff.explanation.said import most_telling
from polidiff.explanation.text import f1_text, whose_decisions
from polidiff.explanation.words import (
    bare_bounds,
    bounds_text,
    moved_text,
    named_with_unit,
    names_text,
    rule_text,
    swap_text,
    worth_text,
)
from polidiff.records.explanation import Explanation, Methods, Region, WorldSummary
from polidiff.records.numbers import number, percent, share_text
from polidiff.records.outcome import Assumption, Interval
from polidiff.records.plan import Frontier
from polidiff.report.view import MOST_CARDS, MOST_EFFECTS, group_verdicts, support_text

LONG_CELL = 40  # letters
MOST_ACTIONS = 30  # that are listed


@dataclass(frozen=True)
class Table:
    """Rows of text under column heads."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str = ""

    @property
    def wordy(self) -> bool:
        """Whether a cell holds more than figures, so that a narrow screen scrolls rather than breaks it."""
        return any(len(cell) > LONG_CELL for row in self.rows for cell in row)


def tails_table(explanation: Explanation) -> Table:
    """The worst tenth beside the mean, where some starts are worse off."""
    outcomes = {outcome.name: outcome for outcome in explanation.outcomes}
    if not any(tail.share_worse for tail in explanation.tails):
        return Table((), ())
    rows = tuple(
        (
            t.outcome,
            *(worth_text(value, outcomes.get(t.outcome)) for value in (t.mean, t.worst_tenth)),
            percent(t.share_worse),
        )
        for t in explanation.tails
        if t.mean or t.worst_tenth or t.share_worse
    )
    return Table(("outcome", "mean difference", "worst tenth of starts", "starts worse off"), rows)


def regions_table(explanation: Explanation) -> Table:
    """Every region: where, what, how sure. A named state is its own place."""
    apart = outside(explanation.regions)
    rows = tuple(
        (
            region.id,
            "" if (where := region_where(region)) == region.id else f"{where}{apart[region.id]}",
            swap_text(region, short=True),
            percent(region.support.share),
            support_text(region.support, explanation.world, rows=True),
            *(
                share_text(getattr(region, of), region.intervals.get(of)) if region.support.share else "not met"
                for of in ("precision", "recall")
            ),
        )
        for region in explanation.regions
    )
    heads = ("region", "where", "instead", "of decisions", "behind it", "right in", "share of such changes")
    whose = whose_decisions(explanation)
    return filled(Table(heads, rows, f"Regions: {whose}" if whose else ""))


def filled(table: Table) -> Table:
    """The table without columns in which nothing stands."""
    places = [place for place in range(len(table.columns)) if any(row[place] for row in table.rows)]
    rows = tuple(tuple(row[place] for place in places) for row in table.rows)
    return replace(table, columns=tuple(table.columns[place] for place in places), rows=rows)


def effects_table(explanation: Explanation) -> Table:
    """What each change does alone, and what the others do without it; for the most telling outcomes."""
    outcomes = {outcome.name: outcome for outcome in explanation.outcomes}
    names = [verdict.outcome for verdict in most_telling(explanation.verdicts)][:MOST_EFFECTS]
    effects = [(region.id, region.effect) for region in explanation.regions if region.effect is not None]
    if len(effects) < 2:  # one change alone is the whole difference
        return Table((), ())

    def told(side: Mapping[str, Interval], name: str) -> str:
        return bare_bounds(side[name], outcomes.get(name), difference=True) if name in side else "never ends"

    rows = tuple(
        (change, *(f"{told(effect.alone, name)} alone; others {told(effect.without, name)}" for name in names))
        for change, effect in effects
    )
    return Table(("change", *(named_with_unit(name, outcomes.get(name), difference=True) for name in names)), rows)


def region_where(region: Region) -> str:
    """Where a region is, in words."""
    if region.merged and region.states:
        return f"in {names_text(region.states)}"
    return rule_text(region.rule)


def outcomes_table(explanation: Explanation) -> Table:
    """Every outcome over all starts, with both intervals."""
    outcomes = {outcome.name: outcome for outcome in explanation.outcomes}
    rows = tuple(
        (
            v.outcome,
            bounds_text(v.current, outcomes.get(v.outcome)) if v.current else "–",
            bounds_text(v.proposed, outcomes.get(v.outcome)) if v.proposed else "–",
            bounds_text(v.difference, outcomes.get(v.outcome), difference=True),
            f"{v.direction}{f' ({v.valence})' if v.valence else ''}",
            v.note or (f"{percent(v.unsupported)} unsupported" if v.unsupported else ""),
        )
        for v in (
            most_telling(explanation.verdicts) if len(explanation.verdicts) > MOST_CARDS else explanation.verdicts
        )
    )
    return filled(Table(("outcome", "current", "proposed", "difference", "verdict", "note"), rows))


def group_table(explanation: Explanation, outcome: str) -> Table:
    """One outcome for every group."""
    of = next((o for o in explanation.outcomes if o.name == outcome), None)
    rows = tuple(
        (group, bounds_text(v.difference, of, difference=True), v.direction, v.valence or "–")
        for group, v in group_verdicts(explanation, outcome)
    )
    return Table((explanation.world.starts, "difference", "verdict", "reading"), rows, f"{outcome}: proposed − current")


def assumptions_table(assumptions: tuple[Assumption, ...]) -> Table:
    """What verdicts from a log rest on, and how each was tested."""
    rows = tuple((a.name, a.status, a.detail, a.consequence, a.tested) for a in assumptions)
    return filled(Table(("assumption", "status", "what was seen", "what follows", "how it was tested"), rows))


def quality_table(explanation: Explanation) -> Table:
    """How true the text is, measured on visits that did not make it."""
    quality = explanation.quality
    outcomes = {outcome.name: outcome for outcome in explanation.outcomes}

    def recovered(name: str, share: float | None) -> str:
        added = quality.patched.get(name)
        if added is None:
            return percent(share)
        return f"nothing; the rules alone: {moved_text(outcomes[name], Interval.exactly(added))}"

    rows = [
        ("precision of the rules", share_text(quality.precision, quality.intervals.get("precision"))),
        ("recall of the rules", share_text(quality.recall, quality.intervals.get("recall"))),
        ("F1", f1_text(quality) if quality.intervals else f"{quality.f1:.3f}"),
        ("right pair of actions named", percent(quality.swap_accuracy)),
        *((f"difference recovered: {pair[0]}", recovered(*pair)) for pair in quality.completeness.items()),
        ("told path is the typical path", percent(quality.path_fidelity)),
        ("verdicts left unknown", percent(quality.abstained)),
        ("words", str(quality.length.words)),
    ]
    if quality.stability is not None:
        rows.append(("stability over resamples", f"{quality.stability:.2f}"))
    return Table(("measure", "value"), tuple(row for row in rows if row[1] != percent(None)))


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


def methods_text(record: Explanation | Frontier) -> str:
    """The paragraph that a reviewer looks for."""
    methods, paper = record.methods, record.methods.style == "paper"
    several = "both" if methods.family == 2 else f"all {number(methods.family)}"
    together = f" over {several} comparisons together" if methods.family > 1 else ""
    together = " each, of the proposed policy's outcome against the current estimate" if paper else together
    sure = "" if methods.evaluation == "exact" else f" Intervals hold at {percent(methods.level)}{together}."
    learner = "" if methods.classifier in ("", "rules") else f" Regions are learned by {methods.classifier}."
    differ = f" {_differ_text(methods)}{learner}" if isinstance(record, Explanation) else ""
    world = f"The world is {WORLDS[record.world.kind]}."
    return f"{world} Outcomes: {methods.evaluation}.{sure}{differ} Seed {methods.seed}."


def _differ_text(methods: Methods) -> str:
    """When two policies count as different in a state."""
    acts = f"Two policies differ in a state when their actions (or probabilities, beyond {methods.policy_tolerance:g})"
    beyond = f"beyond {methods.transition_tolerance:g})"
    if methods.style == "paper":
        return f"{acts} differ and their most probable next states do too (or their probabilities {beyond}."
    return f"{acts} differ and the next states do too (total variation {beyond}, or an outcome differs at once."


def methods_table(methods: Methods, world: WorldSummary) -> Table:
    """Facts of the world, versions and hashes of inputs."""
    rows = [(name, value if isinstance(value, str) else number(value)) for name, value in world.facts.items()]
    names = [action.name for action in world.actions[:MOST_ACTIONS]]
    comma = "; " if any("," in name for name in names) else ", "
    rows += [("actions", comma.join(names) + " …" * (len(world.actions) > MOST_ACTIONS))]
    rows += [(f"version of {name}", version) for name, version in methods.versions.items()]
    rows += [(f"input {name}", digest) for name, digest in methods.inputs.items()]
    return Table(("fact", "value"), tuple(rows))
