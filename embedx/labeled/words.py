"""fastText's lines, `__label__a __label__b some words here`, as bags of words: a feature is how often its word stands there."""

from itertools import chain
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

from embedx.labeled.files import Lines
from embedx.labeled.schema import Numbering, decoded

PREFIX = b"__label__"


class Bags(NamedTuple):
    """One bag of words for each line."""

    features: csr_matrix  # float32 (n_rows, n_words), counts
    vocabulary: list[str]  # words in the order in which they first appear
    offsets: np.ndarray  # int64 (n_rows + 1,), of the labels of each row
    labels: np.ndarray  # int32, numbers in `found`
    found: list[bytes]  # the different labels, without the prefix


def is_fasttext(lines: Lines) -> bool:
    """Whether the beginning of the text has labels of that kind."""
    return lines.head.startswith(PREFIX) or b" " + PREFIX in lines.head or b"\n" + PREFIX in lines.head


def read_bags(lines: Lines, vocabulary: list[str] | None) -> Bags:
    """The lines as bags of these words, or of all; words and labels are separated by white space, labels stand anywhere."""
    numbering = Numbering({word.encode("utf-8"): number for number, word in enumerate(vocabulary or [])})
    pieces: list[np.ndarray] = []
    sizes: list[int] = []
    for chunk in lines:
        decoded(lines, chunk)
        rows = [line.split() for line in chunk.split(b"\n")[:-1]]
        sizes += map(len, rows)
        pieces.append(np.fromiter(map(numbering.__getitem__, chain.from_iterable(rows)), np.int32))
    tokens = np.concatenate(pieces)
    del pieces
    types = list(numbering)
    is_label = np.fromiter((word.startswith(PREFIX) for word in types), bool, len(types))
    if vocabulary is None:
        is_word = ~is_label
        vocabulary = [word.decode("utf-8") for word, is_one in zip(types, is_word.tolist(), strict=True) if is_one]
    else:
        is_word = np.arange(len(types)) < len(vocabulary)
    row_of = np.repeat(np.arange(len(sizes)), sizes)
    words = np.flatnonzero(is_word[tokens])
    labels = np.flatnonzero(is_label[tokens])
    columns = (np.cumsum(is_word) - 1)[tokens[words]].astype(np.int32)
    values = np.ones(len(words), np.float32)
    features = csr_matrix((values, columns, _offsets(row_of[words], len(sizes))), shape=(len(sizes), len(vocabulary)))
    found = [word.removeprefix(PREFIX) for word in types if word.startswith(PREFIX)]
    numbers = (np.cumsum(is_label) - 1)[tokens[labels]].astype(np.int32)
    return Bags(features, vocabulary, _offsets(row_of[labels], len(sizes)), numbers, found)


def _offsets(row_of: np.ndarray, n_rows: int) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(np.bincount(row_of, minlength=n_rows))]).astype(np.int64)
