"""Which columns of a table are used: those named, those of the training data, or as guessed."""

import dataclasses
from collections.abc import Mapping, Sequence

from embedx.errors import DataError, Setting, Text, joined
from embedx.labeled.cells import NUMBER_REMEDY, has_commas_of_number
from embedx.labeled.data import Columns
from embedx.labeled.options import ReadOptions
from embedx.labeled.tables.by_values import has_label_of, recurring_labels, values_by_column
from embedx.labeled.tables.names import is_position, missing_column
from embedx.labeled.tables.roles import Record, Roles, guess_roles, numeric_columns
from embedx.labeled.tables.settings import TableSettings
from embedx.runtime.progress import Progress
from embedx.text.tables import MAX_COLUMNS_IN_MESSAGE, fields_of, listed_columns, value_of


def choose_columns(
    file: str,
    head: list[Record],
    options: ReadOptions,
    has_heading: bool | None,
    progress: Progress,
    columns_of_first_file: Columns | None = None,
) -> Columns:
    """The columns to use: those named, and others as in the training data or as guessed.

    head           the first rows, whose values are looked at
    has_heading    whether the first row of CSV and TSV names the columns
    columns_of_first_file  the columns of the first of several files, which the others have too
    """
    schema = options.schema
    needs_label_column = options.needs_label_column
    available = dict.fromkeys(name for record in head for name in fields_of(record))
    named = _named_columns(file, options.table, available, bool(has_heading))
    training_columns = columns_of_first_file
    if training_columns is None and schema is not None:
        training_columns = schema.columns
    if training_columns is not None:
        return _columns_as_in_training(
            file, available, named, training_columns, needs_label_column, has_heading
        )
    roles = guess_roles(available, named, head, needs_label_column)
    _check_roles(file, roles, head, available, needs_label_column)
    _check_heading_is_no_row(file, roles, head, has_heading)
    if schema is not None:
        kind = "columns of numbers" if roles.numbers else "words"
        schema.check_kind_of_features(file, kind)
    _note_roles(file, roles, head, progress)
    return roles.columns(options.table.label_separator, has_heading)


def _columns_as_in_training(
    file: str,
    available: Mapping[str, None],
    named: Mapping[str, list[str]],
    training_columns: Columns,
    needs_label_column: bool,
    has_heading: bool | None,
) -> Columns:
    """The columns of the training data, but for text, label and id where these are named.

    Raises `DataError` if features, or labels that are needed, are missing.
    """
    text = named.get("text_column") or training_columns.text
    label = named.get("label_column") or training_columns.label_columns
    id_column = next(iter(named.get("id_column", [])), None) or training_columns.id

    required = [*text, *training_columns.numbers]
    if needs_label_column:
        required += label
    for column in required:
        if column not in available:
            setting = "text_column" if column in text else "label_column"
            remedy: Text = "add or rename it"
            if column not in training_columns.numbers:
                remedy = (remedy, ", or name another by ", Setting(setting))
            raise missing_column(file, column, available, remedy)

    if not all(column in available for column in label):
        label = []
    has_indicators = bool(training_columns.indicators)
    return dataclasses.replace(
        training_columns,
        text=text,
        label=None if has_indicators else next(iter(label), None),
        indicators=label if has_indicators else [],
        id=id_column if id_column in available else None,
        has_heading=has_heading,
    )


def _check_roles(
    file: str,
    roles: Roles,
    head: list[Record],
    available: Mapping[str, None],
    needs_label_column: bool,
) -> None:
    """Raise `EmbedxError` if no column has features, or none has labels that are needed."""
    if roles.text and needs_label_column and len(roles.could_be_labels) > 1:
        problem = f"its columns {listed_columns(roles.could_be_labels)} could all have the labels"
        raise DataError(file, None, problem, ("name one by ", Setting("label_column")))
    missing: list[Text] = []
    if not roles.text and not roles.numbers:
        _check_numbers_have_no_commas(file, head, available)
        numbers = (" (or ", Setting("feature_columns"), ", of numbers)")
        missing.append((Setting("text_column"), numbers))
    if needs_label_column and not roles.label:
        missing.append(Setting("label_column"))
    if missing:
        raise DataError(
            file,
            None,
            (
                "its columns ",
                listed_columns(available),
                " do not say which to use",
            ),
            (
                "name some by ",
                joined(missing, " and "),
                ", or if the file has no heading their numbers, from 1",
            ),
        )


def _check_numbers_have_no_commas(
    file: str, head: list[Record], available: Mapping[str, None]
) -> None:
    """Raise `DataError` for numbers with commas, as of a spreadsheet: they are read as text."""
    with_commas = [
        name
        for name in available
        if any(has_commas_of_number(value_of(record, name, None)) for record in head)
    ]
    if with_commas:
        problem = f"numbers with commas in its columns {listed_columns(with_commas)}"
        raise DataError(file, None, problem, NUMBER_REMEDY)


def _check_heading_is_no_row(
    file: str, roles: Roles, head: list[Record], has_heading: bool | None
) -> None:
    """Raise `DataError` if the name of a label column that was guessed by its values is one of the
    labels: then the first row is one of data.
    """
    if not has_heading:
        return
    for column in roles.label:
        if column not in roles.guessed_by_values:
            continue
        cells = values_by_column([column], head)[column]
        if has_label_of(recurring_labels(cells), column):
            shown = listed_columns([column])
            problem = f'its first row is one of data: "{shown}" has a label of other rows'
            remedy = (
                "give ",
                Setting("header", "no"),
                ", or add a row with the names of the columns",
            )
            raise DataError(file, 1, problem, remedy)


def _note_roles(file: str, roles: Roles, head: list[Record], progress: Progress) -> None:
    """Say what each column is used for, and which unused ones could be features."""
    columns_by_role = {
        "text": roles.text,
        "numbers": roles.numbers,
        "label" if len(roles.label) < 2 else "0/1 labels": roles.label,
        "id": [roles.id] if roles.id else [],
        "not used": roles.unused,
    }
    parts = [
        f"{role}: {listed_columns(columns)}" for role, columns in columns_by_role.items() if columns
    ]
    note: Text = f"{file}: {'; '.join(parts)}"
    if roles.guessed_by_values:
        text_and_label = (Setting("text_column"), " and ", Setting("label_column"))
        note = (
            note,
            f" ({listed_columns(roles.guessed_by_values)} by the values; ",
            text_and_label,
            " set others)",
        )
    unused_numbers = [] if roles.numbers else numeric_columns(roles.unused, head)
    if unused_numbers:
        names = ",".join(unused_numbers[:MAX_COLUMNS_IN_MESSAGE])
        note = (note, " (", Setting("feature_columns", names), " takes numbers)")
    progress.note(note)


def _named_columns(
    file: str, settings: TableSettings, available: Mapping[str, None], has_heading: bool
) -> dict[str, list[str]]:
    """The columns that settings name, by setting, as they are called in the file.

    Where the file has a heading, a number that is no name there is a position, from 1. Raises
    `DataError` for a column that is not there.
    """
    by_position = [*available] if has_heading else []
    columns_by_setting: dict[str, list[str]] = {}
    for setting, names in settings.columns_by_setting.items():
        name_with_commas = getattr(settings, setting)
        if name_with_commas in available:
            names = [name_with_commas]
        columns = columns_by_setting.setdefault(setting, [])
        for name in names:
            column = _find_column(name, available, by_position)
            if column is None:
                raise DataError(
                    file,
                    None,
                    f'no column "{name}"',
                    ("choose ", Setting(setting), f" among {listed_columns(available)}"),
                )
            columns.append(column)
    _check_named_once(file, columns_by_setting)
    return columns_by_setting


def _check_named_once(file: str, columns_by_setting: Mapping[str, Sequence[str]]) -> None:
    """Raise `DataError` for a column that is named twice, as text and label say."""
    setting_of: dict[str, str] = {}
    for setting, columns in columns_by_setting.items():
        for column in columns:
            first = setting_of.setdefault(column, setting)
            if first != setting:
                settings: Text = ("by ", Setting(first), " and by ", Setting(setting))
                problem = (f'column "{column}" is named ', settings)
                raise DataError(file, None, problem, "give each column one role")


def _find_column(name: str, available: Mapping[str, None], by_position: list[str]) -> str | None:
    """The column of that name or, if there is none, at that position; None if neither exists."""
    if name in available:
        return name
    if is_position(name):
        position = int(name[:10])
        if 1 <= position <= len(by_position):
            return by_position[position - 1]
    return None
