"""Queries of word vectors: the words nearest to a word, a vector or a weighted sum, by cosine.

A query is a list of terms: words, row numbers and vectors, perhaps with weights. Words that a query
names are excluded from its results, as in word2vec.c and gensim.
"""

import reprlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import float32, ndarray

from embedx import checks
from embedx.errors import DataError, SettingError
from embedx.vectors.lookup import (
    KEYS,
    K,
    Key,
    as_keys,
    find_row,
    not_a_key,
    row_of,
    vector_of,
    vectors_of,
)

if TYPE_CHECKING:
    from embedx.vectors.model import WordVectors

# A part of a query, perhaps with its weight.
Term = Key | ndarray | tuple[Key | ndarray, float]
Query = Term | Sequence[Term]
# Default number of words that a query returns.
TOP_K = 10
# Cosines computed at a time: 128 MB.
MAX_COSINES = 1 << 25


def nearest_to_sum(
    model: "WordVectors",
    positive: Query | None,
    negative: Query | None,
    top_k: int,
    restrict_vocab: int | None,
) -> list[tuple[str, float]]:
    """The words nearest to a weighted sum, with their cosines; see `WordVectors.most_similar`."""
    terms = [*_weighted_terms(positive, 1.0), *_weighted_terms(negative, -1.0)]
    if not terms:
        raise DataError("positive", None, "an empty query", "give a word or a vector")
    query = np.zeros(model.vector_size, float32)
    excluded = set[int]()
    for term, weight in terms:
        query += float32(weight) * _vector_of_term(model, term)
        excluded |= _rows_of_term(model, term)
    return nearest_to_vector(model, query, excluded, top_k, restrict_vocab)


def nearest_to_vector(
    model: "WordVectors",
    query: ndarray,
    excluded: set[int],
    top_k: int,
    restrict_vocab: int | None = None,
) -> list[tuple[str, float]]:
    """The words nearest to a vector (dim,), with their cosines. Raises DataError for a zero vector.

    excluded        rows that are left out
    restrict_vocab  see `WordVectors.most_similar`
    """
    if not query.any():
        problem = "a query whose vector is zero, so that nothing is near to it"
        raise DataError("positive", None, problem, "give other words")
    return nearest_to_units(model, [unit(query)], [excluded], top_k, restrict_vocab)[0]


def nearest_to_each(
    model: "WordVectors", queries: Sequence[Key | ndarray] | ndarray, top_k: int
) -> list[list[tuple[str, float]]]:
    """The words nearest to each query, a word, a row number or a vector, with their cosines."""
    if isinstance(queries, str):
        raise DataError("queries", None, f"{queries!r} is a string", "give a list of words")
    units = [unit(_vector_of_term(model, query)) for query in queries]
    excluded = [_rows_of_term(model, query) for query in queries]
    return nearest_to_units(model, units, excluded, top_k)


def nearest_to_units(
    model: "WordVectors",
    units: Sequence[ndarray],
    excluded: Sequence[set[int]],
    top_k: int,
    restrict_vocab: int | None = None,
) -> list[list[tuple[str, float]]]:
    """The words with the largest cosines to each of some unit vectors (dim,), with these cosines.

    excluded        rows that are left out, a set for each unit vector
    restrict_vocab  see `WordVectors.most_similar`
    """
    if restrict_vocab is not None and restrict_vocab < 0:
        raise SettingError("restrict_vocab", restrict_vocab, "must be at least 0")
    vectors = model.vectors[:restrict_vocab]
    norms = model.norms[:restrict_vocab]
    results = []
    step = max(1, MAX_COSINES // max(1, len(vectors)))
    for start in range(0, len(units), step):
        stop = start + step
        cosines = np.array(units[start:stop], float32) @ vectors.T / norms
        for row, excluded_rows in zip(cosines, excluded[start:stop], strict=True):
            hidden = [k for k in excluded_rows if k < len(vectors)]
            row[hidden] = -np.inf
            best = largest(row, min(top_k, len(vectors) - len(hidden)))
            results.append([(model.words[k], float(row[k])) for k in best.tolist()])
    return results


def closer_words(model: "WordVectors", word: Key, other: Key) -> list[str]:
    """The words whose cosine to `word` is larger than that of `other`, in the order of rows."""
    row = row_of(model, word)
    row_of_other = row_of(model, other)
    cosines = model.vectors @ unit(model.vectors[row]) / model.norms
    is_closer = cosines > cosines[row_of_other]
    is_closer[row] = False
    return [model.words[k] for k in np.flatnonzero(is_closer).tolist()]


def odd_one_out(model: "WordVectors", words: Sequence[K]) -> K:
    """The word with the smallest cosine to the mean of all unit vectors."""
    known, vectors = vectors_of(model, words)
    units = np.array([unit(vector) for vector in vectors])
    cosines = units @ unit(units.mean(axis=0))
    return known[int(np.argmin(cosines))]


def largest(values: ndarray, n: int) -> ndarray:
    """int64 (n,): the places of the largest values, the largest first; of equal ones the first."""
    places = np.argpartition(-values, max(n - 1, 0))[:n]
    return places[np.lexsort((places, -values[places]))]


def unit(vector: ndarray) -> ndarray:
    """`vector` at length 1; a zero vector stays zero."""
    norm = float(np.linalg.norm(vector))
    return np.divide(vector, norm) if norm > 0 else vector


def n_results(top_k: int, topn: int | None) -> int:
    """The number of results, by the one of its two names that was given. Raises TypeError for both,
    and SettingError for no whole number from 0 on.
    """
    if topn is not None and top_k not in (TOP_K, topn):
        raise TypeError(f"topn={topn} and top_k={top_k} are the same; give one of them")
    return checks.whole_top_k(top_k) if topn is None else checks.whole_top_k(topn, "topn")


# ---- the terms of a query


def _vector_of_term(model: "WordVectors", term: Key | ndarray) -> ndarray:
    """The unit vector of a word or row, or a vector as it is. Raises DataError for one that does
    not fit.
    """
    if not isinstance(term, ndarray):
        return unit(vector_of(model, term))
    wrong_form = checks.wrong_form(term, (model.vector_size,))
    if wrong_form or not np.isfinite(term).all():
        wanted = f"give {model.vector_size} finite numbers"
        raise DataError("vector", None, f"an array {term.shape} as a query", wanted)
    return term


def _rows_of_term(model: "WordVectors", term: Key | ndarray) -> set[int]:
    """The row of a word or row number, which is excluded; empty for a vector."""
    row = None if isinstance(term, ndarray) else find_row(model, term)
    return set() if row is None else {row}


def _weighted_terms(query: Query | None, sign: float) -> list[tuple[Key | ndarray, float]]:
    """The words, rows and vectors of a query, with their weights, `sign` where none is given.
    Raises DataError for what is none of these.
    """
    if query is None:
        return []
    is_vector = isinstance(query, ndarray) and query.ndim < 2
    is_one = isinstance(query, KEYS) or is_vector or _is_word_and_weight(query)
    terms: Iterable[Any] = [query] if is_one else as_keys(query)
    return [_with_weight(term, sign) for term in terms]


def _is_word_and_weight(query: object) -> bool:
    """Whether it is a pair of a word or a vector, and a number: not two row numbers."""
    if not isinstance(query, tuple) or len(query) != 2:
        return False
    return isinstance(query[0], str | ndarray) and isinstance(query[1], int | float | np.number)


def _with_weight(term: Any, sign: float) -> tuple[Key | ndarray, float]:
    """A word, a row or a vector with its weight, `sign` if it has none."""
    if not isinstance(term, tuple):
        return term, sign
    is_pair = len(term) == 2 and isinstance(term[0], str | int | np.integer | ndarray)
    if not is_pair or not isinstance(term[1], int | float | np.number):
        raise not_a_key(term)
    if not np.isfinite(term[1]):
        problem = f"the weight {term[1]} of {reprlib.repr(term[0])}"
        raise DataError("positive", None, problem, "give a finite number")
    return term
