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
from scipy.sparse import csr_matrix

from embedx import checks, objectives, samplers
from embedx.classification import calibration, decisions, label_tree, neighbours
from embedx.classification.label_tree import CANDIDATES, LabelTree
from embedx.classification.neighbours import Blend, Neighbours
from embedx.engine import sparse_levels
from embedx.errors import DataError, EmbedxError
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
from embedx.labeled.rules import ARRAY_OF, chosen_labels, known_labels, scaled
from embedx.labeled.words import TextFeatureSettings
from embedx.objectives.contract import Objective, log_softmax
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
from embedx.training.progress import SILENT, Progress
from embedx.training.trainer import usable_cores

# of each row the best labels, int32 (n, k), and their probabilities or scores
Best = tuple[ndarray, ndarray]
TASK = "classification"
BLOCK_FLOATS = 1 << 23  # scores computed at a time
SEARCHED_ROWS = 1 << 14  # rows of features that are made dense at a time
RECALLED = 200
MIN_TEMPERATURE = 1e-6
MIN_LOG_SUM = -690.0  # of the probabilities of all candidates, where none is likely at all
# of the schema; those that a model of an earlier version lacks have their defaults
RECORDED = ("by_name", "first_feature", "has_empty_first_column", "label_separator")
FLOATS = ("float32", "float64")  # the latter by lbfgs on request
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
        "noise_biases": Array(("nodes",), is_finite=False),  # infinite where a branch has no label
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


READER = {  # of `facts`
    "by_name": Value(bool, required=True),
    "named": Value(bool, required=True),
    "first_feature": Value(int, at_least=0, at_most=MOST),
    "has_empty_first_column": Value(bool),
    "text": Value(dict),
    "columns": Value(dict),
}
COLUMNS = {  # of `reader`
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
    # int64 (n_labels,): how often each label occurs in the training data, with rows held out
    counts: ndarray
    settings: dict[str, Any] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def n_labels(self) -> int:
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

    # ---- scores

    def prepared(self, features: Any) -> Any:
        """Features on the scale of the training data."""
        if features.shape[1] != self.known.n_features:
            raise EmbedxError(
                f"{features.shape[1]} features, but the model has {self.known.n_features}"
            )
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

    @cached_property
    def _weights(self) -> ndarray:  # float32 (dim, rows)
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
        """The trees of sparse weights. Raises `EmbedxError` where their arrays do not
        fit together.
        """
        return label_tree.trees_of(
            self.arrays, self.known.n_features, self.objective.n_rows(self.n_labels)
        )

    @property
    def is_searched(self) -> bool:
        """Whether the likeliest labels are found through a tree, so that there are no scores of all
        labels.
        """
        return self.has_sparse_weights and (len(self.trees) > 1 or len(self.trees[0].levels) > 1)

    def _sparse_scores(self, features: Any) -> ndarray:
        """As `scores`; labels that training has not seen have the score that predicts half an
        occurrence.
        """
        if self.is_searched:
            raise EmbedxError(
                "--weights tree: not all labels have scores, because a tree finds the best; use"
                " top_k"
            )
        level, rows = self.trees[0].levels[0], self.trees[0].labels
        found = sparse_levels.scores_of(csr_matrix(features, dtype=float32), level)
        if np.array_equal(rows, np.arange(self.objective.n_rows(self.n_labels))):
            return found
        unseen = self.objective.initial_bias(
            np.array([0.5 / int(self.facts.get("examples") or 1)]), np.array([1.0])
        )[0]
        z = np.full((features.shape[0], self.n_labels), unseen, float32)
        z[:, rows] = found
        return z

    @property
    def judges_labels_alone(self) -> bool:
        """Whether training rows had several labels and the objective gives each a probability by
        itself.
        """
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
        """log of how often each label is noise for inputs on the scale of the training data, up to
        a constant.

        float32 (n_labels,), or (n, n_labels) where it depends on them; zeros where probabilities do
        not ask for it.
        """
        if not self.objective.adds_log_noise:
            return np.zeros(len(self.counts), float32)
        # as many as training draws
        return self._sampler.log_noise_of(features, min(self.objective.negatives, len(self.counts)))

    @cached_property
    def _sampler(self) -> Sampler:
        """The sampler that training drew by."""
        found = samplers.recorded(
            self.settings, replacement=self.settings.get("replacement", False)
        )
        found.prepare(self.trained_counts, paths=self.objective.paths())
        found.restore(self.arrays)
        return found

    def blocks(
        self,
        features: Any,
        progress: Progress = SILENT,
        threads: int | None = None,
        of_scores: Callable[[ndarray, ndarray], Any] | None = None,
    ) -> Iterator[tuple[slice, Any]]:
        """(rows, log-probabilities of these rows or what else is made `of_scores` and `log_noise`):
        a block at a time, in order, computed by several threads.
        """
        threads, of_scores = threads or usable_cores(), of_scores or self.log_probability
        size = max(1, BLOCK_FLOATS // max(self.objective.n_rows(self.n_labels), 1))
        # which are made at first use
        _ = self.trees if self.has_sparse_weights else self._weights, self._sampler

        def work(rows: slice) -> Any:
            h = self.prepared(features[rows])
            return of_scores(self.scores(h), self.log_noise(h))

        return _in_blocks(features.shape[0], size, work, progress, threads)

    def top_k(
        self, features: Any, k: int = 5, progress: Progress = SILENT, threads: int | None = None
    ) -> Iterator[Best]:
        """(ids int32 (n, k), probabilities float32 (n, k)) for a block of rows after another.

        The probability is that the label is among those of the row: calibrated, if rows were held
        out of training. Without calibration it is the label's own where training rows had several
        labels and the objective gives each a probability by itself. Else the labels share one
        probability; those that a tree finds, if there is one.
        """
        if k < 0:
            raise EmbedxError(f"top_k of {k} labels: must be 0 or more")
        is_blended = self.has_neighbours and k > 0
        n_best = max(k, CANDIDATES) if is_blended or self._is_of_one_label else k
        for rows, ids, scores in self.best(features, n_best, progress, threads):
            p = self.probabilities(scores)
            ids, p = (
                self._with_neighbours(features[rows], ids, p, n_best, threads)
                if is_blended
                else (ids, p)
            )
            yield ids[:, :k], p[:, :k]

    def best(
        self, features: Any, k: int, progress: Progress = SILENT, threads: int | None = None
    ) -> Iterator[tuple[slice, ndarray, ndarray]]:
        """(rows, ids, scores) as `top_k` by the parameters alone, with the scores that
        `probabilities` takes: z where labels are judged alone, else log-probabilities.
        """
        alone, threads = self.judges_labels_alone, threads or usable_cores()
        if not self.is_searched:
            of_scores = (
                (lambda z, _: top_k(z, k))
                if alone
                else (lambda *scores: top_k(self.log_probability(*scores), k))
            )
            yield from (
                (rows, *best) for rows, best in self.blocks(features, progress, threads, of_scores)
            )
            return
        beam, n_best = int(self.settings.get("beam", 10)), max(k, 1 if alone else CANDIDATES)

        def work(rows: slice) -> Best:
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
            if not alone:
                log_p = log_p - np.maximum(
                    np.logaddexp.reduce(log_p, axis=1, keepdims=True), MIN_LOG_SUM
                )
            return ids[:, :k], log_p[:, :k]

        for rows, best in _in_blocks(
            features.shape[0], label_tree.rows_at_a_time(self.trees, beam), work, progress
        ):
            yield rows, *best

    def probabilities(self, scores: ndarray) -> ndarray:
        """The probabilities of each row's best labels, (n, k), from their scores, best first."""
        if "calibration" in self.arrays:
            return self._calibrated("calibration", scores)
        alone = self.judges_labels_alone and not self.is_searched
        return np.asarray(self.objective.label_probability(scores) if alone else np.exp(scores))

    @property
    def _is_of_one_label(self) -> bool:
        """Whether probabilities are calibrated label by label although a row has one."""
        return "calibration" in self.arrays and not self.facts.get("several_labels")

    def _calibrated(self, name: str, scores: ndarray) -> ndarray:
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
        """As `top_k`, but only this share of all labels is scored for each row.

        An index is built first, and the recall of the true k best labels, over the first RECALLED
        rows, is reported. The labels share one probability among those scored. Raises `EmbedxError`
        where labels cannot be searched.
        """
        if not self.objective.ranks_by_score:
            raise EmbedxError(
                f"--search: {self.objective.name} does not rank labels by their scores alone; leave"
                " it out"
            )
        if self.has_sparse_weights:
            raise EmbedxError(
                "--search: a model with sparse weights is searched by its own tree; leave it out"
            )
        if "hidden" not in self.arrays and hasattr(features, "indptr"):
            raise EmbedxError(
                "--search needs dense features or a model with a hidden layer; leave it out"
            )
        threads, k = threads or usable_cores(), min(k, self.n_labels)
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

        some = slice(RECALLED)
        true, _ = top_k(self.scores(self.prepared(features[some])), k)
        recall = np.mean([np.isin(a, b).mean() for a, b in zip(true, best(some)[0], strict=True)])
        progress.note(
            f"{search.n_scored:,} of {self.n_labels:,} labels are scored for each row, which finds"
            f" {100 * recall:.1f} % of the best {k}; probabilities are relative to the labels"
            " scored"
        )
        return (found for _, found in _in_blocks(features.shape[0], SEARCHED_ROWS, best, progress))

    # ---- neighbours

    @property
    def has_neighbours(self) -> bool:
        """Whether probabilities are blended with the labels of the nearest training rows."""
        return neighbours.INDEX[0] in self.arrays

    @cached_property
    def neighbours(self) -> Neighbours:
        """The rows that are searched. Raises `EmbedxError` where their arrays do not
        fit together.
        """
        return neighbours.neighbours_of(self.arrays, self.known.n_features, self.n_labels)

    def _with_neighbours(
        self, features: Any, ids: ndarray, p: ndarray, k: int, threads: int | None
    ) -> Best:
        """The k best labels and their probabilities, after the neighbours have been asked, from
        those of the model.
        """
        blend, threads = Blend(*self.arrays["neighbour_blend"]), threads or usable_cores()
        near = self.neighbours.nearest(self.prepared(features), int(blend.n), threads)
        ids, scores = self.neighbours.blended(ids, p, near, blend, k, threads)
        return ids, (
            self._calibrated("neighbour_calibration", scores)
            if "neighbour_calibration" in self.arrays
            else scores
        )

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
        if unlabelled := int((data.labels.n_of_row == 0).sum()):
            progress.note(
                f"{unlabelled:,} of {len(data):,} test rows have no label and are not scored"
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
        start = 0
        if self.has_neighbours or self.is_searched:
            for ids, _ in self.top_k(features, max(metrics.ks), progress, threads):
                metrics.add_ranked(ids, labels.rows(slice(start, start := start + len(ids))))
        if not self.is_searched:
            for rows, log_p in self.blocks(features, progress, threads):
                metrics.add(log_p, None if self.has_neighbours else log_p, labels.rows(rows))
                if "temperature" in self.facts:
                    tempered.add(self.tempered(log_p), None, labels.rows(rows))
        result = metrics.result() | {"left_out": len(data) - len(kept)}
        if "temperature" in self.facts:
            result["temperature"] = self.facts["temperature"]
            result["log_likelihood_tempered"] = tempered.result()["log_likelihood"]
        if warning := self.likelihood_warning(result):
            progress.note(f"warning: {warning}")
        return result

    def likelihood_warning(self, measures: Mapping[str, float]) -> str:
        """A warning where probabilities are worse than equal ones, else ""."""
        is_exact_softmax = self.objective.candidates == ("all",)
        return likelihood_warning(measures, self.n_labels, is_exact_softmax=is_exact_softmax)

    def tempered(self, log_p: ndarray) -> ndarray:
        """Log-probabilities of all labels, (n, n_labels), after the temperature that was fitted, if
        one was.
        """
        if "temperature" not in self.facts:
            return log_p
        return log_softmax(log_p / self.facts["temperature"])

    def tested_labels(self, labels: Labels) -> tuple[Labels, ndarray]:
        """The labels that count of test rows, and which rows have any left, by the settings
        `labels` and `unseen`.
        """
        drop = self.settings.get("unseen", "keep") == "drop"
        labels = chosen_labels(
            known_labels(labels, self.trained_counts) if drop else labels,
            self.settings.get("labels", "all"),
        )
        kept = np.flatnonzero(labels.n_of_row) if drop else np.arange(len(labels))
        return labels.rows(kept), kept

    def tested(self, data: Labeled) -> tuple[Any, Labels]:
        """The features and labels of the rows that have labels left by `tested_labels`."""
        labels, kept = self.tested_labels(data.labels)
        some = np.flatnonzero(labels.n_of_row)
        return data.features[kept[some]], labels.rows(some)

    # ---- decisions

    @property
    def has_probabilities(self) -> bool:
        """Whether `top_k` gives probabilities that are more than a softmax of scores."""
        return self.objective.calibrated or "calibration" in self.arrays

    def min_probability(
        self, threshold: float | None = None, coverage: float | None = None
    ) -> float:
        """The probability from which on a label is decided for: the threshold, or that of sets with
        the coverage.

        None for both is the threshold of the best F1 on held-out rows. Raises `EmbedxError` where
        the model does not allow it.
        """
        remedy = "train with rows held out, by --calibration or --validation"
        if coverage is not None:
            if "coverage" not in self.arrays:
                raise EmbedxError(
                    f"--coverage: the model was trained without at least {calibration.MIN_ROWS}"
                    f" held-out rows; {remedy}"
                )
            return decisions.threshold_of(self.arrays["coverage"], coverage)
        if not self.has_probabilities:
            raise EmbedxError(
                f"--threshold: {self.objective.name} has no probabilities of its own, and nothing"
                f" calibrates them; {remedy}"
            )
        return (
            float(self.facts.get("threshold", decisions.DEFAULT_THRESHOLD))
            if threshold is None
            else threshold
        )

    def max_labels(self, in_sets: bool) -> int:
        """The number of labels per row among which those above a threshold, or in conformal sets,
        are sought.
        """
        if not in_sets:
            return decisions.MAX_ABOVE
        return decisions.MAX_IN_SET_OF_TREE if self.is_searched else decisions.MAX_IN_SET

    def predict_set(
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
        least = self.min_probability(threshold, coverage)
        ids, p = all_rows(
            self.top_k(
                features, k or self.max_labels(in_sets=coverage is not None), progress, threads
            )
        )
        is_given = (p >= least) & (p > 0)
        places = (p[is_given], ids[is_given], offsets_of(is_given.sum(axis=1)))
        return csr_matrix(places, (len(p), self.n_labels), dtype=float32)

    def evaluate_decisions(
        self, data: Labeled, *, progress: Progress = SILENT, threads: int | None = None
    ) -> tuple[dict[str, float], LabelCounts]:
        """F1 of decisions on the test rows that have labels, and how often each label is right,
        predicted and true.

        Where training rows had several labels, those from the threshold of the best F1 on are
        predicted, and the threshold is among the measures; else the best label of each row is.
        Raises `EmbedxError` where there are no probabilities.
        """
        features, labels = self.tested(data)
        measures = {}
        if self.facts.get("several_labels"):
            measures["threshold"] = self.min_probability()
            predicted = Labels.of_matrix(
                self.predict_set(features, progress=progress, threads=threads)
            )
        else:
            predicted = Labels.single(all_rows(self.top_k(features, 1, progress, threads))[0][:, 0])
        return (
            measures | f1_measures(predicted, labels),
            label_counts(predicted, labels, self.n_labels)[0],
        )

    def precision_and_recall(
        self, data: Labeled, k: int, threshold: float = 0.0
    ) -> tuple[int, float, float]:
        """How many rows have labels of the training data, and precision and recall of the k best
        from a probability on.
        """
        labels = known_labels(data.labels, self.trained_counts)
        kept = np.flatnonzero(labels.n_of_row)
        ids, p = all_rows(self.top_k(data.features[kept], min(k, self.n_labels)))
        is_given = p >= threshold
        n_right = int((hits(ids, labels.rows(kept)) & is_given).sum())
        return len(kept), ratio(n_right, int(is_given.sum())), ratio(n_right, len(labels.ids))

    def label_counts(self, data: Labeled, k: int, threshold: float = 0.0) -> ndarray:
        """int64 (n_labels, 3): of each label how many rows have it, for how many it is one of the k
        best from a probability on, and for how many both.
        """
        labels = known_labels(data.labels, self.trained_counts)
        kept = np.flatnonzero(labels.n_of_row)
        ids, p = all_rows(self.top_k(data.features[kept], min(k, self.n_labels)))
        is_given = p >= threshold
        is_right = hits(ids, labels.rows(kept)) & is_given
        counts = (labels.ids, ids[is_given], ids[is_right])
        return np.stack([np.bincount(found, minlength=self.n_labels) for found in counts], axis=1)

    # ---- the folder

    def save(self, path: str | Path, overwrite: bool = False) -> Path:
        """Write the model folder."""
        names: dict[str, Any] = {
            "labels": ([self.name(k) for k in range(self.n_labels)], self.counts)
        }
        own = {name: getattr(self.known, name) for name in RECORDED} | {
            "named": self.known.names is not None
        }
        arrays, text = self.arrays, self.known.text
        if text is not None:
            names["features"], arrays, own["text"] = (
                (text.vocabulary, None),
                {**arrays, "ngrams": text.hashes},
                text.settings,
            )
        own["columns"] = self.known.columns and dataclasses.asdict(self.known.columns)
        facts = {
            **self.facts,
            "objective": self.objective.name,
            "n_features": self.known.n_features,
            "reader": own,
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
    ids, p = (np.concatenate(each) for each in zip(*parts, strict=True))
    return ids, p


def _in_blocks(
    n: int, size: int, work: Callable[[slice], Any], progress: Progress, threads: int = 1
) -> Iterator[tuple[slice, Any]]:
    """(rows, work(rows)) for n rows, so many at a time, in order, by several threads."""
    blocks = [slice(start, min(start + size, n)) for start in range(0, n, size)]
    progress.start("predicting", n, " examples")
    if len(blocks) == 1:  # starting a thread would take longer than the rows of a request
        yield blocks[0], work(blocks[0])
        progress.update(n)
        progress.finish()
        return
    with ThreadPoolExecutor(threads) as pool:
        for window in range(0, len(blocks), threads):
            some = blocks[window : window + threads]
            for rows, result in zip(some, pool.map(work, some), strict=True):
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
    """The classifier in a model folder. Raises `EmbedxError` for whatever is missing or damaged, or
    no classifier.
    """
    stored = folder.read(Path(path), SCHEMA)
    labels, counts = stored.names["labels"]
    assert counts is not None
    reader, n_features = stored.facts["reader"], stored.facts["n_features"]
    text = None
    with folder.blamed_on(stored.path / folder.DESCRIPTION):
        checks.require(wrong_value(READER, reader, "reader"), folder.DESCRIPTION)
        columns = _columns(reader.get("columns"))
        if "features" in stored.names:
            vocabulary, hashes = (
                stored.names["features"][0],
                stored.arrays.pop("ngrams", np.empty(0, np.int64)),
            )
            text = TextSchema(
                vocabulary, hashes, TextFeatureSettings.from_options(reader["text"] or {}).record()
            )
            n_intervals = columns.n_intervals if columns else 0
            if (
                np.any(hashes[1:] <= hashes[:-1])
                or len(vocabulary) + len(hashes) != n_features - n_intervals
            ):
                raise EmbedxError(
                    f"{len(vocabulary):,} words and {len(hashes):,} n-grams are not {n_features:,}"
                    " features"
                )
        others = {name: reader[name] for name in RECORDED if name in reader} | {"columns": columns}
        known = DataSchema(
            n_features, len(labels), labels if reader["named"] else None, text, **others
        )
        found = objectives.find(stored.facts["objective"])
        objective = found(found.Settings.from_options(stored.settings))
        order = stored.arrays.get("label_order")
        if order is None and objective.wants_order:
            raise EmbedxError("names no array `label_order`, which hierarchy=clusters needs")
        if order is not None:
            checks.require(checks.wrong_order(order, len(labels)), "label_order.npy")
        trained_counts = stored.arrays.get("trained_counts", counts)
        checks.require(checks.wrong_part(trained_counts, counts), "trained_counts.npy")
        objective.prepare(trained_counts, order)
        is_sparse = "tree_levels" in stored.arrays
        if is_sparse == ("output" in stored.arrays):
            raise EmbedxError(
                "names both an array `output` and `tree_levels`"
                if is_sparse
                else "names no array `output`"
            )
        n_rows = objective.n_rows(len(labels))
        if not is_sparse:
            output = stored.arrays["output"]
            shape = len(output), len(stored.arrays.get("hidden", output.T))
            if shape != (n_rows, n_features):
                raise EmbedxError(
                    f"output.npy has {shape[0]:,} rows for {shape[1]:,} features, where --objective"
                    f" {objective.name} with {len(labels):,} labels has {n_rows:,} for"
                    f" {n_features:,}"
                )
        loaded = Classifier(objective, stored.arrays, known, counts, stored.settings, stored.facts)
        calibration.check(stored.arrays)
        decisions.check(stored.arrays)
        scaling = str(loaded.settings.get("scaling"))
        if (needed := ARRAY_OF.get(scaling)) and needed not in loaded.arrays:
            raise EmbedxError(f"names no array `{needed}`, which --scaling {scaling} has")
        if any(name in stored.arrays for name in neighbours.ARRAYS):
            _ = loaded.neighbours
        _ = loaded._sampler  # which reads arrays of its own
        if is_sparse:
            _ = loaded.trees
            if loaded.is_searched and objective.log_label_probability(np.zeros(1)) is None:
                raise EmbedxError(
                    f"names an array `tree_levels`, which --objective {objective.name} has not"
                )
    return loaded
