"""Gaussian weights: variances against the bound of the paper, probabilities against integrals, and
classifiers that have them.
"""

import numpy as np
import pytest
from reference import bound_of_gaussian_weights
from scipy.sparse import csr_matrix
from scipy.special import logsumexp

import embedx
from embedx import SoftmaxClassifier
from embedx.classification import posterior
from embedx.classification.classifier import load
from embedx.classification.objective_choice import ClassifierConfiguration
from embedx.classification.run import ClassifierRun
from embedx.classification.settings import ClassifySettings
from embedx.labeled.data import Labeled, Labels
from embedx.labeled.digits import digits
from embedx.objectives import OBJECTIVES
from tests.support.classify_runs import OPTIONS_OF_KIND, TOPICS, topics
from tests.support.commands import invoke
from tests.support.label_training import train
from tests.support.refusals import refused

DATA = {"dense": digits(300, 200), "sparse": TOPICS, "hidden": TOPICS}
OF_GAUSSIAN_WEIGHTS = ["softmax", "ar", "ar-probit", "ar-logistic"]


def classifier_of(objective="softmax", kind="sparse", data=None, before=None, **options):
    chosen = {"threads": 1, "epochs": 5, "labels": "first", "posterior": "gaussian"}
    chosen["calibration"] = 0.4
    chosen |= OPTIONS_OF_KIND[kind] | options
    data = DATA[kind][0] if data is None else data
    instance = OBJECTIVES[objective](OBJECTIVES[objective].Settings())
    return train(data, instance, ClassifySettings(**chosen), start=before).classifier


def problem():
    """Inputs, labels and means of a few rows."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12, 3))
    x[:, 2] *= rng.random(12) < 0.5
    return x, rng.integers(0, 4, 12), rng.normal(size=(4, 3))


def softmax(z):
    return np.exp(z - logsumexp(z, axis=1, keepdims=True))


@pytest.mark.parametrize("as_input", [np.asarray, csr_matrix])
def test_precisions_are_a_step_of_the_natural_gradient_of_the_bound(as_input):
    """1 / variance is -2 times the derivative of all of the bound but the entropy."""
    x, label, mean = problem()
    prior = 0.7
    p = softmax(x @ mean.T)
    halves = [slice(0, 5), slice(5, None)]
    blocks = [(as_input(x[rows].astype(np.float32)), p[rows]) for rows in halves]
    precision = 1 / prior + posterior.information(blocks, 4, 3)
    step = 1e-5
    for k, d in np.ndindex(4, 3):
        bounds = []
        for change in (-step, step):
            variance = np.zeros((4, 3))
            variance[k, d] = change
            bounds.append(bound_of_gaussian_weights(x, label, mean, variance, prior, entropy=False))
        slope = (bounds[1] - bounds[0]) / (2 * step)
        assert precision[k, d] == pytest.approx(-2 * slope, rel=1e-4)


def test_other_variances_lower_the_bound():
    x, label, mean = problem()
    variance = np.zeros((4, 3))
    for _ in range(20):
        p = softmax(x @ mean.T + (x**2) @ variance.T / 2)
        variance = 1 / (1 / 0.7 + posterior.information([(x, p)], 4, 3))
    best = bound_of_gaussian_weights(x, label, mean, variance, 0.7)
    for k, d in np.ndindex(4, 3):
        for factor in (0.8, 1.25):
            other = variance.copy()
            other[k, d] *= factor
            assert bound_of_gaussian_weights(x, label, mean, other, 0.7) < best


def test_the_bound_is_below_the_likelihood_of_the_rows():
    """With one feature the integral over all weights is a grid: here of two labels."""
    x = np.array([[1.0], [0.5], [-1.0]])
    label = np.array([0, 1, 1])
    grid = np.linspace(-8, 8, 801)
    prior = 0.7
    density = np.exp(-(grid**2) / (2 * prior)) / np.sqrt(2 * np.pi * prior)
    likelihood = np.ones((801, 801))
    for row, y in zip(x[:, 0], label, strict=True):
        z = np.stack(np.broadcast_arrays(grid[:, None] * row, grid[None, :] * row))
        likelihood *= np.exp(z[y] - logsumexp(z, axis=0))
    evidence = np.log((likelihood * density[:, None] * density).sum() * (grid[1] - grid[0]) ** 2)
    for mean in (np.zeros((2, 1)), np.array([[0.4], [-0.4]])):
        p = softmax(x @ mean.T)
        variance = 1 / (1 / prior + posterior.information([(x, p)], 2, 1))
        bound = bound_of_gaussian_weights(x, label, mean, variance, prior)
        assert evidence - 0.6 < bound < evidence


def test_without_informative_features_the_variance_of_a_label_is_one_over_its_count():
    """A Poisson rate's logarithm has the variance 1 / count."""
    counts = np.array([50, 8, 2])
    x = np.ones((60, 1), np.float32)
    p = np.tile(counts / 60, (60, 1))
    assert 1 / posterior.information([(x, p)], 3, 1)[:, 0] == pytest.approx(1 / counts, rel=1e-5)


def test_mean_probabilities_are_integrals():
    z = np.array([[0.5, -1.0], [3.0, 0.0]])
    variance = np.array([[1.0, 2.0], [0.5, 4.0]])
    log_p = posterior.log_mean_softmax(z, variance, posterior.stratified_normals(2))
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    gaps = (z[:, 1] - z[:, 0])[:, None] + np.sqrt(variance.sum(axis=1))[:, None] * nodes
    first = (weights / weights.sum() / (1 + np.exp(gaps))).sum(axis=1)
    assert np.exp(log_p[:, 0]) == pytest.approx(first, abs=0.02)
    assert np.exp(log_p).sum(axis=1) == pytest.approx(1, abs=1e-6)
    without = posterior.log_mean_softmax(z, 0 * variance, posterior.stratified_normals(2))
    assert np.exp(without) == pytest.approx(softmax(z), abs=1e-6)


@pytest.mark.parametrize("kind", OPTIONS_OF_KIND)
@pytest.mark.parametrize("objective", OF_GAUSSIAN_WEIGHTS)
def test_means_are_the_weights_of_a_point_and_rows_narrow_them(objective, kind):
    point = classifier_of(objective, kind, posterior="point")
    gaussian = classifier_of(objective, kind)
    assert np.array_equal(point.arrays["output"], gaussian.arrays["output"])
    assert "variance" not in point.arrays
    variance = gaussian.arrays["variance"]
    prior = gaussian.facts["prior_variance"]
    assert ((variance > 0) & (variance <= np.float32(prior) * 1.001)).all()
    of_label = variance.mean(axis=1)
    by_count = np.argsort(gaussian.trained_counts)
    assert of_label[by_count[:3]].mean() > of_label[by_count[-3:]].mean()


@pytest.mark.parametrize("kind", OPTIONS_OF_KIND)
@pytest.mark.parametrize("objective", ["softmax", "ar-probit", "ar-logistic"])
def test_held_out_rows_are_as_likely_as_by_a_point_or_likelier(objective, kind):
    test = DATA[kind][1]
    scores = [
        classifier_of(objective, kind, posterior=name, epochs=40).evaluate(test)["log_likelihood"]
        for name in ("point", "gaussian")
    ]
    assert scores[1] > scores[0] - 0.01


@pytest.mark.parametrize("objective", OF_GAUSSIAN_WEIGHTS)
def test_probabilities_are_those_of_the_saved_model_and_sum_to_one(objective, tmp_path):
    classifier = classifier_of(objective, calibration=0.0, prior_variance=5.0)
    assert classifier.facts["prior_variance"] == 5
    features = DATA["sparse"][1].features
    p = classifier.predict_proba(features)
    assert p.sum(axis=1) == pytest.approx(1, abs=1e-4)
    classifier.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert np.array_equal(again.predict_proba(features, threads=2), p)
    assert np.array_equal(again.predict_proba(features[:3]), p[:3])


def test_without_held_out_rows_scores_have_the_variance_1_before_training():
    data = DATA["dense"][0]
    model = SoftmaxClassifier(posterior="gaussian").fit(data.features, data.labels.ids)
    mean_square = np.square(data.features).sum(axis=1).mean()
    assert model.classifier_.facts["prior_variance"] == pytest.approx(1 / mean_square, rel=1e-3)


def test_new_rows_reduce_the_variance_of_their_features():
    first = classifier_of(prior_variance=2.0, optimizer="adagrad")
    more = topics(200, 7)
    again = classifier_of(data=more, before=first, optimizer="adagrad", anchored=False)
    assert again.facts["prior_variance"] == 2
    assert (again.arrays["variance"] <= first.arrays["variance"] * 1.001).all()
    of_data = again.arrays["variance"] < 0.9 * first.arrays["variance"]
    has_feature = np.asarray(more.features.sum(axis=0)).ravel() > 0
    assert of_data[:, has_feature].any()
    assert not of_data[:, ~has_feature].any()


WRONG = {
    "no softmax": ({"objective": "ns"}, "posterior"),
    "a tree": ({"objective": "hs"}, "posterior"),
    "independent labels": ({"objective": "ova"}, "posterior"),
    "no probabilities": ({"objective": "margin"}, "posterior"),
    "sparse weights": ({"objective": "ar", "weights": "sparse"}, "weights"),
    "distances": ({"kind": "hidden", "score": "euclidean", "bias": "none"}, "posterior"),
}


@pytest.mark.parametrize("why", WRONG)
def test_what_has_no_normal_weights_is_refused(why):
    options, setting = WRONG[why]
    with refused(setting):
        classifier_of(**options)


def test_the_command_line_averages_and_an_index_is_refused(tmp_path):
    rows = tmp_path / "rows.txt"
    lines = [f"__label__{'abc'[k % 3]} word{k % 3} word{k % 7}\n" for k in range(1200)]
    rows.write_text("".join(lines))
    model = tmp_path / "model"
    options = ["--posterior", "gaussian", "--hidden", "5", "--output", str(model)]
    invoke("classify", str(rows), "--test", str(rows), *options)
    p = embedx.load(model).predict_proba(["word0 word3", "word1"])
    assert p.argmax(axis=1).tolist() == [0, 1]
    with refused("search"):
        invoke("predict", str(model), str(rows), "--search")


def test_a_softmax_is_the_default_of_normal_weights(tmp_path):
    rows = tmp_path / "rows.txt"
    rows.write_text("".join(f"__label__{'abc'[k % 3]} word{k % 3}\n" for k in range(300)))
    embedx.classify(
        str(rows), posterior="gaussian", prior_variance=1.0, output=str(tmp_path / "model")
    )
    assert embedx.load(tmp_path / "model").objective.name == "softmax"


def test_a_row_with_several_labels_is_as_informative_as_a_row_for_each():
    x = csr_matrix(np.eye(3, dtype=np.float32))
    several = Labeled(x, Labels.of_rows([[0, 1], [1], [2]]), 3)
    single = Labeled(x[[0, 0, 1, 2]], Labels.of_rows([[0], [1], [1], [2]]), 3)
    options = {"prior_variance": 1.0, "calibration": 0.0, "labels": "all", "scaling": "none"}
    options |= {"optimizer": "lbfgs", "epochs": None, "l2": 0.1, "weights": "dense"}
    of_both = []
    for data, l2 in ((several, 0.4), (single, 0.3)):
        of_both.append(classifier_of(data=data, **options | {"l2": l2}).arrays["variance"])
    assert of_both[0] == pytest.approx(of_both[1], rel=1e-3)


def test_the_plan_counts_the_variances():
    plans = []
    for name in ("point", "gaussian"):
        settings = ClassifySettings(posterior=name, epochs=1, threads=1)
        objective = OBJECTIVES["softmax"](OBJECTIVES["softmax"].Settings())
        run = ClassifierRun(DATA["dense"][0], ClassifierConfiguration(objective, settings))
        plan = run.allocate()
        plans.append((plan.needs, run.on_disk(plan).model))
    (point, point_on_disk), (gaussian, on_disk) = plans
    assert gaussian == point | {"variances": 2 * point["weights"]}
    assert on_disk == 2 * point_on_disk
