"""The reports of the gallery: ``python -m tests.docs.gallery docs/gallery`` makes them and reads their first screens.

A scripted reader has the text of the first screen and nothing else, and must find the answers to five questions there.
"""

from __future__ import annotations

import html
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.docs.pages import ROOT, run_page

PAGE = ROOT / "docs" / "gallery" / "index.md"
MOST_BYTES = 1_200_000
QUESTIONS = ("What now?", "What changes?", "Is it better?", "For whom worse?", "How sure is that?")
EXPECTED = {  # report -> what a reader must find, in the order of the questions
    "navigation": ("Weigh it", "north instead of east", "More collected reward", "stay in the desired region", "95 %"),
    "chain": ("Weigh it", "in s1", "more visits to desired states", "a longer trajectory", "Exact"),
    "icu_sepsis": ("Weigh it", "fluid", "More survival", "more vasopressor", "Exact"),
    "campaign": (
        "Adopt it",
        "coupon instead of nothing where age < 60",
        "Yes: more sales",
        "No group is shown to lose",
        "95 %",
    ),
    "plans": (
        "Look at plan 1",
        "coupon where age < ",
        "Yes: more sales",
        "No outcome gets worse",
        "30 000 decisions",
    ),
    "ward": (
        "Test it first: it is better on survival in the record, but the record is in doubt. Unrecorded reasons that "
        "change the odds of a decision by 12 %",
        "in low",
        "In the record, yes: more survival",
        "No group is shown to lose",
        "3000 episodes",
    ),
    "loss": (
        "Do not adopt it",
        "one clerk instead of two clerks",
        "A longer wait",
        "All starts together",
        "Exact",
    ),
    "nothing": ("There is nothing to adopt", "Nothing", "No material difference", "No group is shown to lose", "Exact"),
    "forty_outcomes": ("Weigh it", "small dose instead of wait", "of 41 outcomes", "groups of starts lose", "Exact"),
}


def first_screen(page: str) -> dict[str, str]:
    """Question -> answer, from the text above the first section."""
    top = re.sub(r"<style>.*?</style>", "", page.split("<main")[0], flags=re.S)
    found = re.findall(r"<dt>([^<]*\?)</dt><dd>(.*?)</dd>", top, flags=re.S)
    return {
        question: re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", answer))).strip()
        for question, answer in found
    }


def check(name: str, page: str) -> None:
    """Every question is answered, with what the reader must find; the file is small."""
    answers = first_screen(page)
    assert tuple(answers) == QUESTIONS, f"{name}: {list(answers)}"
    for (question, answer), expected in zip(answers.items(), EXPECTED[name], strict=True):
        assert answer, f"{name}: {question} is not answered"
        assert expected.lower() in answer.lower(), f"{name}: {question} says {answer!r}, not {expected!r}"
    assert len(page.encode()) <= MOST_BYTES, f"{name} has {len(page.encode())} bytes"


def made(folder: Path, without: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    """Each report with its text, made in a folder; cells that name one of `without` are not run."""
    for cell, _ in run_page(PAGE, folder, without):
        for name in re.findall(r"([\w-]+)\.html", cell.source):
            yield name, (folder / f"{name}.html").read_text(encoding="utf-8")


if __name__ == "__main__":
    for name, page in made(Path(sys.argv[1]).resolve()):
        check(name, page)
        print(f"{name}.html: {len(page.encode()):,} bytes, five answers")
