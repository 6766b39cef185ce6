"""`read`: labelled data from files of several formats, recognised by content.

    XC sparse     ROWS FEATURES LABELS, then lines `l1,l2,... f:v f:v ...`, ids from 0
    XC, one file  DATA@SPLIT or DATA@SPLIT:COLUMN: the rows of DATA numbered, from 1, in a column of the file SPLIT
    LIBSVM        the same lines without a header; labels are names; features count from 1, or from 0 if feature 0 occurs
    fastText      `__label__a __label__b some words`; a feature is how often its word stands in the line
    dense         .npy or IDX, flattened to (rows, features); values as they are
    sparse .npz   of scipy.sparse.save_npz

    digits        generated

Dense and .npz files need a file of labels: .npy or IDX integers, an indicator matrix as .npz, or one line of text for each row.
Text may be compressed (.gz, .bz2, .xz, .zst), remote, or standard input.
"""

import array
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, issparse

from embedx.errors import EmbedxError
from embedx.labeled.arrays import check_finite, features_in, is_binary, label_ids_in, read_array
from embedx.labeled.data import Labeled, Labels
from embedx.labeled.digits import GENERATED, named
from embedx.labeled.files import Lines, head_of, source_of
from embedx.labeled.schema import MAX_IDS, DataSchema, Numbering, decoded, read_label_names, read_names, settled
from embedx.labeled.sparse import HEADER, check_libsvm, read_libsvm, read_xc
from embedx.labeled.words import is_fasttext, read_bags
from embedx.text.sources import STANDARD_INPUT
from embedx.training.progress import Progress, Silent

__all__ = ["DataSchema", "check_there", "read", "read_label_names", "read_names", "read_training", "with_names"]

SPLIT = re.compile(r"(?P<data>.+)@(?P<split>[^@]+?)(:(?P<column>\d{1,9}))?")
URL_HOST = re.compile(r"\w+://[^/]*")
IDX_NAME = re.compile(r"idx\d-")
SILENT = Silent()


def read(
    source: str,
    labels: str | None = None,
    *,
    progress: Progress = SILENT,
    like: DataSchema | None = None,
    keeps_empty: bool = False,
) -> Labeled:
    """The rows in `source`, with the labels in the file `labels` if it has none of its own; they may also have none at all.

    `like` is the schema from `read_training`. Features not in it are dropped. Labels not in it are kept: they get ids of at
    least its `n_labels`, while `n_labels` and `names` of the result stay those of the training data.
    With `keeps_empty` empty lines at the end of a file without a header are rows, as those between others always are.
    """
    return _read(source, labels, progress, like, keeps_empty)[0]


def read_training(source: str, labels: str | None = None, *, progress: Progress = SILENT) -> tuple[Labeled, DataSchema]:
    """What `read` gives, which must have labels, and what test data are read like."""
    data, known = _read(source, labels, progress, None)
    if not len(data.labels.ids):
        raise EmbedxError(f"{source}: no row has a label; name the file of the labels with --train-labels")
    return data, known


def with_names(data: Labeled, known: DataSchema, names: Sequence[str], file: str) -> tuple[Labeled, DataSchema]:
    """Training data whose labels are called by the names that `file` gives to their ids.

    Where the data say labels by name, as LIBSVM and fastText files do, these names must be whole numbers: they become the ids.
    """
    labels, n_labels = data.labels, known.n_labels
    if known.by_name:
        own = known.names or []
        if others := [name for name in own if not (name.isdecimal() and name.isascii())]:
            raise EmbedxError(
                f'{file}: the labels of the training data have names already, such as "{others[0]}"; '
                "leave out --label-names, which names labels that are whole numbers from 0"
            )
        n_labels = max(int(name) if len(name) < 20 else MAX_IDS for name in own) + 1
    if len(names) != n_labels:
        raise EmbedxError(
            f"{file}: {len(names):,} names for {n_labels:,} labels, which count from 0; write one a line for each"
        )
    if known.by_name:
        labels = Labels(labels.offsets, np.array([int(name) for name in own], np.int32)[labels.ids])
    known = replace(known, n_labels=n_labels, names=list(names), by_name=False)
    return replace(data, labels=labels, n_labels=n_labels, names=known.names), known


def _read(
    source: str, labels: str | None, progress: Progress, like: DataSchema | None, keeps_empty: bool = False
) -> tuple[Labeled, DataSchema]:
    try:
        return _read_all(source, labels, progress, like, keeps_empty)
    except MemoryError as error:  # where less may be had than is free, as by `ulimit -v`
        raise EmbedxError(f"{source}: takes more memory than may be had; give fewer rows, or more memory") from error


def _read_all(
    source: str, labels: str | None, progress: Progress, like: DataSchema | None, keeps_empty: bool
) -> tuple[Labeled, DataSchema]:
    if source == labels == STANDARD_INPUT:
        raise EmbedxError("-: standard input cannot be both the features and the labels; name a file for one of them")
    if pair := named(source):  # training data, then test data
        data = pair[0 if like is None else 1]
        return data, like or DataSchema(data.n_features, data.n_labels, data.names)
    name, split, column = _split_named(source)
    data, known = _features(name, progress, like, keeps_empty)
    if labels is not None:
        if len(data.labels.ids):
            raise EmbedxError(f"{name}: has labels of its own; leave out the file of labels, {labels}")
        data, known = _with_labels(data, known, labels, progress, like)
    if split:
        data = data.rows(_split_rows(split, column, data))
    return data, known


def check_there(source: str) -> None:
    """Raise `EmbedxError` if there are no data of that name, before anything else is read."""
    if source != GENERATED:
        source_of(_split_named(source)[0])


def _split_named(source: str) -> tuple[str, str, int]:
    """(data file, split file, column) as `source` names them; no split is ""."""
    match = SPLIT.fullmatch(source)
    if not match or os.path.exists(source) or URL_HOST.fullmatch(match["data"]):  # the last has a user's name
        return source, "", 0
    if os.path.exists(with_colon := source[match.start("split") :]):
        return match["data"], with_colon, 1
    return match["data"], match["split"], int(match["column"] or 1)


def _features(name: str, progress: Progress, like: DataSchema | None, keeps_empty: bool) -> tuple[Labeled, DataSchema]:
    """The rows of one file, and what is known after it."""
    source = source_of(name)
    head = head_of(source)
    if is_binary(head):
        features = features_in(name, read_array(source, head, progress))
        none = Labels(np.zeros(features.shape[0] + 1, np.int64), np.empty(0, np.int32))
        return _finished(name, features, none, DataSchema(features.shape[1], 0), like, progress)
    if head and IDX_NAME.search(os.path.basename(name)):
        raise EmbedxError(f"{name}: no IDX file: it begins with {head[:4].hex(' ')}, not 00 00 TYPE DIMENSIONS; fetch it again")
    lines = Lines(source, progress)
    has_header = HEADER.fullmatch(lines.first_line) is not None
    lines.keeps_empty = keeps_empty and not has_header
    if like and like.vocabulary is not None and has_header:
        raise EmbedxError(f"{name}: features are numbered, but those of the training data are words; give lines of words")
    by_name = like.by_name if like else not has_header
    if (like and like.vocabulary is not None) or is_fasttext(lines):
        if like and like.vocabulary is None:
            raise EmbedxError(f"{name}: features are words, but those of the training data are numbered; write ID:VALUE")
        rows, by_name = read_bags(lines, like.vocabulary if like else None), True
    elif has_header:
        rows = read_xc(lines, by_name)
    else:
        check_libsvm(lines)
        rows = read_libsvm(lines, like.first_feature if like else None, by_name)
    ids, names, n_labels = rows.labels, None, rows.n_labels
    if by_name:
        id_of, names = settled(rows.names, like.by_name if like else True, like.names if like else None, name)
        ids, n_labels = id_of[ids], len(names or [])
    known = DataSchema(rows.features.shape[1], n_labels, names, rows.vocabulary, by_name, rows.first_feature)
    return _finished(name, rows.features, Labels(rows.offsets, ids), known, like, progress)


def _finished(
    name: str, features: Any, labels: Labels, known: DataSchema, like: DataSchema | None, progress: Progress
) -> tuple[Labeled, DataSchema]:
    """In the form that is promised, and with the features of the training data."""
    if issparse(features):
        if like:
            features = _cut(name, features, like.n_features, progress)
        n_values = features.nnz
        features.sum_duplicates()
        if features.nnz < n_values:  # sums may be too large
            check_finite(name, features.data)
    elif like and features.shape[1] != like.n_features:
        raise EmbedxError(f"{name}: {features.shape[1]} features, but the training data have {like.n_features}; give the same")
    known = like or known
    return Labeled(features, labels.distinct(), known.n_labels, known.names, known.vocabulary), known


def _cut(name: str, features: csr_matrix, n_features: int, progress: Progress) -> csr_matrix:
    """With this many features: those beyond are dropped."""
    n_values = features.nnz
    features.resize(features.shape[0], n_features)
    if dropped := n_values - features.nnz:
        progress.note(
            f"{name}: {dropped:,} values dropped, whose feature ids are not below {n_features:,} as in the training data"
        )
    return features


def _with_labels(
    data: Labeled, known: DataSchema, file: str, progress: Progress, like: DataSchema | None
) -> tuple[Labeled, DataSchema]:
    """The same rows with the labels in the file."""
    source = source_of(file)
    head = head_of(source)
    names = like.names if like else None
    by_name = like.by_name if like else False
    if is_binary(head):
        offsets, ids, n_labels = label_ids_in(file, read_array(source, head, progress))
        if by_name:
            found, places = np.unique(ids, return_inverse=True)
            ids = settled([b"%d" % label for label in found.tolist()], by_name, names, file)[0][places]
    else:
        offsets, numbers, found_names = _label_lines(Lines(source, progress), len(data))
        id_of, names = settled(found_names, like.by_name if like else None, names, file)
        ids = id_of[numbers]
        by_name = names is not None
        n_labels = len(names) if names is not None else int(ids.max(initial=-1)) + 1
    if len(offsets) - 1 != len(data):
        raise EmbedxError(f"{file}: labels of {len(offsets) - 1} rows, but the features have {len(data)}; are they of one set?")
    known = like or replace(known, n_labels=max(n_labels, known.n_labels), names=names, by_name=by_name)
    labels = Labels(offsets, ids).distinct()
    return Labeled(data.features, labels, known.n_labels, known.names, known.vocabulary), known


def _label_lines(lines: Lines, n_rows: int) -> tuple[np.ndarray, np.ndarray, list[bytes]]:
    """(offsets, numbers, different labels) of a text with a line of labels for each row, which may be empty."""
    numbering = Numbering(lines.budget)
    numbers: list[np.ndarray] = []
    ends = [np.zeros(1, np.int64)]
    n_read = 0
    for chunk in lines:
        decoded(lines, chunk)
        rows = [line.split() for line in chunk.replace(b",", b" ").split(b"\n")[:-1]]
        n_read += len(rows)
        numbers.append(np.fromiter(map(numbering.__getitem__, chain.from_iterable(rows)), np.int32))
        ends.append(ends[-1][-1] + np.cumsum(np.fromiter(map(len, rows), np.int64)))
        lines.budget.take(numbers[-1].nbytes + ends[-1].nbytes)
    ends.append(np.repeat(ends[-1][-1:], max(min(n_rows - n_read, lines.n_empty_at_end), 0)))
    return np.concatenate(ends), np.concatenate(numbers), list(numbering)


def _split_rows(file: str, column: int, data: Labeled) -> np.ndarray:
    """The rows of the data, from 0, that a column of a split file names from 1."""
    lines = Lines(source_of(file), SILENT)
    n_rows = len(data)
    row_bytes = 8 + (8 * data.features.nnz if data.is_sparse else data.features.nbytes) // max(n_rows, 1)
    rows: array.array[int] = array.array("q")
    for chunk in lines:
        lines.budget.take(row_bytes * chunk.count(b"\n"))  # a row may be named again and again
        for number, line in enumerate(chunk.split(b"\n")[:-1], lines.line):
            words = line.split()
            if not 1 <= column <= len(words):
                raise lines.error(number, f"no column {column}, there are {len(words)}; choose one of them after the colon")
            word = words[column - 1].decode("utf-8", "replace")
            if not (word.isdecimal() and len(word) < 20 and 1 <= int(word) <= n_rows):
                raise lines.error(number, f'"{word}" is no row of the data, which has rows 1 to {n_rows}; is it their split?')
            rows.append(int(word) - 1)
    return np.frombuffer(rows, np.int64)
