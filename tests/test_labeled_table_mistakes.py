"""Mistakes in tables of labelled data: one line with file, line and remedy."""

import pytest

from embedx.errors import DataError, Setting, SettingError
from embedx.labeled.read import read, read_to_predict
from embedx.labeled.tables.settings import TableSettings
from tests.support.labeled_tables import parquet_of
from tests.support.notes import Notes, lines_with
from tests.support.refusals import refused_data

TEXT_COLUMN = TableSettings(text_column="text")


@pytest.mark.parametrize(
    ("place", "content", "settings", "quoted"),
    [
        ("a.csv:4", 'label,text\nx,"a\nb"\ny\n', TEXT_COLUMN, ("1 column", "2 ")),
        ("a.csv", "label,text\n", TEXT_COLUMN, "no rows"),
        ("a.csv:1", "label,text,text\nx,a,b\n", TEXT_COLUMN, '"text"'),
        ("a.csv:3", b"label,text\nx,a\nx,\xe9\n", TEXT_COLUMN, "UTF-8"),
        ("a.csv", "label,said\nx,a\n", TEXT_COLUMN, ('"text"', "text_column among label, said")),
        (
            "a.csv:3",
            "label,x\na,1\nb,1e999\n",
            TableSettings(feature_columns="x"),
            ('"x"', '"1e999"'),
        ),
        (
            "a.csv:4",
            "label,x,y\na,1,2\nb,3,4\nb,5,n.k.\n",
            TableSettings(),
            ('"y"', '"n.k."'),
        ),
        ("a.csv", f"{'x' * 99},y\na,b\n", TableSettings(), f" {'x' * 40}, y"),
        ("a.csv", "text,\na,b\n", TableSettings(), 'text, "" '),
        ("a.csv:1", "label,text\rx,a\r", TableSettings("text", "label"), "LF"),
        ("a.jsonl:3", '{"text": "a", "label": "x"}\n\n{"text": 1\n', TEXT_COLUMN, "Expecting ','"),
        ("a.json:1", '[["a", "x"]]\n', TEXT_COLUMN, ('[["a", "x"]]', "one array of objects")),
        ("a.json:3 (record 2)", '[{"text": "a"},\n\n 7]', TEXT_COLUMN, "7, not an object"),
        ("a.json:2 (record 2)", '[{"text": "a"},\n{"text" 1}]', TEXT_COLUMN, "Expecting ':'"),
        ("a.json:1 (record 2)", '[{"text": "a"}, {"text": "b"}', TEXT_COLUMN, "copied whole"),
        ("a.json:1 (record 1)", '[{"text": "a"} {"text": "b"}]', TEXT_COLUMN, "no comma"),
        ("a.json:2", '[{"text": "a"}]\n{"text": "b"}', TEXT_COLUMN, "after the end of the array"),
        (
            "a.json:3 (record 2)",
            '[{"text": "a", "label": 1},\n\n{"text": {}}]',
            TEXT_COLUMN,
            '"text" is {}',
        ),
        ("a.json", '{"data": [{"text": "a"}, {}]}', TEXT_COLUMN, ("one object", "data", "records")),
        ("a.json", '{"text": ["a", "b"], "label": [0, 1]}', TEXT_COLUMN, ("text, label", "array")),
        ("a.json", '{"text": {"0": "a", "1": "b"}, "y": {"0": 0, "1": 1}}', TEXT_COLUMN, "array"),
        (
            "a.jsonl",
            '{"text": {"b": 1}, "label": 1}\n',
            TableSettings("text.b", "no"),
            ('"no"', "label_column"),
        ),
        ("a.jsonl:1", '{"text": [{"b": 1}], "label": 1}\n', TEXT_COLUMN, ('"text"', '[{"b": 1}]')),
        ("a.parquet:1", parquet_of([{"text": "x", "label": b"\xff"}]), TEXT_COLUMN, '"label"'),
    ],
)
def test_mistakes_are_one_line_with_the_line_of_the_file(write, place, content, settings, quoted):
    name = place.partition(":")[0]
    with refused_data(place, quoting=quoted):
        read(write(content, name), table=settings)


BAD_RECORDS = {
    "a.csv": 'text,label\na,x\n\nalone\n"b"c,y\nd,y\n',
    "a.jsonl": '{"text": "a", "label": "x"}\n7\n{"text"\n{"text": "d", "label": "y"}\n',
    "a.json": '[{"text": "a", "label": "x"},\n7,\n["text"],\n{"text": "d", "label": "y"}]\n',
}


@pytest.mark.parametrize("name", BAD_RECORDS)
def test_bad_records_are_left_out_and_counted_where_that_is_wanted(write, name):
    file = write(BAD_RECORDS[name], name)
    line = {"a.csv": "4", "a.jsonl": "2", "a.json": "2 (record 2)"}[name]
    with refused_data(f"{name}:{line}", "on_bad_record"):
        read(file)
    notes = Notes()
    data = read(file, table=TableSettings(on_bad_record="skip"), progress=notes)
    assert [data.schema.names[k] for k in data.labels.ids] == ["x", "y"]
    assert lines_with(notes.notes, "2 records skipped", f"{name}:{line}: ")
    with refused_data(f"{name}:{line}") as refusal:
        read_to_predict(file, data.schema)
    assert Setting("on_bad_record", "skip") not in refusal.value.remedy


@pytest.mark.parametrize("cell", ["1,67", '"1,234.5"', "1.234,5"])
def test_a_number_with_a_comma_is_told_from_text(write, cell):
    with refused_data("a.csv:2", quoting=("1234.5", "thousands")):
        read(write(f"label;x\na;{cell}\n", "a.csv"), table=TableSettings(feature_columns="x"))


def test_tables_of_numbers_with_decimal_commas_say_how_to_write_them(write):
    file = write("a;b;class\n" + "0,25;1,5;x\n1,75;2,5;y\n" * 9, "t.csv")
    with refused_data("t.csv", quoting=("a, b", "1234.5")):
        read(file)


@pytest.mark.parametrize("array", ["[]", "[ ]\n"])
def test_an_empty_array_of_json_has_no_rows(write, array):
    with refused_data("a.json", quoting="no rows"):
        read(write(array, "a.json"))


def test_the_line_of_a_spreadsheet_about_separators_is_to_be_deleted(write):
    with refused_data("a.csv:1", quoting="delete this line"):
        read(write("sep=;\r\nlabel;text\r\nx;a\r\n", "a.csv"), table=TEXT_COLUMN)


@pytest.mark.parametrize("first", ["# exported 2026", "Tickets"])
def test_lines_before_a_heading_are_to_be_deleted(write, first):
    with refused_data("a.csv:2", quoting="delete the lines before the heading"):
        read(write(f"{first}\nlabel,text\nx,a\n", "a.csv"), table=TEXT_COLUMN)


@pytest.mark.parametrize(
    ("settings", "setting"),
    [
        (TEXT_COLUMN, "text_column"),
        (TableSettings(header="no"), "header"),
        (TableSettings(label_separator=";"), "label_separator"),
    ],
)
def test_settings_of_tables_do_not_apply_to_other_files(write, settings, setting):
    with pytest.raises(SettingError) as caught:
        read(write("__label__x a\n"), table=settings)
    assert caught.value.setting == setting


def test_half_of_a_surrogate_pair_is_replaced_in_labels_and_refused_in_fields(tmp_path):
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"text": "a", "label": "\\ud800x"}\n{"text": "b", "label": "y"}\n')
    assert read(str(rows)).schema.names == ["\ufffdx", "y"]
    rows.write_text('{"\\ud800": 1, "label": "x"}\n{"\\ud800": 2, "label": "y"}\n')
    with pytest.raises(DataError) as error:
        read(str(rows), table=TableSettings(label_column="label"))
    assert error.value.file == str(rows)
