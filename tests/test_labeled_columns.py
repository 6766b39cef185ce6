"""The columns of a table: which are text, label, numbers and id, by names, values or number."""

import pytest

from embedx.errors import DataError, Setting
from embedx.labeled.read import read, read_to_predict, read_training
from embedx.labeled.tables.settings import TableSettings
from tests.support.labeled_tables import parquet_of, table
from tests.support.notes import Notes, lines_with
from tests.support.refusals import refused_data


@pytest.mark.parametrize(
    ("heading", "row", "chosen"),
    [
        ("label,text", "x,a b", "text: text; label: label"),
        ("id,title,abstract,subjects", "1,a,b,x", "text: title, abstract; label: subjects; id: id"),
        (
            "Category,Title,Body,price",
            "x,a,b,1",
            "text: Title, Body; label: Category; not used: price (--set feature-columns=pr",
        ),
        ("verdict,review,ID", "x,a,7", "text: review; label: verdict; id: ID"),
        ("class,said", "x,a b", "text: said; label: class"),
        ("text,body,label", "a,b,x", None),
        ("label,tags,text", "a,b,x", None),
        ("said,meant,label", "a,b,x", None),
        # row numbers, as pandas writes them
        (",x,Unnamed: 0,y,label", "1,2,3,4,a", "numbers: x, y; label: label"),
    ],
)
def test_columns_are_chosen_where_there_is_one_natural_choice(write, heading, row, chosen):
    notes = Notes()
    file = write(f"{heading}\n{row}\n{row}\n", "a.csv")
    if chosen is None:
        with refused_data("a.csv", quoting=", ".join(heading.split(","))):
            read(file)
    else:
        read(file, progress=notes)
        assert notes.notes[-1].startswith(f"{file}: {chosen}")


@pytest.mark.parametrize(
    ("heading", "row", "chosen"),
    [
        ("Nr,Betreff,Beschreibung,Kategorie", "7,a,b,x", "text: Betreff, Beschreibung; label: Kat"),
        ("identifiant,texte,étiquette", "7,a b,x", "text: texte; label: étiquette; not used: iden"),
        ("Descripción,Categoría", "a,x", "text: Descripción; label: Categoría"),
        ("Omschrijving,Onderwerp,Prioriteit", "a,x,1", "text: Omschrijving; label: Onderwerp"),
    ],
)
def test_columns_are_known_by_names_in_several_languages(write, heading, row, chosen):
    notes = Notes()
    file = write(f"{heading}\n{row}\n{row}\n", "a.csv")
    read(file, progress=notes)
    assert notes.notes[-1].startswith(f"{file}: {chosen}")


def unnamed_rows(n=40):
    """Columns that are told by their values alone."""
    return [
        {
            "number": f"T{k}",
            "said": f"the lamp {k} is broken again",
            "kind": ["repair", "delivery"][k % 2],
            "subjects": ["law; trade", "trade", "law"][k % 3],
            "day": f"2024-03-{1 + k % 9:02}",
            "stars": str(1 + k % 3),
            "price": str(1.5 * k),
            "width": str(0.3 * k),
        }
        for k in range(n)
    ]


@pytest.mark.parametrize(
    ("columns", "chosen"),
    [
        (["number", "said", "kind"], "text: said; label: kind; not used: number (said, kind by"),
        (["number", "said", "kind", "day", "stars"], "text: said; label: kind; not used: number"),
        (["day", "subjects", "said"], "text: said; label: subjects; not used: day (said by"),
        (["said", "stars", "price"], "text: said; label: stars; not used: price (said, stars by"),
        (["price", "width", "kind"], "numbers: price, width; label: kind (kind by the values"),
    ],
)
def test_columns_whose_names_do_not_tell_are_known_by_their_values(write, columns, chosen):
    notes = Notes()
    rows = [{name: row[name] for name in columns} for row in unnamed_rows()]
    file = write(table(rows, ";"), "a.csv")
    data = read(file, progress=notes)
    assert notes.notes[0].startswith(f"{file}: {chosen}")
    assert "--label-column set others" in notes.notes[0]
    assert len(data.labels) == len(rows)


def test_columns_that_could_all_be_labels_are_not_guessed_among(write):
    rows = [
        {"said": row["said"], "kind": row["kind"], "land": "de" if k % 4 else "fr"}
        for k, row in enumerate(unnamed_rows())
    ]
    with refused_data("a.csv", "label_column", quoting="kind, land could"):
        read(write(table(rows), "a.csv"))
    renamed = [
        {"said": row["said"], "a": row["kind"], "ticket topic": "xy"[k % 2]}
        for k, row in enumerate(unnamed_rows())
    ]
    notes = Notes()
    read(write(table(renamed), "b.csv"), progress=notes)
    assert lines_with(notes.notes, "label: ticket topic")


def test_a_first_row_of_data_is_not_taken_for_names(write):
    rows = [{name: row[name] for name in ("number", "said", "kind")} for row in unnamed_rows()]
    without_heading = table(rows).partition("\n")[2]
    with refused_data("a.csv:1", "header", quoting='"repair"'):
        read(write(without_heading, "a.csv"))
    subjects = ["<http://a/1> <http://a/2>", "<http://a/2>", "<http://a/1>"]
    corpus = "".join(f"the lamp {k} is broken\t{subjects[k % 3]}\n" for k in range(30))
    with refused_data("a.tsv:1", "header", quoting='"<http://a/1> <http://a/2>"'):
        read(write(corpus, "a.tsv"))
    notes = Notes()
    read(write(corpus, "a.tsv"), table=TableSettings(header="no"), progress=notes)
    assert lines_with(notes.notes, "text: 1; label: 2")
    assert lines_with(notes.notes, '"<http://a/1> <http://a/2>"', "'label-separator= '")


def test_a_missing_column_of_the_training_data_may_have_another_name(write):
    schema = read(write("said,class\na b,x\nc d,y\n", "a.csv")).schema
    test = write("meant,class\na b,x\n", "b.csv")
    with refused_data("b.csv", "text_column", quoting='"said"'):
        read(test, schema=schema)
    data = read(test, schema=schema, table=TableSettings(text_column="meant"))
    assert data.features.nnz == 2


def test_a_column_has_one_role(write):
    with refused_data("a.csv", "text_column", "label_column", quoting='"text"'):
        read(write("text,label\nx,a\ny,b\n", "a.csv"), table=TableSettings("text", "text"))


def test_an_empty_column_of_labels_is_named(write):
    with refused_data("a.csv", "label_column", quoting="tag"):
        read_training(
            write("text,tag,label\nx,,a\ny,,b\n", "a.csv"), table=TableSettings(label_column="tag")
        )


@pytest.mark.parametrize(
    ("content", "settings", "labels", "features"),
    [
        ("0,5,1\n0,4,9\n1,9,8\n", {"label_column": "1"}, ["0", "0", "1"], 2),
        ("1,awful\n2,poor\n", {"label_column": "1"}, ["1", "2"], 2),
        ("1,awful\n2,poor\n", {"label_column": "1", "text_column": "2"}, ["1", "2"], 2),
        ("5,5,5\n6,5,5\n", {"label_column": "1"}, ["5", "6"], 2),
        ("a,a\nb,a\n", {"label_column": "1", "text_column": "2"}, ["a", "b"], 1),
        ("2,1\nawful,x\npoor,y\n", {"label_column": "1", "header": "yes"}, ["x", "y"], 2),
        ("verdict,said\nx,a\ny,b\n", {"label_column": "1", "header": "yes"}, ["x", "y"], 2),
        ("verdict,said\nx,a\ny,b\n", {"label_column": "1", "text_column": "said"}, ["x", "y"], 2),
        ("said,label\na,x\nb,y\n", {"label_column": "2", "header": "no"}, ["label", "x", "y"], 3),
        ("said,label\na,x\nb,y\n", {}, ["x", "y"], 2),
    ],
)
def test_columns_by_number_are_positions_in_a_file_without_a_heading(
    write, content, settings, labels, features
):
    data = read(write(content, "a.csv"), table=TableSettings(**settings))
    names = data.schema.names
    assert [names[k] for k in data.labels.ids] == labels
    assert data.n_features == features


def test_the_decision_about_a_heading_is_noted_and_saved(write):
    notes = Notes()
    data = read(
        write("0,5,1\n0,4,9\n1,9,8\n", "a.csv"),
        table=TableSettings(label_column="1"),
        progress=notes,
    )
    assert (
        'without a heading, because columns are given by number: "0, 5, 1" is a row'
        in notes.notes[0]
    )
    later = read(write("1,1,1\n", "b.csv"), schema=data.schema)
    assert later.labels.ids.tolist() == [1]
    # a heading of numbers, as pandas writes the columns of an array
    train = write("2,1\nx,3\ny,4\n", "c.csv")
    data = read(train, table=TableSettings(label_column="2", header="yes"))
    assert read(train, schema=data.schema).labels.ids.tolist() == [0, 1]
    with pytest.raises(DataError) as caught:
        read(write("label,label\nx,3\n", "d.csv"))
    assert caught.value.line == 1
    assert Setting("header", "no") in caught.value.remedy


def test_columns_of_zeros_and_ones_are_a_label_each(write):
    table = TableSettings(label_column="toxic,obscene,threat")
    rows = "id,text,toxic,obscene,threat\n1,a b,1,0,0\n2,c d,0,0,0\n3,e f,1.0,True,0\n"
    data = read(write(rows, "a.csv"), table=table)
    assert data.schema.names == ["toxic", "obscene", "threat"]
    assert [data.labels[k].tolist() for k in range(3)] == [[0], [], [0, 1]]
    test = read(write("threat,obscene,toxic,text\n1,0,1,a\n", "b.csv"), schema=data.schema)
    assert sorted(test.labels.ids) == [0, 2]
    assert not len(read_to_predict(write("text\na\n", "c.csv"), data.schema).labels.ids)
    for wrong in ("-1", "", "2", "x"):
        with pytest.raises(DataError) as caught:
            read(write(rows + f"4,g h,0,0,{wrong}\n", "d.csv"), table=table)
        assert caught.value.line == 5
    parquet_rows = [{"text": "a", "toxic": k % 2, "bad": k % 2 == 0} for k in range(4)]
    data = read(
        write(parquet_of(parquet_rows), "a.parquet"), table=TableSettings(label_column="toxic,bad")
    )
    assert data.labels.ids.tolist() == [1, 0, 1, 0]
