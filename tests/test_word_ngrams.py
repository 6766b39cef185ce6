"""The default of word n-grams, chosen by held-out rows."""

import json
from pathlib import Path

import numpy as np
import pytest

from embedx import SoftmaxClassifier
from embedx.classification.classifier import load
from embedx.comparison import runs
from tests.support import forked
from tests.support.commands import invoke
from tests.support.notes import lines_with


def random_words(n, rng):
    """Texts of words in random order, two of which depend on the label."""
    rows = []
    for _ in range(n):
        label = rng.integers(10)
        words = [f"c{k}" for k in rng.integers(0, 20, 12)]
        for position in rng.integers(0, 12, 2):
            words[position] = f"w{(4 * label + rng.integers(8)) % 40}"
        rows.append((f"l{label}", f"{' '.join(words)}, please."))
    return rows


def phrases(n, rng):
    """Texts of the same words for all labels, which only their order tells apart."""
    rows = []
    for _ in range(n):
        label = rng.integers(4)
        order = [("not", "good"), ("good", "not"), ("not", "bad"), ("bad", "not")][label]
        words = [f"c{k}" for k in rng.integers(0, 40, 8)]
        words[3:5] = order
        rows.append((f"l{label}", f"{' '.join(words)} good bad, please."))
    return rows


@pytest.fixture
def written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(rows):
        lines = [f'{label},"{text}"\n' for label, text in rows]
        (tmp_path / "rows.csv").write_text("".join(["label,text\n", *lines]))

    return write


def test_pairs_of_words_are_left_out_where_held_out_rows_are_predicted_better(written, capsys):
    written(random_words(3000, np.random.default_rng(0)))
    invoke("classify", "rows.csv", "--output", "m", "--threads", "1")
    model = load("m")
    assert model.schema.text.settings["word_ngrams"] == 1
    assert len(model.schema.text.hashes) == 0
    assert model.schema.n_features == len(model.schema.text.vocabulary)
    assert model.facts["chosen"]["word_ngrams"] == "from 500 held-out rows"
    log = capsys.readouterr().err
    assert lines_with(log, "word n-grams: 1, ", "from 500 held-out rows: P@1 ")
    assert model.predict(["c1 w4 c2 w5"]).tolist() == model.predict(["w5 c2 w4 c1"]).tolist()


def test_pairs_of_words_are_kept_where_the_order_matters(written, capsys):
    written(phrases(1500, np.random.default_rng(0)))
    invoke("classify", "rows.csv", "--output", "m", "--threads", "1")
    assert load("m").schema.text.settings["word_ngrams"] == 2
    assert "word n-grams" not in capsys.readouterr().err


def test_a_number_of_words_that_is_given_stays(written):
    written(random_words(1500, np.random.default_rng(0)))
    invoke("classify", "rows.csv", "--output", "m", "--threads", "1", "--word-ngrams", "2")
    model = load("m")
    assert model.schema.text.settings["word_ngrams"] == 2
    assert "word_ngrams" not in model.facts["chosen"]


def test_all_runs_of_a_comparison_have_the_features_of_the_test_rows(written, monkeypatch, capsys):
    """Whatever held-out rows of a run would choose."""
    written(random_words(1500, np.random.default_rng(0)))
    word_ngrams = []

    def watched(command, folder):
        request = json.loads(Path(command[-1]).read_text())
        word_ngrams.append(request["arguments"]["options"]["word_ngrams"])
        return forked.watched(command, folder)

    monkeypatch.setattr(runs, "watched", watched)
    options = ["--objectives", "softmax,ova", "--seeds", "1", "--epochs", "1", "--json"]
    invoke("compare", "rows.csv", "--test", "rows.csv", "--output", "c", *options)
    ranking = json.loads(capsys.readouterr().out)
    assert {row["objective"] for row in ranking["objectives"]} == {"softmax", "ova"}
    assert word_ngrams == [2, 2]


@pytest.mark.parametrize(("rows", "word_ngrams"), [(random_words, 1), (phrases, 2)])
def test_the_estimator_chooses_as_the_command_line(written, tmp_path, rows, word_ngrams):
    table = rows(1500, np.random.default_rng(0))
    written(table)
    invoke("classify", "rows.csv", "--output", "m", "--threads", "1")
    by_command = load("m")
    labels, texts = zip(*table, strict=True)
    fitted = SoftmaxClassifier().fit(list(texts), labels)
    text = fitted.classifier_.schema.text
    assert text.settings["word_ngrams"] == word_ngrams
    assert text.settings == by_command.schema.text.settings
    assert fitted.classifier_.facts["chosen"]["word_ngrams"] == "from 375 held-out rows"
    assert by_command.facts["chosen"]["word_ngrams"] == "from 375 held-out rows"
    assert fitted.n_features_in_ == by_command.schema.n_features
    loaded = SoftmaxClassifier.load(fitted.save(tmp_path / "e"))
    assert loaded.predict(texts[:20]).tolist() == fitted.predict(texts[:20]).tolist()
