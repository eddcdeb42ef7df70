"""A check as JUnit XML, which build servers show."""

from __future__ import annotations

import os
from pathlib import Path
from xml.etree import ElementTree

from polidiff.files import write_whole
from polidiff.records.plan import CheckResult
from polidiff.report.names import shown


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
    ElementTree.SubElement(case, "system-out").text = "\n".join(shown(what) for what in result.checked)
    ElementTree.indent(suite)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(suite, encoding="unicode") + "\n"
