"""`embedx report`: the pages of one model and of two, and invalid arguments."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

import embedx
from embedx.classification.classifier import load
from embedx.errors import DataError, InapplicableError
from embedx.evaluation.word_sets import WordTests
from embedx.evaluation.words import evaluate
from embedx.labeled.read import read
from embedx.report import labels as label_pages
from embedx.report.contract import PageRequest, different_names
from embedx.report.report import default_output, report
from embedx.report.settings import ReportSettings
from embedx.report.words import default_settings
from embedx.runtime.progress import Silent
from embedx.vectors.lookup import UnknownWordError
from embedx.vectors.model import WordVectors, load_folder
from tests.support.commands import invoke
from tests.support.needs import needs_gensim
from tests.support.refusals import refused, refused_data
from tests.support.report_models import (
    FEATURES,
    NASTY,
    TEST,
    TOPICS,
    Page,
    label_folder,
    word_folder,
    words,
)


@needs_gensim
def test_the_page_of_word_vectors(tmp_path, write):
    folder = word_folder(tmp_path / "a.ns.embedx")
    named = words()
    pairs = write(
        "".join(
            f"{named[a]}\t{named[b]}\t{10 - abs(a % 4 - b % 4)}\n"
            for a, b in ((0, 4), (1, 2), (8, 3), (5, 9))
        )
    )
    file = report(
        folder,
        tmp_path / "page.html",
        words=f"topic1word1,{NASTY}",
        pairs=[Path(pairs)],
        nearest=3,
        map_words=40,
    )
    text = file.read_text("utf-8")
    page = Page(text)
    assert "b" not in page.tags
    vectors = load_folder(folder)
    near = vectors.most_similar(NASTY, top_k=3)
    assert ", ".join(f"{word} ({cosine:.2f})" for word, cosine in near) in page.cells
    assert {"window", "5", "tokenizer", "whitespace", "1,234,567", "−4.1000"} <= set(page.cells)
    assert "train" in page.cells  # the set of pairs, by the name of its file
    on_map = json.loads(page.data)
    assert on_map["words"][:40] == named[:40]
    assert on_map["counts"] == vectors.counts[:40].tolist()
    nearest = on_map["neighbours"][7 * 3 : 8 * 3]
    assert [on_map["words"][k] for k in nearest] == [word for word, _ in near]
    assert on_map["cosines"][7 * 3] == round(near[0][1], 3)
    # rarer neighbours have places too
    assert len(on_map["x"]) == len(on_map["y"]) == len(on_map["words"]) > 40
    topics = {(cluster, k % TOPICS) for k, cluster in enumerate(on_map["clusters"])}
    assert len(topics) == len(on_map["names"])  # a cluster holds words of one topic
    changed, every = text.split("<summary>All settings</summary>")
    assert (">window<" in changed, ">window<" in every, ">tokenizer<" in changed) == (
        False,
        True,
        False,
    )
    assert text.count("<polyline") == 2  # held-out text, against epochs and seconds
    assert "prefers-color-scheme: dark" in text
    without = Page(
        report(
            folder, tmp_path / "two.html", pairs=[Path(pairs)], map_words=0, random_words=0
        ).read_text("utf-8")
    )
    assert "map" not in without.ids


def test_the_page_of_a_classifier_on_test_data(tmp_path, write):
    folder = label_folder(tmp_path / "c.softmax.embedx")
    file = report(folder, tmp_path / "page.html", test=write(TEST, "test.txt"), examples=7)
    text = file.read_text("utf-8")
    page = Page(text)
    assert not {"b", "i"} & set(page.tags)
    for cell in ("21 to 100", "not in training", "unknown label 4", "sport, film", "ball goal"):
        assert cell in page.cells
    assert any(
        re.fullmatch(r"sport 0\.99\d ✓, .*, film 0\.0\d\d, .*", cell, re.DOTALL)
        for cell in page.cells
    )
    # learning curves, a diagonal, coverage, three scores by k and their legend
    assert text.count("<polyline") == 6 + 1 + 1 + 2 * 3
    assert 'class="bar"' in text
    plain = Page(report(folder, tmp_path / "two.html").read_text("utf-8"))
    assert NASTY in plain.cells
    assert {"60", "sport"} <= set(plain.cells)


def test_pages_of_rows_with_one_label_begin_with_accuracy(tmp_path, write):
    folders = [label_folder(tmp_path / name, several_labels=False) for name in ("a", "b")]
    test = write("__label__film scene actor\n__label__sport goal ball\n", "test.txt")
    text = report(folders[0], tmp_path / "one.html", test=test).read_text("utf-8")
    page = Page(text)
    pair = Page(
        report(folders[0], tmp_path / "two.html", other=folders[1], test=test).read_text("utf-8")
    )
    for cells in (page.cells, pair.cells):
        assert "accuracy" in cells
    assert not {"P@5", "precision"} & set(pair.cells)
    assert "validation accuracy" in text


def test_the_page_shows_results_on_test_data(tmp_path, write):
    classifier = load(label_folder(tmp_path / "model"))
    request = PageRequest(
        models=[tmp_path / "model"],
        settings=ReportSettings(examples=3),
        word_tests=WordTests(),
        test=write(TEST, "test.txt"),
        test_labels=None,
        progress=Silent(),
    )
    values = label_pages.values_for_model(classifier, request)
    assert values["key_figures"]["test rows"] == "7"
    assert ["rows with labels", "6"] in values["metrics"]  # one row has no label
    rows = values["by_k"]
    metrics = dict(values["metrics"])
    assert rows[0] == ["k", "precision", "recall", "nDCG"]
    assert list(values["key_figures"]) == ["labels", "test rows", "P@1", "P@5", "log-likelihood"]
    assert [row[0] for row in rows[1:]] == ["1", "2", "3", "4"]  # labels
    assert [(row[1], row[3]) for row in rows[1:4:2]] == [
        (metrics[f"P@{k}"], metrics[f"nDCG@{k}"]) for k in (1, 3)
    ]
    assert rows[4][2] == f"{5 / 6:.4f}"  # all labels but the unknown one
    assert len(values["examples"]) == 1 + 3
    assert "over 6 labelled rows" in values["chart_of_reliability"]["caption"]
    assert ["film", "sport", "1"] in values["confused"]
    assert ["sport", "60", "2", "0.5", "0.5000", "1.0000", "0.6667"] in values["by_label"]
    head, *mistakes = values["mistakes"]
    assert head == ["row", "labels", "best predictions", "words"]
    assert {row[1].split(",")[0] for row in mistakes} == {"film", "rare", "unknown label 4"}
    probabilities = [float(re.search(r" (\d\.\d+)", row[2])[1]) for row in mistakes]
    assert probabilities == sorted(probabilities, reverse=True)
    words = {row[0]: set(row[3].split()) for row in mistakes}
    assert words["5"] == {"goal"}
    assert words["2"] == {"ball", "word"} <= set(FEATURES)


def test_the_page_of_two_classifiers_has_paired_differences(tmp_path, write):
    folders = [label_folder(tmp_path / name) for name in ("one", "two")]
    worse = load(folders[1])
    # of "sport"
    worse.arrays["output"] = worse.arrays["output"] * np.array([[-1], [1], [1], [1]], np.float32)
    worse.settings["labels"] = "first"
    worse.save(folders[1], overwrite=True)
    test = write(TEST, "test.txt")
    text = report(folders[0], tmp_path / "page.html", other=folders[1], test=test).read_text(
        "utf-8"
    )
    cells = Page(text).cells
    models = [load(folder) for folder in folders]
    p_one, p_two = [model.evaluate(read(test, schema=model.schema))["p@1"] for model in models]
    assert any(cell.startswith(f"+{p_one - p_two:.3f} (") for cell in cells)
    assert "recall of one" in text
    assert "one - two" in text
    assert text.index("Settings that differ") < text.index("Scores on")
    assert {"labels", "first"} <= set(cells)  # the setting that differs
    assert "scaling" not in cells
    with refused_data("words", quoting="one"):
        report(
            folders[0],
            tmp_path / "page.html",
            other=word_folder(tmp_path / "words"),
            overwrite=True,
        )


@needs_gensim
def test_the_page_of_two_models_of_words_has_the_neighbours_by_both(
    tmp_path, monkeypatch, capsys, write
):
    monkeypatch.chdir(tmp_path)
    word_folder(tmp_path / "a.embedx")
    other = load_folder(word_folder(tmp_path / "b"))
    other.arrays["input"] = np.roll(other.arrays["input"], 1, axis=0)
    other.save(tmp_path / "b.embedx")
    pairs = write("".join(f"topic0word{k}\ttopic1word{k + 1}\t{k}\n" for k in range(5)))
    typed = [
        "report",
        "a.embedx",
        "b.embedx",
        "--words",
        "topic1word1",
        "--pairs",
        str(pairs),
        "--nearest",
        "3",
    ]
    invoke(*typed)
    assert capsys.readouterr().out == "a-b.report.html\n"
    text = (tmp_path / "a-b.report.html").read_text("utf-8")
    for name in ("a.embedx", "b.embedx"):
        near = load_folder(tmp_path / name).most_similar("topic1word1", top_k=3)
        assert ", ".join(f"{word} ({cosine:.2f})" for word, cosine in near) in Page(text).cells
    assert "a and b cannot be told apart" in text
    assert ">a - b<" in text


def test_models_without_a_word_in_common_have_no_page(tmp_path):
    for name in ("left", "right"):
        vectors = {"input": np.eye(3, dtype=np.float32)}
        WordVectors([f"{name}{k}" for k in range(3)], vectors).save(tmp_path / name)
    with refused_data("right", quoting="left"):
        report(tmp_path / "left", tmp_path / "page.html", other=tmp_path / "right")


def test_models_of_one_name_are_called_by_their_paths():
    assert different_names(["x/ns.embedx", "hs.embedx"]) == ["ns", "hs"]
    assert different_names(["x/ns.embedx", "y/ns.embedx"]) == ["x/ns.embedx", "y/ns.embedx"]
    assert different_names(["ns.embedx", "ns.embedx"]) == ["A", "B"]


def test_the_command_writes_a_page_named_after_the_model(tmp_path, monkeypatch, capsys):
    label_folder(tmp_path / "c.softmax.embedx")
    monkeypatch.chdir(tmp_path)
    typed = ["report", "c.softmax.embedx", "--examples", "2"]
    invoke(*typed)
    assert capsys.readouterr().out == "c.softmax.report.html\n"
    assert default_output("elsewhere/c.softmax.embedx") == Path("c.softmax.report.html")
    assert [path.name for path in tmp_path.iterdir() if "partial" in path.name] == []
    with refused_data("c.softmax.report.html", "overwrite"):
        invoke(*typed)
    (tmp_path / "c.softmax.report.html").write_text("old")
    invoke(*typed, "--overwrite")
    Page((tmp_path / "c.softmax.report.html").read_text("utf-8"))


@pytest.fixture
def two_models(tmp_path, monkeypatch):
    """A working directory with the folders `words` and `labels`, in which no page is left."""
    word_folder(tmp_path / "words")
    label_folder(tmp_path / "labels")
    (tmp_path / "file").write_text("x")
    monkeypatch.chdir(tmp_path)
    before = set(tmp_path.iterdir())
    yield tmp_path
    assert set(tmp_path.iterdir()) == before


@pytest.mark.parametrize("name", ["nowhere", "file"])
def test_what_is_no_model_has_no_page(two_models, name):
    with refused_data(str(two_models / name), quoting=("`embedx train`", "`embedx classify`")):
        report(two_models / name)


def test_a_folder_of_models_has_no_page_but_they_are_named(two_models):
    with refused_data(str(two_models), quoting=("labels", "words")):
        report(two_models)


@pytest.mark.parametrize(
    ("model", "arguments", "place"),
    [
        ("words", {"output": "nowhere/page.html"}, "nowhere/page.html"),
        ("words", {"output": "."}, "."),
        ("labels", {"test": "nowhere"}, "nowhere"),
    ],
)
def test_files_that_a_page_cannot_have_are_refused(two_models, model, arguments, place):
    with refused_data(place) as caught:
        report(two_models / model, **arguments)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("model", "setting", "value"),
    [
        ("words", "test", "x"),
        ("words", "examples", 5),
        ("labels", "words", "a"),
        ("labels", "pairs", ["x"]),
    ],
)
def test_settings_of_the_other_task_are_refused(two_models, model, setting, value):
    folder = two_models / model
    with refused(setting, kind=InapplicableError, quoting=str(folder)):
        report(folder, **{setting: value})


def test_settings_that_a_page_cannot_have_are_refused(two_models):
    with refused("test_labels", "test", kind=InapplicableError):
        report(two_models / "labels", test_labels="x")
    with refused("projection", value="sketch", quoting="tsne, pca"):
        report(two_models / "words", projection="sketch")
    with refused(kind=UnknownWordError, quoting=("nothere", "60 words")):
        report(two_models / "words", words="topic1word1,nothere")


def model_of_items(folder):
    """A folder with the vectors of words, as if they were items of sessions."""
    vectors = load_folder(word_folder(folder))
    vectors.settings["format"] = "sessions"
    return vectors.save(folder, overwrite=True)


def test_the_page_of_items_calls_them_items_and_has_no_test_sets_of_words(tmp_path):
    items = model_of_items(tmp_path / "items.embedx")
    text = report(items, tmp_path / "page.html").read_text("utf-8")
    assert {"Map of items", "Nearest items of random items"} <= set(re.findall("<h2>(.*?)<", text))
    assert "most frequent items" in text
    assert json.loads(Page(text).data)["noun"] == "item"
    assert "WordSim" not in text
    assert "nearest words" not in text
    pair = report(items, tmp_path / "pair.html", other=items).read_text("utf-8")
    assert "<h2>Nearest items</h2>" in pair
    assert "WordSim" not in pair


def test_settings_are_compared_with_the_defaults_for_the_kind_of_data(tmp_path):
    sessions = tmp_path / "sessions.txt"
    sessions.write_text("a b c\nb c d\n" * 20)
    options = {"format": "sessions", "dim": 8, "threads": 1}
    items = embedx.SkipGram(**options).fit(str(sessions)).model
    defaults = default_settings(items)
    for name in ("epochs", "min_count", "sample"):
        assert defaults[name] == items.settings[name]
    assert defaults["dim"] != items.settings["dim"]


def test_items_and_nodes_are_not_scored_on_sets_of_english_words(tmp_path):
    items = model_of_items(tmp_path / "items.embedx")
    nodes = load_folder(items)
    nodes.settings.update(format="auto", walks=10)
    for model, noun in ((items, "items"), (nodes, "nodes")):
        with pytest.raises(DataError) as error:
            evaluate([model])
        assert noun in str(error.value)


@pytest.mark.parametrize("table", ["topic0word0\tDesk Lamp\n", 'topic0word0,"Desk Lamp"\n'])
def test_names_of_items_stand_beside_them(tmp_path, capsys, write, table):
    items = str(model_of_items(tmp_path / "items.embedx"))
    names = str(write(table))
    page = report(items, tmp_path / "page.html", words="topic0word0", names=names)
    text = page.read_text("utf-8")
    assert "topic0word0 (Desk Lamp)" in Page(text).cells
    on_map = json.loads(Page(text).data)
    assert (on_map["words"][0], on_map["titles"][0]) == ("topic0word0", "Desk Lamp")

    near = load_folder(items).most_similar("topic0word0", top_k=1)[0][0]
    invoke("nn", items, near, "--names", names, "--top-k", "1")
    (line,) = capsys.readouterr().out.splitlines()
    assert line.split("\t")[:1] == [near]
    assert len(line.split("\t")) == 4


@pytest.mark.parametrize(
    ("table", "line"),
    [
        ("topic0word0\tLamp\ntopic1word0\n", 2),
        ("topic0word0\tLamp\tred\n", 1),
        ("topic0word0\tLamp\ntopic0word0\tDesk\n", 2),
        ("topic0word0\t\n", 1),
        ("", None),
        ("17\tLamp\n", None),
    ],
)
def test_a_table_that_names_no_items_is_an_error_with_its_line(tmp_path, write, table, line):
    items = model_of_items(tmp_path / "items.embedx")
    with pytest.raises(DataError) as error:
        report(items, tmp_path / "page.html", names=str(write(table)))
    assert error.value.line == line
    assert not (tmp_path / "page.html").exists()
