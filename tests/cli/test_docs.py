"""What the documentation says about the study file and the commands is true."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from polidiff.cli.main import COMMANDS
from polidiff.cli.study import NEEDED, OUTCOME, SECTIONS, WORLDS, Place, check_study

DOCS = Path(__file__).parents[2] / "docs"


def test_the_example_of_the_study_page_is_a_study():
    text = re.search(r"```toml\n(.*?)```", (DOCS / "study_file.md").read_text(), re.S)[1]
    check_study(tomllib.loads(text), Place("docs", text), complete=True)


def test_the_study_page_lists_every_key():
    page = (DOCS / "study_file.md").read_text()
    rows = dict(re.findall(r"^\| `\[+([a-z.]+)\]+` \| (.*) \|$", page, re.M))
    known = {f"world.{kind}": keys for kind, keys in WORLDS.items()} | SECTIONS | {"outcomes": OUTCOME}
    assert set(rows) == set(known)
    for section, keys in known.items():
        told = re.findall(r"`([a-z_]+)`|`([a-z_]+) =", rows[section])
        assert set(keys) <= {one or two for one, two in told}, section
    assert set(NEEDED) == set(WORLDS)


def test_the_command_page_shows_every_command():
    page = (DOCS / "command_line.md").read_text()
    assert re.findall(r"^polidiff ([a-z]+) [\[A-Z]|^polidiff (ask|patch) ", page.split("```")[1], re.M)
    for name in COMMANDS:
        assert f"polidiff {name} " in page.split("```")[1]
