"""`polidiff improve --max-rules` on a table, in a simulator and from a log."""

from __future__ import annotations

import json
import re

import numpy as np
import polars as pl
import pytest

from polidiff.domains import frozen_lake
from polidiff.worlds.log_converters import simulated_frame
from tests.frontier.rule_plans.conftest import random_grid, some_policy

LOG = """
[world.log]
path = "stays.parquet"
episode = "episode"
step = "step"
state = "state"
features = ["row", "column"]
action = "action"
reward = "score"
terminated = "terminated"
truncated = "truncated"
return_range = [-60, 60]

[policies]
current = "log"

[improve]
min_support = 0.05
"""


def test_a_table(polidiff, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("lake.npy", frozen_lake.current(8))
    lake = ("--world", "polidiff.domains.frozen_lake:world", "--current", "lake.npy")
    ran = polidiff("improve", *lake, "--max-rules", 2, "--patch", "best.json")
    assert ran.code == 0, ran.err
    assert "rules (changes)" in ran.out
    assert "column ≥ 7: right; otherwise, row ≥ 1: up" in ran.out
    assert len(json.loads((tmp_path / "best.json").read_text())["edits"]) > 0
    few = polidiff("improve", *lake, "--max-rules", 2, "--min-support", "1.5")
    assert few.code == 2
    assert "min_support must be a whole number of at least 1 (a count) or a share below 1; got 1.5" in few.err


@pytest.mark.slow
def test_a_simulator(polidiff, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    way = ("--world", "polidiff.domains.navigation:world", "--current", "polidiff.domains.navigation:current")
    ran = polidiff("improve", *way, "--max-rules", 1, "--json")
    assert ran.code == 0, ran.err
    told = json.loads(ran.out)
    assert told["unit"] == "rules"
    assert told["plans"][-1]["gain"]["low"] > 0
    assert len(told["plans"][-1]["rules"]) == 1


def test_a_log(polidiff, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    world = random_grid(3)
    frame = simulated_frame(world, some_policy(world, 3, mixed=True), 500, rng=np.random.default_rng(0))
    told = pl.DataFrame(np.asarray(world.features, dtype=float), schema=["row", "column"])
    told = told.with_columns(state=pl.Series(np.arange(world.n_states)))
    frame.join(told, on="state", how="left", maintain_order="left").rename({"return": "score"}).write_parquet(
        "stays.parquet"
    )
    (tmp_path / "study.toml").write_text(LOG)
    ran = polidiff("improve", "study.toml", "--max-rules", 2, "--report", "plans.html")
    assert ran.code == 0, ran.err
    assert "Gains over the current policy are from data that did not choose the plan, with 95 % intervals." in ran.out
    assert re.search(r"^ +2 +2 \([\d.]+\) .* \+[\d.]+ \[", ran.out, flags=re.MULTILINE)
    assert "The half that chose the plan of 2 rules says that it gains" in ran.out
    assert (tmp_path / "plans.html").stat().st_size > 10_000


def test_a_patch_names_no_group_that_the_page_leaves_out(polidiff, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng, rows = np.random.default_rng(77), 1_200
    village = np.arange(rows) < 40  # rows of four people
    offer = rng.choice(["no", "yes"], rows)
    helped = village & (offer == "yes")
    frame = {
        "person": np.where(village, np.arange(rows) % 4, rng.integers(4, 500, rows)),
        "region": np.where(village, "village", rng.choice(["A", "B"], rows)),
        "offer": offer,
        "bought": rng.random(rows) < 0.2 + 0.1 * (offer == "yes") + 0.6 * helped,
    }
    pl.DataFrame(frame).with_columns(pl.col("bought").cast(int)).write_csv("a.csv")
    columns = 'path = "a.csv"\nstate = ["region"]\naction = "offer"\nreward = "bought"\ngroup = "person"'
    (tmp_path / "s.toml").write_text(f'[world.log]\n{columns}\n[policies]\ncurrent = "log"\n')
    asked = ("improve", "s.toml", "--max-rules", 2, "--freeze", "region = A", "--patch", "best.json")
    assert "village" in polidiff(*asked, "--min-group", 1).out
    assert "village" in (tmp_path / "best.json").read_text()
    assert "village" not in polidiff(*asked).out
    assert "village" not in (tmp_path / "best.json").read_text()
