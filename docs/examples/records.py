"""Records: a block of lines `column: value` for each row, with an empty line between two.

text: they never called back
label: complaint

text: quick and friendly
label: praise
"""

from collections.abc import Iterable, Iterator

from embedx.labeled.data import FileRows
from embedx.labeled.files import LabelledFile, LabelledFiles
from embedx.labeled.formats.contract import Format
from embedx.labeled.options import ReadOptions
from embedx.labeled.tables.rows import OpenTable, checked_lines, read_table


def recognises(file: LabelledFile, options: ReadOptions) -> bool:
    return file.name.endswith(".records")


def read(files: LabelledFiles, options: ReadOptions) -> FileRows:
    return read_table(files, options, lambda file: OpenTable(records(checked_lines(file.lines))))


def records(lines: Iterable[bytes]) -> Iterator[tuple[int, dict[str, str]]]:
    """The number of the last line of each record, and its values by column."""
    record: dict[str, str] = {}
    number = 0
    for number, line in enumerate(lines, 1):
        column, colon, value = line.decode("utf-8").partition(":")
        if colon:
            record[column.strip()] = value.strip()
        elif record:
            yield number, record
            record = {}
    if record:
        yield number, record


RECORDS = Format(
    name="records",
    looks_like="lines `column: value`, with an empty line between two rows",
    features="columns",
    recognises=recognises,
    read=read,
    example_name="data.records",
)
