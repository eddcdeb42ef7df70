"""The runner of benchmarks finds them and keeps what they return with its circumstances."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

import benchmarks.__main__ as runner


def test_it_finds_modules_and_packages_that_run():
    assert {"rollouts", "rules"} <= set(runner.benchmarks())


@pytest.fixture
def one(monkeypatch, tmp_path):
    asked = []
    module = SimpleNamespace(run=lambda smoke: asked.append(smoke) or {"ratio": 1.5})
    monkeypatch.setattr(runner, "benchmarks", lambda: {"one": module})
    monkeypatch.setattr(runner, "HERE", tmp_path)
    return SimpleNamespace(asked=asked, module=module, target=tmp_path / "results" / "one.json")


def test_results_are_kept_with_versions_machine_and_seed(one):
    assert runner.main(["one"]) == 0
    kept = json.loads(one.target.read_text())
    assert kept["ratio"] == 1.5
    assert kept["seed"] == 0
    assert {"python", "numpy"} <= set(kept["versions"])
    assert kept["machine"]["cores"] >= 1
    assert one.asked == [False]


def test_a_smoke_run_keeps_nothing(one):
    assert runner.main(["--smoke"]) == 0
    assert one.asked == [True]
    assert not one.target.exists()


def test_a_failure_is_told_and_the_exit_code_says_so(one, capsys):
    one.module.run = lambda smoke: 1 / 0
    assert runner.main([]) == 1
    assert "failed: one" in capsys.readouterr().err
    assert not one.target.exists()


def test_an_unknown_name_is_answered_with_the_known_ones(one, capsys):
    with pytest.raises(SystemExit) as caught:
        runner.main(["two"])
    assert caught.value.code == 2
    assert "unknown benchmark 'two'; there are one" in capsys.readouterr().err


def test_roll_outs_record_what_the_bare_loops_record():
    """A benchmark means nothing if the two sides do different work."""
    import numpy as np

    from benchmarks import rollouts
    from polidiff import Simulator, as_policy
    from polidiff.worlds.rollouts import roll_out

    model = rollouts.Walk()
    world = Simulator(model)
    policy = as_policy(rollouts.towards_the_middle, n_actions=2)
    ours = roll_out(world, policy, episodes=200, seed=(rollouts.SEED,), record=True)
    bare = rollouts.loop_keeping_places(model, rollouts.towards_the_middle, 200, [], world.horizon)
    assert ours.totals.shape == bare.totals.shape
    assert [part.shape[1:] for part in bare.visits] == [
        part.shape[1:] for part in (ours.visits.episode, ours.visits.step, ours.visits.states, ours.visits.actions)
    ]
    assert (np.bincount(bare.visits[0], minlength=200) == bare.lengths).all()
    assert ours.lengths.mean() == pytest.approx(bare.lengths.mean(), rel=0.2)


def test_the_frontier_table_has_a_line_per_result_and_tells_ratio_and_points():
    from benchmarks.evidence.frontier import questions

    swept = {
        "case": "20 x 2", "seed": 7, "plans": 16, "gap": 0.0, "seconds": 0.004, "nodes": 26, "ratio": 650.4,
        "spread of seconds": [0.003, 0.005], "sweep seconds": 2.6, "sweep end": "time", "same points": False,
        "points nearer than the sweep's step": 0,
    }  # fmt: skip
    first = {"case": "20 x 2", "cold": 1.25, "warm": 0.05, "more": 1.2}
    rows = str(questions({"whole frontier against the sweep": [swept], "first call": [first]})).splitlines()
    assert rows[2:] == [
        "| whole frontier, proven | 20 x 2 (seed 7) | 16 plans, gap 0.00%, 4 ms, 26 nodes (3 ms to 5 ms) "
        "| HiGHS sweep 2.6 s, not the same points (sweep: time): 650× |",
        "| first call of a process (wall time) | 20 x 2 | 1.2 s with nothing compiled, 50 ms with kernels on disk |  |",
    ]
