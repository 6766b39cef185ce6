"""CSV and TSV: rows of cells between commas, semicolons, tabs or bars."""

from embedx.labeled.data import Columns, FileRows
from embedx.labeled.files import LabelledFile, LabelledFiles
from embedx.labeled.formats.contract import Format
from embedx.labeled.options import ReadOptions
from embedx.labeled.tables.heading import Heading
from embedx.labeled.tables.names import LABEL_NAMES, TEXT_NAMES, TITLE_NAMES
from embedx.labeled.tables.rows import OpenTable, Records, checked_lines, read_table, without_bad
from embedx.text.labelled_starts import begins_labelled
from embedx.text.sources import reader_of
from embedx.text.tables import delimiter_of, table_rows


def recognises(file: LabelledFile, options: ReadOptions) -> bool:
    """Whether the file is called so, columns are named, or the first row is a heading that fits."""
    if begins_labelled(file.lines.head):
        return False
    if reader_of(file.name) == "table" or options.table.names or options.table.header:
        return True

    schema = options.schema
    fields = fields_of_line(file.lines.first_line)
    if schema and schema.columns and has_features_of(fields, schema.columns):
        return True
    lines_are_text = schema is not None and schema.text is not None
    return not lines_are_text and has_labels_and_text(fields)


def fields_of_line(line: str) -> list[str]:
    """The fields of the first line of a table, without quotes and blanks around them."""
    delimiter = delimiter_of(line, ())
    return [field.strip() for field in line.replace('"', "").split(delimiter)]


def has_features_of(fields: list[str], training_columns: Columns) -> bool:
    """Whether the fields have the features of the training data, by name or by position."""
    if not training_columns.text:
        return True
    positions = map(str, range(1, len(fields) + 1))
    return {*training_columns.text, *training_columns.numbers} <= {*fields, *positions}


def has_labels_and_text(fields: list[str]) -> bool:
    """Whether a heading has the usual names of a label column and of a text column."""
    names = {field.lower() for field in fields}
    return bool(names & LABEL_NAMES) and bool(names & (TITLE_NAMES | TEXT_NAMES))


def read(files: LabelledFiles, options: ReadOptions) -> FileRows:
    """The rows of the files."""
    return read_table(files, options, lambda file: _opened(file, options))


def _opened(file: LabelledFile, options: ReadOptions) -> OpenTable:
    training_columns = options.schema.columns if options.schema else None
    heading = Heading(file.name, options.table, training_columns, file.progress)
    return OpenTable(_records(file, heading, options), heading)


def _records(file: LabelledFile, heading: Heading, options: ReadOptions) -> Records:
    """The rows by the names of their columns."""
    names: list[str] = []
    rows = table_rows(checked_lines(file.lines), file.name, heading.names)
    for number, row in without_bad(file, rows, options):
        if not names:
            names = heading.names_of(row, number)
            if heading.is_there:
                continue
        yield number, dict(zip(names, row, strict=True))


DELIMITED = Format(
    name="CSV, TSV",
    looks_like='a heading `id,title,text,label`, then `T1,Refund,"They said, no",billing`; also'
    " separated by `;`, tabs or bars",
    features="columns",
    recognises=recognises,
    read=read,
    example_name="data.csv",
)
