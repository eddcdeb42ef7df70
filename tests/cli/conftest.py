"""A small table on disk, its policies, a study, and a way to run commands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from polidiff.cli.main import run
from polidiff.domains import chain


@dataclass(frozen=True)
class Ran:
    """What a command left behind."""

    code: int
    out: str
    err: str


@pytest.fixture
def polidiff(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Runs a command in this process."""

    def go(*arguments: object) -> Ran:
        capsys.readouterr()
        code = run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return go


STUDY = """
title = "Detours on the chain"

[world.table]
path = "chain.npz"
actions = ["stay on the way", "take the detour"]
include_return = false

[policies]
current = "current.npy"
proposed = "proposed.npy"

[[outcomes]]
name = "trajectory length"
constant = 1.0
prefer = "less"
more = "a longer trajectory"

[[outcomes]]
name = "desired visits"
array = "desired"
prefer = "more"

[options]
seed = 3
"""


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """The chain as files and a study."""
    world = chain.world()
    moves = np.asarray(world.transitions.todense()).reshape(12, 2, 12)
    desired = np.isin(np.arange(12), chain.DESIRED).astype(float)[:, None] * np.ones((1, 2))
    np.savez(
        tmp_path / "chain.npz",
        transitions=moves,
        rewards=world.rewards,
        initial=world.initial,
        absorbing=world.absorbing,
        desired=desired,
    )
    np.save(tmp_path / "current.npy", chain.current())
    np.save(tmp_path / "proposed.npy", chain.proposed())
    path = tmp_path / "study.toml"
    path.write_text(STUDY, encoding="utf-8")
    return path
