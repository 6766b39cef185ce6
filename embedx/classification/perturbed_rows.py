"""Held-out rows with features removed or replaced, which stand for later rows with more unknown
words or of other labels; familiarity_fit.py fits to them.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy import float32, ndarray
from scipy.sparse import csr_matrix

from embedx.labeled.data import offsets_of

# Maximum number of held-out rows to perturb; with more the factors hardly change.
MAX_ROWS = 1_000
# Maximum share of known words in a row of random words.
MAX_KNOWN_SHARE = 0.4
ROWS_PER_MIXTURE = 3
# Weights of the rows in the fit; unchanged rows have 1.
WEIGHT_OF_PERTURBED = 0.5
WEIGHT_OF_MIXTURE = 0.75


class PerturbedRows(NamedTuple):
    """Rows that were derived from held-out ones.

    origin               int (n, m): the rows that each was derived from
    weight               of each row in the fit
    keeps_labels         whether the labels of the origin are still right
    is_of_unknown_label  whether the rows stand for those of unknown labels, to which the factor of
                         probabilities is not fitted
    """

    features: Any
    origin: ndarray
    weight: float
    keeps_labels: bool = True
    is_of_unknown_label: bool = False


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


def perturbed(
    features: Any, is_seen: ndarray | None, n_words: int | None, rng: np.random.Generator
) -> list[PerturbedRows]:
    """The rows unchanged, then perturbed by each of the functions below.

    features  from `as_read_later`; other arguments as there
    """
    n = features.shape[0]
    rows = np.arange(n)[:, None]
    mixed, origin = mixtures(features, rng)
    mixed_rows = PerturbedRows(
        mixed, origin, WEIGHT_OF_MIXTURE, keeps_labels=False, is_of_unknown_label=True
    )
    words = random_words(features, is_seen, n_words, rng)
    rows_of_random_words = PerturbedRows(
        words, rows, WEIGHT_OF_PERTURBED, keeps_labels=False, is_of_unknown_label=n_words is None
    )
    result = [PerturbedRows(features, rows, 1.0), rows_of_random_words, mixed_rows]
    if n_words is None:
        return [
            *result,
            PerturbedRows(thinned(features, rng.random(n), rng), rows, WEIGHT_OF_PERTURBED),
        ]
    removed = thinned(features, rng.random(n), rng)
    replaced = with_unknown_words(features, thinned(features, rng.random(n), rng), n_words)
    return [
        *result,
        PerturbedRows(removed, rows, WEIGHT_OF_PERTURBED / 2),
        PerturbedRows(replaced, rows, WEIGHT_OF_PERTURBED / 2),
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
    origin = np.stack([rng.permutation(n) for _ in range(ROWS_PER_MIXTURE)], axis=1)
    shares = np.full(n, 1 / ROWS_PER_MIXTURE)
    mixed = thinned(features[origin[:, 0]], shares, rng)
    for column in origin[:, 1:].T:
        mixed = mixed + thinned(features[column], shares, rng)
    return mixed, origin


def with_unknown_words(features: csr_matrix, thin: csr_matrix, n_words: int) -> csr_matrix:
    """Thinned rows with an unknown word in place of each removed word."""
    n = thin.shape[0]
    n_unknown = words_in(features, n_words) - words_in(thin, n_words)
    n_removed = unknown_words_in(features) - unknown_words_in(thin)
    column = np.full(n, thin.shape[1] - 1)
    unknown = csr_matrix((n_unknown + n_removed, (np.arange(n), column)), thin.shape, dtype=float32)
    result = csr_matrix(thin + unknown)
    result.eliminate_zeros()
    return result


def words_in(features: csr_matrix, n_words: int) -> ndarray:
    """The number of known words of each row, (n,)."""
    row = np.repeat(np.arange(features.shape[0]), np.diff(features.indptr))
    return np.bincount(row, features.data * (features.indices < n_words), features.shape[0])


def unknown_words_in(features: csr_matrix) -> ndarray:
    """The number of unknown words of each row, (n,): their column comes last."""
    return np.asarray(features[:, -1].todense()).ravel()


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
    length = words_in(features, n_words) + unknown_words_in(features)
    n_known = np.floor(length * rng.random(n) * MAX_KNOWN_SHARE).astype(int)
    offsets = offsets_of(n_known)
    words = rng.choice(seen, offsets[-1])
    row = np.repeat(np.arange(n), n_known)
    cells_of_words = (np.ones(len(words), float32), (row, words))
    known = csr_matrix(cells_of_words, features.shape)
    column = np.full(n, features.shape[1] - 1)
    cells_of_unknown = (length - n_known, (np.arange(n), column))
    result = csr_matrix(known + csr_matrix(cells_of_unknown, features.shape, dtype=float32))
    result.eliminate_zeros()
    return result
