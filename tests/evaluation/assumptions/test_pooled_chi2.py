import numpy as np
import pytest
from scipy import stats

from polidiff.evaluation.assumptions.history import RARE, PooledTest, Strata, _moments, binned


def pooled_chi2(stratum: np.ndarray, factor: np.ndarray, response: np.ndarray) -> PooledTest:
    return Strata.of(stratum, response).tests(factor)[0]


def test_one_large_table_gives_pearsons_statistic():
    rng = np.random.default_rng(0)
    row, column = rng.integers(0, 3, 600), rng.integers(0, 4, 600)
    table = np.zeros((3, 4))
    np.add.at(table, (row, column), 1)
    ours, scipys = pooled_chi2(np.zeros(600, dtype=int), row, column), stats.chi2_contingency(table)
    assert ours.statistic == pytest.approx(scipys.statistic)
    assert ours.p_value == pytest.approx(scipys.pvalue, rel=0.05)


def test_mean_and_variance_given_the_margins_are_those_of_all_permutations():
    rng = np.random.default_rng(1)
    row, column = np.repeat([0, 1, 2], [9, 6, 5]), np.repeat([0, 1, 2], [10, 5, 5])
    stratum = np.zeros(20, dtype=int)
    drawn = np.array([pooled_chi2(stratum, row, rng.permutation(column)).statistic for _ in range(20_000)])
    margins = (np.array([1 / 9 + 1 / 6 + 1 / 5]), np.array([1 / 10 + 2 / 5]))
    mean, variance = _moments(np.array([20.0]), np.array([3]), np.array([3]), *margins)
    assert drawn.mean() == pytest.approx(mean, rel=0.02)
    assert drawn.var() == pytest.approx(variance, rel=0.05)


def test_many_thin_strata_reject_as_often_as_they_claim():
    rng = np.random.default_rng(2)
    p_values = []
    for _ in range(2000):
        stratum = rng.integers(0, 40, 600)
        p_values.append(pooled_chi2(stratum, rng.integers(0, 3, 600), rng.integers(0, 3, 600) * stratum).p_value)
    assert np.mean(np.array(p_values) < 0.05) == pytest.approx(0.05, abs=0.015)
    assert np.mean(np.array(p_values) < 0.01) == pytest.approx(0.01, abs=0.007)


def test_a_difference_between_strata_is_no_dependence_within_them():
    stratum = np.repeat([0, 1], 200)
    assert pooled_chi2(stratum, stratum, stratum).strata == 0
    assert pooled_chi2(stratum, stratum, stratum).p_value == 1.0


def test_rare_levels_are_merged_and_nothing_is_said_of_no_rows():
    factor = np.append(np.zeros(50, dtype=int), np.arange(1, RARE + 1))
    response = np.append(np.zeros(50, dtype=int), np.ones(RARE, dtype=int))
    assert pooled_chi2(np.zeros(50 + RARE, dtype=int), factor, response).mean == pytest.approx(1, rel=0.05)
    assert pooled_chi2(np.zeros(0, dtype=int), np.zeros(0, dtype=int), np.zeros(0, dtype=int)).p_value == 1.0


def test_bins_keep_equal_values_together_and_few_values_apart():
    stratum = np.repeat([0, 1], 6)
    values = np.array([1.0, 1, 1, 1, 2, 3, 7, 8, 9, 10, 11, 12])
    assert binned(stratum, values).tolist() == [0, 0, 0, 0, 2, 2, 0, 0, 1, 1, 2, 2]
    assert binned(stratum, np.tile([5.0, 9.0, 7.0], 4)).tolist() == [0, 2, 1] * 4
