"""Sparse rows as text: the XC repository's `N D L` header and `l1,l2 f:v f:v ...` lines, or
LIBSVM's, without a header.

A compiled kernel reads hundreds of megabytes a second. Where it finds what is no feature it stops,
and Python explains it.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy import int32, int64
from scipy.sparse import csr_matrix

from embedx.errors import DataError, Setting
from embedx.kernels.compiled import kernel
from embedx.labeled.data import DataSchema, FileRows, Labels, offsets_of
from embedx.labeled.files import Lines
from embedx.labeled.schema import MAX_IDS, Numbering

# Python reads no number of more than 4,300 digits
HEADER = re.compile(r"(\d{1,1000})\s+(\d{1,1000})\s+(\d{1,1000})")
WORD = re.compile(r"\S+")
COMMENT = re.compile(rb"(?<!\S)#[^\n]*")
FEATURE_ID = re.compile(r"(-?[0-9]+):[+-]?[0-9.eE+-]+")

NEWLINE, SPACE, PLUS, COMMA, MINUS, POINT, ZERO, NINE, COLON, SMALL_E = b"\n +,-.09:e"
MAX_WHOLE = int64(10**10)  # numbers are held there, above any id and any exponent of a float
# a value's digits beyond the 18th cannot matter, and 18 always fit into an int64
MAX_DIGITS = 10**17
MAX_POWER = int64(309)  # infinite as a float64
INFINITE = 2.0**128 - 2.0**103  # from here on a float64 is rounded to an infinite float32
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
def decimal(data, p):  # type: ignore[no-untyped-def]
    """The decimal at data[p] as a float32, infinite if it is none, and its end.

    With up to 15 digits it is to the last bit what Python reads: both digits and power are exact,
    and rounded once.
    """
    negative = data[p] == MINUS
    if negative or data[p] == PLUS:
        p += 1
    digits, power, n_digits = int64(0), int64(0), 0
    is_fraction = False
    while is_digit(data[p]) or (data[p] == POINT and not is_fraction):
        if data[p] == POINT:
            is_fraction = True
        else:
            n_digits += 1
            is_kept = digits < MAX_DIGITS
            if is_kept:
                digits = 10 * digits + (int64(data[p]) - ZERO)
            power += int64(not is_kept) - int64(is_fraction)
        p += 1
    if data[p] | 32 == SMALL_E:  # of either case
        p += 1
        falls = data[p] == MINUS
        if falls or data[p] == PLUS:
            p += 1
        exponent, p = whole(data, p)
        n_digits = n_digits if exponent >= 0 else 0
        power += -exponent if falls else exponent
    if n_digits == 0:
        return np.float32(np.inf), p
    value = np.float64(digits)
    if power < 0:
        value /= POWERS[min(-power, MAX_POWER)]
    elif digits > 0:
        value *= POWERS[min(power, MAX_POWER)]
    if value >= INFINITE:
        return np.float32(np.inf), p
    return np.float32(-value if negative else value), p


@kernel
def parse(data, ranges, columns, values, feature_ends, label_spans, label_ends):  # type: ignore[no-untyped-def]
    """Read the lines of the data, the last of which is ended, into the arrays after `ranges`.

    Returns where it stopped, the end or what is no feature whose id is in range, and how many rows,
    features and labels came before.
    """
    p = row = feature = label = 0
    within_row = False
    while p < len(data):
        if data[p] == NEWLINE:
            feature_ends[row], label_ends[row] = feature, label
            row += 1
            within_row = False
            p += 1
            continue
        if data[p] <= SPACE:
            p += 1
            continue
        start = p
        if not within_row:
            within_row = True
            while data[p] > SPACE and data[p] != COLON:
                p += 1
            if data[p] != COLON:  # the first word of a line, unless it is a feature
                for q in range(start, p + 1):
                    if q == p or data[q] == COMMA:
                        if q > start:
                            label_spans[label, 0], label_spans[label, 1] = start, q
                            label += 1
                        start = q + 1
                continue
        column, p = whole(data, start)
        if data[p] != COLON or column < ranges.lowest or column > ranges.highest:
            return start, row, feature, label
        value, p = decimal(data, p + 1)
        if data[p] > SPACE or not abs(value) < np.float32(np.inf):
            return start, row, feature, label
        columns[feature], values[feature] = column, value
        feature += 1
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


def read_xc(lines: Lines, by_name: bool) -> FileRows:
    """The rows under a header. Raises `EmbedxError` if there are not as many as it says."""
    header = HEADER.fullmatch(lines.first_line)
    assert header
    n_rows, n_features, n_labels = map(int, header.groups())
    line = lines.number_of_first_line
    if max(n_features, n_labels) > MAX_IDS:
        raise DataError(
            lines.name,
            line,
            f"more than {MAX_IDS} features or labels",
            "correct the header, ROWS FEATURES LABELS",
        )
    lines.skip(line - lines.line + 1)
    lines.min_lines = line + n_rows
    rows = _read(lines, Ranges(0, n_features - 1, n_labels - 1), by_name)
    n_rows_read = rows.features.shape[0]
    if not n_rows or n_rows_read != n_rows:
        raise DataError(
            lines.name,
            line,
            f"the header says {n_rows} rows, but there are {n_rows_read}",
            "copy the file again or correct it",
        )
    rows.features.resize(n_rows, n_features)
    return rows._replace(n_labels=n_labels, first_feature=0)


def read_libsvm(lines: Lines, like: DataSchema | None, by_name: bool) -> FileRows:
    """The rows of a file without header; the id of the first feature is subtracted from all."""
    first_feature = like.first_feature if like else None
    rows = _read(lines, Ranges(first_feature or 0, MAX_IDS - 1, MAX_IDS - 1), by_name)
    columns = rows.features.indices
    if first_feature is None:
        first_feature = guess_first_feature(columns, like)
    columns -= first_feature
    n_rows, n_features = rows.features.shape
    rows.features.resize(n_rows, max(n_features - first_feature, 0))
    return rows._replace(first_feature=first_feature)


def guess_first_feature(ids: np.ndarray, like: DataSchema | None) -> int:
    """0 if feature 0 occurs, and 1 otherwise, as scikit-learn's load_svmlight_file takes it.

    It is 0, too, where training data, which were arrays, have nothing in their first column and one
    column more than the largest id: what load_svmlight_file gives with zero_based=True.
    """
    if not len(ids) or ids.min() == 0:
        return 0
    if like and like.has_empty_first_column and ids.max() < like.n_features:
        return 0
    return 1


def _read(lines: Lines, ranges: Ranges, by_name: bool) -> FileRows:
    """The rows of the lines."""
    names = Numbering(lines.budget) if by_name else None
    chunks = [_parsed(lines, chunk, ranges, names) for chunk in lines]
    columns, values, n_features, labels, n_labels = (
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


def _parsed(
    lines: Lines, chunk: bytes, ranges: Ranges, names: Numbering | None
) -> tuple[np.ndarray, ...]:
    """Columns, values, features of each row, labels, and labels of each row, of the chunk."""
    chunk, line_of_row = plain_rows(chunk, lines.line)
    data = np.frombuffer(chunk, np.uint8)
    n_rows = chunk.count(b"\n")
    max_features = chunk.count(b":")
    feature_ends = np.empty(n_rows, int64)
    label_ends = np.empty(n_rows, int64)
    columns = np.empty(max_features, int32)
    values = np.empty(max_features, np.float32)
    spans = np.empty((n_rows + chunk.count(b","), 2), int64)
    lines.budget.take(16 * n_rows + 8 * max_features + 4 * len(spans))

    stop, row, n_features, n_labels = parse(
        data, ranges, columns, values, feature_ends, spans, label_ends
    )
    if stop < len(data):
        word = chunk[stop : stop + 200].split(None, 1)[0]
        raise _feature_error(lines.name, line_of_row[row], word, ranges)

    spans = spans[:n_labels]
    if names is not None:
        ids = np.array([names[chunk[start:end]] for start, end in spans.tolist()], int32)
    else:
        ids = np.empty(len(spans), int32)
        bad = whole_numbers(data, spans, ranges.highest_label, ids)
        if bad < len(spans):
            label = chunk[slice(*spans[bad])].decode("utf-8", "replace")
            raise DataError(
                lines.name,
                line_of_row[int(np.searchsorted(label_ends, bad, side="right"))],
                f'label "{label}" is not a whole number from 0 to'
                f" {ranges.highest_label}{ranges.where('labels')}",
            )
    return (
        columns[:n_features],
        values[:n_features],
        np.diff(feature_ends, prepend=0),
        ids,
        np.diff(label_ends, prepend=0),
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


def _feature_error(file: str, line: int, start: bytes, ranges: Ranges) -> DataError:
    """What is wrong with the feature that starts so."""
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
        "a line is LABEL,LABEL,... and then features, separated by blanks",
    )


def check_libsvm(lines: Lines) -> None:
    """Raise `DataError` if the first line is not one of a LIBSVM file.

    Such a line has labels, which may be left out, and words with colons.
    """
    row, _ = plain_rows(lines.first_line.encode() + b"\n", 1)
    # one at a time: a line may have millions
    words = (match[0] for match in WORD.finditer(row.decode()))
    first = next(words, "")
    is_label_or_feature = ":" not in first or ":" in first[1:]
    if not is_label_or_feature or not all(":" in word[1:] for word in words):
        raise DataError(
            lines.name,
            lines.number_of_first_line,
            "no known format",
            (
                "begin with a header ROWS FEATURES LABELS, write lines LABEL ID:VALUE ID:VALUE, or"
                " lines __label__NAME and words; tables have names such as data.csv, data.jsonl or"
                " data.parquet, or ",
                Setting("text_column"),
            ),
        )
