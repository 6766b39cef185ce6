"""Sparse rows as text: the XC repository's `N D L` header and `l1,l2 f:v f:v ...` lines, or LIBSVM's, without a header.

A compiled kernel reads what is ordinary, hundreds of megabytes a second; a feature that it does not understand it leaves to
Python, which either reads it or says what is wrong with it.
"""

import re

import numpy as np
from scipy.sparse import csr_matrix

from embedx.errors import EmbedxError
from embedx.kernels.compiled import kernel
from embedx.labeled.data import TextRows
from embedx.labeled.files import Lines
from embedx.labeled.schema import MAX_IDS, Numbering

HEADER = re.compile(r"(\d{1,1000})\s+(\d{1,1000})\s+(\d{1,1000})")  # Python reads no number of more than 4,300 digits
DECIMAL = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
INTEGER = re.compile(r"-?[0-9]+")
WORD = re.compile(r"\S+")
NOT_FINITE = re.compile(r"\d+:[+-]?(nan|inf|infinity)", re.IGNORECASE)

NEWLINE, SPACE, PLUS, COMMA, MINUS, POINT, ZERO, NINE, COLON, E, SMALL_E = b"\n +,-.09:Ee"
MAX_ID_DIGITS = 10
# Digits of a value beyond the 18th cannot matter here, and 18 always fit into an int64.
ENOUGH = 10**17
# Within these exponents fall all products with 18 digits that are float32.
MIN_POWER, MAX_POWER = -70, 40
POWERS = np.array([float(f"1e{power}") for power in range(MIN_POWER, MAX_POWER + 1)])
# The product of two rounded doubles is off by less than 2 units of 2⁻⁵² of its size.
BELOW, ABOVE = 1 - 2.0**-50, 1 + 2.0**-50
MAX_FLOAT32 = float(np.finfo(np.float32).max)

# What the kernel remembers between calls, by place in `state`, int64.
ROWS, FEATURES, LABELS, WITHIN_ROW, STATE_WIDTH = range(5)


@kernel
def is_digit(byte):  # type: ignore[no-untyped-def]
    return ZERO <= byte <= NINE


@kernel
def whole(data, p):  # type: ignore[no-untyped-def]
    """The whole number at data[p], -1 if it has no digits or too many, and its end."""
    start = p
    number = np.int64(0)
    while is_digit(data[p]) and p - start <= MAX_ID_DIGITS:
        number = 10 * number + (np.int64(data[p]) - ZERO)
        p += 1
    return (number if start < p <= start + MAX_ID_DIGITS else np.int64(-1)), p


@kernel
def decimal(data, p):  # type: ignore[no-untyped-def]
    """The decimal at data[p] as a float32, its end, and whether that is it to the last bit."""
    negative = data[p] == MINUS
    if negative or data[p] == PLUS:
        p += 1
    digits = np.int64(0)
    power = np.int64(0)
    start = p
    while is_digit(data[p]):
        if digits < ENOUGH:
            digits = 10 * digits + (np.int64(data[p]) - ZERO)
        else:
            power += 1
        p += 1
    n_digits = p - start
    if data[p] == POINT:
        p += 1
        start = p
        while is_digit(data[p]):
            if digits < ENOUGH:
                digits = 10 * digits + (np.int64(data[p]) - ZERO)
                power -= 1
            p += 1
        n_digits += p - start
    good = n_digits > 0
    if data[p] == E or data[p] == SMALL_E:
        p += 1
        falling = data[p] == MINUS
        if falling or data[p] == PLUS:
            p += 1
        exponent, p = whole(data, p)
        good = good and exponent >= 0
        power += -exponent if falling else exponent
    if not good or power < MIN_POWER or power > MAX_POWER:
        return np.float32(0), p, False
    value = np.float64(digits) * POWERS[power - MIN_POWER]
    if negative:
        value = -value
    # Close to the middle between two float32 the last bit of the product would decide.
    low, high = np.float32(value * BELOW), np.float32(value * ABOVE)
    return np.float32(value), p, low == high and abs(value) < MAX_FLOAT32


@kernel
def parse(data, p, lowest, highest, state, row_ends, columns, values, label_row_ends, label_spans):  # type: ignore[no-untyped-def]
    """Read the lines data[p:], the last of which is ended, into the other arrays; where it came to: the end, or a feature
    that is no ordinary decimal with an id from `lowest` to `highest`. Updates `state`."""
    row = state[ROWS]
    feature = state[FEATURES]
    label = state[LABELS]
    within_row = state[WITHIN_ROW]
    while p < len(data):
        if data[p] == NEWLINE:
            row_ends[row] = feature
            label_row_ends[row] = label
            row += 1
            within_row = 0
            p += 1
            continue
        if data[p] <= SPACE:
            p += 1
            continue
        start = p
        if not within_row:
            within_row = 1
            while data[p] > SPACE and data[p] != COLON:
                p += 1
            if data[p] != COLON:  # the first word of a line, unless it is a feature
                for q in range(start, p + 1):
                    if q == p or data[q] == COMMA:
                        if q > start:
                            label_spans[label, 0] = start
                            label_spans[label, 1] = q
                            label += 1
                        start = q + 1
                continue
            p = start
        column, p = whole(data, p)
        if data[p] != COLON or column < lowest or column > highest:
            p = start
            break
        value, p, good = decimal(data, p + 1)
        if not good or data[p] > SPACE:
            p = start
            break
        columns[feature] = column
        values[feature] = value
        feature += 1
    state[ROWS] = row
    state[FEATURES] = feature
    state[LABELS] = label
    state[WITHIN_ROW] = within_row
    return p


@kernel
def whole_numbers(data, spans, highest, numbers):  # type: ignore[no-untyped-def]
    """Write the number in each span; the first span that is none from 0 to `highest`, or how many spans there are."""
    for i in range(len(spans)):
        number, end = whole(data, spans[i, 0])
        if number < 0 or number > highest or end != spans[i, 1]:
            return i
        numbers[i] = number
    return len(spans)


def read_xc(lines: Lines, by_name: bool) -> TextRows:
    """The rows under a header; `EmbedxError` when they are not what it says."""
    header = HEADER.fullmatch(lines.first_line)
    assert header
    n_rows, n_features, n_labels = map(int, header.groups())
    header_line = lines.head[: len(lines.head) - len(lines.head.lstrip())].count(b"\n") + 1
    if max(n_features, n_labels) > MAX_IDS:
        raise lines.error(header_line, f"more than {MAX_IDS} features or labels; correct the header, ROWS FEATURES LABELS")
    reader = _Reader(lines, 0, n_features - 1, None if by_name else n_labels - 1)
    n_read = 0
    for number, chunk in enumerate(lines):
        skipped = header_line if number == 0 else 0
        n_read += reader.add(chunk, skipped)
        if n_read > n_rows:
            raise lines.error(
                header_line + n_rows + 1, f"one row more than the {n_rows} that the header says; correct the header, line 1"
            )
    n_blank = min(n_rows - n_read, lines.n_empty_at_end)  # an empty line is a row if the header counts it
    if n_read + n_blank < n_rows:
        last = header_line + n_read
        raise lines.error(last, f"the last of {n_read} rows, but the header says {n_rows}; copy the file again or correct it")
    if not n_rows:
        raise lines.error(header_line, "a header that says 0 rows; is it the right file?")
    return reader.rows(n_features, n_labels, n_blank)


def read_libsvm(lines: Lines, first_feature: int | None, by_name: bool) -> TextRows:
    """The rows of a file without header; the id of the first feature is subtracted from all.

    If that is not given, it is 0 if feature 0 occurs, and 1 otherwise.
    """
    reader = _Reader(lines, first_feature or 0, MAX_IDS - 1, None if by_name else MAX_IDS - 1)
    for chunk in lines:
        reader.add(chunk, 0)
    rows = reader.rows(None, 0, 0)
    columns = rows.features.indices
    if first_feature is None:
        first_feature = int(len(columns) > 0 and columns.min() > 0)
    columns -= first_feature
    n_rows, n_features = rows.features.shape
    rows.features.resize(n_rows, max(n_features - first_feature, 0))
    return rows._replace(first_feature=first_feature)


class _Reader:
    """Collects the rows of one file."""

    def __init__(self, lines: Lines, lowest: int, highest: int, highest_label: int | None) -> None:
        self.lines = lines
        self.lowest = lowest  # feature
        self.highest = highest
        self.highest_label = highest_label  # None: labels are names
        self.n_features = self.n_labels = 0  # read so far
        self.names = Numbering(lines.budget)
        self.columns: list[np.ndarray] = []
        self.values: list[np.ndarray] = []
        self.row_ends = [np.zeros(1, np.int64)]
        self.labels: list[np.ndarray] = []
        self.label_row_ends = [np.zeros(1, np.int64)]

    def add(self, chunk: bytes, n_skipped: int) -> int:
        """Read the chunk but for its first lines; how many rows it has."""
        data = np.frombuffer(chunk, np.uint8)
        p = 0
        for _ in range(n_skipped):
            p = chunk.index(b"\n", p) + 1
        n_rows, n_features = chunk.count(b"\n", p), chunk.count(b":", p)
        row_ends, label_row_ends = np.empty(n_rows, np.int64), np.empty(n_rows, np.int64)
        columns, values = np.empty(n_features, np.int32), np.empty(n_features, np.float32)
        spans = np.empty((n_rows + chunk.count(b",", p), 2), np.int64)
        self.lines.budget.take(row_ends.nbytes + label_row_ends.nbytes + columns.nbytes + values.nbytes + 4 * len(spans))
        state = np.zeros(STATE_WIDTH, np.int64)
        line = self.lines.line + n_skipped
        while True:
            p = parse(data, p, self.lowest, self.highest, state, row_ends, columns, values, label_row_ends, spans)
            if p == len(data):
                break
            word = chunk[p : p + 200].split(None, 1)[0]  # more digits than that make no number
            if p + len(word) < len(data) and len(word) == 200:
                raise self.lines.error(
                    line + int(state[ROWS]), f'feature "{word[:20].decode("utf-8", "replace")}..." is too long; write ID:VALUE'
                )
            place = state[FEATURES]
            columns[place], values[place] = self._feature(word.decode("utf-8", "replace"), line + int(state[ROWS]))
            state[FEATURES] += 1
            p += len(word)
        spans = spans[: state[LABELS]]
        if self.highest_label is None:
            self.labels.append(np.array([self.names[chunk[a:b]] for a, b in spans.tolist()], np.int32))
        else:
            self.labels.append(self._ids(data, spans, label_row_ends, line))
        self.row_ends.append(row_ends + self.n_features)
        self.label_row_ends.append(label_row_ends + self.n_labels)
        self.n_features += int(state[FEATURES])
        self.n_labels += int(state[LABELS])
        self.columns.append(columns[: state[FEATURES]])
        self.values.append(values[: state[FEATURES]])
        return n_rows

    def rows(self, n_features: int | None, n_labels: int, n_blank: int) -> TextRows:
        """All that was read, with blank rows at the end."""
        self.lines.budget.take(16 * n_blank)
        ends = _joined(self.row_ends, np.int64)
        offsets = _joined(self.label_row_ends, np.int64)
        ends, offsets = (np.concatenate([places, np.repeat(places[-1:], n_blank)]) for places in (ends, offsets))
        columns, values = _joined(self.columns, np.int32), _joined(self.values, np.float32)
        if n_features is None:
            n_features = int(columns.max()) + 1 if len(columns) else 0
        features = csr_matrix((values, columns, ends), shape=(len(ends) - 1, n_features))
        return TextRows(features, offsets, _joined(self.labels, np.int32), list(self.names), n_labels)

    def _ids(self, data: np.ndarray, spans: np.ndarray, label_row_ends: np.ndarray, line: int) -> np.ndarray:
        assert self.highest_label is not None
        ids = np.empty(len(spans), np.int32)
        bad = whole_numbers(data, spans, self.highest_label, ids)
        if bad < len(spans):
            label = data[spans[bad, 0] : spans[bad, 1]].tobytes().decode("utf-8", "replace")
            line += int(np.searchsorted(label_row_ends, bad, side="right"))
            raise self.lines.error(line, _label_fault(label, self.highest_label))
        return ids

    def _feature(self, word: str, line: int) -> tuple[int, np.float32]:
        """What the kernel could not read: a value that needs more care, or an error."""
        number, _, text = word.partition(":")
        if not INTEGER.fullmatch(number) or not DECIMAL.fullmatch(text):
            raise self.lines.error(line, _feature_fault(word))
        if int(number) < 0:
            raise self.lines.error(line, f"feature id {number} is negative; ids count from 0 (in LIBSVM files also from 1)")
        if int(number) < self.lowest:
            raise self.lines.error(line, f"feature id {number}, but the training data count from {self.lowest}; renumber one")
        if int(number) > self.highest:
            raise self.lines.error(line, f"feature id {number} is not below {_limit(self.highest, 'features')}")
        with np.errstate(over="ignore"):
            value = np.float32(float(text))
        if not np.isfinite(value):
            raise self.lines.error(line, f"value {text} of feature {number} is too large for a float32; scale the values down")
        return int(number), value


def _feature_fault(word: str) -> str:
    if ":" not in word:
        return f'"{word}" has no colon; a line is LABEL,LABEL,... and then ID:VALUE, separated by blanks'
    if NOT_FINITE.fullmatch(word):
        return f'feature "{word}" is not finite; leave it out or put a number in its place'
    return f'feature "{word}" is not NUMBER:NUMBER; write ID:VALUE, as in 17:0.5'


def _label_fault(label: str, highest: int) -> str:
    if highest < 0:
        return f"label {label}, but the header says that there are 0 labels; correct the header, ROWS FEATURES LABELS"
    if not label.isdecimal():
        return f'label "{label}" is not a whole number from 0 to {highest}; write ids, separated by commas without blanks'
    return f"label {label} is not below {_limit(highest, 'labels')}"


def _limit(highest: int, of_what: str) -> str:
    if highest == MAX_IDS - 1:
        return f"{MAX_IDS}, the most {of_what} there can be; renumber them"
    return f"{highest + 1}, the number of {of_what} in the header; correct one of them (ids count from 0)"


def _joined(arrays: list[np.ndarray], dtype: type) -> np.ndarray:
    """All in one; the list is emptied, so that what it held can be freed."""
    joined = np.concatenate(arrays) if arrays else np.empty(0, dtype)
    arrays.clear()
    return joined


def check_libsvm(lines: Lines) -> None:
    """`EmbedxError` if the first line cannot be one of a LIBSVM file: labels, which may be left out, and words with colons."""
    words = (match[0] for match in WORD.finditer(lines.first_line))  # one at a time: a line may have millions
    first = next(words, "")
    if not (":" not in first or ":" in first[1:]) or not all(":" in word[1:] for word in words):
        raise EmbedxError(
            f"{lines.name}:1: no known format; begin with a header ROWS FEATURES LABELS, write lines LABEL ID:VALUE ID:VALUE, "
            "or lines __label__NAME and words"
        )
