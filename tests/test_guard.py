"""A run that diverges ends with what was good: never as a success."""

import io
import math
import os
import signal
import threading
from types import SimpleNamespace

import numpy as np
import pytest

import embedx
from embedx.classification import task as classification
from embedx.classification.estimator import SoftmaxClassifier
from embedx.classification.settings import ClassifySettings
from embedx.cli import labels, words
from embedx.errors import DivergedError
from embedx.labeled.data import Labeled
from embedx.labeled.digits import named
from embedx.objectives import OBJECTIVES
from embedx.settings import settings_of
from embedx.skipgram import task as skipgram
from embedx.skipgram.configuration import configure
from embedx.training import guard, trainer
from embedx.training.guard import Guard
from embedx.training.progress import Reporter, Silent
from embedx.training.schedule import Schedule
from embedx.training.state import TrainState
from embedx.training.strategy import Strategy, Tally
from tests.contract_classes import REPRESENTATIVES
from tests.notes import Notes
from tests.test_train_state import label_run, same, word_run

TIMES = (1e3, 1e5)


# ---- the trainer, with a strategy made up


class Bowl(Strategy):
    """Walks down a bowl from (8, 8, 8): of curvature 1, by steps that lead out of it if their rate is above 2; each chunk is
    noted in `done`. From chunk `spoiled` on losses are what `spoil` makes of them.
    """

    n_chunks = 40

    def __init__(self, threads=1, spoiled=math.inf, spoil=lambda loss: math.nan):
        self.workers = list(range(threads))
        self.w, self.done = np.full(3, 8.0), np.zeros(40 * 5, dtype=np.int64)
        self.spoiled, self.spoil = spoiled, spoil
        self.rates = []

    def compile(self, progress):
        pass

    def train(self, worker, epoch, chunk, rate):
        loss = float((self.w**2).sum() / 2)
        self.w -= rate * self.w
        step = epoch * self.n_chunks + chunk
        if rate > 0:
            self.done[step] += 1
            self.rates.append((step, rate))
        if step >= self.spoiled and rate > 0:
            loss = self.spoil(loss)
        return Tally(loss * 10, 10, 100)

    def state(self):
        state = TrainState()
        state.add_array("w.rows", self.w)
        state.add_array("done", self.done)
        return state

    def untrained_loss(self):
        return self.train(0, 0, 0, 0.0).mean_loss

    def baseline_loss(self):
        self.w[:] = 4.0
        return self.untrained_loss()


def walk(strategy, rate, epochs=1, shape="constant", progress=None, **options):
    schedule = Schedule(rate, strategy.n_chunks, 100 * strategy.n_chunks, epochs, shape=shape)
    return trainer.run(strategy, schedule, progress or Silent(), **options)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(("rate", "diverges"), [(1.9, False), (5.0, True), (500.0, True)])
def test_a_rate_that_leads_away_ends_the_run_with_nothing(rate, diverges, threads):
    strategy = Bowl(threads)
    if diverges:
        with pytest.raises(DivergedError, match=r"^the loss .* after .* words at .*; try a smaller --learning-rate, "):
            walk(strategy, rate)
        return
    outcome = walk(strategy, rate)
    assert outcome.diverged is None
    assert (strategy.done[:40] == 1).all()
    assert np.abs(strategy.w).max() < 1
    assert outcome.tally.words == 4000


def test_without_a_guard_a_run_has_the_rate_that_was_asked_for():
    strategy = Bowl(spoiled=9)
    with pytest.raises(DivergedError, match=r"^the loss is not finite after 900 words at learning rate 3; try a smaller"):
        walk(strategy, 3.0, guard=Guard(is_on=False))
    assert len(strategy.rates) == 10


def test_a_run_whose_state_has_a_lock_is_looked_at_while_it_trains(monkeypatch):
    """The first chunk ends when the guard has looked twice, which would never come if that had to wait for it."""
    looks, both = [], threading.Event()

    def look(self, share, *others):
        looks.append((share, held.locked()))
        if len(looks) == 2:
            both.set()
        return looked(self, share, *others)

    class Held(Bowl):
        def train(self, worker, epoch, chunk, rate):
            if (epoch, chunk) == (0, 0) and rate > 0:
                assert both.wait(20)
            return super().train(worker, epoch, chunk, rate)

        def state(self):
            state = super().state()
            state.lock = held
            return state

    looked, held = Guard.check, threading.Lock()
    monkeypatch.setattr(Guard, "check", look)
    strategy = Held(threads=2)
    outcome = trainer.run(strategy, Schedule(0.1, 40, 400, 2), Silent())
    assert (strategy.done[:80] == 1).all()
    assert outcome.epochs == 2
    assert len(looks) == guard.CHECKS
    assert [was_held for _, was_held in looks] == [True] * (guard.CHECKS - 1) + [False]


def test_steps_under_way_are_not_in_the_state():
    work = trainer._Work(Bowl(), Schedule(0.1, 40, 400, 2), Guard(), Silent())
    work.next_step, work.under_way = 10, {7, 9}
    assert work.own_state().snapshot()["trainer.next_step"] == 7
    work.under_way.clear()
    assert work.own_state().snapshot()["trainer.next_step"] == 10


def test_a_run_ends_where_it_was_good():
    """Checked after every second of its 40 chunks, of which the tenth diverges."""
    strategy = Bowl(spoiled=9)
    outcome = walk(strategy, 0.1)
    assert [step for step, _ in strategy.rates] == list(range(10))
    assert strategy.w == pytest.approx(8 * 0.9**8)
    assert (outcome.tally.words, outcome.epochs) == (800, 8 / 40)
    message = (
        "the loss is not finite after 900 words at learning rate 0.1; try a smaller --learning-rate, 0.01 say, or leave it out"
    )
    assert str(outcome.diverged) == message
    with pytest.raises(DivergedError):
        outcome.raise_reason()


@pytest.mark.parametrize(("spoil", "at"), [(lambda loss: 2100.0, 11), (lambda loss: math.inf, 9)])
def test_a_loss_that_is_high_for_an_interval_is_noticed(spoil, at):
    """The level is 96."""
    strategy = Bowl(spoiled=9, spoil=spoil)
    assert walk(strategy, 0.1).diverged is not None
    assert max(step for step, _ in strategy.rates) <= at
    assert walk(Bowl(spoiled=9, spoil=lambda loss: 1900.0), 0.1).diverged is None


def test_a_draw_that_weighs_much_is_no_divergence():
    strategy = Bowl(spoiled=0, spoil=lambda loss: loss * (2e3 if strategy.rates[-1][0] % 16 == 3 else 1))
    strategy.n_chunks = 160
    strategy.done = np.zeros(160 * 5, dtype=np.int64)
    outcome = walk(strategy, 0.1)
    assert outcome.highest_loss > 1e4
    assert outcome.diverged is None


def test_parameters_that_run_away_are_noticed_though_the_loss_is_flat():
    strategy = Bowl()

    def flat(worker, epoch, chunk, rate):
        strategy.w *= 1 + 1e3 * rate
        return Tally(10.0, 10, 100)

    strategy.train = flat
    outcome_of = pytest.raises(DivergedError, match=r"^a parameter grew beyond 1e\+15 after")
    strategy.untrained_loss = strategy.baseline_loss = lambda: 1.0
    with outcome_of:
        walk(strategy, 1e12)


def test_an_epoch_that_diverged_is_not_reported():
    strategy, printed = Bowl(spoiled=60), []
    walk(strategy, 0.1, epochs=3, after_epoch=lambda epoch, tally, seconds: printed.append((epoch, tally.words)) or False)
    assert printed == [(0, 4000)]


def test_ctrl_c_while_a_run_goes_back_leaves_it_there(monkeypatch):
    restore, pressed = TrainState.restore, []

    def interrupted(self, snapshot):
        if strategy.rates and not pressed:
            pressed.append(True)
            self.values["w.rows"].write(-1.0)
            os.kill(os.getpid(), signal.SIGINT)
        restore(self, snapshot)

    monkeypatch.setattr(TrainState, "restore", interrupted)
    strategy = Bowl(spoiled=9)
    outcome = walk(strategy, 0.1)
    assert isinstance(outcome.interrupted_by, KeyboardInterrupt)
    assert strategy.w == pytest.approx(8 * 0.9**8)
    assert outcome.tally.words == 800


def test_without_memory_for_a_copy_a_run_that_diverges_ends(monkeypatch):
    monkeypatch.setattr(guard, "available_memory", lambda: 0)
    strategy = Bowl(spoiled=9)
    with pytest.raises(DivergedError, match=r"^the loss is not finite after 900 words at learning rate 0.1; try a smaller "):
        walk(strategy, 0.1)
    assert strategy.done.sum() == 10


def test_a_snapshot_is_written_into_a_former_one():
    state, one = TrainState(), np.arange(3.0)
    state.add_array("one", one)
    state.add("lists", lambda: [one[:2], {"a": 1}], lambda value: None)
    former = state.snapshot()
    one += 5
    later = state.snapshot(into=former)
    assert later["one"] is former["one"]
    np.testing.assert_array_equal(later["one"], [5, 6, 7])
    np.testing.assert_array_equal(later["lists"][0], [5, 6])
    assert not np.shares_memory(later["lists"][0], one)


@pytest.mark.parametrize("name", REPRESENTATIVES)
@pytest.mark.parametrize("run", [word_run, label_run])
def test_looking_at_a_run_changes_nothing(run, name, monkeypatch):
    """The losses that are measured before training leave no trace, and neither do pauses."""
    watched, _ = run(name)
    monkeypatch.setattr(Guard, "begin", lambda self, *others: setattr(self, "is_on", False))
    alone, _ = run(name)
    same(watched, alone)


# ---- every objective, in both tasks


@pytest.fixture(scope="module")
def topics(two_topics):
    return [line.split() for line in two_topics.read_text().splitlines()[:1500]]


@pytest.fixture(scope="module")
def digits():
    return named("digits")[0].rows(np.arange(800))


def own(objective, options):
    return {name: value for name, value in options.items() if name in settings_of(objective.Settings)}


def words_at(name, corpus, times, rate=None, **options):
    """The model of a run at a rate, or at so many times the default rate, how it ended, and what was told."""
    found, printed = OBJECTIVES[name], Notes()
    options = {"dim": 8, "epochs": 3, "threads": 1, "heldout": 0.1, **own(found, {"warm_up": 1.0}), **options}
    rate = rate or configure(name, options).settings.learning_rate * times
    trained = skipgram.train(corpus, configure(name, {**options, "learning_rate": rate}), progress=printed)
    return trained.vectors, trained.outcome, printed


def labels_at(name, data, times, rate=None):
    found, printed = OBJECTIVES[name], Notes()
    objective = found(found.Settings.from_options(own(found, {"warm_up": 1.0})))
    settings = classification.resolved(ClassifySettings(epochs=4, threads=1), objective, data)
    rate = rate or settings.learning_rate * times
    settings = classification.resolved(ClassifySettings(epochs=4, threads=1, learning_rate=rate), objective, data)
    trained = classification.train(data, objective, settings, progress=printed)
    return trained.classifier, trained.outcome, printed


@pytest.mark.parametrize("name", OBJECTIVES)
def test_default_rates_raise_no_alarm(name, topics, digits):
    for run, data in (words_at, topics), (labels_at, digits):
        _, outcome, printed = run(name, data, 1.0)
        assert outcome.diverged is None
        assert not printed.warnings


def likelier_than_frequencies(vectors, corpus):
    found = vectors.facts["heldout"]
    return max(found["log_likelihood"], found["calibrated"]) > found["unigram"]


def better_than_the_most_frequent(classifier, data):
    return classifier.evaluate(data)["accuracy"] > 2 * classifier.counts.max() / len(data)


@pytest.mark.parametrize(
    ("run", "data", "is_better", "times"),
    [(words_at, "topics", likelier_than_frequencies, TIMES[0]), (labels_at, "digits", better_than_the_most_frequent, TIMES[1])],
    ids=["words", "labels"],
)
@pytest.mark.parametrize("name", REPRESENTATIVES)
@pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")
def test_at_any_rate_a_model_is_better_than_one_without_inputs_or_the_run_says_that_it_diverged(
    run, data, is_better, name, times, request
):
    data = request.getfixturevalue(data)
    try:
        model, outcome, _ = run(name, data, times)
    except DivergedError:
        return
    assert all(np.isfinite(array).all() for array in model.arrays.values())
    assert outcome.diverged is not None or is_better(model, data)


def test_a_run_that_is_far_worse_than_word_frequencies_on_heldout_text_diverged(topics, monkeypatch):
    found = {"log_likelihood": -5.0, "calibrated": -4.0, "unigram": -3.9}
    monkeypatch.setattr(skipgram.Task, "heldout_metrics", lambda self: found)
    vectors, outcome, _ = words_at("ove", topics, 1.0)
    assert vectors.facts["heldout"] == found
    assert str(outcome.diverged).startswith("at the learning rate 2, the model does not beat")


def test_a_run_that_is_hardly_worse_than_word_frequencies_ends_with_a_warning(topics, monkeypatch):
    """It may have been too short."""
    found = {"log_likelihood": -4.1, "calibrated": -4.0, "unigram": -3.9}
    monkeypatch.setattr(skipgram.Task, "heldout_metrics", lambda self: found)
    _, outcome, printed = words_at("ove", topics, 1.0)
    assert outcome.diverged is None
    assert printed.warnings == [
        "warning: at the learning rate 2, the model does not beat the unigram baseline on held-out text "
        "(-4.0000 and -3.9000 nats a pair); try another --learning-rate, or more --epochs"
    ]


def test_a_single_label_is_no_divergence():
    rng = np.random.default_rng(0)
    data = named("digits")[0].rows(np.arange(50))
    single = Labeled(rng.random((50, 4)).astype(np.float32), data.labels.__class__.single(np.zeros(50, dtype=np.int64)), 1)
    for name, objective in OBJECTIVES.items():
        if objective.kind == "gradient":
            assert labels_at(name, single, 1.0)[1].diverged is None


# ---- what the user gets


@pytest.fixture
def spoiled(monkeypatch):
    """Runs diverge beyond their middle, whatever the rate."""
    check = Guard.check

    def lost(self, share, *others):
        return "the loss got lost" if share > 0.5 else check(self, share, *others)

    monkeypatch.setattr(Guard, "check", lost)


OF_RUN = {"overwrite": False, "checkpoint_every": "0", "resume": False}


def test_the_command_saves_what_was_good_and_ends_with_code_3(tmp_path, two_topics, spoiled):
    printed = io.StringIO()
    given = SimpleNamespace(
        corpora=[str(two_topics)], objective="ns", collapsed=False, typed={"dim": 8, "threads": 1}, output=tmp_path / "out",
        cache_dir=tmp_path / "cache", **OF_RUN,
    )  # fmt: skip
    message = r"^the loss got lost after .* words at .*; try a smaller .*; the model of 2.5 epochs is in .*/out$"
    with pytest.raises(DivergedError, match=message) as end:
        words.train_words(given, Reporter(printed))
    assert end.value.exit_code == 3
    facts = embedx.load(tmp_path / "out").facts
    assert facts["epochs"] == pytest.approx(2.5)
    assert not (tmp_path / "out.checkpoint").exists()


def test_classify_likewise(tmp_path, spoiled):
    given = SimpleNamespace(
        train="digits", train_labels=None, test=None, test_labels=None, label_names=None, objective="softmax",
        typed={"threads": 1}, output=tmp_path / "out", **OF_RUN,
    )  # fmt: skip
    with pytest.raises(DivergedError, match=r"the model of 23.5 epochs is in .*/out$"):
        labels.train_classifier(given, Silent())
    assert (tmp_path / "out" / "model.json").exists()


def test_from_python_the_model_is_there_and_the_error_is_raised(two_topics, spoiled):
    words = embedx.SkipGram(dim=8, threads=1)
    with pytest.raises(DivergedError):
        words.fit(two_topics)
    assert words.model.facts["epochs"] == pytest.approx(2.5)
    data = named("digits")[0].rows(np.arange(300))
    estimator = SoftmaxClassifier(objective="ove", n_jobs=1)
    with pytest.raises(DivergedError):
        estimator.fit(data.features, data.labels.ids)
    assert estimator.predict(data.features[:3]).shape == (3,)
