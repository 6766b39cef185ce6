"""Recognises files of labelled data that look like text, by their first lines; one entry per
format.

`embedx train` refuses such files, and `embedx classify` never reads one as a table, whatever its
suffix is and whatever columns are named. `embedx.labeled.formats` reads them; its formats that
declare `passes_for_text` have the names below. What is taken for labelled data here is refused as
text, so that more is asked of it than of a file for `embedx classify`: rows below the header of XC,
whole numbers as the ids of LIBSVM's features.
"""

import codecs
import re
from collections.abc import Callable, Sequence

MAX_BYTES = 4096

# ROWS FEATURES LABELS; Python reads no number of more than 4,300 digits
XC_HEADER = re.compile(rb"(\d{1,1000})\s+(\d{1,1000})\s+(\d{1,1000})")
# labels, which are optional, and ID:VALUE; the last number may be truncated
SPARSE_ROW = re.compile(rb"(?:[^\s:]+\s+|\s*)(?:\d+:[-+.\deE]+(?:\s+|$))+(?:\d+:?)?")
FASTTEXT_LABEL = re.compile(rb"(?:^|\s)__label__\S")


def begins_xc(lines: Sequence[bytes]) -> bool:
    """Whether the lines are a header and rows in the XC format."""
    return bool(XC_HEADER.fullmatch(lines[0])) and any(map(SPARSE_ROW.fullmatch, lines[1:]))


def begins_libsvm(lines: Sequence[bytes]) -> bool:
    """Whether all lines are rows of LIBSVM."""
    return all(map(SPARSE_ROW.fullmatch, lines))


def begins_fasttext(lines: Sequence[bytes]) -> bool:
    """Whether all lines have labels as fastText writes them."""
    return all(map(FASTTEXT_LABEL.search, lines))


# By the name of a format: whether a file with these first lines, none empty, is in it.
LABELLED_STARTS: dict[str, Callable[[Sequence[bytes]], bool]] = {
    "XC": begins_xc,
    "LIBSVM": begins_libsvm,
    "fastText": begins_fasttext,
}


def begins_labelled(head: bytes) -> bool:
    """Whether the first bytes of a file are labelled data, not text."""
    lines = _first_lines(head)
    return bool(lines) and any(begins(lines) for begins in LABELLED_STARTS.values())


def _first_lines(head: bytes) -> list[bytes]:
    """The first lines, stripped, without empty ones. A truncated last line is left out, unless it
    is the only one or a row of numbers.
    """
    start = head[:MAX_BYTES].removeprefix(codecs.BOM_UTF8)
    *lines, last = start.split(b"\n")
    if not lines or SPARSE_ROW.fullmatch(last.strip()):
        lines.append(last)
    return [line.strip() for line in lines if line.strip()]
