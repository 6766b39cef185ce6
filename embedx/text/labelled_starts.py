"""How files of labelled data begin that would pass for text: one line for each format.

`embedx train` refuses text that begins so, and a file called .csv or .json that does is no table.
The names are those of `embedx.labeled.formats`, which reads the files: of formats that declare that
they pass for text. Binary files are known by their first bytes, tables by a suffix such as .csv.
"""

import codecs
import re
from collections.abc import Callable, Sequence

MAX_BYTES = 4096

# ROWS FEATURES LABELS; Python reads no number of more than 4,300 digits
XC_HEADER = re.compile(rb"(\d{1,1000})\s+(\d{1,1000})\s+(\d{1,1000})")
# labels, which may be left out, and ID:VALUE; the last number may be cut
SPARSE_ROW = re.compile(rb"(?:[^\s:]+\s+|\s*)(?:\d+:[-+.\deE]+(?:\s+|$))+(?:\d+:?)?")
FASTTEXT_LABEL = re.compile(rb"(?:^|\s)__label__\S")


def begins_xc(lines: Sequence[bytes]) -> bool:
    """Whether a row follows a header."""
    return bool(XC_HEADER.fullmatch(lines[0])) and any(map(SPARSE_ROW.fullmatch, lines[1:]))


def begins_libsvm(lines: Sequence[bytes]) -> bool:
    """Whether all lines are rows."""
    return all(map(SPARSE_ROW.fullmatch, lines))


def begins_fasttext(lines: Sequence[bytes]) -> bool:
    """Whether all lines have labels."""
    return all(map(FASTTEXT_LABEL.search, lines))


# By the name of the format: whether a file with these first lines, none of them empty, is of it.
LABELLED_STARTS: dict[str, Callable[[Sequence[bytes]], bool]] = {
    "XC": begins_xc,
    "LIBSVM": begins_libsvm,
    "fastText": begins_fasttext,
}


def begins_labelled(head: bytes) -> bool:
    """Whether a file that begins so is labelled data, and no text."""
    lines = _first_lines(head)
    return bool(lines) and any(begins(lines) for begins in LABELLED_STARTS.values())


def _first_lines(head: bytes) -> list[bytes]:
    """The first lines, without blanks around them and empty ones. A last one that is cut is left
    out, unless it is the only one or a row of numbers.
    """
    start = head[:MAX_BYTES].removeprefix(codecs.BOM_UTF8)
    *lines, last = start.split(b"\n")
    if not lines or SPARSE_ROW.fullmatch(last.strip()):
        lines.append(last)
    return [line.strip() for line in lines if line.strip()]
