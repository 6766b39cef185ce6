"""Generated data with as many labels as wanted, to see how time and memory grow: what is learned
from it means nothing.

A row has five labels: one in its turn, so that all labels occur, and four by a power law. Each
label has words of its own, some rare and some common, of which the rows that have it hold some; the
rest of a row's words are drawn by a power law. Rows are brought to length 1.
"""

from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

FEATURES = 100_000
LABELS_OF_ROW = 5
FEATURES_OF_ROW = 80
OWN_WORDS = 24  # of a label
COMMON = 0.25  # share of a row's words that have nothing to do with its labels
BLOCK = 1 << 16  # rows made at a time


def generated(n_labels: int, n_rows: int, seed: int) -> tuple[Any, Any]:
    """Features float32 csr (n_rows, FEATURES), and labels float32 csr (n_rows, n_labels); the words
    of labels depend on their number alone, so that data of another seed are test data.
    """
    turns = np.resize(np.random.default_rng([seed, n_labels]).permutation(n_labels), n_rows)
    words = _by_power_law(np.random.default_rng([n_labels, 0]), FEATURES, (n_labels, OWN_WORDS))
    features, labels = [], []
    for start in range(0, n_rows, BLOCK):
        rng = np.random.default_rng([seed, start])
        n = min(BLOCK, n_rows - start)
        y = _by_power_law(rng, n_labels, (n, LABELS_OF_ROW))
        y[:, 0] = turns[start : start + n]
        label_of_feature = np.take_along_axis(
            y, rng.integers(0, LABELS_OF_ROW, (n, FEATURES_OF_ROW)), axis=1
        )
        x = words[label_of_feature, rng.integers(0, OWN_WORDS, label_of_feature.shape)]
        x = np.where(
            rng.random(label_of_feature.shape) < COMMON,
            _by_power_law(rng, FEATURES, label_of_feature.shape),
            x,
        )
        features.append(_rows_of(x, FEATURES, has_length_one=True))
        labels.append(_rows_of(y, n_labels, has_length_one=False))
    return _stacked(features), _stacked(labels)


def _by_power_law(rng: np.random.Generator, n: int, shape: tuple[int, ...]) -> np.ndarray:
    """int32 below n; that it is k or less has probability log(1 + k) / log(1 + n), as by Zipf's
    law.
    """
    return np.minimum(
        np.exp(rng.random(shape, dtype=np.float32) * np.log1p(np.float32(n))) - 1, n - 1
    ).astype(np.int32)


def _rows_of(columns: np.ndarray, width: int, has_length_one: bool) -> csr_matrix:
    """A row for each row of column numbers, by how often each occurs, or 1 for each that does."""
    n, k = columns.shape
    matrix = csr_matrix(
        (np.ones(n * k, dtype=np.float32), columns.ravel(), np.arange(0, n * k + 1, k)), (n, width)
    )
    matrix.sum_duplicates()
    if has_length_one:
        matrix.data = 1 + np.log(matrix.data)
        lengths = np.sqrt(np.add.reduceat(np.square(matrix.data), matrix.indptr[:-1]))
        matrix.data /= np.repeat(lengths, np.diff(matrix.indptr))
    else:
        matrix.data[:] = 1
    return matrix


def _stacked(blocks: list[csr_matrix]) -> csr_matrix:
    """The rows of all blocks, which are let go one after another."""
    offsets = np.concatenate([[0], *(np.diff(block.indptr) for block in blocks)]).cumsum()
    columns = np.empty(offsets[-1], dtype=np.int32)
    values = np.empty(offsets[-1], dtype=np.float32)
    at = 0
    shape = (sum(block.shape[0] for block in blocks), blocks[0].shape[1])
    while blocks:
        block = blocks.pop(0)
        columns[at : at + block.nnz] = block.indices
        values[at : at + block.nnz] = block.data
        at += block.nnz
    return csr_matrix((values, columns, offsets), shape)
