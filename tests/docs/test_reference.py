"""The reference says what the code declares: made pages are up to date, and no public name is missing."""

from __future__ import annotations

import importlib
import re

import pytest

import polidiff
from tests.docs import reference
from tests.docs.pages import ROOT

FOLDER = ROOT / "docs" / "reference"


@pytest.mark.parametrize("name", sorted(reference.pages()))
def test_a_made_page_is_up_to_date(name):
    written, made = (FOLDER / name).read_text(encoding="utf-8"), reference.pages()[name]
    assert written.split() == made.split(), "run python -m tests.docs.reference docs/reference"


def described() -> list[str]:
    """Paths that the pages hand to mkdocstrings."""
    text = "\n".join(page.read_text(encoding="utf-8") for page in sorted(FOLDER.glob("*.md")))
    return re.findall(r"^::: (\S+)$", text, flags=re.MULTILINE)


@pytest.mark.parametrize("path", described())
def test_what_the_reference_describes_exists_and_has_a_docstring(path):
    module, name = path.rsplit(".", 1)
    assert getattr(importlib.import_module(module), name).__doc__


@pytest.mark.parametrize("name", sorted(set(polidiff.__all__) - {"__version__"}))
def test_every_public_name_has_an_example_that_runs(name):
    assert ">>> " in getattr(polidiff, name).__doc__


def test_every_public_name_is_described():
    assert set(polidiff.__all__) - {"__version__"} <= {path.rsplit(".", 1)[1] for path in described()}
