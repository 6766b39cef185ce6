"""Small runs of words and labels that are interrupted and resumed."""

import functools
import math
import tempfile
from pathlib import Path

import numpy as np

from embedx.classification.settings import ClassifySettings
from embedx.labeled.digits import digits
from embedx.objectives import OBJECTIVES
from embedx.settings import settings_of
from embedx.skipgram.configuration import configure
from embedx.training.checkpoint import Checkpoints
from embedx.training.state_file import read_state
from tests.support import word_training
from tests.support.checkpoints import checkpoints_of
from tests.support.label_training import train

FEW = {"dim": 8, "threads": 1, "window": 2, "min_count": 1, "sample": 0}


def sentences():
    """60 sentences of 50 words, of 40 different ones."""
    rng = np.random.default_rng(5)
    common = 1 / np.arange(1, 41)
    return [[f"w{k}" for k in rng.choice(40, 50, p=common / common.sum())] for _ in range(60)]


def objective_settings(objective, options):
    """The options that are settings of the objective's own."""
    return {
        name: value for name, value in options.items() if name in settings_of(objective.Settings)
    }


def word_run(name, snapshot=None, **options):
    short = FEW | {"epochs": 6} | objective_settings(OBJECTIVES[name], {"warm_up": 2.0}) | options
    trained = word_training.train(sentences(), configure(name, short), snapshot=snapshot)
    return trained.model.arrays, trained.outcome


class FromSnapshot(Checkpoints):
    """Checkpoints that resume from a snapshot, and write nothing."""

    is_resuming = True
    resume = True
    every = math.inf

    def __init__(self, snapshot):
        self.snapshot = snapshot

    def restore(self, state):
        state.restore(self.snapshot)

    def is_due(self):
        return False

    def take(self, *state, **options):
        pass

    finish = check_disk = take


@functools.cache
def pictures():
    """400 pictures of digits."""
    return digits()[0].rows(np.arange(400))


def label_run(name, snapshot=None, **options):
    objective_class = OBJECTIVES[name]
    short = {
        "epochs": 3,
        "threads": 1,
        "batch_size": None if objective_class.step == "proximal" else 50,
        **options,
    }
    short = {name: value for name, value in short.items() if value is not None}
    objective = objective_class(
        objective_class.Settings.from_options(objective_settings(objective_class, {"warm_up": 1.0}))
    )
    checkpoints = None if snapshot is None else FromSnapshot(snapshot)
    settings = ClassifySettings.from_options(short)
    trained = train(pictures(), objective, settings, checkpoints=checkpoints)
    return trained.classifier.arrays, trained.outcome


def same(value, expected):
    assert value.keys() == expected.keys()
    for name in value:
        np.testing.assert_array_equal(value[name], expected[name], err_msg=name)


def assert_resumes(run, name, stop_after, steps, threads=(1, 1, 1), **options):
    """A run that is stopped after some steps and resumed, perhaps by other threads, ends as one
    that was not stopped.
    """
    options_of_run = [options | {"threads": n} for n in threads]
    expected, uninterrupted = run(name, **options_of_run[0])
    stop_after(steps)
    partial, stopped = run(name, **options_of_run[1])
    assert not np.array_equal(partial["output"], expected["output"])
    snapshot = from_disk(stopped.state)
    stop_after(None)
    resumed_arrays, resumed = run(name, snapshot, **options_of_run[2])
    same(resumed_arrays, expected)
    return stopped, resumed, uninterrupted


def from_disk(state):
    """The values of a state, as a checkpoint of it has them."""
    with tempfile.TemporaryDirectory() as folder:
        writing = checkpoints_of(Path(folder, "out"))
        writing.take(state, wait=True)
        (file,) = writing.states()
        values = read_state(file, state).values
        writing.remove()
    return values
