"""Every kind of world answers what the protocol asks."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from polidiff import Log, Simulator, TabularMDP
from polidiff.domains import chain, navigation
from polidiff.worlds.protocol import World


def small_log() -> Log:
    frame = pl.DataFrame({"s": [0, 1], "a": [1, 0], "r": [0.0, 1.0], "e": [7, 7], "end": [False, True]})
    return Log(frame, state="s", action="a", reward="r", episode="e", terminated="end")


@pytest.mark.parametrize("world", [chain.world(), navigation.world(), small_log()], ids=["table", "simulator", "log"])
def test_every_kind_of_world_answers_the_protocol(world: TabularMDP | Simulator | Log) -> None:
    assert isinstance(world, World)
    assert len(world.actions) == world.n_actions
    starts = np.array([0]) if world.kind != "simulator" else world.stepper(1, (0,)).states
    assert world.features_of(starts).shape == (1, len(world.feature_names))
