"""Held-out rows with features removed or replaced, in place of later rows with more unknown words:
the factors of embedx.classification.familiarity are fitted to them.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy import float32, ndarray
from scipy.sparse import csr_matrix

from embedx.labeled.data import offsets_of

# Maximum number of held-out rows to damage; with more the factors hardly change.
MAX_ROWS = 1_000
# Maximum share of known words in a row of random words.
MAX_KNOWN_AT_RANDOM = 0.4
N_MIXED = 3
WEIGHT_DAMAGED = 0.5
WEIGHT_MIXED = 0.75
# Of held-out rows that a classifier answers without knowing their labels.
WEIGHT_UNKNOWN = 0.25


class Damaged(NamedTuple):
    """Rows that were derived from held-out ones.

    origin  int (n, m): the rows that each was derived from
    weight  of each row in the fit
    truth   whether the labels of the origin are still right
    foreign whether the rows represent those of unknown labels, to which the first factor is not
            fitted
    """

    features: Any
    origin: ndarray
    weight: float
    truth: bool = True
    foreign: bool = False


def as_read_later(features: Any, is_seen: ndarray | None, n_words: int | None) -> Any:
    """Held-out rows as if they had been read after training: words that no training row has are
    unknown, and counted in a column behind the features.

    features  of rows that were read with the training rows; or of another file, which have that
              column already
    is_seen   bool (n_features,): whether training rows have a feature; None for dense features
    n_words   number of features that are words; None if the data are not text
    """
    if is_seen is None:
        return features
    n_features = len(is_seen)
    kept = np.where(is_seen, np.arange(n_features), -1)
    if n_words is not None:
        kept[:n_words][~is_seen[:n_words]] = n_features
        kept = np.append(kept, n_features)
    column = kept[features.indices]
    row = np.repeat(np.arange(features.shape[0]), np.diff(features.indptr))
    is_kept = column >= 0
    cells = (features.data[is_kept], (row[is_kept], column[is_kept]))
    return csr_matrix(cells, (len(features.indptr) - 1, n_features + (n_words is not None)))


def damaged(
    features: Any, is_seen: ndarray | None, n_words: int | None, rng: np.random.Generator
) -> list[Damaged]:
    """The rows unchanged, then damaged by each of the functions below.

    features  from `as_read_later`; other arguments as there
    """
    n = features.shape[0]
    rows = np.arange(n)[:, None]
    mixed, origin = mixtures(features, rng)
    mixed_rows = Damaged(mixed, origin, WEIGHT_MIXED, truth=False, foreign=True)
    words = random_words(features, is_seen, n_words, rng)
    at_random = Damaged(words, rows, WEIGHT_DAMAGED, truth=False, foreign=n_words is None)
    result = [Damaged(features, rows, 1.0), at_random, mixed_rows]
    if n_words is None:
        return [*result, Damaged(thinned(features, rng.random(n), rng), rows, WEIGHT_DAMAGED)]
    removed = thinned(features, rng.random(n), rng)
    replaced = unknown_in_place_of_removed(features, thinned(features, rng.random(n), rng), n_words)
    return [
        *result,
        Damaged(removed, rows, WEIGHT_DAMAGED / 2),
        Damaged(replaced, rows, WEIGHT_DAMAGED / 2),
    ]


def thinned(features: Any, shares: ndarray, rng: np.random.Generator) -> Any:
    """The rows with about these shares of their values, (n,); the others are set to 0."""
    if not isinstance(features, csr_matrix):
        return np.where(rng.random(features.shape) < shares[:, None], features, float32(0))
    share = np.repeat(shares, np.diff(features.indptr))
    thin = features.copy()
    thin.data = np.where(rng.random(len(share)) < share, thin.data, float32(0))
    thin.eliminate_zeros()
    return thin


def mixtures(features: Any, rng: np.random.Generator) -> tuple[Any, ndarray]:
    """(mixtures, origins): rows with a third of the values of each of three rows, int (n, 3)."""
    n = features.shape[0]
    origin = np.stack([rng.permutation(n) for _ in range(N_MIXED)], axis=1)
    shares = np.full(n, 1 / N_MIXED)
    mixed = thinned(features[origin[:, 0]], shares, rng)
    for column in origin[:, 1:].T:
        mixed = mixed + thinned(features[column], shares, rng)
    return mixed, origin


def unknown_in_place_of_removed(features: csr_matrix, thin: csr_matrix, n_words: int) -> csr_matrix:
    """Thinned rows with an unknown word in place of each removed word."""
    n = thin.shape[0]
    n_unknown = words_in(features, n_words) - words_in(thin, n_words)
    before = (
        np.asarray(features[:, -1].todense()).ravel() - np.asarray(thin[:, -1].todense()).ravel()
    )
    column = np.full(n, thin.shape[1] - 1)
    unknown = csr_matrix((n_unknown + before, (np.arange(n), column)), thin.shape, dtype=float32)
    together = csr_matrix(thin + unknown)
    together.eliminate_zeros()
    return together


def words_in(features: csr_matrix, n_words: int) -> ndarray:
    """The number of known words of each row, (n,)."""
    row = np.repeat(np.arange(features.shape[0]), np.diff(features.indptr))
    return np.bincount(row, features.data * (features.indices < n_words), features.shape[0])


def random_words(
    features: Any, is_seen: ndarray | None, n_words: int | None, rng: np.random.Generator
) -> Any:
    """Rows of random features: for text, as many words as these rows have, few of them known; for
    dense features, each from another row.
    """
    if is_seen is None:
        return rng.permuted(features, axis=0)
    seen = np.flatnonzero(is_seen if n_words is None else is_seen[:n_words])
    n = features.shape[0]
    if n_words is None or not len(seen):
        shuffled = features.copy()
        if len(seen):
            shuffled.indices = rng.choice(seen, len(features.indices)).astype(np.int32)
            shuffled.has_sorted_indices = False
            shuffled.sum_duplicates()
        return shuffled
    length = words_in(features, n_words) + np.asarray(features[:, -1].todense()).ravel()
    n_known = np.floor(length * rng.random(n) * MAX_KNOWN_AT_RANDOM).astype(int)
    offsets = offsets_of(n_known)
    words = rng.choice(seen, offsets[-1])
    row = np.repeat(np.arange(n), n_known)
    cells_of_words = (np.ones(len(words), float32), (row, words))
    known = csr_matrix(cells_of_words, features.shape)
    column = np.full(n, features.shape[1] - 1)
    cells_of_unknown = (length - n_known, (np.arange(n), column))
    together = csr_matrix(known + csr_matrix(cells_of_unknown, features.shape, dtype=float32))
    together.eliminate_zeros()
    return together
