"""Peers of plans from one-step logs, for a Python that has pystreed and econml: one_step_peers.py DIR KIND SPLIT."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np


def main(folder: Path, kind: str, split: str) -> None:
    """Values on test rows and seconds of CPU, as JSON."""
    train, test = (np.loadtxt(folder / f"{part}_{kind}_{split}.csv") for part in ("train", "test"))
    x, y, every = train[:, 11:].astype(int), train[:, 1:11].copy(), test[:, 8:11]
    if kind == "random":
        y[:, 2] = 1 / 3  # doses were drawn by lot; the column of the file is an estimate
    told: dict[str, object] = {}
    for name, fit in (("STreeD", streed), ("EconML DRPolicyTree", econml)):
        try:
            told[name] = {str(depth): fit(x, y, test[:, 11:].astype(int), every, depth) for depth in (1, 2, 3)}
        except ImportError:
            continue
    print(json.dumps(told))


def streed(x: np.ndarray, y: np.ndarray, new: np.ndarray, every: np.ndarray, depth: int) -> dict[str, float]:
    """The exact tree of a depth on doubly robust scores of the file's own nuisances."""
    from pystreed import STreeDPrescriptivePolicyGenerator

    begun = time.process_time()
    model = STreeDPrescriptivePolicyGenerator(max_depth=depth, teacher_method="DR").fit(x, y)
    seconds = time.process_time() - begun
    return _value(np.asarray(model.predict(new)).astype(int), every, seconds)


def econml(x: np.ndarray, y: np.ndarray, new: np.ndarray, every: np.ndarray, depth: int) -> dict[str, float]:
    """A greedy tree of a depth on EconML's own doubly robust scores."""
    from econml.policy import DRPolicyTree

    begun = time.process_time()
    model = DRPolicyTree(max_depth=depth, min_samples_leaf=10, random_state=0)
    model.fit(y[:, 1], y[:, 0].astype(int), X=x.astype(float))
    seconds = time.process_time() - begun
    return _value(np.asarray(model.predict(new.astype(float))).astype(int), every, seconds)


def _value(dose: np.ndarray, every: np.ndarray, seconds: float) -> dict[str, float]:
    return {"value": round(float(every[np.arange(len(dose)), dose].mean()), 4), "seconds": round(seconds, 2)}


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
