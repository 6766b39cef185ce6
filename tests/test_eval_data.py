"""eval data: the steps that build data sets from public repositories, on small ones."""

import gzip
import io
import json
import os
import pickle
import subprocess
import tarfile
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat
from scipy.sparse import csc_matrix

from embedx.errors import DataError
from embedx.labeled.read import read, read_training
from embedx.text.recipes import find_recipe, recipe_names
from tests.support.eval_setup import ROOT
from tests.support.needs import needs_repositories

assert ROOT
image = pytest.importorskip("PIL.Image")
from eval import (  # noqa: E402
    data,
    data_eurlex,
    data_graphs,
    data_lsml,
    data_mulan,
    data_omniglot,
    data_sessions,
    data_wikipedia,
    datasets,
    word_tests,
)
from eval.data_repositories import (  # noqa: E402
    Blob,
    Repository,
    binaries,
    blobs,
    clone_in,
    contents,
)
from eval.data_xc import Documents, features_of, xc_file  # noqa: E402


def git(folder, *words):
    who = ("-c", "user.name=x", "-c", "user.email=x@y", "-c", "commit.gpgsign=false")
    completed = subprocess.run(["git", *who, *words], cwd=folder, capture_output=True, check=True)
    return completed.stdout.decode().strip()


@pytest.fixture
def repository(tmp_path):
    """A repository of these files, and its git directory."""

    def commit(files, folder):
        git(tmp_path, "init", "-q", ".")
        for name, content in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        git(tmp_path, "add", ".")
        git(tmp_path, "commit", "-q", "-m", "x")
        return tmp_path / ".git", Repository("url", git(tmp_path, "rev-parse", "HEAD"), folder)

    return commit


def test_files_of_a_repository_are_read_in_the_given_order(repository):
    directory, about = repository({"Page/b.md": "two", "Page/\u00e4.md": "", "c.md": "no"}, "Page")
    files = blobs(directory, about)
    assert [file.path for file in files] == ["Page/b.md", "Page/\u00e4.md"]
    assert list(contents(directory, files[::-1])) == ["", "two"]
    assert next(contents(directory, files)) == "two"


def test_a_clone_without_the_commit_is_named(repository):
    directory, _ = repository({"a": "x"}, "Page")
    with pytest.raises(DataError) as error:
        blobs(directory, Repository("url", "0" * 40, "Page"))
    assert "url" in error.value.remedy


# ---- XC files


def documents(rows):
    collection = Documents()
    for part, labels, words in rows:
        collection.add(part, labels, words.split())
    return collection


ROWS = [
    ("train", ["b", "a"], "cat cat dog"),
    ("train", ["a"], "dog emu"),
    ("train", ["c"], "emu fox"),
    ("test", ["c"], "cat owl"),
]


def test_frequent_words_are_left_out_and_ties_are_broken_as_asked():
    collection = documents([*ROWS, ("train", ["a"], "dog gnu")])
    assert features_of(collection, 2, 0.5, by_name=False) == ["cat", "emu"]
    assert features_of(documents(ROWS), 3, 1.0, by_name=True) == ["cat", "dog", "emu"]
    assert features_of(documents(ROWS), 9, 1.0, by_name=True) == ["cat", "dog", "emu", "fox"]


def test_rows_are_tf_idf_of_length_one_and_read_back(tmp_path):
    collection = documents(ROWS)
    lines = list(xc_file(collection, "train", ["cat", "dog", "emu", "fox"], ["a", "b", "c"]))
    assert lines[0] == "3 4 3\n"
    cat = (1 + np.log(2)) * np.log(3)
    dog = np.log(3 / 2)
    length = np.hypot(cat, dog)
    assert lines[1] == f"0,1 0:{cat / length:.4f} 1:{dog / length:.4f}\n"
    for part in ("train", "test"):
        text = "".join(xc_file(collection, part, ["cat", "dog", "emu", "fox"], ["a", "b", "c"]))
        (tmp_path / f"{part}.txt").write_text(text)
    training = read_training(str(tmp_path / "train.txt"))
    test = read(str(tmp_path / "test.txt"), schema=training.schema)
    assert test.labels.ids.tolist() == [2]
    assert test.features.toarray().tolist() == [[1, 0, 0, 0]]


# ---- EURLEX57K


def law(concepts, **fields):
    return json.dumps({"celex_id": "x", "concepts": concepts} | fields)


def test_laws_become_rows_by_part_and_concepts_are_numbered_by_value(repository):
    files = {
        "data/train/2.json": law(["10", "9"], title="Fish", main_body=["The sea.", "Two fish"]),
        "data/train/2(1).json": law(["c_1"], title="Fowl", header=None),
        "data/dev/1.json": law(["9"], title="Fish 3"),
        "data/EURLEX57K.json": json.dumps({"9": {"label": "sea\tfood"}}),
    }
    directory, about = repository(files, "data")
    laws = data_eurlex.laws(blobs(directory, about))
    assert [file.path for file in laws] == ["data/train/2.json", *list(files)[1:3]]
    collection = data_eurlex.documents_of(laws, contents(directory, laws))
    assert data_eurlex.concepts_of(collection) == ["9", "10", "c_1"]
    assert collection.names() == ["fish", "the", "sea", "two", "fowl"]
    names = data_eurlex.described(["9", "10"], json.loads(files["data/EURLEX57K.json"]))
    assert names == ["9\tsea food", "10\t"]


# ---- Wikipedia


def test_a_page_becomes_sentences_up_to_its_references():
    page = "\n".join(
        [
            "-   Einstein[1] was *born* in 1879 in Ulm.",
            "| a | table |",
            "See https://example.org/x and picture.jpg there.",
            "a    b columns",
            "[[File:x]]",
            "12 34 56 78",
            "References",
            "Nothing after it.",
        ]
    )
    kept = data_wikipedia.paragraphs(page)
    assert kept == ["Einstein was born in 1879 in Ulm.", "See   and   there."]
    assert data_wikipedia.spelled_out("Caf\u00e9 no. 42!") == "cafe no four two"


def test_text8_ends_at_its_bytes():
    page = "Letters and spaces only, as in text8. " * 10
    text = "".join(data_wikipedia.text8(["short", page, page], 500))
    assert len(text) == 500
    assert text.startswith(" letters and spaces only as in text eight letters")


def test_categories_lose_their_sort_keys():
    pages = [Blob(f"Page/{n}.md", "") for n in range(3)]
    texts = [
        "Cats are fish.\nCategory:Cats Category:Pets Tom",
        "A dog.\nCategory:Pets Category:Dogs",
        "no category",
    ]
    collection = data_wikipedia.categorised(pages, texts)
    assert [row.labels for row in collection.rows] == [["Cats", "Pets"], ["Dogs", "Pets"]]
    assert collection.names() == ["cats", "are", "fish", "dog"]


# ---- the command


def test_a_built_data_set_is_checked_against_its_recorded_checksum(tmp_path):
    file = tmp_path / "x.gz"
    file.write_bytes(gzip.compress(b"x"))
    data.check(file, "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881")
    with pytest.raises(DataError):
        data.check(file, "0" * 64)


def test_commands_of_recipes_build_what_the_recipes_find(workdir):
    wholes = [*map(find_recipe, recipe_names()), *datasets.BUILT.values()]
    recipes = wholes + [whole.part(part) for whole in wholes for part in whole.parts]
    built = [recipe for recipe in recipes if recipe.build]
    names = [recipe.build.removeprefix("python -m eval data ") for recipe in built]
    assert set(names) == set(data.BUILDERS)
    for name, recipe in zip(names, built, strict=True):
        assert recipe.files[0].startswith(f"{name}/")


def test_the_same_lines_make_the_same_file(tmp_path):
    files = [data._write(tmp_path / name / "x.gz", ["a\n", "b\n"]) for name in ("1", "2")]
    assert files[0].read_bytes() == files[1].read_bytes()


def unpacked(path):
    return gzip.decompress(path.read_bytes()).decode()


# ---- mulan


ARFF = """@relation x

@attribute 0 {0,1}
@attribute TAG_m\\'usica {0,1}
@attribute 'new york' {0,1}
@attribute TAG_sea {0,1}

@data
{0 1,1 1,2 1}
{3 1}
{2 1}
"""
XML = '<labels xmlns="x"><label name="TAG_sea"></label><label name="TAG_m\\\'usica"/></labels>'


def test_bookmarks_of_mulan_become_rows_with_the_labels_that_the_xml_names(repository, tmp_path):
    files = {"b/bibtex.xml": XML, "b/bibtex-train.arff": ARFF, "b/bibtex-test.arff": ARFF}
    renamed = {f"bibtex/{name[2:]}": content for name, content in files.items()}
    directory, about = repository(renamed, "bibtex")
    paths = data.build_mulan(directory, tmp_path / "out", about)
    assert [path.name for path in paths] == [
        "train.txt.gz",
        "test.txt.gz",
        "features.txt.gz",
        "labels.tsv.gz",
    ]
    assert unpacked(paths[0]) == "3 2 2\n0 0:1 1:1\n1 \n 1:1\n"
    assert unpacked(paths[2]) == "0\nnew york\n"
    assert unpacked(paths[3]) == "0\tTAG_m\\'usica\n1\tTAG_sea\n"


def test_rows_of_mulan_that_are_not_sparse_are_refused():
    attributes = data_mulan.attributes_of(ARFF, data_mulan.label_names(XML))
    with pytest.raises(DataError):
        list(data_mulan.xc_lines("@data\n1,0,1,0\n", attributes))


# ---- 20 newsgroups


def test_messages_become_rows_of_counts_with_as_many_features_as_both_parts_have(tmp_path):
    files = {
        "train.data": "1 1 2\n1 3 1\n3 2 5\n",
        "train.label": "1\n2\n2\n",
        "train.map": "alt.atheism 1\nsci.space 2\n",
        "test.data": "1 4 1\n",
        "test.label": "2\n",
        "test.map": "alt.atheism 1\nsci.space 2\n",
    }
    archive = tmp_path / "x.tgz"
    with tarfile.open(archive, "w:gz") as packed:
        for name, content in files.items():
            member = tarfile.TarInfo(f"20news-bydate/matlab/{name}")
            member.size = len(content)
            packed.addfile(member, io.BytesIO(content.encode()))
    data.main(["20-newsgroups-counts", "--source", str(archive), "--to", str(tmp_path)])
    train, test, names = (
        unpacked(tmp_path / "20-newsgroups-counts" / name)
        for name in ("train.txt.gz", "test.txt.gz", "labels.tsv.gz")
    )
    assert train == "3 4 2\n0 0:2 2:1\n1 \n1 1:5\n"
    assert test == "1 4 2\n1 3:1\n"
    assert names == "0\talt.atheism\n1\tsci.space\n"


# ---- Omniglot


def drawing(ink, side=105):
    """A PNG of side x side pixels, black where there is ink."""
    pixels = np.full((side, side), 255, np.uint8)
    pixels[ink] = 0
    file = io.BytesIO()
    image.fromarray(pixels).convert("1").save(file, "png")
    return file.getvalue()


def test_a_reduced_pixel_is_the_mean_over_its_area():
    pixels = np.random.default_rng(0).random((105, 105))
    reduced = data_omniglot.reduced(pixels, 28)
    assert reduced.mean() == pytest.approx(pixels.mean())
    row = np.array([1, 1, 1, 0.75])
    assert reduced[0, 0] == pytest.approx(row @ pixels[:4, :4] @ row / 3.75**2)
    np.testing.assert_allclose(
        data_omniglot.area_weights(6, 2) * 3, [[1] * 3 + [0] * 3, [0] * 3 + [1] * 3]
    )


def test_drawings_are_split_by_drawer_and_labelled_by_character(tmp_path, repository):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for character, drawer in ((1, 1), (1, 17), (2, 16)):
            ink = np.s_[:15, : 15 * character]
            name = f"images_background/Greek/character0{character}/000{character}_{drawer:02}.png"
            archive.writestr(name, drawing(ink))
    directory, about = repository({"python/x": ""}, "python")
    (tmp_path / "python/images_background.zip").write_bytes(content.getvalue())
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "y")
    commit = git(tmp_path, "rev-parse", "HEAD")
    paths = data.build_omniglot(directory, tmp_path / "out", replace(about, commit=commit))
    training = read_training(str(paths[0]))
    assert (len(training), training.n_features, training.n_labels) == (2, 784, 2)
    assert training.labels.ids.tolist() == [0, 1]
    images = training.features.toarray().reshape(2, 28, 28)
    assert images[0, :4, :4].min() == 1
    assert images.sum(axis=(1, 2)).tolist() == [16, 32]
    assert unpacked(paths[1]).startswith("1 784 2\n0 ")
    assert unpacked(paths[2]) == "0\tGreek/character01\n1\tGreek/character02\n"


def test_a_clone_without_the_content_of_a_file_is_named(repository):
    directory, _ = repository({"python/x": "1"}, "python")
    with pytest.raises(DataError) as error:
        list(binaries(directory, [Blob("python/x.zip", "0" * 40)]))
    assert "python/x.zip" in error.value.problem


def test_the_file_of_burda_keeps_its_split_and_names_characters_by_alphabet(tmp_path):
    content = io.BytesIO()
    arrays = {
        "data": np.eye(784)[:, :3],
        "target": np.array([[1, 0, 0], [0, 1, 1]]),
        "targetchar": np.array([[1, 1, 2]]),
        "testdata": 0.5 * np.eye(784)[:, :1],
        "testtarget": np.array([[0], [1]]),
        "testtargetchar": np.array([[2]]),
    }
    savemat(content, arrays)
    parts, names = data_omniglot.burda_parts(content.getvalue())
    assert names == ["0/1", "1/1", "1/2"]
    lines = {part: list(data_omniglot.xc_lines(rows, 3)) for part, rows in parts.items()}
    assert lines["train"] == ["3 784 3\n", "0 0:1\n", "1 1:1\n", "2 2:1\n"]
    assert lines["test"] == ["1 784 3\n", "2 0:0.5\n"]


def test_drawings_that_are_reduced_already_keep_their_pixels(tmp_path, repository, monkeypatch):
    ink = np.zeros((28, 28), bool)
    ink[1, 2:4] = True
    files = {
        f"omniglot_resized/Greek/character02/0002_{drawer}.png": drawing(ink, side=28)
        for drawer in ("16", "17")
    }
    directory, about = repository(files | {"omniglot_resized/x": "x"}, "omniglot_resized")
    monkeypatch.setattr(data_omniglot, "REDUCED", about)
    training, test, labels = data.build_reduced_omniglot(directory, tmp_path / "out")
    assert unpacked(training) == unpacked(test) == "1 784 1\n1 30:1 31:1\n"
    assert unpacked(labels) == "0\tGreek/character02\n"


# ---- LSML


def test_bookmarks_of_lsml_become_rows(tmp_path, repository, monkeypatch):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("Bibtex_train_word.txt", "0 7\r\n0 2\r\n2 5\r\n")
        archive.writestr("Bibtex_train_label.txt", "0 1\n1 3\n1 0\n")
        archive.writestr("Bibtex_test_leml.txt", "#num_feature=1836\r\n4,5 1:1.000000\r\n")
    directory, about = repository({"Bibtex.zip": content.getvalue()}, "Bibtex.zip")
    monkeypatch.setattr(data_lsml, "BIBTEX", about)
    training, test = data.build_lsml(directory, tmp_path / "out")
    rows = "1 2:1.000000 7:1.000000\n0,3 \n 5:1.000000\n"
    assert unpacked(training) == f"3 1836 159\n{rows}"
    assert unpacked(test) == "1 1836 159\n4,5 1:1.000000\n"


# ---- word pairs, graphs and sessions


def test_word_pairs_are_found_where_they_are_built(workdir, repository, monkeypatch):
    files = {f"data/word-sim/{file}": f"cat\tdog\t{file}" for file in word_tests.POOLED.values()}
    directory, about = repository(files | {"data/word-sim/EN-MC-30.txt": "x"}, "data/word-sim")
    monkeypatch.setattr(data, "WORD_PAIRS", about)
    assert word_tests.pair_files(None) == {}
    paths = data.build_word_pairs(directory, data.data_folder() / datasets.WORD_PAIRS)
    assert word_tests.pair_files(None) == dict(zip(word_tests.POOLED, paths, strict=True))
    assert paths[0].read_text() == "cat\tdog\tEN-MTurk-287.txt"


def test_edges_are_written_once_in_ascending_order_of_numbers():
    edges = data_graphs.edges_in("3\t1\t2.5\n11\t2\t1\n1\t3\t2.5\n2\t2\t4\n", first=1)
    assert "".join(data_graphs.edge_lines(edges)) == "0 2 2.5\n1 1 4\n1 10 1\n"
    assert "".join(data_graphs.edge_lines([(5, 4, "")])) == "4 5\n"
    labels = data_graphs.labels_in("2\t10\n0\t2\n")
    assert "".join(data_graphs.label_lines(labels)) == "0 1\n2 0\n2 1\n10 0\n"


def test_a_graph_in_a_file_of_matlab_has_its_edges_and_labels():
    content = io.BytesIO()
    network = csc_matrix([[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
    group = csc_matrix([[0.0, 1.0], [0.0, 0.0], [1.0, 1.0]])
    savemat(content, {"network": network, "group": group})
    edges, labels = data_graphs.of_mat(content.getvalue())
    assert "".join(data_graphs.edge_lines(edges)) == "0 1\n1 2\n"
    assert sorted(labels) == [(0, 1), (2, 0), (2, 1)]


def test_labels_of_a_graph_whose_nodes_are_numbered_otherwise_are_renumbered(
    tmp_path, repository, monkeypatch
):
    edges = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (1, 3), (0, 0)]
    numbers = [4, 0, 5, 2, 3, 1]  # in the second graph
    files = {
        "Wikipedia.edg": "".join(f"{a + 1}\t{b + 1}\t2\n{b + 1}\t{a + 1}\t2\n" for a, b in edges),
        "data/wikipedia.ungraph": "".join(f"{numbers[a]}\t{numbers[b]}\n" for a, b in edges),
        "data/wikipedia.cmty": f"{numbers[2]}\t{numbers[5]}\n{numbers[0]}\n",
    }
    directory, about = repository(files, "Wikipedia.edg")
    monkeypatch.setattr(data_graphs, "WIKIPEDIA", about)
    monkeypatch.setattr(data_graphs, "WIKIPEDIA_LABELLED", replace(about, folder="data"))
    paths = data.build_wikipedia_pos(directory, directory, tmp_path / "out")
    assert unpacked(paths[0]).startswith("0 0 2\n0 1 2\n1 2 2\n1 3 2\n")
    assert unpacked(paths[1]) == "0 1\n2 0\n5 0\n"


def test_graphs_that_differ_and_nodes_that_are_alike_are_refused():
    path = [(0, 1, ""), (1, 2, ""), (2, 3, ""), (1, 1, "")]
    with pytest.raises(DataError):
        data_graphs.numbers_in(path, [(0, 1, ""), (1, 2, ""), (2, 3, ""), (0, 0, "")])
    with pytest.raises(DataError):
        data_graphs.refined([(0, 1, ""), (1, 2, "")])


def test_sessions_are_joined_from_their_beginnings(tmp_path, repository, monkeypatch):
    files = {
        "all_train_seq.txt": pickle.dumps([[1, 2], [3, 1, 3]]),
        "test.txt": pickle.dumps(([[5, 6, 5], [5, 6], [5], [5], [7]], [8, 5, 6, 6, 7])),
    }
    directory, about = repository({f"d/{name}": text for name, text in files.items()}, "d")
    monkeypatch.setattr(data_sessions, "DIGINETICA", about)
    training, test = data.build_diginetica(directory, tmp_path / "out")
    assert unpacked(training) == "1 2\n3 1 3\n"
    assert unpacked(test) == "5 6 5 8\n5 6\n7 7\n"


def test_a_pickle_of_anything_but_numbers_is_refused():
    with pytest.raises(DataError):
        data_sessions.unpickled(pickle.dumps(Path("x")))


# ---- the repositories themselves


@needs_repositories
@pytest.mark.parametrize("name", data.BUILDERS)
def test_a_data_set_is_built_as_it_was_measured(name, tmp_path):
    folder = Path(os.environ["EMBEDX_REPOSITORIES"])
    sources, _ = data.BUILDERS[name]
    originals = [
        clone_in(folder, source)
        if isinstance(source, Repository)
        else folder / Path(source.urls[0]).name
        for source in sources
    ]
    missing = [str(original) for original in originals if not original.exists()]
    if missing:
        pytest.skip(f"not there: {', '.join(missing)}")
    data.main([name, *(f"--source={original}" for original in originals), "--to", str(tmp_path)])
    assert {path.name for path in (tmp_path / name).iterdir()} >= data.EXPECTED.get(name, {}).keys()
