"""Tables of labelled rows, as CSV and Parquet."""

import csv
import io

import pyarrow
from pyarrow import parquet


def table(rows, delimiter=",", separator=";"):
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter)
    writer.writerow(rows[0])
    writer.writerows(
        [separator.join(cell) if isinstance(cell, list) else cell for cell in row.values()]
        for row in rows
    )
    return out.getvalue()


def parquet_of(rows):
    out = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist(rows), out)
    return out.getvalue()
