"""Treating sepsis in intensive care: fluids and vasopressors, every four hours, until the patient lives or dies.

A model estimated from records (see `icu_sepsis_data`), not a guideline: `CAVEATS` belongs beside every result.
"""

from __future__ import annotations

from functools import cache
from typing import Literal

import numpy as np

from polidiff.domains.icu_sepsis_data import BEDSIDE, DEATH, FEATURES, LEVELS, SINK, SURVIVAL, sepsis_data
from polidiff.errors import InvalidOptionError
from polidiff.evaluation.optimum import best_policy
from polidiff.policies.protocol import one_hot, top_actions
from polidiff.records.arrays import FloatArray, IntArray, read_only
from polidiff.records.outcome import Outcome
from polidiff.worlds.tabular import TabularMDP

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
    actions: IntArray = read_only(best.actions)
    return actions


def _outcomes(sofa: FloatArray) -> tuple[Outcome, ...]:
    fluid = np.array([action["fluid"] for action in ACTIONS], dtype=np.float64)
    pressor = np.array([action["pressor"] for action in ACTIONS], dtype=np.float64)
    return (
        Outcome("length of stay", HOURS, more="a longer stay", less="a shorter stay", unit="hours"),
        Outcome("fluid given", fluid[None, :], more="more fluid", less="less fluid", unit="levels"),
        Outcome(
            "vasopressor given",
            pressor[None, :],
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
