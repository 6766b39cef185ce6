"""The optimum that L-BFGS finds is that of the papers' formulas, minimised naively, and of
scikit-learn.
"""

import numpy as np
import pytest
import reference
from scipy.optimize import minimize
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression

from embedx.classification.settings import ClassifySettings
from embedx.engine import lbfgs
from embedx.errors import SettingError
from embedx.labeled.data import Labeled, Labels
from embedx.objectives import OBJECTIVES, find
from tests.support.label_training import train

N = 60
D = 3
K = 4
L2 = 0.02
FULL_BATCH = [
    name for name, o in OBJECTIVES.items() if "all" in o.candidates and not o.uniforms_width
]


def points(seed=0, n=N):
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((n, D)).astype(np.float32)
    y = (features @ rng.standard_normal((D, K)) + rng.gumbel(size=(n, K))).argmax(axis=1)
    y[:K] = np.arange(K)
    return features, y


def several(seed=0, n=N):
    """One to three labels for each row."""
    rng = np.random.default_rng(seed)
    return [rng.permutation(K)[: rng.integers(1, 4)].tolist() for _ in range(n)]


def fitted(features, labels, objective="softmax", weights=None, **options):
    """Output rows with their biases, float64 (K, D + 1), and the loss."""
    kind = find(objective)
    labels = labels if isinstance(labels, Labels) else Labels.single(labels)
    settings = ClassifySettings(optimizer="lbfgs", l2=L2, tolerance=1e-9, **options)
    trained = train(Labeled(features, labels, K, weights=weights), kind(kind.Settings()), settings)
    arrays = trained.classifier.arrays
    return np.c_[arrays["output"], arrays["bias"]].astype(float), trained.outcome.final_loss


def searched(name, features, rows, weights, after=lambda iteration, loss: None, max_iterations=5):
    """What the engine finds in few iterations."""
    objective = find(name)(find(name).Settings())
    objective.prepare(np.ones(K, dtype=np.int64))
    return lbfgs.minimise(
        objective,
        lbfgs.WeightedExamples(features, Labels.of_rows(rows), weights),
        l2=L2,
        max_iterations=max_iterations,
        tolerance=1e-6,
        start=np.zeros((D + 1, K)),
        after=after,
    )


def naive(features, loss_of, n_rows=K, n_extra=0):
    """The W that minimises the mean of loss_of(i, scores of row i, extra numbers) plus the penalty,
    by numeric gradients.
    """
    h = np.c_[features, np.ones(len(features))].astype(float)

    def value(flat):
        w = flat[: n_rows * (D + 1)].reshape(n_rows, D + 1)
        extra = flat[n_rows * (D + 1) :]
        z = h @ w.T
        return (
            np.mean([loss_of(i, z[i], extra) for i in range(len(z))])
            + L2 / 2 * (w[:, :D] ** 2).sum()
        )

    optimum = minimize(
        value,
        np.zeros(n_rows * (D + 1) + n_extra),
        method="BFGS",
        options={"gtol": 1e-6, "maxiter": 2000},
    )
    return optimum.x[: n_rows * (D + 1)].reshape(n_rows, D + 1)


def centred(w):
    """Without what is added to all rows alike, which a softmax does not see."""
    return w - w.mean(axis=0)


# ---- against others


@pytest.mark.parametrize("is_sparse", [False, True])
def test_softmax_is_multinomial_logistic_regression(is_sparse):
    features, y = points()
    regression = LogisticRegression(C=1 / (N * L2), tol=1e-10, max_iter=10_000)
    regression.fit(features.astype(float), y)
    expected = np.c_[regression.coef_, regression.intercept_]
    w, _ = fitted(csr_matrix(features) if is_sparse else features, y)
    np.testing.assert_allclose(centred(w), centred(expected), atol=1e-4)


NEGATIVES = find("ns").Settings().negatives
LOSSES = {  # of the scores z, the labels of a row and an extra number of it
    "ove": lambda z, labels, _: reference.ove_loss(z, labels[0], np.ones(K)),
    "bouchard": lambda z, labels, level: reference.bouchard_loss(z, labels[0], np.ones(K), level),
    "ova": lambda z, labels, _: reference.ova_loss(
        z, np.eye(K)[labels].sum(axis=0), 1 - np.eye(K)[labels].sum(axis=0)
    ),
    # A loss that is a sum over candidates: the noise counts once for each positive, as when they
    # are trained one by one.
    "ns": lambda z, labels, _: sum(
        reference.ns_loss(z, np.eye(K)[k], np.ones(K), NEGATIVES, K) for k in labels
    ),
}


@pytest.mark.parametrize("name", LOSSES)
def test_the_optimum_is_that_of_the_papers_loss(name):
    features, y = points(n=24)
    labels = several(n=24) if name in ("ova", "ns") else [[k] for k in y]
    w, _ = fitted(features, Labels.of_rows(labels), name)
    n_extra = 24 if name == "bouchard" else 0  # levels, which are at their optimum too
    expected = naive(
        features,
        lambda i, z, levels: LOSSES[name](z, labels[i], levels[i] if n_extra else 0),
        n_extra=n_extra,
    )
    if name in ("ove", "bouchard"):
        w = centred(w)
        expected = centred(expected)
    np.testing.assert_allclose(w, expected, atol=1e-3 if n_extra else 1e-4)


# ---- what holds for all


@pytest.mark.parametrize("objective", FULL_BATCH)
def test_an_example_of_weight_2_equals_two_examples(objective):
    features, _ = points(n=20)
    rows = several(n=20)
    times = np.arange(20) % 3
    repeated = np.repeat(np.arange(20), times)
    weighted = searched(objective, features, rows, times.astype(float))
    repeated_rows = [rows[i] for i in repeated]
    unweighted = searched(objective, features[repeated], repeated_rows, np.ones(len(repeated)))
    np.testing.assert_allclose(weighted.w, unweighted.w, atol=1e-8)
    assert weighted.loss == pytest.approx(unweighted.loss)


@pytest.mark.parametrize("objective", FULL_BATCH)
def test_the_optimum_does_not_depend_on_blocks(objective, monkeypatch):
    features, _ = points()
    labels = Labels.of_rows(several())
    in_one_block, _ = fitted(features, labels, objective, max_iterations=5)
    monkeypatch.setattr(lbfgs, "BLOCK_FLOATS", 7 * D)
    monkeypatch.setattr(lbfgs, "MIN_DENSE_EXAMPLES", 7)
    for dense_or_sparse in (features, csr_matrix(features)):
        in_blocks, _ = fitted(dense_or_sparse, labels, objective, max_iterations=5)
        np.testing.assert_allclose(in_blocks, in_one_block, atol=1e-5)


@pytest.mark.parametrize("objective", FULL_BATCH)
def test_the_gradient_equals_finite_differences(objective, monkeypatch):
    """State is set to its optimum wherever scores are looked at, and the gradient need not know."""
    looked_at = []

    def check(value, start, **_options):
        rng = np.random.default_rng(0)
        x = rng.standard_normal(len(start)) / 2
        along = rng.standard_normal(len(start))
        difference = (value(x + 1e-5 * along)[0] - value(x - 1e-5 * along)[0]) / 2e-5
        looked_at.append((difference, value(x)[1] @ along))
        raise KeyboardInterrupt

    monkeypatch.setattr(lbfgs, "minimize", check)
    features, y = points()
    fitted(features, y, objective)
    difference, slope = looked_at[0]
    assert slope == pytest.approx(difference, rel=1e-4)


def test_rows_without_labels_do_not_count():
    features, y = points()
    more = np.r_[features, np.ones((5, D), dtype=np.float32)]
    labels = Labels.of_rows([[k] for k in y] + [[]] * 5)
    np.testing.assert_allclose(fitted(more, labels)[0], fitted(features, y)[0], atol=1e-6)


@pytest.mark.parametrize(
    ("optimizer", "sampler", "atol"),
    [("lbfgs", "all", 1e-6), ("adagrad", "all", 0.02), ("sgd", "uniform", 0.05)],
)
def test_without_features_the_biases_are_the_frequencies(optimizer, sampler, atol):
    counts = np.array([30, 20, 9, 1])
    data = Labeled(
        np.zeros((60, 0), dtype=np.float32), Labels.single(np.repeat(np.arange(4), counts)), 4
    )
    settings = ClassifySettings(
        optimizer=optimizer, sampler=sampler, batch_size=10, epochs=300, tolerance=1e-9, threads=1
    )
    arrays = train(data, find("ove")(find("ove").Settings(negatives=2)), settings).classifier.arrays
    p = np.exp(arrays["bias"]) / np.exp(arrays["bias"]).sum()
    np.testing.assert_allclose(p, counts / 60, atol=atol)


def test_an_interrupted_search_keeps_its_last_iteration(monkeypatch):
    features, y = points()
    calls = []

    def after(iteration, loss):
        calls.append(loss)
        if iteration == 3:
            raise KeyboardInterrupt

    result = searched(
        "softmax", features, [[k] for k in y], np.ones(N), after=after, max_iterations=100
    )
    assert isinstance(result.interrupted_by, KeyboardInterrupt)
    assert result.iterations == 3
    assert result.w.any()
    assert calls[0] > calls[2]


@pytest.mark.parametrize("objective", ["implicit", "ar-probit"])
def test_proximal_and_random_objectives_are_refused(objective):
    with pytest.raises(SettingError) as caught:
        fitted(*points(), objective)
    assert caught.value.setting in ("optimizer", "objective")
