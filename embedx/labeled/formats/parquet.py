"""Parquet: columns of text, numbers and lists."""

from embedx.labeled.data import Columns, FileRows
from embedx.labeled.files import LabelledFile, LabelledFiles, content_of
from embedx.labeled.formats.contract import Format
from embedx.labeled.options import ReadOptions
from embedx.labeled.tables.rows import OpenTable, Records, read_table
from embedx.text.decompression import damage_explained
from embedx.text.opening import CountedReader, open_source
from embedx.text.parquet import parquet_records
from embedx.text.tables import PARQUET_START


def recognises(file: LabelledFile, options: ReadOptions) -> bool:
    """Whether the file begins like one of Parquet."""
    return file.head.startswith(PARQUET_START)


def read(files: LabelledFiles, options: ReadOptions) -> FileRows:
    """The rows of the files, of which only the columns that are used are read."""
    return read_table(files, options, _opened)


def _opened(file: LabelledFile) -> OpenTable:
    content = _content(file)
    return OpenTable(
        _records(file, content, None),
        reread=lambda columns: _records(file, content, columns),
    )


def _content(file: LabelledFile) -> CountedReader:
    """The file on disk or, where it is packed or remote, its unpacked content."""
    if file.is_plain:
        return open_source(file.source)
    return CountedReader(content_of(file.source))


def _records(file: LabelledFile, content: CountedReader, columns: Columns | None) -> Records:
    """The rows, with these columns or all."""
    names = None if columns is None else columns.names
    with damage_explained(file.source):
        yield from parquet_records(content, file.name, lambda _: names)


PARQUET = Format(
    name="Parquet",
    looks_like='columns of text, numbers and lists, with `pip install "embedx[parquet]"`',
    features="columns",
    recognises=recognises,
    read=read,
    is_binary=True,
    example_name="data.parquet",
)
