"""Training of classifiers that is watched, stopped by validation, time or Ctrl-C, or diverges."""

import numpy as np
import pytest

from embedx.classification import (
    classifier as classifiers,
    data_split,
)
from embedx.classification.settings import ClassifySettings
from embedx.errors import DivergedError
from embedx.labeled.digits import digits
from embedx.objectives import OBJECTIVES
from embedx.runtime.progress import Silent
from embedx.training import trainer
from tests.support.classify_cases import ONE_OBJECTIVE_OF_EACH_KIND, bytes_of, precision
from tests.support.classify_runs import REPRESENTATIVES, TOPICS, run
from tests.support.clock import Clock
from tests.support.label_training import train
from tests.support.refusals import refused


def watched(watch=None, progress=None, **options):
    options = {"threads": 1, "batch_size": 10, "epochs": 6} | options
    objective = REPRESENTATIVES["columns"]
    settings = ClassifySettings(**options)
    return train(
        TOPICS[0], objective(objective.Settings()), settings, watch=watch, progress=progress
    )


def test_measures_of_the_watcher_are_recorded_in_the_history():
    trained = watched(
        lambda classifier, epoch, seconds: {
            "norm": float(np.linalg.norm(classifier.arrays["output"]))
        },
        epochs=3,
    )
    history = trained.classifier.facts["history"]
    assert [entry["epoch"] for entry in history] == [1, 2, 3]
    assert history[0]["norm"] < history[1]["norm"] < history[2]["norm"]
    assert history[0]["loss"] > history[2]["loss"]
    assert history[2]["norm"] == pytest.approx(np.linalg.norm(trained.classifier.arrays["output"]))


def test_validation_does_not_change_the_model():
    assert bytes_of(watched(epochs=2)) == bytes_of(watched(lambda *about: {}, epochs=2))
    # with a watcher, pending weight decay is applied after each epoch
    unwatched = watched(epochs=2, l2=1e-2)
    with_watcher = watched(lambda *about: {}, epochs=2, l2=1e-2)
    np.testing.assert_allclose(
        with_watcher.classifier.arrays["output"], unwatched.classifier.arrays["output"], atol=1e-5
    )


def test_the_best_epoch_is_kept_and_patience_ends_the_training(monkeypatch):
    values = iter([0.1, 0.5, 0.2, 0.3, 0.4, 0.9])
    metrics = {"log_likelihood": -1.0, "accuracy": 0.1, "p@1": 0.1}
    evaluate = classifiers.Classifier.evaluate
    monkeypatch.setattr(
        classifiers.Classifier,
        "evaluate",
        lambda *args, **options: metrics | {"ndcg@5": next(values)},
    )
    outputs = []

    def watch(classifier, epoch, seconds):
        outputs.append(classifier.arrays["output"].copy())
        return {}

    trained = watched(watch, validation="0.2", epochs=20, patience=3)
    assert len(outputs) == 5
    assert (trained.classifier.arrays["output"] == outputs[1]).all()
    assert [entry["validation"]["ndcg@5"] for entry in trained.classifier.facts["history"]] == [
        0.1,
        0.5,
        0.2,
        0.3,
        0.4,
    ]
    monkeypatch.undo()
    # not the scores of the last epoch
    log_p = next(trained.classifier.blocks(TOPICS[1].features))[1]
    z = TOPICS[1].features @ outputs[1].T + trained.classifier.arrays["bias"]
    np.testing.assert_allclose(log_p, trained.classifier.log_probability(z), atol=1e-5)
    assert evaluate(trained.classifier, TOPICS[1])["p@1"] > 0.3


def bytes_of_row(row):
    return bytes(row.toarray())


def test_a_share_of_the_rows_is_held_out_for_validation():
    assert "temperature" not in watched(epochs=1).classifier.facts
    trained = watched(validation="0.2", epochs=2)
    assert trained.classifier.facts["examples"] == 400
    assert trained.classifier.facts["temperature"] > 0
    assert {"log_likelihood", "ndcg@5"} <= trained.classifier.facts["history"][0][
        "validation"
    ].keys()
    trained_on, held_out = data_split.hold_out(TOPICS[0], 100, seed=1)
    assert (len(trained_on), len(held_out)) == (400, 100)
    rows = [row for part in (trained_on, held_out) for row in part.features]
    assert sorted(map(bytes_of_row, rows)) == sorted(map(bytes_of_row, TOPICS[0].features))


def test_a_model_trained_again_on_all_rows_knows_why_its_settings_were_chosen():
    data = digits(1500, 10)[0]
    objective = OBJECTIVES["softmax"]
    settings = ClassifySettings(threads=1, epochs=2)
    classifier = train(data, objective(objective.Settings()), settings).classifier
    assert classifier.facts["examples"] == 1500
    assert "temperature" in classifier.facts
    assert "inputs have length" in classifier.facts["chosen"]["learning_rate"]


def test_a_time_budget_ends_the_training_instead_of_epochs(monkeypatch):
    monkeypatch.setattr(trainer, "time", Clock(tick=0.001))
    trained = watched(time_budget=1.0, epochs=1)
    assert 1.0 <= trained.outcome.seconds < 1.1
    assert trained.outcome.epochs > 1


class Impatient(Silent):
    interval = 0.001
    pressed = False

    def update(self, done, **facts):
        if done > 200 and not self.pressed:
            self.pressed = True
            raise KeyboardInterrupt


def interrupting(classifier, epoch, seconds):
    if epoch == 2:
        raise KeyboardInterrupt
    return {}


@pytest.mark.parametrize(
    "options", [{"watch": interrupting}, {"progress": Impatient()}], ids=["watch", "progress"]
)
def test_ctrl_c_keeps_what_was_learned(options):
    trained = watched(epochs=10_000, **options)
    assert isinstance(trained.outcome.interrupted_by, KeyboardInterrupt)
    assert trained.classifier.facts["interrupted"]
    assert 0 < trained.outcome.epochs < 10_000
    assert np.abs(trained.classifier.arrays["output"]).max() > 0
    if "watch" in options:
        assert len(trained.classifier.facts["history"]) == 2
        assert precision(trained, "sparse") > 0.4


@ONE_OBJECTIVE_OF_EACH_KIND
# of the matrix products, on the way to infinity
@pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")
def test_training_that_diverges_raises_an_error(objective, kind):
    with refused(None, "learning_rate", kind=DivergedError):
        run(objective, kind, optimizer="sgd", learning_rate=1e38, gradient_scale="sum", epochs=2)
