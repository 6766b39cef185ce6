"""Word vectors and classifiers that diverge: rolled back, trained at a lower rate, compared with
frequencies.
"""

import io
import json
import os

import numpy as np
import pytest

import embedx
from embedx.classification.estimator import SoftmaxClassifier
from embedx.classification.settings import ClassifySettings
from embedx.errors import DivergedError
from embedx.labeled import digits as generated_digits
from embedx.labeled.data import Labeled
from embedx.objectives import OBJECTIVES
from embedx.optimizers import OPTIMIZERS
from embedx.optimizers.contract import WORDS
from embedx.runtime.progress import Reporter, Silent
from embedx.skipgram.configuration import configure
from embedx.skipgram.run import WordVectorsRun
from embedx.tasks.requests import ClassifyRequest, TrainRequest
from embedx.tasks.run import run_request
from embedx.training.guard import Guard
from tests.support import word_training
from tests.support.label_settings import resolved
from tests.support.label_training import train
from tests.support.notes import Notes, lines_with
from tests.support.objective_classes import REPRESENTATIVES
from tests.support.refusals import refused
from tests.support.resumed_runs import label_run, objective_settings, same, word_run

# every objective at every rate, for some minutes
IN_FULL = bool(os.environ.get("EMBEDX_TESTS_IN_FULL"))


@pytest.mark.parametrize(
    ("run", "name"),
    [(word_run, "margin"), (word_run, "ove"), (label_run, "softmax"), (label_run, "ove")],
)
def test_a_rolled_back_run_resumes_from_a_snapshot_exactly(run, name, stop_after):
    options = {"learning_rate": 1e4, "epochs": 20}
    arrays, outcome = run(name, **options)
    assert outcome.lowered_rates
    assert outcome.epochs == 20
    stop_after(outcome.state.values["trainer.next_chunk"].read() - 2)
    _, stopped = run(name, **options)
    assert stopped.lowered_rates == outcome.lowered_rates
    snapshot = stopped.state.snapshot()
    stop_after(None)
    resumed_arrays, resumed = run(name, snapshot, **options)
    same(resumed_arrays, arrays)
    assert (resumed.tally, resumed.lowered_rates) == (outcome.tally, outcome.lowered_rates)


@pytest.mark.parametrize("name", REPRESENTATIVES)
@pytest.mark.parametrize("run", [word_run, label_run])
def test_the_guard_does_not_change_the_model(run, name, monkeypatch):
    """The losses that are measured before training leave no trace, and neither do pauses."""
    guarded, _ = run(name)
    monkeypatch.setattr(Guard, "begin", lambda self, *others: setattr(self, "is_on", False))
    unguarded, _ = run(name)
    same(guarded, unguarded)


# ---- every objective, in both tasks


@pytest.fixture(scope="module")
def topics(two_topics):
    return [line.split() for line in two_topics.read_text().splitlines()[:1500]]


@pytest.fixture(scope="module")
def digits():
    return generated_digits.digits()[0].rows(np.arange(800))


def words_at(name, corpus, times, rate=None, **options):
    """The model of a run at a rate, or at so many times the default rate, how it ended, and what
    was told.
    """
    objective_class = OBJECTIVES[name]
    notes = Notes()
    options = {
        "dim": 8,
        "epochs": 3,
        "threads": 1,
        "heldout": 0.1,
        **objective_settings(objective_class, {"warm_up": 1.0}),
        **options,
    }
    settings = configure(name, options).settings
    usual = settings.learning_rate or OPTIMIZERS[settings.optimizer].rates[WORDS]
    rate = rate or usual * times
    trained = word_training.train(
        corpus, configure(name, {**options, "learning_rate": rate}), progress=notes
    )
    return trained.model, trained.outcome, notes


def cautions(name):
    """What is told where words are trained by an objective that is for labels."""
    caution = OBJECTIVES[name].about.words_caution
    return [f"warning: --objective {name}: {caution}"] if caution else []


def labels_at(name, data, times, rate=None):
    objective_class = OBJECTIVES[name]
    notes = Notes()
    objective = objective_class(
        objective_class.Settings.from_options(objective_settings(objective_class, {"warm_up": 1.0}))
    )
    settings = resolved(ClassifySettings(epochs=4, threads=1), objective, data)
    rate = rate or settings.learning_rate * times
    settings = resolved(ClassifySettings(epochs=4, threads=1, learning_rate=rate), objective, data)
    trained = train(data, objective, settings, progress=notes)
    return trained.classifier, trained.outcome, notes


@pytest.mark.parametrize("name", OBJECTIVES)
def test_default_rates_raise_no_alarm(name, topics, digits):
    for run, data in (words_at, topics), (labels_at, digits):
        model, outcome, notes = run(name, data, 1.0)
        assert not outcome.lowered_rates
        assert notes.warnings == (cautions(name) if run is words_at else [])
        assert "learning_rate_lowered" not in model.facts


@pytest.mark.parametrize("name", REPRESENTATIVES)
@pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")
def test_a_run_rolled_back_to_the_start_equals_one_at_the_lower_rate(name, topics, digits):
    """Nothing of what was tried before is left anywhere: the same rate gives the same bytes."""
    for run, data in (words_at, topics), (labels_at, digits):
        model, outcome, notes = run(name, data, 1e3)
        warned = [text for text in notes.warnings if text not in cautions(name)]
        of_rate, *warnings = warned if run is words_at else ["", *warned]
        assert "is far from" in of_rate or run is labels_at
        assert all("back to the start" in warning for warning in warnings)
        model_of_rate, outcome_of_rate, _ = run(
            name, data, 1.0, [model.settings["learning_rate"], *outcome.lowered_rates][-1]
        )
        assert not outcome_of_rate.lowered_rates
        same(model.arrays, model_of_rate.arrays)
        assert outcome.tally == outcome_of_rate.tally


def likelier_than_frequencies(vectors, corpus):
    likelihoods = vectors.facts["heldout"]
    return max(likelihoods["log_likelihood"], likelihoods["calibrated"]) > likelihoods["unigram"]


def better_than_the_most_frequent(classifier, data):
    return classifier.evaluate(data)["accuracy"] > 2 * classifier.counts.max() / len(data)


@pytest.mark.parametrize(
    ("run", "data", "is_better", "times"),
    [
        (*scenario, times)
        for scenario, usual in (
            ((words_at, "topics", likelier_than_frequencies), 1e3),
            ((labels_at, "digits", better_than_the_most_frequent), 1e5),
        )
        for times in ([1e3, 1e4, 1e5] if IN_FULL else [usual])
    ],
)
@pytest.mark.parametrize("name", OBJECTIVES if IN_FULL else REPRESENTATIVES)
@pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")
def test_at_every_learning_rate_a_model_beats_frequencies_or_the_run_diverges(
    run, data, is_better, name, times, request
):
    data = request.getfixturevalue(data)
    try:
        model, outcome, notes = run(name, data, times)
    except DivergedError:
        return
    assert all(np.isfinite(array).all() for array in model.arrays.values())
    assert len(notes.warnings) >= len(outcome.lowered_rates)
    gives_no_probabilities = run is words_at and OBJECTIVES[name].traits.calibrated is False
    assert outcome.divergence is not None or gives_no_probabilities or is_better(model, data)


def test_a_rolled_back_run_has_to_beat_the_unigram_baseline_on_held_out_text(topics, monkeypatch):
    metrics = {"log_likelihood": -5.0, "calibrated": -4.0, "unigram": -3.9}
    monkeypatch.setattr(WordVectorsRun, "held_out_metrics", lambda self: metrics)
    vectors, outcome, _ = words_at("ove", topics, 1e3)
    assert outcome.lowered_rates
    assert vectors.facts["heldout"] == metrics
    assert lines_with(str(outcome.divergence), f"{outcome.lowered_rates[-1]:.3g}", "lowered")
    metrics["calibrated"] = -3.8
    _, outcome, notes = words_at("ove", topics, 1e3)
    assert outcome.divergence is None
    assert "temperature (-3.8000)" in notes.warnings[-1]


def test_a_single_label_is_no_divergence():
    rng = np.random.default_rng(0)
    data = generated_digits.digits()[0].rows(np.arange(50))
    single = Labeled(
        rng.random((50, 4)).astype(np.float32),
        data.labels.__class__.single(np.zeros(50, dtype=np.int64)),
        1,
    )
    for name, objective in OBJECTIVES.items():
        if objective.step == "gradient":
            assert not labels_at(name, single, 1.0)[1].lowered_rates


# ---- what is saved and raised


@pytest.fixture
def spoiled(monkeypatch):
    """Runs diverge beyond their middle, whatever the rate."""
    judge = Guard._judge

    def lost(self, loss, mean, share, is_over):
        return "the loss got lost" if share > 0.5 else judge(self, loss, mean, share, is_over)

    monkeypatch.setattr(Guard, "_judge", lost)


def test_train_saves_the_last_good_state_and_ends_with_code_3(tmp_path, two_topics, spoiled):
    log = io.StringIO()
    request = TrainRequest(
        corpora=[str(two_topics)],
        objective="ns",
        options={"dim": 8, "threads": 1},
        output=tmp_path / "out",
        cache_dir=tmp_path / "cache",
        checkpoint_every="0",
    )
    saved = ("2.5 epochs", str(tmp_path / "out"))
    with refused(None, "learning_rate", kind=DivergedError, quoting=saved) as end:
        run_request(request, Reporter(log))
    assert end.value.exit_code == 3
    facts = embedx.load(tmp_path / "out").facts
    assert len(facts["learning_rate_lowered"]) == 3
    assert facts["epochs"] == pytest.approx(2.5)
    assert log.getvalue().count("warning: the loss got lost") == 3
    assert json.loads((tmp_path / "out" / "model.json").read_text())["facts"][
        "learning_rate_lowered"
    ]
    assert not (tmp_path / "out.checkpoint").exists()


def test_classify_saves_the_last_good_state_and_ends_with_code_3(tmp_path, spoiled):
    request = ClassifyRequest(
        train=["digits"],
        objective="softmax",
        options={"threads": 1},
        output=tmp_path / "out",
        checkpoint_every="0",
    )
    with refused(kind=DivergedError, quoting=("23.5 epochs", str(tmp_path / "out"))):
        run_request(request, Silent())
    assert (tmp_path / "out" / "model.json").exists()


def test_from_python_the_model_is_there_and_the_error_is_raised(two_topics, spoiled):
    words = embedx.SkipGram(dim=8, threads=1)
    with pytest.raises(DivergedError):
        words.fit(two_topics)
    assert words.model.facts["epochs"] == pytest.approx(2.5)
    data = generated_digits.digits()[0].rows(np.arange(300))
    estimator = SoftmaxClassifier(objective="ove", n_jobs=1)
    with pytest.raises(DivergedError):
        estimator.fit(data.features, data.labels.ids)
    assert estimator.predict(data.features[:3]).shape == (3,)
