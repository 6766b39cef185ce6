"""JSON Lines: an object in each line, whose fields are columns."""

import contextlib
import json

from embedx.labeled.data import FileRows
from embedx.labeled.files import LabelledFile, LabelledFiles
from embedx.labeled.formats.contract import Format
from embedx.labeled.options import ReadOptions
from embedx.labeled.tables.objects import object_rows
from embedx.labeled.tables.rows import OpenTable, checked_lines, read_table
from embedx.text.json_records import records_in_lines
from embedx.text.labelled_starts import begins_labelled
from embedx.text.sources import reader_of


def recognises(file: LabelledFile, options: ReadOptions) -> bool:
    """Whether the first line is an object, or the file is called so and does not begin like
    labelled rows.
    """
    if _is_object(file.lines.first_line):
        return True
    return reader_of(file.name) == "json" and not begins_labelled(file.lines.head)


def _is_object(line: str) -> bool:
    with contextlib.suppress(ValueError, RecursionError):
        return isinstance(json.loads(line), dict)
    return False


def read(files: LabelledFiles, options: ReadOptions) -> FileRows:
    """The rows of the files."""
    return read_table(files, options, lambda file: _opened(file, options))


def _opened(file: LabelledFile, options: ReadOptions) -> OpenTable:
    records = records_in_lines(checked_lines(file.lines))
    return OpenTable(object_rows(file, records, options))


JSON_LINES = Format(
    name="JSON Lines",
    looks_like='`{"id": 1, "text": "They said no", "label": ["billing", "urgent"]}`; `a.b` is the'
    " field b of the object a",
    features="columns",
    recognises=recognises,
    read=read,
    has_row_per_line=True,
    example_name="data.jsonl",
)
