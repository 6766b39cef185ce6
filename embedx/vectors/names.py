"""A table of names: what the items of a model are called, for people."""

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from embedx.errors import DataError, counted
from embedx.text.decompression import lines_of_file
from embedx.text.file_kinds import TO_UTF8
from embedx.text.session_items import BLANK_IN_ITEM
from embedx.text.tables import DELIMITERS
from embedx.vectors.model import WordVectors

LINE = "item TAB name"
NO_NAMES: Mapping[str, str] = {}


def read_names(file: str | Path) -> dict[str, str]:
    """The name of each item in a table of two columns, separated by tabs, or as in CSV.

    Raises DataError with the line of a row that has not two columns, of an item without a name, and
    of an item with two different names.
    """
    names: dict[str, str] = {}
    for number, row in _rows(str(file)):
        if len(row) != 2:
            problem = counted(len(row), "column")
            raise DataError(file, number, problem, f"write lines such as `{LINE}`")
        item, name = map(str.strip, row)
        if not item or not name:
            raise DataError(file, number, "an empty cell", f"write lines such as `{LINE}`")
        if names.setdefault(item, name) != name:
            problem = f"{item} has two names, {names[item]} and {name}"
            raise DataError(file, number, problem, "delete one of the lines")
    if not names:
        raise DataError(file, None, "holds no names", f"write lines such as `{LINE}`")
    return names


def names_of(vectors: WordVectors, file: str | Path | None) -> dict[str, str]:
    """The names of the items of a model; none without a file. Raises DataError where the table
    names no item of the model.
    """
    if file is None:
        return {}
    names = {vectors.spelled(item): name for item, name in read_names(file).items()}
    if not any(item in vectors.key_to_index for item in names):
        item = next(iter(names))
        problem = f"names no {vectors.noun} of the model; the first is {item}"
        raise DataError(file, None, problem, f"write lines such as `{LINE}`")
    return names


def shown_name(vectors: WordVectors, word: str, names: Mapping[str, str] = NO_NAMES) -> str:
    """A word or node as it is, or an item with blanks between its words; with its name in
    parentheses, if it has one.
    """
    shown = word
    if vectors.noun == "item":
        shown = word.replace(BLANK_IN_ITEM, " ")
    if word in names:
        return f"{shown} ({names[word]})"
    return shown


def _rows(file: str) -> list[tuple[int, list[str]]]:
    """The rows that are not blank, with the numbers of their lines: between the delimiter that
    gives most of them two columns, a tab if several do.
    """
    lines = list(_text_lines(file))
    tables = [_rows_between_tabs(lines)]
    tables += [_rows_of_csv(lines, mark) for mark in DELIMITERS if mark != "\t"]
    return max(tables, key=lambda rows: sum(len(row) == 2 for _, row in rows))


def _rows_between_tabs(lines: Sequence[str]) -> list[tuple[int, list[str]]]:
    return [(number, line.split("\t")) for number, line in enumerate(lines, 1) if line.strip()]


def _rows_of_csv(lines: Sequence[str], delimiter: str) -> list[tuple[int, list[str]]]:
    """The rows of CSV; none where the lines are no CSV, as with a quote that does not close."""
    reader = csv.reader(lines, delimiter=delimiter)
    try:
        return [(reader.line_num, row) for row in reader if row]
    except csv.Error:
        return []


def _text_lines(file: str) -> Iterable[str]:
    """The lines of a file, decoded, without the ends of lines."""
    for number, line in enumerate(lines_of_file(file), 1):
        try:
            text = line.decode()
        except UnicodeDecodeError:
            raise DataError(file, number, "not UTF-8", TO_UTF8) from None
        yield text.rstrip("\r\n")
