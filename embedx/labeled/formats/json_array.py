"""JSON: an array of objects, or objects that are spread over lines; their fields are columns."""

from embedx.labeled.data import FileRows
from embedx.labeled.files import LabelledFile, LabelledFiles
from embedx.labeled.formats.contract import Format
from embedx.labeled.options import ReadOptions
from embedx.labeled.tables.objects import object_rows
from embedx.labeled.tables.rows import OpenTable, checked_chunks, read_table
from embedx.text.json_records import begins_spread, spread_records


def recognises(file: LabelledFile, options: ReadOptions) -> bool:
    """Whether the text begins with an array of objects, or a line that is a brace alone."""
    return begins_spread(file.lines.head)


def read(files: LabelledFiles, options: ReadOptions) -> FileRows:
    """The rows of the files."""
    return read_table(files, options, lambda file: _opened(file, options))


def _opened(file: LabelledFile, options: ReadOptions) -> OpenTable:
    records = spread_records(checked_chunks(file.lines), file.name)
    return OpenTable(object_rows(file, records, options))


JSON_ARRAY = Format(
    name="JSON",
    looks_like='an array of such objects, `[{"text": "They said no", "label": "billing"}, ...]`, as'
    ' `to_json(orient="records")` of pandas writes it, on one line or on many',
    features="columns",
    recognises=recognises,
    read=read,
    example_name="data.json",
)
