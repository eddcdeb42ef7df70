"""The arrays of the package icu-sepsis, and what their columns mean.

The package (Choudhary, Gupta and Thomas, "ICU-Sepsis: A Benchmark MDP Built from Real Medical Data", RLC 2024, MIT
licence) holds a model estimated from MIMIC-III along the lines of Komorowski et al., Nature Medicine 24 (2018): 713
clusters of patient states in steps of four hours, then death, survival and a sink. It names neither features nor
units; order and scaling below are those of its published builder. The files are read directly, because importing the
package also imports and registers with an unmaintained library.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import numpy as np

from polidiff.errors import InvalidWorldError, MissingExtraError
from polidiff.records.arrays import BoolArray, FloatArray, read_only

DEATH, SURVIVAL, SINK = 713, 714, 715
LEVELS = 5  # of fluid and of vasopressor: none, then quarters of the positive doses
SHARES = ("gender share", "mechanically ventilated", "vasopressor dose", "readmitted")
SCALED = (
    "age",
    "weight",
    "GCS",
    "heart rate",
    "systolic BP",
    "mean BP",
    "diastolic BP",
    "respiratory rate",
    "temperature",
    "FiO2",
    "potassium",
    "sodium",
    "chloride",
    "glucose",
    "magnesium",
    "calcium",
    "hemoglobin",
    "white cells",
    "platelets",
    "PTT",
    "PT",
    "arterial pH",
    "PaO2",
    "PaCO2",
    "base excess",
    "bicarbonate",
    "lactate",
    "SOFA",
    "SIRS",
    "shock index",
    "PF ratio",
    "fluid balance",
)
LOG_SCALED = (
    "SpO2",
    "BUN",
    "creatinine",
    "SGOT",
    "SGPT",
    "bilirubin",
    "INR",
    "total fluid in",
    "fluid in 4 h",
    "total urine",
    "urine 4 h",
)
FEATURES = (*SHARES, *SCALED, *LOG_SCALED)
BEDSIDE = (
    "age",
    "GCS",
    "heart rate",
    "mean BP",
    "respiratory rate",
    "temperature",
    "SpO2",
    "lactate",
    "creatinine",
    "urine 4 h",
    "SOFA",
    "mechanically ventilated",
)
_OFFSETS = (0.5, 0.5, 0.5, -0.1)  # the builder subtracts 0.5 from the first four columns and adds 0.6 to the fourth
_DOUBLED = "fluid in 4 h"


@dataclass(frozen=True, eq=False)
class SepsisData:
    """What the package holds, in readable units where they are known."""

    transitions: FloatArray  # (716, 25, 716); rows of the last three states lead to the sink
    initial: FloatArray  # (716,)
    clinicians: FloatArray  # (716, 25) estimated probabilities of their actions; no row for the last three states
    admissible: BoolArray  # (716, 25) actions seen often enough to estimate where they lead
    features: FloatArray  # (716, 47) centres of the clusters: shares, doses, SOFA points; else standard deviations
    sofa: FloatArray  # (716,) mean SOFA score


@cache
def sepsis_data() -> SepsisData:
    """The arrays, read once."""
    folder = _assets()
    try:
        with np.load(folder / "dynamics.npz") as arrays:
            transitions, initial = arrays["tx_mat"], arrays["d_0"]
            clinicians, sofa = arrays["expert_policy"], arrays["sofa_scores"]
            centres = arrays["state_cluster_centers"]
        listed = (folder / "admissible_actions.txt").read_text(encoding="utf-8").split("\n")[1:]
    except (OSError, KeyError, ValueError) as error:
        raise InvalidWorldError(
            f"the files of icu-sepsis cannot be read: {error}. Hint: version 2.0.1 is known to work"
        ) from error
    if transitions.shape != (716, 25, 716) or centres.shape != (716, len(FEATURES)):
        raise InvalidWorldError(
            f"icu-sepsis must hold 716 states, 25 actions and {len(FEATURES)} features; it holds {transitions.shape} "
            f"and {centres.shape}. Hint: version 2.0.1 is known to work"
        )
    admissible = np.zeros((716, 25), dtype=np.bool_)
    for state, line in enumerate(listed[:716]):
        admissible[state, [int(action) for action in line.split()]] = True
    parts = (transitions, initial, clinicians, admissible, _readable(centres, sofa), sofa)
    return SepsisData(*(read_only(part) for part in parts))


def _readable(centres: FloatArray, sofa: FloatArray) -> FloatArray:
    table = np.array(centres)
    table[:DEATH, : len(SHARES)] += np.array(_OFFSETS)
    table[:, FEATURES.index("SOFA")] = sofa
    table[:, FEATURES.index(_DOUBLED)] /= 2
    return table


def _assets() -> Path:
    try:
        package = distribution("icu-sepsis")  # by the installed package: a user's own file of that name is not it
    except PackageNotFoundError:
        raise MissingExtraError("icu-sepsis", "icu") from None
    return Path(str(package.locate_file("icu_sepsis"))) / "envs" / "assets"
