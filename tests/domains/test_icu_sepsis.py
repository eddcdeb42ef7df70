"""The flagship: values against the package's published baselines, and columns against what they must mean."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from polidiff.domains import icu_sepsis
from polidiff.domains.icu_sepsis import BEDSIDE, FEATURES, sepsis_data
from polidiff.errors import InvalidOptionError
from polidiff.evaluation.exact import exact_evaluator, outcome_tensor


def totals(policy):
    world = icu_sepsis.world()
    values = exact_evaluator(world, policy).values(outcome_tensor(world))
    names = [outcome.name for outcome in world.outcomes]
    return dict(zip(names, world.initial[:713] @ values[:713], strict=True))


@pytest.mark.parametrize(
    ("policy", "survival", "decisions"),
    [
        (lambda: icu_sepsis.current(), 0.7868, None),
        (lambda: icu_sepsis.current(stochastic=True), 0.7818, 9.22),
        (lambda: icu_sepsis.proposed(), 0.8751, 10.99),
    ],
)
def test_survival_and_length_are_those_the_authors_publish(policy, survival, decisions):
    found = totals(policy())
    assert found["survival"] == pytest.approx(survival, abs=5e-5)
    if decisions is not None:
        assert found["length of stay"] / 4 == pytest.approx(decisions, abs=0.03)


def test_the_arrays_agree_with_the_loader_of_the_package():
    script = """
import sys, numpy as np
from pathlib import Path
import icu_sepsis
from icu_sepsis.utils.io import MDPParameters
from polidiff.domains.icu_sepsis import sepsis_data
theirs = MDPParameters(Path(icu_sepsis.__file__).parent / "envs" / "assets")
ours = sepsis_data()
assert np.array_equal(theirs.tx_mat, ours.transitions)
assert np.array_equal(theirs.d_0, ours.initial)
assert np.array_equal(theirs.expert_policy, ours.clinicians)
assert [list(np.flatnonzero(row)) for row in ours.admissible] == theirs.admissible_actions
arriving = np.zeros(716); arriving[714] = 1
assert np.array_equal(theirs.r_mat[:713], np.broadcast_to(arriving, (713, 25, 716)))
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_stochastic_clinician_is_worth_what_all_their_actions_are_worth():
    data = sepsis_data()
    moves = np.einsum("sa,sat->st", data.clinicians[:713], data.transitions[:713])
    survival = np.linalg.solve(np.eye(713) - moves[:, :713], moves[:, 714])
    assert totals(icu_sepsis.current(stochastic=True))["survival"] == pytest.approx(data.initial[:713] @ survival)


def test_the_optimum_takes_admissible_actions_and_keeps_the_current_one_where_nothing_is_gained():
    data, best, now = sepsis_data(), icu_sepsis.proposed()[:713], icu_sepsis.current()[:713]
    assert data.admissible[np.arange(713), best].all()
    single = data.admissible[:713].sum(axis=1) == 1
    assert (best[single] == now[single]).all()
    assert single.sum() == 237


def test_readable_columns_are_shares_doses_and_points():
    world = icu_sepsis.world("all")
    column = {name: world.features[:713, j] for j, name in enumerate(world.feature_names)}
    for share in ("gender share", "mechanically ventilated", "readmitted"):
        assert column[share].min() >= -1e-9
        assert column[share].max() <= 1 + 1e-9
    assert column["vasopressor dose"].min() >= -1e-9
    assert np.array_equal(column["SOFA"], sepsis_data().sofa[:713])
    fluid = np.array([action.levels["fluid"] for action in world.actions])
    given = sepsis_data().clinicians[:713] @ fluid
    assert np.corrcoef(given, column["fluid in 4 h"])[0, 1] > 0.98


def test_features_are_a_dozen_at_the_bedside_and_all_47_on_request():
    assert icu_sepsis.world().feature_names == BEDSIDE
    assert icu_sepsis.world("all").feature_names == FEATURES
    assert len(FEATURES) == 47
    assert len(set(FEATURES)) == 47
    with pytest.raises(InvalidOptionError, match="'bedside' or 'all'"):
        icu_sepsis.world("some")


def test_actions_are_ordered_levels_of_fluid_and_pressor():
    actions = icu_sepsis.world().actions
    assert actions[7].levels == {"fluid": 1.0, "pressor": 2.0}
    assert len(actions) == 25


def test_dose_outcomes_count_the_levels_of_the_actions_taken():
    world = icu_sepsis.world()
    evaluator = exact_evaluator(world, icu_sepsis.current())
    occupancy = evaluator.visits()[:, None] * evaluator.table
    found = totals(icu_sepsis.current())
    for component, name in (("fluid", "fluid given"), ("pressor", "vasopressor given")):
        levels = np.array([action.levels[component] for action in world.actions])
        assert found[name] == pytest.approx((occupancy @ levels).sum())
    assert found["SOFA summed over the stay"] == pytest.approx(occupancy.sum(axis=1) @ sepsis_data().sofa)


def test_reading_the_data_brings_in_neither_the_package_nor_its_libraries():
    script = (
        "import sys; from polidiff.domains import icu_sepsis; icu_sepsis.world(); "
        "print(sorted({'icu_sepsis', 'gym', 'gymnasium', 'pandas', 'matplotlib'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout.strip() == "[]"


def test_a_file_of_the_same_name_beside_the_script_does_not_hide_the_package(tmp_path):
    (tmp_path / "icu_sepsis.py").write_text(
        "from polidiff.domains import icu_sepsis; print(icu_sepsis.world().n_states)"
    )
    done = subprocess.run([sys.executable, tmp_path / "icu_sepsis.py"], capture_output=True, text=True)
    assert done.stdout.strip() == "716", done.stderr
