"""The numbers of a classifier's page against loops over rows: bins, coverage, confusion."""

import numpy as np
import pytest

from embedx.classification.prediction_analysis import PredictionAnalysis, Predictions
from embedx.evaluation import error_analysis
from embedx.labeled.data import Labels
from embedx.report import confusion


def drawn_answers(seed, n_rows=60, n_labels=9, k=5):
    """Answers and labels of rows: none, one or several of them, some unknown to the classifier."""
    rng = np.random.default_rng(seed)
    top = np.array([rng.permutation(n_labels)[:k] for _ in range(n_rows)], np.int32)
    rows = [
        rng.choice(n_labels + 2, rng.integers(0, 4), replace=False).tolist() for _ in range(n_rows)
    ]
    counts = rng.integers(0, 6, n_labels) ** 2
    return top, rows, counts


def naive_bin(label, counts):
    n = 0 if label >= len(counts) else counts[label]
    return sum(n >= first for first in (1, 2, 6, 21, 101, 1_001, 10_001))


@pytest.mark.parametrize("seed", range(2))
def test_recall_by_frequency_of_labels_equals_a_loop(seed):
    top, rows, counts = drawn_answers(seed)
    groups = {
        group.name: group
        for group in error_analysis.by_frequency(top, Labels.of_rows(rows), counts, ks=(1, 3))
    }
    for k, name in enumerate(error_analysis.names_of_bins()):
        counts_of_bin = [n for label, n in enumerate(counts) if naive_bin(label, counts) == k]
        pairs = [
            (best, label)
            for best, row in zip(top, rows, strict=True)
            for label in row
            if naive_bin(label, counts) == k
        ]
        if not counts_of_bin and not pairs:
            assert name not in groups
            continue
        frequency_group = groups[name]
        assert (frequency_group.labels, frequency_group.occurrences) == (
            len(counts_of_bin),
            len(pairs),
        )
        for best in (1, 3):
            if pairs:
                expected = sum(label in answered[:best] for answered, label in pairs) / len(pairs)
            else:
                expected = np.nan
            assert frequency_group.recall[best] == pytest.approx(expected, nan_ok=True)
        first = [
            best[0] in row
            for best, row in zip(top, rows, strict=True)
            if naive_bin(best[0], counts) == k
        ]
        assert frequency_group.predicted == len(first)
        assert frequency_group.precision == pytest.approx(
            sum(first) / len(first) if first else np.nan, nan_ok=True
        )


def test_bins_tell_labels_of_one_training_row_from_those_of_a_few():
    counts = np.array([0, 1, 2, 5, 6, 20, 21, 100, 101, 1_000, 1_001, 10_000, 10_001])
    names = error_analysis.names_of_bins()
    assert [names[place] for place in error_analysis.bin_of_labels(counts)] == [
        "not in training",
        "1",
        *["2 to 5"] * 2,
        *["6 to 20"] * 2,
        *["21 to 100"] * 2,
        *["101 to 1,000"] * 2,
        *["1,001 to 10,000"] * 2,
        "10,001 and more",
        "not in training",
    ]


def test_coverage_and_accuracy_at_thresholds():
    probability = np.array([0.97, 0.4, 0.9, 0.9, 0.75])
    is_right = np.array([True, False, True, False, True])
    accepted = error_analysis.accepted(probability, is_right)
    rows = {row.threshold: (row.coverage, row.accuracy) for row in accepted}
    assert rows[0.0] == (1.0, 0.6)
    assert rows[0.7] == (0.8, 0.75)
    assert rows[0.9] == (0.6, pytest.approx(2 / 3))
    assert rows[0.95] == (0.2, 1.0)
    assert rows[0.99] == (0, pytest.approx(np.nan, nan_ok=True))
    threshold, coverage, accuracy = error_analysis.coverage_curve(probability, is_right)
    assert threshold.tolist() == [0.97, 0.9, 0.75, 0.4]
    # Rows of equal probability are accepted together.
    assert coverage.tolist() == [0.2, 0.6, 0.8, 1.0]
    assert accuracy.tolist() == pytest.approx([1, 2 / 3, 0.75, 0.6])
    assert [len(part) for part in error_analysis.coverage_curve(probability[:0], is_right[:0])] == [
        0
    ] * 3


def test_headlines_say_how_many_suggestions_are_right():
    best = [[0, 1, 2, 3, 4, 5], [1, 0, 2, 3, 4, 5], [3, 4, 0, 1, 2, 5], [2, 0, 1, 3, 4, 5]]
    top = np.array(best, np.int32)
    probability = np.full(top.shape, 0.5, np.float32)
    counts = np.array([50, 50, 50, 1, 30, 200])

    def headlines(rows):
        labels = Labels.of_rows(rows)
        predicted = Predictions(top, probability, labels, np.arange(len(top)))
        return PredictionAnalysis(predicted, counts).headlines

    assert headlines([[0], [0], [3], [2]]) == [
        "75 of 100 first suggestions are right.",
        "The right label is among 5 suggestions for 100 of 100 rows.",
        "Labels with 1 training row are the first suggestion for 100 of 100 of their rows.",
    ]
    assert headlines([[0, 2], [0, 1, 4], [7], []]) == [
        "Of 5 suggestions 1.7 are right; rows have 2.0 labels.",
        "67 of 100 first suggestions are right.",
        "33 of 100 rows have only labels that do not occur in training.",
        "Labels with 21 to 100 training rows are among 5 suggestions for 100 of 100 of their rows.",
    ]
    assert headlines([[], [], [], []]) == []


def test_a_label_beyond_all_answers_is_not_found_however_many_are_asked_for():
    only, *_ = error_analysis.by_frequency(
        np.array([[0, 1]]), Labels.of_rows([[2]]), np.array([4, 4, 4])
    )
    assert only.recall == {1: 0, 3: 0, 5: 0}


@pytest.mark.parametrize("seed", range(2))
def test_confused_labels_are_counted_as_by_a_loop_and_sorted(seed):
    top, rows, _ = drawn_answers(seed, n_rows=200)
    labels = Labels.of_rows(rows)
    pairs = {}
    for best, row in zip(top.tolist(), rows, strict=True):
        share = best[: len(row)]
        for label in row:
            if label not in share:
                for answer in set(share) - set(row):
                    pairs[label, answer] = pairs.get((label, answer), 0) + 1
    confusions = error_analysis.confusions(top, labels)
    assert {
        (confusion.label, confusion.prediction): confusion.rows for confusion in confusions
    } == pairs
    assert [confusion.rows for confusion in confusions] == sorted(pairs.values(), reverse=True)


@pytest.mark.parametrize("seed", range(2))
def test_reliability_and_calibration_error_equal_a_loop(seed):
    rng = np.random.default_rng(seed)
    p = np.concatenate([rng.random(300), [0.0, 1.0, 0.3]])
    p = p[~((p > 0.5) & (p < 0.6))]  # one bin is empty
    right = rng.random(len(p)) < p**2
    bins = error_analysis.reliability(p, right)
    error = 0.0
    for k in range(10):
        inside = [i for i in range(len(p)) if min(int(10 * p[i]), 9) == k]
        assert bins.n[k] == len(inside)
        if not inside:
            assert np.isnan(bins.accuracy[k])
            continue
        confidence = np.mean([p[i] for i in inside])
        accuracy = np.mean([right[i] for i in inside])
        assert (bins.confidence[k], bins.accuracy[k]) == pytest.approx((confidence, accuracy))
        error += len(inside) / len(p) * abs(accuracy - confidence)
    assert bins.n[5] == 0
    assert bins.error == pytest.approx(error)
    assert error_analysis.reliability(np.array([1.0, 1.0]), np.array([True, True])).error == 0
    assert np.isnan(error_analysis.reliability(np.zeros(0), np.zeros(0, bool)).error)


def test_confusion_counts_rows_by_label_and_best_prediction():
    labels = Labels.of_rows([[0], [0], [], [2], [7]])
    top = np.array([[0, 1], [2, 0], [0, 1], [2, 0], [0, 2]])
    matrix = error_analysis.confusion_matrix(top, labels)
    assert matrix.labels.tolist() == [0, 2, 7]
    assert matrix.rows.tolist() == [[1, 1, 0], [0, 1, 0], [1, 0, 0]]
    chart = confusion.heatmap(["label 0", "label 2", "label 7"], matrix)
    rows = [cell["row"] for cell in chart["cells"]]
    assert rows[1] == ["label 0", "label 2", 1, 0.5]
    assert [cell["style"] for cell in chart["cells"]] == ["c0", "c1", "c0", "c1"]
    several = Labels.of_rows([[0, 1], [0], [], [2], [7]])
    assert error_analysis.confusion_matrix(top, several) is None


def test_of_many_labels_the_most_confused_are_shown():
    label = np.concatenate([np.repeat(np.arange(40), 9), np.repeat([25, 3], 5)])
    best = np.concatenate([np.repeat(np.arange(40), 9), np.repeat([3, 39], 5)])
    matrix = error_analysis.confusion_matrix(best[:, None], Labels.single(label))
    assert len(matrix.labels) == error_analysis.N_MOST_CONFUSED
    assert {3, 25, 39} <= set(matrix.labels.tolist())
    assert matrix.n_labels == 40
    place = matrix.labels.tolist().index
    assert matrix.rows[place(25), place(3)] == 5
    assert matrix.n_of_label[place(25)] == 14
    is_few = label < 30
    few_labels = error_analysis.confusion_matrix(label[is_few, None], Labels.single(label[is_few]))
    assert few_labels.labels.tolist() == [*range(30)]


def test_a_confusion_of_very_many_labels_takes_little_memory():
    label = np.arange(200_000)
    matrix = error_analysis.confusion_matrix(label[::-1, None], Labels.single(label))
    assert matrix.rows.shape == (error_analysis.N_MOST_CONFUSED, error_analysis.N_MOST_CONFUSED)
