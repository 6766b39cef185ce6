"""Guesses the columns of text and labels by their values, where names do not tell."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from embedx.labeled.cells import URI, number_of
from embedx.text.tables import value_of

# Text has at least this many words a cell, or this many in cells that differ.
MIN_WORDS_OF_TEXT = 3
MIN_WORDS_OF_DIFFERING_TEXT = 2
MAX_WORDS_OF_LABEL = 5
# A label has on average at least this many rows.
MIN_ROWS_OF_LABEL = 2
SEPARATORS = (None, ";", "|", ",", " ")
LETTER = re.compile(r"[^\W\d_]")
# Such as 2024-03-01T10:00Z, 1 Mar 2024 and 3/1/24.
DATE = re.compile(r"\d{1,4}[-./ ](\d{1,2}|[^\W\d]{3,9}\.?)[-./ ]\d{1,4}([ T].*)?")

Values = Mapping[str, Sequence[Any]]


def values_by_column(columns: Iterable[str], head: Sequence[Mapping[str, Any]]) -> Values:
    """The values of each column that are not empty."""
    by_column = {}
    for column in columns:
        values = [value_of(record, column, None) for record in head]
        by_column[column] = [value for value in values if value not in (None, "", [])]
    return by_column


def guess_text(values: Values) -> list[str]:
    """The column with the most words a cell; none if all have too few."""
    words = {column: mean_words(cells) for column, cells in values.items() if is_prose(cells)}
    if not words:
        return []
    return [max(words, key=lambda column: words[column])]


def is_prose(cells: Sequence[Any]) -> bool:
    """Whether cells are texts of several words, not labels, numbers or dates."""
    texts = [cell for cell in cells if isinstance(cell, str)]
    if not texts or len(texts) < len(cells) or share_of(is_name_or_text, texts) < 0.5:
        return False
    n_words = mean_words(texts)
    differs = len(set(texts)) > len(texts) / MIN_ROWS_OF_LABEL
    return n_words >= MIN_WORDS_OF_TEXT or (n_words >= MIN_WORDS_OF_DIFFERING_TEXT and differs)


def guess_labels(values: Values) -> list[str]:
    """The columns with short values that recur: those of names, else those of whole numbers."""
    recurring = {column: cells for column, cells in values.items() if recurring_labels(cells)}
    of_names = [
        column
        for column, cells in recurring.items()
        if share_of(is_name_or_text, labels_in(cells)) > 0.5
    ]
    of_whole_numbers = [
        column for column, cells in recurring.items() if share_of(is_whole_number, cells) == 1
    ]
    return of_names or of_whole_numbers


def recurring_labels(cells: Sequence[Any]) -> set[str]:
    """The labels in cells, one or several a cell, if there are two or more that recur; else none.
    Between blanks they are URIs, as in a corpus of Annif.
    """
    for separator in SEPARATORS:
        labels = labels_in(cells, separator)
        if separator == " " and not all(map(URI.fullmatch, labels)):
            continue
        distinct = set(labels)
        recurs = 2 <= len(distinct) <= len(labels) / MIN_ROWS_OF_LABEL
        if recurs and mean_words(labels) <= MAX_WORDS_OF_LABEL:
            return distinct
    return set()


def has_label_of(labels: set[str], cell: str) -> bool:
    """Whether a cell has one of the labels, or several."""
    return any(not labels.isdisjoint(labels_in([cell], separator)) for separator in SEPARATORS)


def labels_in(cells: Sequence[Any], separator: str | None = None) -> list[str]:
    """The labels of all cells: the items of lists, and the parts of texts."""
    labels: list[str] = []
    for cell in cells:
        items = cell if isinstance(cell, list) else [cell]
        for item in items:
            parts = [str(item)] if separator is None else str(item).split(separator)
            labels += [part.strip() for part in parts if part.strip()]
    return labels


def mean_words(cells: Sequence[Any]) -> float:
    """The mean number of words of cells."""
    return float(np.mean([len(str(cell).split()) for cell in cells])) if cells else 0.0


def share_of(predicate: Callable[[Any], bool], cells: Sequence[Any]) -> float:
    """The share of the cells with a property."""
    return sum(map(predicate, cells)) / max(len(cells), 1)


def is_name_or_text(cell: Any) -> bool:
    """Whether a cell has letters, and is neither a number nor a date."""
    text = str(cell).strip()
    return (
        LETTER.search(text) is not None and number_of(text) is None and DATE.fullmatch(text) is None
    )


def is_whole_number(cell: Any) -> bool:
    number = number_of(cell)
    return number is not None and float(number).is_integer()
