"""fastText's lines, `__label__a __label__b some words here`, as bags of words: a feature is how often its word stands there."""

import re

import numpy as np
from scipy.sparse import csr_matrix, vstack

from embedx.labeled.data import Labels, TextRows
from embedx.labeled.files import Lines
from embedx.labeled.schema import Numbering, decoded

PREFIX = b"__label__"
LABEL = re.compile(rb"(?:^|[ \n])__label__")


def is_fasttext(lines: Lines) -> bool:
    """Whether the beginning of the text has labels of that kind."""
    return LABEL.search(lines.head) is not None


def read_bags(lines: Lines, vocabulary: list[str] | None) -> TextRows:
    """The lines as bags of these words, or of all; words and labels are separated by white space, labels stand anywhere."""
    words, labels = Numbering(lines.budget), Numbering(lines.budget)
    words.update((word.encode("utf-8"), number) for number, word in enumerate(vocabulary or []))
    bags = []
    found = []
    for chunk in lines:
        decoded(lines, chunk)
        rows = [line.split() for line in chunk.split(b"\n")[:-1]]
        found.append(Labels.of_rows([[labels[each] for each in row if each.startswith(PREFIX)] for row in rows]))
        own = Labels.of_rows([[words[each] for each in row if not each.startswith(PREFIX)] for row in rows])
        bag = csr_matrix((np.ones(len(own.ids), np.float32), own.ids, own.offsets), (len(rows), len(words)))
        bag.sum_duplicates()
        bags.append(bag)
        lines.budget.take(bag.data.nbytes + bag.indices.nbytes + 2 * bag.indptr.nbytes)
        lines.budget.take(found[-1].ids.nbytes + 2 * found[-1].offsets.nbytes)
    vocabulary = [word.decode("utf-8") for word in words] if vocabulary is None else vocabulary
    for bag in bags:
        bag.resize(bag.shape[0], len(vocabulary))
    names = [label.removeprefix(PREFIX) for label in labels]
    return TextRows(vstack(bags, "csr"), Labels.joined(found), names, vocabulary=vocabulary)
