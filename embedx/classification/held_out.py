"""Fits everything that held-out rows are for: temperature, calibration, neighbours, familiarity,
thresholds.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy import ndarray

from embedx.classification import calibration, damage, decisions, familiarity, neighbours
from embedx.classification.classifier import Classifier
from embedx.classification.familiarity import Knowledge
from embedx.classification.label_tree import CANDIDATES
from embedx.classification.neighbours import Blend, ChosenBlend
from embedx.classification.ranking import Answers
from embedx.classification.row_blocks import all_rows
from embedx.classification.settings import AUTO, ClassifySettings
from embedx.classification.unknown_labels import WithoutGroup
from embedx.evaluation.labels import fit_temperature, hits
from embedx.labeled.data import Labeled, Labels
from embedx.labeled.rules import known_labels
from embedx.runtime.disk import amount
from embedx.runtime.progress import Progress
from embedx.runtime.random_streams import DAMAGED_ROWS


def fit(
    classifier: Classifier,
    data: Labeled | None,
    index: dict[str, np.ndarray] | None,
    settings: ClassifySettings,
    progress: Progress,
    is_seen: np.ndarray | None = None,
    without: Sequence[WithoutGroup] = (),
) -> None:
    """Fit all of these to held-out rows, if some have labels that were trained on.

    index     the rows whose labels are blended (`neighbours.arrays_of`); None for no neighbours
    settings  resolved
    is_seen   bool (n_features,): the features that training rows have; None for dense features
    without   classifiers that were trained without some labels
    """
    features = None
    labels = Labels.of_rows([])
    if data is not None:
        features, labels = _known_rows(classifier, data)

    if len(labels) and not classifier.has_label_tree:
        _fit_temperature(classifier, features, labels, settings.threads)
    if len(labels) >= calibration.MIN_ROWS:
        _fit_calibration(classifier, features, labels, settings.threads)
    if index is not None:
        _add_neighbours(classifier, index, features, labels, settings, progress)
    if data is not None and "calibration" in classifier.arrays:
        text = classifier.known.text
        n_words = None if text is None else len(text.vocabulary)
        later = damage.as_read_later(data.features, is_seen, n_words)
        data = dataclasses.replace(data, features=later)
        rng = np.random.default_rng([settings.seed, DAMAGED_ROWS])
        _fit_familiarity(classifier, data, is_seen, n_words, rng, settings.threads, without)
        _fit_decisions(classifier, data, settings.threads)


def _known_rows(classifier: Classifier, data: Labeled) -> tuple[Any, Labels]:
    """The features and labels of the rows that have labels that were trained on."""
    labels = known_labels(data.labels, classifier.trained_counts)
    known = data.rows(np.flatnonzero(labels.n_of_row))
    tested_labels, kept = classifier.tested_labels(known.labels)
    return known.features[kept], tested_labels


def _fit_temperature(
    classifier: Classifier, features: Any, labels: Labels, threads: int | None
) -> None:
    """Fit the temperature on about TEMPERATURE_ROWS of the rows, evenly spaced."""
    step = -(-len(labels) // calibration.TEMPERATURE_ROWS)
    rows_used = slice(None, None, step)
    labels_used = labels.rows(rows_used)

    def blocks() -> Iterator[tuple[np.ndarray, Labels]]:
        for rows, log_p in classifier.blocks(features[rows_used], threads=threads):
            yield np.maximum(log_p, -1e4), labels_used.rows(rows)

    classifier.facts["temperature"] = 1 / fit_temperature(blocks)


def _fit_calibration(
    classifier: Classifier, features: Any, labels: Labels, threads: int | None
) -> None:
    """Fit the calibration of the scores of the best labels."""
    parts = classifier.best(features, calibration.N_BEST, threads=threads)
    ids, scores = all_rows((ids, scores) for _, ids, scores in parts)
    classifier.arrays["calibration"] = calibration.fit(scores, hits(ids, labels))


def _fit_familiarity(
    classifier: Classifier,
    data: Labeled,
    is_seen: np.ndarray | None,
    n_words: int | None,
    rng: np.random.Generator,
    threads: int | None,
    without: Sequence[WithoutGroup],
) -> None:
    """Fit the factors by which probabilities of unfamiliar rows are lowered.

    They are fitted to held-out rows as they are, damaged, and as rows of unknown labels.

    data  as `damage.as_read_later` gives it
    """
    features, labels = _known_rows(classifier, data)
    rows_used = slice(None, None, max(1, -(-len(labels) // damage.MAX_ROWS)))
    features, labels = features[rows_used], labels.rows(rows_used)
    no_features = features[:1] * np.float32(0)
    empty_score = float(_best_answers(classifier, no_features, threads)[0].scores[0, 0])

    parts = []
    for rows in damage.damaged(features, is_seen, n_words, rng):
        answers, knowledge = _best_answers(classifier, rows.features, threads)
        first = answers.ids[:, :1]
        n_right = np.sum(
            [hits(first, labels.rows(origin))[:, 0] for origin in rows.origin.T], axis=0
        )
        part = (
            familiarity.terms(knowledge, answers.scores, empty_score),
            answers.p[:, 0],
            (n_right > 0) & rows.truth,
            np.where(n_right > 1, 0.0, rows.weight),
            np.full(len(n_right), rows.foreign),
        )
        parts.append(part)
    unknown = _unknown_rows(classifier, features, labels, n_words, empty_score, without)
    n = len(unknown.p)
    parts.append(
        (
            *unknown,
            np.zeros(n, bool),
            np.full(n, damage.WEIGHT_UNKNOWN),
            np.ones(n, bool),
        )
    )
    *arrays, is_foreign = (np.concatenate(columns) for columns in zip(*parts, strict=True))

    known_rows = familiarity.fit(*(array[~is_foreign] for array in arrays))
    known_labels = familiarity.limited(familiarity.fit(*arrays), *unknown)
    factors = [[empty_score, *weights] for weights in (known_rows, known_labels)]
    classifier.arrays["familiarity"] = np.array(factors)


class _UnknownRows(NamedTuple):
    """Terms of rows of unknown labels, (n, N_TERMS), and probabilities of their best labels."""

    terms: ndarray
    p: ndarray


def _unknown_rows(
    classifier: Classifier,
    features: Any,
    labels: Labels,
    n_words: int | None,
    empty_score: float,
    without: Sequence[WithoutGroup],
) -> _UnknownRows:
    """The rows as classifiers answer them that were trained without their labels."""
    terms = [np.zeros((0, familiarity.N_TERMS))]
    p = [np.zeros(0)]
    for group in without:
        rows = group.unknown_rows(labels)
        if not len(rows):
            continue
        later = damage.as_read_later(features[rows], group.group.is_seen, n_words)
        known, n_unknown = familiarity.split(later, classifier.known.n_features)
        scores, p_best = group.best_two(known, classifier)
        knowledge = classifier.knowledge(known, n_unknown, slice(0, len(rows)))
        terms.append(familiarity.terms(knowledge, scores, empty_score))
        p.append(p_best)
    return _UnknownRows(np.concatenate(terms), np.concatenate(p))


def _best_answers(
    classifier: Classifier, features: Any, threads: int | None
) -> tuple[Answers, Knowledge]:
    """The best labels of rows, and how familiar the rows are."""
    features, n_unknown = familiarity.split(features, classifier.known.n_features)
    parts = [answers for _, answers in classifier.answers(features, 2, threads=threads)]
    answers = Answers(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))
    return answers, classifier.knowledge(features, n_unknown, slice(0, features.shape[0]))


def _fit_decisions(classifier: Classifier, data: Labeled, threads: int | None) -> None:
    """Fit the threshold of the best F1, and those of the coverages of conformal sets."""
    features, labels = classifier.tested(data)
    n_best = classifier.max_labels(in_sets=True)
    ids, p = all_rows(classifier.iter_top_k(features, n_best, threads=threads))
    is_right = hits(ids, labels)
    classifier.arrays["coverage"] = decisions.coverage_sums(p, is_right, labels.n_of_row)
    classifier.facts["threshold"] = decisions.best_threshold(p, is_right, len(labels.ids))


def _add_neighbours(
    classifier: Classifier,
    index: dict[str, np.ndarray],
    features: Any,
    labels: Labels,
    settings: ClassifySettings,
    progress: Progress,
) -> None:
    """Add neighbours to the classifier; with `auto` only if they improve the precision of held-out
    rows. With enough held-out rows, these also choose the blend.
    """
    wanted = settings.neighbours
    threads = settings.threads
    assert wanted is not None
    assert threads is not None
    is_auto = wanted == AUTO
    has_rows = len(labels) >= calibration.MIN_ROWS
    if is_auto and not has_rows:
        return

    arrays = classifier.arrays
    blend = Blend(1 if is_auto else int(wanted))
    arrays |= index
    arrays["neighbour_blend"] = np.array(blend, np.float64)
    classifier.neighbours_changed()
    measured = ""
    if has_rows:
        chosen, ids, p = _chosen_blend(classifier, features, labels, wanted, threads)
        blend = chosen.blend
        measured = (
            f": mean of P@1, P@3 and P@5 of held-out rows {chosen.precision:.3f} without,"
            f" {chosen.gain:+.4f} ± {chosen.standard_error:.4f} with them"
        )
        if is_auto and chosen.gain <= neighbours.MIN_GAIN * chosen.standard_error:
            for name in neighbours.ARRAYS:
                arrays.pop(name, None)
            classifier.neighbours_changed()
            progress.note(f"no neighbours{measured}")
            return
        arrays["neighbour_blend"] = np.array(blend, np.float64)
        best, scores = classifier.neighbours.blended(
            ids, p, chosen.near, blend, calibration.N_BEST, threads
        )
        arrays["neighbour_calibration"] = calibration.fit(scores, hits(best, labels))

    size = amount(sum(array.nbytes for array in index.values()))
    n_rows = len(index["neighbour_offsets"]) - 1
    progress.note(
        f"probabilities are blended with {blend.share:.0%} of the labels of the {blend.n:.0f}"
        f" nearest of {n_rows:,} training rows{measured}; their index takes {size}"
    )


def _chosen_blend(
    classifier: Classifier, features: Any, labels: Labels, wanted: str, threads: int
) -> tuple[ChosenBlend, np.ndarray, np.ndarray]:
    """(blend, ids, probabilities): the blend chosen by held-out rows, and their best labels."""
    parts = classifier.best(features, CANDIDATES, threads=threads)
    ids, p = all_rows((ids, classifier.probabilities(scores)) for _, ids, scores in parts)
    chosen = neighbours.chosen(
        classifier.neighbours,
        ids,
        p,
        classifier.prepared(features),
        labels,
        wanted,
        threads,
    )
    return chosen, ids, p
