"""What training starts from: word vectors for a hidden layer, or a trained classifier that learns
new rows and labels.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, diags_array

from embedx import samplers
from embedx.classification import label_tree
from embedx.classification.classifier import Classifier
from embedx.classification.problem import ALL_ROWS, has_label_losses
from embedx.classification.settings import DENSE, INNER_PRODUCT, SPARSE
from embedx.errors import Setting, SettingError, Text, parts_of
from embedx.labeled.data import Labeled
from embedx.objectives.contract import Objective
from embedx.optimizers.lbfgs import Lbfgs
from embedx.runtime.progress import Progress

# Settings that a classifier keeps when training continues.
MODEL_SETTINGS = ("hidden", "score", "scaling", "labels", "sampler", "optimizer", "replacement")
# Others that one with sparse weights keeps.
SPARSE_SETTINGS = ("bias", "weight_threshold", "propensity", "propensity_a", "propensity_b")
# Of these, the ones that may nevertheless be given another value.
MAY_CHANGE = ("optimizer", "labels")
# Parameters of the output rows.
OUTPUT_ARRAYS = ("output", "bias")
TRAIN_TOGETHER = "train on the old and the new rows together"
# What new labels keep of sparse weights that were trained without the old rows (docs/labels.md).
SHARE_OF_NEW_LABELS = 0.8


def word_vectors(
    path: str, hidden: int | None, data: Labeled, progress: Progress
) -> tuple[np.ndarray, np.ndarray]:
    """The feature ids of words that have vectors in a file, and these, float32 (n, dim).

    They are scaled by one factor, so that their elements are as large on average as those that a
    hidden layer starts from.
    """
    from embedx.vectors.model import load

    vocabulary = data.schema.vocabulary
    if vocabulary is None:
        raise SettingError("pretrained", path, "these features are not words", "leave it out")
    pretrained = load(path, progress)
    if hidden not in (None, pretrained.vector_size):
        size = f"vectors of {pretrained.vector_size} dimensions for "
        remedy = ("leave ", Setting("hidden"), " out")
        raise SettingError("pretrained", path, (size, Setting("hidden", hidden)), remedy)

    features = [k for k, word in enumerate(vocabulary) if word in pretrained]
    progress.note(f"{path}: vectors of {len(features):,} of {len(vocabulary):,} words")
    if not features:
        none = f"has none of the {len(vocabulary):,} words"
        check = ("check ", Setting("lowercase"), ", or give another file")
        raise SettingError("pretrained", path, none, check)

    rows = [pretrained.index(vocabulary[k]) for k in features]
    vectors = np.asarray(pretrained.vectors[rows], np.float32)
    return np.array(features), _scaled_as_hidden(vectors)


def _scaled_as_hidden(vectors: np.ndarray) -> np.ndarray:
    """Vectors by one factor, float32 (n, dim), so that the root of their mean square is that of
    numbers that are uniform within ±1/√dim.
    """
    dim = vectors.shape[1]
    size = np.sqrt(np.mean(np.square(vectors, dtype=np.float64)))
    return (vectors / (max(size, 1e-30) * np.sqrt(3 * dim))).astype(np.float32)


def settings_to_continue(
    before: Classifier, name: str | None, options: Mapping[str, Any], path: str
) -> dict[str, Any]:
    """The options by which a classifier, read from `path`, learns new rows.

    They are its own where they are part of it, and those of the user.

    Raises `EmbedxError` where weights cannot be trained further, or an option contradicts the
    model.
    """
    _check_can_continue(before, name, path)
    kept = _kept_settings(before)
    kept["weights"] = SPARSE if before.has_sparse_weights else DENSE
    if kept.get("optimizer") == Lbfgs.name:
        kept["optimizer"] = options.get("optimizer", "adagrad")
    _check_agreement(kept, options, path)
    continued = without_defaults(kept, before.objective)
    if before.has_sparse_weights:
        if options.get("anchored") is False:
            problem = (
                "its sparse weights are trained anew on the new rows, and only their mean with the"
                " old weights keeps these"
            )
            leave_out = ("leave ", Setting("anchored"), " out")
            raise SettingError("start", path, problem, leave_out)
        return {**continued, **options}

    bias = "none"
    if "bias" in before.arrays:
        bias = "frequency"
        if options.get("bias") == "none":
            remedy = ("leave ", Setting("bias"), f" out, or {TRAIN_TOGETHER}")
            raise SettingError("start", path, "has biases", remedy)
    return {**continued, "bias": bias, **options}


def _check_can_continue(before: Classifier, name: str | None, path: str) -> None:
    """Raise `SettingError` for weights that cannot continue, or where another objective is
    named.
    """
    check_weights(before, path)
    if name not in (None, before.objective.name):
        trained_with = ("was trained with ", Setting("objective", before.objective.name))
        leave_out = ("leave ", Setting("objective"), f" out, or {TRAIN_TOGETHER}")
        raise SettingError("start", path, trained_with, leave_out)


def check_weights(before: Classifier, path: str | None) -> None:
    """Raise `SettingError` for trees over labels, and for sparse weights that were trained one
    example after another.
    """
    if not before.has_sparse_weights:
        return
    if before.has_label_tree:
        problem: Text = "its labels are in a tree, which is fixed"
        first_model: Text = (Setting("weights", SPARSE), ", whose weights can continue")
    elif not has_label_losses(before.objective) or before.settings["sampler"] != ALL_ROWS:
        problem = "its sparse weights were trained one example after another"
        first_model = (Setting("weights", DENSE), " ", Setting("optimizer", "adagrad"))
    else:
        return
    remedy = (TRAIN_TOGETHER, ", or train the first model with ", *parts_of(first_model))
    raise SettingError("start", path, problem, remedy)


def _kept_settings(before: Classifier) -> dict[str, Any]:
    """The settings of a classifier that are part of it: its own, of its sampler and objective."""
    recorded = {"score": INNER_PRODUCT, **before.settings}
    of_sampler = samplers.own_options(recorded)
    of_objective = dataclasses.asdict(before.objective.settings)
    names: tuple[str, ...] = (*MODEL_SETTINGS, *of_sampler, *of_objective)
    if before.has_sparse_weights:
        names += SPARSE_SETTINGS
    return {name: recorded[name] for name in names if recorded.get(name) is not None}


def _check_agreement(kept: Mapping[str, Any], options: Mapping[str, Any], path: str) -> None:
    """Raise `SettingError` for an option that has another value in the model, and must not."""
    for name, value in options.items():
        if name in kept and value != kept[name] and name not in MAY_CHANGE:
            contradiction = (Setting(name), f" is {kept[name]} in that model")
            raise SettingError("start", path, contradiction, f"leave it out, or {TRAIN_TOGETHER}")


def without_defaults(options: Mapping[str, Any], objective: Objective) -> dict[str, Any]:
    """The options but for those of the objective that have their default anyway, such as a number
    of negatives where none are drawn.
    """
    defaults = dataclasses.asdict(type(objective).Settings())
    return {
        name: value
        for name, value in options.items()
        if name not in defaults or name in objective.label_defaults or value != defaults[name]
    }


class Anchor:
    """The classifier that training continues from, near which its parameters are kept.

    Training on new rows alone forgets what only the old rows show. So each parameter is the mean
    of its old and its trained value, old + w (trained - old). For a label with n old and m new of
    all N old and M new rows,

        w = max(√(m / (n + m)), M / (N + M)),

    so that a label without new rows moves too, by the share of the new rows, and yields to new
    labels. Output rows that are no labels have w = √(M / (N + M)). New labels have no old value:
    they are as they were trained.

    The row of a feature in a hidden layer has w = √(m / (n + m)) for n old and m new rows with the
    feature, and labels behind it have m / (n + m) in place of its root, as features move too.
    """

    def __init__(
        self, before: Classifier, counts: np.ndarray, features: Any, n_outputs: int
    ) -> None:
        """An anchor for new rows of these features, (n_rows, n_features).

        counts     int64 (n_labels,): how often they have each label
        n_outputs  how many rows the table of outputs has
        """
        self._former = before.arrays
        n_rows = features.shape[0]
        share = n_rows / max(n_rows + before.n_training_rows, 1)
        self._output_weights = np.full(n_outputs, np.sqrt(share), np.float32)
        has_hidden = "hidden" in before.arrays
        if has_hidden:
            self._hidden_weights = np.sqrt(_shares_of_features(before, features, share))
        if n_outputs == len(counts):
            former_counts = np.zeros(len(counts), np.int64)
            former_counts[: before.n_labels] = before.counts
            share_of_label = counts / np.maximum(counts + former_counts, 1)
            weights = share_of_label if has_hidden else np.sqrt(share_of_label)
            self._output_weights = np.maximum(weights, share).astype(np.float32)

    def applied(self, trained: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Copies of trained parameters, by name, each the mean with its former value."""
        return {name: self._mean(name, array) for name, array in trained.items()}

    def _mean(self, name: str, trained: np.ndarray) -> np.ndarray:
        former = self._former[name]
        weights = self._output_weights if name in OUTPUT_ARRAYS else self._hidden_weights
        weights = weights[: len(former)]
        mean = trained.copy()
        kept = mean[: len(former)]
        kept -= former
        kept *= weights.reshape(-1, *[1] * (kept.ndim - 1))
        kept += former
        return mean


def _shares_of_features(before: Classifier, features: Any, share_of_rows: float) -> np.ndarray:
    """The share of new rows among all rows with a feature, float32 (n_features,).

    Old rows are counted by the inverse document frequencies of the model. Without these all
    features have the share of the new rows.
    """
    idf = before.arrays.get("idf")
    if idf is None:
        return np.full(features.shape[1], share_of_rows, np.float32)
    n_old = (1 + before.n_training_rows) / np.exp(idf - 1) - 1
    n_new = np.bincount(features.indices, minlength=len(idf))
    return np.asarray(n_new / np.maximum(n_old + n_new, 1), np.float32)


class SparseAnchor:
    """The classifier with sparse weights that training continues from.

    The labels of the new rows are trained on these alone, from zero, and get the mean of their old
    and their new weights, old + w (new - old). For a label with n old and m new rows w is
    m / (n + m); labels without new rows stay as they are. New labels, which were trained without
    the old rows, move by SHARE_OF_NEW_LABELS from the score of a label that does not occur.
    """

    def __init__(self, before: Classifier, counts: np.ndarray) -> None:
        """An anchor for new rows that have each label so often, int64 (n_labels,)."""
        self._former = before.trees[0]
        self._n_features = before.known.n_features
        self._first_score = _score_of_absent(before)
        former_counts = np.zeros(len(counts), np.int64)
        former_counts[: before.n_labels] = before.counts
        shares = counts / np.maximum(counts + former_counts, 1)
        shares[former_counts == 0] = SHARE_OF_NEW_LABELS
        self._shares = shares.astype(np.float32)

    def applied(self, trained: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The arrays of the mean of a trained tree of a single level and the former one."""
        shares = self._shares
        n_labels = len(shares)
        tree = label_tree.trees_of(trained, self._n_features, n_labels)[0]
        former_biases = self._biases(self._former, n_labels)
        biases = former_biases + shares * (self._biases(tree, n_labels) - former_biases)
        weights = csr_matrix(
            diags_array(1 - shares) @ self._weights(self._former, n_labels)
            + diags_array(shares) @ self._weights(tree, n_labels),
            dtype=np.float32,
        )
        labels = np.union1d(self._former.labels, tree.labels)
        mean = label_tree.single_level(labels, weights[labels], biases[labels])
        return label_tree.arrays_of([mean])

    def _weights(self, tree: label_tree.LabelTree, n_labels: int) -> csr_matrix:
        return label_tree.weights_of(tree, n_labels, self._n_features)

    def _biases(self, tree: label_tree.LabelTree, n_labels: int) -> np.ndarray:
        """The biases of all labels, float32 (n_labels,)."""
        biases = np.full(n_labels, self._first_score)
        biases[tree.labels] = tree.levels[0].bias
        return biases


def _score_of_absent(before: Classifier) -> np.float32:
    """The score of a label that has half an occurrence in the rows of a classifier."""
    half_an_occurrence = np.array([0.5 / max(before.n_training_rows, 1)])
    return np.float32(before.objective.initial_bias(half_an_occurrence, np.array([1.0]))[0])


def anchor_of(
    before: Classifier, counts: np.ndarray, features: Any, n_outputs: int
) -> Anchor | SparseAnchor:
    """The anchor for new rows, see `Anchor`."""
    if before.has_sparse_weights:
        return SparseAnchor(before, counts)
    return Anchor(before, counts, features, n_outputs)


def check_new_labels(before: Classifier, n_labels: int) -> None:
    """Raise `EmbedxError` where a classifier cannot have more labels: each of its output rows is to
    be that of a label.
    """
    n_new = n_labels - before.n_labels
    if n_new <= 0:
        return
    has_row_per_label = before.objective.n_rows(n_labels) == n_labels
    has_noise_tree = any(name.startswith("noise_") for name in before.arrays)
    if not has_row_per_label or has_noise_tree:
        problem = f"does not have {n_new:,} of the labels, but its tree over labels is fixed"
        another = (", or start from ", Setting("objective", "softmax"), " or ova")
        raise SettingError("start", None, problem, (TRAIN_TOGETHER, *another))
