"""Tables as labelled data: formats, which columns are used, kept and printed, and mistakes by their
line.
"""

import gzip
import json

import numpy as np
import pytest

from docs.examples.records import RECORDS
from embedx.classification import classifier
from embedx.errors import DataError, Setting, SettingError
from embedx.labeled import formats
from embedx.labeled.cells import labels_of
from embedx.labeled.read import read, read_to_predict, read_training
from embedx.labeled.tables.settings import TableSettings
from tests.support.commands import invoke, words_of
from tests.support.labeled_tables import parquet_of, table
from tests.support.notes import Notes, lines_with
from tests.support.refusals import refused_data

WORDS = {"billing": "invoice, refund", "login": 'a "password"\nreset'}


def ticket(k):
    """Row k of the tables: of each three, two are about billing."""
    label = "login" if k % 3 == 1 else "billing"
    return {
        "id": f"T{k}",
        "title": f"no {k % 7}",
        "text": WORDS[label],
        "hours": (k // 8) ** 2,
        "tags": [label, "odd"] if k % 2 else [label],
    }


ROWS = [ticket(k) for k in range(40)]


def json_lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


FILES = {
    "a.csv": table(ROWS),
    "a.tsv": "\ufeff" + table(ROWS, "\t").replace("\n", "\r\n"),
    "a.txt": table(ROWS, "|"),
    "a.csv.gz": gzip.compress(table(ROWS, ";", " ; ").encode()),
    "a.jsonl": json_lines(ROWS),
    "unnamed": json_lines(ROWS),
    "a.json": json.dumps(ROWS),
    "pretty.json.gz": gzip.compress(json.dumps(ROWS, indent=2).encode()),
    "unnamed array": "\ufeff" + json.dumps(ROWS),
    "objects.json": "\n".join(json.dumps(row, indent=2) for row in ROWS),
    "a.parquet": parquet_of(ROWS),
    "b": gzip.compress(parquet_of(ROWS)),
}
ALL = TableSettings(
    text_column="title,text",
    label_column="tags",
    id_column="id",
    label_separator=";",
    feature_columns="hours",
)
PRICES = TableSettings(text_column="text", feature_columns="price")


@pytest.mark.parametrize("name", FILES)
def test_every_format_gives_the_same_rows(write, name):
    data = read(write(FILES[name], name), table=ALL)
    first = read(write(FILES["a.jsonl"], "first.jsonl"), table=ALL)
    assert (data.features != first.features).nnz == 0
    assert data.schema.names == ["billing", "login", "odd"]
    assert [[data.schema.names[k] for k in data.labels[row]] for row in range(40)] == [
        row["tags"] for row in ROWS
    ]
    assert data.ids.tolist() == [row["id"] for row in ROWS]
    assert data.schema.columns == first.schema.columns
    if name == "a.csv":  # without its heading
        without = TableSettings(
            text_column="2,3",
            label_column="5",
            id_column="1",
            label_separator=";",
            feature_columns="4",
        )
        again = read(write(FILES[name].partition("\n")[2], name), table=without)
        assert (again.features != data.features).nnz == 0
    counts = dict(zip(data.schema.vocabulary, data.features[0].toarray()[0], strict=False))
    assert [counts[word] for word in ("no", "0", "invoice", "password")] == [1, 1, 1, 0]


def test_numbers_beside_text_are_intervals_between_deciles_and_alone_have_mean_0_and_deviation_1(
    write,
):
    hours = np.array([float(row["hours"]) for row in ROWS])
    data = read(write(FILES["a.jsonl"], "a.jsonl"), table=ALL)
    bounds = np.unique(np.quantile(hours, np.arange(1, 10) / 10))
    np.testing.assert_array_equal(
        data.features[:, -len(bounds) - 1 :].argmax(axis=1).A1,
        [(bounds <= hour).sum() for hour in hours],
    )
    np.testing.assert_array_equal(data.features[:, -len(bounds) - 1 :].sum(axis=1).A1, 1)
    rows = [{"x": hours[k], "y": None if k == 3 else 7, "label": "abc"[k % 3]} for k in range(40)]
    notes = Notes()
    for name, content in (("n.parquet", parquet_of(rows)), ("n.csv", table(rows))):
        data = read(write(content, name), progress=notes)
        np.testing.assert_allclose(
            data.features[:, 0], (hours - hours.mean()) / hours.std(), rtol=1e-5
        )
        assert not data.features[:, 1].any()
    assert [note.partition(": ")[2] for note in notes.notes[2:]] == [
        "numbers: x, y; label: label",
        "rows without y: 1; these have the mean",
    ]
    notes = Notes()
    read(write("text,price,label\na,1,x\n,,y\nb,,y\n", "p.csv"), table=PRICES, progress=notes)
    missing = "rows without text: 1, without price: 2; these have no such features"
    assert notes.notes[-1].endswith(missing)
    test = read(write("y,label,x\n8,z,1\n9,a,N/A\n", "t.csv"), schema=data.schema)
    np.testing.assert_allclose(
        test.features, [[(1 - hours.mean()) / hours.std(), 1], [0, 2]], rtol=1e-5
    )
    assert test.labels.ids.tolist() == [3, 0]


def test_labels_in_a_cell_are_split_only_on_request_or_where_they_are_a_list(write):
    def names(text, **options):
        file = write(f"text,label\n{text}", "a.csv")
        return read(file, table=TableSettings(**options)).schema.names

    assert names("x,new york; us\nx,us\nx,\n") == ["new york; us", "us"]
    assert names("x,new york; us\nx,us\n", label_separator=";") == ["new york", "us"]
    assert names("x,\"['new york', 'us']\"\nx,us\n") == ["new york", "us"]
    data = read(
        write(
            '{"text": "a", "label": 1.0}\n{"text": NaN, "label": NaN}\n{"label": [true,'
            ' "b"]}\n{"text": null}\n',
            "a.jsonl",
        )
    )
    assert (data.schema.names, data.labels.n_of_row.tolist()) == (["1", "true", "b"], [1, 0, 2, 0])
    notes = Notes()
    read(write("text,label\nx,a b|c\nx,c\nx,a b\nx,c|a b\n", "a.csv"), progress=notes)
    assert lines_with(notes.notes[-1], '"a b|c"', "--set 'label-separator=|'")


TEXT_COLUMN = TableSettings(text_column="text")


@pytest.mark.parametrize(
    ("place", "content", "settings", "quoted"),
    [
        ("a.csv:4", 'label,text\nx,"a\nb"\ny\n', TEXT_COLUMN, ("1 columns", "2 ")),
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


@pytest.mark.parametrize(
    ("cell", "labels"),
    [
        ("['joy' 'anger']", ["joy", "anger"]),
        ("['joy'\n 'credit card']", ["joy", "credit card"]),
        ("['joy', 'anger']", ["joy", "anger"]),
        ('["joy", "caf\\u00e9"]', ["joy", "café"]),
        ("{'joy', 'anger'}", ["joy", "anger"]),
        ("('joy',)", ["joy"]),
        ('c("joy", "anger")', ["joy", "anger"]),
        ('{joy,"credit card"}', ["joy", "credit card"]),
        ("array(['joy', 'anger'], dtype=object)", ["joy", "anger"]),
        ("[np.str_('joy'), np.str_('anger')]", ["joy", "anger"]),
        ("[1 2]", ["1", "2"]),
        ("[1.0, 2.0]", ["1", "2"]),
        ("['042', nan]", ["042"]),
        ("[]", []),
        ("set()", []),
        ("(none)", ["(none)"]),
        ("[deleted]", ["[deleted]"]),
        ("[n/a]", ["[n/a]"]),
        ("[None]", []),
        ("[7]", ["7"]),
        ("poly([2]rotaxane)", ["poly([2]rotaxane)"]),
        ("f(x)", ["f(x)"]),
        ("it's", ["it's"]),
        ("007", ["007"]),
    ],
)
def test_lists_in_cells_are_read_as_other_tools_write_them(write, cell, labels):
    assert labels_of(cell, None) == labels
    data = read(write(table([{"text": "a", "label": cell}]), "a.csv"))
    assert [name for name in data.schema.names if name] == labels


@pytest.mark.parametrize(
    "cell",
    [
        "['a' 'b' ... 'z']",
        "['a', 'b'",
        "['a' b]",
        "[joy anger]",
        "[joy, credit card]",
        "[['a'], ['b']]",
        "{'a': 1}",
        "c(x = 'a')",
        "['a',, 'b']",
        "[a] or [b]",
        "Index(['a', 'b'], dtype='object')",
        "tensor([1, 2])",
        "Counter({'a': 1})",
    ],
)
def test_malformed_lists_in_cells_are_an_error_with_the_line(write, cell):
    with pytest.raises(DataError) as caught:
        read(write(table([{"text": "a", "label": "x"}, {"text": "b", "label": cell}]), "a.csv"))
    assert caught.value.line == 3


def test_a_model_of_a_table_also_reads_plain_lines_and_tables_of_other_formats(workdir, capsys):
    for name, rows in (
        ("train.csv", ROWS),
        ("said.jsonl", [{"said": row["text"], "id": 7} for row in ROWS[:2]]),
    ):
        (workdir / name).write_text(table(rows) if name.endswith("csv") else json_lines(rows))
    (workdir / "plain.txt").write_text("a password\n\ninvoice\n")
    (workdir / "few.csv").write_text("text,title,id\na password,,x\ninvoice,,y\n")

    def run(*words):
        invoke(*words)
        return capsys.readouterr().out.splitlines()

    options = words_of(
        "--label-column tags --set label-separator=; --epochs 30 --threads 1 --objective ova"
    )
    run("classify", "train.csv", *options, "--output", "m", "--test", "train.csv")
    schema = classifier.load("m").schema
    assert (
        schema.columns
        == read("train.csv", table=TableSettings(None, "tags", None, ";")).schema.columns
    )
    assert [line.split("\t")[0] for line in run("predict", "m", "plain.txt", "-q")][::2] == [
        "login",
        "billing",
    ]
    assert [line.split("\t")[:2] for line in run("predict", "m", "few.csv", "-q")] == [
        ["x", "login"],
        ["y", "billing"],
    ]
    answers, _ = map(
        json.loads, run("predict", "m", "said.jsonl", "--text-column", "said", "--json", "-q")
    )
    assert (answers["id"], answers["labels"][0]["label"]) == (7, "billing")
    assert "n\t40" in run("eval", "m", "--test", "train.csv", "-q")
    with refused_data("few.csv", quoting=('"tags"', "text, title, id")):
        run("eval", "m", "--test", "few.csv")


def test_text_is_kept_beside_named_numbers_and_unknown_labels_are_noted(write):
    schema = read(
        write("label,text,price\nx,a b,1\ny,c,2\n", "a.csv"),
        table=TableSettings(feature_columns="price"),
    ).schema
    assert (schema.columns.text, schema.columns.numbers) == (["text"], ["price"])
    notes = Notes()
    read(write("label,text,price\n0.0,a,1\n", "t.csv"), schema=schema, progress=notes)
    assert lines_with(notes.notes[-1], "labels are unknown", '"0.0"', '"x"')


def test_wide_tables_are_read_in_fewer_rows_at_a_time(write, monkeypatch):
    rows = [{f"c{k}": row * k for k in range(5)} | {"label": "ab"[row % 2]} for row in range(20)]
    whole = read(write(table(rows), "w.csv")).features
    monkeypatch.setattr("embedx.labeled.tables.rows.MAX_BATCH_CELLS", 20)
    np.testing.assert_array_equal(read(write(table(rows), "w.csv")).features, whole)


def test_numbers_far_from_the_training_data_stay_finite(write):
    schema = read(write("x,label\n1e-30,a\n2e-30,b\n", "n.csv")).schema
    assert read(write("x,label\n1e38,a\n-1e38,b\n", "t.csv"), schema=schema).features.tolist() == [
        [1e6],
        [-1e6],
    ]


def test_half_of_a_surrogate_pair_is_replaced_in_labels_and_refused_in_fields(tmp_path):
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"text": "a", "label": "\\ud800x"}\n{"text": "b", "label": "y"}\n')
    assert read(str(rows)).schema.names == ["\ufffdx", "y"]
    rows.write_text('{"\\ud800": 1, "label": "x"}\n{"\\ud800": 2, "label": "y"}\n')
    with pytest.raises(DataError) as error:
        read(str(rows), table=TableSettings(label_column="label"))
    assert error.value.file == str(rows)


def test_a_new_format_is_a_file_and_its_line_in_the_registry(monkeypatch, write):
    """The example of docs/extending.md, before the formats of text as its line would be."""
    monkeypatch.setattr(formats, "TEXT_FORMATS", (RECORDS, *formats.TEXT_FORMATS))
    first = "text: they never called back\nlabel: complaint\n"
    second = "label: praise\ntext: quick and friendly\n"
    data = read_training(write(f"{first}\n\n{second}", "data.records"))
    assert data.schema.names == ["complaint", "praise"]
    assert data.labels.ids.tolist() == [0, 1]
    assert data.schema.columns.text == ["text"]
    assert [data.features[row].sum() for row in range(2)] == [4, 3]
