"""The sparse files of the Extreme Classification repository: a header `ROWS FEATURES LABELS`, then
lines `l1,l2,... f:v f:v ...` with ids from 0.

http://manikvarma.org/downloads/XC/XMLRepository.html
"""

import re

from embedx.errors import DataError, counted
from embedx.labeled.data import FileRows, joined_rows
from embedx.labeled.files import LabelledFile, LabelledFiles
from embedx.labeled.formats.contract import Format
from embedx.labeled.ids import MAX_IDS
from embedx.labeled.options import ReadOptions
from embedx.labeled.sparse import Ranges, read_sparse_rows
from embedx.text.labelled_starts import XC_HEADER


def recognises(file: LabelledFile, options: ReadOptions) -> bool:
    """Whether the first row is a header, ROWS FEATURES LABELS."""
    return header_in(file.lines.first_row) is not None


def header_in(line: str) -> re.Match[bytes] | None:
    """The numbers of a header; None if the line is none."""
    return XC_HEADER.fullmatch(line.encode())


def read(files: LabelledFiles, options: ReadOptions) -> FileRows:
    """The rows under the headers. Raises `EmbedxError` for training data whose headers differ."""
    parts: list[FileRows] = []
    for file in files:
        part = read_file(file, options)
        if parts and options.schema is None:
            _check_same_header(file.name, part, files.first.name, parts[0])
        parts.append(part)
    return joined_rows(parts)


def _check_same_header(name: str, part: FileRows, first_name: str, first: FileRows) -> None:
    """Raise `DataError` if two files have different numbers of features or labels."""
    n_features = part.features.shape[1]
    n_features_first = first.features.shape[1]
    if (n_features, part.n_labels) != (n_features_first, first.n_labels):
        raise DataError(
            name,
            None,
            f"its header says {n_features} features and {part.n_labels} labels, that of"
            f" {first_name} {n_features_first} and {first.n_labels}",
            "give files of one data set",
        )


def read_file(file: LabelledFile, options: ReadOptions) -> FileRows:
    """The rows under the header. Raises `EmbedxError` if there are not as many as it says."""
    lines = file.lines
    header = header_in(lines.first_row)
    assert header
    n_rows, n_features, n_labels = map(int, header.groups())
    line = lines.number_of_first_row
    if max(n_features, n_labels) > MAX_IDS:
        raise DataError(
            lines.name,
            line,
            f"more than {MAX_IDS} features or labels",
            "correct the header, ROWS FEATURES LABELS",
        )

    lines.skip_first_row()
    lines.min_lines = line + n_rows
    by_name = options.schema is not None and options.schema.by_name
    rows = read_sparse_rows(
        lines, Ranges(0, n_features - 1, n_labels - 1), by_name, options.threads
    )

    n_rows_read = rows.features.shape[0]
    if not n_rows or n_rows_read != n_rows:
        raise DataError(
            lines.name,
            line,
            f"the header says {counted(n_rows, 'row')}, but there are {n_rows_read}",
            "copy the file again or correct it",
        )
    rows.features.resize(n_rows, n_features)
    return rows._replace(n_labels=n_labels, first_feature=0)


XC = Format(
    name="XC",
    looks_like="Extreme Classification repository, sparse: a first line `ROWS FEATURES LABELS`,"
    " then `3,17 0:0.5 12:1.2`; ids from 0. `#` begins a comment",
    features="ID:VALUE",
    passes_for_text=True,
    recognises=recognises,
    read=read,
    advice="begin with a header ROWS FEATURES LABELS",
)
