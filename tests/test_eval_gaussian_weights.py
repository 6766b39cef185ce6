"""eval gaussian-weights: likelihoods by groups of labels, calibration, and the tables of a set."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from embedx.labeled.data import Labeled, Labels
from eval import gaussian_weights as script, papers
from tests.support.eval_setup import Records, Run, environment, experiment_called, rows_of


def test_the_calibration_error_is_that_of_bins_of_probabilities():
    p = np.array([0.95, 0.91, 0.15, 1.0])
    is_right = np.array([True, False, False, True])
    expected = (abs(2 - (0.95 + 0.91 + 1.0)) + 0.15) / 4
    assert script.calibration_error(p, is_right) == pytest.approx(expected)


def references(*_):
    """Two halves of rows of frequent and of rare labels, with features of their own."""
    rng = np.random.default_rng(0)
    label = np.minimum(rng.geometric(0.2, 700), 12).astype(np.int32) - 1
    x = rng.random((700, 40)) < 0.05
    x[np.arange(700), 3 * label] = True
    half = Labeled(csr_matrix(x.astype(np.float32)), Labels.single(label), 12)
    return half, half


def test_a_set_from_training_to_its_table(tmp_path, monkeypatch):
    monkeypatch.setattr(papers, "load", references)
    script.parts_of.cache_clear()
    run = Run(experiment_called("gaussian-weights"), ["bibtex", "softmax"], quick=True)
    run.records = Records(tmp_path / "raw", environment(quick=True), mixed=True)
    run.measure(resume=True)
    for record in run.records.find(data="bibtex"):
        for weights in script.WEIGHTS:
            measured = record["result"][weights]
            assert measured["log_likelihood"] < 0
            assert len(measured["groups"]) == len(script.GROUPS)
    text = script.tables_of("bibtex")(run.records)
    assert [*rows_of(text)] == ["softmax"]
    assert text.count("| point |") == text.count("| gaussian |") == 3
    assert script.tables_of("omniglot")(run.records) == "Not measured."


def references_with_several_labels(*_):
    """The same, with a second label in every other row, and labels that training rows lack."""
    half, _ = references()
    labels = [[label] for label in half.labels.ids]
    for row in labels[1::2]:
        row.append((row[0] + 1) % 12)
    training = Labeled(half.features, Labels.of_rows(labels), 14)
    test = Labeled(half.features, Labels.of_rows([[13], *labels[1:]]), 14)
    return training, test


def test_several_labels_from_training_to_their_table(tmp_path, monkeypatch):
    monkeypatch.setattr(papers, "load", references_with_several_labels)
    script.halves_with_all_labels.cache_clear()
    run = Run(experiment_called("gaussian-weights"), ["bibtex-all", "softmax"], quick=True)
    run.records = Records(tmp_path / "raw", environment(quick=True), mixed=True)
    run.measure(resume=True)
    (record,) = run.records.find(data="bibtex-all")
    assert record["result"]["labels"] == 12
    text = script.table_of_all_labels("bibtex-all")(run.records)
    assert text.count("| point |") == text.count("| gaussian |") == 1


def test_a_row_of_two_labels_is_right_by_half():
    training, _ = references_with_several_labels()
    test = script.of_trained_labels(training, training.rows(np.arange(2)))

    class LabelZero:
        trained_counts = np.ones(12)

        def blocks(self, features):
            yield slice(0, 2), np.log(np.eye(12)[test.labels.ids[[0, 1]]] * 0.5 + 0.5 / 12)

    measured = script.measures_of_all_labels(LabelZero(), test)
    p = 0.5 + 0.5 / 12
    assert measured["accuracy"] == 1
    assert measured["calibration_error"] == pytest.approx(abs(1 + 0.5 - 2 * p) / 2)
