"""Labelled data as everything after the readers sees it: features, and the labels of each row."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy import int32, int64, ndarray
from scipy.sparse import csr_matrix, issparse, vstack

from embedx.errors import DataError
from embedx.storage.schema import row_blocks


def offsets_of(sizes: Any) -> ndarray:
    """Where runs of these sizes begin, and the end of the last: int64 (n + 1,)."""
    return np.concatenate([[0], np.cumsum(sizes)]).astype(int64)


def distinct(values: ndarray) -> ndarray:
    """The distinct integers, ascending; a tenth of the time of np.unique, which takes a hash
    table.
    """
    ascending = np.sort(values)
    if not len(ascending):
        return ascending
    is_first = np.concatenate([[True], ascending[1:] != ascending[:-1]])
    return ascending[is_first]


def places_of(offsets: ndarray, chosen: ndarray | slice) -> tuple[ndarray, ndarray]:
    """The places of the elements of some rows, row by row, and the offsets of the rows among these
    places.
    """
    first = offsets[:-1][chosen]
    sizes = offsets[1:][chosen] - first
    ends = offsets_of(sizes)
    return np.repeat(first - ends[:-1], sizes) + np.arange(ends[-1]), ends


def crc_of(arrays: Sequence[ndarray]) -> int:
    """CRC-32 of the bytes of arrays, a block of rows at a time."""
    crc = 0
    for array in arrays:
        for rows in row_blocks(array):
            crc = zlib.crc32(np.ascontiguousarray(rows).data, crc)
    return crc


@dataclass(frozen=True)
class Labels:
    """Which labels each row has, in the order of the file.

    offsets  int64 (n_rows + 1,)
    ids      int32 (n_labels_in_all,): those of row i are ids[offsets[i]:offsets[i + 1]]
    """

    offsets: ndarray
    ids: ndarray

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> ndarray:
        return self.ids[self.offsets[row] : self.offsets[row + 1]]

    @property
    def n_of_row(self) -> ndarray:
        """How many labels each row has, int64 (n_rows,)."""
        return np.diff(self.offsets)

    @property
    def row_of_id(self) -> ndarray:
        """The row of each of `ids`, int64."""
        return np.repeat(np.arange(len(self)), self.n_of_row)

    def rows(self, chosen: ndarray | slice) -> "Labels":
        """The labels of these rows, in this order."""
        places, offsets = places_of(self.offsets, chosen)
        return Labels(offsets, self.ids[places])

    def where(self, kept: ndarray) -> "Labels":
        """Those of `ids` that are kept: bool, or their ascending places."""
        n_of_row = np.bincount(self.row_of_id[kept], minlength=len(self))
        return Labels(offsets_of(n_of_row), self.ids[kept])

    def distinct(self) -> "Labels":
        """Each label once in a row, at its first place."""
        n_labels = int(self.ids.max(initial=0)) + 1
        _, first = np.unique(self.row_of_id * n_labels + self.ids, return_index=True)
        return self if len(first) == len(self.ids) else self.where(np.sort(first))

    @classmethod
    def single(cls, ids: ndarray) -> "Labels":
        """One label for each row."""
        return cls(np.arange(len(ids) + 1, dtype=int64), np.asarray(ids, int32))

    @classmethod
    def of_matrix(cls, matrix: Any) -> "Labels":
        """Those that an indicator matrix (n_rows, n_labels) marks by numbers other than 0."""
        matrix = csr_matrix(matrix, copy=True)
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        return cls(matrix.indptr.astype(int64), matrix.indices.astype(int32))

    @classmethod
    def joined(cls, parts: Sequence["Labels"]) -> "Labels":
        """The rows of all parts."""
        return cls(
            offsets_of(np.concatenate([part.n_of_row for part in parts])),
            np.concatenate([part.ids for part in parts]),
        )

    @classmethod
    def of_rows(cls, rows: Sequence[Sequence[int]]) -> "Labels":
        """From one list of ids for each row."""
        return cls(
            offsets_of([len(row) for row in rows]),
            np.array([label for row in rows for label in row], int32),
        )


class FileRows(NamedTuple):
    """The rows of a file, before labels and features are those of a `DataSchema`.

    features            float32 (n_rows, n_features), csr_matrix that is not yet sorted, or ndarray
    labels              by id, or by number in `names`
    names               the different labels, where they are names
    n_labels            as a header says
    text                how text became the features
    first_feature       its id in the file; None where features have no ids
    columns             of a table
    ids                 as `Labeled.ids`
    labels_are_numbers  the format defines labels as numbers, so that names are compared by value
    """

    features: Any
    labels: Labels
    names: list[bytes] | None = None
    n_labels: int = 0
    text: "TextSchema | None" = None
    first_feature: int | None = None
    columns: "Columns | None" = None
    ids: ndarray | None = None
    labels_are_numbers: bool = False


def joined_rows(parts: Sequence[FileRows]) -> FileRows:
    """The rows of all parts, which have no columns, text or ids."""
    first = parts[0]
    if len(parts) == 1:
        return first
    features = [part.features for part in parts]
    labels = [part.labels for part in parts]
    names = None
    if first.names is not None:
        numbers: dict[bytes, int] = {}
        for k, part in enumerate(parts):
            ids = [numbers.setdefault(name, len(numbers)) for name in part.names or []]
            labels[k] = Labels(part.labels.offsets, np.array(ids, int32)[part.labels.ids])
        names = list(numbers)
    n_features = max(matrix.shape[1] for matrix in features)
    if issparse(first.features):
        for matrix in features:
            matrix.resize(matrix.shape[0], n_features)
        all_features = csr_matrix(vstack(features, "csr"))
    else:
        all_features = np.concatenate(features)
    return first._replace(
        features=all_features,
        labels=Labels.joined(labels),
        names=names,
        n_labels=max(part.n_labels for part in parts),
    )


@dataclass(frozen=True)
class Columns:
    """Which columns of a table are used, and how (embedx.labeled.tables).

    separator    of labels in a cell
    scales       the bounds of the intervals of each of `numbers` or, without text, the means and
                 the deviations of all of them
    indicators   0/1 columns, one for each label
    has_heading  whether the first row of CSV and TSV names the columns; otherwise they are called
                 by number
    """

    text: list[str]
    numbers: list[str]
    label: str | None = None
    id: str | None = None
    separator: str | None = None
    scales: Sequence[Sequence[float]] = ()
    indicators: list[str] = field(default_factory=list)
    has_heading: bool | None = field(default=None, compare=False)

    @property
    def label_columns(self) -> list[str]:
        """The columns that say the labels."""
        if self.label and not self.indicators:
            return [self.label]
        return self.indicators

    @property
    def names(self) -> list[str]:
        """All columns that are used."""
        id_columns = [self.id] if self.id else []
        return [*self.text, *self.numbers, *self.label_columns, *id_columns]

    @property
    def n_intervals(self) -> int:
        """How many features are intervals of numbers, after those of the text."""
        return sum(len(bounds) + 1 for bounds in self.scales) if self.text else 0


def with_unknown_last(features: csr_matrix, n_text_features: int, n_features: int) -> csr_matrix:
    """Features of text and the number of unknown words, with that moved to a column after all
    features, where rows may also have others than those of text.
    """
    if n_text_features < n_features and features.shape[1] == n_text_features + 1:
        features.indices[features.indices == n_text_features] = n_features
        features.resize(features.shape[0], n_features + 1)
    return features


@dataclass(frozen=True, eq=False)
class TextSchema:
    """How text becomes features: columns are first the words, then the n-grams
    (embedx.labeled.words).

    hashes    int64 (n_ngrams,), ascending
    settings  resolved `TextFeatureSettings`
    """

    vocabulary: list[str]
    hashes: ndarray
    settings: dict[str, Any]

    @property
    def n_features(self) -> int:
        """How many words and n-grams there are."""
        return len(self.vocabulary) + len(self.hashes)


@dataclass(frozen=True)
class DataSchema:
    """What training data fix for later data, whose ids mean the same.

    names                   of the labels, by id
    text                    how text becomes the features, where they are those of text
    by_name                 files say labels by name, to be looked up in `names`; otherwise by id
    first_feature           the id of the first feature in files without a header: 1 if the training
                            file counts from 1. None if the training data were arrays, which do not
                            say
    has_empty_first_column  no training row has the first feature; of arrays
    columns                 where the data are a table
    feature_names           the columns of a data frame without text that was trained on
    label_separator         of several labels in a line of a file of labels
    of_documents            each text file is a row, not each line
    """

    n_features: int
    n_labels: int
    names: list[str] | None = None
    text: TextSchema | None = None
    by_name: bool = False
    first_feature: int | None = None
    has_empty_first_column: bool = False
    columns: Columns | None = None
    feature_names: list[str] | None = None
    label_separator: str | None = None
    of_documents: bool = False

    @property
    def vocabulary(self) -> list[str] | None:
        """The words that are the first features, where these are those of text."""
        return None if self.text is None else self.text.vocabulary

    @property
    def kind_of_features(self) -> str:
        """`words` or `ID:VALUE`: what lines that are no table have for these features."""
        return "ID:VALUE" if self.text is None else "words"

    def check_kind_of_features(self, file: str, kind: str) -> None:
        """Raise `DataError` if a file has features of another kind."""
        if kind != self.kind_of_features:
            raise DataError(
                file,
                None,
                f"features are {kind}, but those of the training data are {self.kind_of_features}",
                "give the same kind",
            )


@dataclass(frozen=True)
class Labeled:
    """A data set, or one half of it.

    features       float32 (n_rows, n_features): ndarray or scipy.sparse.csr_matrix with sorted,
                   distinct columns. Those of text that is read like earlier rows have one column
                   more: how many words of a row are unknown
    source_schema  `schema`, if it does not follow from the features and labels
    weights        float (n_rows,): factors of the losses of the rows; None: all the same
    ids            object (n_rows,): what the rows are called, if a table says so
    """

    features: Any
    labels: Labels
    n_labels: int
    source_schema: DataSchema | None = None
    weights: ndarray | None = None
    ids: ndarray | None = None

    def __len__(self) -> int:
        return int(self.features.shape[0])

    @property
    def n_features(self) -> int:
        return int(self.features.shape[1])

    @property
    def is_sparse(self) -> bool:
        return isinstance(self.features, csr_matrix)

    @property
    def schema(self) -> DataSchema:
        """The schema by which later data are read; of arrays the numbers of features and labels."""
        return self.source_schema or DataSchema(self.n_features, self.n_labels)

    @property
    def has_empty_first_column(self) -> bool:
        """Whether no row has the first feature."""
        return self.is_sparse and self.n_features > 0 and not (self.features.indices == 0).any()

    def with_schema(self, schema: DataSchema) -> "Labeled":
        """The same rows with another schema."""
        return replace(self, source_schema=schema)

    def hash(self) -> str:
        """A hash of the features and labels, in hexadecimal digits."""
        parts = [self.features]
        if self.is_sparse:
            parts = [self.features.indptr, self.features.indices, self.features.data]
        labels = self.labels
        return f"{crc_of(parts):08x}{crc_of([labels.ids, labels.n_of_row]):08x}"

    def rows(self, chosen: ndarray) -> "Labeled":
        """These rows, in this order."""
        return replace(
            self,
            features=self.features[chosen],
            labels=self.labels.rows(chosen),
            weights=None if self.weights is None else self.weights[chosen],
            ids=None if self.ids is None else self.ids[chosen],
        )
