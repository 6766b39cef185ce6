"""What training starts from: word vectors for a hidden layer, or a trained classifier that learns
new rows and labels.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from embedx import samplers
from embedx.classification.classifier import Classifier
from embedx.classification.settings import DENSE, INNER_PRODUCT
from embedx.errors import Setting, SettingError
from embedx.labeled.data import Labeled
from embedx.objectives.contract import Objective
from embedx.optimizers.lbfgs import Lbfgs
from embedx.runtime.progress import Progress

# Settings that a classifier keeps when training continues.
MODEL_SETTINGS = ("hidden", "score", "scaling", "labels", "sampler", "optimizer", "replacement")
# Of these, the ones that may nevertheless be given another value.
MAY_CHANGE = ("optimizer", "labels")
# Parameters of the output rows.
OUTPUT_ARRAYS = ("output", "bias")
TRAIN_TOGETHER = "train on the old and the new rows together"


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
    if kept.get("optimizer") == Lbfgs.name:
        kept["optimizer"] = options.get("optimizer", "adagrad")
    _check_agreement(kept, options, path)

    bias = "none"
    if "bias" in before.arrays:
        bias = "frequency"
        if options.get("bias") == "none":
            remedy = ("leave ", Setting("bias"), f" out, or {TRAIN_TOGETHER}")
            raise SettingError("start", path, "has biases", remedy)
    continued = without_defaults(kept, before.objective)
    return {**continued, "weights": DENSE, "bias": bias, **options}


def _check_can_continue(before: Classifier, name: str | None, path: str) -> None:
    """Raise `SettingError` for sparse weights, or where another objective is named."""
    if before.has_sparse_weights:
        dense = (Setting("weights", DENSE), " ", Setting("optimizer", "adagrad"))
        problem = "its sparse weights have only the features of its own rows"
        remedy = (TRAIN_TOGETHER, ", or train the first model with ", dense)
        raise SettingError("start", path, problem, remedy)
    if name not in (None, before.objective.name):
        trained_with = ("was trained with ", Setting("objective", before.objective.name))
        leave_out = ("leave ", Setting("objective"), f" out, or {TRAIN_TOGETHER}")
        raise SettingError("start", path, trained_with, leave_out)


def _kept_settings(before: Classifier) -> dict[str, Any]:
    """The settings of a classifier that are part of it: its own, of its sampler and objective."""
    recorded = {"score": INNER_PRODUCT, **before.settings}
    of_sampler = samplers.own_options(recorded)
    of_objective = dataclasses.asdict(before.objective.settings)
    names = (*MODEL_SETTINGS, *of_sampler, *of_objective)
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
    labels. The hidden layer, and output rows that are no labels, have w = √(M / (N + M)). New
    labels have no old value: they are as they were trained.
    """

    def __init__(self, before: Classifier, counts: np.ndarray, n_rows: int, n_outputs: int) -> None:
        """An anchor for these new rows.

        counts     int64 (n_labels,): how often they have each label
        n_outputs  how many rows the table of outputs has
        """
        self._former = before.arrays
        share = n_rows / max(n_rows + before.n_training_rows, 1)
        self._other_weight = np.float32(np.sqrt(share))
        self._output_weights = np.full(n_outputs, self._other_weight)
        if n_outputs == len(counts):
            former_counts = np.zeros(len(counts), np.int64)
            former_counts[: before.n_labels] = before.counts
            share_of_label = counts / np.maximum(counts + former_counts, 1)
            self._output_weights = np.maximum(np.sqrt(share_of_label), share).astype(np.float32)

    def applied(self, trained: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Copies of trained parameters, by name, each the mean with its former value."""
        return {name: self._mean(name, array) for name, array in trained.items()}

    def _mean(self, name: str, trained: np.ndarray) -> np.ndarray:
        former = self._former[name]
        weights = np.full(len(former), self._other_weight)
        if name in OUTPUT_ARRAYS:
            weights = self._output_weights[: len(former)]
        mean = trained.copy()
        kept = mean[: len(former)]
        kept -= former
        kept *= weights.reshape(-1, *[1] * (kept.ndim - 1))
        kept += former
        return mean


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
