"""Hashes of words and of n-grams, compiled, in the conventions of fastText 0.9.3 (see
`embedx.text.ngrams`).

    word              32-bit FNV-1a of its UTF-8 bytes, as a signed number
    n-gram of words   h = hash of the first word;  h <- h · 116049371 + hash of the next word, in 64
                                                   bits

They are the same on every machine.
"""

from collections.abc import Sequence

import numpy as np
from numpy import int32, int64, uint64

from embedx.kernels import kernel, kernel_part
from embedx.text.ngrams import (
    BEGINNING,
    END,
    FNV_OFFSET,
    FNV_PRIME,
    MASK,
    NOT_SPLIT,
    SIGN,
    NGrams,
    encoded,
)

OF_NEXT_WORD = int64(116049371)


def bucket_lists(words: Sequence[bytes], ngrams: NGrams) -> tuple[np.ndarray, np.ndarray]:
    """(offsets, buckets): those of the character n-grams of word w, given in UTF-8, are
    buckets[offsets[w] + 1:offsets[w + 1]].

    offsets int64 (n_words + 1,), buckets int32 (offsets[-1],); buckets[offsets[w]] is free for the
    word itself.
    """
    beginning = encoded(BEGINNING)
    end = encoded(END)
    not_split = encoded(NOT_SPLIT)
    pieces = [b"" if word == not_split else beginning + word + end for word in words]
    ends = np.cumsum([len(piece) for piece in pieces], dtype=int64)
    text = np.frombuffer(b"".join([*pieces, b"\0"]), np.uint8)  # never empty
    del pieces
    offsets = np.zeros(len(words) + 1, int64)
    plain = (ngrams.shortest, ngrams.longest, ngrams.n_buckets)
    list_buckets(text, ends, *plain, offsets, np.zeros(0, int32))
    np.cumsum(offsets, out=offsets)
    rows = np.zeros(int(offsets[-1]), int32)
    list_buckets(text, ends, *plain, offsets.copy(), rows)
    return offsets, rows


@kernel
def hash_words(letters, starts, hashes):
    """Write the hash of each word, letters[starts[w]:starts[w + 1]], to `hashes`, int64
    (n_words,).
    """
    for w in range(hashes.size):
        value = uint64(FNV_OFFSET)
        for i in range(starts[w], starts[w + 1]):
            value = _hashed(value, letters[i])
        hashes[w] = int64(value) - ((int64(value) >> 31) << 32)  # the highest bit is the sign


@kernel
def list_buckets(text, ends, shortest, longest, n_buckets, offsets, buckets):
    """Write the bucket of each n-gram of word w to buckets[offsets[w] + 1:], or where `buckets` is
    empty, how many parts w has to offsets[w + 1].

    text  uint8: the words, each between < and >, one after the other; `ends` int64 (n_words,) is
          where each ends
    """
    begin = int64(0)
    for w in range(ends.size):
        end = ends[w]
        n = int64(1)
        for first in range(begin, end):
            if not _is_inside_character(text[first]):
                place = offsets[w] + n
                n += _list_buckets_from(
                    first, text, begin, end, shortest, longest, n_buckets, place, buckets
                )
        if buckets.size == 0:
            offsets[w + 1] = n
        begin = end


@kernel_part
def _list_buckets_from(first, text, begin, end, shortest, longest, n_buckets, place, buckets):
    """Write the bucket of each n-gram of the word text[begin:end] that begins at `first` to
    buckets[place:], unless `buckets` is empty; return their number.
    """
    n = int64(0)
    value = uint64(FNV_OFFSET)
    length = 0
    at = first
    while at < end and length < longest:
        length += 1
        value = _hashed(value, text[at])
        at += 1
        while at < end and _is_inside_character(text[at]):
            value = _hashed(value, text[at])
            at += 1
        is_border = length == 1 and (first == begin or at == end)  # < or > alone
        if length >= shortest and not is_border:
            if buckets.size > 0:
                buckets[place + n] = int64(value % uint64(n_buckets))
            n += 1
    return n


@kernel_part
def _is_inside_character(byte):
    """Whether a byte of UTF-8 is not the first of its character."""
    return (byte & 0xC0) == 0x80


@kernel_part
def _hashed(value, byte):
    """The hash of some bytes and one more."""
    signed = uint64(byte) | uint64(SIGN) if byte > 127 else uint64(byte)
    return ((value ^ signed) * uint64(FNV_PRIME)) & uint64(MASK)
