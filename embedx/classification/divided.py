"""Prediction by workers on a cluster: the labels of a model divided over them, or the rows of the data.

Where a label's probability follows from its own score and a term that all labels share, each worker has the output rows of some
labels alone, and tells for each input the best of them and the log of the sum of what the probabilities of all of them are
proportional to; merged, these are the best labels of all. Labels that are found through a tree, or whose probabilities take all
scores, are predicted by workers that have the whole model, a block of inputs after another.
"""

import collections
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy.sparse import csr_matrix

from embedx.classification import classifier
from embedx.classification.classifier import Classifier
from embedx.cluster.files import SharedFolder
from embedx.engine.sparse_levels import part_of, scores_of
from embedx.evaluation.labels import top_k
from embedx.run.progress import Progress
from embedx.text import cache

AT_A_TIME = 2  # blocks of rows that each worker is asked for
BLOCK_FLOATS = 1 << 23  # scores that a worker looks at in one go
MOST_ROWS = 1 << 13


class Best(NamedTuple):
    """The best of some labels, for each row."""

    ids: np.ndarray  # int32 (n, k)
    values: (
        np.ndarray
    )  # float (n, k), descending: scores, or what probabilities are the exponentials of but for a common factor
    log_sum: np.ndarray  # float64 (n,): of the exponentials of the values of all these labels


class Asked(Protocol):
    """Those who answer; see `cluster.ray_nodes.Answering`."""

    def told(self, value: Any) -> Any: ...

    def ask(self, number: int, question: Any) -> Any: ...

    def answer(self, asked: Any) -> Any: ...


@dataclass(frozen=True)
class LabelsOf:
    """Makes what predicts the labels first:last of a model."""

    folder: SharedFolder
    first: int
    last: int
    k: int

    def __call__(self) -> "SomeLabels":
        return SomeLabels(loaded(self.folder), self.first, self.last, self.k)


@dataclass(frozen=True)
class RowsOf:
    """Makes what predicts rows of data by the whole model."""

    folder: SharedFolder
    threads: int
    k: int

    def __call__(self) -> "SomeRows":
        return SomeRows(loaded(self.folder), self.threads, self.k)


class SomeLabels:
    """The labels first:last of a model. Of its output rows, which are mapped from the file, no others are read into memory."""

    def __init__(self, found: Classifier, first: int, last: int, k: int) -> None:
        self.found, self.first, self.last, self.k = found, first, last, k
        self.alone = found.judges_labels_alone
        if found.has_sparse_weights:
            (tree,) = found.trees
            level, labels = tree.levels[0], tree.labels
            nodes = (labels >= first) & (labels < last)
            self.level, self.columns = part_of(level, nodes), labels[nodes] - first
        else:
            self.weights = np.ascontiguousarray(found.arrays["output"][first:last].T)
            self.bias = np.array(found.arrays["bias"][first:last]) if "bias" in found.arrays else None

    def answer(self, features: Any) -> Best:
        """The best of these labels for rows of features."""
        h = self.found.prepared(features.copy())  # what has travelled would be another type to kernels
        values = self.scores(h)
        if not self.alone:
            values = np.asarray(self.found.objective.log_weight(values, self.found.log_noise(None)[self.first : self.last]))
        ids, best = top_k(values, self.k)
        highest = values.max(axis=1, keepdims=True).astype(np.float64)
        log_sum = np.log(np.exp(values - highest).sum(axis=1)) + highest[:, 0]
        return Best(ids + np.int32(self.first), best, log_sum)

    def scores(self, h: Any) -> np.ndarray:
        """(n, last - first), as those of `Classifier.scores`."""
        if self.found.has_sparse_weights:
            z = np.full((h.shape[0], self.last - self.first), self.found.unseen_score, dtype=np.float32)
            z[:, self.columns] = scores_of(csr_matrix(h, dtype=np.float32), self.level)
            return z
        h = h @ self.found.arrays["hidden"] if "hidden" in self.found.arrays else h
        z = h @ self.weights
        return np.asarray(z if self.bias is None else z + self.bias, dtype=self.weights.dtype)


class SomeRows:
    """A whole model."""

    def __init__(self, found: Classifier, threads: int, k: int) -> None:
        self.found, self.threads, self.k = found, threads, k

    def answer(self, features: Any) -> tuple[np.ndarray, np.ndarray]:
        """As `Classifier.top_k`, of all rows."""
        blocks = list(self.found.top_k(features.copy(), self.k, threads=self.threads))
        return np.concatenate([ids for ids, _ in blocks]), np.concatenate([p for _, p in blocks])


def loaded(folder: SharedFolder) -> Classifier:
    """The model in a folder, wherever this machine has it."""
    return classifier.load(folder.local(cache.default_folder() / "models"))


def by_labels(found: Classifier) -> bool:
    """Whether labels can be divided."""
    has_rows = not found.is_searched and found.objective.n_rows(found.n_labels) == found.n_labels
    of_itself = found.objective.log_weight(np.zeros((1, 1)), np.zeros(1)) is not None
    return has_rows and of_itself and not found.noise_depends_on_features


def makers(found: Classifier, folder: SharedFolder, workers: int, threads: int, k: int) -> list[Any]:
    """What each worker makes."""
    if not by_labels(found):
        return [RowsOf(folder, threads, k)] * workers
    edges = [found.n_labels * part // workers for part in range(workers + 1)]
    return [LabelsOf(folder, a, b, k) for a, b in itertools.pairwise(edges) if b > a]


def top_k_divided(
    found: Classifier, features: Any, k: int, asked: Asked, n_workers: int, progress: Progress
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """As `Classifier.top_k`, by workers that `makers` have made."""
    n, divides_labels = features.shape[0], by_labels(found)
    width = -(-found.n_labels // n_workers) if divides_labels else found.objective.n_rows(found.n_labels)
    size = min(max(1, BLOCK_FLOATS // max(width, 1)), MOST_ROWS)
    starts = range(0, n, size)
    under_way: collections.deque[tuple[int, list[Any]]] = collections.deque()
    most = AT_A_TIME if divides_labels else AT_A_TIME * n_workers
    progress.start("predicting", n, " examples")

    def ask(number: int) -> None:
        block = asked.told(features[starts[number] : starts[number] + size])
        whom = range(n_workers) if divides_labels else [number % n_workers]
        under_way.append((starts[number], [asked.ask(each, block) for each in whom]))

    for number in range(min(most, len(starts))):
        ask(number)
    following = len(under_way)
    while under_way:
        start, questions = under_way.popleft()
        answers = [asked.answer(each) for each in questions]
        if following < len(starts):
            ask(following)
            following += 1
        yield merged(found, answers, k) if divides_labels else answers[0]
        progress.update(min(start + size, n))
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
