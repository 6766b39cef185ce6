"""What `SoftmaxClassifier` predicts, and that a saved one predicts the same."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from embedx.classification import classifier
from embedx.classification.estimator import SoftmaxClassifier
from tests.support.noisy_labels import N_LABELS, noisy


def test_scores_are_linear_in_the_features(digit_arrays):
    X, y, unseen, _ = digit_arrays
    fitted = SoftmaxClassifier().fit(X, y)
    np.testing.assert_allclose(
        fitted.decision_function(unseen), unseen @ fitted.coef_.T + fitted.intercept_, rtol=1e-6
    )
    assert fitted.coef_.dtype == np.float64
    pair = SoftmaxClassifier().fit(X[y < 2], y[y < 2])
    np.testing.assert_allclose(
        pair.decision_function(unseen), (unseen @ pair.coef_.T + pair.intercept_)[:, 0], rtol=1e-6
    )
    assert not SoftmaxClassifier(bias="none").fit(X, y).intercept_.any()


def test_a_hidden_layer_takes_dense_features_as_sparse_ones_and_has_no_coef(digit_arrays):
    X, y, unseen, _ = digit_arrays
    of_dense = SoftmaxClassifier(hidden=8, epochs=1).fit(X, y)
    of_sparse = SoftmaxClassifier(hidden=8, epochs=1).fit(sparse.csr_matrix(X), y)
    assert not hasattr(of_dense, "coef_")
    scores = of_dense.decision_function(unseen)
    assert scores.shape == (200, 10)
    np.testing.assert_array_equal(scores, of_sparse.decision_function(unseen))


def test_top_k_are_the_best_with_their_probabilities_in_a_saved_model_too(digit_arrays, tmp_path):
    X, y, unseen, _ = digit_arrays
    names = np.array([f"digit {k}" for k in range(10)])
    fitted = SoftmaxClassifier().fit(X, names[y])
    labels, probabilities = fitted.top_k(unseen, 3)
    assert labels.shape == probabilities.shape == (200, 3)
    np.testing.assert_array_equal(labels[:, 0], fitted.predict(unseen))
    np.testing.assert_allclose(
        probabilities, -np.sort(-fitted.predict_proba(unseen), axis=1)[:, :3]
    )
    assert fitted.top_k(unseen, 99)[0].shape == (200, 10)
    loaded = classifier.load(fitted.classifier_.save(tmp_path / "model"))
    best, p = loaded.top_k(unseen, 1)
    np.testing.assert_array_equal(best, labels[:, :1])
    np.testing.assert_allclose(p, probabilities[:, :1], rtol=1e-5)


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize(
    "parameters", [{"objective": "ova", "weights": "sparse"}, {"epochs": 5, "neighbours": "5"}]
)
def test_probabilities_of_all_classes_are_those_of_the_best(several, parameters):
    rows = noisy(1500, 0, several=several)
    ids = rows.labels.ids
    offsets = rows.labels.offsets
    if several:
        y = sparse.csr_matrix((np.ones(len(ids)), ids, offsets), (1500, N_LABELS)).toarray()
    else:
        y = ids
    fitted = SoftmaxClassifier(**parameters).fit(rows.features, y)
    assert "calibration" in fitted.classifier_.arrays
    probabilities = fitted.predict_proba(rows.features[:50])
    ids, p = fitted.top_k(rows.features[:50], N_LABELS)
    np.testing.assert_allclose(
        np.take_along_axis(probabilities, ids, 1),
        p if several else p / p.sum(axis=1, keepdims=True),
        rtol=1e-5,
    )


def test_the_data_of_the_user_are_not_changed(digit_arrays):
    """Columns in disorder, twice and read-only are put in order in a copy."""
    y = digit_arrays[1][:4]
    X = sparse.csr_matrix(
        (
            np.ones(8, dtype=np.float32),
            np.array([3, 1, 2, 2, 0, 1, 3, 2]),
            np.array([0, 2, 4, 6, 8]),
        ),
        (4, 4),
    )
    for array in (X.data, X.indices, X.indptr):
        array.flags.writeable = False
    ordered = X.toarray()
    fitted = SoftmaxClassifier("ns", epochs=2).fit(X, y)
    np.testing.assert_array_equal(X.indices, [3, 1, 2, 2, 0, 1, 3, 2])
    other = SoftmaxClassifier("ns", epochs=2).fit(sparse.csr_matrix(ordered), y)
    np.testing.assert_array_equal(
        fitted.predict_proba(X), other.predict_proba(sparse.csr_matrix(ordered))
    )


# ---- texts, and saved models


TEXTS = ["the cat purrs", "a dog and a cat", "the car on the road", "a road, a car"] * 20
TOPICS = ["pet", "pet", "car", "car"] * 20


def test_texts_are_classified_by_their_words_and_in_pipelines(tmp_path):
    from sklearn.feature_extraction.text import TfidfVectorizer

    alone = SoftmaxClassifier().fit(TEXTS, TOPICS)
    assert alone.predict(["my cat", "no road"]).tolist() == ["pet", "car"]
    assert alone.classifier_.settings["scaling"] == "tf-idf"
    pipeline = make_pipeline(TfidfVectorizer(), SoftmaxClassifier("ns", epochs=5))
    search = GridSearchCV(pipeline, {"softmaxclassifier__negatives": [1, 2]}, cv=2).fit(
        TEXTS, TOPICS
    )
    assert search.score(TEXTS, TOPICS) == 1
    loaded = SoftmaxClassifier.load(alone.save(tmp_path / "model"))
    np.testing.assert_array_equal(loaded.predict_proba(TEXTS), alone.predict_proba(TEXTS))
    assert loaded.partial_fit(TEXTS, TOPICS).score(TEXTS, TOPICS) == 1


ROWS = np.arange(600)


@pytest.mark.parametrize(
    "labels", [ROWS % 3 - 1, ROWS % 2 == 0, ROWS % 3 * 1.0, np.eye(3, dtype=int)[ROWS % 3]]
)
def test_a_saved_classifier_has_the_same_classes_and_parameters(digit_arrays, tmp_path, labels):
    fitted = SoftmaxClassifier(
        "ova", negatives=np.int64(2), sampler="uniform", epochs=1, random_state=3
    ).fit(digit_arrays[0], labels)
    loaded = SoftmaxClassifier.load(fitted.save(tmp_path / "model"))
    assert loaded.get_params() == fitted.get_params()
    assert loaded.classes_.dtype == fitted.classes_.dtype
    np.testing.assert_array_equal(loaded.predict(digit_arrays[2]), fitted.predict(digit_arrays[2]))
