"""fastText's lines, `__label__a __label__b some words here`, as bags of words: a feature is how often its word stands there."""

from itertools import chain

import numpy as np
from scipy.sparse import csr_matrix, vstack

from embedx.labeled.data import Labels, TextRows, offsets_of
from embedx.labeled.files import Lines, MemoryBudget
from embedx.labeled.schema import WORD_BYTES, decoded

PREFIX = b"__label__"


class Tokens(dict[bytes, int]):
    """Numbers words from 0 up, those of the vocabulary first, and labels from -1 down, as they are first looked up."""

    def __init__(self, budget: MemoryBudget, vocabulary: list[str]) -> None:
        self.words = [word.encode("utf-8") for word in vocabulary]
        self.labels: list[bytes] = []
        self._budget = budget
        super().__init__(zip(self.words, range(len(self.words)), strict=True))

    def __missing__(self, token: bytes) -> int:
        self._budget.take(len(token) + WORD_BYTES)
        if token.startswith(PREFIX):
            self.labels.append(token)
            number = -len(self.labels)
        else:
            number = len(self.words)
            self.words.append(token)
        self[token] = number
        return number


def is_fasttext(lines: Lines) -> bool:
    """Whether the beginning of the text has labels of that kind."""
    return lines.head.startswith(PREFIX) or b" " + PREFIX in lines.head or b"\n" + PREFIX in lines.head


def read_bags(lines: Lines, vocabulary: list[str] | None) -> TextRows:
    """The lines as bags of these words, or of all; words and labels are separated by white space, labels stand anywhere."""
    known = Tokens(lines.budget, vocabulary or [])
    counted: list[csr_matrix] = []  # the words of each chunk
    numbers: list[np.ndarray] = []  # its labels
    sizes: list[np.ndarray] = []  # how many of them each row has
    for chunk in lines:
        decoded(lines, chunk)
        rows = [line.split() for line in chunk.split(b"\n")[:-1]]
        tokens = np.fromiter(map(known.__getitem__, chain.from_iterable(rows)), np.int32)
        row_of = np.repeat(np.arange(len(rows)), np.fromiter(map(len, rows), np.int64, len(rows)))
        is_label = tokens < 0
        numbers.append(~tokens[is_label])
        sizes.append(np.bincount(row_of[is_label], minlength=len(rows)))
        words, row_of = tokens[~is_label], row_of[~is_label]
        features = csr_matrix((np.ones(len(words), np.float32), (row_of, words)), (len(rows), len(known.words)))
        counted.append(features)
        lines.budget.take(features.data.nbytes + features.indices.nbytes + 2 * features.indptr.nbytes)
        lines.budget.take(numbers[-1].nbytes + 2 * sizes[-1].nbytes)
    vocabulary = [word.decode("utf-8") for word in known.words] if vocabulary is None else vocabulary
    for each in counted:
        each.resize(each.shape[0], len(vocabulary))
    labels = Labels(offsets_of(np.concatenate(sizes)), np.concatenate(numbers))
    found = [label.removeprefix(PREFIX) for label in known.labels]
    return TextRows(vstack(counted, "csr"), labels, found, vocabulary=vocabulary)
