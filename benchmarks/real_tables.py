"""From a raw table to a first answer: what does `init` find, how long does it take, and are the numbers right?

Every table goes through ``polidiff init TABLE -o study.toml --yes`` and ``polidiff explain study.toml`` as it lies on
disk. What the decision, its outcome and the columns from afterwards are was written down here before by reading each
table's description. The effect of giving everybody the proposed action is then computed once more by hand from the
columns that the study names: difference in means, inverse propensities (logit), and both with a linear outcome model
(AIPW), none of it with code of ours.

The tables are not ours to ship: ``POLIDIFF_TABLES`` names a folder with those of `TABLES` as CSV (the packages that
hold them stand beside each). Without it only a table of our own is run.
"""

from __future__ import annotations

import io
import os
import tempfile
import time
import tomllib
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from polidiff.cli.main import run as polidiff
from polidiff.records.codec import load_json
from polidiff.worlds.log_source import lazy_frame
from polidiff.worlds.messy_tables import HOLDS

FOLDS, LEAST_CHANCE = 5, 0.01


@dataclass(frozen=True)
class Known:
    """What a table holds, as its description says."""

    source: str
    action: str
    outcome: str
    after: tuple[str, ...] = ()  # known only after the decision, or copies of the action
    flags: tuple[str, ...] = ()  # that a person has to give, because no name tells


TABLES = {
    "indo_rct": Known("medicaldata", "rx", "outcome", ("bleed",)),
    "thornton_hiv": Known("causaldata", "any", "got", ("tinc",)),
    "lalonde": Known("MatchIt", "treat", "re78"),
    "open_bandit": Known("obp", "item_id", "click"),
    "actg175": Known("lifelines", "arms", "cens", ("treat", "offtrt", "cd420", "cd496", "cd820", "r", "days")),
    "anorexia": Known("MASS", "Treat", "Postwt"),
    "btheb": Known("HSAUR", "treatment", "bdi.8m", ("bdi.2m", "bdi.4m", "bdi.6m")),
    "colon": Known("survival", "rx", "status", ("time",)),
    "epil": Known("MASS", "trt", "y"),
    "respiratory": Known("HSAUR", "treat", "outcome"),
    "veteran": Known("survival", "trt", "status", ("time",)),
    "jtrain2": Known("wooldridge", "train", "re78", ("unem78", "lre78", "mostrn")),
    "star": Known("Ecdat", "classk", "tmathssk", ("treadssk",)),
    "gbsg2": Known("lifelines", "horTh", "cens", ("time",), ("--action", "horTh")),
    "401ksubs": Known("wooldridge", "e401k", "nettfa", ("p401k", "pira"), ("--action", "e401k", "--reward", "nettfa")),
    "social_insure": Known("causaldata", "intensive", "takeup_survey", (), ("--action", "intensive")),
    "bacteria": Known("MASS", "trt", "y", ("ap",)),
    "pbc": Known("survival", "trt", "status", ("time",)),
    "polyps": Known("HSAUR", "treat", "number"),
    "cgd": Known("survival", "treat", "status", ("tstop",)),
    "rats": Known("survival", "rx", "status", ("time",)),
    "gehan": Known("MASS", "treat", "cens", ("time",)),
    "bladder": Known("survival", "rx", "event", ("stop",)),
    "ecdat_treatment": Known("Ecdat", "treat", "re78"),
}


def run(smoke: bool = False) -> dict[str, Any]:
    """Every table that is there."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        trial(place / "trial.csv")
        own = measured(place / "trial.csv", Known("our own", "arm", "recovered", ("bill_after",)), place)
        given = os.environ.get("POLIDIFF_TABLES")
        names = [name for name in TABLES if given and (Path(given) / f"{name}.csv").exists()]
        chosen = os.environ.get("POLIDIFF_ONLY", ",".join(names)).split(",")
        found = [measured(Path(str(given)) / f"{n}.csv", TABLES[n], place) for n in names if n in chosen and not smoke]
    return {"own": own, "tables": found}


def trial(path: Path) -> None:
    """A trial of our own, as people have it."""
    rng, n = np.random.default_rng(0), 800
    arm, age = rng.choice(["placebo", "drug"], n), rng.integers(20, 80, n)
    recovered = rng.random(n) < 0.4 + 0.2 * (arm == "drug") * (age < 60)
    bill = rng.normal(100, 10, n) + 30 * (arm == "drug")
    columns = {"patient": np.arange(n), "age": age, "smoker": rng.integers(0, 2, n), "weight": rng.normal(70, 9, n)}
    table = pl.DataFrame({**columns, "arm": arm, "recovered": recovered.astype(int), "bill_after": bill})
    table.write_csv(path)


def measured(path: Path, known: Known, folder: Path) -> dict[str, Any]:
    """What init found in a table, how long both commands took, and the effect beside numbers made by hand."""
    study, result = folder / f"{path.stem}.toml", folder / f"{path.stem}.json"
    begin, begin_wall = time.process_time(), time.perf_counter()
    written = _quietly(["init", str(path), "-o", str(study), "--yes", "--force", *known.flags])
    drafted = time.process_time()
    row: dict[str, Any] = {"table": path.stem, "from": known.source, "flags": len(known.flags) // 2}
    if written != 0:
        return {**row, "init": f"exit {written}"}
    code = _quietly(["explain", str(study), "-q", "-o", str(result)])
    row |= {"explain": code, "init s": drafted - begin, "explain s": time.process_time() - drafted}
    row |= {"minutes": (time.perf_counter() - begin_wall) / 60}
    settings = tomllib.loads(study.read_text(encoding="utf-8"))
    log = settings["world"]["log"]
    outcome = log.get("reward") or settings["outcomes"][0]["column"]
    state = [log["state"]] if isinstance(log["state"], str) else log["state"]
    row |= {
        "action found": log["action"] == known.action,
        "outcome found": outcome.partition(HOLDS)[0] == known.outcome,
        "from afterwards in the state": [name for name in state if name in known.after],
        "outcome": outcome,
    }
    if code == 0:
        row |= effects(path, log, outcome, settings["policies"]["proposed"], load_json(result))
    return row


def _quietly(arguments: list[str]) -> int:
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        return int(polidiff(arguments))


def effects(path: Path, log: dict[str, Any], outcome: str, proposed: str, told: Any) -> dict[str, Any]:
    """The difference that was told, and three by hand."""
    verdict = told.verdicts[0].difference
    table = lazy_frame(str(path)).collect()
    taken = table[log["action"]]
    action = (taken.cast(pl.UInt8) if taken.dtype == pl.Boolean else taken).cast(pl.String).str.replace(r"\.0$", "")
    chosen = (action == proposed.removeprefix("always:")).fill_null(False).to_numpy()
    column, _, value = outcome.partition(HOLDS)
    paid = _numbers(table[column] == value if value else table[column])
    state = [log["state"]] if isinstance(log["state"], str) else log["state"]
    there = action.is_not_null().to_numpy() & np.isfinite(paid)
    x = np.column_stack([_columns(table[name]) for name in state])[there]
    chosen, paid = chosen[there], paid[there]
    by_hand = {"mean": paid[chosen].mean() - paid.mean(), **weighted(x, chosen, paid)}
    said = {"told": verdict.estimate, "low": verdict.low, "high": verdict.high}
    return {"rows": int(there.sum()), **said, **{name: float(value) for name, value in by_hand.items()}}


def _numbers(series: pl.Series) -> np.ndarray:
    if series.dtype == pl.String:
        first = series.str.replace(r"^([01])_.*$", "$1").str.to_lowercase()
        yes = first.is_in(["1", "y", "yes", "true"])
        return np.where(series.is_null().to_numpy(), np.nan, yes.to_numpy().astype(float))
    return series.cast(pl.Float64).fill_null(float("nan")).to_numpy()


def _columns(series: pl.Series) -> np.ndarray:
    """Standardised numbers, with the mean where nothing is; words as one column each."""
    if series.dtype == pl.String:
        return series.to_dummies().to_numpy().astype(float)[:, 1:]
    numbers = series.cast(pl.Float64).to_numpy().copy()
    numbers[~np.isfinite(numbers)] = np.nanmean(numbers)
    return ((numbers - numbers.mean()) / max(numbers.std(), 1e-9))[:, None]


def weighted(x: np.ndarray, chosen: np.ndarray, paid: np.ndarray) -> dict[str, float]:
    """Inverse propensities and AIPW, cross-fitted in five folds, as differences to what was paid on average."""
    from sklearn.linear_model import LogisticRegression, Ridge

    fold = np.random.default_rng(0).permutation(len(x)) % FOLDS
    chance, guess = np.empty(len(x)), np.empty(len(x))
    for k in range(FOLDS):
        inside, others = fold == k, fold != k
        chance[inside] = LogisticRegression(max_iter=2000).fit(x[others], chosen[others]).predict_proba(x[inside])[:, 1]
        guess[inside] = Ridge(1.0).fit(x[others & chosen], paid[others & chosen]).predict(x[inside])
    weight = chosen / np.maximum(chance, LEAST_CHANCE)
    scores = guess + weight * (paid - guess)
    error = float(np.std(scores - paid, ddof=1) / np.sqrt(len(x)))
    inverse = (weight * paid).sum() / weight.sum()
    return {"ipw": inverse - paid.mean(), "aipw": scores.mean() - paid.mean(), "aipw s.e.": error}
