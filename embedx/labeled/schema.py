"""Names of labels and features, and their ids."""

import re
from collections.abc import Iterable

import numpy as np

from embedx.errors import EmbedxError
from embedx.labeled.data import Labels
from embedx.labeled.files import Lines, MemoryBudget, source_of
from embedx.training.progress import Silent

WHOLE = re.compile(r"[+-]?[0-9]{1,1000}")  # Python reads no number of more than 4,300 digits
MAX_IDS = 2**31 - 1  # ids are int32
# what Python takes for a word and its number beyond the letters, here, as a string, and in the list
# of names
WORD_BYTES = 250


class Numbering(dict[bytes, int]):
    """Numbers words in the order in which they are first looked up, as long as there is memory for
    them.
    """

    def __init__(self, budget: MemoryBudget) -> None:
        self._budget = budget

    def __missing__(self, word: bytes) -> int:
        self._budget.take(len(word) + WORD_BYTES)
        self[word] = number = len(self)
        return number

    def labels_of(self, rows: Iterable[Iterable[bytes]]) -> Labels:
        """The numbers of the words of each row."""
        found = Labels.of_rows([[self[word] for word in row] for row in rows])
        self._budget.take(found.ids.nbytes + 2 * found.offsets.nbytes)
        return found


def settled(
    found: Iterable[bytes], by_name: bool | None, known: list[str] | None, file: str
) -> tuple[np.ndarray, list[str] | None]:
    """The ids of the different labels found, int32, and the names of all labels, None if they are
    said by id.

    Named labels get the ids of the known names, new ones those after them. Where none are known,
    numbers are sorted and other names keep the order in which they were found; +1 and 1 are the
    same. `by_name` None: by id if all are whole numbers.
    """
    labels = [_plain(label, file) for label in found]
    if by_name is None:
        by_name = not all(label.isdecimal() for label in labels)
    if not by_name:
        return np.array([_as_id(label, file) for label in labels], np.int32), None
    names = list(dict.fromkeys([*map(_unsigned, known or []), *labels]))
    if known is None and all(WHOLE.fullmatch(name) for name in names):
        names.sort(key=int)
    ids = {name: number for number, name in enumerate(names)}
    return np.array([ids[label] for label in labels], np.int32), names


def read_names(file: str) -> list[str]:
    """The names of labels (or features) by id: one a line, or lines `ID TAB ... TAB NAME` with ids
    from 0 in order.
    """
    lines = Lines(source_of(file), Silent())
    names: list[str] = []
    for chunk in lines:
        lines.budget.take(len(chunk) + WORD_BYTES * chunk.count(b"\n"))
        for line in decoded(lines, chunk).split("\n")[:-1]:
            columns = line.rstrip("\r").split("\t")
            if len(columns) > 1 and columns[0] != str(len(names)):
                raise lines.error(
                    len(names) + 1,
                    f'id "{columns[0]}" instead of {len(names)}; number the lines from 0, in order',
                )
            names.append(columns[-1].strip())
    return names


def read_label_names(file: str) -> list[str]:
    """The names of labels by id, each of which there is once. Raises `EmbedxError` for one that is
    missing or stands twice.
    """
    names = read_names(file)
    first: dict[str, int] = {}
    for number, name in enumerate(names, 1):
        if not name:
            raise EmbedxError(
                f"{file}:{number}: no name; write the name of label {number - 1} there"
            )
        if first.setdefault(name, number) < number:
            raise EmbedxError(
                f'{file}:{number}: the name "{name}" is also in line {first[name]}; use different'
                " names"
            )
    return names


def decoded(lines: Lines, chunk: bytes) -> str:
    """The chunk just given as a string."""
    try:
        return chunk.decode("utf-8")
    except UnicodeDecodeError as error:
        line = lines.line + chunk.count(b"\n", 0, error.start)
        raise lines.error(line, "not UTF-8; convert the file with iconv -t UTF-8") from error


def _plain(label: bytes, file: str) -> str:
    try:
        return _unsigned(label.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise EmbedxError(
            f"{file}: label {label!r} is not UTF-8; convert the file with iconv -t UTF-8"
        ) from error


def _unsigned(label: str) -> str:
    return str(int(label)) if len(label) < 20 and WHOLE.fullmatch(label) else label


def _as_id(label: str, file: str) -> int:
    if not (label.isdecimal() and label.isascii()):
        raise EmbedxError(
            f'{file}: label "{label}" is not an id; the labels of the training data are whole'
            " numbers from 0"
        )
    if len(label) > 10 or int(label) >= MAX_IDS:
        raise EmbedxError(
            f"{file}: label {label} is too large; ids count from 0 and stay below {MAX_IDS}"
        )
    return int(label)
