"""Prediction by workers: each has the whole model and predicts blocks of the rows."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy import ndarray

from embedx.classification.classifier import Classifier
from embedx.distributed.ray_backend import connected, predictions
from embedx.distributed.settings import ClusterSettings
from embedx.training.progress import Progress

MAX_ROWS = 1 << 13  # of a block


class Predictor:
    """The model of a worker, which predicts the k best labels."""

    def __init__(self, model: Classifier, k: int, threads: int) -> None:
        self.model, self.k, self.threads = model, k, threads

    def predict(self, features: Any) -> tuple[ndarray, ndarray]:
        """As `Classifier.top_k`, of all rows."""
        # arrays that Ray sends are read-only, which is another type to kernels
        writeable = features.copy()
        ids, p = zip(*self.model.top_k(writeable, self.k, threads=self.threads), strict=True)
        return np.concatenate(ids), np.concatenate(p)


def predict(
    cluster: ClusterSettings,
    found: Classifier,
    features: Any,
    k: int,
    threads: int | None,
    progress: Progress,
) -> Iterator[tuple[ndarray, ndarray]]:
    """As `Classifier.top_k`, by workers on a cluster."""
    n = features.shape[0]
    with connected(cluster, threads, progress) as size:
        n_rows = min(-(-n // size.workers), MAX_ROWS)
        blocks = (features[start : start + n_rows] for start in range(0, n, n_rows or 1))
        progress.start("predicting", n, " examples")
        for number, best in enumerate(predictions(Predictor, found, k, size, blocks), 1):
            yield best
            progress.update(min(number * n_rows, n))
        progress.finish()
