"""Probabilities of labels blended with the labels of the nearest rows (`nearest_rows`)."""

from typing import NamedTuple

import numpy as np
from numpy import ndarray

from embedx.kernels.compiled import kernel, kernel_part
from embedx.kernels.select import insert
from embedx.kernels.simd import ONE, ZERO


class RowLabels(NamedTuple):
    """The labels of each row."""

    offsets: ndarray  # int64 (n_rows + 1,)
    ids: ndarray  # int32


class NearLabels(NamedTuple):
    """The nearest rows of each example, with their weights and labels."""

    rows: ndarray  # int32 (n, n_near)
    weights: ndarray  # float32 (n, n_near)
    labels: RowLabels


class ScoredLabels(NamedTuple):
    """Distinct labels of each example, and their probabilities or scores."""

    ids: ndarray  # int32 (n, k)
    scores: ndarray  # float32 (n, k)


@kernel
def write_blended(predicted, near, share, has_roots, begin, end, sums, best):
    """Write the labels with the highest (1 - share) p + share q for the examples begin:end; with
    `has_roots`, of (1 - share) sqrt(p) + share sqrt(q).

    predicted  `ScoredLabels`, with their p
    near       `NearLabels`: the q of a label is the summed weight of the rows that have it
    sums       float32 (n_labels,): zeros before and after
    best       `ScoredLabels`, at most as many as predicted: best first; of equal scores those of
               `predicted` first, then those of nearer rows
    """
    rows = near.rows
    labels = near.labels
    ids = predicted.ids
    for e in range(begin, end):
        for j in range(rows.shape[1]):
            for at in range(labels.offsets[rows[e, j]], labels.offsets[rows[e, j] + 1]):
                sums[labels.ids[at]] += near.weights[e, j]
        n = 0
        for j in range(ids.shape[1]):
            score = blended_score(predicted.scores[e, j], sums[ids[e, j]], share, has_roots)
            n = insert(score, ids[e, j], best.scores, best.ids, e, n)
            sums[ids[e, j]] = 0
        for j in range(rows.shape[1]):
            for at in range(labels.offsets[rows[e, j]], labels.offsets[rows[e, j] + 1]):
                if sums[labels.ids[at]] > 0:
                    score = blended_score(ZERO, sums[labels.ids[at]], share, has_roots)
                    n = insert(score, labels.ids[at], best.scores, best.ids, e, n)
                    sums[labels.ids[at]] = 0


@kernel_part
def blended_score(p, q, share, has_roots):
    if has_roots:
        p = np.sqrt(p)
        q = np.sqrt(q)
    return (ONE - share) * p + share * q
