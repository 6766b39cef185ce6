"""What a notebook shows of models and scores: tables of HTML whose text is escaped."""

import re

import numpy as np
import pytest

import embedx
from embedx.evaluation import word_report
from embedx.pages import notebook


@pytest.fixture(scope="module")
def classifier():
    x = np.eye(2, dtype=np.float32).repeat(20, axis=0)
    y = np.array(["<b>", "plain"]).repeat(20)
    return embedx.SoftmaxClassifier(epochs=1).fit(x, y).classifier_


def cells(html):
    assert re.sub(r"</?(?:table|thead|tbody|tr|th|td|p)\b[^<>]*>", "", html).count("<") == 0
    return re.findall(r"<t[hd]>(.*?)</t[hd]>", html)


def test_tables_and_sentences_are_escaped():
    assert cells(notebook.table([["a<", 1], ["&", '"']])) == ["a&lt;", "1", "&amp;", "&quot;"]
    assert notebook.table([]) == ""
    assert notebook.sentences(["<", ""]) == "<p>&lt;</p>"
    assert cells(notebook.facts_table({"<": "<"})) == ["&lt;", "&lt;"]


def test_numbers_of_facts_are_rounded_and_have_commas():
    facts = {"loss": 1.9441918443, "epochs": 10.0, "words": 12345, "saved": True}
    assert cells(notebook.facts_table(facts))[1::2] == ["1.94419", "10", "12,345", "True"]


def test_a_classifier_is_a_table_of_facts(classifier):
    shown = cells(classifier._repr_html_())
    facts = dict(zip(shown[::2], shown[1::2], strict=True))
    assert facts["objective"] == "softmax"
    assert facts["training rows"] == "40"
    assert facts["first labels"] == "&lt;b&gt;, plain"


def test_numbers_of_a_table_are_shown_as_standardised(tmp_path):
    (tmp_path / "rows.csv").write_text("area,label\n" + "1,a\n200,b\n" * 20)
    shown = cells(embedx.classify(tmp_path / "rows.csv", epochs=1)._repr_html_())
    assert shown[shown.index("scaling") + 1] == "standard"


def test_scores_of_a_classifier_are_tables_with_the_numbers_of_the_text(classifier):
    x = np.eye(2, dtype=np.float32)
    report = embedx.evaluate(classifier, x, ["<b>", "plain"])
    html = report._repr_html_()
    assert "accuracy" in cells(html)
    for cell in cells(html):
        assert cell in repr(report)
    several = embedx.evaluate(classifier, x, ["<b>", "plain"], against=classifier)
    assert "<th>metric</th>" in several._repr_html_()


def test_scores_of_word_vectors_have_a_row_for_each_test():
    score = word_report.TestScore("ws<353", "a", "spearman", 0.5, (0.4, 0.6), 9, 10, 100, None)
    report = word_report.Report(["a"], [score], [], [], 1, "", "input", 1)
    shown = cells(report._repr_html_())
    assert shown[:2] == ["set", "measure"]
    assert "ws&lt;353" in shown
