"""Calibration: what is printed as a probability is one, on rows that nobody trained on."""

import numpy as np
import pytest

from embedx.classification import calibration, classifier
from embedx.classification.calibration import MAX_ROWS, MIN_ROWS
from embedx.evaluation.labels import LabelMetrics
from tests.support.noisy_labels import N_LABELS, answers, largest_error, noisy, sigmoid, trained
from tests.support.notes import Notes, lines_with
from tests.support.refusals import refused_data


def test_calibration_recovers_probabilities_and_keeps_the_order_of_labels():
    rng = np.random.default_rng(0)
    scores = -np.sort(-rng.normal(-1, 2, (4000, 8)), axis=1)
    truth = sigmoid(
        1.5 * scores + np.maximum(scores, 0) - 0.6 * np.log(np.arange(1, 9)) - 0.3 * scores[:, :1]
    )
    is_right = rng.random(truth.shape) < truth
    fitted = calibration.fit(scores[:2000], is_right[:2000])
    p = calibration.probabilities(fitted, scores[2000:])
    assert np.abs(p[:, :5] - truth[2000:, :5]).mean() < 0.02
    assert largest_error(p[:, :5], truth[2000:, :5]) < 0.03
    assert (np.diff(p, axis=1) <= 0).all()
    np.testing.assert_array_equal(
        calibration.probabilities(fitted, np.array([[0.5, -np.inf]]))[:, 1], 0
    )


@pytest.mark.parametrize(
    ("scores", "is_right"),
    [
        (np.zeros((0, 5)), np.zeros((0, 5), bool)),
        (np.zeros((150, 5)), np.ones((150, 5), bool)),
        (np.full((150, 5), -np.inf), np.zeros((150, 5), bool)),
        (np.arange(150.0)[:, None], np.arange(150)[:, None] > 75),
    ],
    ids=["no rows", "all alike and right", "no answers", "told apart by one label alone"],
)
def test_degenerate_answers_can_be_calibrated(scores, is_right):
    fitted = calibration.fit(scores, is_right)
    calibration.check({"calibration": fitted})
    p = calibration.probabilities(fitted, np.array([[2.0, 1.0], [0.0, 0.0]]))
    assert ((p >= 0) & (p <= 1)).all()


@pytest.mark.parametrize(
    ("objective", "options", "settings", "several", "dense"),
    [
        (None, {}, {"weights": "dense"}, True, False),
        (None, {}, {"weights": "sparse"}, True, False),
        (None, {}, {"weights": "tree", "leaf_size": 5}, True, False),
        (None, {}, {}, True, True),
        (None, {}, {}, False, False),
        ("ova", {"loss": "squared-hinge"}, {"weights": "dense"}, False, False),
        ("ova", {"loss": "squared-hinge"}, {"weights": "tree", "leaf_size": 5}, False, False),
    ],
)
def test_printed_probabilities_are_between_0_and_1(objective, options, settings, several, dense):
    data = noisy(4000, 0, dense=dense, several=several)
    test = noisy(6000, 1, dense=dense, several=several)
    model = trained(data, objective, options, calibration=0.5, neighbours="none", **settings)
    assert model.facts["examples"] == 2000
    p, is_right = answers(model, test)
    error = largest_error(p, is_right, min_answers=500)
    # of one label a row there are fewer right answers to learn from
    assert error < (0.03 if several else 0.06)
    del model.arrays["calibration"]
    raw, still_right = answers(model, test)
    np.testing.assert_array_equal(is_right, still_right)
    assert largest_error(raw, is_right, min_answers=500) > error + 0.02


def test_probabilities_of_single_label_rows_sum_to_at_most_one_for_every_top_k():
    p = np.array([[0.6, 0.5, 0.3], [0.4, 0.3, 0.1], [1, 0, 0]], np.float32)
    np.testing.assert_allclose(
        calibration.of_one_label(p), [[0.6, 0.25, 0.15], [0.4, 0.3, 0.1], [1, 0, 0]], rtol=1e-6
    )
    data = noisy(2000, 0, several=False)
    test = noisy(500, 1, several=False)
    for neighbours in ("none", "5"):
        model = trained(
            data, "ova", {"loss": "squared-hinge"}, weights="sparse", neighbours=neighbours
        )
        every, top_3 = (answers(model, test, k)[0] for k in (N_LABELS, 3))
        assert every.sum(axis=1).max() < 1 + 1e-5
        np.testing.assert_array_equal(top_3, every[:, :3])


def test_rows_are_held_out_where_there_are_enough_and_nothing_else_to_calibrate_on():
    data = noisy(10 * MIN_ROWS, 0)
    assert trained(data, weights="sparse", calibration=0.2).facts["examples"] == 8 * MIN_ROWS
    assert calibration.n_held_out(10**6, 0.1) == MAX_ROWS
    default = trained(data, weights="sparse", neighbours="5")
    small = trained(data.rows(np.arange(500)), weights="sparse")
    every = trained(
        data, weights="sparse", calibration=0.0, propensity=default.settings["propensity"]
    )
    assert (small.facts["examples"], every.facts["examples"]) == (500, len(data))
    assert "calibration" not in small.arrays.keys() | every.arrays.keys()
    # The held-out rows of the default are trained on in the end, and are among the neighbours.
    assert default.facts["examples"] == len(default.arrays["neighbour_offsets"]) - 1 == len(data)
    np.testing.assert_array_equal(default.arrays["tree_weight"], every.arrays["tree_weight"])
    assert {"calibration", "neighbour_calibration", "coverage"} <= default.arrays.keys()
    watched = trained(data, weights="sparse", validation="0.3")
    assert watched.facts["examples"] == 7 * MIN_ROWS
    assert "calibration" in watched.arrays


def test_a_calibration_is_kept_with_the_model_and_one_that_is_damaged_is_reported(tmp_path):
    data = noisy(2000, 0)
    model = trained(data, weights="sparse")
    model.save(tmp_path / "model")
    p = answers(model, data)[0]
    loaded = classifier.load(tmp_path / "model")
    np.testing.assert_array_equal(answers(loaded, data)[0], p)
    np.save(tmp_path / "model" / "calibration.npy", model.arrays["calibration"][::-1])
    with refused_data("calibration.npy"):
        classifier.load(tmp_path / "model")


def test_a_likelihood_below_uniform_gives_a_warning():
    progress = Notes()
    data = noisy(1500, 0, several=False)
    test = noisy(500, 1, several=False)
    for loss, is_warned in (("squared-hinge", True), ("logistic", False)):
        model = trained(data, "ova", {"loss": loss})
        progress.notes.clear()
        result = model.evaluate(test, progress=progress)
        assert (result["log_likelihood"] < -np.log(N_LABELS)) == is_warned
        assert result["log_likelihood_tempered"] > -np.log(N_LABELS)
        assert bool(lines_with(progress.notes, "-3.69", f"{N_LABELS} labels")) == is_warned


@pytest.mark.parametrize("settings", [{"calibration": 0.2}, {"validation": "0.2"}])
@pytest.mark.parametrize("objective", ["softmax", "hs", "ns"])
def test_rows_held_out_of_training_count_as_training_rows(tmp_path, settings, objective):
    data = noisy(10 * MIN_ROWS, 0, several=False)
    all_counts = np.bincount(data.labels.ids, minlength=N_LABELS)
    model = trained(data, objective, epochs=1, **settings)
    assert model.trained_counts.sum() == model.facts["examples"] == 8 * MIN_ROWS
    test = noisy(100, 1, several=False)
    loaded = classifier.load(model.save(tmp_path / "model"))
    for trained_model in (model, loaded):
        np.testing.assert_array_equal(trained_model.counts, all_counts)
        np.testing.assert_array_equal(trained_model.trained_counts, model.trained_counts)
        assert trained_model.n_training_rows == len(data)
        assert trained_model.evaluate(test) == model.evaluate(test)
    expected = LabelMetrics(N_LABELS, all_counts, len(data))
    for ids, _ in model.iter_top_k(test.features):
        expected.add_ranked(ids, test.labels)
    assert model.evaluate(test)["psp@3"] == expected.result()["psp@3"]
