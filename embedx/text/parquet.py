"""Rows of Parquet files, in memory that does not depend on how well they were compressed.

A few bytes of Parquet may stand for very much: an entry of a dictionary for the texts of all rows,
a run of one index for a list of any length. What a row group declares is compared with the memory
before it is read, batches have few rows where a dictionary has long entries, and a row of more than
MAX_RECORD_BYTES is an error before Python holds it.
"""

import contextlib
import io
from collections.abc import Callable, Iterator
from typing import Any

from embedx.errors import DataError, Setting
from embedx.runtime.memory import available_memory, check_declared
from embedx.settings import Record
from embedx.text.tables import (
    BLOCK_BYTES,
    MAX_RECORD_BYTES,
    TABLE,
    NotTextError,
    no_column_chosen,
    value_of,
)

MAX_ROWS = 512  # in a batch
MAX_BATCH_BYTES = 1 << 26
MAX_PAGE_BYTES = 1 << 31
# a value in a list, with its repetition and definition levels, as pyarrow reads it
BYTES_PER_VALUE = 20
# a value beside its bytes, at least, as Python holds it
BYTES_PER_OBJECT = 4
# row groups below this part of the available memory may be read many rows at a time
SMALL_PART = 0.25
# lists of texts that take more as pyarrow decodes them are read with their dictionary
MAX_DECODED_BYTES = 1 << 30
DICTIONARIES = {"PLAIN_DICTIONARY", "RLE_DICTIONARY"}
SHARED_BEGINNINGS = "DELTA_BYTE_ARRAY"  # each value is a part of the last one, and an end
# larger than any offset in a footer
SIZE_WITHOUT_PAGES = 1 << 62


def parquet_values(file: Any, name: str, column: str | None) -> Iterator[tuple[int, Any]]:
    """A column of a Parquet file."""

    def chosen(columns: list[str]) -> list[str]:
        if column is None:
            raise no_column_chosen(name, "a Parquet file", columns)
        if not any(f"{each}.".startswith(f"{column}.") for each in columns):
            remedy = ("choose ", Setting("column"), f" among {', '.join(columns)}")
            raise DataError(name, None, f"no column {column}", remedy)
        return [column]

    for number, record in parquet_records(file, name, chosen, is_text=column is None):
        yield number, value_of(record, str(column), None)


def parquet_records(
    file: Any, name: str, choose: Callable[[list[str]], list[str] | None], is_text: bool = False
) -> Iterator[tuple[int, Record]]:
    """The rows of a Parquet file; `file`, a `CountedReader`, counts as read what its rows are of
    all.

    choose  given all columns, those that are read; None: all
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        problem = "reading Parquet needs pyarrow"
        remedy = 'pip install "embedx[parquet]"'
        if is_text:
            raise NotTextError(name, problem, remedy, TABLE) from error
        raise DataError(name, None, problem, remedy) from error
    stored = file.file
    if not stored.seekable():
        remedy = "save it to a file first"
        raise DataError(name, None, "Parquet needs random access", remedy)
    size = stored.seek(0, io.SEEK_END)
    stored.seek(0)
    try:
        table = pyarrow.parquet.ParquetFile(stored, buffer_size=BLOCK_BYTES, pre_buffer=False)
        chosen = choose(
            [table.schema.column(i).path.partition(".list.")[0] for i in range(len(table.schema))]
        )
        done = 0
        for batch in batches(table, stored, name, chosen):
            yield from _rows(batch, name, done + 1)
            done += batch.num_rows
            file.count = size * done // table.metadata.num_rows
    # pyarrow looks columns up by the names that the footer has of them.
    except (pyarrow.ArrowException, ValueError, OverflowError, KeyError) as error:
        raise OSError(str(error)) from error
    file.count = size


def batches(table: Any, stored: Any, name: str, columns: list[str] | None) -> Iterator[Any]:
    """The rows of an opened Parquet file in record batches of bounded size. Raises `DataError` for
    a row group that does not fit into memory.

    stored   the file that was opened, by its path or as a stream
    columns  None: all
    """
    from pyarrow import parquet

    for group in range(table.num_row_groups):
        chunks = _chunks(table, group, columns)
        check_group(name, chunks)
        dictionaries = _longest_entries(table, stored, group, chunks)
        unbounded = [
            chunk.path_in_schema
            for chunk, is_list in chunks
            if is_list
            and chunk.num_values * dictionaries.get(chunk.path_in_schema, 0) > MAX_DECODED_BYTES
        ]
        opened = table
        if unbounded:
            opened = parquet.ParquetFile(
                stored,
                metadata=table.metadata,
                read_dictionary=unbounded,
                buffer_size=BLOCK_BYTES,
                pre_buffer=False,
            )
        yield from opened.iter_batches(
            _rows_at_a_time(chunks, dictionaries, table.metadata.row_group(group).num_rows),
            row_groups=[group],
            columns=columns,
            use_threads=False,
        )


def _chunks(table: Any, group: int, columns: list[str] | None) -> list[tuple[Any, bool]]:
    """The column chunks of a row group that hold these columns, each with whether its values are in
    lists.
    """
    from pyarrow import parquet

    without_pages = parquet.ParquetFile(_NoPages(), metadata=table.metadata, pre_buffer=False)
    row_group = table.metadata.row_group(group)
    chunks = []
    for i in range(row_group.num_columns):
        path = table.schema.column(i).path
        if columns is None or any(f"{path}.".startswith(f"{column}.") for column in columns):
            _check_statistics(without_pages, group, path)
            is_list = table.schema.column(i).max_repetition_level > 0
            chunks.append((row_group.column(i), is_list))
    return chunks


def _check_statistics(without_pages: Any, group: int, path: str) -> None:
    """Raise `OSError` if a footer's statistics of a column chunk contradict its schema.

    Where pyarrow looks at the chunk for Python, these end the process. They are an error where it
    looks at one to read its pages, so that this is done first, with no pages to read.
    """
    with contextlib.suppress(_PagesReachedError):
        next(without_pages.iter_batches(1, [group], columns=[path], use_threads=False), None)


class _PagesReachedError(Exception):
    """A footer was understood as far as the pages of a column."""


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


def check_group(name: str, chunks: list[tuple[Any, bool]]) -> None:
    """Raise `DataError` where the lists of a row group, any of which may be its longest row, or a
    page of it need more memory than is available.
    """
    for chunk, is_list in chunks:
        what = f"{chunk.total_uncompressed_size:,} bytes in a column"
        need = min(chunk.total_uncompressed_size, MAX_PAGE_BYTES)
        if is_list:
            what = f"{chunk.num_values:,} values in lists"
            need += BYTES_PER_VALUE * chunk.num_values
        check_declared(name, need, what, "write smaller row groups")


def _longest_entries(
    table: Any, stored: Any, group: int, chunks: list[tuple[Any, bool]]
) -> dict[str, int]:
    """The length of the longest entry of each dictionary of texts in a row group, by its path."""
    from pyarrow import parquet

    encoded = [
        chunk.path_in_schema
        for chunk, _ in chunks
        if chunk.physical_type == "BYTE_ARRAY" and DICTIONARIES & {*chunk.encodings}
    ]
    longest: dict[str, int] = {}
    for path in encoded:
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
    return _longest_entry(array.values) if types.is_nested(array.type) else 0


def _rows_at_a_time(
    chunks: list[tuple[Any, bool]], dictionaries: dict[str, int], n_rows: int
) -> int:
    """How many rows of a row group take at most about MAX_BATCH_BYTES, at least 1."""
    n_bytes = sum(chunk.total_uncompressed_size for chunk, _ in chunks)
    if n_bytes > SMALL_PART * available_memory():
        return 1
    longest = max([n_bytes // max(n_rows, 1), *dictionaries.values()])
    for chunk, _ in chunks:
        if SHARED_BEGINNINGS in chunk.encodings:
            longest = max(longest, chunk.total_uncompressed_size)
    return max(1, min(MAX_ROWS, MAX_BATCH_BYTES // max(longest, 1)))


def _rows(batch: Any, name: str, first: int) -> Iterator[tuple[int, Record]]:
    """The rows of a batch, numbered from `first`. Raises `DataError` for a row of more than
    MAX_RECORD_BYTES.
    """
    if decoded_bytes(batch.to_struct_array()) <= MAX_RECORD_BYTES:
        yield from enumerate(batch.to_pylist(), first)
        return
    if batch.num_rows == 1:
        raise DataError(
            name, first, f"a row of more than {MAX_RECORD_BYTES:,} bytes", "is it the right column?"
        )
    half = batch.num_rows // 2
    yield from _rows(batch.slice(0, half), name, first)
    yield from _rows(batch.slice(half), name, first + half)


def decoded_bytes(array: Any) -> int:
    """About the bytes of the array's values as Python objects, with each use of an entry of a
    dictionary.
    """
    from pyarrow import compute, types

    n_bytes: int = BYTES_PER_OBJECT * len(array)
    if types.is_dictionary(array.type):
        if types.is_primitive(array.type.value_type):
            return n_bytes
        lengths = compute.binary_length(array.dictionary).take(array.indices)
        return n_bytes + (compute.sum(compute.cast(lengths, "int64")).as_py() or 0)
    if types.is_map(array.type):
        start, end = array.offsets[0].as_py(), array.offsets[-1].as_py()
        parts = [array.keys.slice(start, end - start), array.items.slice(start, end - start)]
        return n_bytes + sum(map(decoded_bytes, parts))
    if types.is_struct(array.type):
        return n_bytes + sum(map(decoded_bytes, array.flatten()))
    if types.is_nested(array.type):
        return n_bytes + decoded_bytes(array.flatten())
    return n_bytes + int(array.nbytes)
