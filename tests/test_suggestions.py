"""Labels that another program suggests, scored beside those of a classifier."""

import json

import numpy as np
import pytest

import embedx
from embedx.classification.classifier import load
from embedx.errors import InapplicableError
from tests.support.commands import invoke
from tests.support.refusals import refused, refused_data

WORDS = {"billing": "invoice refund", "login": "password reset", "delivery": "parcel late"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a model `m` and test rows, one of which has a label that the model lacks."""
    folder = tmp_path_factory.mktemp("suggestions")
    rows = [f"{k},{words},{label}" for k, (label, words) in enumerate([*WORDS.items()] * 10)]
    (folder / "train.csv").write_text("\n".join(["id,text,label", *rows, ""]))
    tests = ["7,invoice,billing", "8,password,login", "9,parcel,delivery", "10,refund,other"]
    (folder / "test.csv").write_text("\n".join(["id,text,label", *tests, ""]))
    invoke("classify", str(folder / "train.csv"), "--output", str(folder / "m"), "--quiet")
    return folder


@pytest.fixture
def scored(folder, capsys):
    """Scores the model beside a file of suggestions: the metrics of both, and the differences."""

    def score(text):
        (folder / "other").write_text(text)
        test = ["--test", str(folder / "test.csv"), "--predictions", str(folder / "other")]
        capsys.readouterr()
        invoke("eval", str(folder / "m"), *test, "--json", "--quiet")
        return json.loads(capsys.readouterr().out)["test"]

    return score


def predicted(folder, capsys, *options):
    invoke("predict", str(folder / "m"), str(folder / "test.csv"), *options)
    return capsys.readouterr().out


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_predictions_of_the_model_itself_score_as_it_does(folder, scored, capsys, options):
    record = scored(predicted(folder, capsys, *options))
    model_scores, suggestion_scores = record["metrics"]
    for name in ("n", "p@1", "p@3", "ndcg@5", "psp@1"):
        assert suggestion_scores[name] == model_scores[name], name
    assert record["difference"]["p@1"] == record["from"]["p@1"] == record["to"]["p@1"] == 0
    assert "psp@1" not in record["difference"]


@pytest.mark.parametrize(
    "text",
    [
        # with probabilities; without; an empty line
        "login\t0.9\tbilling\t0.1\nlogin\t1\nbilling\t0.5\nother\t0.2\n",
        "login\tbilling\nlogin\nbilling\nother\n",
        "login\nlogin\n\nother\n",
        "7\tlogin\n8\tlogin\n9\tbilling\n10\tother\n",
        "__label__login 0.9 __label__billing 0.1\n__label__login 1.00001\n\n__label__other 0.4\n",
        # with a heading
        "id\ttext\tprediction\tp\n7\tb\tlogin\t.9\n8\ta\tlogin\t1\n9\t\t\t\n1\td\tother\t1\n",
        "prediction\nlogin\nlogin\nbilling\nother\n",
    ],
)
def test_suggestions_are_read_in_formats_of_other_programs(scored, text):
    _, suggestion_scores = scored(text)["metrics"]
    assert suggestion_scores["n"] == 4
    # A label that the model does not know is right where the test row has it.
    assert suggestion_scores["p@1"] == 0.5


def test_a_label_suggested_twice_counts_once(scored):
    _, once = scored("billing\nlogin\ndelivery\nother\n")["metrics"]
    _, twice = scored("billing\tbilling\nlogin\tlogin\tlogin\ndelivery\nother\n")["metrics"]
    assert twice == once


@pytest.mark.parametrize("heading", ["", "text,label,score\n"])
def test_suggestions_are_read_from_csv(folder, heading):
    other = folder / "other.csv"
    other.write_text(heading + '"a, b",login,.9\nc,login,1\n,billing,0.2\n"x ""y""",other,.4\n')
    if not heading:
        other.write_text("login,0.9\nlogin,1\nbilling,0.2\nother,0.4\n")
    _, suggestion_scores = embedx.evaluate(
        folder / "m", test=folder / "test.csv", predictions=other
    ).metrics
    assert suggestion_scores["p@1"] == 0.5


@pytest.mark.parametrize("delimiter", [",", ";", "|"])
def test_suggestions_stand_between_the_delimiters_of_any_table(folder, delimiter):
    other = folder / "other.csv"
    for rows in (
        ["login|0.9|billing|0.1", "login|1|other|0", "billing|1|other|0", "other|1|login|0"],
        ["text|label|score", "a|login|1", "c|login|1", "d|billing|1", "x|other|1"],
    ):
        other.write_text("".join(f"{line.replace('|', delimiter)}\n" for line in rows))
        report = embedx.evaluate(folder / "m", test=folder / "test.csv", predictions=other)
        assert report.metrics[1]["p@1"] == 0.5


def test_suggestions_are_split_as_the_labels_of_the_training_table_are(tmp_path, capsys):
    rows = ["1,invoice,billing; money", "2,password,login", "3,parcel,delivery", "4,refund,money"]
    (tmp_path / "train.csv").write_text("\n".join(["id,text,label", *rows * 5, ""]))
    (tmp_path / "test.csv").write_text("id,text,label\n7,a,money; x\n8,b,login\n")
    model = str(tmp_path / "m")
    options = ["--set", "label-separator=;", "--quiet"]
    invoke("classify", str(tmp_path / "train.csv"), "--output", model, *options)
    test = ["--test", str(tmp_path / "test.csv"), "--predictions", str(tmp_path / "other")]
    for text in ["money; x\nlogin;\n", "7\tmoney; x\n8\tlogin\n", "money\tx\nlogin\n"]:
        (tmp_path / "other").write_text(text)
        capsys.readouterr()
        invoke("eval", model, *test, "--json", "--quiet")
        _, suggestion_scores = json.loads(capsys.readouterr().out)["test"]["metrics"]
        assert (suggestion_scores["p@1"], suggestion_scores["p@3"]) == (1, 0.5)


def test_the_difference_is_paired_and_has_an_interval(scored):
    record = scored("login\nlogin\ndelivery\nx\n")
    model_scores, suggestion_scores = record["metrics"]
    assert (model_scores["p@1"], suggestion_scores["p@1"]) == (0.75, 0.5)
    assert record["difference"]["p@1"] == pytest.approx(0.25)
    assert record["from"]["p@1"] < 0.25 < record["to"]["p@1"]
    assert record["models"][1].endswith("other")


def test_files_that_do_not_fit_the_test_rows_are_refused(folder, scored):
    with refused_data("other", quoting=["2 lines", "4 rows"]):
        scored("login\nlogin\n")
    with refused_data("other", quoting=["5 lines", "4 rows"]):
        scored("login\nlogin\nlogin\nlogin\nlogin\n")
    with refused_data("other", quoting='"cats"'):
        scored("cats\ndogs\ncats\ndogs\n")
    with refused("predictions", "test", kind=InapplicableError):
        invoke("eval", str(folder / "m"), "--predictions", str(folder / "other"))


@pytest.mark.parametrize(
    ("name", "text", "place"),
    [
        ("labels.jsonl", '{"labels": 5}\n{"labels": null}\n{"labels": "login"}\n[1]\n', ""),
        ("deep.jsonl", "[" * 100_000 + "\n\n\n\n", ""),
        ("old.csv", "a\rb,login\n\n\n\n", ":1"),
    ],
)
def test_files_without_suggestions_are_refused(folder, name, text, place):
    (folder / name).write_text(text, newline="")
    options = ["--test", str(folder / "test.csv"), "--predictions", str(folder / name)]
    with refused_data(f"{name}{place}"):
        invoke("eval", str(folder / "m"), *options, "--quiet")


def test_suggestions_of_labels_by_number(tmp_path, capsys):
    (tmp_path / "train.txt").write_text("4 3 3\n0 0:1\n1 1:1\n2,0 2:1\n1 1:1\n")
    (tmp_path / "test.txt").write_text("2 3 3\n0 0:1\n1,2 1:1\n")
    (tmp_path / "other").write_text("2\t0\n1\t2\n")
    model = str(tmp_path / "m")
    invoke("classify", str(tmp_path / "train.txt"), "--output", model, "--quiet")
    assert load(model).schema.names is None
    capsys.readouterr()
    test = ["--test", str(tmp_path / "test.txt"), "--predictions", str(tmp_path / "other")]
    invoke("eval", model, *test, "--json", "--quiet")
    _, suggestion_scores = json.loads(capsys.readouterr().out)["test"]["metrics"]
    assert (suggestion_scores["p@1"], suggestion_scores["p@3"]) == (0.5, 0.5)


def test_predictions_are_scored_from_python_as_by_the_command(folder, scored):
    record = scored("login\nlogin\ndelivery\nx\n")
    model_scores, suggestion_scores = record["metrics"]
    files = {"test": folder / "test.csv", "predictions": folder / "other"}
    report = embedx.evaluate(folder / "m", **files)
    assert report.sides == record["models"]
    assert report == {name: pytest.approx(value) for name, value in model_scores.items()}
    assert report.metrics[1]["p@1"] == suggestion_scores["p@1"]
    assert report.differences["p@1"].interval()[1] == pytest.approx(record["to"]["p@1"])


def test_two_classifiers_are_scored_on_the_same_rows(folder):
    model = load(str(folder / "m"))
    report = embedx.evaluate(model, against=[model, model], test=folder / "test.csv")
    assert report.sides == ["softmax", "softmax 2", "softmax 3"]
    assert not report.differences
    report = embedx.evaluate(model, against=folder / "m", test=folder / "test.csv")
    assert report.sides == ["softmax", str(folder / "m")]
    assert report.differences["p@1"].value == 0


def test_word_models_and_word_test_sets_are_refused_for_a_classifier(folder):
    words = embedx.WordVectors(["a", "b"], {"input": np.ones((2, 2), np.float32)})
    test = folder / "test.csv"
    with refused("pairs", kind=InapplicableError):
        embedx.evaluate(folder / "m", test=test, pairs="pairs.tsv")
    with refused_data("WordVectors"):
        embedx.evaluate(folder / "m", test=test, against=words)
    with refused_data("Classifier"):
        embedx.evaluate(words, against=load(str(folder / "m")))
