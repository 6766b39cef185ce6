"""Labels of a model divided over workers that predict: the same labels and probabilities as by one machine, without Ray."""

import dataclasses

import numpy as np
import pytest
from local_workers import travelled
from scipy.sparse import csr_matrix
from test_cluster_classify import an_objective
from test_label_tree import ova, settings, topics

from embedx import objectives
from embedx.classification import classifier
from embedx.classification.classifier import Classifier
from embedx.classification.task import train
from embedx.distributed import predict
from embedx.distributed.files import Files, shared
from embedx.engine.sparse_levels import part_of, scores_of
from embedx.labeled.schema import DataSchema
from embedx.objectives.contract import log_softmax
from embedx.storage.folder import DESCRIPTION
from embedx.training.progress import Silent


class LocalPredictors:
    """In place of `Predictors`."""

    def __init__(self, builds):
        self.made = [travelled(build)() for build in builds]

    def put(self, value):
        return value

    def submit(self, number, features):
        return number, travelled(features)

    def result(self, submitted):
        number, features = submitted
        return travelled(self.made[number].predict(features))


def seen_by_nobody():
    """Rows none of which has the last five labels."""
    return dataclasses.replace(topics(), n_labels=95)


def at_random(name, *, several=False, hidden=0, has_bias=True, sampler="all", n_labels=61, n_features=20):
    """A model of random parameters, and rows to predict."""
    rng = np.random.default_rng(3)
    found = objectives.find(name)
    objective = found(found.Settings(hierarchy="huffman") if name == "hs" else found.Settings())
    counts = rng.integers(1, 50, n_labels)
    objective.prepare(counts)
    n_rows = objective.n_rows(n_labels)
    arrays = {"output": rng.normal(0, 1, (n_rows, hidden or n_features)).astype(np.float32)}
    if has_bias:
        arrays["bias"] = rng.normal(0, 1, n_rows).astype(np.float32)
    if hidden:
        arrays["hidden"] = rng.normal(0, 1, (n_features, hidden)).astype(np.float32)
    known, facts = DataSchema(n_features, n_labels), {"objective": name, "several_labels": several}
    record = {"sampler": sampler, "labels": "all", "scaling": "none"} | objective.settings.record()
    features = rng.normal(0, 1, (300, n_features)).astype(np.float32)
    return Classifier(objective, arrays, known, counts, record, facts), csr_matrix(features) if hidden else features


def of_topics(data, **options):
    """A model of sparse weights, and rows to predict."""
    return train(data, ova(), settings(**options)).classifier, topics(300, seed=1).features


MODELS = {
    "softmax": lambda: at_random("softmax"),
    "a label by itself": lambda: at_random("ova", several=True),
    "labels that compete": lambda: at_random("ova"),
    "noise": lambda: at_random("ns", sampler="unigram"),
    "a hidden layer": lambda: at_random("softmax", hidden=8),
    "no biases": lambda: at_random("softmax", has_bias=False),
    "sparse weights": lambda: of_topics(seen_by_nobody(), weights="sparse"),
    "sparse weights of one label a row": lambda: of_topics(topics(several=False), weights="sparse"),
    "a path": lambda: at_random("hs", sampler="path"),
    "a tree": lambda: of_topics(topics(), weights="tree", leaf_size=8),
}
DIVIDES_ROWS = {"a path", "a tree"}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("k", [1, 5, 40])
def test_the_best_labels_are_those_of_one_machine(name, k, tmp_path, monkeypatch):
    monkeypatch.setattr(predict, "MAX_ROWS", 64)
    made, features = MODELS[name]()
    found = classifier.load(made.save(tmp_path / "model"))
    builds = predict.builds_of(found, shared(found.folder, DESCRIPTION, Files(found.folder).read), 3, 1, k)
    assert (builds[0].func is predict.SomeRows) == (name in DIVIDES_ROWS)
    blocks = list(predict.predict_by(LocalPredictors(builds), len(builds), found, features, k, Silent()))
    assert len(blocks) > 1
    ids, p = (np.concatenate([block[part] for block in blocks]) for part in (0, 1))
    alone = list(found.top_k(features, k, threads=1))
    expected_ids, expected_p = (np.concatenate([block[part] for block in alone]) for part in (0, 1))
    np.testing.assert_allclose(p, expected_p, rtol=2e-5, atol=1e-7)
    differs = ids != expected_ids  # where two labels have one probability but for rounding
    assert differs.mean() < 0.001
    for row in np.flatnonzero(differs.any(axis=1)):
        both, expected = (dict(zip(*each, strict=True)) for each in ((ids[row], p[row]), (expected_ids[row], expected_p[row])))
        for label in both.keys() & expected.keys():
            assert both[label] == pytest.approx(expected[label], rel=2e-6)
    assert p.dtype == expected_p.dtype


def test_workers_have_their_own_output_rows_alone(tmp_path):
    found = classifier.load(at_random("softmax", n_labels=10)[0].save(tmp_path / "model"))
    folder = shared(found.folder, DESCRIPTION, Files(found.folder).read)
    shapes = [build().weights.shape for build in predict.builds_of(found, folder, 4, 1, 3)]
    assert shapes == [(20, 2), (20, 3), (20, 2), (20, 3)]
    assert len(predict.builds_of(found, folder, 40, 1, 3)) == 10  # nobody without a label


def test_some_nodes_of_a_level_are_scored_as_all_are():
    trained = train(topics(), ova(), settings(weights="sparse")).classifier
    level = trained.trees[0].levels[0]
    nodes = np.random.default_rng(0).random(len(level.bias)) < 0.3
    features = topics(50, seed=2).features
    np.testing.assert_array_equal(scores_of(features, part_of(level, nodes)), scores_of(features, level)[:, nodes])
    assert scores_of(features, part_of(level, np.zeros(len(nodes), dtype=bool))).shape == (50, 0)


@pytest.mark.parametrize("name", objectives.OBJECTIVES)
def test_weights_of_labels_are_proportional_to_their_probabilities(name):
    """Of each by itself: from the scores of some labels the same as from all."""
    objective = an_objective(name)
    n = 12
    objective.prepare(np.arange(1, n + 1))
    rng = np.random.default_rng(0)
    z, noise = rng.normal(0, 2, (5, objective.n_rows(n))), np.log(rng.dirichlet(np.ones(n)))
    weight = objective.log_weight(z, noise)
    if weight is not None:
        np.testing.assert_allclose(log_softmax(weight), objective.log_probability(z, noise), rtol=1e-6)
        np.testing.assert_array_equal(objective.log_weight(z[:, 3:7], noise[3:7]), weight[:, 3:7])
    else:
        assert objective.n_rows(n) != n or not np.allclose(log_softmax(z), objective.log_probability(z, noise))
