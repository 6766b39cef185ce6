"""LIBSVM files: lines `LABEL ID:VALUE ID:VALUE ...` without a header; # begins a comment."""

import re

import numpy as np

from embedx.labeled.data import DataSchema, FileRows, joined_rows
from embedx.labeled.files import LabelledFile, LabelledFiles
from embedx.labeled.formats.contract import Format
from embedx.labeled.ids import MAX_IDS
from embedx.labeled.options import ReadOptions
from embedx.labeled.sparse import Ranges, plain_rows, read_sparse_rows

WORD = re.compile(r"\S+")


def recognises(file: LabelledFile, options: ReadOptions) -> bool:
    """Whether the first row has labels, which may be left out, and then words with colons."""
    row, _ = plain_rows(file.lines.first_row.encode() + b"\n", 1)
    # one at a time: a line may have millions
    words = (match[0] for match in WORD.finditer(row.decode()))
    first = next(words, "")
    if not first:
        return False
    is_label_or_feature = ":" not in first or ":" in first[1:]
    return is_label_or_feature and all(":" in word[1:] for word in words)


def read(files: LabelledFiles, options: ReadOptions) -> FileRows:
    """The rows of the files; the id of the first feature is subtracted from all."""
    schema = options.schema
    by_name = schema.by_name if schema else True
    first_feature = schema.first_feature if schema else None
    ranges = Ranges(first_feature or 0, MAX_IDS - 1, MAX_IDS - 1)
    parts = []
    for file in files:
        lines = file.lines
        lines.skip_comments()
        if options.for_prediction:
            lines.keep_empty_lines()
        parts.append(read_sparse_rows(lines, ranges, by_name, options.threads))
    rows = joined_rows(parts)

    columns = rows.features.indices
    if first_feature is None:
        first_feature = guess_first_feature(columns, schema)
    columns -= first_feature
    n_rows, n_features = rows.features.shape
    rows.features.resize(n_rows, max(n_features - first_feature, 0))
    if schema is None:
        files.progress.note(
            f"{files.name}: read as LIBSVM, for the first line is no header ROWS FEATURES LABELS;"
            f" labels are names, features count from {first_feature}"
        )
    return rows._replace(first_feature=first_feature)


def guess_first_feature(ids: np.ndarray, schema: DataSchema | None) -> int:
    """0 if feature 0 occurs, and 1 otherwise, as scikit-learn's load_svmlight_file takes it.

    It is 0, too, where training data, which were arrays, have nothing in their first column and one
    column more than the largest id: what load_svmlight_file gives with zero_based=True.
    """
    if not len(ids) or ids.min() == 0:
        return 0
    if schema and schema.has_empty_first_column and ids.max() < schema.n_features:
        return 0
    return 1


LIBSVM = Format(
    name="LIBSVM",
    looks_like="the lines of XC without the first one; labels are names, and features count from"
    " 0 only if one is called 0. An XC file that has lost its first line is read so, which standard"
    " error says",
    features="ID:VALUE",
    passes_for_text=True,
    recognises=recognises,
    read=read,
    has_row_per_line=True,
    is_fallback_for_lines=True,
    advice="write lines LABEL ID:VALUE ID:VALUE",
)
