"""Utilities of normal scores: their information against the bound of the paper, probabilities
against integrals.
"""

import numpy as np
import pytest
from reference import bound_of_normal_scores
from scipy import stats

from embedx.objectives import normal_scores
from tests.support.objectives import make

LAWS = {"ar-probit": stats.norm, "ar-logistic": stats.logistic}
Z = np.array([1.3, -0.4, 0.2, -6.0, 2.1])
K = len(Z)
ONE_ROW = np.zeros(1, np.int64)


@pytest.mark.parametrize("y", [0, 3])
@pytest.mark.parametrize("name", LAWS)
def test_information_is_minus_twice_the_slope_of_the_bound_by_a_variance(name, y):
    law = LAWS[name]
    information = make(name).score_information(Z[None], ONE_ROW, np.array([y]))[0]
    at_the_means = bound_of_normal_scores(Z, np.zeros(K), y, law.logpdf, law.logcdf)
    for k in range(K):
        variance = 1e-4 * np.eye(K)[k]
        bound = bound_of_normal_scores(Z, variance, y, law.logpdf, law.logcdf)
        assert information[k] == pytest.approx(
            -2 * (bound - at_the_means) / 1e-4, rel=0.01, abs=1e-4
        )


@pytest.mark.parametrize("name", LAWS)
def test_information_is_a_mean_over_the_labels_of_a_row(name):
    z = np.stack([Z, Z[::-1]])
    objective = make(name)
    information = objective.score_information(z, np.array([0, 0, 1]), np.array([1, 4, 2]))
    of_single = [
        objective.score_information(z[[row]], ONE_ROW, np.array([label]))[0]
        for row, label in ((0, 1), (0, 4), (1, 2))
    ]
    assert information[0] == pytest.approx((of_single[0] + of_single[1]) / 2)
    assert information[1] == pytest.approx(of_single[2])


@pytest.mark.parametrize("name", LAWS)
def test_a_row_without_labels_tells_nothing(name):
    none = np.zeros(0, np.int64)
    assert not make(name).score_information(Z[None], none, none).any()


@pytest.mark.parametrize("name", LAWS)
def test_without_variances_probabilities_are_those_of_the_scores(name):
    objective = make(name)
    z = np.stack([Z, 3 * Z])
    by_means = objective.log_probability(z, np.zeros(K))
    assert objective.log_mean_probability(z, 0 * z) == pytest.approx(by_means, abs=1e-4)


@pytest.mark.parametrize("name", LAWS)
def test_probabilities_sum_to_one_and_blocks_of_classes_change_nothing(name, monkeypatch):
    objective = make(name)
    z = np.stack([Z, 20 * Z])
    variance = np.array([[0.1, 2.0, 9.0, 30.0, 0.0]] * 2)
    log_p = objective.log_mean_probability(z, variance)
    assert np.exp(log_p).sum(axis=1) == pytest.approx(1, abs=1e-4)
    monkeypatch.setattr(normal_scores, "MAX_VALUES", 1_000)
    assert objective.log_mean_probability(z, variance) == pytest.approx(log_p, abs=1e-9)


def test_of_two_classes_probit_is_the_distribution_of_the_difference():
    z = np.array([[0.7, -0.9], [4.0, 0.0]])
    variance = np.array([[0.5, 3.0], [0.0, 7.0]])
    log_p = make("ar-probit").log_mean_probability(z, variance)
    deviation = np.sqrt(2 + variance.sum(axis=1))
    exact = stats.norm.logcdf((z[:, 0] - z[:, 1]) / deviation)
    assert log_p[:, 0] == pytest.approx(exact, abs=1e-6)


@pytest.mark.parametrize("spread", [0.3, 1.0, 3.0])
def test_logistic_probabilities_are_near_the_integral_over_scores(spread):
    rng = np.random.default_rng(0)
    objective = make("ar-logistic")
    draws = Z + np.sqrt(spread) * rng.normal(size=(4_000, K))
    exact = np.exp(objective.log_probability(draws, np.zeros(K))).mean(axis=0)
    p = np.exp(objective.log_mean_probability(Z[None], np.full((1, K), spread)))[0]
    assert abs(p - exact).max() < 0.01
