"""Commands that work on a study or an example: ``explain``, ``improve``, ``check`` and ``demo``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from polidiff.cli.options import (
    FILE,
    GroupedCommand,
    as_study,
    flags_of,
    from_study,
    settings,
    study_flags,
    together,
    writing,
)
from polidiff.cli.output import Output, progress, save, tell
from polidiff.files import write_whole
from polidiff.options import CheckOptions, ExplainOptions, ImproveOptions, Setting

if TYPE_CHECKING:
    from polidiff.records.explanation import Explanation
    from polidiff.records.plan import CheckResult, Frontier

NOT_JUDGED = 'Not judged, as nobody said which is better (prefer = "less" or "more"):'
TITLES = {
    "navigation": "The navigation task: the second proposal against the current policy",
    "chain": "The chain: detours to desired states against the straight way",
    "icu-sepsis": "Treating sepsis: the best policy of a model against what clinicians did",
}
explaining = together(study_flags("proposed", "rule"), flags_of(ExplainOptions))


@click.command(
    cls=GroupedCommand,
    ways=(
        "polidiff explain study.toml                  a study; polidiff init DATA -o study.toml writes one",
        "polidiff explain --log stays.csv --state map --action dose --reward lived --current log --proposed new.onnx",
        "polidiff explain --env CartPole-v1 --current old.zip --proposed new.zip --trust",
    ),
)
@from_study
@explaining
@writing
def explain_command(study: Path | None, trust: bool, to: Output, **given: Setting) -> None:
    """Say where two policies act differently, in which order that is met, and what it does to outcomes.

    STUDY is a TOML file; every flag stands for one of its keys and wins over it.

    \b
    Examples:
      polidiff explain study.toml --report diff.html
      polidiff explain --env FrozenLake-v1 --current a.npy --proposed b.npy
      polidiff explain --log stays.csv --state map --state lactate --action dose \\
          --episode stay --terminated died_or_left --reward survived \\
          --current log --proposed new.onnx
      polidiff explain study.toml --rule "map < 55: pressor" \\
          --rule "lactate > 4: fluid"
    """
    to.deliver(_explained(study, trust, to, given))


def _explained(study: Path | None, trust: bool, to: Output, given: dict[str, Setting]) -> Explanation:
    """The explanation of a study with flags laid over it; guards that it is checked by later are read first."""
    from polidiff.cli.loading import load_policies, load_world, with_origin
    from polidiff.cli.study import read_study
    from polidiff.records.parse import parse_guards

    read = read_study(study, as_study(given, ExplainOptions, CheckOptions))
    with progress(to.quiet):
        from polidiff.api import explain

        world = load_world(read, trust=trust)
        to.remark(f"world: {world.kind}, {len(world.actions)} actions")
        parse_guards(settings(CheckOptions, read.values).get("keep", ()), [o.name for o in world.outcomes])
        current, proposed = load_policies(read, world, trust=trust)
        return with_origin(explain(world, current, proposed, **settings(ExplainOptions, read.values)), read)


@click.command(
    cls=GroupedCommand,
    ways=(
        "polidiff improve study.toml                  a study; polidiff init DATA -o study.toml writes one",
        "polidiff improve --log stays.csv --state map --action dose --reward survived --current log --max-rules 2",
        "polidiff improve --env FrozenLake-v1 --current policy.npy --candidate other.npy",
    ),
)
@from_study
@study_flags("candidate")
@flags_of(ImproveOptions)
@click.option("--patch", type=FILE, help="Write the best plan as a patch (.json).")
@writing
def improve_command(study: Path | None, trust: bool, patch: Path | None, to: Output, **given: Setting) -> None:
    """Find the few changes to the current policy that pay most, for every budget, each plan with its proof.

    \b
    Examples:
      polidiff improve study.toml --budget 2
      polidiff improve study.toml --max-rules 2 --keep "mortality<=current" --freeze "map<55"
      polidiff improve study.toml --report plans.html --patch best.json
    """
    from polidiff.cli.loading import load_policy, load_world, policy_named, with_origin
    from polidiff.cli.study import read_study

    read = read_study(study, as_study(given, ImproveOptions))
    with progress(to.quiet):
        from polidiff.api import improve

        world = load_world(read, trust=trust)
        to.remark(f"world: {world.kind}, {len(world.actions)} actions")
        current = load_policy(read, "current", world, trust=trust)
        names = read.section("policies").get("candidates", [])
        candidates = [policy_named(name, read, world, trust=trust) for name in names] or None
        frontier = with_origin(improve(world, current, candidates, **settings(ImproveOptions, read.values)), read)
        if to.report is not None:  # the JSON file then holds the words of the page too
            from polidiff.report.plans import explained

            frontier = explained(frontier)
    written = None if patch is None else _save_patch(frontier, patch)
    to.deliver(frontier)
    if written is not None and not to.quiet:
        click.echo(written, err=True)


def _save_patch(frontier: Frontier, path: Path) -> str:
    """Write the best plan as a patch, and say what it holds."""
    from polidiff.records.numbers import counted
    from polidiff.records.suppression import suppressed

    shown = suppressed(frontier)  # a patch leaves the house as a page does
    shown.best.patch.save(path)
    if shown.best.patch.changing:
        return f"wrote {path}: {counted(len(shown.best.patch.changing), 'change')}"
    rare = "what the best plan changes is too rare to show"
    return f"wrote {path}: no changes, because {'no plan is shown to gain' if shown.best is shown.plans[0] else rare}"


@click.command(
    cls=GroupedCommand,
    ways=(
        "polidiff check study.toml                    a study; polidiff init DATA -o study.toml writes one",
        "polidiff check diff.json                     the result of an earlier explain -o diff.json",
        'polidiff check study.toml --max-changes 3 --keep "mortality<=current"',
    ),
)
@from_study
@flags_of(CheckOptions)
@click.option("--junit", type=FILE, help="Write the checks as JUnit XML.")
@explaining
@writing
def check_command(study: Path | None, trust: bool, junit: Path | None, to: Output, **given: Setting) -> int:
    """Gate a release: exit 0 if all holds, 1 if a check fails.

    STUDY is a TOML file, or the JSON file of an earlier `explain`. Without --keep, no outcome may get worse.

    \b
    Examples:
      polidiff check study.toml --max-changes 3 --keep "mortality<=current"
      polidiff check diff.json --junit checks.xml
    """
    from polidiff.api import check
    from polidiff.cli.loading import loaded_explanation

    if study is not None and study.suffix.lower() == ".json":
        explanation = loaded_explanation(study)
    else:
        explanation = _explained(study, trust, to, given)
    flags = as_study(given, CheckOptions).get("check", {})
    result = check(explanation, **{**settings(CheckOptions, explanation.methods.study), **flags})
    if junit is not None:
        write_whole(junit, _junit(result))
    for path in (to.output, to.report):
        if path is not None:
            save(explanation, path)
    tell(result, _card(result), as_json=to.as_json)
    return 0 if result.passed else 1


def _card(result: CheckResult) -> str:
    """The verdict as text."""
    lines = ["PASSED" if result.passed else "FAILED"]
    lines += [f"• {reason}" for reason in result.reasons]
    lines += ["", "Checked:", *(f"• {what}" for what in result.checked)]
    if result.unjudged:
        lines += ["", NOT_JUDGED, *(f"• {name}" for name in result.unjudged)]
    return "\n".join(lines)


def _junit(result: CheckResult) -> str:
    """One test case for the whole gate, with every reason against it, and one line of output per thing checked."""
    from xml.etree import ElementTree

    from polidiff.report.names import shown

    failures = "0" if result.passed else "1"
    suite = ElementTree.Element("testsuite", name="polidiff check", tests="1", failures=failures, errors="0")
    case = ElementTree.SubElement(suite, "testcase", classname="polidiff", name="the proposed policy may pass")
    if not result.passed:
        failure = ElementTree.SubElement(case, "failure", message=shown(result.reasons[0]))
        failure.text = "\n".join(shown(reason) for reason in result.reasons)
    lines = [*result.checked, *(f"{NOT_JUDGED} {name}" for name in result.unjudged)]
    ElementTree.SubElement(case, "system-out").text = "\n".join(map(shown, lines))
    ElementTree.indent(suite)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(suite, encoding="unicode") + "\n"


@click.command()
@click.argument("example", type=click.Choice(list(TITLES)), default="navigation")
@click.option("--seed", type=int, default=0, help="Same seed, same bytes.", show_default=True)
@writing
def demo_command(example: str, seed: int, to: Output) -> None:
    """Compare two policies of an example, find the changes that pay most, and write a report.

    \b
    Examples:
      polidiff demo
      polidiff demo chain --report chain.html
    """
    with progress(to.quiet):
        explanation, frontier = results(example, seed)
        text = None if to.as_json else spoken(example, explanation, frontier)
    to.deliver(explanation, page=(explanation, frontier), text=text)


def spoken(example: str, explanation: Explanation, frontier: Frontier) -> str:
    """What the terminal says: the difference and the plans; for sepsis, sentences to read aloud."""
    if example != "icu-sepsis":
        from polidiff.explanation.plan_text import render_frontier

        return f"{explanation}\n\n{render_frontier(frontier, explanation)}"
    from polidiff.domains.icu_sepsis_words import summary

    return summary(explanation, frontier)


def results(example: str, seed: int) -> tuple[Explanation, Frontier]:
    """The example explained, and improved."""
    explanation, frontier = _sepsis(seed) if example == "icu-sepsis" else _example(example, seed)
    study = {"title": TITLES[example], **explanation.methods.study}
    return replace(explanation, methods=replace(explanation.methods, study=study)), frontier


def _example(example: str, seed: int) -> tuple[Explanation, Frontier]:
    from polidiff.api import explain, improve

    if example == "chain":
        from polidiff.domains import chain

        world, current, proposed = chain.world(), chain.current(), chain.proposed()
        return explain(world, current, proposed, seed=seed), improve(world, current, unit="total", seed=seed)
    from polidiff.domains import navigation

    away = navigation.world()
    explanation = explain(away, navigation.current, navigation.proposed_2, seed=seed)
    return explanation, improve(away, navigation.current, [navigation.proposed_1, navigation.proposed_2], seed=seed)


def _sepsis(seed: int) -> tuple[Explanation, Frontier]:
    """What clinicians did against the best policy, at most two rules on the way there, and sentences about both."""
    from polidiff.api import explain, improve
    from polidiff.domains import icu_sepsis
    from polidiff.domains.icu_sepsis_words import briefing

    ward, care = icu_sepsis.world(), icu_sepsis.current()
    frontier = improve(ward, care, max_rules=2, max_conditions=2, moves="levels", seed=seed)
    explanation = explain(ward, care, icu_sepsis.proposed(), max_rules=6, seed=seed)
    caveats = (*icu_sepsis.CAVEATS, icu_sepsis.SOURCE, *explanation.warnings)
    study = {"summary": list(briefing(explanation, frontier))}
    return replace(explanation, warnings=caveats, methods=replace(explanation.methods, study=study)), frontier
