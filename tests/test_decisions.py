"""Decisions: coverage by simulation, thresholds and F1 beside brute force and scikit-learn, and the commands."""

import csv
import json
import math

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.metrics import f1_score

from embedx import objectives
from embedx.classification import calibration, classifier, decisions
from embedx.classification.decisions import best_threshold, coverage_sums, threshold_of
from embedx.errors import EmbedxError
from embedx.evaluation.labels import f1_measures
from embedx.labeled.data import DataSchema, Labeled, Labels
from tests.forked import embedx_run
from tests.label_data import write_xc

N_LABELS, N_FEATURES = 12, 30


def answers(n, rng, several):
    """Probabilities of the best of 20 labels, whether they are right, and the labels of each row; some are not found."""
    k = rng.integers(1, 5, n) if several else np.ones(n, int)
    p = -np.sort(-(rng.random((n, 20)).astype(np.float32) ** 2), axis=1)
    p[:, 16:] = 0
    draws = np.argsort(-rng.gumbel(size=p.shape) - 6 * p, axis=1)
    return p, np.argsort(draws, axis=1) < k[:, None], k


def share_covered(p, is_right, n_true, least):
    return ((is_right & (p >= least) & (p > 0)).sum(axis=1) / n_true).mean()


@pytest.mark.parametrize("several", [False, True])
def test_sets_cover_the_labels_of_new_rows_as_often_as_asked_for(several):
    rng = np.random.default_rng(0)
    thresholds, sums = coverage_sums(*answers(20_000, rng, several))
    for level, n in ((0.5, 100), (0.8, 100), (0.9, 40), (0.9, 400)):
        chosen = [threshold_of(coverage_sums(*answers(n, rng, several)), level) for _ in range(300)]
        found = sums[np.searchsorted(-thresholds, np.negative(chosen), side="right") - 1] / 20_000
        error = 3 * np.std(found) / math.sqrt(300) + 3 * math.sqrt(level * (1 - level) / 20_000)
        assert level - error < np.mean(found) < level + 1 / (n + 1) + error
        assert np.std(found) < 1.2 * math.sqrt(level * (1 - level) / n)


def test_a_set_holds_no_more_labels_than_the_definition_asks_for():
    rng = np.random.default_rng(1)
    p, is_right, k = answers(60, rng, True)
    p = np.round(p, 2)  # so that some are equal
    sums = coverage_sums(p, is_right, k)
    decisions.check({"coverage": sums})
    for level in (0.3, 0.62, 0.9):
        candidates = [t for t in np.unique(p[p > 0]) if 60 * share_covered(p, is_right, k, t) >= 61 * level - 1e-9]
        assert threshold_of(sums, level) == max(candidates)
    possible = math.floor(1000 * 60 * share_covered(p, is_right, k, 1e-9) / 61) / 1000
    with pytest.raises(EmbedxError, match=f"--coverage 0.999: at most {possible:g} is possible, by 60 held-out rows"):
        threshold_of(sums, 0.999)
    threshold_of(sums, possible)


def test_the_threshold_of_the_best_f1_is_that_of_brute_force():
    rng = np.random.default_rng(2)
    for _ in range(20):
        p, is_right = np.round(answers(15, rng, True)[0], 1), rng.random((15, 20)) < 0.2
        n_true = int(is_right.sum()) + 5
        f1 = {t: 2 * is_right[p >= t].sum() / ((p >= t).sum() + n_true) for t in np.unique(p[p > 0])}
        assert f1[best_threshold(p, is_right, n_true)] == max(f1.values())
    assert best_threshold(p, np.zeros_like(is_right), 5) == decisions.DEFAULT_THRESHOLD
    assert best_threshold(np.zeros((0, 5)), np.zeros((0, 5), bool), 0) == decisions.DEFAULT_THRESHOLD


@pytest.mark.parametrize("several", [False, True])
def test_f1_is_that_of_scikit_learn(several):
    rng = np.random.default_rng(3)
    for _ in range(10):
        if several:
            true, predicted = (rng.random((40, 9)) < share for share in (0.2, 0.15))
            true[:, 7:], predicted[:, 8] = False, False
            truth = [Labels.of_matrix(each) for each in (predicted, true)]
            occur = {"labels": np.flatnonzero(true.any(axis=0) | predicted.any(axis=0))}
        else:
            true, predicted = rng.integers(0, 9, 40), rng.integers(2, 10, 40)
            truth, occur = [Labels.single(each) for each in (predicted, true)], {}
        expected = {
            f"f1_{each}": f1_score(true, predicted, average=each, zero_division=0, **occur) for each in ("micro", "macro")
        }
        if several:
            expected["f1_samples"] = f1_score(true, predicted, average="samples", zero_division=0)
        found = f1_measures(*truth)
        assert {name: found[name] for name in expected} == pytest.approx(expected, rel=1e-12)


# ---- models


def rows(n, seed, several=True):
    """Rows whose labels are drawn by the probabilities of a logistic model, and its weights."""
    rng, weights = np.random.default_rng(seed), np.random.default_rng(99).normal(size=(N_LABELS, N_FEATURES)).astype(np.float32)
    x = rng.normal(size=(n, N_FEATURES)).astype(np.float32) * (rng.random((n, N_FEATURES)) < 0.4)
    z = x @ weights.T - 1
    lists = [np.flatnonzero(row) for row in rng.random(z.shape) < 1 / (1 + np.exp(-z))] if several else None
    labels = Labels.of_rows(lists) if several else Labels.single((z + rng.gumbel(size=z.shape)).argmax(axis=1))
    return Labeled(csr_matrix(x), labels, N_LABELS), weights


def model(several=True, held_out=1500, name=None):
    """A classifier with these weights, whose decisions are chosen on held-out rows, if there are any."""
    data, weights = rows(held_out, 0, several)
    made = objectives.find(name or ("ova" if several else "softmax"))
    arrays = {"output": weights, "bias": np.full(N_LABELS, -1, np.float32)}
    counts, facts = np.arange(1, N_LABELS + 1), {"several_labels": several, "examples": 100}
    found = classifier.Classifier(made(made.Settings()), arrays, DataSchema(N_FEATURES, N_LABELS), counts, {}, facts)
    found.objective.prepare(counts)
    if held_out:
        found.calibrate(data)
        found.fit_decisions(data)
    return found


@pytest.mark.parametrize("several", [False, True])
def test_sets_of_a_classifier_have_their_coverage_and_are_kept_with_it(several, tmp_path):
    found, (test, _) = model(several), rows(4000, 1, several)
    test = test.rows(np.flatnonzero(test.labels.n_of_row))
    loaded = classifier.load(found.save(tmp_path / "model"))
    for level in (0.7, 0.9):
        chosen = loaded.predict_set(test.features, coverage=level)
        own = csr_matrix((np.ones(len(test.labels.ids)), test.labels.ids, test.labels.offsets), chosen.shape)
        shares = np.asarray((chosen > 0).multiply(own).sum(axis=1)).ravel() / test.labels.n_of_row
        assert abs(shares.mean() - level) < 4 * shares.std() * math.sqrt(1 / 1500 + 1 / 4000)
    ids, p = next(found.top_k(test.features, N_LABELS))
    chosen = found.predict_set(test.features, threshold=0.4, k=2)
    np.testing.assert_array_equal(np.diff(chosen.indptr), (p[:, :2] >= 0.4).sum(axis=1))
    np.testing.assert_array_equal(chosen.indices, ids[:, :2][p[:, :2] >= 0.4])


def test_commands_print_decisions_and_their_scores(tmp_path):
    found, (test, _) = model(), rows(60, 1)
    found.save(tmp_path / "model")
    write_xc(tmp_path / "test.txt", test.features, [test.labels[i] for i in range(60)], N_LABELS)
    every = [
        json.loads(line)
        for line in embedx_run(tmp_path, "predict", "model", "test.txt", "-k", 12, "--json").stdout.splitlines()
    ]
    for options, least, most in ((["--threshold", 0.6], 0.6, 12), (["--threshold", 0.3, "-k", 2], 0.3, 2),
                                 (["--coverage", 0.8], found.min_probability(coverage=0.8), 12)):  # fmt: skip
        done = embedx_run(tmp_path, "predict", "model", "test.txt", "--json", *options)
        expected = [[each for each in row if each["probability"] >= least][:most] for row in every]
        assert [json.loads(line) for line in done.stdout.splitlines()] == expected
        mean, empty = np.mean([len(row) for row in expected]), sum(not row for row in expected)
        assert f"{mean:.2f} for each of 60 rows on average, none for {empty}" in done.stderr
    lines = embedx_run(tmp_path, "predict", "model", "test.txt", *options).stdout.split("\n")[:-1]
    assert [line == "" for line in lines] == [not row for row in expected]
    metrics = json.loads(embedx_run(tmp_path, "eval", "model", "--test", "test.txt", "--per-label", "l.csv", "--json").stdout)
    predicted, true = found.decided(test)
    assert metrics["test"]["threshold"] == found.facts["threshold"]
    for name, value in f1_measures(predicted, true).items():
        assert metrics["test"][name] == pytest.approx(value)
    table = list(csv.DictReader((tmp_path / "l.csv").read_text().splitlines()))
    assert [row["label"] for row in table] == [str(k) for k in range(N_LABELS)]
    assert [int(row["test_count"]) for row in table] == np.bincount(true.ids, minlength=N_LABELS).tolist()
    assert np.mean([float(row["f1"]) for row in table]) == pytest.approx(metrics["test"]["f1_macro"], abs=1e-4)


def test_what_a_model_cannot_decide_is_refused_in_a_line(tmp_path):
    model(held_out=0, name="margin").save(tmp_path / "model")
    write_xc(tmp_path / "test.txt", rows(5, 0)[0].features, [[0]] * 5, N_LABELS)
    remedy = "train with rows held out, by --calibration or --validation"
    for options, why in (
        (["--threshold", 0.5], f"--threshold: margin has no probabilities of its own, and nothing calibrates them; {remedy}"),
        (
            ["--coverage", 0.9],
            f"--coverage: the model was trained without at least {calibration.MIN_ROWS} held-out rows; {remedy}",
        ),
        (
            ["--coverage", 0.9, "--threshold", 0.5],
            "--coverage does not apply with --threshold or --search; leave out one of them",
        ),
    ):
        done = embedx_run(tmp_path, "predict", "model", "test.txt", *options, check=False)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.splitlines()[-1] == f"embedx: {why}"
    lost = embedx_run(tmp_path, "eval", "model", "--test", "test.txt", "--per-label", "no/l.csv", check=False)
    assert "--per-label no/l.csv: no such folder; make it, or name another file" in lost.stderr
    assert "f1_micro" not in embedx_run(tmp_path, "eval", "model", "--test", "test.txt").stdout
