"""Everything is computed once for all tests of the reproduction."""

from __future__ import annotations

import pytest

from polidiff.cli.main import run
from polidiff.paper import runs as running
from polidiff.paper.values import checked_values


@pytest.fixture(scope="session")
def runs():
    return running.all_runs()


@pytest.fixture(scope="session")
def values(runs):
    return checked_values(runs)


@pytest.fixture(scope="session")
def command(runs):
    """The command, with what is already computed."""

    def called(*arguments):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(running, "all_runs", lambda seed: runs)
            return run(["paper", *map(str, arguments)])

    return called


@pytest.fixture(scope="session")
def folder(command, tmp_path_factory):
    made = tmp_path_factory.mktemp("paper") / "out"
    assert command("--out", made, "--quiet") == 0
    return made
