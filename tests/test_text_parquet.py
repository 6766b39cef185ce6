"""Text in Parquet: columns of texts and lists, in little memory, and files that are damaged."""

import io
import sys
from types import SimpleNamespace

import pyarrow
import pytest
from pyarrow import parquet

import embedx.text.parquet
from embedx.errors import DataError
from tests.support.refusals import refused, refused_data
from tests.support.text_records import DOCUMENTS, READ, parquet_of, reader_of_sentences


@pytest.fixture
def sentences(tmp_path):
    return reader_of_sentences(tmp_path)


def test_a_column_of_parquet_is_text_or_lists(sentences):
    data = parquet_of(
        text=[document["text"] for document in DOCUMENTS],
        ids=[[1, 2], [], [], [3]],
        names=[["a b", "c"]] * 4,
    )
    assert sentences("a.parquet", data, column="text") == READ
    assert sentences("a", data, column="ids") == [["1", "2"], ["3"]]
    assert sentences("a.parquet", data, column="names", tokenizer="none") == [["a b", "c"]] * 4


def test_parquet_without_pyarrow_names_the_extra(sentences, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with refused_data("a.parquet", quoting='pip install "embedx[parquet]"'):
        sentences("a.parquet", parquet_of(text=["a"]), column="text")


def test_a_nested_column_of_parquet_is_named_by_its_path(sentences):
    data = parquet_of(a=[{"b": "x y", "c": {"d": 1}}, {"b": "z", "c": None}])
    assert sentences("a.parquet", data, column="a.b") == [["x", "y"], ["z"]]
    assert sentences(
        "b.parquet", parquet_of(**{"a": [{"b": "no"}], "a.b": ["yes"]}), column="a.b"
    ) == [["yes"]]
    with refused_data("a.parquet", "column", quoting=("a.x", "a.b, a.c.d")):
        sentences("a.parquet", data, column="a.x")
    with refused_data("a.parquet:1", quoting="a.c.d is 1,"):
        sentences("a.parquet", data, column="a.c.d")
    with refused_data("c.parquet:2", quoting="a.b is null,"):
        sentences("c.parquet", parquet_of(a=[{"b": "x"}, None]), column="a.b")


@pytest.fixture
def small_limits(monkeypatch):
    monkeypatch.setattr(embedx.text.parquet, "MAX_RECORD_BYTES", 1000)
    monkeypatch.setattr(embedx.text.parquet, "MAX_BATCH_BYTES", 4000)


def rows_of_batches(data):
    """The numbers of rows that are read at a time from a Parquet file of one column."""
    stored = io.BytesIO(data)
    table = parquet.ParquetFile(stored)
    return [batch.num_rows for batch in embedx.text.parquet.batches(table, stored, "a", None)]


def stored_once(texts):
    """A Parquet file of these texts, with each that is repeated in its dictionary."""
    out = io.BytesIO()
    parquet.write_table(pyarrow.table({"text": texts}), out, use_dictionary=True)
    return out.getvalue()


@pytest.mark.parametrize("wrap", [lambda text: text, lambda text: [text], lambda text: {"a": text}])
def test_texts_that_parquet_stores_once_are_read_a_few_at_a_time(sentences, small_limits, wrap):
    data = stored_once([wrap("w " * 450)] * 50)
    assert max(rows_of_batches(data)) == 4
    column = "text.a" if wrap("") == {"a": ""} else "text"
    assert sentences("a.parquet", data, column=column) == [["w"] * 450] * 50


def test_long_texts_of_parquet_are_read_a_few_at_a_time(small_limits):
    data = stored_once([f"{number}" * 450 for number in range(10, 60)])
    assert max(rows_of_batches(data)) == 4


def test_short_texts_of_parquet_are_read_many_at_a_time(small_limits):
    assert rows_of_batches(stored_once(["a b", "c"] * 200)) == [400]


@pytest.mark.parametrize("row", ["w " * 600, ["w"] * 300, ["w" * 400] * 3, [None] * 300])
def test_a_long_row_of_parquet_is_an_error(small_limits, row):
    short = row[:1] if isinstance(row, list) else "w"
    data = stored_once([short, short, row])
    with pytest.raises(DataError) as error:
        list(
            embedx.text.parquet.parquet_records(
                SimpleNamespace(file=io.BytesIO(data)), "a", lambda _: None
            )
        )
    assert (error.value.file, error.value.line) == ("a", 3)


def test_lists_of_repeated_texts_are_not_decoded_before_they_are_measured(
    small_limits, monkeypatch
):
    monkeypatch.setattr(embedx.text.parquet, "MAX_DECODED_BYTES", 1000)
    stored = io.BytesIO(stored_once([["w" * 400] * 3] * 2))
    table = parquet.ParquetFile(stored)
    first = next(embedx.text.parquet.batches(table, stored, "a", None))
    assert pyarrow.types.is_dictionary(first.column(0).type.value_type)
    assert embedx.text.parquet.decoded_bytes(first.to_struct_array()) > 1200


@pytest.mark.parametrize("texts", [["w" * 3000], [["w"] * 500]])
def test_what_parquet_declares_is_compared_with_the_memory(monkeypatch, texts):
    monkeypatch.setattr("embedx.runtime.memory.available_memory", lambda: 2000)
    with pytest.raises(DataError) as error:
        rows_of_batches(stored_once(texts))
    assert error.value.file == "a"


def test_a_parquet_file_that_comes_as_a_stream_is_an_error():
    with refused(kind=DataError, file="x", line=None):
        next(
            embedx.text.parquet.parquet_values(
                SimpleNamespace(file=SimpleNamespace(seekable=lambda: False)), "x", "a"
            )
        )


def test_a_column_whose_names_in_a_footer_differ_is_damage(sentences):
    data = parquet_of(ids=[["x", "y"]])
    place = data.rindex(b"list", 0, data.rindex(b"ARROW:schema"))
    with refused_data("a.parquet"):
        sentences("a.parquet", data[:place] + b"l\x7fst" + data[place + 4 :], column="ids")


def test_statistics_of_parquet_that_contradict_its_schema_are_damage(sentences):
    data = parquet_of(text=["a", "b"])
    optional_text = b"\x15\x0c\x25\x02"  # type and repetition, in Thrift's compact encoding
    required_text = b"\x15\x0c\x25\x00"
    assert data.count(optional_text) == 1
    with pytest.raises(DataError) as error:
        sentences("a.parquet", data.replace(optional_text, required_text), column="text")
    assert error.value.file.endswith("a.parquet")
