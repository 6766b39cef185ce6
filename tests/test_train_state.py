"""The state of a run says all that it needs: one that goes on from a snapshot ends with the bytes
of one that never stopped.
"""

import json
import math
import tempfile
from pathlib import Path

import numpy as np
import pytest

from embedx.classification import task as classification
from embedx.classification.settings import ClassifySettings
from embedx.labeled.digits import digits
from embedx.objectives import OBJECTIVES
from embedx.settings import settings_of
from embedx.skipgram import collapsed, task as skipgram
from embedx.skipgram.configuration import configure
from embedx.training.checkpoint import Checkpoints, Request
from embedx.training.progress import SILENT, Silent
from embedx.training.state import TrainState
from tests.contract_classes import REPRESENTATIVES

FEW = {"dim": 8, "threads": 1, "window": 2, "min_count": 1, "sample": 0}
STOPS_EARLY = {
    "validation": "0.3",
    "learning_rate": 1.0,
    "schedule": "constant",
    "epochs": 30,
    "patience": 2,
}


def sentences():
    """60 sentences of 50 words, of 40 different ones."""
    rng = np.random.default_rng(5)
    common = 1 / np.arange(1, 41)
    return [[f"w{k}" for k in rng.choice(40, 50, p=common / common.sum())] for _ in range(60)]


def own(objective, options):
    """The options that are settings of the objective's own."""
    return {
        name: value for name, value in options.items() if name in settings_of(objective.Settings)
    }


def word_run(name, snapshot=None, **options):
    few = FEW | {"epochs": 6} | own(OBJECTIVES[name], {"warm_up": 2.0}) | options
    trained = skipgram.train(sentences(), configure(name, few), snapshot=snapshot)
    return trained.vectors.arrays, trained.outcome


class FromSnapshot(Checkpoints):
    """Checkpoints that resume from a snapshot, and write nothing."""

    resumes = True

    def __init__(self, snapshot):
        self.snapshot, self.request = snapshot, Request("classify", {}, math.inf, True)

    def restore(self, state):
        state.restore(self.snapshot)

    def is_due(self):
        return False

    def take(self, *state, **how):
        pass

    finish = check_disk = take


def label_run(name, snapshot=None, **options):
    found = OBJECTIVES[name]
    data, _ = digits()
    data = data.rows(np.arange(400))
    few = {
        "epochs": 3,
        "threads": 1,
        "batch_size": None if found.kind == "proximal" else 50,
        **options,
    }
    few = {name: value for name, value in few.items() if value is not None}
    objective = found(found.Settings.from_options(own(found, {"warm_up": 1.0})))
    checkpoints = None if snapshot is None else FromSnapshot(snapshot)
    trained = classification.train(
        data, objective, ClassifySettings.from_options(few), checkpoints=checkpoints
    )
    return trained.classifier.arrays, trained.outcome


def same(ours, theirs):
    assert ours.keys() == theirs.keys()
    for name in ours:
        np.testing.assert_array_equal(ours[name], theirs[name], err_msg=name)


def assert_resumes(run, name, stop_after, steps, threads=(1, 1, 1), **options):
    """A run that is stopped after some steps and resumed, perhaps by other threads, ends as one
    that was not stopped.
    """
    each = [options | {"threads": n} for n in threads]
    whole, there = run(name, **each[0])
    stop_after(steps)
    part, here = run(name, **each[1])
    assert not np.array_equal(part["output"], whole["output"])
    snapshot = from_disk(here.state)
    stop_after(None)
    rest, end = run(name, snapshot, **each[2])
    same(rest, whole)
    return here, end, there


def from_disk(state):
    """The values of a state, as a checkpoint of it has them."""
    with tempfile.TemporaryDirectory() as folder:
        writing = Checkpoints(
            Path(folder, "out"), Request("train", {}, math.inf, False), False, Silent()
        )
        writing.take(state, wait=True)
        values = writing._read(*writing.states(), state)["values"]
        writing.remove()
    return values


@pytest.mark.parametrize("name", OBJECTIVES)
def test_word_vectors_go_on_from_a_snapshot(name, stop_after):
    here, end, there = assert_resumes(word_run, name, stop_after, 4)
    assert here.epochs == pytest.approx(4)
    assert (end.tally, end.curve[0]["loss"], end.final_loss) == (
        there.tally,
        there.curve[0]["loss"],
        there.final_loss,
    )


@pytest.mark.parametrize("name", REPRESENTATIVES)
def test_classifiers_go_on_from_a_snapshot(name, stop_after):
    chunks = label_run(name, epochs=1)[1].state.values["trainer.next_step"].read()
    assert_resumes(label_run, name, stop_after, 2 * chunks + (1 if chunks > 1 else 0))


@pytest.mark.parametrize(
    "options",
    [
        {"optimizer": "mixture"},
        {"optimizer": "rowwise-adagrad"},
        {"optimizer": "sgd", "max_norm": 1.0},
    ],
)
def test_weight_decay_goes_on_where_it_was(options, stop_after):
    assert_resumes(label_run, "ove", stop_after, 2, l2=1e-3, **options)


def test_what_validation_has_seen_is_part_of_the_state(stop_after):
    whole, there = label_run("softmax", **STOPS_EARLY)
    history = there.state.values["history.epochs"].read()
    assert 2 < len(history) < 30, "should have ended early"
    # in the second pass
    stop_after(there.state.values["trainer.next_step"].read() // len(history) + 1)
    _, here = label_run("softmax", **STOPS_EARLY)
    snapshot = here.state.snapshot()
    assert len(snapshot["history.epochs"]) == 1
    stop_after(None)
    rest, end = label_run("softmax", snapshot, **STOPS_EARLY)
    same(rest, whole)
    ours = end.state.values["history.epochs"].read()
    assert [each | {"seconds": 0} for each in ours] == [each | {"seconds": 0} for each in history]
    _, again = label_run("softmax", there.state.snapshot(), **STOPS_EARLY)  # which has ended
    assert again.epochs == there.epochs < 30


class Cut(Silent):
    """Presses Ctrl-C at the seventh report of a loss, which is within an iteration."""

    stage, reports = "", 0

    def start(self, title, total, unit, done=0.0):
        self.stage = title

    def update(self, done, **facts):
        self.reports += self.stage == "training" and "loss" in facts
        if self.reports == 7:
            raise KeyboardInterrupt


@pytest.mark.parametrize(("name", "steps"), [("softmax", 2), ("ldgs", 2), ("softmax", None)])
def test_counts_of_pairs_go_on_from_a_snapshot(name, steps, stop_after):
    """Or from the beginning of an iteration that was cut short."""

    def run(snapshot=None, progress=SILENT):
        config = configure(name, FEW | {"epochs": 5, "warm_start": "none"}, is_collapsed=True)
        return collapsed.train(sentences(), config, snapshot=snapshot, progress=progress)

    whole = run().vectors
    stop_after(steps)
    part = run(progress=Cut() if steps is None else SILENT)
    assert isinstance(part.outcome.interrupted_by, KeyboardInterrupt)
    assert 1 < len(part.vectors.facts["history"]) < len(whole.facts["history"])
    snapshot = part.outcome.state.snapshot()
    stop_after(None)
    rest = run(snapshot).vectors
    same(rest.arrays, whole.arrays)
    for ours, theirs in zip(rest.facts["history"], whole.facts["history"], strict=True):
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
    state, one = TrainState(), np.zeros(3)
    state.add_array("one", one)
    with pytest.raises(ValueError, match="other values: two"):
        state.restore({"one": np.ones(3), "two": 2})
    with pytest.raises(ValueError, match=r"one: shape \(4,\) where the run has \(3,\)"):
        state.restore({"one": np.ones(4)})
    assert not one.any()
    with pytest.raises(ValueError, match="has a value one already"):
        state.add_array("one", one)
