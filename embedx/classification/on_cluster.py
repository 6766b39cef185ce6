"""Classification by workers on a cluster: what each is told, and by what training is divided.

by examples   every worker has the parameters, trains minibatches of its own and merges rows    (strategies)
by labels     every worker trains some labels to the end of their training, bit by bit the same  (shared_labels)
"""

import copy
import dataclasses
import math
import platform
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from embedx import optimizers
from embedx.classification.settings import ClassifySettings
from embedx.classification.strategies import Classification
from embedx.classification.tree_training import TreePlan, TreeTraining, memory_of_thread
from embedx.classification.weights import is_label_by_label
from embedx.cluster.ray_nodes import Size
from embedx.cluster.run import Cluster
from embedx.cluster.settings import ClusterSettings
from embedx.engine.examples import Examples, examples_of
from embedx.errors import EmbedxError
from embedx.labeled.data import Labels
from embedx.objectives.contract import Objective
from embedx.optimizers.contract import UpdateRule
from embedx.run.memory import amount, available_memory, n_bytes
from embedx.samplers.contract import Sampler

MERGES = 200  # at least so many by each worker over a run
FEWEST, MOST = 2_000, 200_000  # examples that a thread trains between two merges
RANGES = 32  # that each thread of a worker gets of the labels of a level, so that all end at about the same time


@dataclass(frozen=True)
class ExamplesPart:
    """All that a worker needs to train minibatches of the examples."""

    way: type[Classification]
    objective: Objective
    settings: ClassifySettings
    sampler: Sampler
    examples: Examples
    optimizer: UpdateRule
    counts: np.ndarray
    n_features: int
    warm_up: Sampler | None

    def __call__(self, threads: int) -> Classification:
        """The strategy; its parameters are not those of the run."""
        own = copy.deepcopy(self)  # what has travelled cannot be written to, and would be another type to kernels
        settings = dataclasses.replace(own.settings, threads=threads)
        made = own.way(
            own.objective, settings, own.sampler, own.examples, own.optimizer, own.counts, own.n_features, own.warm_up
        )
        check_memory(2 * n_bytes((made.outputs, made.hidden)), "its parameters and for what it knows of those in common")
        return made


@dataclass(frozen=True)
class LabelsPart:
    """All that a worker needs to train tiles of labels."""

    objective: Objective
    settings: ClassifySettings
    features: csr_matrix
    labels: Labels
    optimizer: UpdateRule
    counts: np.ndarray
    trees: list[TreePlan]

    def __call__(self, threads: int) -> TreeTraining:
        """The strategy; the levels that are trained are not those of the run."""
        n, n_features = self.features.shape
        optimizer = optimizers.OPTIMIZERS[str(self.settings.optimizer)]
        of_threads = threads * memory_of_thread(n, int(self.features.nnz), n_features, optimizer)
        of_examples = 2 * n_bytes([self.features.data, self.features.indices, self.labels.ids])
        check_memory(of_threads + of_examples, "the examples and for the labels that its threads train at a time")
        own = copy.deepcopy(self)  # what has travelled cannot be written to, and would be another type to kernels
        settings = dataclasses.replace(own.settings, threads=threads)
        examples = examples_of(own.features, own.labels)
        return TreeTraining(own.objective, settings, own.features, examples, own.optimizer, own.counts, own.trees)


def check_memory(need: int, what: str) -> None:
    """Raise `EmbedxError` if a worker's machine has not so much memory."""
    have = available_memory()
    if need > have:
        raise EmbedxError(
            f"{platform.node()}: a worker needs {amount(need)} for {what}, more than the {amount(have)} there are; fewer "
            "--workers or --threads need less"
        )


def by_examples(cluster: Cluster, inner: Classification) -> Any:
    """How workers train what `inner` would train here."""
    part = ExamplesPart(
        type(inner), inner.objective, inner.settings, inner.sampler, inner.examples, inner.optimizer, inner.counts,
        inner.n_features, inner.warm_up,
    )  # fmt: skip
    epochs = float(inner.settings.epochs or 1)
    per_range = stretches_in_range(cluster.settings.merge_every, inner.stretch, inner.n * epochs, cluster.size)
    return cluster.divided(inner, part, per_range)


def by_labels(cluster: Cluster, inner: TreeTraining, labels: Labels) -> Any:
    """How workers train the tiles of `inner`, which puts them together."""
    part = LabelsPart(inner.objective, inner.settings, inner.features, labels, inner.optimizer, inner.counts, list(inner.plans))
    n_ranges = RANGES * cluster.size.workers * cluster.size.threads
    return cluster.divided(inner, part, max(cluster.size.threads, inner.n_stretches // n_ranges))


def stretches_in_range(merge_every: int | None, stretch: int, n_examples: float, size: Size) -> int:
    """How many stretches, of so many examples, a worker trains before it merges; n_examples is how many it all are."""
    wanted = merge_every
    if wanted is None:
        usual = n_examples / size.workers / MERGES
        wanted = size.threads * math.ceil(min(max(usual / size.threads, FEWEST), MOST))
    return max(1, round(wanted / stretch))


def check(cluster: ClusterSettings, settings: ClassifySettings, objective: Objective, sampler: Sampler) -> None:
    """Raise `EmbedxError` for what workers apart from each other cannot do; the settings are resolved."""
    if settings.optimizer == "lbfgs":
        raise EmbedxError(
            "--optimizer lbfgs does not apply with --cluster: it takes the gradient of all data at once; take adagrad"
        )
    if is_label_by_label(settings, objective):
        if cluster.merge_every is not None:
            raise EmbedxError("--merge-every has no effect where labels are trained each by itself; leave it out")
        return
    if settings.deterministic:
        raise EmbedxError(
            "--deterministic does not apply with --cluster, whose workers merge as they come; leave out one of them, or take "
            "--objective ova --weights sparse, whose labels are trained each by itself"
        )
    if sampler.candidates == "retrieved":
        others = [name for name in objective.samplers() if name != sampler.name]
        instead = f"take --sampler {' or '.join(others)}" if others else "take another --objective"
        raise EmbedxError(f"--sampler {sampler.name} does not apply with --cluster: its index is of one machine; {instead}")
    if settings.weights == "sparse":
        raise EmbedxError(
            f"--weights sparse with --objective {objective.name} does not apply with --cluster: such rows are not merged; take "
            "--weights dense, --hidden 100, or --objective ova"
        )
    if settings.max_norm is not None:
        raise EmbedxError("--max-norm does not apply with --cluster: merged rows may be longer; take --l2")
    if sampler.candidates == "all" and optimizers.OPTIMIZERS[str(settings.optimizer)].keeps == "row":
        raise EmbedxError(
            f"--optimizer {settings.optimizer} does not apply with --cluster where all labels compete; take adagrad"
        )
