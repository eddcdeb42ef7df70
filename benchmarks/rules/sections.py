"""What is measured. Each section prints one JSON document."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from os import environ
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.rules import start
from benchmarks.rules.data import on_deciles, real_sets
from benchmarks.rules.kept import each
from benchmarks.rules.peers import SETTINGS, tuned
from benchmarks.rules.planted import Box, Kind, plant

KINDS = (
    (Kind("boxes"), 10_000, 8),
    (Kind("boxes"), 10_000, 32),
    (Kind("boxes"), 1_000, 8),
    (Kind("thin", volumes=(0.02, 0.02, 0.02)), 20_000, 8),
    (Kind("correlated", correlation=0.5), 20_000, 8),
    (Kind("rare", volumes=(0.009, 0.03, 0.05, 0.08), boxes=1), 20_000, 8),
    (Kind("categorical", categories=3), 10_000, 8),
)
FIRST = 100  # split or seed; lower ones were used while choosing settings
PEER_MODULES = {"AIX360": "aix360", "RIPPER": "wittgenstein", "FIGS": "imodels"}


def available() -> list[str]:
    """Learners that this environment has."""
    return [name for name in SETTINGS if find_spec(PEER_MODULES.get(name, "sklearn"))]


def seeds(smoke: bool) -> range:
    """Splits or seeds: 20 unless `POLIDIFF_REPEATS` says otherwise, none of them used to choose settings."""
    return range(FIRST, FIRST + (1 if smoke else int(environ.get("POLIDIFF_REPEATS", "20"))))


def objective(smoke: bool) -> dict[str, Any]:
    """Same deciles, same costs: training objective, and CPU time of AIX360 over ours."""
    sets = real_sets()
    costs = (0.01,) if smoke else (0.01, 0.003, 0.001)
    keys = [{"seed": seed, "set": name, "cost": cost} for seed in seeds(smoke) for name in sets for cost in costs]
    _objectives({**keys[0], "sets": sets})  # imports and caches of both sides, not measured
    table = pd.DataFrame(each("objective", keys, lambda key: _objectives({**key, "sets": sets})))
    table["ratio"] = table["ours"] / table["theirs"]
    cells = table.groupby(["set", "cost"], as_index=False).agg(
        speed=("speed", "median"),
        slowest=("speed", "min"),
        ours=("ours", "mean"),
        theirs=("theirs", "mean"),
        highest=("ratio", "max"),
        gap=("gap", "max"),
    )
    return {
        "cells": json.loads(cells.to_json(orient="records")),
        "speed": {str(q): float(table["speed"].quantile(q)) for q in (0.0, 0.1, 0.5, 0.9)},
        "fits": len(table),
        "splits": [int(seed) for seed in seeds(smoke)],
        "worse by over 1 %": int((table["ratio"] > 1.01).sum()),
        "worse": int((table["ours"] > table["theirs"] + 1e-9).sum()),
        "lower": int((table["ours"] < table["theirs"] - 1e-9).sum()),
    }


def _objectives(key: dict[str, Any]) -> dict[str, Any]:
    from aix360.algorithms.rbm import BooleanRuleCG

    from polidiff.rules import RuleClassifier

    cost, (X, y) = key["cost"], key["sets"][key["set"]]
    train, _ = split(y, key["seed"])
    cells, binary = on_deciles(X.iloc[train].reset_index(drop=True))
    options = {"clause_cost": cost, "literal_cost": cost, "default_class": 0, "refine": False}
    seconds, model = _timed(RuleClassifier(**options).fit, cells, y[train])
    peer = BooleanRuleCG(lambda0=cost, lambda1=cost, CNF=False, silent=True)
    theirs, _ = _timed(peer.fit, binary, pd.Series(y[train]))
    chosen = peer.z.loc[:, peer.w > 0.5]
    covers = [binary.loc[:, chosen.index[chosen[k] > 0]].all(axis=1).to_numpy() for k in chosen.columns]
    other = hamming(covers, y[train] == 1) + cost * (len(covers) + int((chosen > 0).sum().sum()))
    found = {"speed": theirs / seconds, "seconds": seconds, "ours": model.objective_, "theirs": other}
    return found | {"bound": model.bound_, "gap": model.gap_}


def split(y: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows to learn from (70 %) and to judge on."""
    from sklearn.model_selection import train_test_split

    train, test = train_test_split(np.arange(len(y)), test_size=0.3, random_state=seed, stratify=y)
    return train, test


def hamming(covers: list[np.ndarray], positive: np.ndarray) -> float:
    """Missed positives and, for every clause, covered negatives, per row."""
    missed = positive & ~np.any(covers, axis=0) if covers else positive
    return float(missed.sum() + sum((cover & ~positive).sum() for cover in covers)) / len(positive)


def accuracy(smoke: bool) -> dict[str, Any]:
    """Test accuracy over random splits (70/30), setting chosen on training rows; smallest class against the rest."""
    sets = real_sets()

    def judged(key: dict[str, Any]) -> dict[str, Any]:
        X, y = sets[key["set"]]
        train, test = split(y, key["seed"])
        seconds, model = _timed(tuned, key["learner"], X.iloc[train].reset_index(drop=True), y[train], key["seed"])
        right = float((model.predict(X.iloc[test]) == y[test]).mean())
        return {"accuracy": right, "seconds": seconds, "rules": model.rules, "literals": model.literals}

    keys = [
        {"set": name, "seed": seed, "learner": learner}
        for seed in seeds(smoke)
        for name in sets
        for learner in available()
    ]
    table = pd.DataFrame(each("accuracy", keys, judged))
    means = table.groupby(["learner", "set"])["accuracy"].mean().groupby("learner").mean()
    wide = table.pivot_table(index=["set", "seed"], columns="learner", values="accuracy")
    ahead = {name: _mean_and_error((wide["polidiff"] - wide[name]).to_numpy()) for name in wide if name != "polidiff"}
    return {
        "cells": _summary(table, ["set", "learner"]),
        "mean over sets": {name: round(float(value), 4) for name, value in means.items()},
        "polidiff ahead by (mean, standard error over fits)": ahead,
        "splits": [int(seed) for seed in seeds(smoke)],
    }


def _mean_and_error(differences: np.ndarray) -> list[float]:
    error = differences.std(ddof=1) / np.sqrt(len(differences)) if len(differences) > 1 else 0.0
    return [round(float(differences.mean()), 4), round(float(error), 4)]


def boxes(smoke: bool) -> dict[str, Any]:
    """Planted boxes: IoU with the truth on clean rows, boxes found with their exact features, errors of bounds."""
    kinds = {f"{kind.name} {n} x {d}": (kind, 1000 if smoke else n, d) for kind, n, d in KINDS}
    keys = [
        {"kind": name, "seed": seed, "learner": learner}
        for seed in seeds(smoke)
        for name in kinds
        for learner in ("polidiff", "tree")
    ]
    table = pd.DataFrame(each("boxes", keys, lambda key: _boxes_found(key, *kinds[key["kind"]])))
    return {"cells": _summary(table, ["kind", "learner"]), "seeds": [int(seed) for seed in seeds(smoke)]}


def _boxes_found(key: dict[str, Any], kind: Kind, n: int, d: int) -> dict[str, Any]:
    X, y, fresh, truth, planted = plant(n, d, kind, key["seed"])
    frame, test = (pd.DataFrame({f"x{j}": pd.Series(Z[:, j]).infer_objects() for j in range(d)}) for Z in (X, fresh))
    if key["learner"] == "polidiff":
        return _own_boxes(frame, y, test, truth, planted, n)
    seconds, model = _timed(tuned, "tree", frame, y, key["seed"])
    return {
        "iou": iou(model.predict(test), truth),
        "seconds": seconds,
        "rules": model.rules,
        "literals": model.literals,
    }


def _own_boxes(
    frame: pd.DataFrame, y: np.ndarray, test: pd.DataFrame, truth: np.ndarray, planted: tuple[Box, ...], n: int
) -> dict[str, Any]:
    from polidiff.rules import RuleClassifier

    seconds, model = _timed(RuleClassifier(default_class=0, random_state=0).fit, frame, y)
    found, errors = 0, []
    for box in planted:
        same = [r for r in model.rules_[box.label] if {c.column for c in r.conditions} == {*box.bounds, *box.values}]
        gaps = [_bound_errors(rule, box) for rule in same]
        if gaps:
            found += 1
            errors += min(gaps, key=max)
    return {
        "iou": iou(model.predict(test), truth),
        "seconds": seconds,
        "rules": len(model.decision_list_),
        "literals": sum(rule.literals for rule, _ in model.decision_list_),
        "found": found / len(planted),
        "bounds within 20/n": float(np.mean(np.array(errors) <= 20 / n)) if errors else 0.0,
    }


def _bound_errors(rule: Any, box: Box) -> list[float]:
    pairs = [(c, box.bounds[c.column]) for c in rule.conditions if c.column in box.bounds]
    errors = [abs(a - b) for c, (low, high) in pairs for a, b in ((c.low, low), (c.high, high))]
    wrong = [c for c in rule.conditions if c.column in box.values and set(c.values or ()) != set(box.values[c.column])]
    return [*errors, *[float("inf")] * len(wrong)]


def iou(told: np.ndarray, truth: np.ndarray) -> float:
    """Mean over the classes but 0 of rows in both over rows in either."""
    labels = [label for label in np.unique(truth) if label]
    shares = [((told == c) & (truth == c)).sum() / ((told == c) | (truth == c)).sum() for c in labels]
    return float(np.mean(shares))


def size(smoke: bool) -> dict[str, Any]:
    """A million rows: time over that of a tree with 256 leaves, and memory; each fit in a process of its own."""
    n, rows = 20_000 if smoke else 1_000_000, []
    for d, count in ((8, 1 if smoke else 3), (32, 1)):
        for seed in range(FIRST, FIRST + count):
            with tempfile.TemporaryDirectory() as folder:
                X, y, fresh, truth, _ = plant(n, d, Kind("boxes"), seed)
                for name, array in {"X": X, "y": y, "fresh": fresh, "truth": truth}.items():
                    np.save(f"{folder}/{name}.npy", array)
                command = [sys.executable, "-W", "ignore", "-m", "benchmarks.rules.large", folder, str(int(d == 8))]
                done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
                rows.append({"d": d, "seed": seed} | json.loads(done.stdout.splitlines()[-1]))
    return {"rows": rows, "n": n}


def _timed(work: Callable[..., Any], *arguments: Any) -> tuple[float, Any]:
    """CPU seconds, which other work on the machine disturbs less than the clock on the wall, and what was made."""
    began = time.process_time()
    made = work(*arguments)
    return time.process_time() - began, made


def _summary(table: pd.DataFrame, by: list[str]) -> list[dict[str, Any]]:
    """Mean and spread (standard deviation over splits or seeds) of every figure."""
    fastest = table.groupby(by[0])["seconds"].transform("min")
    table = table.assign(time=table["seconds"] / fastest).drop(columns=["seconds", "seed"], errors="ignore")
    cells = []
    for key, part in table.groupby(by):
        figures = part.drop(columns=by)
        cell: dict[str, Any] = dict(zip(by, key, strict=True))
        for name in figures.columns:
            if figures[name].notna().any():
                cell[name] = [round(float(figures[name].mean()), 4), round(float(figures[name].std(ddof=0)), 4)]
        cells.append(cell)
    return cells


def _versions() -> dict[str, str]:
    from importlib import metadata

    names = ("numpy", "scikit-learn", "numba", "highspy", "aix360", "imodels", "wittgenstein")
    return {name: metadata.version(name) for name in names if find_spec(name.replace("scikit-learn", "sklearn"))}


if __name__ == "__main__":
    section = {"start": start.measure, "objective": objective, "accuracy": accuracy, "boxes": boxes, "size": size}[
        sys.argv[1]
    ]
    if sys.argv[1] == "objective" and not find_spec("aix360"):
        print(json.dumps({"left out": "AIX360 is not installed"}))
    else:
        print(json.dumps(section("--smoke" in sys.argv) | {"versions": _versions(), "threads": 1}))
