"""Fit to held-out rows: temperature, calibration, neighbours, familiarity and thresholds."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from embedx.classification import (
    calibration,
    decisions,
    familiarity_fit,
    neighbours,
    perturbed_rows,
)
from embedx.classification.classifier import Classifier
from embedx.classification.label_metrics import scored_labels, scored_rows
from embedx.classification.label_tree import CANDIDATES
from embedx.classification.left_out_labels import SubsetClassifier
from embedx.classification.neighbours import Blend, ChosenBlend
from embedx.classification.predictions import max_labels
from embedx.classification.ranking import iter_best, probabilities
from embedx.classification.row_blocks import Best, joined_blocks
from embedx.classification.settings import AUTO, ClassifySettings
from embedx.errors import Setting
from embedx.evaluation.labels import hits
from embedx.evaluation.temperature import MIN_LOG_P, fit_inverse_temperature
from embedx.labeled.data import Labeled, Labels
from embedx.labeled.label_rules import known_labels
from embedx.runtime.disk import amount
from embedx.runtime.progress import Progress
from embedx.runtime.random_streams import PERTURBED_ROWS

# Arrays and facts of a classifier that are fitted to held-out rows. The index of neighbours is not
# among them: it is made of the training rows, which differ between two classifiers.
HELD_OUT_ARRAYS = (
    "calibration",
    "coverage",
    "familiarity",
    "neighbour_blend",
    "neighbour_calibration",
)
HELD_OUT_FACTS = ("temperature", "threshold")


def copy_held_out(source: Classifier, target: Classifier) -> None:
    """Give a classifier what another one learned from held-out rows."""
    for name in HELD_OUT_ARRAYS:
        if name in source.arrays:
            target.arrays[name] = source.arrays[name]
    for name in HELD_OUT_FACTS:
        if name in source.facts:
            target.facts[name] = source.facts[name]


def fit(
    classifier: Classifier,
    data: Labeled | None,
    index: dict[str, np.ndarray] | None,
    settings: ClassifySettings,
    progress: Progress,
    is_seen: np.ndarray | None = None,
    subset_classifiers: Sequence[SubsetClassifier] = (),
) -> None:
    """Fit the temperature, the calibration, neighbours, familiarity and thresholds, each where it
    applies and enough rows have labels that were trained on; neighbours are used without any, too.

    data                the held-out rows; None if there are none
    index               the rows whose labels are blended (`neighbours.arrays_of`); None for no
                        neighbours
    settings            resolved
    is_seen             bool (n_features,): the features that training rows have; None for dense
                        features
    subset_classifiers  classifiers that were trained without some labels
    """
    features = None
    labels = Labels.of_rows([])
    if data is not None:
        features, labels = _rows_with_trained_labels(classifier, data)

    if len(labels) and not classifier.has_label_tree:
        _fit_temperature(classifier, features, labels, settings.threads)
    candidates = None
    if len(labels) >= calibration.MIN_ROWS:
        n_best = calibration.N_BEST if index is None else CANDIDATES
        candidates = _fit_calibration(classifier, features, labels, n_best, settings.threads)
    if index is not None:
        _add_neighbours(classifier, index, features, labels, candidates, settings, progress)
    if data is not None and "calibration" in classifier.arrays:
        text = classifier.schema.text
        n_words = None if text is None else len(text.vocabulary)
        read_later = perturbed_rows.as_read_later(data.features, is_seen, n_words)
        later = dataclasses.replace(data, features=read_later)
        _fit_familiarity(
            classifier, later, n_words, settings, is_seen, subset_classifiers, progress
        )
        _fit_decisions(classifier, later, settings.threads)


def _rows_with_trained_labels(classifier: Classifier, data: Labeled) -> tuple[Any, Labels]:
    """The features and labels of the rows that have labels that were trained on. (`scored_rows` has
    those of other labels, too, unless the setting `unseen` is "drop".)
    """
    labels = known_labels(data.labels, classifier.trained_counts)
    known_rows = data.rows(np.flatnonzero(labels.n_of_row))
    labels, kept = scored_labels(classifier, known_rows.labels)
    return known_rows.features[kept], labels


def _fit_temperature(
    classifier: Classifier, features: Any, labels: Labels, threads: int | None
) -> None:
    """Fit the temperature on about TEMPERATURE_ROWS of the rows, evenly spaced."""
    step = -(-len(labels) // calibration.TEMPERATURE_ROWS)
    rows_used = slice(None, None, step)
    labels_used = labels.rows(rows_used)

    def blocks() -> Iterator[tuple[np.ndarray, Labels]]:
        for rows, log_p in classifier.blocks(features[rows_used], threads=threads):
            yield np.maximum(log_p, MIN_LOG_P), labels_used.rows(rows)

    classifier.facts["temperature"] = 1 / fit_inverse_temperature(blocks)


def _fit_calibration(
    classifier: Classifier, features: Any, labels: Labels, n_best: int, threads: int | None
) -> Best:
    """Fit the calibration of the scores of the best labels; return the `n_best` best labels of each
    row and their probabilities.
    """
    parts = iter_best(classifier, features, n_best, threads=threads)
    ids, scores = joined_blocks((ids, scores) for _, ids, scores in parts)
    is_right = hits(ids[:, : calibration.N_BEST], labels)
    classifier.arrays["calibration"] = calibration.fit(scores, is_right)
    return ids, probabilities(classifier, scores)


def _fit_familiarity(
    classifier: Classifier,
    data: Labeled,
    n_words: int | None,
    settings: ClassifySettings,
    is_seen: np.ndarray | None,
    subset_classifiers: Sequence[SubsetClassifier],
    progress: Progress,
) -> None:
    """Fit the factors of familiarity (familiarity.py), to rows as read later; say how many rows of
    unknown labels pass a threshold if they are many.
    """
    features, labels = _rows_with_trained_labels(classifier, data)
    fitted = familiarity_fit.fit(
        classifier,
        features,
        labels,
        is_seen,
        n_words,
        np.random.default_rng([settings.seed, PERTURBED_ROWS]),
        settings.threads,
        subset_classifiers,
    )
    classifier.arrays["familiarity"] = fitted.factors
    by_default, by_abstaining = fitted.accepted
    if by_default > familiarity_fit.MAX_ACCEPTED_SHARE:
        progress.note(
            f"of {fitted.n_left_out:,} held-out rows whose labels were left out of training"
            f" {by_default:.0%} pass a threshold of {familiarity_fit.ACCEPTED_PROBABILITY}, and"
            f" {by_abstaining:.0%} if `predict` has ",
            Setting("abstain"),
        )


def _fit_decisions(classifier: Classifier, data: Labeled, threads: int | None) -> None:
    """Fit the threshold of the best F1, and those of the coverages of conformal sets."""
    features, labels = scored_rows(classifier, data)
    n_best = max_labels(classifier, in_sets=True)
    ids, p = joined_blocks(classifier.iter_top_k(features, n_best, threads=threads))
    is_right = hits(ids, labels)
    classifier.arrays["coverage"] = decisions.coverage_sums(p, is_right, labels.n_of_row)
    classifier.facts["threshold"] = decisions.best_threshold(p, is_right, len(labels.ids))


def _add_neighbours(
    classifier: Classifier,
    index: dict[str, np.ndarray],
    features: Any,
    labels: Labels,
    candidates: Best | None,
    settings: ClassifySettings,
    progress: Progress,
) -> None:
    """Blend probabilities with the labels of neighbours; with `auto` only if that improves the
    precision of held-out rows. With enough held-out rows, these also choose the blend.

    candidates  the best labels of the held-out rows and their probabilities without neighbours;
                None if there are too few rows
    """
    n_or_auto = settings.neighbours
    assert n_or_auto is not None
    is_auto = n_or_auto == AUTO
    if is_auto and candidates is None:
        return

    rows = neighbours.indexed(index, classifier.schema.n_features, classifier.n_labels)
    if candidates is None:
        classifier.set_neighbours(index, rows, Blend(int(n_or_auto)))
        _note_blend(classifier, index, "", progress)
        return

    threads = settings.threads
    assert threads is not None
    scaled = classifier.prepared(features)
    chosen = neighbours.choose_blend(rows, candidates, scaled, labels, n_or_auto, threads)
    measured = (
        f": mean of P@1, P@3 and P@5 of held-out rows {chosen.precision:.3f} without,"
        f" {chosen.gain:+.4f} ± {chosen.standard_error:.4f} with them"
    )
    if is_auto and chosen.gain <= neighbours.MIN_GAIN * chosen.standard_error:
        progress.note(f"no neighbours, whose gain is too small{measured}")
        return
    classifier.set_neighbours(index, rows, chosen.blend)
    _calibrate_blend(classifier, chosen, candidates, labels, threads)
    _note_blend(classifier, index, measured, progress)


def _note_blend(
    classifier: Classifier, index: dict[str, np.ndarray], measured: str, progress: Progress
) -> None:
    """Say how scores are blended, what that was measured to gain, and the size of the index."""
    blend = Blend(*classifier.arrays["neighbour_blend"])
    size = amount(sum(array.nbytes for array in index.values()))
    n_rows = len(index["neighbour_offsets"]) - 1
    progress.note(
        f"probabilities are blended with {blend.share:.0%} of the labels of the {blend.n:.0f}"
        f" nearest of {n_rows:,} training rows{measured}; their index takes {size}"
    )


def _calibrate_blend(
    classifier: Classifier, chosen: ChosenBlend, candidates: Best, labels: Labels, threads: int
) -> None:
    """Give a classifier the calibration of the scores of the chosen blend."""
    ids, scores = classifier.neighbours.blended(
        *candidates, chosen.near, chosen.blend, calibration.N_BEST, threads
    )
    classifier.arrays["neighbour_calibration"] = calibration.fit(scores, hits(ids, labels))
