"""Decisions: coverage by simulation, thresholds and F1 beside brute force and scikit-learn, and the
commands.
"""

import csv
import json
import math

import numpy as np
import pytest
from sklearn.metrics import f1_score

from embedx.classification import classifier, decisions
from embedx.classification.decisions import best_threshold, coverage_sums, threshold_of
from embedx.evaluation.f1 import f1_measures, label_counts
from embedx.labeled.data import Labels
from tests.support.commands import run_command
from tests.support.label_data import write_xc
from tests.support.noisy_labels import N_LABELS, noisy, trained
from tests.support.notes import lines_with
from tests.support.refusals import refused, refused_data


def answers(n, rng, several):
    """Probabilities of the best of 20 labels, whether they are right, and the labels of each row;
    some are not found.
    """
    k = rng.integers(1, 5, n) if several else np.ones(n, int)
    p = -np.sort(-(rng.random((n, 20)).astype(np.float32) ** 2), axis=1)
    p[:, 16:] = 0
    draws = np.argsort(-rng.gumbel(size=p.shape) - 6 * p, axis=1)
    return p, np.argsort(draws, axis=1) < k[:, None], k


@pytest.mark.parametrize("several", [False, True])
def test_prediction_sets_cover_the_labels_of_new_rows_at_the_given_rate(several):
    rng = np.random.default_rng(0)
    thresholds, sums = coverage_sums(*answers(20_000, rng, several))
    for level, n in ((0.5, 100), (0.8, 100), (0.9, 40), (0.9, 400)):
        chosen = [threshold_of(coverage_sums(*answers(n, rng, several)), level) for _ in range(300)]
        coverages = (
            sums[np.searchsorted(-thresholds, np.negative(chosen), side="right") - 1] / 20_000
        )
        error = 3 * np.std(coverages) / math.sqrt(300) + 3 * math.sqrt(level * (1 - level) / 20_000)
        assert level - error < np.mean(coverages) < level + 1 / (n + 1) + error
        assert np.std(coverages) < 1.2 * math.sqrt(level * (1 - level) / n)


def test_a_set_holds_no_more_labels_than_the_definition_asks_for():
    rng = np.random.default_rng(1)
    p, is_right, k = answers(60, rng, True)
    p = np.round(p, 2)  # so that some are equal
    sums = coverage_sums(p, is_right, k)
    decisions.check({"coverage": sums})
    with refused_data("coverage.npy"):
        decisions.check({"coverage": sums[:, ::-1]})
    covered = {t: ((is_right & (p >= t)).sum(axis=1) / k).sum() for t in np.unique(p[p > 0])}
    for level in (0.3, 0.62, 0.9):
        assert threshold_of(sums, level) == max(
            t for t in covered if covered[t] >= 61 * level - 1e-9
        )
    possible = math.floor(1000 * max(covered.values()) / 61) / 1000
    with refused("coverage", value=0.999) as caught:
        threshold_of(sums, 0.999)
    assert caught.value.problem.startswith(f"at most {possible:g} is possible, by 60 held-out rows")
    threshold_of(sums, possible)


def test_the_threshold_of_the_best_f1_is_that_of_brute_force():
    rng = np.random.default_rng(2)
    for _ in range(20):
        p = np.round(answers(15, rng, True)[0], 1)
        is_right = rng.random((15, 20)) < 0.2
        n_true = int(is_right.sum()) + 5
        f1 = {
            t: 2 * is_right[p >= t].sum() / ((p >= t).sum() + n_true) for t in np.unique(p[p > 0])
        }
        assert f1[best_threshold(p, is_right, n_true)] == max(f1.values())
    assert best_threshold(p, np.zeros_like(is_right), 5) == decisions.DEFAULT_THRESHOLD


@pytest.mark.parametrize("several", [False, True])
def test_f1_is_that_of_scikit_learn(several):
    rng = np.random.default_rng(3)
    for _ in range(10):
        true = rng.integers(0, 9, 40)
        predicted = rng.integers(2, 10, 40)
        labels = [Labels.single(ids) for ids in (predicted, true)]
        averages = ("micro", "macro")
        those = {}
        if several:
            true, predicted = (
                rng.random((40, 9)) < share * (np.arange(9) < 7) for share in (0.2, 0.15)
            )
            labels = [Labels.of_matrix(matrix) for matrix in (predicted, true)]
            averages = ("micro", "macro", "samples")
            those = {"labels": np.flatnonzero(true.any(axis=0) | predicted.any(axis=0))}
        measures = f1_measures(*labels)
        for average in averages:
            assert measures[f"f1_{average}"] == pytest.approx(
                f1_score(true, predicted, average=average, zero_division=0, **those)
            )


# ---- models


@pytest.mark.parametrize("several", [False, True])
def test_sets_of_a_classifier_have_their_coverage_and_are_kept_with_it(several, tmp_path):
    data, test = (noisy(n, seed, several=several) for n, seed in ((4000, 0), (4000, 1)))
    test = test.rows(np.flatnonzero(test.labels.n_of_row))
    loaded = classifier.load(trained(data, calibration=0.5).save(tmp_path / "model"))
    for level in (0.7, 0.9):
        chosen = Labels.of_matrix(loaded.predict_set(test.features, coverage=level))
        shares = label_counts(chosen, test.labels)[1].recall
        assert abs(shares.mean() - level) < 4 * shares.std() * math.sqrt(1 / 2000 + 1 / len(test))
    ids, p = next(loaded.iter_top_k(test.features[:9], 2))
    np.testing.assert_array_equal(
        loaded.predict_set(test.features[:9], threshold=p[0, 0], k=2).indices, ids[p >= p[0, 0]]
    )


def test_commands_print_decisions_and_their_scores(tmp_path):
    model = trained(noisy(1500, 0), weights="sparse")
    test = noisy(60, 1)
    model.save(tmp_path / "model")
    test.features.data[:] = test.features.data.round(4)
    write_xc(tmp_path / "test.txt", test.features, [test.labels[i] for i in range(60)], N_LABELS)

    def predict(*options):
        return run_command(tmp_path, "predict", "model", "test.txt", *options)

    every = [json.loads(line) for line in predict("-k", N_LABELS, "--json").stdout.splitlines()]
    of_sets = model.min_probability(coverage=0.8)
    high = sorted(row[0]["probability"] for row in every)[30]
    for options, min_p, max_labels in (
        (["--coverage", 0.8], of_sets, N_LABELS),
        (["--threshold", high, "-k", 2], high, 2),
    ):
        completed = predict("--json", *options)
        expected = [
            [answer for answer in row if answer["probability"] >= min_p][:max_labels]
            for row in every
        ]
        assert [json.loads(line) for line in completed.stdout.splitlines()] == expected
        mean = np.mean([len(row) for row in expected])
        assert lines_with(completed.stderr, f"{mean:.2f} ", "60 rows", f" {expected.count([])}")
    assert [not line for line in predict(*options).stdout.split("\n")[:-1]] == [
        not row for row in expected
    ]
    tested = run_command(
        tmp_path, "eval", "model", "--test", "test.txt", "--per-label", "l.csv", "--json"
    )
    metrics, (measures, _) = json.loads(tested.stdout)["test"], model.evaluate_decisions(test)
    assert {name: metrics[name] for name in measures} == pytest.approx(measures)
    table = list(csv.DictReader((tmp_path / "l.csv").read_text().splitlines()))
    counts = np.bincount(test.labels.ids, minlength=N_LABELS)
    threshold = f"{metrics['threshold']:.4g}"
    expected = [(str(k), str(model.counts[k]), str(counts[k]), threshold) for k in range(N_LABELS)]
    assert [tuple(row.values())[:4] for row in table] == expected


def test_decisions_that_a_model_does_not_support_are_refused_in_one_line(tmp_path):
    data = noisy(60, 0)
    trained(data, "margin").save(tmp_path / "model")
    write_xc(tmp_path / "test.txt", data.features, [[0]] * 60, N_LABELS)
    predict = ["predict", "model", "test.txt"]
    test = ["eval", "model", "--test", "test.txt"]
    for command, place in (
        ([*predict, "--threshold", 0.5], "--threshold: "),
        ([*predict, "--coverage", 0.9], "--coverage: "),
        ([*predict, "--coverage", 0.9, "--threshold", 0.5], "--coverage does not apply "),
        ([*test, "--per-label", "no/l.csv"], "no/l.csv: "),
    ):
        completed = run_command(tmp_path, *command, check=False)
        assert (completed.returncode, completed.stdout) == (2, "")
        assert completed.stderr.splitlines()[-1].startswith(f"embedx: {place}")
    assert "f1_micro" not in run_command(tmp_path, *test).stdout
