"""Tables as labelled data: every format gives the same rows, by columns that are named or found."""

import gzip
import json

import numpy as np
import pytest

from docs.examples.records import RECORDS
from embedx.classification import classifier
from embedx.labeled import formats
from embedx.labeled.read import read, read_training
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
