"""Names of labels and features, and their ids."""

import re
from collections.abc import Iterable

import numpy as np

from embedx.errors import DataError
from embedx.labeled.data import Labels
from embedx.labeled.files import Lines, MemoryBudget, source_of
from embedx.runtime.progress import Silent
from embedx.text.file_kinds import TO_UTF8

# Python reads no number of more than 4,300 digits.
WHOLE = re.compile(r"[+-]?[0-9]{1,1000}")
ID = re.compile(r"0|[1-9][0-9]*")
# Ids are int32.
MAX_IDS = 2**31 - 1
# Python's bytes of a word beyond its letters: in `Numbering`, with its number, as a string, and in
# the list of names.
WORD_BYTES = 250


class Numbering(dict[bytes, int]):
    """Numbers words in the order in which they are first looked up, as long as there is memory for
    them.
    """

    def __init__(self, budget: MemoryBudget) -> None:
        self._budget = budget

    def __missing__(self, word: bytes) -> int:
        self._budget.take(len(word) + WORD_BYTES)
        number = len(self)
        self[word] = number
        return number

    def labels_of(self, rows: Iterable[Iterable[bytes]]) -> Labels:
        """The numbers of the words of each row."""
        labels = Labels.of_rows([[self[word] for word in row] for row in rows])
        self._budget.take(labels.ids.nbytes + 2 * labels.offsets.nbytes)
        return labels


def ids_and_names(
    distinct: Iterable[bytes],
    by_name: bool | None,
    known_names: list[str] | None,
    file: str,
    are_numbers: bool = False,
) -> tuple[np.ndarray, list[str] | None]:
    """The ids of distinct labels, int32, and the names of all labels, None if labels are ids.

    Known names keep their ids, new ones get those after them. Where none are known, whole numbers
    are sorted and other names keep their order.

    by_name      None: by id if all are whole numbers, written as ids are
    are_numbers  whether the format defines labels as numbers, which are compared by value: +1, 01
                 and 1 are the same. Elsewhere a label is the text that stands there
    """
    labels = [_decoded(label, file) for label in distinct]
    if are_numbers:
        labels = [_plain_number(label) for label in labels]
    if by_name is None:
        by_name = not all(map(is_id, labels))
    if not by_name:
        return np.array([_as_id(label, file) for label in labels], np.int32), None

    names = [] if known_names is None else [*known_names]
    ids: dict[str, int] = {}
    for number, name in enumerate(names):
        ids.setdefault(name, number)
    if are_numbers:
        for number, name in enumerate(names):
            ids.setdefault(_plain_number(name), number)

    new_names = [name for name in dict.fromkeys(labels) if name not in ids]
    if known_names is None and all(WHOLE.fullmatch(name) for name in new_names):
        new_names.sort(key=int)
    ids |= {name: number for number, name in enumerate(new_names, len(names))}
    return np.array([ids[label] for label in labels], np.int32), [*names, *new_names]


def is_id(label: str) -> bool:
    """Whether a label is a whole number from 0, written without a sign or leading zeros."""
    return ID.fullmatch(label) is not None


def read_names(file: str) -> list[str]:
    """The names of labels or features by id.

    A line is a name, or `ID TAB ... TAB NAME` with ids from 0 in order.
    """
    lines = Lines(source_of(file), Silent())
    names: list[str] = []
    for chunk in lines:
        lines.budget.take(len(chunk) + WORD_BYTES * chunk.count(b"\n"))
        for line in decoded(lines, chunk).split("\n")[:-1]:
            columns = line.rstrip("\r").split("\t")
            if len(columns) > 1 and columns[0] != str(len(names)):
                raise DataError(
                    file,
                    len(names) + 1,
                    f'id "{columns[0]}" instead of {len(names)}',
                    "number the lines from 0, in order",
                )
            names.append(columns[-1].strip())
    return names


def read_label_names(file: str) -> list[str]:
    """The names of labels by id.

    Raises `EmbedxError` for a name that is empty or not unique.
    """
    names = read_names(file)
    first: dict[str, int] = {}
    for number, name in enumerate(names, 1):
        if not name:
            raise DataError(file, number, "no name", f"write the name of label {number - 1} there")
        if first.setdefault(name, number) < number:
            raise DataError(
                file,
                number,
                f'the name "{name}" is also in line {first[name]}',
                "use different names",
            )
    return names


def check_utf8(lines: Lines, chunk: bytes) -> None:
    """Raise `DataError` if the chunk just given is not UTF-8."""
    decoded(lines, chunk)


def decoded(lines: Lines, chunk: bytes) -> str:
    """The chunk just given as a string. Raises `DataError` if it is not UTF-8."""
    try:
        return chunk.decode("utf-8")
    except UnicodeDecodeError as error:
        line = lines.chunk_line + chunk.count(b"\n", 0, error.start)
        raise DataError(lines.name, line, "not UTF-8", TO_UTF8) from error


def _decoded(label: bytes, file: str) -> str:
    try:
        return label.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(file, None, f"label {label!r} is not UTF-8", TO_UTF8) from error


def _plain_number(label: str) -> str:
    """A whole number without plus sign and leading zeros; other text as it is."""
    return str(int(label)) if len(label) < 20 and WHOLE.fullmatch(label) else label


def _as_id(label: str, file: str) -> int:
    if not is_id(label):
        raise DataError(
            file,
            None,
            f'label "{label}" is not an id, as those of the training data are',
            "give whole numbers from 0",
        )
    if len(label) > 10 or int(label) >= MAX_IDS:
        raise DataError(
            file,
            None,
            f"label {label} is too large",
            f"give ids from 0 to {MAX_IDS - 1}",
        )
    return int(label)
