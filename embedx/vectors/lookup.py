"""From a word, or the number of its row, to its row and its vector."""

import reprlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy import ndarray

from embedx.errors import DataError, EmbedxError, near
from embedx.text.unicode_forms import word_parts

if TYPE_CHECKING:
    from embedx.vectors.model import WordVectors

# A word, or the number of its row.
Key = str | int | np.integer[Any]
KEYS = (str, int, np.integer)
K = TypeVar("K", bound=Key)
# Words that are compared with an unknown one to suggest the nearest.
MAX_SUGGESTED = 50_000


class UnknownWordError(EmbedxError, KeyError):
    """A word that the vocabulary does not hold."""

    __str__ = EmbedxError.__str__  # KeyError would quote the message


def find_row(model: "WordVectors", key: object) -> int | None:
    """The row of a word, or of a row number; None for an unknown one."""
    if isinstance(key, int | np.integer):
        return int(key) if 0 <= key < len(model) else None
    if isinstance(key, str):
        return model.key_to_index.get(model.spelled(key))
    return None


def row_of(model: "WordVectors", key: Key) -> int:
    """The row of a word or row number. Raises KeyError for an unknown one."""
    row = find_row(model, key)
    if row is None:
        raise unknown(model, key)
    return row


def find_vector(model: "WordVectors", key: Key) -> ndarray | None:
    """The vector of a word or a row number, float32 (dim,); None for one without.

    In a model with subwords a word that was never seen has a vector too, if one of its n-grams has.
    """
    row = find_row(model, key)
    if row is not None:
        return model.vectors[row]
    if model.subwords is None or not isinstance(key, str):
        return None
    return model.subwords.vector(model.spelled(key))


def vector_of(model: "WordVectors", key: Key) -> ndarray:
    """The vector of a word or a row number, float32 (dim,). Raises KeyError for one without, and
    DataError for what is neither.
    """
    if not isinstance(key, KEYS):
        raise not_a_key(key)
    vector = find_vector(model, key)
    if vector is None:
        raise unknown(model, key)
    return vector


def find_vectors(model: "WordVectors", words: Sequence[K]) -> tuple[list[K], list[ndarray]]:
    """The words that have vectors, and these."""
    if isinstance(words, str):
        raise DataError("words", None, f"{words!r} is a string", "give a list of words")
    known = []
    vectors = []
    for key in as_keys(words):
        vector = find_vector(model, key)
        if vector is not None:
            known.append(key)
            vectors.append(vector)
    return known, vectors


def vectors_of(model: "WordVectors", words: Sequence[K]) -> tuple[list[K], list[ndarray]]:
    """`find_vectors`; raises DataError where no word has one."""
    known, vectors = find_vectors(model, words)
    if not known:
        problem = f"no {model.noun}s"
        if words:
            problem = f"none of the {len(words):,} {model.noun}s has a vector"
        raise DataError("words", None, problem, f"give {model.noun}s of the model")
    return known, vectors


def as_keys(keys: Any) -> Iterable[Any]:
    """The items of a list. Raises DataError for what is no list."""
    if isinstance(keys, bytes) or not isinstance(keys, Iterable):
        raise not_a_key(keys)
    return keys


def unknown(model: "WordVectors", word: Key) -> UnknownWordError:
    """The error for a word or a row that the model does not have; it names words that look like
    it.
    """
    n_words = f"{len(model):,}"
    if not isinstance(word, str):
        return UnknownWordError(f"row {word}: not among the {n_words} rows of the model, from 0")
    ngrams = ""
    if model.subwords is not None:
        ngrams = ", nor is any of its n-grams"
    remedy = near(word, model.words[:MAX_SUGGESTED], "check its spelling")
    parts = word_parts(model.spelled(word)) if model.settings.get("tokenizer") == "words" else []
    if len(parts) > 1:
        remedy = f"choose one of its parts, into which the tokenizer splits it: {', '.join(parts)}"
    return UnknownWordError(
        f"{word}: not among the {n_words} {model.noun}s of the model{ngrams}; {remedy}"
    )


def not_a_key(value: object) -> DataError:
    """The error for what is no word and no row number."""
    problem = f"{reprlib.repr(value)} is no word and no row number"
    return DataError("words", None, problem, "give words as strings, one or a list")
