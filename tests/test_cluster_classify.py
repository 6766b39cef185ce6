"""Classifiers that workers on a cluster train and predict with, without Ray: labels divided over
them, or examples.
"""

import dataclasses
import threading

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from embedx import objectives
from embedx.classification import classifier
from embedx.classification.classifier import Classifier
from embedx.classification.labelwise import LabelwiseTraining
from embedx.classification.objective_choice import ClassifierConfiguration
from embedx.classification.run import ClassifierRun
from embedx.classification.settings import ClassifySettings
from embedx.distributed import strategy as distributed_strategy
from embedx.distributed.connection import ClusterSize
from embedx.distributed.examples import update_rates
from embedx.distributed.predict import Predictor
from embedx.distributed.settings import ClusterSettings
from embedx.distributed.strategy import Distributed
from embedx.errors import InapplicableError, Setting
from embedx.labeled.data import DataSchema
from embedx.labeled.digits import digits
from tests.support.cluster_runs import Nodes, an_objective, assert_same_bytes, quality, train
from tests.support.label_data import ova, settings, topics
from tests.support.label_settings import resolved
from tests.support.local_workers import InTurns, LocalWorkers, lost_at, travelled
from tests.support.refusals import refused
from tests.support.resumed_runs import FromSnapshot


@pytest.fixture
def cluster(monkeypatch):
    """A cluster of workers in this process, at the same time or in turns."""

    def new(
        workers=3,
        threads=1,
        fails=lambda number, method: False,
        distributed=Distributed,
        **options,
    ):
        nodes = Nodes(
            ClusterSettings(cluster="auto", workers=workers, **options),
            ClusterSize(workers, threads),
        )

        def training(*arguments):
            nodes.training = distributed(*arguments)
            return nodes.training

        def workers_of(*arguments):
            nodes.groups.append(LocalWorkers(*arguments, fails=fails))
            return nodes.groups[-1]

        monkeypatch.setattr(distributed_strategy, "Distributed", training)
        monkeypatch.setattr(distributed_strategy, "Workers", workers_of)
        return nodes

    return new


# ---- by labels

BY_LABELS = {
    "dcd": ("squared-hinge", {"weights": "sparse"}),
    "adagrad": ("logistic", {"weights": "sparse", "l2": 1e-4}),
    "tree": ("squared-hinge", {"weights": "tree", "leaf_size": 4, "arity": 4}),
    "trees": ("squared-hinge", {"weights": "tree", "leaf_size": 8, "trees": 2, "beam": 3}),
}


@pytest.mark.parametrize("name", BY_LABELS)
def test_labels_are_trained_to_the_last_bit_as_on_one_machine(name, cluster):
    loss, options = BY_LABELS[name]
    data = topics(n_labels=200)
    nodes = cluster()
    local = train(data, ova(loss), settings(loss, **options)).classifier
    together = train(data, ova(loss), settings(loss, **options), cluster=nodes).classifier
    assert_same_bytes(local, together)
    assert local.facts["final_loss"] == together.facts["final_loss"]
    (workers,) = nodes.groups
    # several had something to do
    assert sum(worker in nodes.training.server.level_of for worker in workers.every) > 1
    assert together.facts["cluster"]["workers"] == 3


@pytest.mark.parametrize("method", ["train_range", "merge"])
def test_labels_of_lost_workers_are_trained_by_others(method, cluster):
    data = topics(n_labels=200)
    options = {"weights": "tree", "leaf_size": 4, "arity": 4}
    nodes = cluster(fails=lost_at(method, 2, 4))
    local = train(data, ova(), settings(**options)).classifier
    together = train(data, ova(), settings(**options), cluster=nodes)
    assert nodes.groups[0].n_lost == 2
    assert_same_bytes(local, together.classifier)


def test_workers_hold_only_the_parameters_they_need(cluster):
    """The run has no memory to train in, and workers have no weights of the labels that they have
    handed over.
    """
    nodes = cluster()
    train(topics(n_labels=200), ova(), settings(weights="sparse"), cluster=nodes)
    assert nodes.training.inner.workers == []
    for worker in nodes.groups[0].every:
        assert not worker.worker.strategy.trained_tiles
        assert not any(worker.worker.strategy.trained_levels)


def test_labels_that_are_trained_are_not_trained_again(cluster, monkeypatch):
    """A run that is resumed asks workers for the rest alone."""
    # Keep the state at the end, to resume from.
    monkeypatch.setattr(LabelwiseTraining, "release", lambda training: None)
    data = topics(n_labels=200)
    options = {"weights": "sparse"}
    uninterrupted = train(data, ova(), settings(**options))
    snapshot = uninterrupted.outcome.state.snapshot()
    nodes = cluster()
    again = train(
        data, ova(), settings(**options), checkpoints=FromSnapshot(snapshot), cluster=nodes
    )
    assert_same_bytes(uninterrupted.classifier, again.classifier)
    assert not nodes.training.server.level_of


# ---- by examples


def halves(data):
    """Some rows to train on, and the others."""
    return data.rows(np.arange(0, len(data), 2)), data.rows(np.arange(1, len(data), 2))


BY_EXAMPLES = {
    "drawn labels of dense features": ("ove", lambda: digits(1500, 500), {"epochs": 10}),
    "all labels of sparse features": ("softmax", lambda: halves(topics(3000)), {"epochs": 10}),
    "tiles of sparse features": (
        "ova",
        lambda: halves(topics(3000)),
        {"epochs": 30, "optimizer": "adagrad"},
    ),
    "a hidden layer": ("softmax", lambda: halves(topics(3000)), {"epochs": 15, "hidden": 20}),
    "sgd": (
        "softmax",
        lambda: digits(1500, 500),
        {"epochs": 10, "optimizer": "sgd", "learning_rate": 0.05},
    ),
    "a number for each row": (
        "ns",
        lambda: digits(1500, 500),
        {"epochs": 10, "optimizer": "rowwise-adagrad"},
    ),
}


@pytest.mark.parametrize(("merge_every", "n_ranges"), [(100, 15), (7, 75), (None, 1)])
def test_a_worker_merges_as_often_as_merge_every_says(merge_every, n_ranges, cluster):
    """After whole minibatches of 20 examples, though longer chunks are trained elsewhere."""
    nodes = cluster(merge_every=merge_every)
    _, trained = quality("ove", *digits(1500, 500), nodes, epochs=1)
    assert nodes.training.n_chunks == n_ranges
    assert trained.outcome.tally.items == 1500


@pytest.mark.parametrize("name", BY_EXAMPLES)
def test_workers_on_parts_of_the_examples_learn_as_much(name, cluster):
    objective, read_data, options = BY_EXAMPLES[name]
    data, test = read_data()
    nodes = cluster(merge_every=100, distributed=InTurns)
    local, one = quality(objective, data, test, **options)
    together, several = quality(objective, data, test, nodes, **options)
    assert local > 0.3
    assert together > local - 0.04
    assert several.outcome.tally.items == one.outcome.tally.items
    assert several.classifier.facts["cluster"]["bytes_merged"] > 0


def test_weight_decay_is_as_strong_as_on_one_machine(cluster):
    data, test = digits(1500, 500)
    options = {"epochs": 10, "l2": 0.3}

    def norm(nodes=None, **others):
        return float(
            np.linalg.norm(
                quality("softmax", data, test, nodes, **options | others)[1].classifier.arrays[
                    "output"
                ]
            )
        )

    assert norm(cluster(merge_every=100, distributed=InTurns)) == pytest.approx(norm(), rel=0.15)
    assert norm(l2=0.0) > 1.5 * norm()


def test_the_examples_of_lost_workers_are_trained_by_others(cluster):
    data, test = digits(1500, 500)
    nodes = cluster(merge_every=100, fails=lost_at("train_range", 3, 20, 21), distributed=InTurns)
    together, trained = quality("softmax", data, test, nodes, epochs=10, calibration=0.0)
    assert nodes.groups[0].n_lost == 3
    assert trained.outcome.tally.items == 15_000
    assert together > 0.8


def test_rows_are_not_merged_while_tiles_of_them_are_trained(cluster):
    """A tile is copied, trained and written back: what was merged meanwhile would be taken back, at
    the others as well.
    """
    data = topics()
    nodes = cluster(workers=1)
    quality("ova", data, data, nodes, epochs=1, optimizer="adagrad")
    worker = nodes.groups[0].every[0]
    remote = nodes.training.server.remote_delta(worker)
    with worker.worker.replica.training:
        merging = threading.Thread(target=worker.call, args=("merge", remote))
        merging.start()
        merging.join(0.3)
        assert merging.is_alive()
    merging.join()


@pytest.mark.parametrize("name", ["ns", "ove"])
def test_how_often_rows_are_updated(name):
    """A label is met where it is shown and where it is drawn, and no row oftener than there are
    steps.
    """
    data = topics(400)
    counts = np.bincount(data.labels.ids, minlength=data.n_labels)
    objective = an_objective(name)
    chosen = resolved(ClassifySettings(hidden=8, threads=1, batch_size=4), objective, data)
    part = _strategy_of(data, objective, chosen)
    q = part.sampler.noise
    n = part.plan.n_draws
    lines = counts.sum() / 400 if objective.positives == "single" else 1.0
    expected = np.minimum(
        [c / 400 + lines * (1 - (1 - q[k]) ** n) for k, c in enumerate(counts)], 0.25
    )
    uses = update_rates(part)
    np.testing.assert_allclose(uses["outputs"], expected, rtol=1e-5)
    has_it = np.asarray((data.features != 0).mean(axis=0)).ravel()
    np.testing.assert_allclose(uses["hidden"], np.minimum(has_it, 0.25), rtol=1e-5)


def _strategy_of(data, objective, chosen):
    """How a run with resolved settings trains."""
    config = ClassifierConfiguration(objective, dataclasses.replace(chosen, calibration=0.0))
    run = ClassifierRun(data, config)
    run.allocate()
    return run.trainer.strategy


# ---- what cannot be

REFUSED = {
    Setting("deterministic", True): ("softmax", {"deterministic": True}),
    Setting("optimizer", "lbfgs"): ("softmax", {"optimizer": "lbfgs"}),
    Setting("score", "euclidean"): ("softmax", {"score": "euclidean", "hidden": 8}),
    Setting("max_norm"): ("softmax", {"max_norm": 1.0}),
    Setting("weights", "sparse"): ("ns", {"weights": "sparse"}),
    Setting("optimizer", "rowwise-adagrad"): (
        "softmax",
        {"optimizer": "rowwise-adagrad"},
    ),
}


@pytest.mark.parametrize("setting", REFUSED, ids=str)
def test_settings_that_workers_do_not_support_are_refused(setting, cluster):
    objective, options = REFUSED[setting]
    data = digits(200, 50)[0] if "optimizer" in options else topics()
    with refused(setting.name, "cluster", kind=InapplicableError, value=setting.value):
        train(
            data, an_objective(objective), ClassifySettings(threads=1, **options), cluster=cluster()
        )


def test_merge_every_has_no_effect_on_labels(cluster):
    with refused("merge_every", kind=InapplicableError):
        train(topics(), ova(), settings(weights="sparse"), cluster=cluster(merge_every=5))


def test_a_sampler_with_an_index_is_refused(cluster):
    with refused("sampler", "cluster", kind=InapplicableError, value="search"):
        quality("ldgs", *digits(200, 50), cluster(), sampler="search")


def at_random(name, *, hidden=0, sampler="all", n_labels=61, n_features=20):
    """A model of random parameters, and rows to predict."""
    rng = np.random.default_rng(3)
    objective_class = objectives.find(name)
    objective = objective_class(
        objective_class.Settings(hierarchy="huffman")
        if name == "hs"
        else objective_class.Settings()
    )
    counts = rng.integers(1, 50, n_labels)
    objective.prepare(counts)
    n_outputs = objective.n_outputs(n_labels)
    arrays = {"output": rng.normal(0, 1, (n_outputs, hidden or n_features)).astype(np.float32)}
    arrays["bias"] = rng.normal(0, 1, n_outputs).astype(np.float32)
    if hidden:
        arrays["hidden"] = rng.normal(0, 1, (n_features, hidden)).astype(np.float32)
    schema = DataSchema(n_features, n_labels)
    facts = {"objective": name, "several_labels": False}
    record = {"sampler": sampler, "labels": "all", "scaling": "none"} | objective.settings.record()
    features = rng.normal(0, 1, (300, n_features)).astype(np.float32)
    return Classifier(objective, arrays, schema, counts, record, facts), (
        csr_matrix(features) if hidden else features
    )


def of_topics(**options):
    """A model of sparse weights, and rows to predict."""
    return train(topics(), ova(), settings(**options)).classifier, topics(300, seed=1).features


MODELS = {
    "noise": lambda: at_random("ns", sampler="unigram"),
    "a hidden layer": lambda: at_random("softmax", hidden=8),
    "a path": lambda: at_random("hs", sampler="path"),
    "sparse weights": lambda: of_topics(weights="sparse"),
    "a tree": lambda: of_topics(weights="tree", leaf_size=8),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_best_labels_are_those_of_one_machine(name, tmp_path):
    model, features = MODELS[name]()
    loaded = classifier.load(model.save(tmp_path / "model"))
    expected = [
        np.concatenate(parts)
        for parts in zip(*loaded.iter_top_k(features, 5, threads=1), strict=True)
    ]
    worker = Predictor(travelled(loaded), 5, 1)
    blocks = [
        worker.predict(travelled(features[start : start + 64])) for start in range(0, 300, 64)
    ]
    ids, probabilities = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
    np.testing.assert_array_equal(ids, expected[0])
    # BLAS sums by rows
    np.testing.assert_allclose(
        probabilities, expected[1], rtol=0 if loaded.has_sparse_weights else 2e-5
    )
