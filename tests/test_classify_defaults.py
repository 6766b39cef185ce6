"""Settings of classification that are not given follow from the objective, the optimiser and the
data.
"""

import dataclasses

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from embedx import objectives
from embedx.classification import objective_choice, settings
from embedx.classification.classifier import load
from embedx.classification.estimator import SoftmaxClassifier
from embedx.classification.problem import Problem
from embedx.classification.resolve import resolve_settings
from embedx.classification.settings import ClassifySettings
from embedx.labeled.data import Labeled, Labels
from embedx.labeled.scaling import scaled, scaling_arrays
from embedx.objectives.contract import ByInput
from embedx.optimizers import OPTIMIZERS
from embedx.optimizers.contract import LABELS
from tests.support.label_settings import resolved
from tests.support.label_training import train
from tests.support.notes import Notes

SOFTMAX, OVA = (objectives.find(name) for name in ("softmax", "ova"))


def rows(n=90, scale=1.0, n_labels=3, is_sparse=True):
    """Rows of length `scale`, one feature for each label and one for all."""
    label = np.arange(n) % n_labels
    x = np.zeros((n, n_labels + 1), dtype=np.float32)
    x[np.arange(n), label] = x[:, -1] = scale / np.sqrt(2)
    return Labeled(csr_matrix(x) if is_sparse else x, Labels.single(label), n_labels)


def settings_for(data, objective=SOFTMAX, **options):
    """Settings as they are resolved for an objective, given as a class, and data."""
    return resolved(ClassifySettings(**options), objective(objective.Settings()), data)


def test_more_rows_mean_fewer_epochs():
    epochs = [settings_for(rows(n)).epochs for n in (9, 10_000, 90_000, 4_000_000)]
    assert epochs == [
        settings.MAX_EPOCHS,
        settings.ROOT_EPOCHS // 100,
        settings.ROOT_EPOCHS // 300,
        settings.MIN_EPOCHS,
    ]
    assert settings_for(rows(), epochs=3).epochs == 3


def test_rows_of_several_labels_count_for_as_many_and_lower_the_rate():
    one = rows(10_000)
    four = Labeled(
        one.features,
        Labels(np.arange(10_001) * 4, np.tile(np.arange(4, dtype=np.int32), 10_000)),
        4,
    )
    assert settings_for(four).epochs == settings.ROOT_EPOCHS // 200
    assert settings_for(four).learning_rate == pytest.approx(
        settings_for(one).learning_rate / 2, rel=1e-2
    )


def test_dual_coordinate_descent_keeps_its_epochs_and_zero_biases():
    hinge = OVA(OVA.Settings(loss="squared-hinge"))
    chosen = resolved(ClassifySettings(weights="sparse"), hinge, rows())
    assert (chosen.optimizer, chosen.epochs, chosen.bias) == ("dcd", settings.DUAL_EPOCHS, "zero")


@pytest.mark.parametrize(
    ("optimizer", "power", "is_sparse"),
    [("adagrad", 1, True), ("rowwise-adagrad", 1, False), ("sgd", 2, True)],
)
def test_rates_suit_the_scale_of_the_features(optimizer, power, is_sparse):
    def rate(scale=10.0, **options):
        return settings_for(
            rows(scale=scale, is_sparse=is_sparse), optimizer=optimizer, **options
        ).learning_rate

    at_one = rate(1.0)
    assert at_one == pytest.approx(OPTIMIZERS[optimizer].rates[LABELS])
    assert rate() == pytest.approx(at_one / 10**power, rel=1e-2)
    if is_sparse:
        assert rate(scaling="l2") == at_one
        assert rate(scaling="column-max") == pytest.approx(at_one / 2 ** (power / 2), rel=1e-2)
    assert rate(learning_rate=0.7) == 0.7


def test_the_rate_of_continued_training_suits_features_scaled_as_the_classifier_scales_them():
    """New values of a tenth of the old maxima are inputs of a tenth of the length."""
    old_rows = rows(scale=10.0)
    new_rows = rows(scale=1.0)
    problem = Problem(
        ClassifySettings(scaling="column-max"),
        SOFTMAX(SOFTMAX.Settings()),
        new_rows,
        new_rows,
        previous_arrays=scaling_arrays(old_rows.features, "column-max"),
    )
    old_rate = settings_for(old_rows, scaling="column-max").learning_rate
    assert resolve_settings(problem).settings.learning_rate == pytest.approx(10 * old_rate)


def test_features_on_another_scale_train_alike():
    def predicted(scale):
        data = rows(scale=scale)
        trained = train(
            data, SOFTMAX(SOFTMAX.Settings()), ClassifySettings(bias="none", epochs=5, threads=1)
        )
        return trained.classifier.scores(data.features)

    np.testing.assert_allclose(predicted(100.0), predicted(1.0), rtol=0.02, atol=0.02)


def test_counts_are_weighted_alike_in_training_and_prediction(tmp_path):
    rng = np.random.default_rng(0)
    options = {"epochs": 3, "threads": 1, "seed": 7}
    counts = Labeled(
        csr_matrix(rng.poisson(0.4, (90, 12)), dtype=np.float32),
        Labels.single(rng.integers(0, 3, 90)),
        3,
    )
    weighted = dataclasses.replace(
        counts,
        features=scaled(counts.features, "tf-idf", scaling_arrays(counts.features, "tf-idf")),
    )
    progress = Notes()
    trained = train(
        counts, SOFTMAX(SOFTMAX.Settings()), ClassifySettings(**options), progress=progress
    ).classifier
    same = train(
        weighted, SOFTMAX(SOFTMAX.Settings()), ClassifySettings(scaling="none", **options)
    ).classifier
    assert trained.settings["scaling"] == "tf-idf"
    assert any("--scaling tf-idf" in note for note in progress.notes)
    loaded = load(trained.save(tmp_path / "model"))
    first_rows = counts.features[:5]
    for (_, scores), (_, other) in zip(
        loaded.blocks(first_rows), same.blocks(weighted.features[:5]), strict=True
    ):
        np.testing.assert_allclose(scores, other, rtol=1e-5, atol=1e-6)
    kept = train(
        counts, SOFTMAX(SOFTMAX.Settings()), ClassifySettings(scaling="none", **options)
    ).classifier
    assert kept.prepared(first_rows) is first_rows


def test_an_objective_may_declare_defaults_by_kind_of_input():
    class Declares(SOFTMAX):
        label_defaults = {"learning_rate": ByInput(1.0, 0.5, 0.25), "bias": "zero"}  # noqa: RUF012

    dense = rows(is_sparse=False)
    rates = [
        settings_for(dense, Declares),
        settings_for(rows(), Declares),
        settings_for(rows(), Declares, hidden=4),
    ]
    assert [settings.learning_rate for settings in rates] == [1.0, 0.5, 0.25]
    assert {settings.bias for settings in rates} == {"zero"} != {settings_for(dense).bias}
    assert settings_for(dense, Declares, bias="frequency").bias == "frequency"
    # The objective's rates are for its own optimiser.
    rowwise = settings_for(rows(is_sparse=False), Declares, optimizer="rowwise-adagrad")
    assert rowwise.learning_rate == OPTIMIZERS["rowwise-adagrad"].rates[LABELS]
    assert (
        str(ByInput(1.0, 0.5, 0.25))
        == "1 on dense features, 0.5 on sparse ones, 0.25 with --hidden"
    )


def test_an_objectives_own_settings_have_defaults_for_classification():
    ns = objectives.find("ns")

    class Declares(ns):
        label_defaults = {"negatives": 17, "bias": "zero"}  # noqa: RUF012

    assert objective_choice.new_objective(Declares, {}).settings.negatives == 17
    assert objective_choice.new_objective(Declares, {"negatives": 3}).settings.negatives == 3
    assert ns.Settings().negatives == Declares.Settings().negatives != 17


@pytest.mark.parametrize(
    ("optimizer", "is_sparse"), [("adagrad", True), ("adagrad", False), ("rowwise-adagrad", False)]
)
def test_a_tiny_gradient_takes_a_short_step(is_sparse, optimizer):
    """Of forty labels thirty-seven never occur: all the gradient that they get is that of small
    probabilities.
    """
    data = dataclasses.replace(rows(is_sparse=is_sparse), n_labels=40)
    options = {
        "optimizer": optimizer,
        "epochs": 1,
        "batch_size": 10,
        "bias": "none",
        "learning_rate": 0.5,
        "threads": 1,
    }

    def moved(initial_gradient):
        settings = ClassifySettings(**options, initial_gradient=initial_gradient)
        output = train(data, SOFTMAX(SOFTMAX.Settings()), settings).classifier.arrays["output"]
        return np.abs(output[3:]).max() / np.abs(output[:3]).max()

    assert moved(100.0) < 0.2 < 0.3 < moved(0.0)


def measurements(rng, n):
    """Rows of two labels, of columns in different units."""
    y = rng.integers(2, size=n)
    x = rng.normal(size=(n, 4)) + y[:, None]
    return (x * [1, 1, 1, 300] + [0, 5, 50, 2000]).astype(np.float32), y


def test_columns_in_different_units_are_standardised_as_in_training_wherever_rows_are_scored(
    tmp_path,
):
    rng = np.random.default_rng(0)
    x, y = measurements(rng, 300)
    later, its_labels = measurements(rng, 300)
    model = SoftmaxClassifier("ns", epochs=20).fit(x, y)
    assert model.classifier_.settings["scaling"] == "standard"
    assert model.score(later, its_labels) > 0.8
    unscaled = SoftmaxClassifier("ns", epochs=20, scaling="none").fit(x, y)
    assert unscaled.score(later, its_labels) < model.score(later, its_labels) - 0.1
    loaded = SoftmaxClassifier.load(model.save(tmp_path / "model"))
    np.testing.assert_allclose(loaded.predict_proba(later[:9]), model.predict_proba(later[:9]))
    sparse = csr_matrix(np.abs(x))
    assert SoftmaxClassifier("ns", epochs=1).fit(sparse, y).classifier_.settings["scaling"] == (
        "none"
    )


def test_validation_rows_do_not_change_what_is_trained_unless_they_are_to_stop_it():
    hinge = OVA(OVA.Settings(loss="squared-hinge"))

    def weights(**options):
        given = ClassifySettings(**options)
        return resolved(given, hinge, rows(), given_names={*options}).weights

    assert weights() == weights(validation="0.1") == "sparse"
    assert weights(validation="0.1", patience=3) == "dense"
    assert weights(validation="0.1", time_budget=1.0) == "dense"
    assert weights(validation="0.1", optimizer="adagrad") == "dense"
