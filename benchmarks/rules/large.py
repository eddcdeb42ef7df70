"""One fit on rows read from a folder, in a process of its own: time, memory and what it found, as JSON.

Memory is the highest resident size of this process (`VmHWM`) less what it was with the rows loaded and after a small
fit had loaded all code, over the size of the rows; 1 is added for the rows themselves.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from benchmarks.rules.sections import _timed, iou
from polidiff.rules import RuleClassifier


def highest() -> int:
    """Bytes this process held at most."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    small = np.random.default_rng(0).random((2000, 4))
    RuleClassifier(random_state=0).fit(small, small[:, 0] < 0.3)
    X, y = np.load(folder / "X.npy"), np.load(folder / "y.npy")
    before = highest()
    seconds, model = _timed(RuleClassifier(random_state=0, default_class=0).fit, X, y)
    above = highest() - before
    fresh, truth = np.load(folder / "fresh.npy"), np.load(folder / "truth.npy")
    row = {"iou": iou(model.predict(fresh), truth), "rules": len(model.decision_list_), "seconds": seconds}
    row |= {"memory over input": 1 + above / X.nbytes, "input in MB": X.nbytes / 1e6}
    if int(sys.argv[2]):
        from sklearn.tree import DecisionTreeClassifier

        theirs, tree = _timed(DecisionTreeClassifier(max_leaf_nodes=256, random_state=0).fit, X, y)
        row |= {"time over tree": seconds / theirs, "tree iou": iou(tree.predict(fresh), truth)}
    print(json.dumps(row))
