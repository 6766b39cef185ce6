"""A trained classifier: scores, probabilities, the best labels, and its folder.

output.npy    float32 (rows, dim)     a row for each label (or node of a tree); dim: of the features
                                      or the hidden layer
bias.npy      float32 (rows,)         absent without biases
hidden.npy    float32 (features, dim) a row for each feature, absent without hidden layer
maxima.npy    float32 (features,)     what columns were divided by, with --scaling column-max
idf.npy       float32 (features,)     inverse document frequencies, with --scaling tf-idf
label_order.npy  int32 (labels,)      the leaves of a tree of clusters, from one side to the other,
                                      if there is one
noise_*.npy   what noise was drawn by, where that depends on the input (embedx.samplers)
tree_*.npy    sparse weights and their tree, instead of output.npy and bias.npy
              (embedx.classification.label_tree)
calibration.npy  what probabilities follow from scores by (embedx.classification.calibration)
neighbour_*.npy  training rows with whose labels probabilities are blended
                 (embedx.classification.neighbours)
coverage.npy  which probability gives sets of labels a coverage (embedx.classification.decisions)
labels.tsv    label TAB how often it occurs in the training rows
trained_counts.npy  int64 (labels,): the same without rows that were held out of training, and
              without those of later runs, which noise and trees of labels do not follow; absent if
              there are none
features.tsv  the words that are features, for text
ngrams.npy    int64 (ngrams,)         the hashes of the n-grams that are features, after these words
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy import float32, ndarray
from scipy.sparse import csr_matrix, vstack

from embedx import checks, objectives, samplers
from embedx.classification import calibration, decisions, label_tree, neighbours
from embedx.classification.label_tree import CANDIDATES, LabelTree
from embedx.classification.neighbours import Blend, Neighbours
from embedx.engine import sparse_levels
from embedx.errors import DataError, Reason, Setting, SettingError
from embedx.evaluation.labels import (
    PROPENSITY_A,
    PROPENSITY_B,
    LabelCounts,
    LabelMetrics,
    f1_measures,
    hits,
    label_counts,
    likelihood_warning,
    ratio,
    top_k,
)
from embedx.labeled.data import Columns, DataSchema, Labeled, Labels, TextSchema, offsets_of
from embedx.labeled.records import features_of
from embedx.labeled.rules import ARRAY_OF, chosen_labels, known_labels, scaled
from embedx.labeled.words import TextFeatureSettings
from embedx.objectives.contract import Objective, log_softmax
from embedx.runtime.progress import SILENT, Progress
from embedx.samplers.contract import Sampler
from embedx.search.index import build_index
from embedx.search.top_k import search_top_k, top_k_spec
from embedx.settings import MOST
from embedx.storage import folder
from embedx.storage.schema import (
    FACTS_OF_RUN,
    Array,
    FolderSchema,
    Names,
    Value,
    wrong_value,
)
from embedx.training.trainer import usable_cores

LEAVE_OUT = "leave it out"

# The best labels of each row, int32 (n, k), and their probabilities or scores.
Best = tuple[ndarray, ndarray]
TASK = "classification"
# Scores computed at a time.
BLOCK_FLOATS = 1 << 23
# Rows of features that are made dense at a time.
SEARCHED_ROWS = 1 << 14
# Rows of a request, which one thread answers.
FEW_ROWS = 8
# Rows over which the recall of an index is measured.
RECALLED = 200
MIN_TEMPERATURE = 1e-6
# The log of the sum of the candidates' probabilities, where none is likely at all.
MIN_LOG_SUM = -690.0
# Fields of the schema in model.json; those that an earlier version did not write have defaults.
RECORDED = ("by_name", "first_feature", "has_empty_first_column", "label_separator")
# float64 is written by lbfgs on request.
FLOATS = ("float32", "float64")
SCHEMA = FolderSchema(
    TASK,
    "`embedx classify` wrote",
    names={"labels": Names("labels", counted=True), "features": Names("words", required=False)},
    arrays={
        "hidden": Array(("features", "dim"), FLOATS),
        "output": Array(("rows", "dim"), FLOATS),
        "bias": Array(("rows",), FLOATS),
        "maxima": Array(("features",), FLOATS),
        "idf": Array(("features",), FLOATS),
        "label_order": Array(("labels",), ("int32",), indexes="labels"),
        "noise_projection": Array(("features", "stride")),
        "noise_offset": Array(("stride",)),
        "noise_weights": Array(("nodes", "stride")),
        # Infinite where a branch has no label.
        "noise_biases": Array(("nodes",), is_finite=False),
        "noise_leaves": Array(("labels",), ("int32",)),
        "ngrams": Array(("ngrams",), ("int64",)),
        "trained_counts": Array(("labels",), ("int64",)),
        **label_tree.ARRAYS,
        **calibration.ARRAYS,
        **decisions.ARRAYS,
        **neighbours.ARRAYS,
    },
    settings={
        "scaling": Value(str),
        "sampler": Value(str),
        "replacement": Value(bool),
        "beam": Value(int, at_least=1, at_most=MOST),
        "propensity_a": Value(float),
        "propensity_b": Value(float),
        "labels": Value(str),
        "unseen": Value(str),
        "optimizer": Value(str),
    },
    facts={
        "objective": Value(str, required=True),
        "packages": Value(dict),
        "n_features": Value(int, required=True, at_least=0, at_most=MOST),
        "reader": Value(dict, required=True),
        "estimator": Value(dict),
        "labels": Value(int, at_least=0),
        "examples": Value(int, at_least=0),
        "several_labels": Value(bool),
        "temperature": Value(float, at_least=MIN_TEMPERATURE),
        "threshold": Value(float),
        "interrupted": Value(bool),
        **FACTS_OF_RUN,
    },
    sizes={"features": "n_features"},
)


# Values of `reader`, among the facts.
READER = {
    "by_name": Value(bool, required=True),
    "named": Value(bool, required=True),
    "first_feature": Value(int, at_least=0, at_most=MOST),
    "has_empty_first_column": Value(bool),
    "text": Value(dict),
    "columns": Value(dict),
}
# Values of `columns`, in `reader`.
COLUMNS = {
    "text": Value(list, required=True, items=str),
    "numbers": Value(list, required=True, items=str),
    "label": Value(str),
    "id": Value(str),
    "separator": Value(str),
    "scales": Value(list, items=list),
}


@dataclass
class Classifier:
    """A trained classifier, as `embedx classify` saves it."""

    objective: Objective
    arrays: dict[str, ndarray]
    known: DataSchema
    # int64 (n_labels,): how often each label occurs in the training data, with rows held out.
    counts: ndarray
    settings: dict[str, Any] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)

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
        return self.known.names[label] if self.known.names else str(label)

    @cached_property
    def label_names(self) -> ndarray:
        """What labels are called, (n_labels,): their names, or their numbers without names."""
        names = self.known.names
        return np.arange(self.n_labels) if names is None else np.array(names, str)

    # ---- rows as they are

    def predict(self, rows: Any, *, threads: int | None = None) -> ndarray | csr_matrix:
        """The likeliest label of each row, (n,); where training rows had several labels, the
        indicator matrix, sparse (n, n_labels), of those that are decided for.

        rows  texts, records (dicts) or a data frame with the columns of the training table, an
              array of its numeric columns if it has no text, or an array of features. They are
              read and scaled as `embedx predict` reads and scales the same rows of a file; other
              methods that take `rows` do so too
        """
        if not self.facts.get("several_labels"):
            return self.top_k(rows, 1, threads=threads)[0][:, 0]
        return self.decided_labels(self.features_of(rows), self.judges_labels_alone, threads)

    def predict_proba(self, rows: Any, *, threads: int | None = None) -> ndarray:
        """The probability of each label, (n, n_labels): that of `top_k`, where rows have one label
        scaled to sum to 1.
        """
        has_several_labels = bool(self.facts.get("several_labels"))
        return np.exp(
            self.log_probabilities(
                self.features_of(rows), has_several_labels, self.judges_labels_alone, threads
            )
        )

    def top_k(
        self, rows: Any, k: int = 5, *, threads: int | None = None
    ) -> tuple[ndarray, ndarray]:
        """The k likeliest labels of each row, best first, and their probabilities: both (n, min(k,
        n_labels)), as `embedx predict --top-k` prints them.
        """
        features = self.features_of(rows)
        ids, p = all_rows(self.iter_top_k(features, min(k, self.n_labels), threads=threads))
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
        """As `label_sets`, for rows."""
        return self.label_sets(
            self.features_of(rows), threshold=threshold, coverage=coverage, k=k, threads=threads
        )

    def features_of(self, rows: Any) -> Any:
        """The features of rows, float32 (n, n_features), before `prepared` scales them.

        Raises `EmbedxError` for rows of another kind than those of the training data.
        """
        return features_of(rows, self.known)

    # ---- scores

    def prepared(self, features: Any) -> Any:
        """Features on the scale of the training data."""
        if features.shape[1] != self.known.n_features:
            problem = f"{features.shape[1]}, but the model has {self.known.n_features}"
            raise DataError("features", None, problem)
        return scaled(features, self.settings.get("scaling", "none"), self.arrays)

    def scores(self, features: Any) -> ndarray:
        """(n, rows), of the weights' dtype, for features on the scale of the training data; see
        `prepared`.

        Raises `EmbedxError` where labels are found through a tree.
        """
        if self.has_sparse_weights:
            return self._sparse_scores(features)
        z = self._inputs(features) @ self._weights
        if "bias" in self.arrays:
            z += self.arrays["bias"]
        return np.asarray(z, self._weights.dtype)

    def _inputs(self, features: Any) -> Any:
        """The inputs of the output layer, for features on the scale of the training data."""
        return features @ self.arrays["hidden"] if "hidden" in self.arrays else features

    def hidden_values(self, features: Any) -> ndarray:
        """The values of the hidden layer, (n, dim), for features as they are read."""
        return np.asarray(self._inputs(self.prepared(features)))

    @cached_property
    def _weights(self) -> ndarray:
        """The output vectors, float32 (dim, rows)."""
        return np.ascontiguousarray(self.arrays["output"].T)

    def parameters_changed(self) -> None:
        """Forget what was derived from the parameters; to be called when `arrays` has changed."""
        for derived in ("_weights", "trees", "neighbours"):
            vars(self).pop(derived, None)

    # ---- sparse weights

    @property
    def has_sparse_weights(self) -> bool:
        """Whether labels have sparse weights, by themselves or in a tree."""
        return "tree_levels" in self.arrays

    @cached_property
    def trees(self) -> list[LabelTree]:
        """The trees of sparse weights. Raises `EmbedxError` where their arrays do not fit."""
        return label_tree.trees_of(
            self.arrays, self.known.n_features, self.objective.n_rows(self.n_labels)
        )

    @property
    def is_searched(self) -> bool:
        """Whether the best labels are found through a tree, without scores of all labels."""
        return self.has_sparse_weights and (len(self.trees) > 1 or len(self.trees[0].levels) > 1)

    def _sparse_scores(self, features: Any) -> ndarray:
        """As `scores`; labels not seen in training have the score that predicts half an occurrence.

        Raises `EmbedxError` where labels are found through a tree.
        """
        if self.is_searched:
            problem = "not all labels have scores, because a tree finds the best"
            raise SettingError("weights", "tree", problem, "use top_k")
        tree = self.trees[0]
        z_seen = sparse_levels.scores_of(csr_matrix(features, dtype=float32), tree.levels[0])
        if np.array_equal(tree.labels, np.arange(self.objective.n_rows(self.n_labels))):
            return z_seen

        half_an_occurrence = 0.5 / int(self.facts.get("examples") or 1)
        z_unseen = self.objective.initial_bias(np.array([half_an_occurrence]), np.array([1.0]))[0]
        z = np.full((features.shape[0], self.n_labels), z_unseen, float32)
        z[:, tree.labels] = z_seen
        return z

    @property
    def judges_labels_alone(self) -> bool:
        """Whether rows had several labels and the objective gives each a probability by itself."""
        return (
            bool(self.facts.get("several_labels"))
            and self.objective.label_probability(np.zeros((1, 1))) is not None
        )

    def log_probability(self, z: ndarray, log_noise: ndarray | None = None) -> ndarray:
        """log p(label | features), (n, n_labels), from the scores of all rows.

        log_noise  that of the same features, which may be left out where it does not depend on them
        """
        return self.objective.log_probability(
            z, self.log_noise(None) if log_noise is None else log_noise
        )

    def log_noise(self, features: Any) -> ndarray:
        """log of how often each label is noise for scaled inputs, up to a constant.

        float32 (n_labels,), or (n, n_labels) where it depends on them; zeros where probabilities do
        not ask for it.
        """
        if not self.objective.traits.adds_log_noise:
            return np.zeros(len(self.counts), float32)
        # As many as training draws.
        n_draws = min(self.objective.negatives, len(self.counts))
        return self._sampler.log_noise_of(features, n_draws)

    @cached_property
    def _sampler(self) -> Sampler:
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
        of_scores: Callable[[ndarray, ndarray], Any] | None = None,
    ) -> Iterator[tuple[slice, Any]]:
        """(rows, their log-probabilities), a block at a time, in order, by several threads.

        of_scores  what to compute instead, from the scores and `log_noise` of a block
        """
        compute = of_scores or self.log_probability
        size = max(1, BLOCK_FLOATS // max(self.objective.n_rows(self.n_labels), 1))
        # What is cached is computed before threads use it.
        _ = self.trees if self.has_sparse_weights else self._weights
        _ = self._sampler

        def work(rows: slice) -> Any:
            h = self.prepared(features[rows])
            return compute(self.scores(h), self.log_noise(h))

        return _in_blocks(features.shape[0], size, work, progress, _threads_for(features, threads))

    def iter_top_k(
        self, features: Any, k: int = 5, progress: Progress = SILENT, threads: int | None = None
    ) -> Iterator[Best]:
        """(ids int32 (n, k), probabilities float32 (n, k)) for a block of rows after another.

        The probability is that the label is among those of the row: calibrated, if rows were held
        out of training. Without calibration it is the label's own where training rows had several
        labels and the objective gives each a probability by itself. Else the labels share one
        probability; those that a tree finds, if there is one.
        """
        if k < 0:
            raise SettingError("top_k", k, "must be 0 or more")
        is_blended = self.has_neighbours and k > 0
        n_best = max(k, CANDIDATES) if is_blended or self._is_of_one_label else k
        for rows, ids, scores in self.best(features, n_best, progress, threads):
            p = self.probabilities(scores)
            if is_blended:
                ids, p = self._with_neighbours(features[rows], ids, p, n_best, threads)
            yield ids[:, :k], p[:, :k]

    def best(
        self, features: Any, k: int, progress: Progress = SILENT, threads: int | None = None
    ) -> Iterator[tuple[slice, ndarray, ndarray]]:
        """(rows, ids, scores) as `iter_top_k`, by the parameters alone.

        The scores are those that `probabilities` takes: z where labels have probabilities by
        themselves, else log-probabilities.
        """
        threads = _threads_for(features, threads)
        if self.is_searched:
            blocks = self._best_in_trees(features, k, progress, threads)
        else:
            blocks = self._best_of_all(features, k, progress, threads)
        for rows, (ids, scores) in blocks:
            yield rows, ids, scores

    def _best_of_all(
        self, features: Any, k: int, progress: Progress, threads: int
    ) -> Iterator[tuple[slice, Best]]:
        """(rows, their best labels and scores), from the scores of all labels."""
        is_independent = self.judges_labels_alone

        def best(z: ndarray, log_noise: ndarray) -> Best:
            if is_independent:
                return top_k(z, k)
            return top_k(self.log_probability(z, log_noise), k)

        return self.blocks(features, progress, threads, best)

    def _best_in_trees(
        self, features: Any, k: int, progress: Progress, threads: int
    ) -> Iterator[tuple[slice, Best]]:
        """(rows, their best labels and log-probabilities), found through the trees."""
        is_independent = self.judges_labels_alone
        beam = int(self.settings.get("beam", 10))
        n_best = max(k, 1 if is_independent else CANDIDATES)

        def best(rows: slice) -> Best:
            h = csr_matrix(self.prepared(features[rows]), dtype=float32)
            ids, log_p = label_tree.search(
                self.trees,
                h,
                n_best,
                beam,
                self.objective.log_label_probability,
                self.n_labels,
                threads,
            )
            if not is_independent:
                log_sum = np.logaddexp.reduce(log_p, axis=1, keepdims=True)
                log_p = log_p - np.maximum(log_sum, MIN_LOG_SUM)
            return ids[:, :k], log_p[:, :k]

        size = label_tree.rows_at_a_time(self.trees, beam)
        return _in_blocks(features.shape[0], size, best, progress)

    def probabilities(self, scores: ndarray) -> ndarray:
        """The probabilities of each row's best labels, (n, k), from their scores, best first."""
        if "calibration" in self.arrays:
            return self._calibrated("calibration", scores)
        if self.judges_labels_alone and not self.is_searched:
            return np.asarray(self.objective.label_probability(scores))
        return np.exp(scores)

    @property
    def _is_of_one_label(self) -> bool:
        """Whether probabilities are calibrated label by label although a row has one."""
        return "calibration" in self.arrays and not self.facts.get("several_labels")

    def _calibrated(self, name: str, scores: ndarray) -> ndarray:
        """The probabilities of scores by the calibration in an array."""
        p = calibration.probabilities(self.arrays[name], scores)
        return calibration.of_one_label(p) if self._is_of_one_label else p

    def searched_top_k(
        self,
        features: Any,
        k: int = 5,
        share: float = 0.05,
        progress: Progress = SILENT,
        threads: int | None = None,
    ) -> Iterator[Best]:
        """As `iter_top_k`, but only this share of all labels is scored for each row.

        An index is built first, and the recall of the true k best labels, over the first RECALLED
        rows, is reported. The labels share one probability among those scored. Raises `EmbedxError`
        where labels cannot be searched.
        """
        self._check_can_be_searched(features)
        threads = threads or usable_cores()
        k = min(k, self.n_labels)
        output = self.arrays["output"]
        search = top_k_spec(len(output), share, k)
        bias = self.arrays.get("bias", np.zeros(len(output), float32))
        table = np.ascontiguousarray(np.column_stack([output, bias]), float32)
        progress.note(f"building an index of {len(table):,} labels")
        index = build_index(
            table, len(table), table.shape[1], search, np.random.default_rng(0), threads
        )

        def best(rows: slice) -> Best:
            h = np.asarray(self._inputs(self.prepared(features[rows])), float32)
            h = np.column_stack([h, np.ones(len(h), float32)])
            ids, z, log_sum = search_top_k(index, search, h, k, threads)
            return ids, self.probabilities(z if self.judges_labels_alone else z - log_sum[:, None])

        first_rows = slice(RECALLED)
        true_ids, _ = top_k(self.scores(self.prepared(features[first_rows])), k)
        pairs = zip(true_ids, best(first_rows)[0], strict=True)
        recall = np.mean([np.isin(row_true, row_best).mean() for row_true, row_best in pairs])
        progress.note(
            f"{search.n_scored:,} of {self.n_labels:,} labels are scored for each row, which finds"
            f" {100 * recall:.1f} % of the best {k}; probabilities are relative to the labels"
            " scored"
        )
        blocks = _in_blocks(features.shape[0], SEARCHED_ROWS, best, progress)
        return (block_best for _, block_best in blocks)

    def _check_can_be_searched(self, features: Any) -> None:
        """Raise `EmbedxError` where an index does not find the best labels."""
        if not self.objective.traits.ranks_by_score:
            problem = f"{self.objective.name} does not rank labels by their scores alone"
            raise SettingError("search", True, problem, LEAVE_OUT)
        if self.has_sparse_weights:
            problem = "a model with sparse weights is searched by its own tree"
            raise SettingError("search", True, problem, LEAVE_OUT)
        if "hidden" not in self.arrays and hasattr(features, "indptr"):
            problem = "needs dense features or a model with a hidden layer"
            raise SettingError("search", True, problem, LEAVE_OUT)

    # ---- neighbours

    @property
    def has_neighbours(self) -> bool:
        """Whether probabilities are blended with the labels of the nearest training rows."""
        return neighbours.INDEX[0] in self.arrays

    @cached_property
    def neighbours(self) -> Neighbours:
        """The rows that are searched. Raises `EmbedxError` where their arrays do not fit."""
        return neighbours.neighbours_of(self.arrays, self.known.n_features, self.n_labels)

    def _with_neighbours(
        self, features: Any, ids: ndarray, p: ndarray, k: int, threads: int | None
    ) -> Best:
        """The k best labels and their probabilities: those of the model blended with neighbours."""
        blend = Blend(*self.arrays["neighbour_blend"])
        threads = _threads_for(features, threads)
        near = self.neighbours.nearest(self.prepared(features), int(blend.n), threads)
        ids, scores = self.neighbours.blended(ids, p, near, blend, k, threads)
        if "neighbour_calibration" in self.arrays:
            return ids, self._calibrated("neighbour_calibration", scores)
        return ids, scores

    # ---- how good

    def evaluate(
        self, data: Labeled, *, progress: Progress = SILENT, threads: int | None = None
    ) -> dict[str, float]:
        """The metrics of `evaluation.labels` on test data, by the label rule of the training.

        With a temperature, also the log-likelihood of the `tempered` probabilities. Where labels
        are found through a tree, those that are not found have no known probability, and there is
        no log-likelihood.
        """
        labels, kept = self.tested_labels(data.labels)
        n_unlabelled = int((data.labels.n_of_row == 0).sum())
        if n_unlabelled:
            progress.note(
                f"{n_unlabelled:,} of {len(data):,} test rows have no label and are not scored"
            )
        features = data.features[kept] if len(kept) < len(data) else data.features
        propensity = (
            self.settings.get("propensity_a", PROPENSITY_A),
            self.settings.get("propensity_b", PROPENSITY_B),
        )
        metrics = LabelMetrics(
            self.n_labels, self.counts, self.n_training_rows, propensity=propensity
        )
        tempered = LabelMetrics(self.n_labels)
        if self.has_neighbours or self.is_searched:
            begin = 0
            for ids, _ in self.iter_top_k(features, max(metrics.ks), progress, threads):
                end = begin + len(ids)
                metrics.add_ranked(ids, labels.rows(slice(begin, end)))
                begin = end
        if not self.is_searched:
            for rows, log_p in self.blocks(features, progress, threads):
                metrics.add(log_p, None if self.has_neighbours else log_p, labels.rows(rows))
                if "temperature" in self.facts:
                    tempered.add(self.tempered(log_p), None, labels.rows(rows))

        result = metrics.result() | {"left_out": len(data) - len(kept)}
        if "temperature" in self.facts:
            result["temperature"] = self.facts["temperature"]
            result["log_likelihood_tempered"] = tempered.result()["log_likelihood"]
        warning = self.likelihood_warning(result)
        if warning:
            progress.warn(warning)
        return result

    def likelihood_warning(self, measures: Mapping[str, float]) -> Reason | None:
        """A warning where probabilities are worse than equal ones, else None."""
        is_exact_softmax = self.objective.candidates == ("all",)
        return likelihood_warning(measures, self.n_labels, is_exact_softmax=is_exact_softmax)

    def tempered(self, log_p: ndarray) -> ndarray:
        """Log-probabilities of all labels, (n, n_labels), by the fitted temperature, if any."""
        if "temperature" not in self.facts:
            return log_p
        return log_softmax(log_p / self.facts["temperature"])

    def tested_labels(self, labels: Labels) -> tuple[Labels, ndarray]:
        """The labels of test rows by `labels` and `unseen`, and the rows that are kept."""
        drops_unseen = self.settings.get("unseen", "keep") == "drop"
        if drops_unseen:
            labels = known_labels(labels, self.trained_counts)
        labels = chosen_labels(labels, self.settings.get("labels", "all"))
        kept = np.flatnonzero(labels.n_of_row) if drops_unseen else np.arange(len(labels))
        return labels.rows(kept), kept

    def tested(self, data: Labeled) -> tuple[Any, Labels]:
        """The features and labels of the rows that have labels left by `tested_labels`."""
        labels, kept = self.tested_labels(data.labels)
        labelled = np.flatnonzero(labels.n_of_row)
        return data.features[kept[labelled]], labels.rows(labelled)

    # ---- decisions

    @property
    def has_probabilities(self) -> bool:
        """Whether `top_k` gives probabilities that are more than a softmax of scores."""
        return self.objective.traits.calibrated or "calibration" in self.arrays

    def min_probability(
        self, threshold: float | None = None, coverage: float | None = None
    ) -> float:
        """The probability from which on a label is predicted: the threshold, or that of a coverage.

        None for both is the threshold of the best F1 on held-out rows. Raises `EmbedxError` where
        the model does not allow it.
        """
        options = (Setting("calibration"), " or ", Setting("validation"))
        remedy = ("train with rows held out, by ", options)
        if coverage is not None:
            if "coverage" not in self.arrays:
                n_needed = calibration.MIN_ROWS
                problem = f"the model was trained without at least {n_needed} held-out rows"
                raise SettingError("coverage", None, problem, remedy)
            return decisions.threshold_of(self.arrays["coverage"], coverage)
        if not self.has_probabilities:
            name = self.objective.name
            problem = f"{name} has no probabilities of its own, and nothing calibrates them"
            raise SettingError("threshold", None, problem, remedy)
        if threshold is None:
            return float(self.facts.get("threshold", decisions.DEFAULT_THRESHOLD))
        return threshold

    def max_labels(self, in_sets: bool) -> int:
        """The number of best labels per row that a threshold, or a conformal set, selects from."""
        if not in_sets:
            return decisions.MAX_ABOVE
        return decisions.MAX_IN_SET_OF_TREE if self.is_searched else decisions.MAX_IN_SET

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
        """The labels of each row that `min_probability` decides for: their probabilities, float32
        (n, n_labels).

        k  maximum number of labels per row; by default `max_labels`

        Columns of a row are in the order of the probabilities; a row without any is "none of
        these".
        """
        min_probability = self.min_probability(threshold, coverage)
        n_best = k or self.max_labels(in_sets=coverage is not None)
        ids, p = all_rows(self.iter_top_k(features, n_best, progress, threads))
        is_predicted = (p >= min_probability) & (p > 0)
        parts = (p[is_predicted], ids[is_predicted], offsets_of(is_predicted.sum(axis=1)))
        return csr_matrix(parts, (len(p), self.n_labels), dtype=float32)

    def decided_labels(
        self, features: Any, judges_labels_alone: bool, threads: int | None = None
    ) -> csr_matrix:
        """The labels that are decided for, int64 (n, n_labels): those of probability above 1/2
        where each has its own, else the likeliest.
        """
        has_ranked_probabilities = (
            self.is_searched
            or self.has_neighbours
            or (judges_labels_alone and "calibration" in self.arrays)
        )
        if judges_labels_alone and not has_ranked_probabilities:
            # Probabilities are above 1/2 where scores are above 0.
            blocks = self.blocks(
                features, threads=threads, of_scores=lambda z, _: csr_matrix(z > 0)
            )
            empty = csr_matrix((0, self.n_labels), dtype=np.int64)
            return vstack([empty, *(marks for _, marks in blocks)], "csr").astype(np.int64)

        n_best = CANDIDATES if has_ranked_probabilities else 1
        ids, p = all_rows(self.iter_top_k(features, n_best, threads=threads))
        is_decided = p > 0.5 if has_ranked_probabilities else ids >= 0
        row, place = np.nonzero(is_decided)
        ones = np.ones(len(row), np.int64)
        return csr_matrix((ones, (row, ids[row, place])), (len(ids), self.n_labels))

    def log_probabilities(
        self,
        features: Any,
        has_several_labels: bool,
        judges_labels_alone: bool,
        threads: int | None = None,
    ) -> ndarray:
        """The log of the probability of each label, (n, n_labels): of `iter_top_k`, where rows have
        one label scaled to sum to 1.
        """

        def of_scores(z: ndarray, log_noise: ndarray) -> ndarray:
            if not judges_labels_alone:
                return self.log_probability(z, log_noise)
            with np.errstate(divide="ignore"):
                return np.log(np.asarray(self.objective.label_probability(z)))

        is_ranked = "calibration" in self.arrays or self.has_neighbours
        if self.is_searched or not is_ranked:
            blocks = self.blocks(features, threads=threads, of_scores=of_scores)
            parts = [log_p for _, log_p in blocks]
            return np.concatenate(parts or [np.zeros((0, self.n_labels), float32)])

        ids, best = all_rows(self.iter_top_k(features, self.n_labels, threads=threads))
        p = np.zeros((len(best), self.n_labels), best.dtype)
        np.put_along_axis(p, ids, best, axis=1)
        with np.errstate(divide="ignore"):
            return np.log(p if has_several_labels else p / p.sum(axis=1, keepdims=True))

    def evaluate_decisions(
        self, data: Labeled, *, progress: Progress = SILENT, threads: int | None = None
    ) -> tuple[dict[str, float], LabelCounts]:
        """F1 on the test rows that have labels, and how often each is right, predicted and true.

        Where training rows had several labels, those from the threshold of the best F1 on are
        predicted, and the threshold is among the measures; else the best label of each row is.
        Raises `EmbedxError` where there are no probabilities.
        """
        features, labels = self.tested(data)
        measures = {}
        if self.facts.get("several_labels"):
            measures["threshold"] = self.min_probability()
            predicted = Labels.of_matrix(
                self.label_sets(features, progress=progress, threads=threads)
            )
        else:
            ids, _ = all_rows(self.iter_top_k(features, 1, progress, threads))
            predicted = Labels.single(ids[:, 0])
        measures |= f1_measures(predicted, labels)
        counts, _ = label_counts(predicted, labels, self.n_labels)
        return measures, counts

    def precision_and_recall(
        self, data: Labeled, k: int, threshold: float = 0.0
    ) -> tuple[int, float, float]:
        """The number of rows with known labels, and precision and recall of the k best labels.

        threshold  only labels of at least this probability are predicted
        """
        labels = known_labels(data.labels, self.trained_counts)
        kept = np.flatnonzero(labels.n_of_row)
        ids, p = all_rows(self.iter_top_k(data.features[kept], min(k, self.n_labels)))
        is_predicted = p >= threshold
        n_predicted = int(is_predicted.sum())
        n_right = int((hits(ids, labels.rows(kept)) & is_predicted).sum())
        return len(kept), ratio(n_right, n_predicted), ratio(n_right, len(labels.ids))

    def label_counts(self, data: Labeled, k: int, threshold: float = 0.0) -> ndarray:
        """int64 (n_labels, 3): for how many rows each label is true, predicted, and both.

        Predicted are the k best labels of at least the probability `threshold`.
        """
        labels = known_labels(data.labels, self.trained_counts)
        kept = np.flatnonzero(labels.n_of_row)
        ids, p = all_rows(self.iter_top_k(data.features[kept], min(k, self.n_labels)))
        is_predicted = p >= threshold
        is_right = hits(ids, labels.rows(kept)) & is_predicted
        columns = (labels.ids, ids[is_predicted], ids[is_right])
        counts = [np.bincount(column, minlength=self.n_labels) for column in columns]
        return np.stack(counts, axis=1)

    # ---- the folder

    def save(self, path: str | Path, overwrite: bool = False) -> Path:
        """Write the model folder."""
        names: dict[str, Any] = {
            "labels": ([self.name(k) for k in range(self.n_labels)], self.counts)
        }
        arrays = self.arrays
        reader = {name: getattr(self.known, name) for name in RECORDED}
        reader["named"] = self.known.names is not None
        text = self.known.text
        if text is not None:
            names["features"] = (text.vocabulary, None)
            arrays = {**arrays, "ngrams": text.hashes}
            reader["text"] = text.settings
        reader["columns"] = self.known.columns and dataclasses.asdict(self.known.columns)
        facts = {
            **self.facts,
            "objective": self.objective.name,
            **objectives.packages(self.objective.name, self.settings.get("sampler")),
            "n_features": self.known.n_features,
            "reader": reader,
        }
        return folder.save(
            Path(path),
            task=TASK,
            names=names,
            arrays=arrays,
            settings=self.settings,
            facts=facts,
            overwrite=overwrite,
        )


def all_rows(best: Iterable[Best]) -> Best:
    """The rows of all blocks."""
    parts = list(best) or [(np.zeros((0, 1), np.int32), np.zeros((0, 1), float32))]
    ids, p = zip(*parts, strict=True)
    return np.concatenate(ids), np.concatenate(p)


def _threads_for(features: Any, threads: int | None) -> int:
    """The number of threads: one where starting others takes longer than they save."""
    return 1 if features.shape[0] <= FEW_ROWS else threads or usable_cores()


def _in_blocks(
    n: int, size: int, work: Callable[[slice], Any], progress: Progress, threads: int = 1
) -> Iterator[tuple[slice, Any]]:
    """(rows, work(rows)) for n rows, so many at a time, in order, by several threads."""
    blocks = [slice(start, min(start + size, n)) for start in range(0, n, size)]
    progress.start("predicting", n, " examples")
    if len(blocks) == 1:
        # Starting a thread would take longer than the rows of a request.
        yield blocks[0], work(blocks[0])
        progress.update(n)
        progress.finish()
        return
    with ThreadPoolExecutor(threads) as pool:
        for window in range(0, len(blocks), threads):
            started = blocks[window : window + threads]
            for rows, result in zip(started, pool.map(work, started), strict=True):
                yield rows, result
                progress.update(rows.stop)
    progress.finish()


def _columns(recorded: dict[str, Any] | None) -> Columns | None:
    """The columns of a table, as model.json has them."""
    if not recorded:
        return None
    checks.require(wrong_value(COLUMNS, recorded, "columns"), folder.DESCRIPTION)
    try:
        columns = Columns(**recorded)
        numbers = [float(number) for scale in columns.scales for number in scale]
    except (TypeError, ValueError, OverflowError):
        numbers = [np.nan]
    if not np.isfinite(numbers).all():
        problem = "the columns of the training table are not described"
        raise DataError(folder.DESCRIPTION, None, problem)
    return columns


def load(path: str | Path) -> Classifier:
    """The classifier in a model folder.

    Raises `EmbedxError` for whatever is missing or damaged, or no classifier.
    """
    stored = folder.read(Path(path), SCHEMA)
    labels, counts = stored.names["labels"]
    assert counts is not None
    description = stored.path / folder.DESCRIPTION
    objectives.check_packages(description, stored.facts, stored.settings)
    with folder.blamed_on(description):
        known = _data_schema(stored, labels)
        objective = _objective(stored, counts)
        _check_weights(stored, objective, len(labels))
        model = Classifier(objective, stored.arrays, known, counts, stored.settings, stored.facts)
        _check_arrays(model)
    return model


def _data_schema(stored: folder.Folder, labels: list[str]) -> DataSchema:
    """What training data fixed for later data, as a model folder has it."""
    reader = stored.facts["reader"]
    n_features = stored.facts["n_features"]
    checks.require(wrong_value(READER, reader, "reader"), folder.DESCRIPTION)
    columns = _columns(reader.get("columns"))
    text = None
    if "features" in stored.names:
        n_intervals = columns.n_intervals if columns else 0
        text = _text_schema(stored, n_features, n_intervals)
    recorded = {name: reader[name] for name in RECORDED if name in reader}
    names = labels if reader["named"] else None
    return DataSchema(n_features, len(labels), names, text, columns=columns, **recorded)


def _text_schema(stored: folder.Folder, n_features: int, n_intervals: int) -> TextSchema:
    """The words and n-grams that are features, taken out of the arrays of a model folder."""
    vocabulary, _ = stored.names["features"]
    hashes = stored.arrays.pop("ngrams", np.empty(0, np.int64))
    settings = TextFeatureSettings.from_options(stored.facts["reader"]["text"] or {})
    is_ascending = not np.any(hashes[1:] <= hashes[:-1])
    if not is_ascending or len(vocabulary) + len(hashes) != n_features - n_intervals:
        counted = f"{len(vocabulary):,} words and {len(hashes):,} n-grams"
        raise DataError(folder.DESCRIPTION, None, f"{counted} are not {n_features:,} features")
    return TextSchema(vocabulary, hashes, settings.record())


def _objective(stored: folder.Folder, counts: ndarray) -> Objective:
    """The objective of a stored model, prepared for its labels."""
    objective_class = objectives.find(stored.facts["objective"])
    objective = objective_class(objective_class.Settings.from_options(stored.settings))
    order = stored.arrays.get("label_order")
    if order is None and objective.traits.uses_class_order:
        problem = "names no array `label_order`, which hierarchy=clusters needs"
        raise DataError(folder.DESCRIPTION, None, problem)
    if order is not None:
        checks.require(checks.wrong_order(order, len(counts)), "label_order.npy")
    trained_counts = stored.arrays.get("trained_counts", counts)
    checks.require(checks.wrong_part(trained_counts, counts), "trained_counts.npy")
    objective.prepare(trained_counts, order)
    return objective


def _check_weights(stored: folder.Folder, objective: Objective, n_labels: int) -> None:
    """Raise `EmbedxError` without weights, dense ones of the right shape or sparse ones."""
    is_sparse = "tree_levels" in stored.arrays
    is_dense = "output" in stored.arrays
    if is_sparse and is_dense:
        problem = "names both an array `output` and `tree_levels`"
        raise DataError(folder.DESCRIPTION, None, problem)
    if not is_sparse and not is_dense:
        raise DataError(folder.DESCRIPTION, None, "names no array `output`")
    if is_sparse:
        return

    n_rows = objective.n_rows(n_labels)
    n_features = stored.facts["n_features"]
    output = stored.arrays["output"]
    n_stored_features = len(stored.arrays.get("hidden", output.T))
    if len(output) != n_rows or n_stored_features != n_features:
        shape = f"has {len(output):,} rows for {n_stored_features:,} features"
        name = Setting("objective", objective.name)
        wanted = f" with {n_labels:,} labels has {n_rows:,} for {n_features:,}"
        raise DataError("output.npy", None, (shape, ", where ", name, wanted))


def _check_arrays(model: Classifier) -> None:
    """Raise `EmbedxError` where the arrays of a model do not fit its settings or each other."""
    calibration.check(model.arrays)
    decisions.check(model.arrays)
    scaling = str(model.settings.get("scaling"))
    scaling_array = ARRAY_OF.get(scaling)
    if scaling_array and scaling_array not in model.arrays:
        problem = (f"names no array `{scaling_array}`, which ", Setting("scaling", scaling), " has")
        raise DataError(folder.DESCRIPTION, None, problem)

    # Each is checked when it is made.
    if any(name in model.arrays for name in neighbours.ARRAYS):
        _ = model.neighbours
    _ = model._sampler
    if model.has_sparse_weights:
        _ = model.trees
        is_searched = model.is_searched
        if is_searched and model.objective.log_label_probability(np.zeros(1)) is None:
            name = Setting("objective", model.objective.name)
            problem = ("names an array `tree_levels`, which ", name, " has not")
            raise DataError(folder.DESCRIPTION, None, problem)
