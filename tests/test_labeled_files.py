"""Several files of labelled data are read as the one file that has all their rows."""

import json
import zipfile

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet
from scipy import sparse

import embedx
from embedx.classification import classifier
from embedx.labeled.read import read
from tests.support.commands import invoke
from tests.support.refusals import refused_data

TICKETS = [
    {"id": f"T{k}", "text": f"{word} order {k % 5}, please", "hours": k, "label": label}
    for k, (word, label) in enumerate(
        [("refund", "billing"), ("password", "login"), ("parcel", "delivery")] * 8
    )
]
PARTS = [TICKETS[:9], TICKETS[9:10], TICKETS[10:]]


def write_csv(path, rows):
    cells = [f'{row["id"]},"{row["text"]}",{row["hours"]},{row["label"]}' for row in rows]
    path.write_text("\n".join(["id,text,hours,label", *cells, ""]))


def write_json(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_parquet(path, rows):
    parquet.write_table(pyarrow.Table.from_pylist(rows), path)


def write_fasttext(path, rows):
    path.write_text("".join(f"__label__{row['label']} {row['text']}\n" for row in rows))


def write_libsvm(path, rows):
    path.write_text("".join(f"{row['label']} {row['hours'] + 1}:0.5\n" for row in rows))


def write_xc(path, rows):
    lines = "".join(f"{len(row['label']) % 3} {row['hours']}:0.5\n" for row in rows)
    path.write_text(f"{len(rows)} 24 3\n{lines}")


WRITERS = {
    "csv": write_csv,
    "jsonl": write_json,
    "parquet": write_parquet,
    "txt": write_fasttext,
    "svm": write_libsvm,
    "xc": write_xc,
}


def written(folder, suffix, parts=PARTS):
    """The paths of files of these rows."""
    folder.mkdir()
    paths = []
    for k, rows in enumerate(parts):
        path = folder / f"part{k}.{suffix}"
        WRITERS[suffix](path, rows)
        paths.append(str(path))
    return paths


def assert_same(data, other):
    assert (data.features != other.features).nnz == 0
    assert data.labels.ids.tolist() == other.labels.ids.tolist()
    assert data.schema.names == other.schema.names
    assert data.schema.vocabulary == other.schema.vocabulary
    assert data.schema.columns == other.schema.columns
    assert data.schema.first_feature == other.schema.first_feature
    if other.ids is not None:
        assert data.ids.tolist() == other.ids.tolist()


@pytest.mark.parametrize("suffix", WRITERS)
def test_parts_are_read_as_the_whole(tmp_path, suffix):
    [whole] = written(tmp_path / "whole", suffix, [TICKETS])
    parts = written(tmp_path / "parts", suffix)
    expected = read(whole)
    assert_same(read(parts), expected)
    assert_same(read(str(tmp_path / "parts")), expected)
    assert_same(read(str(tmp_path / "parts" / f"*.{suffix}")), expected)
    # Later rows, as those of a test set.
    assert_same(read(parts, schema=expected.schema), read(whole, schema=expected.schema))


@pytest.mark.parametrize("is_sparse", [False, True])
def test_parts_of_an_array_have_their_labels_in_one_file(tmp_path, is_sparse):
    rows = np.arange(24, dtype=np.float32).reshape(8, 3)
    parts = []
    for k, part in enumerate((rows[:5], rows[5:])):
        path = tmp_path / f"part{k}"
        if is_sparse:
            sparse.save_npz(path.with_suffix(".npz"), sparse.csr_matrix(part))
            parts.append(f"{path}.npz")
        else:
            np.save(path.with_suffix(".npy"), part)
            parts.append(f"{path}.npy")
    labels = tmp_path / "labels.txt"
    labels.write_text("a\nb\n" * 4)
    data = read(parts, str(labels))
    features = data.features.toarray() if is_sparse else data.features
    assert features.tolist() == rows.tolist()
    assert [data.schema.names[k] for k in data.labels.ids] == ["a", "b"] * 4


def test_features_of_libsvm_count_from_0_where_one_part_does(tmp_path):
    zero = tmp_path / "zero.svm"
    one = tmp_path / "one.svm"
    zero.write_text("a 0:1 2:1\nb 1:1\n")
    one.write_text("a 1:1\nb 2:1\n")
    assert read([str(one), str(zero)]).features.toarray().tolist() == [
        [0, 1, 0],
        [0, 0, 1],
        [1, 0, 1],
        [0, 1, 0],
    ]


def test_a_file_that_is_named_twice_is_read_once(tmp_path):
    [path] = written(tmp_path / "tickets", "csv", [TICKETS])
    assert len(read([path, str(tmp_path / "tickets"), path])) == len(TICKETS)


def test_models_in_a_folder_are_left_out(tmp_path):
    written(tmp_path / "tickets", "txt")
    embedx.classify(tmp_path / "tickets", epochs=1, output=tmp_path / "tickets" / "m.embedx")
    assert len(read(str(tmp_path / "tickets"))) == len(TICKETS)


def test_a_file_that_does_not_match_the_first_is_named(tmp_path):
    tables = written(tmp_path / "tables", "csv")
    lines = written(tmp_path / "lines", "txt")
    with refused_data("part0.txt", quoting=["fastText", "part0.csv is CSV"]):
        read([tables[0], lines[0]])

    other = tmp_path / "other.csv"
    other.write_text("id,message,label\nT1,refund please,billing\n")
    with refused_data("other.csv", quoting='"text"'):
        read([tables[0], str(other)])
    without_labels = tmp_path / "unlabelled.csv"
    without_labels.write_text("id,text,hours\nT1,refund please,1\n")
    with refused_data("unlabelled.csv", quoting='"label"'):
        read([tables[0], str(without_labels)])
    damaged = tmp_path / "damaged.csv"
    damaged.write_text('id,text,hours,label\nT1,"refund, please",1,billing\nT2,refund\n')
    with refused_data("damaged.csv:3"):
        read([*tables, str(damaged)])

    (tmp_path / "wide.txt").write_text("1 30 3\n0 29:1\n")
    rows = written(tmp_path / "rows", "xc")
    with refused_data("wide.txt", quoting=["30 features and 3 labels", "part0.xc 24 and 3"]):
        read([*rows, str(tmp_path / "wide.txt")])
    np.save(tmp_path / "two.npy", np.zeros((2, 2)))
    np.save(tmp_path / "three.npy", np.zeros((2, 3)))
    with refused_data("three.npy", quoting=["3 columns", "two.npy has 2"]):
        read([str(tmp_path / "two.npy"), str(tmp_path / "three.npy")], str(tmp_path / "labels"))


def test_recipes_and_splits_cannot_be_parts_of_data(tmp_path):
    [path] = written(tmp_path / "tickets", "csv", [TICKETS])
    split = tmp_path / "split"
    split.write_text("1\n2\n")
    for name in ("digits", f"{path}@{split}"):
        with refused_data(name):
            read([path, name])
    with refused_data("*.json"):
        read([str(tmp_path / "*.json")])


def test_classify_takes_files_globs_and_folders(tmp_path, capsys):
    parts = written(tmp_path / "tickets", "csv")
    written(tmp_path / "later", "csv")
    options = ["--epochs", "2", "--threads", "1", "--deterministic", "--quiet"]
    options += ["--test", str(tmp_path / "later" / "*.csv")]
    folder = str(tmp_path / "tickets")
    trained = []
    for k, data in enumerate((parts, [folder], [f"{folder}/*.csv"])):
        output = str(tmp_path / f"m{k}")
        words = ["classify", *data, *options, "--output", output]
        invoke(*words)
        assert "24 labelled test rows" in capsys.readouterr().out
        trained.append(classifier.load(output))
    trained.append(embedx.classify(parts, epochs=2, threads=1, deterministic=True))
    answers = {tuple(model.predict(["my parcel is late", "a refund"])) for model in trained}
    assert len(answers) == 1


@pytest.mark.parametrize(
    ("member", "quoted"),
    [("[Content_Types].xml", "Excel"), ("rows.csv", "unzip it"), ("indices.npy", "scipy.sparse")],
)
def test_a_zip_archive_is_called_what_it_is(member, quoted, tmp_path):
    with zipfile.ZipFile(tmp_path / "rows.zip", "w") as archive:
        archive.writestr(member, "text,label\n")
    with refused_data("rows.zip", quoting=quoted):
        read(str(tmp_path / "rows.zip"))
