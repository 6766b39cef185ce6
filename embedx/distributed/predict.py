"""Prediction by workers: the labels of a model divided over them, or the rows of the data.

If a label's probability is that of its score divided by a sum over all labels, each worker has the output rows of some labels.
It returns the best of them for each input, and the log of their share of the sum; merged, these are the best of all labels.
With other models each worker has the whole model, and predicts blocks of inputs.
"""

import collections
import contextlib
import functools
import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

from embedx.classification import classifier
from embedx.classification.classifier import Classifier
from embedx.distributed.files import SharedFolder, shared
from embedx.distributed.ray_backend import Predictors, ReadFromHead, connected
from embedx.distributed.settings import ClusterSettings
from embedx.engine.sparse_levels import part_of, scores_of
from embedx.evaluation.labels import top_k
from embedx.storage.folder import DESCRIPTION
from embedx.text import cache
from embedx.training.progress import Progress

DEPTH = 2  # blocks of rows that each worker has at a time
BLOCK_FLOATS = 1 << 23  # scores of a block
MAX_ROWS = 1 << 13


class Best(NamedTuple):
    """The best of some labels, for each row."""

    ids: np.ndarray  # int32 (n, k)
    values: np.ndarray  # float (n, k), descending: scores, or logs of what probabilities are proportional to
    log_sum: np.ndarray  # float64 (n,): of the exponentials of the values of all these labels


class SomeLabels:
    """The labels first:last of a model. Of its output rows, which are mapped from the file, no others are read into memory."""

    def __init__(self, folder: SharedFolder, first: int, last: int, k: int) -> None:
        self.found, self.first, self.last, self.k = _loaded(folder), first, last, k
        if self.found.has_sparse_weights:
            (tree,) = self.found.trees
            nodes = (tree.labels >= first) & (tree.labels < last)
            self.level, self.columns = part_of(tree.levels[0], nodes), tree.labels[nodes] - first
        else:
            self.weights = np.ascontiguousarray(self.found.arrays["output"][first:last].T)
            self.bias = np.array(self.found.arrays["bias"][first:last]) if "bias" in self.found.arrays else np.float32(0)

    def predict(self, features: Any) -> Best:
        """The best of these labels for rows of features."""
        values = self.scores(self.found.prepared(features.copy()))  # what was sent is read-only, another type to kernels
        if not self.found.judges_labels_alone:
            values = np.asarray(self.found.objective.log_weight(values, self.found.log_noise(None)[self.first : self.last]))
        highest = values.max(axis=1, keepdims=True).astype(np.float64)
        ids, best = top_k(values, self.k)
        return Best(ids + np.int32(self.first), best, np.log(np.exp(values - highest).sum(axis=1)) + highest[:, 0])

    def scores(self, h: Any) -> np.ndarray:
        """(n, last - first), as those of `Classifier.scores`."""
        if self.found.has_sparse_weights:
            z = np.full((h.shape[0], self.last - self.first), self.found.unseen_score, dtype=np.float32)
            z[:, self.columns] = scores_of(csr_matrix(h, dtype=np.float32), self.level)
            return z
        h = h @ self.found.arrays["hidden"] if "hidden" in self.found.arrays else h
        return np.asarray(h @ self.weights + self.bias, dtype=self.weights.dtype)


class SomeRows:
    """A whole model."""

    def __init__(self, folder: SharedFolder, threads: int, k: int) -> None:
        self.found, self.threads, self.k = _loaded(folder), threads, k

    def predict(self, features: Any) -> tuple[np.ndarray, np.ndarray]:
        """As `Classifier.top_k`, of all rows."""
        ids, p = zip(*self.found.top_k(features.copy(), self.k, threads=self.threads), strict=True)
        return np.concatenate(ids), np.concatenate(p)


def _loaded(folder: SharedFolder) -> Classifier:
    """The model in a folder, wherever this machine has it."""
    return classifier.load(folder.local(cache.default_folder() / "models"))


def divides_labels(found: Classifier) -> bool:
    """Whether labels can be divided."""
    has_rows = not found.is_searched and found.objective.n_rows(found.n_labels) == found.n_labels
    of_itself = found.objective.log_weight(np.zeros((1, 1)), np.zeros(1)) is not None
    return has_rows and of_itself and not found.noise_depends_on_features


def builds_of(found: Classifier, folder: SharedFolder, workers: int, threads: int, k: int) -> list[Any]:
    """What each worker builds."""
    if not divides_labels(found):
        return [functools.partial(SomeRows, folder, threads, k)] * workers
    edges = [found.n_labels * part // workers for part in range(workers + 1)]
    return [functools.partial(SomeLabels, folder, a, b, k) for a, b in itertools.pairwise(edges) if b > a]


def predict(
    cluster: ClusterSettings, found: Classifier, features: Any, k: int, threads: int | None, progress: Progress
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """As `Classifier.top_k`, by workers on a cluster."""
    with connected(cluster, threads, progress) as size:
        place = found.folder.resolve()  # for processes that work elsewhere
        builds = builds_of(found, shared(place, DESCRIPTION, ReadFromHead(place)), size.workers, size.threads, k)
        with contextlib.closing(Predictors(builds, size.threads)) as workers:
            yield from predict_by(workers, len(builds), found, features, k, progress)


def predict_by(
    workers: Any, n_workers: int, found: Classifier, features: Any, k: int, progress: Progress
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """As `Classifier.top_k`, by workers that have what `builds_of` makes; see `Predictors`."""
    n, has_labels = features.shape[0], divides_labels(found)
    width = -(-found.n_labels // n_workers) if has_labels else found.objective.n_rows(found.n_labels)
    size = min(max(1, BLOCK_FLOATS // max(width, 1)), MAX_ROWS)
    under_way: collections.deque[list[Any]] = collections.deque()
    done = 0
    progress.start("predicting", n, " examples")
    for number, start in enumerate(range(0, n + size * DEPTH * n_workers, size)):
        if start < n:
            block = workers.put(features[start : start + size])
            chosen = range(n_workers) if has_labels else [number % n_workers]
            under_way.append([workers.submit(each, block) for each in chosen])
        if under_way and (start >= n or len(under_way) > (DEPTH if has_labels else DEPTH * n_workers)):
            parts = [workers.result(each) for each in under_way.popleft()]
            yield merged(found, parts, k) if has_labels else parts[0]
            done = min(done + size, n)
            progress.update(done)
    progress.finish()


def merged(found: Classifier, parts: Sequence[Best], k: int) -> tuple[np.ndarray, np.ndarray]:
    """The best of all labels, with their probabilities, from the best of each part."""
    ids, values = np.hstack([each.ids for each in parts]), np.hstack([each.values for each in parts])
    by_id = np.argsort(ids, axis=1)  # of equal ones the lower id comes first
    ids, values = (np.take_along_axis(each, by_id, axis=1) for each in (ids, values))
    if not found.judges_labels_alone:  # rounded as `log_softmax` does, which may make labels equal
        highest = values.max(axis=1, keepdims=True)
        log_sum = np.logaddexp.reduce([each.log_sum for each in parts], axis=0)[:, None]
        values = values - highest - (log_sum - highest).astype(values.dtype)
    columns, best = top_k(values, k)
    return np.take_along_axis(ids, columns, axis=1), found.probabilities(best)
