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


@kernel
def write_blended(ids, p, near, weight, labels, begin, end, share, has_roots, sums, best, scores):
    """Write the labels with the highest (1 - share) p + share q for the examples begin:end; with
    `has_roots`, of (1 - share) sqrt(p) + share sqrt(q).

    ids, p        int32, float32 (n, m): distinct labels and their p
    near, weight  int32, float32 (n, rows): the q of a label is the sum of the weights of the rows
                  `near` that have it
    sums          float32 (n_labels,): zeros before and after
    best, scores  int32, float32 (n, k), k <= m: best first; of equal scores those of `ids` first,
                  then those of nearer rows
    """
    for e in range(begin, end):
        for j in range(near.shape[1]):
            for at in range(labels.offsets[near[e, j]], labels.offsets[near[e, j] + 1]):
                sums[labels.ids[at]] += weight[e, j]
        n = 0
        for j in range(ids.shape[1]):
            score = blended_score(p[e, j], sums[ids[e, j]], share, has_roots)
            n = insert(score, ids[e, j], scores, best, e, n)
            sums[ids[e, j]] = 0
        for j in range(near.shape[1]):
            for at in range(labels.offsets[near[e, j]], labels.offsets[near[e, j] + 1]):
                if sums[labels.ids[at]] > 0:
                    score = blended_score(ZERO, sums[labels.ids[at]], share, has_roots)
                    n = insert(score, labels.ids[at], scores, best, e, n)
                    sums[labels.ids[at]] = 0


@kernel_part
def blended_score(p, q, share, has_roots):
    if has_roots:
        p = np.sqrt(p)
        q = np.sqrt(q)
    return (ONE - share) * p + share * q
