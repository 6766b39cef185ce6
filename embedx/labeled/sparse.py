"""Sparse rows as text: the XC repository's `N D L` header and `l1,l2 f:v f:v ...` lines, or
LIBSVM's, without a header.

A compiled kernel parses the lines, in each thread. It stops at what is no
feature, and Python explains it.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy import int32, int64
from scipy.sparse import csr_matrix

from embedx.errors import DataError
from embedx.kernels.compiled import kernel
from embedx.labeled.data import FileRows, Labels, offsets_of
from embedx.labeled.files import Lines, MemoryBudget
from embedx.labeled.ids import MAX_IDS, Numbering
from embedx.runtime.cores import usable_cores
from embedx.text.in_order import in_order
from embedx.text.opening import BLOCK_BYTES

COMMENT = re.compile(rb"(?<!\S)#[^\n]*")
FEATURE_ID = re.compile(r"(-?[0-9]+):[+-]?[0-9.eE+-]+")

# Longer chunks, with lines of megabytes, are parsed by the reading thread, one at a time: parsing
# takes many times their bytes of memory.
MAX_CHUNK_OF_THREAD = 4 * BLOCK_BYTES

NEWLINE = ord("\n")
TAB = ord("\t")
SPACE = ord(" ")
HASH = ord("#")
PLUS = ord("+")
COMMA = ord(",")
MINUS = ord("-")
POINT = ord(".")
ZERO = ord("0")
NINE = ord("9")
COLON = ord(":")
SMALL_E = ord("e")
# Larger whole numbers are read as this one, which is above any id and any exponent of a float.
MAX_WHOLE = int64(10**10)
# No digit is appended to larger numbers: digits after the 18th do not matter, and 18 fit into an
# int64.
MAX_DIGITS = 10**17
# The first power of ten that is infinite as a float64.
MAX_POWER = int64(309)
# The smallest float64 that is rounded to an infinite float32.
INFINITE = 2.0**128 - 2.0**103
POWERS = np.array([float(f"1e{power}") for power in range(MAX_POWER + 1)])


@kernel
def is_digit(byte):  # type: ignore[no-untyped-def]
    return ZERO <= byte <= NINE


@kernel
def whole(data, p):  # type: ignore[no-untyped-def]
    """The whole number at data[p], -1 if it has no digits, and its end."""
    start = p
    number = int64(0)
    while is_digit(data[p]):
        number = min(10 * number + (int64(data[p]) - ZERO), MAX_WHOLE)
        p += 1
    return (number if p > start else int64(-1)), p


@kernel
def after_sign(data, p):  # type: ignore[no-untyped-def]
    """Where the number at data[p] continues after a sign."""
    if data[p] == MINUS or data[p] == PLUS:
        return p + 1
    return p


@kernel
def append_digits(data, p, digits, power, decimals_per_digit):  # type: ignore[no-untyped-def]
    """The number digits · 10^power with the digits at data[p] appended, and their end.

    decimals_per_digit  1 in a fraction, 0 before it
    """
    while is_digit(data[p]):
        if digits < MAX_DIGITS:
            digits = 10 * digits + (int64(data[p]) - ZERO)
            power -= decimals_per_digit
        else:
            power += 1 - decimals_per_digit
        p += 1
    return digits, power, p


@kernel
def times_power(digits, power):  # type: ignore[no-untyped-def]
    """digits · 10^power as a float64."""
    value = np.float64(digits)
    if power < 0:
        return value / POWERS[min(-power, MAX_POWER)]
    if digits > 0:
        return value * POWERS[min(power, MAX_POWER)]
    return value


@kernel
def decimal(data, p):  # type: ignore[no-untyped-def]
    """The decimal at data[p] as a float32, infinite if it is none, and its end.

    With up to 15 digits it is to the last bit what Python reads: both digits and power are exact,
    and rounded once.
    """
    is_negative = data[p] == MINUS
    p = after_sign(data, p)

    start = p
    digits, power, p = append_digits(data, p, int64(0), int64(0), int64(0))
    has_digits = p > start
    if data[p] == POINT:
        start = p + 1
        digits, power, p = append_digits(data, start, digits, power, int64(1))
        has_digits = has_digits or p > start

    if data[p] | 32 == SMALL_E:  # of either case
        falls = data[p + 1] == MINUS
        exponent, p = whole(data, after_sign(data, p + 1))
        has_digits = has_digits and exponent >= 0
        power += -exponent if falls else exponent

    value = times_power(digits, power)
    if not has_digits or value >= INFINITE:
        return np.float32(np.inf), p
    return np.float32(-value if is_negative else value), p


@kernel
def after_blanks(data, p):  # type: ignore[no-untyped-def]
    """Where the next word of the line begins, or the line ends."""
    while data[p] <= SPACE and data[p] != NEWLINE:
        p += 1
    return p


@kernel
def read_labels(data, p, label_spans, label):  # type: ignore[no-untyped-def]
    """Write the spans of the labels at data[p], the first word of a line unless it is a feature.

    Returns the end of the labels, and their number with those before.
    """
    end = p
    while data[end] > SPACE and data[end] != COLON:
        end += 1
    if data[end] == COLON:
        return p, label

    start = p
    for q in range(p, end + 1):
        if q == end or data[q] == COMMA:
            if q > start:
                label_spans[label, 0] = start
                label_spans[label, 1] = q
                label += 1
            start = q + 1
    return end, label


@kernel
def read_features(data, p, ranges, columns, values, feature):  # type: ignore[no-untyped-def]
    """Write the features from data[p] to the end of the line.

    Returns where it stopped, the end of the line or what is no feature whose id is in range, and
    the number of features with those before.
    """
    p = after_blanks(data, p)
    while data[p] != NEWLINE:
        column, end = whole(data, p)
        if data[end] != COLON or column < ranges.lowest or column > ranges.highest:
            return p, feature
        value, end = decimal(data, end + 1)
        if data[end] > SPACE or not abs(value) < np.float32(np.inf):
            return p, feature
        columns[feature] = column
        values[feature] = value
        feature += 1
        p = after_blanks(data, end)
    return p, feature


@kernel
def parse(data, ranges, columns, values, feature_ends, label_spans, label_ends):  # type: ignore[no-untyped-def]
    """Read the lines of the data, the last of which is ended, into the arrays after `ranges`.

    Returns where it stopped, the end or what is no feature whose id is in range, and how many rows,
    features and labels came before.
    """
    p = 0
    row = 0
    feature = 0
    label = 0
    while p < len(data):
        p, label = read_labels(data, after_blanks(data, p), label_spans, label)
        p, feature = read_features(data, p, ranges, columns, values, feature)
        if data[p] != NEWLINE:
            break
        feature_ends[row] = feature
        label_ends[row] = label
        row += 1
        p += 1
    return p, row, feature, label


@kernel
def whole_numbers(data, spans, highest, numbers):  # type: ignore[no-untyped-def]
    """Write the number in each span; the first span that is none from 0 to `highest`, or how many
    spans there are.
    """
    for i in range(len(spans)):
        number, end = whole(data, spans[i, 0])
        if number < 0 or number > highest or end != spans[i, 1]:
            return i
        numbers[i] = number
    return len(spans)


@kernel
def is_blank(byte):  # type: ignore[no-untyped-def]
    return (byte == SPACE) | (byte == TAB)


@kernel
def count_marks(data):  # type: ignore[no-untyped-def]
    """How many lines, colons, commas, and comments or blanks beside commas the data have."""
    n_lines = int64(0)
    n_colons = int64(0)
    n_commas = int64(0)
    n_not_plain = int64(0)
    before = np.uint8(0)
    for byte in data:
        n_lines += byte == NEWLINE
        n_colons += byte == COLON
        n_commas += byte == COMMA
        n_not_plain += byte == HASH
        n_not_plain += (byte == COMMA) & is_blank(before)
        n_not_plain += is_blank(byte) & (before == COMMA)
        before = byte
    return n_lines, n_colons, n_commas, n_not_plain


class Ranges(NamedTuple):
    """The smallest and largest feature id, and the largest label id, that may occur."""

    lowest: int
    highest: int
    highest_label: int

    def where(self, what: str) -> str:
        """The end of a message: where the range comes from, and the remedy."""
        if self.highest < MAX_IDS - 1:
            return f", the {what} of the header; correct one of them"
        if self.lowest:
            return ", as in the training data; renumber one of them"
        return "; renumber them"


class ChunkRows(NamedTuple):
    """The rows of a chunk of lines; labels are ids, or words that have no ids yet."""

    columns: np.ndarray
    values: np.ndarray
    n_features: np.ndarray
    n_labels: np.ndarray
    labels: np.ndarray | list[bytes]


def read_sparse_rows(
    lines: Lines, ranges: Ranges, by_name: bool, threads: int | None = None
) -> FileRows:
    """The rows of the lines.

    by_name  whether labels are names, which are numbered, and not ids
    threads  how many threads parse while further lines are read; None: one per usable core
    """
    names = Numbering(lines.budget) if by_name else None
    chunks = []
    for rows in _parsed_chunks(lines, ranges, by_name, threads):
        if names is not None:
            ids = np.array([names[word] for word in rows.labels], int32)
            rows = rows._replace(labels=ids)
        chunks.append(rows)

    columns, values, n_features, n_labels, labels = (
        np.concatenate(arrays) for arrays in zip(*chunks, strict=True)
    )
    shape = (len(n_features), int(columns.max(initial=-1)) + 1)
    features = csr_matrix((values, columns, offsets_of(n_features)), shape)
    return FileRows(
        features,
        Labels(offsets_of(n_labels), labels),
        None if names is None else list(names),
        labels_are_numbers=True,
    )


def _parsed_chunks(
    lines: Lines, ranges: Ranges, by_name: bool, threads: int | None
) -> Iterator[ChunkRows]:
    """The rows of each chunk, in order; see `read_sparse_rows`."""
    parse = partial(_parsed, lines.name, lines.budget, ranges, by_name)
    numbered = ((chunk, lines.chunk_line) for chunk in lines)
    # Most requests have no second chunk, and counting cores takes longer than parsing the first.
    yield parse(*next(numbered))
    second = next(numbered, None)
    if second is None:
        return

    threads = threads or usable_cores()
    pool = ThreadPoolExecutor(threads, "embedx-parser")
    submitted = (_submitted(pool, parse, *chunk) for chunk in chain([second], numbered))
    try:
        yield from in_order(submitted, 2 * threads)
    finally:
        # Without waiting, for the reason that `text.decompression` gives.
        pool.shutdown(wait=False, cancel_futures=True)


def _submitted(
    pool: ThreadPoolExecutor, parse: Callable[[bytes, int], ChunkRows], chunk: bytes, line: int
) -> Future[ChunkRows]:
    """The rows of the chunk, parsed by the pool or, if it is long, here."""
    if len(chunk) <= MAX_CHUNK_OF_THREAD:
        return pool.submit(parse, chunk, line)
    parsed: Future[ChunkRows] = Future()
    parsed.set_result(parse(chunk, line))
    return parsed


def _parsed(
    file: str, budget: MemoryBudget, ranges: Ranges, by_name: bool, chunk: bytes, first_line: int
) -> ChunkRows:
    """The rows of a chunk.

    first_line  the number of its first line in the file
    """
    data = np.frombuffer(chunk, np.uint8)
    n_rows, n_colons, n_commas, n_not_plain = count_marks(data)
    line_of_row: Sequence[int] = range(first_line, first_line + n_rows)
    if n_not_plain:
        chunk, line_of_row = plain_rows(chunk, first_line)
        data = np.frombuffer(chunk, np.uint8)
        n_rows, n_colons, n_commas, _ = count_marks(data)
    feature_ends = np.empty(n_rows, int64)
    label_ends = np.empty(n_rows, int64)
    columns = np.empty(n_colons, int32)
    values = np.empty(n_colons, np.float32)
    spans = np.empty((n_rows + n_commas, 2), int64)
    budget.take(16 * n_rows + 8 * n_colons + 4 * len(spans))

    stop, row, n_features, n_labels = parse(
        data, ranges, columns, values, feature_ends, spans, label_ends
    )
    spans = spans[:n_labels]
    labels: np.ndarray | list[bytes]
    if by_name:
        labels = [chunk[start:end] for start, end in spans.tolist()]
    else:
        labels = np.empty(n_labels, int32)
        invalid = whole_numbers(data, spans, ranges.highest_label, labels)
        if invalid < n_labels:
            row_of_label = np.searchsorted(label_ends[:row], invalid, side="right")
            label = chunk[slice(*spans[invalid])]
            raise _label_error(file, line_of_row[int(row_of_label)], label, ranges)
    if stop < len(data):
        word = chunk[stop : stop + 200].split(None, 1)[0]
        raise _feature_error(file, line_of_row[row], word, ranges)
    return ChunkRows(
        columns[:n_features],
        values[:n_features],
        np.diff(feature_ends, prepend=0),
        np.diff(label_ends, prepend=0),
        labels,
    )


def plain_rows(chunk: bytes, first_line: int) -> tuple[bytes, Sequence[int]]:
    """The rows without comments and blanks between labels, and the line of each row in the file.

    A line that is a comment is no row.
    """
    line_of_row: Sequence[int] = range(first_line, first_line + chunk.count(b"\n"))
    if b"#" in chunk:
        lines = chunk.split(b"\n")[:-1]
        kept = [k for k, line in enumerate(lines) if not line.lstrip().startswith(b"#")]
        chunk = b"".join(COMMENT.sub(b"", lines[k]) + b"\n" for k in kept)
        line_of_row = [line_of_row[k] for k in kept]
    if any(comma in chunk for comma in (b", ", b" ,", b",\t", b"\t,")):
        chunk = b"".join(_with_joined_labels(line) + b"\n" for line in chunk.split(b"\n")[:-1])
    return chunk, line_of_row


def _with_joined_labels(line: bytes) -> bytes:
    """The line without blanks beside the commas between labels, before the first feature."""
    before, colon, after = line.partition(b":")
    first, *others = [part.strip(b" \t") for part in before.split(b",")]
    if not others:
        return line
    ends_in_feature_id = colon and len(others[-1].split()) == 1
    if ends_in_feature_id:
        others[-1] = b" " + others[-1]
    return b",".join([first, *others]) + colon + after


def _label_error(file: str, line: int, label: bytes, ranges: Ranges) -> DataError:
    """The error for a label that is not an id, or whose id is out of range."""
    text = label.decode("utf-8", "replace")
    return DataError(
        file,
        line,
        f'label "{text}" is not a whole number from 0 to'
        f" {ranges.highest_label}{ranges.where('labels')}",
    )


def _feature_error(file: str, line: int, start: bytes, ranges: Ranges) -> DataError:
    """The error for a feature that cannot be parsed or whose id is out of range.

    start  bytes that begin with it
    """
    word = start.decode("utf-8", "replace")
    match = FEATURE_ID.match(word)
    if match and not ranges.lowest <= int(match[1]) <= ranges.highest:
        return DataError(
            file,
            line,
            f"feature id {match[1]} is not from {ranges.lowest} to"
            f" {ranges.highest}{ranges.where('features')}",
        )
    return DataError(
        file,
        line,
        f'feature "{word[:40]}" is not ID:VALUE with a value that is a finite float32, as 17:0.5'
        " is",
        "write LABEL,LABEL,... and then features, separated by blanks",
    )
