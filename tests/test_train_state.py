"""The state of a run is complete: a run that resumes from a snapshot ends with the bytes of one
that never stopped.
"""

import json

import numpy as np
import pytest

from embedx.objectives import OBJECTIVES
from embedx.runtime.progress import SILENT, Silent
from embedx.skipgram.configuration import configure
from embedx.training.state import TrainState
from tests.support import word_training
from tests.support.objective_classes import REPRESENTATIVES
from tests.support.resumed_runs import FEW, assert_resumes, label_run, same, sentences, word_run

STOPS_EARLY = {
    "validation": "0.3",
    "learning_rate": 1.0,
    "schedule": "constant",
    "epochs": 30,
    "patience": 2,
}


@pytest.mark.parametrize("name", OBJECTIVES)
def test_word_vectors_resume_from_a_snapshot(name, stop_after):
    stopped, resumed, uninterrupted = assert_resumes(word_run, name, stop_after, 4)
    assert stopped.epochs == pytest.approx(4)
    assert (resumed.tally, resumed.curve[0]["loss"], resumed.final_loss) == (
        uninterrupted.tally,
        uninterrupted.curve[0]["loss"],
        uninterrupted.final_loss,
    )


@pytest.mark.parametrize("name", REPRESENTATIVES)
def test_classifiers_resume_from_a_snapshot(name, stop_after):
    chunks = label_run(name, epochs=1)[1].state.values["trainer.next_chunk"].read()
    assert_resumes(label_run, name, stop_after, 2 * chunks + (1 if chunks > 1 else 0))


@pytest.mark.parametrize(
    "options",
    [
        {"optimizer": "mixture"},
        {"optimizer": "rowwise-adagrad"},
        {"optimizer": "sgd", "max_norm": 1.0},
    ],
)
def test_weight_decay_resumes_from_a_snapshot(options, stop_after):
    assert_resumes(label_run, "ove", stop_after, 2, l2=1e-3, **options)


def test_the_best_validation_epoch_is_part_of_the_state(stop_after):
    expected, uninterrupted = label_run("softmax", **STOPS_EARLY)
    history = uninterrupted.state.values["history.epochs"].read()
    assert 2 < len(history) < 30, "should have ended early"
    # in the second epoch
    stop_after(uninterrupted.state.values["trainer.next_chunk"].read() // len(history) + 1)
    _, stopped = label_run("softmax", **STOPS_EARLY)
    snapshot = stopped.state.snapshot()
    assert len(snapshot["history.epochs"]) == 1
    stop_after(None)
    arrays, resumed = label_run("softmax", snapshot, **STOPS_EARLY)
    same(arrays, expected)
    ours = resumed.state.values["history.epochs"].read()
    assert [entry | {"seconds": 0} for entry in ours] == [
        entry | {"seconds": 0} for entry in history
    ]
    _, again = label_run(
        "softmax", uninterrupted.state.snapshot(), **STOPS_EARLY
    )  # which has ended
    assert again.epochs == uninterrupted.epochs < 30


class Cut(Silent):
    """Presses Ctrl-C at the seventh report of a loss, which is within an iteration."""

    title = ""
    reports = 0

    def start(self, title, total, unit, done=0.0):
        self.title = title

    def update(self, done, **facts):
        self.reports += self.title == "training" and "loss" in facts
        if self.reports == 7:
            raise KeyboardInterrupt


@pytest.mark.parametrize(("name", "steps"), [("softmax", 2), ("ldgs", 2), ("softmax", None)])
def test_collapsed_training_resumes_from_a_snapshot(name, steps, stop_after):
    """Or from the beginning of an iteration that was cut short."""

    def run(snapshot=None, progress=SILENT):
        config = configure(name, FEW | {"epochs": 5, "warm_start": "none"}, is_collapsed=True)
        return word_training.train(sentences(), config, snapshot=snapshot, progress=progress)

    uninterrupted = run().model
    stop_after(steps)
    part = run(progress=Cut() if steps is None else SILENT)
    assert isinstance(part.outcome.interrupted_by, KeyboardInterrupt)
    assert 1 < len(part.model.facts["history"]) < len(uninterrupted.facts["history"])
    snapshot = part.outcome.state.snapshot()
    stop_after(None)
    resumed = run(snapshot).model
    same(resumed.arrays, uninterrupted.arrays)
    for ours, theirs in zip(resumed.facts["history"], uninterrupted.facts["history"], strict=True):
        assert {**ours, "seconds": 0} == {**theirs, "seconds": 0}


def test_a_snapshot_does_not_change_and_is_plain():
    _, outcome = word_run("ar", epochs=1)
    snapshot = outcome.state.snapshot()
    before = {name: np.array(value, copy=True) for name, value in snapshot.items()}
    for value in outcome.state.values.values():
        if isinstance(value.read(), np.ndarray):
            value.read()[...] = 0
    for name, value in snapshot.items():
        np.testing.assert_array_equal(value, before[name])
    json.dumps(
        {name: value for name, value in snapshot.items() if not isinstance(value, np.ndarray)}
    )


def test_a_state_takes_no_snapshot_of_another_run():
    state = TrainState()
    one = np.zeros(3)
    state.add_array("one", one)
    with pytest.raises(ValueError, match="two"):
        state.restore({"one": np.ones(3), "two": 2})
    with pytest.raises(ValueError, match=r"one: .*\(4,\).*\(3,\)"):
        state.restore({"one": np.ones(4)})
    assert not one.any()
    with pytest.raises(ValueError, match=r"\bone\b"):
        state.add_array("one", one)
