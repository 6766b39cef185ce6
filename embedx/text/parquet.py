"""Reads rows of Parquet files in bounded memory, however well they were compressed.

A few bytes of Parquet may unpack to any size: one dictionary entry may be the text of all rows, one
run of an index a list of any length. So the sizes that a row group declares are compared with the
free memory before it is read, batches have few rows if a dictionary has long entries, and a row of
more than MAX_RECORD_BYTES raises an error before it becomes a Python object.
"""

import contextlib
import io
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from embedx.errors import DataError, Setting
from embedx.runtime.memory import available_memory, check_declared
from embedx.settings import Record
from embedx.text.tables import (
    BLOCK_BYTES,
    MAX_RECORD_BYTES,
    TABLE,
    NotTextError,
    listed_columns,
    no_column_chosen,
    value_of,
)

MAX_BATCH_ROWS = 512
MAX_BATCH_BYTES = 1 << 26
MAX_PAGE_BYTES = 1 << 31
# Bytes of a list value, with its repetition and definition levels, in pyarrow.
BYTES_PER_LIST_VALUE = 20
# Minimum overhead of a Python object in bytes, in addition to its content.
BYTES_PER_OBJECT = 4
# Row groups below this share of the available memory are read many rows at a time.
SMALL_GROUP_SHARE = 0.25
# Lists of texts that need more bytes decoded are read as indices into their dictionary.
MAX_DECODED_BYTES = 1 << 30
DICTIONARY_ENCODINGS = {"PLAIN_DICTIONARY", "RLE_DICTIONARY"}
# Encoding in which each value is a prefix of the previous value plus a suffix.
PREFIX_ENCODING = "DELTA_BYTE_ARRAY"
# Larger than any offset in a footer.
SIZE_WITHOUT_PAGES = 1 << 62


class Chunk(NamedTuple):
    """A column of a row group."""

    metadata: Any
    is_list: bool

    @property
    def path(self) -> str:
        """Its name, preceded by those of the columns that contain it."""
        return str(self.metadata.path_in_schema)


def parquet_values(file: Any, name: str, column: str | None) -> Iterator[tuple[int, Any]]:
    """Yield the values of a column of a Parquet file, with their row numbers."""

    def choose(columns: list[str]) -> list[str]:
        """The given column, if the file has it."""
        if column is None:
            raise no_column_chosen(name, "a Parquet file", columns)
        if not any(_is_within(path, column) for path in columns):
            remedy = ("choose ", Setting("column"), f" among {listed_columns(columns)}")
            raise DataError(name, None, f"no column {column}", remedy)
        return [column]

    for number, record in parquet_records(file, name, choose, is_text=column is None):
        yield number, value_of(record, str(column), None)


def _is_within(path: str, column: str) -> bool:
    """Whether the path of a column equals another path, or is nested in it."""
    return f"{path}.".startswith(f"{column}.")


def parquet_records(
    file: Any,
    name: str,
    choose: Callable[[list[str]], list[str] | None] | None = None,
    is_text: bool = False,
) -> Iterator[tuple[int, Record]]:
    """The rows of a Parquet file, each with its number, from 1.

    file    a `CountedReader`, whose count of bytes follows the share of rows read
    choose  selects the columns to read among all; None: all are read
    """
    _check_pyarrow(name, is_text)
    import pyarrow
    import pyarrow.parquet

    stored = file.file
    if not stored.seekable():
        remedy = "save it to a file first"
        raise DataError(name, None, "Parquet needs random access", remedy)
    size = stored.seek(0, io.SEEK_END)
    stored.seek(0)
    try:
        table = pyarrow.parquet.ParquetFile(stored, buffer_size=BLOCK_BYTES, pre_buffer=False)
        columns = None
        if choose is not None:
            schema = table.schema
            paths = [schema.column(i).path for i in range(len(schema))]
            columns = choose([path.partition(".list.")[0] for path in paths])
        n_read = 0
        for batch in batches(table, stored, name, columns):
            yield from _rows(batch, name, n_read + 1)
            n_read += batch.num_rows
            file.count = size * n_read // table.metadata.num_rows
    # KeyError: pyarrow looks columns up by their names in the footer
    except (pyarrow.ArrowException, ValueError, OverflowError, KeyError) as error:
        raise OSError(str(error)) from error
    file.count = size


def _check_pyarrow(name: str, is_text: bool) -> None:
    """Raise `DataError` if pyarrow is not installed, or `NotTextError` if the file was to be read
    as text.
    """
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        problem = "reading Parquet needs pyarrow"
        remedy = 'pip install "embedx[parquet]"'
        if is_text:
            raise NotTextError(name, problem, remedy, TABLE) from error
        raise DataError(name, None, problem, remedy) from error


def batches(table: Any, stored: Any, name: str, columns: list[str] | None) -> Iterator[Any]:
    """Yield the rows of an open Parquet file in record batches of bounded size. Raises `DataError`
    for a row group that does not fit into memory.

    stored   the same file, as a path or a stream
    columns  None: all
    """
    from pyarrow import parquet

    for group in range(table.num_row_groups):
        chunks = _chunks(table, group, columns)
        check_group(name, chunks)
        longest_entries = _longest_entries(table, stored, group, chunks)
        as_indices = []
        for chunk in chunks:
            max_bytes = chunk.metadata.num_values * longest_entries.get(chunk.path, 0)
            if chunk.is_list and max_bytes > MAX_DECODED_BYTES:
                as_indices.append(chunk.path)
        opened = table
        if as_indices:
            opened = parquet.ParquetFile(
                stored,
                metadata=table.metadata,
                read_dictionary=as_indices,
                buffer_size=BLOCK_BYTES,
                pre_buffer=False,
            )
        n_rows = table.metadata.row_group(group).num_rows
        yield from opened.iter_batches(
            _rows_at_a_time(chunks, longest_entries, n_rows),
            row_groups=[group],
            columns=columns,
            use_threads=False,
        )


def _chunks(table: Any, group: int, columns: list[str] | None) -> list[Chunk]:
    """The column chunks of a row group for these columns."""
    from pyarrow import parquet

    without_pages = parquet.ParquetFile(_NoPages(), metadata=table.metadata, pre_buffer=False)
    row_group = table.metadata.row_group(group)
    chunks = []
    for i in range(row_group.num_columns):
        column = table.schema.column(i)
        if columns is None or any(_is_within(column.path, chosen) for chosen in columns):
            _check_statistics(without_pages, group, column.path)
            chunks.append(Chunk(row_group.column(i), column.max_repetition_level > 0))
    return chunks


def _check_statistics(without_pages: Any, group: int, path: str) -> None:
    """Raise the error of pyarrow if the statistics of a column in the footer contradict its schema.

    Pyarrow checks them before it reads pages, which are missing here; elsewhere such statistics
    would crash the process.
    """
    with contextlib.suppress(_PagesReachedError):
        next(without_pages.iter_batches(1, [group], columns=[path], use_threads=False), None)


class _PagesReachedError(Exception):
    """The footer is valid: pyarrow has begun to read the pages of a column."""


class _NoPages(io.RawIOBase):
    """A file of any size whose pages cannot be read."""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        return SIZE_WITHOUT_PAGES

    def tell(self) -> int:
        return SIZE_WITHOUT_PAGES

    def read(self, size: int = -1, /) -> bytes:
        raise _PagesReachedError


def check_group(name: str, chunks: list[Chunk]) -> None:
    """Raise `DataError` if a page of a row group, or its lists, which may all belong to one row,
    need more memory than is available.
    """
    for chunk in chunks:
        n_bytes = chunk.metadata.total_uncompressed_size
        content = f"{n_bytes:,} bytes in a column"
        need = min(n_bytes, MAX_PAGE_BYTES)
        if chunk.is_list:
            content = f"{chunk.metadata.num_values:,} values in lists"
            need += BYTES_PER_LIST_VALUE * chunk.metadata.num_values
        check_declared(name, need, content, "write smaller row groups")


def _longest_entries(table: Any, stored: Any, group: int, chunks: list[Chunk]) -> dict[str, int]:
    """The length of the longest entry of each dictionary of texts in a row group, by its path."""
    from pyarrow import parquet

    longest: dict[str, int] = {}
    for chunk in chunks:
        has_dictionary = not DICTIONARY_ENCODINGS.isdisjoint(chunk.metadata.encodings)
        if chunk.metadata.physical_type != "BYTE_ARRAY" or not has_dictionary:
            continue
        path = chunk.path
        opened = parquet.ParquetFile(
            stored, metadata=table.metadata, read_dictionary=[path], pre_buffer=False
        )
        first = next(opened.iter_batches(1, [group], columns=[path], use_threads=False), None)
        if first is not None:
            longest[path] = _longest_entry(first.column(0))
    return longest


def _longest_entry(array: Any) -> int:
    """The length of the longest text in the dictionary within an array, however nested."""
    from pyarrow import compute, types

    if types.is_dictionary(array.type):
        return compute.max(compute.binary_length(array.dictionary)).as_py() or 0
    if types.is_struct(array.type):
        return max(_longest_entry(child) for child in array.flatten())
    if types.is_map(array.type):
        return max(_longest_entry(array.keys), _longest_entry(array.items))
    if types.is_nested(array.type):
        return _longest_entry(array.values)
    return 0


def _rows_at_a_time(chunks: list[Chunk], longest_entries: dict[str, int], n_rows: int) -> int:
    """The number of rows of a row group that take at most about MAX_BATCH_BYTES, at least 1."""
    n_bytes = sum(chunk.metadata.total_uncompressed_size for chunk in chunks)
    if n_bytes > SMALL_GROUP_SHARE * available_memory():
        return 1
    row_bytes = max([1, n_bytes // max(n_rows, 1), *longest_entries.values()])
    for chunk in chunks:
        if PREFIX_ENCODING in chunk.metadata.encodings:
            row_bytes = max(row_bytes, chunk.metadata.total_uncompressed_size)
    return max(1, min(MAX_BATCH_ROWS, MAX_BATCH_BYTES // row_bytes))


def _rows(batch: Any, name: str, first: int) -> Iterator[tuple[int, Record]]:
    """The rows of a batch, numbered from `first`. Raises `DataError` for a row of more than
    MAX_RECORD_BYTES.
    """
    if decoded_bytes(batch.to_struct_array()) <= MAX_RECORD_BYTES:
        yield from enumerate(batch.to_pylist(), first)
        return
    if batch.num_rows == 1:
        raise DataError(
            name,
            first,
            f"a row of more than {MAX_RECORD_BYTES:,} bytes",
            "check that it is the right column",
        )
    half = batch.num_rows // 2
    yield from _rows(batch.slice(0, half), name, first)
    yield from _rows(batch.slice(half), name, first + half)


def decoded_bytes(array: Any) -> int:
    """Approximate bytes of an array's values as Python objects; a dictionary entry counts each time
    it is used.
    """
    from pyarrow import compute, types

    n_bytes: int = BYTES_PER_OBJECT * len(array)
    if types.is_dictionary(array.type):
        if types.is_primitive(array.type.value_type):
            return n_bytes
        lengths = compute.binary_length(array.dictionary).take(array.indices)
        return n_bytes + (compute.sum(compute.cast(lengths, "int64")).as_py() or 0)
    if types.is_map(array.type):
        start = array.offsets[0].as_py()
        length = array.offsets[-1].as_py() - start
        keys = array.keys.slice(start, length)
        items = array.items.slice(start, length)
        return n_bytes + decoded_bytes(keys) + decoded_bytes(items)
    if types.is_struct(array.type):
        return n_bytes + sum(map(decoded_bytes, array.flatten()))
    if types.is_nested(array.type):
        return n_bytes + decoded_bytes(array.flatten())
    return n_bytes + int(array.nbytes)
