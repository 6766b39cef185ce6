"""A trained classifier: saved and loaded, its predictions and probabilities."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from embedx.classification import classifier as classifiers
from embedx.classification.settings import ClassifySettings
from embedx.labeled.data import Labeled, Labels
from embedx.objectives import OBJECTIVES
from tests.support.classify_cases import EVERY_OBJECTIVE
from tests.support.classify_runs import DATA, OPTIONS_OF_KIND, REPRESENTATIVES, TINY, TOPICS, run
from tests.support.label_training import train
from tests.support.refusals import refused_data


@EVERY_OBJECTIVE
def test_a_loaded_model_predicts_the_same_and_probabilities_sum_to_one(objective, tmp_path):
    kind, scaling = (("sparse", "column-max"), ("hidden", "l2"))[
        list(OBJECTIVES.values()).index(objective) % 2
    ]
    trained = run(objective, kind, TINY, scaling=scaling, epochs=2, batch_size=None)
    before = np.concatenate([log_p for _, log_p in trained.classifier.blocks(TINY.features)])
    assert before.shape == (40, 6)
    np.testing.assert_allclose(np.exp(before).sum(axis=1), 1, rtol=1e-4)
    trained.classifier.save(tmp_path / kind)
    loaded = classifiers.load(tmp_path / kind)
    after = np.concatenate([log_p for _, log_p in loaded.blocks(TINY.features)])
    np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-6)
    assert loaded.settings == trained.classifier.settings
    assert loaded.counts.tolist() == trained.classifier.counts.tolist()
    assert loaded.schema == trained.classifier.schema
    assert loaded.evaluate(TINY) == pytest.approx(trained.classifier.evaluate(TINY), rel=1e-4)


@pytest.mark.parametrize("kind", OPTIONS_OF_KIND)
def test_predictions_do_not_depend_on_blocks_and_threads(kind, monkeypatch):
    classifier = run(REPRESENTATIVES["columns"], kind, epochs=1).classifier
    features = DATA[kind][1].features
    all_at_once = classifier.log_probability(classifier.scores(classifier.prepared(features)))
    best = [next(classifier.iter_top_k(features, k)) for k in (1, 3, 100)]
    monkeypatch.setattr(classifiers, "BLOCK_FLOATS", 7 * len(classifier.counts))
    slices, parts = zip(*classifier.blocks(features, threads=3), strict=True)
    assert [(part.start, part.stop) for part in slices] == [
        (i, min(i + 7, 200)) for i in range(0, 200, 7)
    ]
    np.testing.assert_allclose(np.concatenate(parts), all_at_once, atol=1e-5)
    for k, (ids, p) in zip((1, 3, 100), best, strict=True):
        in_parts = list(classifier.iter_top_k(features, k, threads=3))
        # ties may fall either way
        assert (np.concatenate([part[0] for part in in_parts]) == ids).mean() > 0.99
        np.testing.assert_allclose(np.concatenate([part[1] for part in in_parts]), p, rtol=1e-4)
        assert ids.shape == (200, min(k, classifier.n_labels))
        assert (np.diff(p, axis=1) <= 0).all()
    assert (ids[:, 0] == all_at_once.argmax(axis=1)).mean() > 0.99


def test_features_of_another_width_are_refused():
    classifier = run(REPRESENTATIVES["columns"], data=TINY, epochs=1).classifier
    with refused_data("features", quoting=("96", "24")):
        classifier.evaluate(TOPICS[1])


def test_no_score_of_a_squared_hinge_is_a_probability_above_one_and_higher_scores_are_likelier():
    ova = OBJECTIVES["ova"](OBJECTIVES["ova"].Settings(loss="squared-hinge"))
    z = np.concatenate([np.linspace(-60, 60, 2001), [-1e6, 1e6]]).astype(np.float32)
    for log_p in (ova.log_label_probability(z), ova.log_label_probability(z.astype(np.float64))):
        assert np.isfinite(log_p).all()
        assert (log_p < 0).all()
        assert (np.diff(log_p[:-2]) > 0).all()
        assert log_p[-1] > log_p[-3]
    inside = z[np.abs(z) <= 0.98]
    np.testing.assert_allclose(ova.label_probability(inside), (1 + inside) / 2, rtol=1e-5)
    np.testing.assert_allclose(ova.label_probability(np.array([-5.0, 5.0])), [0, 1], atol=1e-3)


def test_labels_have_independent_probabilities_if_the_objective_defines_them():
    rng = np.random.default_rng(0)
    features = csr_matrix(np.eye(4, dtype=np.float32)[rng.integers(0, 4, 800)])
    kind = features.indices
    # label 1 whatever comes with it, label 0 never alone
    rows = [[0, 1] if k == 0 else [1] if k == 1 else [2] for k in kind]
    data = Labeled(features, Labels.of_rows(rows), 3)
    for loss in ("logistic", "squared-hinge"):
        ova = OBJECTIVES["ova"]
        trained = train(
            data,
            ova(ova.Settings(loss=loss)),
            ClassifySettings(learning_rate=0.5, epochs=20, threads=1),
        )
        ids, probabilities = next(
            trained.classifier.iter_top_k(csr_matrix(np.eye(4, dtype=np.float32)), 3)
        )
        assert set(ids[0, :2]) == {0, 1}
        # which two shares of one probability could not be
        assert probabilities[0, :2].min() > 0.9, loss
        assert ids[1, 0] == 1
        assert probabilities[1, 1:].max() < 0.1
