"""Rows with equal features: those that repeat an earlier training row, and test rows among them.

Rows are compared by a hash, their product with a vector of random numbers: equal rows have the
same, and different ones in practice never.
"""

import itertools
from typing import Any

import numpy as np
from numpy import ndarray

from embedx.labeled.data import Labeled, Labels
from embedx.runtime.progress import Progress

SEED = 2**34
# Values that are multiplied at a time.
BLOCK = 1 << 20


def note_repeated_rows(training: Labeled, test: Labeled | None, progress: Progress) -> None:
    """Note how many training rows repeat an earlier one, and warn of test rows that are among the
    training rows.
    """
    factors = np.random.default_rng(SEED).random(training.n_features)
    hashes, first, group = np.unique(
        row_hashes(training.features, factors), return_index=True, return_inverse=True
    )
    # Rows without features are alike, but need not be the same.
    has_features = hashes != 0
    is_repeated = has_features[group]
    is_repeated[first] = False
    n_repeated = np.count_nonzero(is_repeated)
    if n_repeated:
        labels = label_hashes(training.labels, training.n_labels)
        n_differing = np.count_nonzero(labels[is_repeated] != labels[first[group[is_repeated]]])
        with_other_labels = f", {n_differing:,} of them with other labels" if n_differing else ""
        progress.note(
            f"{n_repeated:,} of {len(training):,} training rows have the features of an earlier"
            f" row{with_other_labels}; if they were copied by mistake remove them, because rows"
            " that are held out are then known"
        )
    if test is None or test.n_features < training.n_features:
        return
    n_new = test.n_features - training.n_features
    hashes_of_test = row_hashes(test.features, np.append(factors, np.ones(n_new)))
    n_shared = np.count_nonzero(np.isin(hashes_of_test, hashes[has_features]))
    if n_shared:
        progress.warn(
            f"{n_shared:,} of {len(test):,} test rows have the features of a training row: scores"
            " of new rows are lower; remove these rows from either"
        )


def row_hashes(features: Any, factors: ndarray) -> ndarray:
    """The hash of each row, float64 (n_rows,); 0 without features.

    features  csr_matrix or ndarray, (n_rows, n_features)
    factors   float64 (n_features,)
    """
    n_rows = features.shape[0]
    hashes = np.zeros(n_rows)
    if isinstance(features, ndarray):
        step = max(1, BLOCK // max(1, features.shape[1]))
        for start in range(0, n_rows, step):
            rows = slice(start, start + step)
            # Not by BLAS, whose sums depend on the place of a row.
            hashes[rows] = (features[rows] * factors).sum(axis=1)
        return hashes
    bounds = np.searchsorted(features.indptr, np.arange(0, features.nnz, BLOCK), "right") - 1
    bounds = np.unique(np.append(bounds, n_rows))
    for start, stop in itertools.pairwise(bounds):
        hashes[start:stop] = features[start:stop] @ factors
    return hashes


def label_hashes(labels: Labels, n_labels: int) -> ndarray:
    """The hash of each row's labels, in any order, float64 (n_rows,)."""
    factors = np.random.default_rng(SEED).integers(1, 2**30, n_labels)
    return np.bincount(labels.row_of_id, weights=factors[labels.ids], minlength=len(labels))
