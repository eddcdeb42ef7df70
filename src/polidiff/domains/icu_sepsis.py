"""Treating sepsis in intensive care: fluids and vasopressors, every four hours, until the patient lives or dies.

A model estimated from records (see below), not a guideline: `CAVEATS` belongs beside every result.

The arrays of the package icu-sepsis, and what their columns mean.

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
from typing import Literal

import numpy as np

from polidiff.errors import InvalidOptionError, InvalidWorldError, MissingExtraError
from polidiff.evaluation.exact import best_policy
from polidiff.policies.protocol import one_hot, top_actions
from polidiff.records.arrays import BoolArray, FloatArray, IntArray, read_only
from polidiff.records.outcome import Outcome
from polidiff.worlds.tabular import TabularMDP

DEATH, SURVIVAL, SINK = 713, 714, 715
LEVELS = 5  # of fluid and of vasopressor: none, then quarters of the positive doses
SHARES = ("gender share", "mechanically ventilated", "vasopressor dose", "readmitted")


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(","))


SCALED = _names("""
    age, weight, GCS, heart rate, systolic BP, mean BP, diastolic BP, respiratory rate, temperature, FiO2, potassium,
    sodium, chloride, glucose, magnesium, calcium, hemoglobin, white cells, platelets, PTT, PT, arterial pH, PaO2,
    PaCO2, base excess, bicarbonate, lactate, SOFA, SIRS, shock index, PF ratio, fluid balance""")
LOG_SCALED = _names("""
    SpO2, BUN, creatinine, SGOT, SGPT, bilirubin, INR, total fluid in, fluid in 4 h, total urine, urine 4 h""")
FEATURES = (*SHARES, *SCALED, *LOG_SCALED)
BEDSIDE = _names("""
    age, GCS, heart rate, mean BP, respiratory rate, temperature, SpO2, lactate, creatinine, urine 4 h, SOFA,
    mechanically ventilated""")
_OFFSETS = (0.5, 0.5, 0.5, -0.1)  # the builder subtracts 0.5 from the first four columns and adds 0.6 to the fourth
_DOUBLED = "fluid in 4 h"
HOURS = 4.0
ACTIONS = tuple({"fluid": fluid, "pressor": pressor} for fluid in range(LEVELS) for pressor in range(LEVELS))
ENDS = {DEATH: "died", SURVIVAL: "survived", SINK: "over"}

CAVEATS = (
    "This is a model estimated from records of one hospital (MIMIC-III, 2001 to 2012), not advice for treatment.",
    "States are averages over many patients; sicker patients were treated more, and the model cannot tell cause from "
    "indication.",
    "The description of a state contains what was given in the same four hours.",
    "Doses are levels: 0 is none, 1 to 4 are quarters of the doses that were given; survival is to 90 days.",
    "Values are in standard deviations from the mean of all patients, except SOFA (points), shares and the "
    "vasopressor dose; missing measurements were set to 0 before scaling.",
)

SOURCE = (
    "The model: ICU-Sepsis (K. Choudhary, D. Gupta and P. S. Thomas, RLC 2024, arXiv 2406.05646; MIT licence), "
    "estimated from MIMIC-III v1.4 (A. Johnson et al., Scientific Data 3, 2016) as in M. Komorowski et al., Nature "
    "Medicine 24 (2018)."
)


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


@cache
def world(features: Literal["bedside", "all"] = "bedside") -> TabularMDP:
    """ICU-Sepsis as a table of 716 states and 25 actions, restricted to actions that clinicians took there.

    Parameters
    ----------
    features : {"bedside", "all"}
        What rules may speak about: twelve quantities seen at the bedside, or all 47 columns, which include the
        treatment itself.
    """
    if features not in ("bedside", "all"):
        raise InvalidOptionError(f"features must be 'bedside' or 'all'; got {features!r}")
    data = sepsis_data()
    names = BEDSIDE if features == "bedside" else FEATURES
    return TabularMDP(
        data.transitions,
        data.transitions[:, :, SURVIVAL],
        data.initial,
        absorbing=list(ENDS),
        actions=ACTIONS,
        states=[ENDS.get(state, f"cluster {state}") for state in range(len(data.initial))],
        features=data.features[:, [FEATURES.index(name) for name in names]],
        feature_names=names,
        allowed=data.admissible,
        outcomes=_outcomes(data.sofa),
        return_name="survival",
        return_range=(0, 1),
    )


def current(stochastic: bool = False) -> IntArray | FloatArray:
    """What clinicians did most often in each state, or how often they did what.

    Ties go to the lower fluid level, then to the lower vasopressor level. The model moves after an action that was too
    rare to learn from as after an admissible one drawn evenly; the stochastic policy does the same, so that survival,
    length of stay and SOFA are those of all clinicians' actions.
    """
    data = sepsis_data()
    if not stochastic:
        return top_actions(data.clinicians)
    admissible = data.admissible / data.admissible.sum(axis=1, keepdims=True)
    rare = np.where(data.admissible, 0.0, data.clinicians).sum(axis=1, keepdims=True)
    shares = np.where(data.admissible, data.clinicians, 0.0) + rare * admissible
    shares[DEATH:] = one_hot(np.zeros(len(shares) - DEATH, dtype=np.int64), shares.shape[1])
    return shares


@cache
def proposed() -> IntArray:
    """The policy that no other beats in this model, among admissible actions; the current action where they tie."""
    best = best_policy(world(), start=np.asarray(current(), dtype=np.int64))
    return read_only(best.actions)


def _outcomes(sofa: FloatArray) -> tuple[Outcome, ...]:
    fluid, pressor = (np.array([[action[name] for action in ACTIONS]], dtype=np.float64) for name in ACTIONS[0])
    return (
        Outcome("length of stay", HOURS, more="a longer stay", less="a shorter stay", unit="hours"),
        Outcome("fluid given", fluid, more="more fluid", less="less fluid", unit="levels"),
        Outcome(
            "vasopressor given",
            pressor,
            prefer="less",
            more="more vasopressor",
            less="less vasopressor",
            unit="levels",
        ),
        Outcome(
            "SOFA summed over the stay",
            sofa,
            prefer="less",
            more="more organ failure over the stay",
            less="less organ failure over the stay",
            unit="points",
        ),
    )
