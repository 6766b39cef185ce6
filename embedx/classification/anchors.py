"""Anchors: parameters that training continues from are kept near their old values, `--anchored`."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, diags_array

from embedx.classification import label_tree
from embedx.classification.classifier import Classifier

# Parameters of the output vectors.
OUTPUT_ARRAYS = ("output", "bias")
# What new labels keep of sparse weights that were trained without the old rows (docs/labels.md).
SHARE_OF_NEW_LABELS = 0.8


class Anchor:
    """The classifier that training continues from, near which its parameters are kept.

    Training on new rows alone forgets what only the old rows show. So each parameter is the mean
    of its old and its trained value, old + w (trained - old). For a label with n old and m new of
    all N old and M new rows,

        w = max(√(m / (n + m)), M / (N + M)),

    so that a label without new rows moves too, by the share of the new rows, and yields to new
    labels. Outputs that are no labels have w = √(M / (N + M)). New labels have no old value:
    they are as they were trained.

    The row of a feature in a hidden layer has w = √(m / (n + m)) for n old and m new rows with the
    feature, and labels behind it have m / (n + m) in place of its root, as features move too.
    """

    def __init__(
        self, previous: Classifier, counts: np.ndarray, features: Any, n_outputs: int
    ) -> None:
        """An anchor for new rows of these features, (n_rows, n_features).

        counts     int64 (n_labels,): how often they have each label
        n_outputs  number of outputs
        """
        self._previous_arrays = previous.arrays
        n_rows = features.shape[0]
        share = n_rows / max(n_rows + previous.n_training_rows, 1)
        self._output_weights = np.full(n_outputs, np.sqrt(share), np.float32)
        has_hidden = "hidden" in previous.arrays
        if has_hidden:
            self._hidden_weights = np.sqrt(_shares_of_features(previous, features, share))
        if n_outputs == len(counts):
            previous_counts = np.zeros(len(counts), np.int64)
            previous_counts[: previous.n_labels] = previous.counts
            share_of_label = counts / np.maximum(counts + previous_counts, 1)
            weights = share_of_label if has_hidden else np.sqrt(share_of_label)
            self._output_weights = np.maximum(weights, share).astype(np.float32)

    def applied(self, trained: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Copies of trained parameters, by name, each the mean with its former value."""
        return {name: self._mean(name, array) for name, array in trained.items()}

    def _mean(self, name: str, trained: np.ndarray) -> np.ndarray:
        previous = self._previous_arrays[name]
        weights = self._output_weights if name in OUTPUT_ARRAYS else self._hidden_weights
        weights = weights[: len(previous)]
        mean = trained.copy()
        kept = mean[: len(previous)]
        kept -= previous
        kept *= weights.reshape(-1, *[1] * (kept.ndim - 1))
        kept += previous
        return mean


def _shares_of_features(previous: Classifier, features: Any, share_of_rows: float) -> np.ndarray:
    """The share of new rows among all rows with a feature, float32 (n_features,).

    Old rows are counted by the inverse document frequencies of the model. Without these all
    features have the share of the new rows.
    """
    idf = previous.arrays.get("idf")
    if idf is None:
        return np.full(features.shape[1], share_of_rows, np.float32)
    n_old = (1 + previous.n_training_rows) / np.exp(idf - 1) - 1
    n_new = np.bincount(features.indices, minlength=len(idf))
    return np.asarray(n_new / np.maximum(n_old + n_new, 1), np.float32)


class SparseAnchor:
    """The classifier with sparse weights that training continues from.

    The labels of the new rows are trained on these alone, from zero, and get the mean of their old
    and their new weights, old + w (new - old). For a label with n old and m new rows w is
    m / (n + m); labels without new rows stay as they are. New labels, which were trained without
    the old rows, move by SHARE_OF_NEW_LABELS from the score of a label that does not occur.
    """

    def __init__(self, previous: Classifier, counts: np.ndarray) -> None:
        """An anchor for new rows that have each label so often, int64 (n_labels,)."""
        self._previous_tree = previous.trees[0]
        self._n_features = previous.schema.n_features
        self._first_score = _score_of_absent(previous)
        previous_counts = np.zeros(len(counts), np.int64)
        previous_counts[: previous.n_labels] = previous.counts
        shares = counts / np.maximum(counts + previous_counts, 1)
        shares[previous_counts == 0] = SHARE_OF_NEW_LABELS
        self._shares = shares.astype(np.float32)

    def applied(self, trained: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The arrays of the mean of a trained tree of a single level and the former one."""
        shares = self._shares
        n_labels = len(shares)
        tree = label_tree.trees_of(trained, self._n_features, n_labels)[0]
        previous_biases = self._biases(self._previous_tree, n_labels)
        biases = previous_biases + shares * (self._biases(tree, n_labels) - previous_biases)
        weights = csr_matrix(
            diags_array(1 - shares) @ self._weights(self._previous_tree, n_labels)
            + diags_array(shares) @ self._weights(tree, n_labels),
            dtype=np.float32,
        )
        labels = np.union1d(self._previous_tree.labels, tree.labels)
        mean = label_tree.single_level(labels, weights[labels], biases[labels])
        return label_tree.arrays_of([mean])

    def _weights(self, tree: label_tree.LabelTree, n_labels: int) -> csr_matrix:
        return label_tree.weights_of(tree, n_labels, self._n_features)

    def _biases(self, tree: label_tree.LabelTree, n_labels: int) -> np.ndarray:
        """The biases of all labels, float32 (n_labels,)."""
        biases = np.full(n_labels, self._first_score)
        biases[tree.labels] = tree.levels[0].bias
        return biases


def _score_of_absent(previous: Classifier) -> np.float32:
    """The score of a label that has half an occurrence in the rows of a classifier."""
    half_an_occurrence = np.array([0.5 / max(previous.n_training_rows, 1)])
    return np.float32(previous.objective.initial_bias(half_an_occurrence, np.array([1.0]))[0])


def anchor_of(
    previous: Classifier, counts: np.ndarray, features: Any, n_outputs: int
) -> Anchor | SparseAnchor:
    """The anchor for new rows, see `Anchor`."""
    if previous.has_sparse_weights:
        return SparseAnchor(previous, counts)
    return Anchor(previous, counts, features, n_outputs)
