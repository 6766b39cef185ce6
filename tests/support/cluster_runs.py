"""Classifiers trained by workers of a cluster."""

import dataclasses

from embedx import objectives
from embedx.classification.objective_choice import ClassifierConfiguration
from embedx.classification.run import ClassifierRun
from embedx.classification.settings import ClassifySettings
from embedx.distributed.connection import ClusterSize
from embedx.distributed.refusals import check_classifier
from embedx.distributed.settings import ClusterSettings
from embedx.distributed.strategy import Distributed, by_workers
from embedx.training import life


@dataclasses.dataclass
class Nodes:
    """A cluster. Once training has begun, `groups` are the workers of each of its strategies, and
    `training` is the last of these.
    """

    settings: ClusterSettings
    size: ClusterSize
    groups: list = dataclasses.field(default_factory=list)
    training: Distributed | None = None


def train(data, objective, settings, *, cluster=None, checkpoints=None, **options):
    """A run here, or on a cluster."""
    wrap = None if cluster is None else by_workers(cluster.settings, cluster.size)
    run = ClassifierRun(data, ClassifierConfiguration(objective, settings), wrap=wrap, **options)
    if cluster is not None:
        check_classifier(cluster.settings, run.settings, run.objective)
    return life.train_model(run, checkpoints)


def assert_same_bytes(a, b):
    assert a.arrays.keys() == b.arrays.keys()
    for name, array in a.arrays.items():
        assert array.dtype == b.arrays[name].dtype
        assert array.tobytes() == b.arrays[name].tobytes(), name


def an_objective(name):
    objective_class = objectives.find(name)
    return objective_class(objective_class.Settings())


def quality(name, data, test, nodes=None, **options):
    """P@1 on test data."""
    chosen = ClassifySettings(
        **({"threads": 1, "learning_rate": 0.3, "batch_size": 20, "weights": "dense"} | options)
    )
    trained = train(data, an_objective(name), chosen, cluster=nodes)
    return trained.classifier.evaluate(test)["p@1"], trained
