"""The role of each column of a table - text, numbers, label, id - guessed from names and values."""

import dataclasses
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from embedx.labeled.cells import number_of
from embedx.labeled.data import Columns
from embedx.labeled.tables.by_values import guess_labels, guess_text, values_by_column
from embedx.labeled.tables.names import INDEX_NAMES, LABEL_NAMES, TEXT_NAMES, TITLE_NAMES
from embedx.text.tables import value_of

Record = Mapping[str, Any]
WORD = re.compile(r"[^\W\d_]+")


@dataclasses.dataclass
class Roles:
    """The role of each column.

    guessed_by_values  those of the text and the label that were guessed by their values
    could_be_labels    several columns of which none was chosen
    """

    text: list[str]
    numbers: list[str]
    label: list[str]
    id: str | None
    unused: list[str]
    guessed_by_values: list[str] = dataclasses.field(default_factory=list)
    could_be_labels: list[str] = dataclasses.field(default_factory=list)

    def columns(self, separator: str | None, has_heading: bool | None) -> Columns:
        """The columns as the model keeps them; several label columns are 0/1 indicators."""
        has_indicators = len(self.label) > 1
        return Columns(
            self.text,
            self.numbers,
            self.label[0] if len(self.label) == 1 else None,
            self.id,
            separator,
            indicators=self.label if has_indicators else [],
            has_heading=has_heading,
        )


def guess_roles(
    available: Mapping[str, None],
    named: Mapping[str, list[str]],
    head: list[Record],
    needs_label_column: bool,
) -> Roles:
    """The roles of all columns: as named, then by usual names, then by what is left, then by their
    values.
    """
    text = named.get("text_column", [])
    numbers = named.get("feature_columns", [])
    label = named.get("label_column", [])
    id_column = next(iter(named.get("id_column", [])), None)
    index_columns = [name for name in available if name.lower() in INDEX_NAMES]
    unused = _without(available, [*index_columns, *text, *numbers, *label, id_column])

    id_column = id_column or guess_id_column(unused)
    unused = _without(unused, [id_column])
    label = label or guess_label_column(unused)
    text = text or guess_text_columns(unused)
    unused = _without(unused, [*label, *text])

    has_features = bool(text or numbers)
    if has_features and needs_label_column and not label:
        label = guess_last_label_column(unused)
    elif not has_features and (label or not needs_label_column):
        text = guess_last_text_column(unused, head)
        numbers = [] if text else guess_number_columns(unused, head)
    unused = _without(unused, [*label, *text, *numbers])

    roles = Roles(text, numbers, label, id_column, unused)
    return _completed_by_values(roles, head, needs_label_column)


def _completed_by_values(roles: Roles, head: list[Record], needs_label_column: bool) -> Roles:
    """The roles, with features and labels that are still missing guessed by the values."""
    text = roles.text
    numbers = roles.numbers
    label = roles.label
    unused = roles.unused
    guessed_by_values: list[str] = []
    could_be_labels: list[str] = []
    if not text and not numbers:
        text = guess_text(values_by_column(unused, head))
        unused = _without(unused, text)
        guessed_by_values += text
    if needs_label_column and not label:
        candidates = guess_labels(values_by_column(unused, head))
        label = only_label(candidates)
        could_be_labels = [] if label else candidates
        unused = _without(unused, label)
        guessed_by_values += label
        if label and not text and not numbers:
            numbers = guess_number_columns(unused, head)
            unused = _without(unused, numbers)
    return Roles(text, numbers, label, roles.id, unused, guessed_by_values, could_be_labels)


def guess_id_column(columns: list[str]) -> str | None:
    """The first column called "id"."""
    return next(iter(_called(columns, {"id"})), None)


def guess_label_column(columns: list[str]) -> list[str]:
    """The column with a usual name of labels, unless there are several."""
    candidates = _called(columns, LABEL_NAMES)
    return candidates if len(candidates) == 1 else []


def guess_text_columns(columns: list[str]) -> list[str]:
    """The title and the text by their usual names, unless there are several of either."""
    titles = _called(columns, TITLE_NAMES)
    texts = _called(columns, TEXT_NAMES)
    if len(titles) > 1 or len(texts) > 1:
        return []
    return _called(columns, TITLE_NAMES | TEXT_NAMES)


def guess_last_label_column(columns: list[str]) -> list[str]:
    """Beside features that are known: the only column left."""
    return columns if len(columns) == 1 else []


def only_label(candidates: list[str]) -> list[str]:
    """Of columns with values that recur, the only one, or the only one with a word of LABEL_NAMES
    in its name.
    """
    if len(candidates) == 1:
        return candidates
    with_usual_word = [
        column for column in candidates if LABEL_NAMES.intersection(WORD.findall(column.lower()))
    ]
    return with_usual_word if len(with_usual_word) == 1 else []


def guess_last_text_column(columns: list[str], head: list[Record]) -> list[str]:
    """Where no features are known: the only column left, unless it has numbers alone."""
    if len(columns) == 1 and not numeric_columns(columns, head):
        return columns
    return []


def guess_number_columns(columns: list[str], head: list[Record]) -> list[str]:
    """All columns left, if half of the values of each are numbers; the others are mistakes."""
    return columns if numeric_columns(columns, head, 0.5) == columns else []


def _called(columns: list[str], names: set[str]) -> list[str]:
    """The columns that have one of these names, in any case."""
    return [column for column in columns if column.lower() in names]


def _without(columns: Iterable[str], taken: Iterable[str | None]) -> list[str]:
    taken = {*taken}
    return [column for column in columns if column not in taken]


def numeric_columns(columns: list[str], head: list[Record], share: float = 1.0) -> list[str]:
    """The columns of which at least this share of the values are numbers, or empty, but not all."""
    return [
        column
        for column in columns
        if _are_numbers([value_of(record, column, None) for record in head], share)
    ]


def _are_numbers(values: list[Any], share: float) -> bool:
    numbers = [number_of(value) for value in values]
    has_number = any(number is not None and not math.isnan(number) for number in numbers)
    return has_number and numbers.count(None) <= (1 - share) * len(numbers)
