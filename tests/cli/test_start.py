"""What starting costs, what help says, what completes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from polidiff.cli.main import COMMANDS

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize("arguments", [["--help"], ["explain", "--help"], ["improve", "--help"], ["--version"]])
def test_help_imports_nothing_heavy(arguments):
    code = (
        "import sys\nfrom polidiff.cli.main import run\n"
        f"run({arguments!r})\n"
        "heavy = {'numpy', 'scipy', 'polars', 'sklearn', 'altair', 'jinja2', 'rich'} & set(sys.modules)\n"
        "print('heavy:', sorted(heavy))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("heavy: []\n")


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_help_reads_as_written(polidiff, name):
    ran = polidiff(*([name] if name else []), "--help") if name != "ask" else polidiff("ask", "--help")
    assert ran.code == 0
    assert ran.out == (GOLDEN / f"help{'-' if name else ''}{name}.txt").read_text(encoding="utf-8")


def test_every_command_shows_an_example(polidiff):
    for name in COMMANDS:
        assert f"polidiff {name}" in polidiff(name, "--help").out.split("Examples:")[1]


def test_the_shell_completes_commands_and_flags():
    def complete(words: str, at: int) -> str:
        env = {"_POLIDIFF_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(at), "PATH": ""}
        done = subprocess.run([sys.executable, "-c", "from polidiff.cli.main import main; main()"], env=env,
                              capture_output=True, text=True, check=False)  # fmt: skip
        return done.stdout

    assert "plain,explain" in complete("polidiff exp", 1)
    assert "plain,--proposed" in complete("polidiff explain --prop", 2)
