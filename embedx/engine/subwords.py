"""Words whose input vector is the mean of several rows: the word's own, and those of the buckets of
its character n-grams.

Bojanowski et al. 2017, section 3.2, with the mean, as in fastText, in place of the paper's sum:

    h_w = 1/P Σ_p row_p          over the P parts of word w: its own row, and the row of the bucket
                                 of each n-gram
    row_p -= step of ∂loss/∂h    each part by the whole gradient of h, as in fastText; the chain
                                 rule would give 1/P of it

A step thus moves h as far as that of a word with a single row, whatever the number of parts.

In the table of inputs, the rows of buckets follow those of words. Only buckets with an n-gram of
the vocabulary have a row. Without n-grams a word has one row, its own.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy import int32, int64, ndarray

from embedx.kernels.compiled import kernel, kernel_part
from embedx.kernels.maths import ONE
from embedx.kernels.simd import (
    SIMD_WIDTH,
    aligned_zeros,
    load,
    multiply_add,
    prefetch,
    splat,
    store,
    zeros,
)
from embedx.text.ngram_hashes import bucket_lists
from embedx.text.ngrams import NGrams


class Parts(NamedTuple):
    """The rows whose mean is a word's vector."""

    # int64 (n_words + 1,): word w has rows[offsets[w]:offsets[w + 1]], its own row first; (0,)
    # without n-grams
    offsets: ndarray
    rows: ndarray  # int32 (offsets[-1],): rows of the inputs


NO_PARTS = Parts(np.zeros(0, int64), np.zeros(0, int32))


def listing_bytes(words: Sequence[bytes], ngrams: NGrams) -> int:
    """Maximum memory of `listed`, in bytes."""
    n_characters = sum(map(len, words)) + 2 * len(words)
    return 5 * ngrams.n_buckets + 8 * n_characters * (ngrams.longest - ngrams.shortest + 1)


def parts_of_words(words: Sequence[bytes], ngrams: NGrams) -> tuple[Parts, ndarray]:
    """(parts, buckets) for words in UTF-8. buckets, int32 (n,), are those with a row, ascending;
    the k-th has row n_words + k.
    """
    offsets, rows = bucket_lists(words, ngrams)
    first_places = offsets[:-1]
    has_row = np.zeros(ngrams.n_buckets, bool)
    rows[first_places] = -1
    has_row[rows[rows >= 0]] = True
    buckets = np.flatnonzero(has_row).astype(int32)
    place = np.zeros(ngrams.n_buckets, int32)
    place[buckets] = len(words) + np.arange(len(buckets), dtype=int32)
    rows[:] = place[rows]
    rows[first_places] = np.arange(len(words), dtype=int32)
    return Parts(offsets, rows), buckets


def word_vectors(rows: ndarray, parts: Parts) -> ndarray:
    """The vectors of all words, float32 (n_words, stride), from the rows of all parts."""
    out = aligned_zeros(len(parts.offsets) - 1, rows.shape[1])
    means(rows, parts, out)
    return out


@kernel
def means(rows, parts, out):
    """Overwrite out[w] by the vector of word w, for all words."""
    for w in range(out.shape[0]):
        fetch_word(rows, parts, int64(w), out, w, -1)


# ---- in kernels


@kernel_part
def n_parts(parts, word):
    """The number of rows whose mean is the vector of a word."""
    return parts.offsets[word + 1] - parts.offsets[word] if parts.offsets.size > 0 else int64(1)


@kernel_part
def part(parts, word, p):
    """Row p of a word; row 0 is its own."""
    return int64(parts.rows[parts.offsets[word] + p]) if parts.offsets.size > 0 else int64(word)


@kernel_part
def fetch_word(rows, parts, word, out, at, bias):
    """Overwrite out[at] by the vector of a word. Column `bias`, -1 without biases, is the same in
    all rows.
    """
    row_of_word = part(parts, word, 0)
    n = n_parts(parts, word)
    for d in range(0, rows.shape[1], SIMD_WIDTH):
        store(out, at, d, load(rows, row_of_word, d))
    if n > 1:
        one = splat(ONE)
        share = splat(ONE / np.float32(n))
        for p in range(1, n):
            row = part(parts, word, p)
            for d in range(0, rows.shape[1], SIMD_WIDTH):
                store(out, at, d, multiply_add(one, load(rows, row, d), load(out, at, d)))
        for d in range(0, rows.shape[1], SIMD_WIDTH):
            store(out, at, d, multiply_add(share, load(out, at, d), zeros()))
        if bias >= 0:
            out[at, bias] = rows[row_of_word, bias]


@kernel_part
def prefetch_word(rows, parts, word):
    """Prefetch the rows of a word."""
    for p in range(n_parts(parts, word)):
        for d in range(0, rows.shape[1], SIMD_WIDTH):
            prefetch(rows, part(parts, word, p), d)
