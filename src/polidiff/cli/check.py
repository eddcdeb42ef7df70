"""``polidiff check``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import click

from polidiff.cli.explain import explained, explaining
from polidiff.cli.options import FILE, GroupedCommand, as_study, flags_of, from_study, settings, together, writing
from polidiff.cli.output import save, say, say_json
from polidiff.files import write_whole
from polidiff.options import CheckOptions, Setting
from polidiff.records.plan import CheckResult
from polidiff.report.names import shown

if TYPE_CHECKING:
    from polidiff.records.explanation import Explanation
    from polidiff.records.plan import CheckResult

NOT_JUDGED = 'Not judged, as nobody said which is better (prefer = "less" or "more"):'

checking = together(
    flags_of(CheckOptions),
    click.option("--junit", type=FILE, help="Write the checks as JUnit XML."),
)


@click.command(
    cls=GroupedCommand,
    ways=(
        "polidiff check study.toml                    a study; polidiff init DATA -o study.toml writes one",
        "polidiff check diff.json                     the result of an earlier explain -o diff.json",
        'polidiff check study.toml --max-changes 3 --keep "mortality<=current"',
    ),
)
@from_study
@checking
@explaining
@writing
def command(
    study: Path | None,
    trust: bool,
    junit: Path | None,
    as_json: bool,
    output: Path | None,
    report: Path | None,
    quiet: bool,
    verbose: bool,
    **given: Setting,
) -> int:
    """Gate a release: exit 0 if all holds, 1 if a check fails.

    STUDY is a TOML file, or the JSON file of an earlier `explain`. Without --keep, no outcome may get worse.

    \b
    Examples:
      polidiff check study.toml --max-changes 3 --keep "mortality<=current"
      polidiff check diff.json --junit checks.xml
    """
    from polidiff.api import check

    if study is not None and study.suffix.lower() == ".json":
        explanation = loaded_explanation(study)
    else:
        explanation = explained(study, trust, quiet, verbose, given)
    flags = as_study(given, CheckOptions).get("check", {})
    wanted = {**settings(CheckOptions, explanation.methods.study), **flags}
    result = check(explanation, **wanted)
    if junit is not None:
        from polidiff.cli.check import save_junit

        save_junit(result, junit)
    for path in (output, report):
        if path is not None:
            save(explanation, path)
    if as_json:
        say_json(result)
    else:
        say(card(result))
    return 0 if result.passed else 1


def loaded_explanation(path: Path) -> Explanation:
    """The explanation in a result file."""
    from polidiff.api import load
    from polidiff.errors import InvalidResultError
    from polidiff.records.explanation import Explanation

    record = load(path)
    if not isinstance(record, Explanation):
        raise InvalidResultError(
            f"expected the result of explain; {path} holds a {type(record).__name__.lower()}. Hint: polidiff explain "
            f"STUDY -o {path.stem}.json"
        )
    return record


def card(result: CheckResult) -> str:
    """The verdict as text."""
    lines = ["PASSED" if result.passed else "FAILED"]
    lines += [f"• {reason}" for reason in result.reasons]
    lines += ["", "Checked:", *(f"• {what}" for what in result.checked)]
    if result.unjudged:
        lines += ["", NOT_JUDGED, *(f"• {name}" for name in result.unjudged)]
    return "\n".join(lines)


def save_junit(result: CheckResult, path: str | os.PathLike[str]) -> Path:
    """Write the checks of a result."""
    return write_whole(path, junit(result))


def junit(result: CheckResult) -> str:
    """One test case for the whole gate, with every reason against it, and one line of output per thing checked.

    >>> "failures=\\"1\\"" in junit(CheckResult(False, ("too many changes",), ("at most 3 changes",)))
    True
    """
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
