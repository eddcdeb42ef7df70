"""What is measured. Each section prints one JSON document."""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from os import environ
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.rules.data import on_deciles, real_sets
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
PEER_MODULES = {"AIX360": "aix360", "RIPPER": "wittgenstein", "FIGS": "imodels"}


def available() -> list[str]:
    """Learners that this environment has."""
    return [name for name in SETTINGS if find_spec(PEER_MODULES.get(name, "sklearn"))]


def repeats(smoke: bool) -> int:
    """Splits or seeds: 20 unless `POLIDIFF_REPEATS` says otherwise."""
    return 1 if smoke else int(environ.get("POLIDIFF_REPEATS", "20"))


def start(smoke: bool) -> dict[str, Any]:
    """Seconds of the first and of the second fit in a new process, imports included in the first."""
    rng = np.random.default_rng(0)
    X = rng.random((2000, 6))
    y = ((X[:, 0] < 0.3) & (X[:, 1] > 0.5)).astype(int)
    times = []
    for _ in range(2):
        began = time.perf_counter()
        from polidiff.rules import RuleClassifier

        RuleClassifier().fit(X, y)
        times.append(time.perf_counter() - began)
    return {"first": times[0], "second": times[1], "extra": times[0] - times[1]}


def objective(smoke: bool) -> dict[str, Any]:
    """Same deciles, same costs: training objective, and time of AIX360 over ours."""
    from aix360.algorithms.rbm import BooleanRuleCG
    from sklearn.model_selection import train_test_split

    from polidiff.rules import RuleClassifier

    rows = []
    for name, (X, y) in real_sets().items():
        for cost in (0.01,) if smoke else (0.01, 0.003, 0.001):
            for seed in range(1 if smoke else max(1, repeats(smoke) // 5)):
                train, _ = train_test_split(np.arange(len(y)), test_size=0.3, random_state=seed, stratify=y)
                cells, binary = on_deciles(X.iloc[train].reset_index(drop=True))
                options = {"clause_cost": cost, "literal_cost": cost, "default_class": 0, "refine": False}
                seconds, model = _timed(RuleClassifier(**options).fit, cells, y[train])
                peer = BooleanRuleCG(lambda0=cost, lambda1=cost, CNF=False, silent=True)
                theirs, _ = _timed(peer.fit, binary, pd.Series(y[train]))
                chosen = peer.z.loc[:, peer.w > 0.5]
                covers = [binary.loc[:, chosen.index[chosen[k] > 0]].all(axis=1).to_numpy() for k in chosen.columns]
                other = hamming(covers, y[train] == 1) + cost * (len(covers) + int((chosen > 0).sum().sum()))
                rows.append(
                    {"set": name, "cost": cost, "seed": seed, "speed": theirs / seconds, "ours": model.objective_}
                    | {"theirs": other, "bound": model.bound_, "gap": model.gap_}
                )
    table = pd.DataFrame(rows)
    cells = table.groupby(["set", "cost"], as_index=False).agg(
        speed=("speed", "median"), ours=("ours", "mean"), theirs=("theirs", "mean"), gap=("gap", "max")
    )
    return {
        "cells": json.loads(cells.to_json(orient="records")),
        "speed": {"median": float(table["speed"].median()), "least": float(table["speed"].min())},
        "fits": len(table),
        "worse by over 1 %": int((table["ours"] > 1.01 * table["theirs"]).sum()),
        "worse": int((table["ours"] > table["theirs"] + 1e-9).sum()),
        "lower": int((table["ours"] < table["theirs"] - 1e-9).sum()),
    }


def hamming(covers: list[np.ndarray], positive: np.ndarray) -> float:
    """Missed positives and, for every clause, covered negatives, per row."""
    missed = positive & ~np.any(covers, axis=0) if covers else positive
    return float(missed.sum() + sum((cover & ~positive).sum() for cover in covers)) / len(positive)


def accuracy(smoke: bool) -> dict[str, Any]:
    """Test accuracy over random splits (70/30), setting chosen on training rows; smallest class against the rest."""
    from sklearn.model_selection import train_test_split

    rows = []
    for name, (X, y) in real_sets().items():
        for seed in range(repeats(smoke)):
            train, test = train_test_split(np.arange(len(y)), test_size=0.3, random_state=seed, stratify=y)
            for learner in available():
                seconds, model = _timed(tuned, learner, X.iloc[train].reset_index(drop=True), y[train], seed)
                right = float((model.predict(X.iloc[test]) == y[test]).mean())
                rows.append({"set": name, "learner": learner, "accuracy": right, "seconds": seconds})
                rows[-1] |= {"rules": model.rules, "literals": model.literals}
    return {"cells": _summary(pd.DataFrame(rows), ["set", "learner"]), "splits": repeats(smoke)}


def boxes(smoke: bool) -> dict[str, Any]:
    """Planted boxes: IoU with the truth on clean rows, boxes found with their exact features, errors of bounds."""
    rows = []
    for kind, n, d in KINDS:
        for seed in range(repeats(smoke)):
            X, y, fresh, truth, planted = plant(1000 if smoke else n, d, kind, seed)
            frame = pd.DataFrame({f"x{j}": pd.Series(X[:, j]).infer_objects() for j in range(d)})
            test = pd.DataFrame({f"x{j}": pd.Series(fresh[:, j]).infer_objects() for j in range(d)})
            base = {"kind": f"{kind.name} {n} x {d}", "seed": seed}
            rows.append(base | _own_boxes(frame, y, test, truth, planted, n))
            seconds, model = _timed(tuned, "tree", frame, y, seed)
            rows.append(base | {"learner": "tree", "iou": iou(model.predict(test), truth), "seconds": seconds})
            rows[-1] |= {"rules": model.rules, "literals": model.literals}
    return {"cells": _summary(pd.DataFrame(rows), ["kind", "learner"]), "seeds": repeats(smoke)}


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
        "learner": "polidiff",
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
    """A million rows: time over that of a tree with 256 leaves, and memory above the input."""
    from sklearn.tree import DecisionTreeClassifier

    from polidiff.rules import RuleClassifier

    n, rows = 20_000 if smoke else 1_000_000, []
    for d, seeds in ((8, 1 if smoke else 3), (32, 1)):
        for seed in range(seeds):
            X, y, fresh, truth, _ = plant(n, d, Kind("boxes"), seed)
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            seconds, model = _timed(RuleClassifier(random_state=0, default_class=0).fit, X, y)
            above = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 / X.nbytes
            row = {"d": d, "seed": seed, "iou": iou(model.predict(fresh), truth), "rules": len(model.decision_list_)}
            row |= {"memory over input": 1 + above}
            if d == 8:
                theirs, tree = _timed(DecisionTreeClassifier(max_leaf_nodes=256, random_state=0).fit, X, y)
                row |= {"time over tree": seconds / theirs, "tree iou": iou(tree.predict(fresh), truth)}
            rows.append(row)
    return {"rows": rows, "n": n}


def _timed(work: Callable[..., Any], *arguments: Any) -> tuple[float, Any]:
    began = time.perf_counter()
    made = work(*arguments)
    return time.perf_counter() - began, made


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

    names = ("numpy", "scikit-learn", "highspy", "aix360", "imodels", "wittgenstein")
    return {name: metadata.version(name) for name in names if find_spec(name.replace("scikit-learn", "sklearn"))}


if __name__ == "__main__":
    section = {"start": start, "objective": objective, "accuracy": accuracy, "boxes": boxes, "size": size}[sys.argv[1]]
    if sys.argv[1] == "objective" and not find_spec("aix360"):
        print(json.dumps({"left out": "AIX360 is not installed"}))
    else:
        print(json.dumps(section("--smoke" in sys.argv) | {"versions": _versions(), "threads": 1}))
