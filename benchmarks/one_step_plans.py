"""Do plans of a few rules from one-step logs reach exact policy trees, and do their promises hold?

Warfarin doses (three doses, 29 binary features, every dose's outcome known): plans of at most four rules against always
the medium dose, on two splits of three ways of logging, with the value on rows that were not logged; peers on the same
training rows; then logs drawn with replacement from the random kind, where all training rows are the truth.

The data set is not ours to ship: ``POLIDIFF_WARFARIN`` names its folder (from the experiments of the STreeD project),
and ``POLIDIFF_PEERS`` a Python that has pystreed and econml. Without them only a world of our own is run.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from polidiff import Log, improve

DOSES = ["low", "medium", "high"]
KINDS = ("random", "0.11", "0.06")
RULES = 4


def run(smoke: bool = False) -> dict[str, Any]:
    """All parts whose data and peers are there."""
    folder = os.environ.get("POLIDIFF_WARFARIN")
    result: dict[str, Any] = {"own world": promises(own_logs(2 if smoke else 40))}
    if folder and not smoke:
        result["warfarin"] = [split_values(Path(folder), kind, split) for kind in KINDS for split in (0, 1)]
        count = int(os.environ.get("POLIDIFF_LOGS", "100"))
        result["promises on bootstrap logs"] = promises(bootstrap_logs(Path(folder), count))
    return result


def read(path: Path) -> dict[str, np.ndarray]:
    """Dose, outcome, outcomes of every dose, and features."""
    table = np.loadtxt(path)
    return {"dose": table[:, 1].astype(int), "right": table[:, 2], "each": table[:, 8:11], "x": table[:, 11:]}


def as_log(part: dict[str, np.ndarray], chance: float | None) -> Log:
    """Rows as a log of one decision each."""
    names = [f"f{j}" for j in range(part["x"].shape[1])]
    frame = pl.DataFrame(dict(zip(names, part["x"].T, strict=True))).with_columns(
        dose=pl.Series(np.array(DOSES)[part["dose"]]), right=pl.Series(part["right"])
    )
    return Log(
        frame, state=names, action="dose", reward="right", return_range=(0, 1), actions=DOSES, probability=chance
    )


def split_values(folder: Path, kind: str, split: int) -> dict[str, Any]:
    """Mean outcome on test rows of every plan, and of the peers."""
    train, test = (read(folder / f"{part}_{kind}_{split}.csv") for part in ("train", "test"))
    begun = time.process_time()
    plans = improve(as_log(train, 1 / 3 if kind == "random" else None), "always:medium", max_rules=RULES)
    seconds = time.process_time() - begun
    value = {len(p.rules): float((p.policy.probabilities(test["x"]) * test["each"]).sum(1).mean()) for p in plans}
    return {
        "logging": kind,
        "split": split,
        "rules": {str(k): round(v, 4) for k, v in value.items()},
        "chosen": len(plans.best.rules),
        "constants": [round(float(v), 4) for v in test["each"].mean(axis=0)],
        "standard error": round((max(value.values()) * (1 - max(value.values())) / len(test["x"])) ** 0.5, 4),
        "seconds": round(seconds, 1),
        **peers(folder, kind, split),
    }


def peers(folder: Path, kind: str, split: int) -> dict[str, Any]:
    """Exact policy trees of depth 1 to 3 (STreeD) and DRPolicyTree (EconML), by a Python that has them."""
    other = os.environ.get("POLIDIFF_PEERS")
    if not other:
        return {}
    script = Path(__file__).with_name("one_step_peers.py")
    told = subprocess.run([other, str(script), str(folder), kind, str(split)], capture_output=True, text=True)
    return dict(json.loads(told.stdout)) if told.returncode == 0 else {"peers failed": told.stderr[-300:]}


def bootstrap_logs(folder: Path, count: int) -> list[tuple[dict[str, np.ndarray], dict[str, np.ndarray]]]:
    """Logs of the random kind: rows drawn with replacement, doses by lot; all rows are the truth."""
    whole = read(folder / "train_random_0.csv")
    logs = []
    for seed in range(count):
        rng = np.random.default_rng(seed)
        rows, dose = rng.integers(0, len(whole["x"]), len(whole["x"])), rng.integers(0, 3, len(whole["x"]))
        drawn = {"x": whole["x"][rows], "dose": dose, "right": whole["each"][rows, dose], "each": whole["each"][rows]}
        logs.append((drawn, whole))
    return logs


def own_logs(count: int) -> list[tuple[dict[str, np.ndarray], dict[str, np.ndarray]]]:
    """1,000 rows of eight features; two boxes in which another dose helps."""
    return [(own_rows(1000, seed), own_rows(50_000, 10_000)) for seed in range(count)]


def own_rows(count: int, seed: int) -> dict[str, np.ndarray]:
    """Rows with the chance that each dose is right."""
    rng = np.random.default_rng(seed)
    x, dose = np.round(rng.uniform(size=(count, 8)), 3), rng.integers(0, 3, count)
    low = np.where((x[:, 0] > 0.6) & (x[:, 1] < 0.5), 0.25, -0.15)
    high = np.where((x[:, 2] > 0.3) & (x[:, 3] > 0.5), 0.2, -0.1)
    each = 0.45 + 0.1 * x[:, [4]] + np.column_stack([low, np.zeros(count), high])
    return {"x": x, "dose": dose, "each": each, "right": (rng.random(count) < each[range(count), dose]).astype(float)}


def promises(logs: list[tuple[dict[str, np.ndarray], dict[str, np.ndarray]]]) -> dict[str, float]:
    """How often every plan gains at least the low end of its interval, and promises beside the truth."""
    kept, inside, promised, true, best = [], [], [], [], []
    for drawn, whole in logs:
        plans = improve(as_log(drawn, 1 / 3), "always:medium", max_rules=2)
        gains = [(p.gain, _gain(p, whole)) for p in plans.plans[1:]]
        kept.append(all(gain.low <= truth for gain, truth in gains))
        inside.append(all(gain.low <= truth <= gain.high for gain, truth in gains))
        promised += [gain.estimate for gain, _ in gains]
        true += [truth for _, truth in gains]
        best.append(_gain(plans.best, whole))
    share = {"logs": len(logs), "promise kept": np.mean(kept), "inside the interval": np.mean(inside)}
    means = {"mean promise": np.mean(promised), "mean truth": np.mean(true), "mean truth of the best": np.mean(best)}
    return {name: round(float(value), 4) for name, value in {**share, **means}.items()}


def _gain(plan: Any, whole: dict[str, np.ndarray]) -> float:
    chosen = (plan.policy.probabilities(whole["x"]) * whole["each"]).sum(axis=1)
    return float((chosen - whole["each"][:, 1]).mean())


if __name__ == "__main__":
    print(json.dumps(run("--smoke" in sys.argv), indent=1))
