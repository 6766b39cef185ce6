"""Metrics of a classifier on labelled rows."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import ndarray

from embedx.classification.predictions import label_sets, min_probability
from embedx.classification.row_blocks import Best, joined_blocks
from embedx.errors import Reason
from embedx.evaluation import f1, labels as evaluation
from embedx.evaluation.f1 import LabelCounts, f1_measures
from embedx.evaluation.labels import PROPENSITY_A, PROPENSITY_B, LabelMetrics, hits
from embedx.labeled.data import Labeled, Labels
from embedx.labeled.label_rules import chosen_labels, known_labels
from embedx.objectives.contract import log_softmax
from embedx.runtime.progress import SILENT, Progress

if TYPE_CHECKING:
    from embedx.classification.classifier import Classifier


def evaluate(
    classifier: "Classifier",
    data: Labeled,
    *,
    progress: Progress = SILENT,
    threads: int | None = None,
) -> dict[str, float]:
    """See `Classifier.evaluate`."""
    labels, kept = scored_labels(classifier, data.labels)
    n_unlabelled = int((data.labels.n_of_row == 0).sum())
    if n_unlabelled:
        progress.note(
            f"{n_unlabelled:,} of {len(data):,} test rows have no label and are not scored"
        )
    features = data.features[kept] if len(kept) < len(data) else data.features
    metrics = new_metrics(classifier)
    tempered_metrics = LabelMetrics(classifier.n_labels)
    has_temperature = "temperature" in classifier.facts
    if classifier.has_neighbours or classifier.has_label_tree:
        best = classifier.iter_top_k(features, max(metrics.ks), progress, threads)
        _add_ranked(metrics, best, labels)
    if not classifier.has_label_tree:
        for rows, log_p in classifier.blocks(features, progress, threads):
            ranked_by = None if classifier.has_neighbours else log_p
            metrics.add(log_p, ranked_by, labels.rows(rows))
            if has_temperature:
                tempered_metrics.add(tempered(classifier, log_p), None, labels.rows(rows))

    result = metrics.result() | {"left_out": len(data) - len(kept)}
    if has_temperature:
        result["temperature"] = classifier.facts["temperature"]
        result["log_likelihood_tempered"] = tempered_metrics.result()["log_likelihood"]
    warning = likelihood_warning(classifier, result)
    if warning:
        progress.warn(warning)
    return result


def new_metrics(classifier: "Classifier") -> LabelMetrics:
    """Metrics of no rows yet, with the propensities of the training data."""
    a = classifier.settings.get("propensity_a", PROPENSITY_A)
    b = classifier.settings.get("propensity_b", PROPENSITY_B)
    return LabelMetrics(
        classifier.n_labels, classifier.counts, classifier.n_training_rows, propensity=(a, b)
    )


def likelihood_warning(classifier: "Classifier", measures: Mapping[str, float]) -> Reason | None:
    """A warning where probabilities are worse than equal ones, else None."""
    is_exact_softmax = classifier.objective.candidates == ("all",)
    return evaluation.likelihood_warning(
        measures, classifier.n_labels, is_exact_softmax=is_exact_softmax
    )


def tempered(classifier: "Classifier", log_p: ndarray) -> ndarray:
    """Log-probabilities of all labels, (n, n_labels), by the fitted temperature, if any."""
    if "temperature" not in classifier.facts:
        return log_p
    return log_softmax(log_p / classifier.facts["temperature"])


def scored_labels(classifier: "Classifier", labels: Labels) -> tuple[Labels, ndarray]:
    """The labels of test rows by `labels` and `unseen`, and the rows that are kept."""
    drops_unseen = classifier.settings.get("unseen", "keep") == "drop"
    if drops_unseen:
        labels = known_labels(labels, classifier.trained_counts)
    labels = chosen_labels(labels, classifier.settings.get("labels", "all"))
    kept = np.flatnonzero(labels.n_of_row) if drops_unseen else np.arange(len(labels))
    return labels.rows(kept), kept


def scored_rows(classifier: "Classifier", data: Labeled) -> tuple[Any, Labels]:
    """The features and labels of the rows that have labels left by `scored_labels`."""
    labels, kept = scored_labels(classifier, data.labels)
    labelled = np.flatnonzero(labels.n_of_row)
    return data.features[kept[labelled]], labels.rows(labelled)


def evaluate_decisions(
    classifier: "Classifier",
    data: Labeled,
    *,
    progress: Progress = SILENT,
    threads: int | None = None,
) -> tuple[dict[str, float], LabelCounts]:
    """See `Classifier.evaluate_decisions`."""
    features, labels = scored_rows(classifier, data)
    measures = {}
    if classifier.has_several_labels:
        measures["threshold"] = min_probability(classifier)
        predicted = Labels.of_matrix(
            label_sets(classifier, features, progress=progress, threads=threads)
        )
    else:
        ids, _ = joined_blocks(classifier.iter_top_k(features, 1, progress, threads))
        predicted = Labels.single(ids[:, 0])
    measures |= f1_measures(predicted, labels)
    counts, _ = f1.label_counts(predicted, labels, classifier.n_labels)
    return measures, counts


def counts_of_best(
    classifier: "Classifier", data: Labeled, k: int, threshold: float = 0.0
) -> tuple[int, LabelCounts]:
    """The number of rows that have a label of the training data, and how often each label is right,
    predicted and true in these rows.

    Predicted are the k best labels of a row, those of at least the probability `threshold`.
    """
    all_labels = known_labels(data.labels, classifier.trained_counts)
    kept = np.flatnonzero(all_labels.n_of_row)
    labels = all_labels.rows(kept)
    k = min(k, classifier.n_labels)
    ids, p = joined_blocks(classifier.iter_top_k(data.features[kept], k))
    is_predicted = p >= threshold
    is_right = hits(ids, labels) & is_predicted
    columns = (ids[is_right], ids[is_predicted], labels.ids)
    counts = [np.bincount(column, minlength=classifier.n_labels) for column in columns]
    return len(labels), LabelCounts(*counts)


def _add_ranked(metrics: LabelMetrics, best: Iterable[Best], labels: Labels) -> None:
    """Add the best labels of one block of rows after another to metrics."""
    begin = 0
    for ids, _ in best:
        end = begin + len(ids)
        metrics.add_ranked(ids, labels.rows(slice(begin, end)))
        begin = end
