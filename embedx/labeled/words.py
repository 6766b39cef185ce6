"""fastText's lines, `__label__a __label__b some words here`, as bags of words: a feature is how often its word stands there."""

from itertools import chain

import numpy as np
from scipy.sparse import csr_matrix, vstack

from embedx.labeled.data import Labels, TextRows, offsets_of
from embedx.labeled.files import Lines, MemoryBudget
from embedx.labeled.schema import WORD_BYTES, decoded

PREFIX = b"__label__"
UNKNOWN, FIRST_LABEL = -1, -2


class Tokens(dict[bytes, int]):
    """Numbers words from 0 up and labels from FIRST_LABEL down, in the order in which they are first looked up.

    Of words those of the vocabulary alone, if one is given: others are UNKNOWN.
    """

    def __init__(self, budget: MemoryBudget, vocabulary: list[str] | None) -> None:
        self.words = [word.encode("utf-8") for word in vocabulary or []]
        self.labels: list[bytes] = []
        self._budget, self._grows = budget, vocabulary is None
        super().__init__(zip(self.words, range(len(self.words)), strict=True))

    def __missing__(self, token: bytes) -> int:
        if token.startswith(PREFIX):
            number = FIRST_LABEL - len(self.labels)
            self.labels.append(token)
        elif self._grows:
            number = len(self.words)
            self.words.append(token)
        else:
            return UNKNOWN
        self._budget.take(len(token) + WORD_BYTES)
        self[token] = number
        return number


def is_fasttext(lines: Lines) -> bool:
    """Whether the beginning of the text has labels of that kind."""
    return lines.head.startswith(PREFIX) or b" " + PREFIX in lines.head or b"\n" + PREFIX in lines.head


def read_bags(lines: Lines, vocabulary: list[str] | None) -> TextRows:
    """The lines as bags of these words, or of all; words and labels are separated by white space, labels stand anywhere."""
    known = Tokens(lines.budget, vocabulary)
    counted: list[csr_matrix] = []  # the words of each chunk
    numbers: list[np.ndarray] = []  # its labels
    sizes: list[np.ndarray] = []  # how many of them each row has
    for chunk in lines:
        decoded(lines, chunk)
        rows = [line.split() for line in chunk.split(b"\n")[:-1]]
        tokens = np.fromiter(map(known.__getitem__, chain.from_iterable(rows)), np.int32)
        row_of = np.repeat(np.arange(len(rows)), np.fromiter(map(len, rows), np.int64, len(rows)))
        counted.append(_counts(tokens, row_of, len(rows), len(known.words)))
        is_label = tokens <= FIRST_LABEL
        numbers.append(FIRST_LABEL - tokens[is_label])
        sizes.append(np.bincount(row_of[is_label], minlength=len(rows)))
        features = counted[-1]
        lines.budget.take(features.data.nbytes + features.indices.nbytes + 2 * features.indptr.nbytes)
        lines.budget.take(numbers[-1].nbytes + 2 * sizes[-1].nbytes)
    vocabulary = [word.decode("utf-8") for word in known.words] if vocabulary is None else vocabulary
    for each in counted:
        each.resize(each.shape[0], len(vocabulary))
    labels = Labels(offsets_of(np.concatenate(sizes)), np.concatenate(numbers))
    found = [label.removeprefix(PREFIX) for label in known.labels]
    return TextRows(vstack(counted, "csr"), labels, found, vocabulary=vocabulary)


def _counts(tokens: np.ndarray, row_of: np.ndarray, n_rows: int, n_words: int) -> csr_matrix:
    """How often each word stands in each row; float32."""
    is_word = tokens >= 0
    offsets = offsets_of(np.bincount(row_of[is_word], minlength=n_rows))
    counts = csr_matrix((np.ones(offsets[-1], np.float32), tokens[is_word], offsets), shape=(n_rows, n_words))
    counts.sum_duplicates()
    return counts
