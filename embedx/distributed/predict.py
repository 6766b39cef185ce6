"""Prediction by workers: each has the whole model and predicts blocks of the rows."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy import ndarray

from embedx.classification.classifier import Classifier
from embedx.distributed.answers import LostWorkerError, check_best
from embedx.distributed.connection import connected
from embedx.distributed.ray_backend import check_packages, predictions
from embedx.distributed.settings import ClusterSettings
from embedx.errors import LostClusterError
from embedx.runtime.progress import Progress

MAX_ROWS_OF_BLOCK = 1 << 13


class Predictor:
    """The model of a worker, which predicts the k best labels."""

    def __init__(self, model: Classifier, k: int, threads: int) -> None:
        self.model = model
        self.k = k
        self.threads = threads

    def predict(self, features: Any) -> tuple[ndarray, ndarray]:
        """`Classifier.top_k` of all rows."""
        # Arrays from Ray are read-only, which is another type for kernels.
        writeable = features.copy()
        ids, p = zip(*self.model.iter_top_k(writeable, self.k, threads=self.threads), strict=True)
        return np.concatenate(ids), np.concatenate(p)


def predict(
    cluster: ClusterSettings,
    model: Classifier,
    features: Any,
    k: int,
    threads: int | None,
    progress: Progress,
) -> Iterator[tuple[ndarray, ndarray]]:
    """`Classifier.top_k` by workers on a cluster."""
    n = features.shape[0]
    with connected(cluster, threads, progress) as size:
        check_packages([model.objective])
        n_rows = min(-(-n // size.workers), MAX_ROWS_OF_BLOCK)
        blocks = (features[start : start + n_rows] for start in range(0, n, n_rows or 1))
        progress.start("predicting", n, "examples")
        done = 0
        for n_block, answer in predictions(Predictor, model, k, size, blocks):
            yield _checked(answer, n_block, k, model)
            done += n_block
            progress.update(done)
        progress.finish()


def _checked(answer: Any, n_rows: int, k: int, model: Classifier) -> tuple[ndarray, ndarray]:
    """The answer of a worker. Raises `LostClusterError` if it is not valid."""
    try:
        return check_best(answer, n_rows, k, model.n_labels)
    except LostWorkerError as error:
        problem = f"a worker sent an invalid answer: {error}"
        remedy = "start the cluster again, on machines that you trust"
        raise LostClusterError(problem, remedy) from error
