"""The scores of all labels, and their log-probabilities, by the parameters of a classifier."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy import float32, ndarray

from embedx import samplers
from embedx.classification import familiarity, label_tree, posterior
from embedx.classification.label_tree import LabelTree
from embedx.classification.row_blocks import as_csr, in_blocks, rows_of, threads_for
from embedx.classification.settings import EUCLIDEAN
from embedx.engine import sparse_levels
from embedx.engine.distances import long_inputs, long_rows
from embedx.errors import DataError, SettingError
from embedx.labeled.data import DataSchema
from embedx.labeled.scaling import scaled
from embedx.objectives.contract import Objective
from embedx.runtime.progress import SILENT, Progress
from embedx.samplers.contract import Sampler

# Scores computed at a time.
BLOCK_FLOATS = 1 << 23


@dataclass(repr=False)
class LabelScores:
    """The parameters of a classifier, and the scores of all labels that follow from them."""

    objective: Objective
    arrays: dict[str, ndarray]
    # That of the training data, by which later rows are read.
    schema: DataSchema
    # int64 (n_labels,): how often each label occurs in the training data, with rows held out.
    counts: ndarray
    settings: dict[str, Any] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        sizes = f"{self.n_labels:,} labels, {self.schema.n_features:,} features"
        rows = f"{self.n_training_rows:,} training rows"
        return f"{type(self).__name__}({self.objective.name}, {sizes}, {rows})"

    @property
    def n_labels(self) -> int:
        """The number of labels."""
        return len(self.counts)

    @property
    def n_training_rows(self) -> int:
        """How many training rows there were, with rows held out."""
        return int(self.facts.get("training_rows") or self.facts.get("examples") or 0)

    @property
    def trained_counts(self) -> ndarray:
        """int64 (n_labels,): how often each label occurs in the rows that were trained on."""
        return self.arrays.get("trained_counts", self.counts)

    def name(self, label: int) -> str:
        """The name of a label; its number if it has no name."""
        return self.schema.names[label] if self.schema.names else str(label)

    @cached_property
    def label_names(self) -> ndarray:
        """What labels are called, (n_labels,): their names, or their numbers without names."""
        names = self.schema.names
        return np.arange(self.n_labels) if names is None else np.array(names, str)

    # ---- scores

    def prepared(self, features: Any) -> Any:
        """Features on the scale of the training data, without the number of unknown words."""
        features, _ = familiarity.split_unknown_words(features, self.schema.n_features)
        if features.shape[1] != self.schema.n_features:
            problem = f"{features.shape[1]:,}, but the model has {self.schema.n_features:,}"
            remedy = "give rows with the features of the training data"
            raise DataError("features", None, problem, remedy)
        return scaled(features, self.settings.get("scaling", "none"), self.arrays)

    def scores(self, features: Any) -> ndarray:
        """(n, rows), of the weights' dtype, for features on the scale of the training data; see
        `prepared`. With Gaussian weights they are log-probabilities, averaged over the weights.

        Raises `EmbedxError` where labels are found through a tree.
        """
        if self.has_sparse_weights:
            return self._sparse_scores(features)
        h = self.inputs(features)
        z = self.mean_scores(h)
        if "variance" not in self.arrays:
            return z
        variance = np.asarray(posterior.squared(h) @ self._variances)
        return posterior.log_mean_softmax(z, variance, self._normals)

    def mean_scores(self, h: Any) -> ndarray:
        """The scores of dense weights, or of their means, (n, rows), for what these multiply."""
        z = h @ self._weights
        if "bias" in self.arrays:
            z += self.arrays["bias"]
        return np.asarray(z, self._weights.dtype)

    def inputs(self, features: Any) -> Any:
        """What output vectors are multiplied by, for features on the scale of the training data."""
        h = self._hidden(features)
        return long_inputs(h) if self.by_distance else h

    def _hidden(self, features: Any) -> Any:
        """The values of the hidden layer, or the features without one."""
        if "hidden" not in self.arrays:
            return features
        return features @ self.arrays["hidden"]

    def hidden_values(self, features: Any) -> ndarray:
        """The values of the hidden layer, (n, dim), for features as they are read."""
        return np.asarray(self._hidden(self.prepared(features)))

    @property
    def by_distance(self) -> bool:
        """Whether scores are distances between inputs and the labels' vectors."""
        return self.settings.get("score") == EUCLIDEAN

    @cached_property
    def _output_vectors(self) -> ndarray:
        """float32 (rows, dim): what inputs are multiplied by."""
        output = self.arrays["output"]
        return long_rows(output) if self.by_distance else output

    @cached_property
    def _weights(self) -> ndarray:
        """The output vectors, float32 (dim, rows)."""
        return np.ascontiguousarray(self._output_vectors.T)

    @cached_property
    def _variances(self) -> ndarray:
        """The variances of the output vectors, float32 (dim, rows)."""
        return np.ascontiguousarray(self.arrays["variance"].T)

    @cached_property
    def _normals(self) -> ndarray:
        """What scores are drawn by, float32 (draws, rows)."""
        return posterior.stratified_normals(self.objective.n_rows(self.n_labels))

    def parameters_changed(self) -> None:
        """Forget what was derived from the parameters; to be called when `arrays` has changed."""
        for derived in ("_output_vectors", "_weights", "_variances", "trees", "_has_all_weights"):
            vars(self).pop(derived, None)

    # ---- sparse weights

    @property
    def has_sparse_weights(self) -> bool:
        """Whether labels have sparse weights, in a tree or by themselves, as its only level."""
        return "tree_levels" in self.arrays

    @cached_property
    def trees(self) -> list[LabelTree]:
        """The levels of sparse weights: several, of one tree or more, or one with all labels.

        Raises `EmbedxError` where their arrays do not fit.
        """
        return label_tree.trees_of(
            self.arrays, self.schema.n_features, self.objective.n_rows(self.n_labels)
        )

    @cached_property
    def _has_all_weights(self) -> bool:
        """Whether every label has weights of its own, in the order of labels."""
        n_rows = self.objective.n_rows(self.n_labels)
        return np.array_equal(self.trees[0].labels, np.arange(n_rows))

    @property
    def has_label_tree(self) -> bool:
        """Whether the best labels are found through a tree, without scores of all labels."""
        return self.has_sparse_weights and (len(self.trees) > 1 or len(self.trees[0].levels) > 1)

    def _sparse_scores(self, features: Any) -> ndarray:
        """As `scores`; labels not seen in training have the score that predicts half an occurrence.

        Raises `EmbedxError` where labels are found through a tree.
        """
        if self.has_label_tree:
            problem = "a tree scores the best labels alone, not all"
            raise SettingError("weights", "tree", problem, "use top_k")
        tree = self.trees[0]
        z_seen = sparse_levels.scores_of(as_csr(features), tree.levels[0])
        if self._has_all_weights:
            return z_seen

        half_an_occurrence = 0.5 / int(self.facts.get("examples") or 1)
        z_unseen = self.objective.initial_bias(np.array([half_an_occurrence]), np.array([1.0]))[0]
        z = np.full((features.shape[0], self.n_labels), z_unseen, float32)
        z[:, tree.labels] = z_seen
        return z

    @property
    def has_several_labels(self) -> bool:
        """Whether rows had several labels in training."""
        return bool(self.facts.get("several_labels"))

    @property
    def has_label_probabilities(self) -> bool:
        """Whether the objective gives each label a probability by itself."""
        return self.objective.label_probability(np.zeros((1, 1))) is not None

    @property
    def has_independent_labels(self) -> bool:
        """Whether rows had several labels and the objective gives each a probability by itself."""
        return self.has_several_labels and self.has_label_probabilities

    def log_probability(self, z: ndarray, log_noise: ndarray | None = None) -> ndarray:
        """log p(label | features), (n, n_labels), from the scores of all rows.

        log_noise  that of the same features, which may be left out where it does not depend on them
        """
        if log_noise is None:
            log_noise = self.log_noise(None)
        if not len(z):
            return np.zeros((0, self.n_labels), z.dtype)
        return self.objective.log_probability(z, log_noise)

    def log_noise(self, features: Any) -> ndarray:
        """log of how often each label is noise for scaled inputs, up to a constant.

        float32 (n_labels,), or (n, n_labels) where it depends on them; zeros where probabilities do
        not ask for it.
        """
        if not self.objective.traits.adds_log_noise:
            return np.zeros(len(self.counts), float32)
        # As many as training draws.
        n_draws = min(self.objective.negatives, len(self.counts))
        return self.sampler.log_noise_of(features, n_draws)

    @cached_property
    def sampler(self) -> Sampler:
        """The sampler that training drew by."""
        sampler = samplers.recorded(
            self.settings, replacement=self.settings.get("replacement", False)
        )
        sampler.prepare(self.trained_counts, paths=self.objective.paths())
        sampler.restore(self.arrays)
        return sampler

    def blocks(
        self,
        features: Any,
        progress: Progress = SILENT,
        threads: int | None = None,
        compute: Callable[[ndarray, ndarray], Any] | None = None,
    ) -> Iterator[tuple[slice, Any]]:
        """(rows, their log-probabilities), a block at a time, in order, by several threads.

        compute  gives what is wanted in place of log-probabilities, from the scores and `log_noise`
                 of a block
        """
        compute = compute or self.log_probability
        # What is cached is computed before threads use it.
        _ = self.trees if self.has_sparse_weights else self._weights
        if "variance" in self.arrays:
            _ = self._variances, self._normals
        _ = self.sampler

        def work(rows: slice) -> Any:
            h = self.prepared(rows_of(features, rows))
            return compute(self.scores(h), self.log_noise(h))

        n_threads = threads_for(features, threads)
        return in_blocks(features.shape[0], self.block_size, work, progress, n_threads)

    @property
    def block_size(self) -> int:
        """How many rows are scored at a time."""
        return max(1, BLOCK_FLOATS // max(self.objective.n_rows(self.n_labels), 1))
