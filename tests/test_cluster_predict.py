"""Rows divided over workers that predict: the labels and probabilities of one machine, without Ray."""

import numpy as np
import pytest
from label_data import ova, settings, topics
from local_workers import travelled
from scipy.sparse import csr_matrix

from embedx import objectives
from embedx.classification import classifier
from embedx.classification.classifier import Classifier
from embedx.classification.task import train
from embedx.distributed.predict import Predictor
from embedx.labeled.data import DataSchema


def at_random(name, *, hidden=0, sampler="all", n_labels=61, n_features=20):
    """A model of random parameters, and rows to predict."""
    rng = np.random.default_rng(3)
    found = objectives.find(name)
    objective = found(found.Settings(hierarchy="huffman") if name == "hs" else found.Settings())
    counts = rng.integers(1, 50, n_labels)
    objective.prepare(counts)
    n_rows = objective.n_rows(n_labels)
    arrays = {"output": rng.normal(0, 1, (n_rows, hidden or n_features)).astype(np.float32)}
    arrays["bias"] = rng.normal(0, 1, n_rows).astype(np.float32)
    if hidden:
        arrays["hidden"] = rng.normal(0, 1, (n_features, hidden)).astype(np.float32)
    known, facts = DataSchema(n_features, n_labels), {"objective": name, "several_labels": False}
    record = {"sampler": sampler, "labels": "all", "scaling": "none"} | objective.settings.record()
    features = rng.normal(0, 1, (300, n_features)).astype(np.float32)
    return Classifier(objective, arrays, known, counts, record, facts), csr_matrix(features) if hidden else features


def of_topics(**options):
    """A model of sparse weights, and rows to predict."""
    return train(topics(), ova(), settings(**options)).classifier, topics(300, seed=1).features


MODELS = {
    "noise": lambda: at_random("ns", sampler="unigram"), "a hidden layer": lambda: at_random("softmax", hidden=8),
    "a path": lambda: at_random("hs", sampler="path"), "sparse weights": lambda: of_topics(weights="sparse"),
    "a tree": lambda: of_topics(weights="tree", leaf_size=8),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_the_best_labels_are_those_of_one_machine(name, tmp_path):
    made, features = MODELS[name]()
    found = classifier.load(made.save(tmp_path / "model"))
    expected = [np.concatenate(each) for each in zip(*found.top_k(features, 5, threads=1), strict=True)]
    worker = Predictor(travelled(found), 5, 1)
    blocks = [worker.predict(travelled(features[start : start + 64])) for start in range(0, 300, 64)]
    labels, probabilities = (np.concatenate(each) for each in zip(*blocks, strict=True))
    np.testing.assert_array_equal(labels, expected[0])
    np.testing.assert_allclose(probabilities, expected[1], rtol=2e-5)  # BLAS may sum by the number of rows
