"""What a classifier learns from rows that were held out of training: temperature, calibration,
neighbours, decisions.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from embedx.classification import calibration, decisions, neighbours
from embedx.classification.classifier import Classifier, all_rows
from embedx.classification.label_tree import CANDIDATES
from embedx.classification.neighbours import Blend
from embedx.classification.settings import AUTO
from embedx.evaluation.labels import fit_temperature, hits
from embedx.labeled.data import Labeled, Labels
from embedx.labeled.rules import known_labels
from embedx.storage.disk import amount
from embedx.training.progress import Progress


def fit(
    classifier: Classifier,
    data: Labeled | None,
    index: dict[str, np.ndarray] | None,
    settings: Any,
    progress: Progress,
) -> None:
    """Fit all of it to the rows, if some have labels that were trained on.

    index     the rows whose labels are blended (`neighbours.arrays_of`), if any are to be
    settings  resolved `ClassifySettings`
    """
    features, labels = None, Labels.of_rows([])
    if data is not None:
        known = data.rows(
            np.flatnonzero(known_labels(data.labels, classifier.trained_counts).n_of_row)
        )
        labels, kept = classifier.tested_labels(known.labels)
        features = known.features[kept]
    if len(labels) and not classifier.is_searched:
        _fit_temperature(classifier, features, labels, settings.threads)
    if len(labels) >= calibration.MIN_ROWS:
        parts = classifier.best(features, calibration.N_BEST, threads=settings.threads)
        ids, scores = all_rows((ids, scores) for _, ids, scores in parts)
        classifier.arrays["calibration"] = calibration.fit(scores, hits(ids, labels))
    if index is not None:
        _add_neighbours(classifier, index, features, labels, settings, progress)
    if data is not None and "calibration" in classifier.arrays:
        features, labels = classifier.tested(data)
        ids, p = all_rows(
            classifier.top_k(
                features, classifier.max_labels(in_sets=True), threads=settings.threads
            )
        )
        is_right = hits(ids, labels)
        classifier.arrays["coverage"] = decisions.coverage_sums(p, is_right, labels.n_of_row)
        classifier.facts["threshold"] = decisions.best_threshold(p, is_right, len(labels.ids))


def _fit_temperature(classifier: Classifier, features: Any, labels: Labels, threads: int) -> None:
    some = slice(None, None, -(-len(labels) // calibration.TEMPERATURE_ROWS))
    own = labels.rows(some)

    def blocks() -> Iterator[tuple[np.ndarray, Labels]]:
        for rows, log_p in classifier.blocks(features[some], threads=threads):
            yield np.maximum(log_p, -1e4), own.rows(rows)

    classifier.facts["temperature"] = 1 / fit_temperature(blocks)


def _add_neighbours(
    classifier: Classifier,
    index: dict[str, np.ndarray],
    features: Any,
    labels: Labels,
    settings: Any,
    progress: Progress,
) -> None:
    """Blend with as many rows as wanted or, with `auto`, if the held-out rows gain by it; they
    choose the blend.
    """
    wanted, arrays, measured = settings.neighbours, classifier.arrays, ""
    is_known = len(labels) >= calibration.MIN_ROWS
    if wanted == AUTO and not is_known:
        return
    blend = Blend(1 if wanted == AUTO else int(wanted))
    arrays |= index | {"neighbour_blend": np.array(blend, np.float64)}
    classifier.parameters_changed()
    if is_known:
        parts = classifier.best(features, CANDIDATES, threads=settings.threads)
        ids, p = all_rows((ids, classifier.probabilities(scores)) for _, ids, scores in parts)
        blend, own, gain, error, near = neighbours.chosen(
            classifier.neighbours,
            ids,
            p,
            classifier.prepared(features),
            labels,
            wanted,
            settings.threads,
        )
        measured = (
            f": mean of P@1, P@3 and P@5 of held-out rows {own:.3f} without, {gain:+.4f} ±"
            f" {error:.4f} with them"
        )
        if wanted == AUTO and gain <= neighbours.MIN_GAIN * error:
            for name in neighbours.ARRAYS:
                arrays.pop(name, None)
            classifier.parameters_changed()
            progress.note(f"no neighbours{measured}")
            return
        arrays["neighbour_blend"] = np.array(blend, np.float64)
        best, scores = classifier.neighbours.blended(
            ids, p, near, blend, calibration.N_BEST, settings.threads
        )
        arrays["neighbour_calibration"] = calibration.fit(scores, hits(best, labels))
    size = amount(sum(array.nbytes for array in index.values()))
    progress.note(
        f"probabilities are blended with {blend.share:.0%} of the labels of the {blend.n:.0f}"
        f" nearest of {len(index[neighbours.INDEX[0]]) - 1:,} training rows{measured}; their index"
        f" takes {size}"
    )
