"""Formats that corpora come in: JSON and tables, and tokens that are taken as they are."""

import gzip
import json
import zipfile

import pytest

from embedx.errors import InapplicableError
from embedx.text import tables
from embedx.text.encode import encode_sources
from embedx.text.json_records import spread_records
from embedx.text.settings import TextSettings
from embedx.text.sources import Source, check_formats, find_sources
from tests.support.notes import Notes
from tests.support.refusals import refused, refused_data
from tests.support.text_records import DOCUMENTS, READ, parquet_of, reader_of_sentences


@pytest.fixture
def sentences(tmp_path):
    return reader_of_sentences(tmp_path)


def lines(*objects):
    return "".join(json.dumps(record) + "\n" for record in objects)


@pytest.mark.parametrize("name", ["a.jsonl", "a.ndjson", "a.json", "a"])
def test_a_field_of_json_lines_is_text(sentences, name):
    assert sentences(name, lines(*DOCUMENTS), json_field="text") == READ


@pytest.mark.parametrize("indent", [None, 2])
def test_a_field_of_the_objects_of_an_array_is_text(sentences, indent):
    data = json.dumps(DOCUMENTS, indent=indent)
    assert sentences("a.json", data, json_field="text") == READ
    assert sentences("a.json.gz", gzip.compress(data.encode()), json_field="text") == READ
    with refused_data("a.json", "json_field", quoting="text"):
        sentences("a.json", data)


def test_objects_are_parsed_wherever_blocks_of_the_text_end():
    rows = [{"t": 'a "é" \\ \U0001f600', "n": [1.5, {"x": None}]}, {"t": "}]", "n": 12345}, {}]
    for text in (json.dumps(rows), json.dumps(rows, indent=1, ensure_ascii=False)):
        data = text.encode()
        for size in (1, 7, len(data)):
            blocks = [data[k : k + size] for k in range(0, len(data), size)]
            records = [*spread_records(blocks, "a.json")]
            assert [record for _, record in records] == rows
            for place, (line, _) in enumerate(records, 1):
                assert line.record == place
                assert text.split("\n")[line - 1].strip()[:1] in ("{", "[")


@pytest.mark.parametrize("cut", ['"t": "c', '"n', '"n": ['])
@pytest.mark.parametrize("size", [7, 1000])
def test_a_cut_array_is_one_whose_text_ends_within_a_record(size, cut):
    text = json.dumps([{"t": "a b"}, {"t": "c d", "n": [1, 2]}], indent=1)
    data = text[: text.index(cut) + len(cut)].encode()
    blocks = [data[k : k + size] for k in range(0, len(data), size)]
    last_line = data.count(b"\n") + 1
    with refused_data(f"a.json:{last_line} (record 2)", quoting="ends within a record"):
        [*spread_records(blocks, "a.json")]


def test_an_array_on_one_line_may_be_longer_than_a_record_of_which_one_is_in_memory(
    sentences, monkeypatch
):
    for module in ("tables", "json_records"):
        monkeypatch.setattr(f"embedx.text.{module}.MAX_RECORD_BYTES", 1000)
    monkeypatch.setattr("embedx.text.decompression.BLOCK_BYTES", 64)
    data = json.dumps([{"t": "a " * 90}] * 30)
    assert sentences("a.json", data, json_field="t") == [["a"] * 90] * 30
    with refused_data("a.json:1 (record 2)", quoting="1,000 bytes"):
        sentences("a.json", json.dumps([{"t": "a"}, {"t": "a " * 3000}]), json_field="t")
    letters_of_3_bytes = json.dumps([{"t": "a"}, {"t": "\u6f22" * 900}], ensure_ascii=False)
    with refused_data("b.json:1 (record 2)", quoting="1,000 bytes"):
        sentences("b.json", letters_of_3_bytes, json_field="t")


def test_json_lines_may_be_compressed_and_have_a_mark_empty_lines_and_no_last_line_end(sentences):
    data = "\ufeff\n" + lines(*DOCUMENTS).rstrip("\n").replace("\n", "\r\n \n")
    assert sentences("a.jsonl.gz", gzip.compress(data.encode()), json_field="text") == READ


def test_a_list_is_a_sentence_of_strings_or_numbers(sentences):
    data = lines({"items": ["a b", 7, "c\nd", ""]}, {"items": []}, {"items": [7]})
    assert sentences("a.jsonl", data, json_field="items") == [["a", "b", "7", "c", "d"], ["7"]]
    assert sentences("a.jsonl", data, json_field="items", tokenizer="none") == [
        ["a b", "7", "c\nd"],
        ["7"],
    ]


def test_without_a_tokenizer_text_is_split_at_white_space_and_nothing_else(sentences):
    text = "New York's\t10,5\u00a0ﬀ\n\n B"
    expected = [["New", "York's", "10,5", "ﬀ"], ["B"]]
    assert sentences("a.txt", text, tokenizer="none") == expected
    assert sentences("a.jsonl", lines({"t": text}), json_field="t", tokenizer="none") == expected


def test_invalid_utf8_in_records_is_handled_as_in_text(sentences):
    data = b'{"t": ["a\xfe", "b\xff\xfe"]}\n'
    for tokenizer in ("none", "whitespace"):
        assert sentences("a.jsonl", data, json_field="t", tokenizer=tokenizer) == [
            ["a\ufffd", "b\ufffd\ufffd"]
        ]
    assert sentences("a.jsonl", data, json_field="t", on_bad_utf8="skip") == [["a", "b"]]
    assert sentences(
        "b.jsonl", rb'{"t": "\ud83d\ude00 \ud83d"}', json_field="t", on_bad_utf8="skip"
    ) == [["\U0001f600"]]
    with refused_data("a.jsonl", "on_bad_utf8", quoting="byte 1 "):
        sentences("a.jsonl", data, json_field="t", on_bad_utf8="error")


@pytest.mark.parametrize("delimiter", [",", "\t", ";", "|"])
def test_a_column_of_a_table_with_any_separator_is_text(sentences, delimiter):
    row = delimiter.join
    quoted = f'"The cat\nsat{delimiter} ""é"""'
    data = "\r\n".join(map(row, [["id", "text"], [], ["1", quoted], ["2", ""], ["", "B"]]))
    expected = [["The", "cat"], [*f"sat{delimiter}".split(), '"é"'], ["B"]]
    for name in ("a.csv", "a.tsv", "a"):
        assert sentences(name, data, column="text") == expected
    assert sentences("a.csv", data, column="2") == [["text"], *expected]


def rows_of(text):
    """The rows of a table: its first lines, and the last one so often that it is no accident."""
    *first, last = text.encode().splitlines(True)
    rows = tables.table_rows([*first, *[last] * tables.MIN_ROWS], "a.csv", ())
    return [row for _, row in rows][: 1 - tables.MIN_ROWS]


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        # single quotes, and more commas than semicolons in the first row
        ("s;'a, b, c; it''s'\nt;B\n", [["s", "a, b, c; it's"], ["t", "B"]]),
        # a double quote that never closes, and one that closes before the field ends
        ('1\t"a\n2\tb\n', [["1", '"a'], ["2", "b"]]),
        ('1\ta\n2\t"b" or c\n', [["1", "a"], ["2", '"b" or c']]),
        # what is in doubt is read as usual
        ("a;'b\n1;'2\n", [["a", "'b"], ["1", "'2"]]),
        ('a,b\n1,"2;3"\n', [["a", "b"], ["1", "2;3"]]),
        ("a\nb\n", [["a"], ["b"]]),
    ],
)
def test_a_table_has_the_dialect_by_which_all_rows_have_as_many_fields(text, rows):
    assert rows_of(text) == rows


def test_a_message_shows_the_beginning_of_columns_that_are_text(sentences):
    with refused_data("a.csv", "column", quoting="y, " + 40 * "x") as refusal:
        sentences("a.csv", f"y,{'x' * 900}\n1,2\n")
    assert "x" * 41 not in str(refusal.value)


def test_the_dialect_of_a_table_is_chosen_by_its_first_lines(monkeypatch):
    rows = [["text", "label"], ["a\nb\nc", "x"], ["d", "y"]]
    monkeypatch.setattr(tables, "DIALECT_CHARACTERS", len('text,label\n"a'))
    text = 'text,label\n"a\nb\nc",x\nd,y\n'
    assert rows_of(text) == rows
    monkeypatch.setattr(tables, "MAX_OPEN_LINES", 0)
    assert rows_of(text.replace('"', "")) != rows
    # behind the first lines rows may differ in length, which is an error
    (*_, bad) = rows_of("text,label\na,b\nc\n")
    assert isinstance(bad, tables.BadRecord)


def test_with_a_column_by_number_the_first_row_is_data(sentences):
    assert sentences("a.csv", "1,2\n3,4\n", column="2") == [["2"], ["4"]]
    assert sentences("a.tsv", "1\thello\n2\tworld\n", column="1") == [["1"], ["2"]]


TABLE = "id,text\n1,a\n"


@pytest.mark.parametrize(
    ("place", "data", "settings", "quoted"),
    [
        ("a.jsonl:2", '{"t": "a"}\n{"t": \n', {"json_field": "t"}, "Expecting value"),
        ("a.jsonl:1", "[" * 100_000, {"json_field": "t"}, "maximum recursion depth"),
        ("a.jsonl:2", "\n[1]\n", {"json_field": "t"}, "[1],"),
        (
            "a.jsonl:2",
            '{"t": "a"}\n{"x": 1, "y": 2}',
            {"json_field": "t"},
            (" t; ", "json_field among x, y"),
        ),
        ("a.jsonl:1", '{"t": 1.5}\n', {"json_field": "t"}, "t is 1.5,"),
        ("a.jsonl:1", '{"t": ["a", null]}', {"json_field": "t"}, "t has null "),
        ("a.jsonl:1", '{"t": [true]}', {"json_field": "t"}, "t has true "),
        ("a.jsonl", '{"t": "a", "u": 1}', {}, ("JSON", "json_field", "t, u")),
        ("a.csv", TABLE, {}, "id, text"),
        ("a.csv", TABLE, {"column": "x"}, (" x;", "id, text")),
        ("a.csv", TABLE, {"column": "3"}, (" 3;", "id, text")),
        ("a.csv", TABLE, {"column": "0"}, (" 0;", "id, text")),
        ("a.csv:3", TABLE + '2,"b\nc",d\n', {"column": "text"}, ("3 columns", "2 ")),
        ("a.csv:3", TABLE + '2,"b\n\nc', {"column": "text"}, "unexpected end of data"),
        ("a.csv:3", TABLE + '2,"b"c\n', {"column": "text"}, "',' expected after '\"'"),
        ("a.parquet", parquet_of(a=["x"], b=[1]), {}, ("Parquet", "a, b")),
        ("a.parquet", parquet_of(a=["x"], b=[1]), {"column": "c"}, (" c;", "a, b")),
        ("a.parquet:1", parquet_of(a=["x"], b=[1]), {"column": "b"}, "b is 1,"),
        ("a.parquet", parquet_of(a=["x"])[:-9], {"column": "a"}, "("),
        ("a.txt", parquet_of(a=["x"]), {}, "Parquet"),
        ("a.jsonl", bytes(range(128, 256)) * 9, {"json_field": "t"}, "100%"),
    ],
)
def test_mistakes_are_reported_with_their_line_and_a_remedy(
    sentences, place, data, settings, quoted
):
    name = place.partition(":")[0]
    with refused_data(place, quoting=quoted):
        sentences(name, data, **settings)


NESTED = [
    {"a": {"b": "x y", "c.d": "z"}},
    {"a": {"b": "never"}, "a.b": "whole name"},
    {"a": {"b": ["list"]}},
]


def test_a_field_within_objects_is_named_by_its_path(sentences):
    assert sentences("a.jsonl", lines(*NESTED), json_field="a.b") == [
        ["x", "y"],
        ["whole", "name"],
        ["list"],
    ]
    assert sentences("b.jsonl", lines(NESTED[0]), json_field="a.c.d") == [["z"]]
    for field in ("a.x", "a.b.c", "b"):
        with refused_data("a.jsonl:1", "json_field", quoting=(field, "a.b, a.c.d")):
            sentences("a.jsonl", lines(*NESTED), json_field=field)
    with refused_data("a.jsonl:1", "json_field", "on_bad_record", quoting=("a.b", "among a,")):
        sentences("a.jsonl", lines({"a": None}), json_field="a.b")


BAD_JSON = ['{"t": null}', "{}", '{"t": 1}', '{"t": ["a", null]}', "[]", '{"t": "cut', '"t"']
BAD_ROWS = ['1,2,"3"', '"x"y,1', "alone"]
SKIPPED = {
    "a.jsonl": (
        "\n".join([lines({"t": "x y"}).strip(), *BAD_JSON, lines({"t": "z"})]),
        {"json_field": "t"},
        2,
        7,
        "t is null",
    ),
    "a.csv": (
        "\n".join(["id,t", "0,x y", *BAD_ROWS, "3,z"]),
        {"column": "t"},
        3,
        3,
        "3 columns, but 2",
    ),
    "a.parquet": (parquet_of(t=["x y", None, "z", None]), {"column": "t"}, 2, 2, "t is null"),
}


@pytest.mark.parametrize("name", SKIPPED)
def test_bad_records_are_an_error_or_skipped_and_counted(sentences, tmp_path, name):
    data, settings, line, n_bad, why = SKIPPED[name]
    with refused_data(f"{name}:{line}", "on_bad_record", quoting=why):
        sentences(name, data, **settings)
    assert sentences(name, data, on_bad_record="skip", **settings) == [["x", "y"], ["z"]]
    for _ in ("read", "from the cache"):
        progress = Notes()
        text = TextSettings(on_bad_record="skip", **settings)
        with encode_sources(
            find_sources([str(tmp_path / name)]), text, progress, tmp_path / "cache", threads=2
        ) as corpus:
            assert corpus.report["sources"][0]["bad_records"] == n_bad
        (note,) = [note for note in progress.notes if "skipped" in note]
        assert note.startswith(
            f"{tmp_path / name}: {n_bad} records skipped; the first: {tmp_path / name}:{line}:"
            f" {why}"
        )


def test_bad_records_are_counted_for_each_file_and_within_archives(tmp_path):
    for number, n_bad in enumerate([3, 0, 1]):
        data = lines(*[{"t": "a b"}] * 2, *[{"t": None}] * n_bad).encode()
        (tmp_path / f"{number}.jsonl.gz").write_bytes(gzip.compress(data))
    with zipfile.ZipFile(tmp_path / "more.zip", "w") as archive:
        for name in ("4.jsonl", "5.jsonl"):
            archive.writestr(name, lines({"t": "c"}, {"u": "c"}))
    text = TextSettings(json_field="t", on_bad_record="skip")
    with encode_sources(
        find_sources([str(tmp_path)]), text, cache_dir=tmp_path / "cache", threads=3
    ) as corpus:
        assert [source["bad_records"] for source in corpus.report["sources"]] == [3, 0, 1, 2]
        assert (
            corpus.report["sources"][3]["first_bad_record"]
            == f"{tmp_path}/more.zip: 4.jsonl:2: no field t"
        )
        assert corpus.n_tokens == 14


def test_where_all_records_are_bad_the_error_says_why(sentences):
    with refused_data("a.jsonl", "json_field", quoting="2 records"):
        sentences("a.jsonl", lines({"t": "a"}, {"t": "b"}), json_field="u", on_bad_record="skip")
    with refused("on_bad_record", "json_field", "column", kind=InapplicableError):
        TextSettings(on_bad_record="skip")


def test_records_longer_than_the_limit_are_an_error(sentences, monkeypatch):
    monkeypatch.setattr(tables, "MAX_RECORD_BYTES", 1000)
    for module in ("decompression", "read_ahead"):
        monkeypatch.setattr(f"embedx.text.{module}.BLOCK_BYTES", 64)
    assert sentences("a.jsonl", lines({"t": "a " * 490}) * 9, json_field="t") == [["a"] * 490] * 9
    for text in ({"t": "a " * 500}, {"t": "a " * 500, "u": "b" * 999_999}):
        with refused_data("a.jsonl:2", quoting="1,000 bytes"):
            sentences("a.jsonl", '{"t": "a"}\n' + lines(text), json_field="t")
    assert (
        sentences("a.csv", TABLE + ('2,"' + "b " * 400 + '"\n') * 9, column="text")[1:]
        == [["b"] * 400] * 9
    )


@pytest.mark.parametrize(
    "row", ['2,"open\n3,c\n4,', '2,"open\n3,c\n4,"x"\n', '2,"' + "b\n" * 600 + '"\n']
)
def test_an_open_quote_that_joins_lines_is_an_error_even_where_bad_records_are_skipped(
    sentences, monkeypatch, row
):
    monkeypatch.setattr(tables, "MAX_RECORD_BYTES", 1000)
    with refused_data("a.csv:3"):
        sentences("a.csv", TABLE + row, column="text", on_bad_record="skip")


def test_the_format_of_a_name_has_priority_over_options(sentences):
    assert sentences("a.txt", "plain text", json_field="t", column="c") == [["plain", "text"]]
    assert sentences("a.csv.gz", gzip.compress(b"c\nx"), json_field="t", column="c") == [["x"]]


def test_options_that_no_corpus_has_a_use_for_are_an_error(tmp_path):
    (tmp_path / "a.txt").write_text("text")
    sources = find_sources([str(tmp_path / "a.txt")])
    check_formats(sources, TextSettings())
    with refused("json_field", value="t"):
        check_formats(sources, TextSettings(json_field="t"))
    with refused("column", value="c"):
        check_formats(
            [*sources, Source("-", "any", None)], TextSettings(json_field="t", column="c")
        )


def test_words_taken_as_they_are_are_not_lower_cased():
    with refused("lowercase", "tokenizer", kind=InapplicableError):
        TextSettings(tokenizer="none", lowercase=True)
