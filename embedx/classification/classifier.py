"""A trained classifier: labels and probabilities of rows, decisions, measures, and its folder."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy import float32, ndarray
from scipy.sparse import csr_matrix, vstack

from embedx.checks import whole_top_k
from embedx.classification import calibration, decisions, model_folder
from embedx.classification.familiarity import NONE_OF_THESE
from embedx.classification.label_tree import CANDIDATES
from embedx.classification.ranking import TRAIN_WITH_HELD_OUT, LabelRanking
from embedx.classification.row_blocks import Best, joined_blocks
from embedx.errors import Reason, SettingError
from embedx.evaluation.f1 import LabelCounts, f1_measures, label_counts
from embedx.evaluation.labels import (
    PROPENSITY_A,
    PROPENSITY_B,
    LabelMetrics,
    hits,
    likelihood_warning,
    ratio,
)
from embedx.labeled.data import Labeled, Labels, offsets_of
from embedx.labeled.label_rules import chosen_labels, known_labels
from embedx.labeled.rows_from_python import features_of
from embedx.objectives.contract import log_softmax
from embedx.runtime.progress import SILENT, Progress


class Classifier(LabelRanking):
    """A trained classifier, as `embedx classify` saves it."""

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
            ids, marks = self.decided_or_none(self.features_of(rows), threads)
            if self.has_several_labels:
                return marks
            labels = self.label_names[np.maximum(ids, 0)].astype(object)
            labels[ids == NONE_OF_THESE] = None
            return labels
        if not self.has_several_labels:
            labels, _ = self.top_k(rows, 1, threads=threads)
            return labels[:, 0]
        return self.decided_labels(self.features_of(rows), self.has_independent_labels, threads)

    def decided_or_none(
        self, features: Any, threads: int | None = None
    ) -> tuple[ndarray, csr_matrix]:
        """The likeliest label of each row, int (n,), NONE where "none of these" is likelier; and
        the labels of probability above 1/2, int64 (n, n_labels).
        """
        ids, p = joined_blocks(self.iter_top_k(features, CANDIDATES, threads=threads, abstain=True))
        return ids[:, 0], self._indicator(ids, (p > 0.5) & (ids != NONE_OF_THESE))

    def _indicator(self, ids: ndarray, is_decided: ndarray) -> csr_matrix:
        """The indicator matrix of predicted labels, int64 (n, n_labels), from the best labels of
        each row.

        ids         int32 (n, k)
        is_decided  bool (n, k)
        """
        row, place = np.nonzero(is_decided)
        ones = np.ones(len(row), np.int64)
        return csr_matrix((ones, (row, ids[row, place])), (len(ids), self.n_labels))

    def predict_proba(self, rows: Any, *, threads: int | None = None) -> ndarray:
        """The probability of each label, (n, n_labels), as `top_k` has it.

        Where rows have one label, those of a row are scaled to sum to 1.
        """
        features = self.features_of(rows)
        return np.exp(self.log_probabilities(features, self.has_several_labels, threads))

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
            self.features_of(rows), threshold=threshold, coverage=coverage, k=k, threads=threads
        )

    def features_of(self, rows: Any) -> Any:
        """The features of rows, float32 (n, n_features), before `prepared` scales them.

        Raises `EmbedxError` for rows of another kind than those of the training data.
        """
        return features_of(rows, self.schema)

    # ---- decisions

    @property
    def has_probabilities(self) -> bool:
        """Whether `top_k` gives probabilities, and not merely a softmax of scores."""
        return self.objective.traits.calibrated or "calibration" in self.arrays

    def min_probability(
        self, threshold: float | None = None, coverage: float | None = None
    ) -> float:
        """The minimum probability of predicted labels: `threshold`, or that of a coverage.

        None for both: the threshold of the best F1 on held-out rows. Raises `EmbedxError` if the
        model was trained without what this needs.
        """
        if coverage is not None:
            if "coverage" not in self.arrays:
                n_needed = calibration.MIN_ROWS
                problem = f"needs a model trained with at least {n_needed} held-out rows"
                raise SettingError("coverage", None, problem, TRAIN_WITH_HELD_OUT)
            return decisions.threshold_of(self.arrays["coverage"], coverage)
        if not self.has_probabilities:
            name = self.objective.name
            problem = f"{name} defines no probabilities, and this model is not calibrated"
            raise SettingError("threshold", None, problem, TRAIN_WITH_HELD_OUT)
        if threshold is None:
            return float(self.facts.get("threshold", decisions.DEFAULT_THRESHOLD))
        return threshold

    def max_labels(self, in_sets: bool) -> int:
        """The number of best labels per row that a threshold, or a conformal set, selects from."""
        if not in_sets:
            return decisions.MAX_ABOVE
        return decisions.MAX_IN_SET_OF_TREE if self.has_label_tree else decisions.MAX_IN_SET

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

        k  maximum number of labels per row; by default `max_labels`

        Columns of a row are in order of the probabilities. A row without labels is "none of these".
        A row without any known feature has none, whatever the threshold.
        """
        min_probability = self.min_probability(threshold, coverage)
        n_best = k or self.max_labels(in_sets=coverage is not None)
        ids, p = joined_blocks(self.iter_top_k(features, n_best, progress, threads))
        is_predicted = (p >= min_probability) & (p > 0)
        if coverage is None:
            is_predicted[self.unknown_rows(features)] = False
        parts = (p[is_predicted], ids[is_predicted], offsets_of(is_predicted.sum(axis=1)))
        return csr_matrix(parts, (len(p), self.n_labels), dtype=float32)

    def decided_labels(
        self, features: Any, has_independent_labels: bool, threads: int | None = None
    ) -> csr_matrix:
        """The indicator matrix of predicted labels, int64 (n, n_labels): those of probability above
        1/2 if labels are independent, else the likeliest.
        """
        has_ranked_probabilities = (
            self.has_label_tree
            or self.has_neighbours
            or (has_independent_labels and "calibration" in self.arrays)
        )
        if has_independent_labels and not has_ranked_probabilities:
            # Probabilities are above 1/2 where scores are above 0.
            blocks = self.blocks(features, threads=threads, compute=_positive_scores)
            return vstack([marks for _, marks in blocks], "csr").astype(np.int64)

        n_best = CANDIDATES if has_ranked_probabilities else 1
        ids, p = joined_blocks(self.iter_top_k(features, n_best, threads=threads))
        is_decided = p > 0.5 if has_ranked_probabilities else ids >= 0
        return self._indicator(ids, is_decided)

    def log_probabilities(
        self, features: Any, has_several_labels: bool, threads: int | None = None
    ) -> ndarray:
        """The log of the probability of each label, (n, n_labels), as `iter_top_k` has it.

        Where rows have one label, probabilities of a row are scaled to sum to 1.
        """
        has_independent_labels = has_several_labels and self.has_label_probabilities

        def log_p_of(z: ndarray, log_noise: ndarray) -> ndarray:
            if not has_independent_labels:
                return self.log_probability(z, log_noise)
            with np.errstate(divide="ignore"):
                return np.log(np.asarray(self.objective.label_probability(z)))

        is_ranked = "calibration" in self.arrays or self.has_neighbours
        if self.has_label_tree or not is_ranked:
            blocks = self.blocks(features, threads=threads, compute=log_p_of)
            return np.concatenate([log_p for _, log_p in blocks])

        ids, best = joined_blocks(self.iter_top_k(features, self.n_labels, threads=threads))
        p = np.zeros((len(best), self.n_labels), best.dtype)
        np.put_along_axis(p, ids, best, axis=1)
        with np.errstate(divide="ignore"):
            return np.log(p if has_several_labels else p / p.sum(axis=1, keepdims=True))

    # ---- evaluation

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
        metrics = self.new_metrics()
        tempered = LabelMetrics(self.n_labels)
        has_temperature = "temperature" in self.facts
        if self.has_neighbours or self.has_label_tree:
            best = self.iter_top_k(features, max(metrics.ks), progress, threads)
            _add_ranked(metrics, best, labels)
        if not self.has_label_tree:
            for rows, log_p in self.blocks(features, progress, threads):
                ranked_by = None if self.has_neighbours else log_p
                metrics.add(log_p, ranked_by, labels.rows(rows))
                if has_temperature:
                    tempered.add(self.tempered(log_p), None, labels.rows(rows))

        result = metrics.result() | {"left_out": len(data) - len(kept)}
        if has_temperature:
            result["temperature"] = self.facts["temperature"]
            result["log_likelihood_tempered"] = tempered.result()["log_likelihood"]
        warning = self.likelihood_warning(result)
        if warning:
            progress.warn(warning)
        return result

    def new_metrics(self) -> LabelMetrics:
        """Metrics of no rows yet, with the propensities of the training data."""
        a = self.settings.get("propensity_a", PROPENSITY_A)
        b = self.settings.get("propensity_b", PROPENSITY_B)
        return LabelMetrics(self.n_labels, self.counts, self.n_training_rows, propensity=(a, b))

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

    def evaluate_decisions(
        self, data: Labeled, *, progress: Progress = SILENT, threads: int | None = None
    ) -> tuple[dict[str, float], LabelCounts]:
        """F1 on the test rows with labels, and the number of times that each label is right,
        predicted and true.

        If training rows had several labels, those from the threshold of the best F1 on are
        predicted, and the threshold is among the measures; else the best label of each row. Raises
        `EmbedxError` without probabilities.
        """
        features, labels = self.tested(data)
        measures = {}
        if self.has_several_labels:
            measures["threshold"] = self.min_probability()
            predicted = Labels.of_matrix(
                self.label_sets(features, progress=progress, threads=threads)
            )
        else:
            ids, _ = joined_blocks(self.iter_top_k(features, 1, progress, threads))
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
        labels, ids, is_predicted = self._predictions(data, k, threshold)
        n_predicted = int(is_predicted.sum())
        n_right = int((hits(ids, labels) & is_predicted).sum())
        return len(labels), ratio(n_right, n_predicted), ratio(n_right, len(labels.ids))

    def label_counts(self, data: Labeled, k: int, threshold: float = 0.0) -> ndarray:
        """The number of rows for which each label is true, predicted, and both, int64 (n_labels,
        3).

        Predicted are the k best labels of at least the probability `threshold`.
        """
        labels, ids, is_predicted = self._predictions(data, k, threshold)
        is_right = hits(ids, labels) & is_predicted
        columns = (labels.ids, ids[is_predicted], ids[is_right])
        counts = [np.bincount(column, minlength=self.n_labels) for column in columns]
        return np.stack(counts, axis=1)

    def _predictions(
        self, data: Labeled, k: int, threshold: float
    ) -> tuple[Labels, ndarray, ndarray]:
        """The labels of the rows that have known ones, int32 (n, k): the best of each row, and
        which of these have at least the probability `threshold`, bool (n, k).
        """
        labels = known_labels(data.labels, self.trained_counts)
        kept = np.flatnonzero(labels.n_of_row)
        ids, p = joined_blocks(self.iter_top_k(data.features[kept], min(k, self.n_labels)))
        return labels.rows(kept), ids, p >= threshold

    # ---- the folder

    def save(self, path: str | Path, overwrite: bool = False) -> Path:
        """Write the model folder."""
        return model_folder.save(self, path, overwrite)


def _positive_scores(z: ndarray, log_noise: ndarray) -> csr_matrix:
    """Whether each score is above 0, bool (n, n_labels)."""
    return csr_matrix(z > 0)


def _add_ranked(metrics: LabelMetrics, best: Iterable[Best], labels: Labels) -> None:
    """Add the best labels of one block of rows after another to metrics."""
    begin = 0
    for ids, _ in best:
        end = begin + len(ids)
        metrics.add_ranked(ids, labels.rows(slice(begin, end)))
        begin = end


def load(path: str | Path) -> Classifier:
    """The classifier in a model folder.

    Raises `EmbedxError` if files are missing or damaged, or if it is another kind of model.
    """
    return model_folder.load(path, Classifier)
