"""A trained classifier: its parameters and scores, with predictions, metrics, and its folder."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy import float32, ndarray
from scipy.sparse import csr_matrix

from embedx import samplers
from embedx.checks import whole_top_k
from embedx.classification import (
    familiarity,
    label_metrics,
    label_tree,
    model_folder,
    neighbours,
    posterior,
    predictions,
    ranking,
)
from embedx.classification.familiarity import NONE_OF_THESE
from embedx.classification.label_tree import LabelTree
from embedx.classification.neighbours import Blend, Neighbours
from embedx.classification.row_blocks import (
    Best,
    as_csr,
    in_blocks,
    joined_blocks,
    rows_of,
    threads_for,
)
from embedx.classification.settings import EUCLIDEAN, TREE
from embedx.engine import sparse_levels
from embedx.engine.distances import long_inputs, long_rows
from embedx.errors import DataError, SettingError
from embedx.evaluation.f1 import LabelCounts
from embedx.labeled.data import DataSchema, Labeled
from embedx.labeled.rows_from_python import features_of
from embedx.labeled.scaling import scaled
from embedx.objectives.contract import Objective, log_softmax
from embedx.pages.notebook import facts_table
from embedx.runtime.progress import SILENT, Progress
from embedx.samplers.contract import Sampler

# Scores computed at a time.
BLOCK_FLOATS = 1 << 23
# Names of labels in a notebook.
MAX_SHOWN = 10
# Cached properties that follow from the arrays.
DERIVED_FROM_ARRAYS = (
    "output_vectors",
    "_weights",
    "_variances",
    "trees",
    "_has_all_weights",
    "neighbours",
)


@dataclass(repr=False)
class Classifier:
    """A trained classifier, as `embedx classify` saves it: parameters, and the scores that follow.

    Methods that are not about parameters call functions: `ranking` has the best labels of rows,
    `predictions` the labels above a threshold, `label_metrics` the metrics on labelled rows.
    """

    objective: Objective
    arrays: dict[str, ndarray]
    # That of the training data, by which later rows are read.
    schema: DataSchema
    # int64 (n_labels,): how often each label occurs in the training data, held-out rows included.
    counts: ndarray
    settings: dict[str, Any] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        sizes = f"{self.n_labels:,} labels, {self.schema.n_features:,} features"
        rows = f"{self.n_training_rows:,} training rows"
        return f"{type(self).__name__}({self.objective.name}, {sizes}, {rows})"

    def _repr_html_(self) -> str:
        """A table, for notebooks."""
        columns = self.schema.columns
        is_standardised = columns is not None and not columns.text  # the numbers of a table
        facts = {
            "objective": self.objective.name,
            "labels": self.n_labels,
            "features": self.schema.n_features,
            "training rows": self.n_training_rows,
            "scaling": "standard" if is_standardised else self.settings.get("scaling", "none"),
            "first labels": ", ".join(map(self.name, range(min(self.n_labels, MAX_SHOWN)))),
        }
        return facts_table(facts)

    @property
    def n_labels(self) -> int:
        """The number of labels."""
        return len(self.counts)

    @property
    def n_outputs(self) -> int:
        """The number of outputs, each with a vector and a score: one for a label, or for a node of
        the objective's tree.
        """
        return self.objective.n_outputs(self.n_labels)

    @property
    def n_training_rows(self) -> int:
        """The number of training rows, held-out rows included."""
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
        log_p = self.objective.log_mean_probability(z, variance)
        if log_p is None:
            return posterior.log_mean_softmax(z, variance, self._normals)
        return log_p.astype(z.dtype)

    def mean_scores(self, h: Any) -> ndarray:
        """The scores by dense weights or their means, (n, n_outputs), for what these multiply."""
        z = h @ self._weights
        if "bias" in self.arrays:
            z += self.arrays["bias"]
        return np.asarray(z, self._weights.dtype)

    def inputs(self, features: Any) -> Any:
        """The values of the hidden layer, or the features without one, in the form that scores
        take, for features on the scale of the training data.
        """
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
    def output_vectors(self) -> ndarray:
        """A vector for each output, float32 (n_outputs, dim), in the form that scores take."""
        output = self.arrays["output"]
        return long_rows(output) if self.by_distance else output

    @cached_property
    def _weights(self) -> ndarray:
        """The output vectors, float32 (dim, n_outputs)."""
        return np.ascontiguousarray(self.output_vectors.T)

    @cached_property
    def _variances(self) -> ndarray:
        """The variances of the output vectors, float32 (dim, n_outputs)."""
        return np.ascontiguousarray(self.arrays["variance"].T)

    @cached_property
    def _normals(self) -> ndarray:
        """What scores are drawn by, float32 (draws, n_outputs)."""
        return posterior.stratified_normals(self.n_outputs)

    def parameters_changed(self) -> None:
        """Forget what was derived from the parameters; to be called when `arrays` has changed."""
        for derived in DERIVED_FROM_ARRAYS:
            vars(self).pop(derived, None)

    # ---- sparse weights

    @property
    def has_sparse_weights(self) -> bool:
        """Whether weights are sparse."""
        return label_tree.is_in(self.arrays)

    @cached_property
    def trees(self) -> list[LabelTree]:
        """The trees that sparse weights are stored as. Raises `EmbedxError` where their arrays do
        not fit.
        """
        return label_tree.trees_of(self.arrays, self.schema.n_features, self.n_outputs)

    @cached_property
    def _has_all_weights(self) -> bool:
        """Whether every label has weights of its own, in the order of labels."""
        return np.array_equal(self.trees[0].labels, np.arange(self.n_outputs))

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
            raise SettingError("weights", TREE, problem, "use top_k")
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
        """log p(label | features), (n, n_labels), from the scores of all outputs.

        log_noise  that of the same features, which may be left out where it does not depend on them
        """
        if log_noise is None:
            log_noise = self.log_noise(None)
        if not len(z):
            return np.zeros((0, self.n_labels), z.dtype)
        if "variance" in self.arrays:
            return log_softmax(z)
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
        return max(1, BLOCK_FLOATS // max(self.n_outputs, 1))

    # ---- the best labels

    def iter_top_k(
        self,
        features: Any,
        k: int = 5,
        progress: Progress = SILENT,
        threads: int | None = None,
        abstain: bool = False,
    ) -> Iterator[Best]:
        """(ids int32 (n, k), probabilities float32 (n, k)) for each block of rows.

        The probability is that the label is among those of the row, calibrated if rows were held
        out of training. Without calibration, labels have independent probabilities if training rows
        had several labels and the objective defines them; else they sum to one, over the labels
        that a tree finds, if there is one.

        Calibrated probabilities fall with the share of unknown features, and those of a row without
        any known feature are at most the frequencies of labels in training. With `abstain` the id
        `familiarity.NONE_OF_THESE`, no label of the model is right, is among the answers.
        """
        return ranking.iter_top_k(self, features, k, progress, threads, abstain)

    def searched_top_k(
        self,
        features: Any,
        k: int = 5,
        share: float = 0.05,
        progress: Progress = SILENT,
        threads: int | None = None,
    ) -> Iterator[Best]:
        """`iter_top_k` with only this share of all labels scored for each row.

        Builds an index, and reports the recall of the true k best labels on the first RECALLED
        rows. Probabilities sum to one over the labels scored. Raises `EmbedxError` if labels cannot
        be searched.
        """
        return ranking.searched_top_k(self, features, k, share, progress, threads)

    @cached_property
    def max_idf(self) -> float:
        """The inverse document frequency of a word that is in no training row."""
        return float(self.arrays["idf"].max(initial=1)) if "idf" in self.arrays else 1.0

    @cached_property
    def label_shares(self) -> ndarray:
        """float32 (n_labels,): the share of the training rows that has each label."""
        n_rows = self.n_training_rows or max(int(self.counts.sum()), 1)
        return np.asarray(np.minimum(self.counts / n_rows, 1), float32)

    # ---- neighbours

    @property
    def has_neighbours(self) -> bool:
        """Whether probabilities are blended with the labels of the nearest training rows."""
        return neighbours.INDEX[0] in self.arrays

    @cached_property
    def neighbours(self) -> Neighbours:
        """The rows that are searched. Raises `EmbedxError` where their arrays do not fit."""
        return neighbours.neighbours_of(self.arrays, self.schema.n_features, self.n_labels)

    def set_neighbours(self, index: Mapping[str, ndarray], rows: Neighbours, blend: Blend) -> None:
        """Blend probabilities with the labels of the nearest of these rows from now on.

        index  arrays of the rows, for the model folder
        """
        self.arrays |= {**index, "neighbour_blend": np.array(blend, np.float64)}
        self.neighbours = rows

    # ---- rows as they are

    def predict(
        self, rows: Any, *, threads: int | None = None, abstain: bool = False
    ) -> ndarray | csr_matrix:
        """The likeliest label of each row, (n,); if training rows had several labels, the indicator
        matrix of the predicted labels, sparse (n, n_labels).

        rows  texts, records (dicts) or a data frame with the columns of the training table, an
              array of its numeric columns if it has no text, or an array of features. They are
              read and scaled as `embedx predict` reads and scales the same rows of a file; other
              methods that take `rows` do so too
        abstain  whether "none of these" is an answer: None, in an array of objects, or a row
              without a label
        """
        if abstain:
            ids, marks = predictions.decided_or_none(self, self.features_of(rows), threads)
            if self.has_several_labels:
                return marks
            labels = self.label_names[np.maximum(ids, 0)].astype(object)
            labels[ids == NONE_OF_THESE] = None
            return labels
        if not self.has_several_labels:
            labels, _ = self.top_k(rows, 1, threads=threads)
            return labels[:, 0]
        return predictions.decided_labels(
            self, self.features_of(rows), self.has_several_labels, threads
        )

    def predict_proba(self, rows: Any, *, threads: int | None = None) -> ndarray:
        """The probability of each label, (n, n_labels), as `top_k` has it.

        Where rows have one label, those of a row are scaled to sum to 1.
        """
        features = self.features_of(rows)
        return np.exp(
            predictions.log_probabilities(self, features, self.has_several_labels, threads)
        )

    def top_k(
        self, rows: Any, k: int = 5, *, threads: int | None = None
    ) -> tuple[ndarray, ndarray]:
        """The k likeliest labels of each row, best first, and their probabilities: both (n, min(k,
        n_labels)), as `embedx predict --top-k` prints them.
        """
        features = self.features_of(rows)
        k = min(whole_top_k(k), self.n_labels)
        ids, p = joined_blocks(self.iter_top_k(features, k, threads=threads))
        return self.label_names[ids], p

    def predict_set(
        self,
        rows: Any,
        *,
        threshold: float | None = None,
        coverage: float | None = None,
        k: int | None = None,
        threads: int | None = None,
    ) -> csr_matrix:
        """`label_sets` for rows: the probabilities of the labels in each row's set, sparse float32
        (n, n_labels).

        Raises `EmbedxError` if the model was trained without held-out rows that this needs.
        """
        return self.label_sets(
            self.features_of(rows),
            threshold=threshold,
            coverage=coverage,
            k=k,
            threads=threads,
        )

    def features_of(self, rows: Any) -> Any:
        """The features of rows, float32 (n, n_features), before `prepared` scales them.

        Raises `EmbedxError` for rows of another kind than those of the training data.
        """
        return features_of(rows, self.schema)

    def label_sets(
        self,
        features: Any,
        *,
        threshold: float | None = None,
        coverage: float | None = None,
        k: int | None = None,
        progress: Progress = SILENT,
        threads: int | None = None,
    ) -> csr_matrix:
        """The probabilities of the labels of each row from `min_probability` on, sparse float32
        (n, n_labels).

        k  maximum number of labels per row; by default `predictions.max_labels`

        Columns of a row are in order of the probabilities. A row without labels is "none of these".
        A row without any known feature has none, whatever the threshold.
        """
        return predictions.label_sets(
            self,
            features,
            threshold=threshold,
            coverage=coverage,
            k=k,
            progress=progress,
            threads=threads,
        )

    def min_probability(
        self, threshold: float | None = None, coverage: float | None = None
    ) -> float:
        """The minimum probability of predicted labels: `threshold`, or that of a coverage.

        None for both: the threshold of the best F1 on held-out rows. Raises `EmbedxError` if the
        model was trained without what this needs.
        """
        return predictions.min_probability(self, threshold, coverage)

    @property
    def has_probabilities(self) -> bool:
        """Whether `top_k` gives probabilities, and not merely a softmax of scores."""
        return self.objective.traits.calibrated or "calibration" in self.arrays

    def evaluate(
        self, data: Labeled, *, progress: Progress = SILENT, threads: int | None = None
    ) -> dict[str, float]:
        """The metrics of `evaluation.labels` on test data, by the label rule of the training.

        With a temperature, also the log-likelihood of the `tempered` probabilities. Where labels
        are found through a tree, those that are not found have no known probability, and there is
        no log-likelihood.
        """
        return label_metrics.evaluate(self, data, progress=progress, threads=threads)

    def evaluate_decisions(
        self, data: Labeled, *, progress: Progress = SILENT, threads: int | None = None
    ) -> tuple[dict[str, float], LabelCounts]:
        """F1 on the test rows with labels, and the number of times that each label is right,
        predicted and true.

        If training rows had several labels, those from the threshold of the best F1 on are
        predicted, and the threshold is among the measures; else the best label of each row. Raises
        `EmbedxError` without probabilities.
        """
        return label_metrics.evaluate_decisions(self, data, progress=progress, threads=threads)

    def save(self, path: str | Path, overwrite: bool = False) -> Path:
        """Write the model folder."""
        return model_folder.save(self, path, overwrite)


def load(path: str | Path) -> Classifier:
    """The classifier in a model folder.

    Raises `EmbedxError` if files are missing or damaged, or if it is another kind of model.
    """
    return model_folder.load(path, Classifier)
